//! Why a search found nothing: what its filter asks of metadata that no document of the collection
//! has. It is looked into only where nothing was found, with the caller's rights.

use std::collections::HashMap;

use pgrx::{PgSqlErrorCode, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_filter::Usage;

use super::Request;
use crate::{error::Error, pg::spi::query_as_caller};

/// Keys of a filter that are looked into.
const MAX_KEYS: usize = 20;
/// Documents whose keys may be meant instead, and how many are named.
const SAMPLE: i64 = 1000;
const NAMED: usize = 3;

/// Tells the caller of keys that no document has.
///
/// # Errors
/// A value is of another type than all that are stored. Where a least score may be the reason that
/// nothing was found, that is not looked at.
pub fn explain(request: &Request) -> Result<(), Error> {
    let usages: Vec<&Usage> = request.filter.usages().iter().take(MAX_KEYS).collect();
    if usages.is_empty() {
        return Ok(());
    }
    let collection = request.collection.name.as_str();
    let stored = stored_types(collection, &usages)?;
    if request.threshold.is_none_or(|threshold| threshold == 0.0) {
        for usage in &usages {
            check_type(
                collection,
                usage,
                stored.get(&usage.key).map_or(&[], Vec::as_slice),
            )?;
        }
    }
    let missing: Vec<&&Usage> = usages
        .iter()
        .filter(|usage| !stored.contains_key(&usage.key))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let Some(known) = known_keys(collection)? else {
        return Ok(());
    };
    for usage in missing {
        tell_missing(collection, usage, &known);
    }
    Ok(())
}

/// The types of the values that are stored under the keys. All chunks of a document have its
/// metadata.
fn stored_types(
    collection: &str,
    usages: &[&Usage],
) -> Result<HashMap<String, Vec<String>>, Error> {
    let keys: Vec<&str> = usages.iter().map(|usage| usage.key.as_str()).collect();
    let found = query_as_caller(
        "SELECT k.key, pg_catalog.array_agg(DISTINCT pg_catalog.jsonb_typeof(c.metadata -> k.key))
         FROM rag.chunks AS c, pg_catalog.unnest($2) AS k (key)
         WHERE c.collection = $1 AND c.chunk_index = 0 AND c.metadata ? k.key
         GROUP BY k.key",
        &[collection.into(), keys.into()],
        |row| Ok((row.required(1)?, row.required(2)?)),
    )?;
    Ok(found.into_iter().collect())
}

fn check_type(collection: &str, usage: &Usage, stored: &[String]) -> Result<(), Error> {
    let stored: Vec<&str> = stored
        .iter()
        .map(String::as_str)
        .filter(|name| *name != "null")
        .collect();
    let fits = |name: &&str| usage.types.is_empty() || usage.types.contains(name);
    if stored.is_empty() || stored.iter().any(fits) {
        return Ok(());
    }
    let Usage {
        key, value_path, ..
    } = usage;
    let (wanted, found) = (with_article(&usage.types), with_article(&stored));
    let message = format!(
        "invalid filter: {value_path}: each \"{key}\" in collection \"{collection}\" is {found}, and the filter asks \
         for {wanted}"
    );
    let hint = match stored.as_slice() {
        ["array"] => "For the elements of an array use the operator \"contains\".".to_string(),
        _ => format!("Give {found}."),
    };
    Err(Error::invalid_parameter(message).hint(hint))
}

fn with_article(types: &[&str]) -> String {
    let named: Vec<&str> = types
        .iter()
        .map(|name| match *name {
            "boolean" => "a boolean",
            "number" => "a number",
            "string" => "a string",
            "array" => "an array",
            "object" => "an object",
            other => other,
        })
        .collect();
    named.join(" or ")
}

/// Metadata keys of documents of the collection; `None`: there are no documents.
fn known_keys(collection: &str) -> Result<Option<Vec<String>>, Error> {
    let found = query_as_caller(
        "SELECT pg_catalog.count(*) > 0,
                coalesce((SELECT pg_catalog.array_agg(DISTINCT k.key ORDER BY k.key)
                          FROM (SELECT metadata FROM rag.chunks WHERE collection = $1 AND chunk_index = 0 LIMIT $2) AS m,
                               pg_catalog.jsonb_object_keys(m.metadata) AS k (key)), '{}')
         FROM (SELECT FROM rag.chunks WHERE collection = $1 LIMIT 1) AS c",
        &[collection.into(), SAMPLE.into()],
        |row| Ok((row.required::<bool>(1)?, row.required::<Vec<String>>(2)?)),
    )?;
    Ok(found
        .into_iter()
        .find_map(|(has_documents, keys)| has_documents.then_some(keys)))
}

fn tell_missing(collection: &str, usage: &Usage, known: &[String]) {
    let key = &usage.key;
    let message =
        format!("no document of collection \"{collection}\" has the metadata key \"{key}\"");
    let mut report = ErrorReport::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        message,
        "rag",
    )
    .set_detail(format!("The filter names it at {}.", usage.key_path));
    let near = nearest(key, known);
    if !near.is_empty() {
        report = report.set_hint(format!("Nearest known keys: {}.", near.join(", ")));
    }
    report.report(PgLogLevel::NOTICE);
}

/// The keys that are written almost alike, nearest first.
fn nearest<'a>(key: &str, known: &'a [String]) -> Vec<&'a str> {
    let columns = rag_filter::columns().map(|name| -> &'a str { name });
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(String::as_str)
        .chain(columns)
        .map(|name| {
            (
                strsim::osa_distance(&key.to_lowercase(), &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(NAMED).collect()
}
