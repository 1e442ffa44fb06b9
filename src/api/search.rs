//! `rag_search`.

use pgrx::{JsonB, Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    pg::{calls::CallInfo, json::JsonbText},
    search::{self, SearchHit, SearchRequest},
    types::vector::Vector,
};

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_search(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "5"),
    mode: pgrx::default!(Option<&str>, "'vector'"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    score_threshold: pgrx::default!(Option<f64>, "NULL"),
    query_embedding: pgrx::default!(Option<Vector<'_>>, "NULL"),
    call: CallInfo,
) -> Result<
    TableIterator<
        'static,
        (
            name!(rank, i32),
            name!(score, f64),
            name!(content, String),
            name!(title, Option<String>),
            name!(uri, String),
            name!(chunk_index, i32),
            name!(start_index, i32),
            name!(source, Option<String>),
            name!(document_id, Uuid),
            name!(knowledge_id, Option<i64>),
            name!(chunk_id, Uuid),
            name!(metadata, JsonB),
            name!(vector_score, Option<f64>),
            name!(keyword_score, Option<f64>),
            name!(vector_rank, Option<i32>),
            name!(keyword_rank, Option<i32>),
            name!(citation, String),
            name!(start_line, i32),
            name!(end_line, i32),
            name!(page, Option<i32>),
            name!(heading_path, Option<Vec<String>>),
        ),
    >,
    ErrorReport,
> {
    let collection = required("collection", collection)?;
    let (top_k, mode) = (required("top_k", top_k)?, required("mode", mode)?);
    let request = SearchRequest::new(
        query,
        collection,
        top_k,
        mode,
        filter,
        score_threshold,
        query_embedding,
    )?;
    let hits = search::search(request, &own_schema(&call))?;
    Ok(TableIterator::new(hits.into_iter().map(|hit| {
        let citation = citation(&hit);
        (
            hit.rank,
            hit.score,
            hit.content,
            hit.title,
            hit.uri,
            hit.chunk_index,
            hit.start_index,
            hit.source,
            hit.document_id,
            hit.knowledge_id,
            hit.chunk_id,
            hit.metadata,
            Some(hit.score),
            None,
            Some(hit.rank),
            None,
            citation,
            hit.start_line,
            hit.end_line,
            hit.page,
            hit.heading_path,
        )
    })))
}

/// Returns a citation: `[1] Key rotation, p. 3 (file:///srv/docs/keys.pdf)`, or for a file of a
/// repository `[1] Key rotation, docs/keys.md:12-30 (https://example.org/guide.git#docs/keys.md)`.
fn citation(hit: &SearchHit) -> String {
    let page = hit.page.map(|page| format!("p. {page}"));
    let place = page.or_else(|| {
        let path = path_in_repository(hit)?;
        Some(format!(
            "{}:{}-{}",
            escaped(path),
            hit.start_line,
            hit.end_line
        ))
    });
    let (rank, uri) = (hit.rank, enclosed(&hit.uri));
    // a title that is the name of the file would repeat the path
    let title = hit
        .title
        .as_deref()
        .filter(|title| path_in_repository(hit).is_none_or(|path| !is_named(path, title)));
    match (title.map(escaped), place) {
        (Some(title), Some(place)) => format!("[{rank}] {title}, {place} ({uri})"),
        (Some(title), None) => format!("[{rank}] {title} ({uri})"),
        (None, Some(place)) if hit.title.is_some() => format!("[{rank}] {place} ({uri})"),
        (None, Some(place)) => format!("[{rank}] {uri}, {place}"),
        (None, None) => format!("[{rank}] {uri}"),
    }
}

/// Returns the path of a file that was fetched from a repository.
fn path_in_repository(hit: &SearchHit) -> Option<&str> {
    let text = |key| hit.metadata.0.get(key).and_then(serde_json::Value::as_str);
    hit.source
        .as_ref()
        .and(text("repository"))
        .and(text("path"))
}

/// Returns true if a title is the name of the file, with or without the extension.
fn is_named(path: &str, title: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file == title || file.rsplit_once('.').is_some_and(|(stem, _)| stem == title)
}

/// Returns a title as one line, with brackets and parentheses escaped as in Markdown. Otherwise a
/// title could imitate the end of its citation and the start of another one.
fn escaped(title: &str) -> String {
    let mut escaped = String::with_capacity(title.len());
    for c in title.chars() {
        match c {
            '\\' | '[' | ']' | '(' | ')' => escaped.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a uri in which characters that would end it are percent-encoded.
fn enclosed(uri: &str) -> String {
    const ENDS: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
        .add(b' ')
        .add(b'(')
        .add(b')')
        .add(b'[')
        .add(b']');
    let mut enclosed = String::with_capacity(uri.len());
    for piece in uri.split_inclusive(|c: char| c.is_ascii()) {
        let is_safe = |c: char| !c.is_ascii() && !c.is_control() && !c.is_whitespace();
        let end = piece.find(|c| !is_safe(c)).unwrap_or(piece.len());
        enclosed.push_str(&piece[..end]);
        enclosed.extend(percent_encoding::utf8_percent_encode(&piece[end..], ENDS));
    }
    enclosed
}

/// Returns the quoted name of the schema of the running function, which is also the schema of the
/// operators.
pub(super) fn own_schema(call: &CallInfo) -> String {
    pgrx::spi::quote_identifier(call.schema().unwrap_or_default())
}
