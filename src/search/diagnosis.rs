//! Explains an empty result: metadata keys and types of the filter that no document of the
//! collection has. Runs with the caller's rights, and only if a search found nothing.

use std::collections::HashMap;

use pgrx::{PgSqlErrorCode, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_filter::Usage;

use super::SearchRequest;
use crate::{catalog::collections::Collection, error::Error, pg::spi::query_as_caller};

/// The maximum number of keys of a filter that are checked.
const MAX_KEYS: usize = 20;
/// The maximum number of documents whose keys are compared, and of keys that are suggested.
const MAX_SAMPLE: i64 = 1000;
const MAX_SUGGESTIONS: usize = 3;

/// Raises a notice for each key that no document has.
///
/// # Errors
/// A value of the filter has another type than all stored values of its key. Types are not checked
/// if the search has a minimum score, which may explain the empty result.
pub fn explain(request: &SearchRequest) -> Result<(), Error> {
    let usages: Vec<&Usage> = request.filter.usages().iter().take(MAX_KEYS).collect();
    if usages.is_empty() {
        return Ok(());
    }
    let collection = request.collection.name.as_str();
    let stored = stored_types(&request.collection, &usages)?;
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
    let Some(known) = known_keys(&request.collection)? else {
        return Ok(());
    };
    for usage in missing {
        report_missing(collection, usage, &known);
    }
    Ok(())
}

/// Returns the types of the stored values of the keys. All chunks of a document have its metadata.
fn stored_types(
    collection: &Collection,
    usages: &[&Usage],
) -> Result<HashMap<String, Vec<String>>, Error> {
    let keys: Vec<&str> = usages.iter().map(|usage| usage.key.as_str()).collect();
    let found = query_as_caller(
        &format!(
            "SELECT k.key,
                    pg_catalog.array_agg(DISTINCT pg_catalog.jsonb_typeof(c.metadata -> k.key))
             FROM rag.chunks AS c, pg_catalog.unnest($1) AS k (key)
             WHERE {} AND c.chunk_index = 0 AND c.metadata ? k.key
             GROUP BY k.key",
            collection.rows("c.")
        ),
        &[keys.into()],
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
        "invalid filter: {value_path}: \"{key}\" is {found} in collection \
         \"{collection}\", not {wanted}"
    );
    let hint = match stored.as_slice() {
        ["array"] => {
            "To compare the elements of an array, use the operator \"contains\".".to_string()
        }
        _ => format!("Compare \"{key}\" with {found}."),
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

/// Returns the metadata keys of documents of the collection, or None if it has no documents.
fn known_keys(collection: &Collection) -> Result<Option<Vec<String>>, Error> {
    let rows = collection.rows("");
    let found = query_as_caller(
        &format!(
            "SELECT pg_catalog.count(*) > 0,
                    coalesce((SELECT pg_catalog.array_agg(DISTINCT k.key ORDER BY k.key)
                              FROM (SELECT metadata FROM rag.chunks
                                    WHERE {rows} AND chunk_index = 0 LIMIT $1) AS m,
                                   pg_catalog.jsonb_object_keys(m.metadata) AS k (key)), '{{}}')
             FROM (SELECT FROM rag.chunks WHERE {rows} LIMIT 1) AS c"
        ),
        &[MAX_SAMPLE.into()],
        |row| Ok((row.required::<bool>(1)?, row.required::<Vec<String>>(2)?)),
    )?;
    Ok(found
        .into_iter()
        .find_map(|(has_documents, keys)| has_documents.then_some(keys)))
}

fn report_missing(collection: &str, usage: &Usage, known: &[String]) {
    let key = &usage.key;
    let message =
        format!("no document of collection \"{collection}\" has the metadata key \"{key}\"");
    let mut report = ErrorReport::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        message,
        "rag",
    )
    .set_detail(format!("The filter uses the key at {}.", usage.key_path));
    let near = nearest(key, known);
    if !near.is_empty() {
        report = report.set_hint(format!("Similar keys: {}.", near.join(", ")));
    }
    report.report(PgLogLevel::NOTICE);
}

/// Returns the keys with a similar spelling, the most similar first.
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
    near.into_iter()
        .map(|(_, name)| name)
        .take(MAX_SUGGESTIONS)
        .collect()
}
