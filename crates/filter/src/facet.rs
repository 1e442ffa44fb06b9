//! The values that chunks have under a key, to be counted.

use crate::{
    error::Result,
    key::Key,
    sql::{Param, Sql},
};

/// A key whose values are counted.
///
/// ```
/// let facet = rag_filter::Facet::parse("product", "keys[1]")?;
/// assert!(facet.values(1).text.contains("c.metadata -> $1::text"));
/// # Ok::<(), rag_filter::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facet {
    name: String,
    key: Key,
}

impl Facet {
    /// Reads a key, which means what it means in a filter. `path` is where the caller wrote it.
    ///
    /// # Errors
    /// It is empty, or has a character that Postgres does not store.
    pub fn parse(name: &str, path: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            key: Key::parse(name, path)?,
        })
    }

    /// Returns the key as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a query of the values that `rag.chunks AS c` has, as texts in the column `value`.
    /// Each comes once. Elements of an array are values of their own, and null is none.
    pub fn values(&self, first_param: usize) -> Sql {
        let of_column =
            |column: &str| format!("SELECT {column} AS value WHERE {column} IS NOT NULL");
        let (text, params) = match &self.key {
            Key::Text(column) => (of_column(&format!("c.{column}")), vec![]),
            Key::DocumentType => (of_column("c.document_type::text"), vec![]),
            Key::SourceFile => (of_column("regexp_replace(c.uri, '^.*[/#]', '')"), vec![]),
            Key::Integer(column) | Key::Uuid(column) | Key::Time(column) => {
                (of_column(&format!("c.{column}::text")), vec![])
            }
            Key::Texts(column) => {
                let elements =
                    format!("SELECT DISTINCT value FROM unnest(c.{column}) AS e (value)");
                (format!("{elements} WHERE value IS NOT NULL"), vec![])
            }
            Key::Metadata(name) => {
                let found = format!("(c.metadata -> ${first_param}::text)");
                let text = format!(
                    "SELECT DISTINCT e.value #>> '{{}}' AS value
                     FROM jsonb_array_elements(CASE jsonb_typeof{found}
                              WHEN 'array' THEN {found} ELSE jsonb_build_array{found} END)
                          AS e (value)
                     WHERE jsonb_typeof(e.value) <> 'null'"
                );
                (text, vec![Param::Text(name.clone())])
            }
        };
        Sql { text, params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_filters() {
        let values = |name| Facet::parse(name, "keys[1]").map(|facet| facet.values(4));
        let category = values("category").unwrap();
        assert_eq!(
            category.text,
            "SELECT c.category AS value WHERE c.category IS NOT NULL"
        );
        assert_eq!(category.params, []);
        let metadata = values("metadata.category").unwrap();
        assert!(metadata.text.contains("$4::text"));
        assert_eq!(metadata.params, [Param::Text("category".to_owned())]);
        for refused in ["", "metadata.", "a\0b"] {
            let error = values(refused).unwrap_err();
            assert!(error.to_string().contains("keys[1]"), "{error}");
        }
    }
}
