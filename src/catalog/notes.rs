//! The columns `display_name`, `labels` and `annotations`: metadata of manifests.

use pgrx::{JsonB, datum::DatumWithOid};
use rag_definition::Notes;
use serde_json::{Map, Value};

use crate::{error::Error, pg::spi::Row};

/// Reads the three columns.
pub fn read(row: &Row<'_, '_>) -> Result<Notes, Error> {
    let map = |column: &str| -> Result<Map<String, Value>, Error> {
        let JsonB(value) = row.required(column)?;
        Ok(value.as_object().cloned().unwrap_or_default())
    };
    Ok(Notes {
        display_name: row.get("display_name")?,
        labels: map("labels")?,
        annotations: map("annotations")?,
    })
}

/// Returns the three values as parameters of a statement.
pub fn parameters(notes: &Notes) -> [DatumWithOid<'_>; 3] {
    let map = |map: &Map<String, Value>| JsonB(Value::Object(map.clone()));
    [
        notes.display_name.as_deref().into(),
        map(&notes.labels).into(),
        map(&notes.annotations).into(),
    ]
}
