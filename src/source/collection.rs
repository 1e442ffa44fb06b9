//! Changes of the settings of collections.

use serde_json::{Map, Value};

use super::retriever::follow_retriever;
use crate::{
    catalog::{
        collections::{self, Collection},
        keyword_index, placement,
        wanted::{self, Change},
    },
    error::Error,
    models::users,
};

/// New settings of a collection. None leaves a value as it is.
#[derive(Debug, Default)]
pub struct SettingsChanges<'a> {
    pub retriever: Option<&'a str>,
    /// 0: the default.
    pub chunk_size: Option<i32>,
    /// -1: the default.
    pub chunk_overlap: Option<i32>,
    pub chunk_unit: Option<&'a str>,
    /// None in it: all keys.
    pub metadata_whitelist: Option<Option<Vec<String>>>,
    /// With its schema.
    pub text_config: Option<String>,
    pub title_weight: Option<i32>,
    /// Empty: the model of the retriever, or the default one.
    pub model: Option<&'a str>,
}

/// Changes the settings of a collection, whose row is locked. Those that describe its chunks wait
/// for a rebuild, if it has any.
///
/// # Errors
/// The retriever does not exist, or a value is out of range.
pub fn change_settings(collection: &Collection, changes: SettingsChanges<'_>) -> Result<(), Error> {
    let mut values = Map::new();
    let mut put = |column: &str, value: Value| values.insert(column.into(), value);
    let or_default = |value: i32, default: i32| {
        if value == default {
            Value::Null
        } else {
            value.into()
        }
    };
    if let Some(size) = changes.chunk_size {
        put("chunk_size", or_default(size, 0));
    }
    if let Some(overlap) = changes.chunk_overlap {
        put("chunk_overlap", or_default(overlap, -1));
    }
    if let Some(unit) = changes.chunk_unit {
        put("chunk_unit", unit.into());
    }
    if let Some(keys) = changes.metadata_whitelist {
        put("metadata_whitelist", keys.into());
    }
    if let Some(config) = changes.text_config {
        put("text_config", config.into());
    }
    if let Some(weight) = changes.title_weight {
        keyword_index::check_title_weight(weight)?;
        put("title_weight", weight.into());
    }
    if let Some(model) = changes.model {
        put(
            "embedding_model",
            Some(model).filter(|name| !name.is_empty()).into(),
        );
    }
    if ["chunk_size", "chunk_overlap", "chunk_unit"]
        .iter()
        .any(|column| values.contains_key(*column))
    {
        check_splitting(collection, &values)?;
    }
    if let Some(retriever) = changes.retriever {
        let is_followed = follow_retriever(collection, retriever)?;
        let change = Map::from_iter([("retriever".to_owned(), Value::from(retriever))]);
        if is_followed {
            wanted::set(collection, change)?;
            placement::check(&Collection::get(collection.name.as_str())?)?;
        } else {
            values.extend(change)
        }
    }
    let change = if values.is_empty() {
        Change::Done
    } else {
        wanted::change(collection, values)?
    };
    let wanted = Collection::wanted(collection.name.as_str())?;
    if wanted.wanted_model() != collection.wanted_model() {
        users::require_use_of(&wanted.retriever, wanted.embedding_model.as_deref())?;
    }
    placement::check_wanted(&wanted)?;
    if change == Change::Waiting {
        pgrx::notice!(
            "changes of collection \"{name}\" take effect with CALL rag_rebuild_collection({})",
            pgrx::spi::quote_literal(collection.name.as_str()),
            name = collection.name,
        );
    }
    Ok(())
}

/// Checks the sizes of chunks that result from changes.
fn check_splitting(collection: &Collection, changes: &Map<String, Value>) -> Result<(), Error> {
    let wanted = wanted::sizes(collection.name.as_str())?;
    let number = |column: &str, present: Option<i32>| match changes.get(column) {
        None => present,
        Some(value) => value.as_i64().map(|n| n as i32),
    };
    let unit = changes
        .get("chunk_unit")
        .and_then(Value::as_str)
        .unwrap_or(&wanted.unit);
    collections::checked_splitting(
        number("chunk_size", wanted.size),
        number("chunk_overlap", wanted.overlap),
        unit,
    )?;
    Ok(())
}
