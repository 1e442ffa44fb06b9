//! Columns `display_name`, `labels` and `annotations`: what a manifest's metadata note.

use pgrx::{JsonB, datum::DatumWithOid};
use rag_manifest::Notes;
use serde_json::{Map, Value};

use crate::{error::Error, pg::spi::Row};

/// Reads the three columns, of which `first` is the number of the first.
pub fn read(row: &Row<'_, '_>, first: usize) -> Result<Notes, Error> {
    let map = |column| -> Result<Map<String, Value>, Error> {
        let JsonB(value) = row.required(column)?;
        Ok(value.as_object().cloned().unwrap_or_default())
    };
    Ok(Notes {
        display_name: row.get(first)?,
        labels: map(first + 1)?,
        annotations: map(first + 2)?,
    })
}

/// The three values as parameters of a statement.
pub fn parameters(notes: &Notes) -> [DatumWithOid<'_>; 3] {
    let map = |map: &Map<String, Value>| JsonB(Value::Object(map.clone()));
    [
        notes.display_name.as_deref().into(),
        map(&notes.labels).into(),
        map(&notes.annotations).into(),
    ]
}
