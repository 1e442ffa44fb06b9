//! A table or view that becomes a source.

use pgrx::pg_sys;
use rag_protocol::spec::{TableSpec, TableSync};

use super::{
    changes,
    relation::{self, Relation},
    rows::Rows,
    trigger::Arguments,
};
use crate::{
    catalog::{name::Name, sources::Identity},
    error::Error,
};

pub struct NewTable {
    relation: Relation,
    /// With all that the user left out.
    pub spec: TableSpec,
    given: TableSpec,
    rows: Rows,
}

impl NewTable {
    /// Picks what the user left out, and tries whether the owner of the source can read the rows.
    /// `key`: the one of the spec that is being looked at, which an error is about.
    ///
    /// # Errors
    /// There is no such relation or column, or the owner may not read it, or not create the
    /// triggers that it needs.
    pub fn of(given: TableSpec, owner: pg_sys::Oid, key: &mut &'static str) -> Result<Self, Error> {
        *key = "relation";
        // the caller's search_path says which is meant, the owner's rights which columns can be
        // picked
        let relation = Relation::get(relation::resolve(&given.relation)?, &given.relation, owner)?;
        let spec = relation.complete(given.clone(), key)?;
        *key = "filter";
        let rows = Rows::plan(&relation, &spec)?;
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

    pub fn identity(&self) -> Identity {
        self.relation.identity()
    }

    /// Says what was picked.
    pub fn tell(&self) {
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

    /// Installs the triggers, where changes are to be noted by such, in the place of any that are
    /// there for a source of this name.
    pub fn prepare(&self, source: &Name) -> Result<(), Error> {
        // a run of a dropped source of this name may have left something
        changes::forget(source, Some(self.relation.oid))?;
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

/// The arguments that the source's triggers have.
///
/// # Errors
/// The filter is not well-formed.
pub fn arguments(source: &str, spec: &TableSpec, rows: &Rows) -> Result<Arguments, Error> {
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
    Ok(Arguments::new(source, &ids, &columns))
}
