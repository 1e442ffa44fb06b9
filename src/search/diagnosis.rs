//! Explains an empty result: metadata keys, types and values of the filter that no document of the
//! collection has, and keys that mean a column where documents have metadata of that name. Explains
//! any result of a filter that compares dates as texts. Runs with the caller's rights.

use std::collections::{BTreeSet, HashMap, HashSet};

use rag_filter::{ColumnUse, Usage};

use super::{SearchRequest, notice::Notice, trace::Trace};
use crate::{
    catalog::{chunks::as_reader, collections::Collection},
    error::Error,
};

/// The maximum number of keys of a filter that are checked.
const MAX_KEYS: usize = 20;
/// The maximum number of documents whose keys are compared, and of keys that are suggested.
const MAX_SAMPLE: i64 = 1000;
const MAX_SUGGESTIONS: usize = 3;

/// Tells of each key, and each value, that no document has.
///
/// # Errors
/// A value of the filter has another type than all stored values of its key. Types are not checked
/// if the search has a minimum score, which may explain the empty result.
pub fn explain(request: &SearchRequest, trace: &Trace) -> Result<(), Error> {
    explain_columns(request, trace)?;
    let usages: Vec<&Usage> = request.filter.usages().iter().take(MAX_KEYS).collect();
    if usages.is_empty() {
        return Ok(());
    }
    let collection = &request.collection;
    let keys: Vec<&str> = usages.iter().map(|usage| usage.key.as_str()).collect();
    let stored = stored_types(collection, &keys)?;
    if request.threshold.is_none_or(|threshold| threshold == 0.0) {
        for usage in &usages {
            check_type(
                collection.name.as_str(),
                usage,
                stored.get(&usage.key).map_or(&[], Vec::as_slice),
            )?;
        }
    }
    let (known, missing): (Vec<&Usage>, Vec<&Usage>) = usages
        .iter()
        .partition(|usage| stored.contains_key(&usage.key));
    for usage in known {
        explain_values(collection, usage, trace)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let Some(known) = known_keys(collection)? else {
        return Ok(());
    };
    for usage in missing {
        trace.tell(missing_key(collection.name.as_str(), usage, &known));
    }
    Ok(())
}

/// Tells of texts such as "01.06.2026" that a filter compares with stored dates of ISO 8601: the
/// order of the texts is not that of time. Reads documents only if the filter has such a text.
///
/// # Errors
/// The documents cannot be read.
pub fn explain_dates(request: &SearchRequest, trace: &Trace) -> Result<(), Error> {
    let collection = &request.collection;
    for usage in request.filter.usages().iter().take(MAX_KEYS) {
        let Some(date) = &usage.unordered_date else {
            continue;
        };
        let key = &usage.key;
        let Some(stored) = stored_date(collection, key)? else {
            continue;
        };
        let notice = Notice::new(format!(
            "the filter compares \"{key}\" with {} as texts, not as dates",
            quoted(date)
        ))
        .detail(format!(
            "The filter has this value at {}. Documents of collection \"{}\" have dates such as \
             {}.",
            usage.value_path,
            collection.name,
            quoted(&stored)
        ))
        .hint("Write dates in ISO 8601, as YYYY-MM-DD.");
        trace.tell(notice);
    }
    Ok(())
}

/// Returns a text that begins with a date of ISO 8601, if documents have one under a key.
fn stored_date(collection: &Collection, key: &str) -> Result<Option<String>, Error> {
    let texts = sample(collection, key, "true")?;
    Ok(texts
        .into_iter()
        .filter(|text| begins_with_date(text))
        .min())
}

fn begins_with_date(text: &str) -> bool {
    let pattern = "0000-00-00".chars();
    let mut text = text.chars();
    pattern.into_iter().all(|wanted| {
        text.next().is_some_and(|found| match wanted {
            '0' => found.is_ascii_digit(),
            sign => found == sign,
        })
    })
}

/// Returns what some documents have under a key, as texts. `condition` restricts the chunks `c`.
///
/// One statement without subqueries: where chunks are distributed, a subquery would be another one.
fn sample(collection: &Collection, key: &str, condition: &str) -> Result<Vec<String>, Error> {
    let statement = format!(
        "SELECT c.metadata ->> $1 AS value FROM rag.chunks AS c
         WHERE {} AND c.chunk_index = 0 AND c.metadata ? $1 AND {condition} LIMIT $2",
        collection.rows("c.")
    );
    let found = as_reader(collection, |reader| {
        reader.query(&statement, &[key.into(), MAX_SAMPLE.into()], |row| {
            row.get::<String>("value")
        })
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Columns that a document's metadata key of the same name fills.
const FILLED_BY_METADATA: [&str; 2] = ["category", "tags"];

/// Tells of keys that mean a column, while documents have metadata of that name.
fn explain_columns(request: &SearchRequest, trace: &Trace) -> Result<(), Error> {
    let columns: Vec<&ColumnUse> = request
        .filter
        .columns()
        .iter()
        .filter(|column| !FILLED_BY_METADATA.contains(&column.name.as_str()))
        .take(MAX_KEYS)
        .collect();
    if columns.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let stored = stored_types(&request.collection, &names)?;
    let hidden = columns
        .iter()
        .filter(|column| stored.contains_key(&column.name));
    for ColumnUse { key_path, name } in hidden {
        let collection = &request.collection.name;
        let notice = Notice::new(format!(
            "the key \"{name}\" of the filter is a column, and documents of collection \
             \"{collection}\" have metadata of that name"
        ))
        .detail(format!("The filter uses the key at {key_path}."))
        .hint(format!(
            "To compare the metadata, write \"metadata.{name}\"."
        ));
        trace.tell(notice);
    }
    Ok(())
}

/// Tells if a key must have one of some texts, and no document has one of these.
fn explain_values(collection: &Collection, usage: &Usage, trace: &Trace) -> Result<(), Error> {
    let Usage { key, texts, .. } = usage;
    // a number may be stored as a text
    if texts.is_empty() || usage.types.iter().any(|name| *name != "string") {
        return Ok(());
    }
    if has_one_of(collection, key, texts)? {
        return Ok(());
    }
    let known = known_texts(collection, key)?;
    let wanted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    let notice = Notice::new(format!(
        "no document of collection \"{}\" has \"{key}\" {}",
        collection.name,
        wanted.join(" or ")
    ));
    let near: Vec<String> = texts
        .iter()
        .flat_map(|text| similar(text, &known))
        .map(quoted)
        .collect();
    trace.tell(match (near.is_empty(), known.is_empty()) {
        (false, _) => notice.hint(format!("Similar values: {}.", near.join(", "))),
        (true, false) => {
            let some = known.iter().take(MAX_LISTED).map(|text| quoted(text));
            let some: Vec<String> = some.collect();
            notice.hint(format!("Values are, for example, {}.", some.join(", ")))
        }
        (true, true) => notice,
    });
    Ok(())
}

/// Returns true if a document has one of some texts under a key.
fn has_one_of(collection: &Collection, key: &str, texts: &[String]) -> Result<bool, Error> {
    // not EXISTS: Citus would read the subquery first, and fails without columns
    let statement = format!(
        "SELECT 1 AS found FROM rag.chunks AS c
         WHERE {} AND c.chunk_index = 0 AND c.metadata ->> $1 = ANY ($2) LIMIT 1",
        collection.rows("c.")
    );
    let found = as_reader(collection, |reader| {
        reader.query(&statement, &[key.into(), texts.to_vec().into()], |_| Ok(()))
    })?;
    Ok(!found.is_empty())
}

/// The maximum number of values that are listed.
const MAX_LISTED: usize = 5;
/// The maximum number of characters of a value that is shown.
const MAX_SHOWN: usize = 80;

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("\"{}...\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

/// Returns the values that differ in case, that begin with a text, or have a similar spelling.
fn similar<'a>(text: &str, known: &'a [String]) -> Vec<&'a str> {
    let lower = text.to_lowercase();
    let begins = |value: &String| value.to_lowercase().starts_with(&lower);
    let mut found: Vec<&str> = known
        .iter()
        .filter(|value| begins(value))
        .map(String::as_str)
        .collect();
    found.extend(near(text, known.iter().map(String::as_str)));
    let mut seen = HashSet::new();
    found.retain(|value| seen.insert(*value));
    found.truncate(MAX_SUGGESTIONS);
    found
}

/// Returns the texts that some documents have under a key, in their order.
fn known_texts(collection: &Collection, key: &str) -> Result<Vec<String>, Error> {
    let texts = sample(collection, key, "jsonb_typeof(c.metadata -> $1) = 'string'")?;
    let texts: BTreeSet<String> = texts.into_iter().collect();
    Ok(texts.into_iter().collect())
}

/// Returns the types of the stored values of the keys. All chunks of a document have its metadata.
fn stored_types(
    collection: &Collection,
    keys: &[&str],
) -> Result<HashMap<String, Vec<String>>, Error> {
    let found = as_reader(collection, |reader| {
        reader.query(
            &format!(
                "SELECT k.key,
                    array_agg(DISTINCT jsonb_typeof(c.metadata -> k.key)) AS types
             FROM rag.chunks AS c, unnest($1) AS k (key)
             WHERE {} AND c.chunk_index = 0 AND c.metadata ? k.key
             GROUP BY k.key",
                collection.rows("c.")
            ),
            &[keys.to_vec().into()],
            |row| Ok((row.required("key")?, row.required("types")?)),
        )
    })?;
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
    let statement = format!(
        "SELECT ARRAY(SELECT jsonb_object_keys(c.metadata)) AS keys FROM rag.chunks AS c
         WHERE {} AND c.chunk_index = 0 LIMIT $1",
        collection.rows("c.")
    );
    let found = as_reader(collection, |reader| {
        reader.query(&statement, &[MAX_SAMPLE.into()], |row| {
            row.required::<Vec<String>>("keys")
        })
    })?;
    if found.is_empty() {
        return Ok(None);
    }
    let keys: BTreeSet<String> = found.into_iter().flatten().collect();
    Ok(Some(keys.into_iter().collect()))
}

fn missing_key(collection: &str, usage: &Usage, known: &[String]) -> Notice {
    let key = &usage.key;
    let notice = Notice::new(format!(
        "no document of collection \"{collection}\" has the metadata key \"{key}\""
    ))
    .detail(format!("The filter uses the key at {}.", usage.key_path));
    let columns = rag_filter::columns().map(|name| -> &str { name });
    let keys = known.iter().map(String::as_str);
    let near = near(key, columns.chain(keys));
    let similar = (!near.is_empty()).then(|| format!("Similar keys: {}.", near.join(", ")));
    let nested = usage
        .nested_form()
        .map(|form| format!("For a key within an object write {form}."));
    let hints: Vec<String> = similar.into_iter().chain(nested).collect();
    if hints.is_empty() {
        notice
    } else {
        notice.hint(hints.join(" "))
    }
}

/// Returns the words with a similar spelling, each once, the most similar first.
fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .collect();
    near.sort_unstable();
    near.dedup();
    let names = near.into_iter().map(|(_, name)| name);
    names.take(MAX_SUGGESTIONS).collect()
}
