//! The parts that the statements of [`super::rows`] are built from.

use std::collections::BTreeSet;

use pgrx::spi::quote_identifier;

use super::relation::{RelationColumn, SourceRelation};

/// Parts of the statements. What they select has the field's name: `hash`, and so on.
pub struct SqlParts {
    pub relation: String,
    /// The columns that are selected, other than those of the filter.
    pub columns: String,
    pub hash: String,
    pub bytes: String,
    pub title: String,
    /// `text0`, `text1`, ...
    pub texts: Vec<String>,
    pub metadata: String,
    pub row_key: String,
    /// An object of the columns that the filter reads.
    pub filtered: String,
}

impl SqlParts {
    pub fn new(
        relation: &SourceRelation,
        ids: &[RelationColumn],
        title: Option<&RelationColumn>,
        contents: &[&RelationColumn],
        metadata: &[&RelationColumn],
        filtered: &[&RelationColumn],
    ) -> Self {
        let hashed: Vec<&RelationColumn> = title
            .into_iter()
            .chain(contents.iter().copied())
            .chain(metadata.iter().copied())
            .collect();
        let selected: BTreeSet<String> = ids
            .iter()
            .chain(hashed.iter().copied())
            .map(reference)
            .collect();
        let text = |column: &RelationColumn| column.to_text(&reference(column));
        let values: Vec<String> = hashed.iter().copied().map(reference).collect();
        Self {
            relation: relation.quoted(),
            columns: selected.into_iter().collect::<Vec<_>>().join(", "),
            // the definition is the first parameter of every statement
            hash: format!(
                "encode(sha256(convert_to(ROW($1::text, {})::text, 'UTF8')), 'hex') AS hash",
                values.join(", ")
            ),
            bytes: contents
                .iter()
                .map(|c| format!("coalesce(octet_length({}), 0)::bigint", text(c)))
                .collect::<Vec<_>>()
                .join(" + ")
                + " AS bytes",
            title: title.map_or_else(|| "NULL::text".into(), text) + " AS title",
            texts: (contents.iter().enumerate())
                .map(|(i, c)| format!("{} AS text{i}", text(c)))
                .collect(),
            metadata: object(metadata.iter().copied()) + " AS metadata",
            row_key: object(ids) + " AS row_key",
            filtered: object(filtered.iter().copied()),
        }
    }
}

/// Returns a column of the relation as it is written in a statement.
pub fn reference(column: &RelationColumn) -> String {
    format!("r.{}", quote_identifier(&column.name))
}

/// Returns the expression for a JSON object of columns by name.
fn object<'a>(columns: impl IntoIterator<Item = &'a RelationColumn>) -> String {
    let members: Vec<String> = columns
        .into_iter()
        .map(|column| {
            format!(
                "{}, {}",
                pgrx::spi::quote_literal(&column.name),
                column.to_json(&reference(column))
            )
        })
        .collect();
    format!("jsonb_build_object({})", members.join(", "))
}
