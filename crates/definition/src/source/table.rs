//! `table`: the rows of a table or view of the database.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{KindSpec, RequiredRight, SourceKind, SourceSpec};
use crate::{DocumentType, Fields};

pub(super) const KIND: SourceKind = SourceKind {
    name: "table",
    manifest_type: "Table",
    comment: "the rows of a table or view",
    keys: &[
        "relation",
        "idColumns",
        "contentColumns",
        "titleColumn",
        "metadataColumns",
        "filter",
        "sync",
        "documentType",
    ],
    released_names: &[],
    parse: |fields| TableSpec::parse(fields).map(SourceSpec::Table),
};

/// Maximum number of columns of a table of PostgreSQL.
const MAX_COLUMNS: usize = 1_600;
/// Maximum number of metadata columns: each is two of the arguments of one function.
const MAX_METADATA_COLUMNS: usize = 50;

/// Columns that a user does not name are empty here and chosen when the source is created. The
/// complete spec is stored ([`TableSpec::to_json`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// As SQL writes it: `blog.posts`, `"Weird Schema"."Tab.le"`.
    pub relation: String,
    /// Identify a row.
    pub id_columns: Vec<String>,
    pub content_columns: Vec<String>,
    pub title_column: Option<String>,
    pub metadata_columns: Vec<String>,
    /// A metadata filter (see the crate `rag-filter`) whose keys are columns. It selects the rows
    /// that are documents.
    pub filter: Option<Value>,
    pub sync: TableSync,
    /// The type of the text in the content columns.
    pub document_type: DocumentType,
}

/// How a run finds the rows that have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableSync {
    /// It reads all rows and compares hashes.
    #[default]
    Scan,
    /// Triggers on the table record the keys.
    Trigger,
}

impl TableSync {
    const ALL: [Self; 2] = [Self::Scan, Self::Trigger];

    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Trigger => "trigger",
        }
    }
}

impl TableSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let relation = fields.required_text("relation").map(str::to_owned);
        let id_columns = columns(fields, "idColumns", MAX_COLUMNS);
        let content_columns = columns(fields, "contentColumns", MAX_COLUMNS);
        let metadata_columns = columns(fields, "metadataColumns", MAX_METADATA_COLUMNS);
        let title_column = fields.text("titleColumn").map(str::to_owned);
        let filter = fields.get("filter").cloned();
        let sync = fields.word(
            "sync",
            &TableSync::ALL.map(TableSync::name),
            "a kind of sync",
        );
        let sync = TableSync::ALL
            .into_iter()
            .find(|one| Some(one.name()) == sync);
        let document_type = document_type(fields);
        Some(Self {
            relation: relation?,
            id_columns,
            content_columns,
            title_column,
            metadata_columns,
            filter,
            sync: sync.unwrap_or_default(),
            document_type,
        })
    }

    /// Returns the spec as it is stored, in the names of the documentation.
    pub fn to_json(&self) -> Value {
        let mut spec = json!({
            "relation": self.relation,
            "idColumns": self.id_columns,
            "contentColumns": self.content_columns,
            "titleColumn": self.title_column,
            "metadataColumns": self.metadata_columns,
            "sync": self.sync.name(),
            "documentType": self.document_type.name(),
        });
        if let Some(filter) = &self.filter {
            spec["filter"] = filter.clone();
        }
        spec
    }
}

impl KindSpec for TableSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        "relation".into()
    }

    /// Postgres checks rights on the relation with each statement.
    fn required_right(&self) -> RequiredRight<'_> {
        RequiredRight::None
    }

    fn uses_network(&self) -> bool {
        false
    }
}

/// Reads at most `max` distinct column names, or a single one.
fn columns(fields: &Fields<'_>, key: &str, max: usize) -> Vec<String> {
    let columns = match fields.get(key) {
        Some(Value::String(_)) => fields.text(key).map(|column| vec![column.to_owned()]),
        _ => fields.texts(key),
    };
    let columns = columns.unwrap_or_default();
    if columns.len() > max {
        fields.problem(key, format!("must have at most {max} columns"));
        return columns;
    }
    let mut seen = HashSet::new();
    for (i, column) in columns.iter().enumerate() {
        if !seen.insert(column) {
            let problem = format!("repeats the column \"{column}\"");
            fields.problem(format!("{key}[{i}]"), problem);
        }
    }
    columns
}

fn document_type(fields: &Fields<'_>) -> DocumentType {
    let is_text = |t: &DocumentType| !t.is_binary();
    let key = "documentType";
    let Some(name) = fields.text(key) else {
        return DocumentType::Markdown;
    };
    if let Some(known) = DocumentType::parse(name).filter(is_text) {
        return known;
    }
    let types = DocumentType::ALL.into_iter().filter(is_text);
    let types: Vec<_> = types.map(DocumentType::name).collect();
    let problem = format!("\"{name}\" is not a document type of text");
    fields.problem_with(key, problem, format!("Types: {}.", types.join(", ")));
    DocumentType::Markdown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::source::{SourceSpec, tests::refuses};

    #[test]
    fn a_table_has_columns() {
        let spec = json!({
            "relation": "blog.posts",
            "idColumns": "id",
            "contentColumns": ["summary", "body"],
            "titleColumn": "title",
            "metadataColumns": ["author"],
            "filter": {"public": true},
            "sync": "trigger",
            "documentType": "html",
        });
        let parsed = SourceSpec::parse("table", &spec).unwrap();
        let SourceSpec::Table(table) = &parsed else {
            panic!("a table")
        };
        assert_eq!(table.id_columns, ["id"]);
        assert_eq!(
            SourceSpec::parse("table", &table.to_json()).unwrap(),
            parsed,
            "what is stored can be parsed"
        );
    }

    #[test]
    fn the_number_of_columns_is_limited_to_that_of_a_table() {
        let named = |n: usize| (0..n).map(|i| format!("c{i}")).collect::<Vec<_>>();
        for (key, max) in [
            ("idColumns", 1_600),
            ("contentColumns", 1_600),
            ("metadataColumns", 50),
        ] {
            let spec = json!({"relation": "a", key: named(max)});
            assert!(SourceSpec::parse("table", &spec).is_ok(), "{key}");
            let too_many = format!("spec.{key}: must have at most {max} columns");
            refuses(
                "table",
                json!({"relation": "a", key: named(max + 1)}),
                &too_many,
            );
            // one problem, not one for each repeated name
            refuses(
                "table",
                json!({"relation": "a", key: vec!["c"; 200_000]}),
                &too_many,
            );
            let twice = [named(max - 1), named(1)].concat();
            let expected = format!("spec.{key}[{}]: repeats the column \"c0\"", max - 1);
            refuses("table", json!({"relation": "a", key: twice}), &expected);
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        refuses(
            "table",
            json!({"idColumns": ["id"]}),
            "spec.relation: is missing",
        );
        for (key, value, expected) in [
            (
                "sync",
                json!("poll"),
                "spec.sync: \"poll\" is not a kind of sync",
            ),
            (
                "documentType",
                json!("pdf"),
                "spec.documentType: \"pdf\" is not a document type of text",
            ),
            (
                "contentColumns",
                json!(["b", "b"]),
                "spec.contentColumns[1]: repeats the column \"b\"",
            ),
            (
                "idColumns",
                json!(3),
                "spec.idColumns: must be an array of strings, not a number",
            ),
        ] {
            refuses("table", json!({"relation": "a", key: value}), expected);
        }
        let other = json!({"relation": "a", "id_column": "id"});
        refuses("table", other, "spec.id_column: is not a known field");
    }
}
