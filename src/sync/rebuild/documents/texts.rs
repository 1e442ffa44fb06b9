//! Splits the stored texts of documents again.

use percent_encoding::percent_decode_str;
use pgrx::{datum::DatumWithOid, spi::quote_literal};
use rag_definition::DocumentType;
use rag_protocol::{
    embed::StoredText,
    identity::DocumentId,
    ingest::{Content, NamedPlace, Title},
};
use serde_json::{Map, Value};

use super::{Counts, PendingDocument, Target, embeddings, ids};
use crate::{
    catalog::{documents::document_id, partitions::Partition, stored_documents::StoredChunk},
    engine::client::with_client,
    error::Error,
    pg::spi::{OwnerRights, uuid},
    sync::indexer::{DocumentOrigin, Embeddings, ExtractedDocument, PreparedDocument},
};

/// The number of documents that the engine has at a time.
const IN_FLIGHT: usize = 16;

/// A document with its stored text.
struct Text {
    id: DocumentId,
    text: String,
    metadata: Map<String, Value>,
    stored: StoredText,
}

/// Splits documents by the wanted settings, and writes their chunks.
///
/// # Errors
/// The engine is unavailable, or cannot split a text; or a statement fails.
pub fn split_again(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    documents: &[&PendingDocument],
) -> Result<Counts, Error> {
    let texts = read(owner, target, documents)?;
    let tokens = target.indexer.embedder.token_source();
    with_client(|client| {
        let mut split = Vec::with_capacity(texts.len());
        let mut waiting = std::collections::VecDeque::new();
        let mut texts = texts.into_iter();
        loop {
            while waiting.len() < IN_FLIGHT
                && let Some(text) = texts.next()
            {
                let ticket = client.start_splitting(
                    &tokens,
                    target.wanted().splitting(),
                    text.stored.clone(),
                    &text.text,
                )?;
                waiting.push_back((ticket, text));
            }
            let Some((ticket, text)) = waiting.pop_front() else {
                break;
            };
            let (content, _) = client.finish_preparing(ticket)?;
            split.push(target.indexer.prepare(ExtractedDocument {
                id: text.id,
                // its row stays
                origin: DocumentOrigin::default(),
                text: text.text,
                content: Content {
                    title: text.stored.title,
                    metadata: text.metadata,
                    ..content
                },
            })?);
        }
        let texts = split.iter_mut().flat_map(PreparedDocument::take_texts);
        let (embeddings, embedded) = embeddings(owner, target, relation, client, texts.collect())?;
        let written = write(owner, target, relation, &split, &embeddings)?;
        Ok(Counts { written, embedded })
    })
}

fn read(
    owner: &OwnerRights,
    target: &Target,
    documents: &[&PendingDocument],
) -> Result<Vec<Text>, Error> {
    // the first chunk tells how many lines of the file are before the text
    let (lines, first) = match target.is_damaged {
        true => ("0", String::new()),
        false => (
            "k.start_line - 1 - length(regexp_replace(
                 left(d.content, k.start_index), '[^\\n]', '', 'g'))",
            format!(
                "LEFT JOIN (
                     SELECT DISTINCT ON (c.document_id) c.document_id, c.start_line, c.start_index
                     FROM rag.chunks c WHERE {} AND c.document_id = ANY ($1)
                     ORDER BY c.document_id, c.chunk_index) k ON k.document_id = d.document_id",
                target.present.rows("c.")
            ),
        ),
    };
    let statement = format!(
        "SELECT d.document_id, d.uri, coalesce(d.title, '') AS title, d.own_title, d.document_type,
                d.content, d.metadata, d.content_hash, d.anchors,
                (SELECT s.spec ->> 'path' FROM rag_internal.source s
                 WHERE s.name = d.source AND s.kind = 'folder') AS folder,
                coalesce({lines}, 0) AS lines_before
         FROM rag.documents d {first}
         WHERE d.collection = {collection} AND d.document_id = ANY ($1)
           AND d.content IS NOT NULL",
        collection = quote_literal(target.present.name.as_str())
    );
    owner.execute_returning(&statement, &[ids(documents).into()], |row| {
        let uri: String = row.required("uri")?;
        let metadata = match row.required::<pgrx::JsonB>("metadata")?.0 {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        };
        let folder: Option<String> = row.get("folder")?;
        let document_type: Option<String> = row.get("document_type")?;
        let document_type = document_type.as_deref().and_then(DocumentType::parse);
        let lines: i32 = row.required("lines_before")?;
        Ok(Text {
            id: document_id(&row)?,
            text: row.required("content")?,
            stored: StoredText {
                document_type: document_type.unwrap_or(DocumentType::Text),
                name: file_name(&uri, folder.as_deref(), &metadata),
                title: Title {
                    text: row.required("title")?,
                    own: row.required("own_title")?,
                },
                lines_before: u32::try_from(lines).unwrap_or(0),
                anchors: row
                    .get::<pgrx::JsonB>("anchors")?
                    .map(|it| places(it.0))
                    .unwrap_or_default(),
            },
            metadata,
        })
    })
}

/// Reads stored places. What nobody has stored names none.
fn places(json: Value) -> Vec<NamedPlace> {
    serde_json::from_value(json).unwrap_or_default()
}

/// Returns the name of a document's file as its source gave it to the extractor. The place in the
/// project, which the model reads with each chunk of source code, depends on it.
fn file_name(uri: &str, folder: Option<&str>, metadata: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    // texts that were given without a file have no encoding
    text("encoding")?;
    if let Some(path) = text("path") {
        return Some(path.to_owned());
    }
    let path = uri.strip_prefix("file://").map(|path| {
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let inner = folder
            .and_then(|folder| path.strip_prefix(folder.trim_end_matches('/')))
            .and_then(|path| path.strip_prefix('/'));
        inner.map_or_else(|| path.clone(), str::to_owned)
    });
    Some(path.unwrap_or_else(|| uri.to_owned()))
}

/// A chunk to be written.
struct Row<'a> {
    document: DocumentId,
    index: i32,
    metadata: &'a str,
    chunk: StoredChunk<'a>,
}

/// Inserts the chunks of documents, with the columns that they share with their documents. Returns
/// their number.
fn write(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    documents: &[PreparedDocument],
    embeddings: &Embeddings,
) -> Result<usize, Error> {
    let metadata: Vec<String> = documents
        .iter()
        .map(|document| serde_json::json!(document.chunk_metadata).to_string())
        .collect();
    let mut rows = vec![];
    for (document, metadata) in documents.iter().zip(&metadata) {
        let chunks = document.chunks(&target.chunking, embeddings)?;
        let chunks = chunks.into_iter().enumerate();
        rows.extend(chunks.map(|(i, chunk)| Row {
            document: document.id,
            index: i as i32,
            metadata,
            chunk,
        }));
    }
    if rows.is_empty() {
        return Ok(0);
    }
    let arguments: Vec<DatumWithOid<'_>> = vec![
        column(&rows, |row| uuid(row.document.0)).into(),
        column(&rows, |row| uuid(row.chunk.id.0)).into(),
        column(&rows, |row| row.index).into(),
        column(&rows, |row| row.chunk.place.start_index as i32).into(),
        column(&rows, |row| row.chunk.place.start_line as i32).into(),
        column(&rows, |row| row.chunk.place.end_line as i32).into(),
        column(&rows, |row| row.chunk.place.page.map(|page| page as i32)).into(),
        column(&rows, |row| {
            serde_json::json!(row.chunk.place.heading_path).to_string()
        })
        .into(),
        column(&rows, |row| row.chunk.content.as_ref()).into(),
        column(&rows, |row| row.metadata).into(),
        column(&rows, |row| uuid(row.chunk.key.0)).into(),
        column(&rows, |row| row.chunk.embedding).into(),
        column(&rows, |row| row.chunk.place.head_length() as i32).into(),
        column(&rows, |row| row.chunk.place.anchor.as_deref()).into(),
    ];
    owner.execute_prepared(
        &format!(
            "INSERT INTO {} (
                 collection, partition, source, former_source, uri, title, document_id,
                 knowledge_id, document_type, category, tags, fetched_at, indexed_at,
                 metadata, chunk_id, chunk_index, start_index, content, embedding_key,
                 embedding, start_line, end_line, page, head_length, anchor,
                 heading_path)
             SELECT d.collection, {name}, d.source, d.former_source, d.uri, d.title,
                    d.document_id, d.knowledge_id, d.document_type, d.category, d.tags,
                    coalesce(d.fetched_at, now()), now(),
                    c.metadata::jsonb, c.id, c.index, c.start_index, c.content,
                    c.key, c.embedding, c.start_line, c.end_line, c.page, c.head_length,
                    c.anchor,
                    (SELECT array_agg(h.heading ORDER BY h.ordinality)
                     FROM jsonb_array_elements_text(c.headings::jsonb)
                         WITH ORDINALITY AS h (heading))
             FROM ROWS FROM (
                 unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6),
                 unnest($7), unnest($8), unnest($9), unnest($10), unnest($11), unnest($12),
                 unnest($13), unnest($14))
                 AS c (document_id, id, index, start_index, start_line, end_line, page,
                       headings, content, metadata, key, embedding, head_length, anchor)
             JOIN rag.documents d
                 ON d.collection = {of} AND d.document_id = c.document_id",
            relation.qualified(),
            of = quote_literal(target.present.name.as_str()),
            name = quote_literal(target.partition_of(relation).name()),
        ),
        &arguments,
        |_| Ok(()),
    )?;
    Ok(rows.len())
}

fn column<'a, T>(rows: &'a [Row<'a>], of: impl Fn(&'a Row<'a>) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}
