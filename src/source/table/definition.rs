//! The definition of a source that reads a table or view.

use pgrx::pg_sys;
use rag_definition::source::{TableSpec, TableSync};

use super::{
    changes,
    relation::{self, SourceRelation},
    rows::RowReader,
    trigger::TriggerArguments,
};
use crate::{
    catalog::{name::Name, sources::RelationIdentity},
    error::Error,
};

pub struct NewTableSource {
    relation: SourceRelation,
    /// The spec, completed with what the user left out.
    pub spec: TableSpec,
    given: TableSpec,
    rows: RowReader,
}

impl NewTableSource {
    /// Chooses what the user left out, and checks that the owner of the source can read the rows.
    /// `key` is set to the key of the spec that is being checked; an error is about that key.
    ///
    /// # Errors
    /// The relation or a column does not exist, or the owner may not read it or create the triggers
    /// that it needs.
    pub fn of(given: TableSpec, owner: pg_sys::Oid, key: &mut &'static str) -> Result<Self, Error> {
        *key = "relation";
        // the caller's search_path resolves the name; the owner's rights limit the choice of
        // columns
        let relation =
            SourceRelation::get(relation::resolve(&given.relation)?, &given.relation, owner)?;
        let spec = relation.complete(given.clone(), key)?;
        *key = "filter";
        let rows = RowReader::plan(&relation, &spec)?;
        *key = "relation";
        let rows = rows.for_owner(&relation, owner)?;
        rows.check()?;
        if spec.sync == TableSync::Trigger {
            *key = "sync";
            changes::check_may_create_triggers(&relation, owner)?;
        }
        Ok(Self {
            relation,
            spec,
            given,
            rows,
        })
    }

    pub fn identity(&self) -> RelationIdentity {
        self.relation.identity()
    }

    /// Reports the choices as a NOTICE.
    pub fn report_choices(&self) {
        let (given, spec) = (&self.given, &self.spec);
        let list = |columns: &[String]| columns.join(", ");
        let mut picked = vec![];
        if given.id_columns.is_empty() {
            picked.push(format!("rows by {}", list(&spec.id_columns)));
        }
        if given.content_columns.is_empty() {
            picked.push(format!("text from {}", list(&spec.content_columns)));
        }
        if let (None, Some(title)) = (&given.title_column, &spec.title_column) {
            picked.push(format!("titles from {title}"));
        }
        if !picked.is_empty() {
            pgrx::notice!("{}: {}", spec.relation, picked.join(", "));
        }
    }

    /// Creates the triggers if the spec asks for them. Replaces those of an earlier source of this
    /// name.
    pub fn prepare(&self, source: &Name) -> Result<(), Error> {
        // a run of a dropped source of this name may have left rows
        changes::remove_tracking(source, Some(self.relation.oid))?;
        match self.spec.sync {
            TableSync::Scan => Ok(()),
            TableSync::Trigger => {
                let arguments = crate::source::table::definition::arguments(
                    source.as_str(),
                    &self.spec,
                    &self.rows,
                )?;
                changes::create_triggers(source, &self.relation, &arguments)
            }
        }
    }
}

/// Returns the arguments of the source's triggers.
///
/// # Errors
/// The filter is not well-formed.
pub fn arguments(
    source: &str,
    spec: &TableSpec,
    rows: &RowReader,
) -> Result<TriggerArguments, Error> {
    let columns = spec
        .content_columns
        .iter()
        .chain(&spec.title_column)
        .chain(&spec.metadata_columns)
        .map(String::as_str);
    let mut columns: Vec<&str> = columns.chain(rows.filter_columns()).collect();
    columns.sort_unstable();
    columns.dedup();
    let ids: Vec<&str> = spec.id_columns.iter().map(String::as_str).collect();
    Ok(TriggerArguments::new(source, &ids, &columns))
}
