//! Reads the rows of a collection in portions.

use pgrx::datum::TimestampWithTimeZone;
use rag_bundle::{Chunk, Digest, Document, KnowledgeItem};
use rag_definition::collection::CollectionDefinition;

use super::exactly;
use crate::{
    catalog::collections::{Collection, DEFINITION, read_definition},
    error::Error,
    pg::{cursor::Cursor, spi::Row},
    types::vector::OwnedVector,
};

/// The most rows of a portion.
const MAX_PORTION: usize = 500;
/// The size of a portion in bytes that is aimed at.
const PORTION_BYTES: usize = 1 << 20;

/// Returns the times that texts of a bundle say.
///
/// # Errors
/// A text is not a time.
pub fn times<const N: usize>(texts: [&str; N]) -> Result<[TimestampWithTimeZone; N], Error> {
    let parsed: Vec<Vec<TimestampWithTimeZone>> = texts
        .iter()
        .map(|text| {
            exactly(|owner| {
                owner.query("SELECT $1::timestamptz AS time", &[(*text).into()], |row| {
                    row.required("time")
                })
            })
        })
        .collect::<Result<_, _>>()?;
    let times: Vec<TimestampWithTimeZone> = parsed.into_iter().flatten().collect();
    <[_; N]>::try_from(times).map_err(|_| Error::internal("a time of the bundle is missing"))
}

/// What a collection has, and about how much.
#[derive(Debug, Clone)]
pub struct Overview {
    pub documents: i64,
    pub errors: i64,
    pub chunks: i64,
    /// The size of all texts in bytes.
    pub text_bytes: i64,
    pub created_at: String,
    pub updated_at: String,
    pub now: String,
    pub definition: CollectionDefinition,
}

/// Returns what a collection has.
///
/// # Errors
/// A statement fails.
pub fn overview(collection: &Collection) -> Result<Overview, Error> {
    let (name, rows) = (literal(collection), collection.rows(""));
    // a cursor, so that it sees what the other cursors see
    let statement = format!(
        "SELECT {} AS definition, c.created_at::text AS created_at,
                greatest(c.updated_at, (SELECT max(g.changed_at) FROM rag_internal.content_change g
                                        WHERE g.collection = c.name))::text AS updated_at,
                now()::text AS now, d.*, k.*
         FROM rag_internal.collection c,
              (SELECT count(*) FILTER (WHERE content_hash IS NOT NULL) AS documents,
                      count(*) FILTER (WHERE status = 'error') AS errors,
                      coalesce(sum(octet_length(content)), 0)::int8 AS document_bytes
               FROM rag.documents WHERE collection = {name}) AS d,
              (SELECT count(*) AS chunks, coalesce(sum(octet_length(content)), 0)::int8
                          AS chunk_bytes
               FROM rag.chunks WHERE {rows}) AS k
         WHERE c.name = {name}",
        *DEFINITION
    );
    exactly(|owner| {
        let cursor = Cursor::open(owner, &statement)?;
        let found = cursor.fetch(owner, 1, |row| {
            Ok(Overview {
                documents: row.required("documents")?,
                errors: row.required("errors")?,
                chunks: row.required("chunks")?,
                text_bytes: row.required::<i64>("document_bytes")?
                    + row.required::<i64>("chunk_bytes")?,
                created_at: row.required("created_at")?,
                updated_at: row.required("updated_at")?,
                now: row.required("now")?,
                definition: read_definition(&row)?,
            })
        })?;
        cursor.close()?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| Collection::missing(collection.name.as_str()))
    })
}

/// Returns the name of a collection as a literal.
fn literal(collection: &Collection) -> String {
    pgrx::spi::quote_literal(collection.name.as_str())
}

/// A kind of rows of a collection.
pub trait BundledRows: Sized {
    /// Returns a statement for the rows of a collection, in their order.
    fn statement(collection: &Collection) -> String;

    fn read(row: &Row<'_, '_>) -> Result<Self, Error>;

    /// Returns the approximate size in bytes.
    fn size(&self) -> usize;
}

/// Rows that are read in portions.
pub struct OpenRows<T> {
    cursor: Option<Cursor>,
    portion: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: BundledRows> OpenRows<T> {
    /// # Errors
    /// The statement fails.
    pub fn open(collection: &Collection) -> Result<Self, Error> {
        let statement = T::statement(collection);
        Ok(Self {
            cursor: Some(exactly(|owner| Cursor::open(owner, &statement))?),
            portion: 1,
            of: std::marker::PhantomData,
        })
    }

    /// Returns the next rows, none at the end. The larger rows are, the fewer it returns.
    ///
    /// # Errors
    /// The statement fails.
    pub fn next_portion(&mut self) -> Result<Vec<T>, Error> {
        let Some(cursor) = &self.cursor else {
            return Ok(vec![]);
        };
        let rows = exactly(|owner| cursor.fetch(owner, self.portion, |row| T::read(&row)))?;
        if rows.is_empty() {
            if let Some(cursor) = self.cursor.take() {
                cursor.close()?;
            }
            return Ok(rows);
        }
        let bytes: usize = rows.iter().map(T::size).sum();
        let average = (bytes / rows.len()).max(1);
        // it grows slowly: a few small rows say little about the next ones
        self.portion = (PORTION_BYTES / average).clamp(1, MAX_PORTION.min(4 * self.portion));
        Ok(rows)
    }
}

impl BundledRows for Document {
    fn statement(collection: &Collection) -> String {
        format!(
            "SELECT document_id, given_id, source, former_source, uri, title, knowledge_id,
                    document_type, category, tags, status, error, content_hash, chunk_count,
                    raw_hash, chunking,
                    own_title, validator, anchors,
                    created_at::text AS created_at,
                    fetched_at::text AS fetched_at, indexed_at::text AS indexed_at, content,
                    metadata::text AS metadata
             FROM rag.documents WHERE collection = {} ORDER BY document_id",
            literal(collection)
        )
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            document_id: row.uuid("document_id")?,
            given_id: row.get("given_id")?,
            source: row.get("source")?,
            former_source: row.get("former_source")?,
            uri: row.required("uri")?,
            title: row.get("title")?,
            knowledge_id: row.get("knowledge_id")?,
            document_type: row.get("document_type")?,
            category: row.get("category")?,
            tags: row.get("tags")?,
            status: row.required("status")?,
            error: row.get("error")?,
            content_hash: row.get("content_hash")?,
            chunk_count: row.required("chunk_count")?,
            raw_hash: row.get("raw_hash")?,
            chunking: row.get("chunking")?,
            own_title: row.required("own_title")?,
            validator: row.get("validator")?,
            anchors: anchors(row)?,
            created_at: row.required("created_at")?,
            fetched_at: row.get("fetched_at")?,
            indexed_at: row.get("indexed_at")?,
            content: row.get("content")?,
            metadata: row.required("metadata")?,
        })
    }

    fn size(&self) -> usize {
        1000 + self.metadata.len() + self.content.as_ref().map_or(0, String::len)
    }
}

/// Returns the places of a document's content.
fn anchors(row: &Row<'_, '_>) -> Result<Option<Vec<(u32, String)>>, Error> {
    let json: Option<pgrx::JsonB> = row.get("anchors")?;
    let read = |json: pgrx::JsonB| serde_json::from_value(json.0);
    json.map(read)
        .transpose()
        .map_err(|e| Error::internal(format!("anchors of a document: {e}")))
}

/// A chunk and its embedding.
impl BundledRows for (Chunk, Vec<f32>) {
    fn statement(collection: &Collection) -> String {
        format!(
            "SELECT document_id, chunk_id, chunk_index, start_index, head_length, start_line,
                    end_line, page, heading_path, anchor, source, uri, title, knowledge_id,
                    document_type,
                    category, tags, embedding_key, fetched_at::text, indexed_at::text, content,
                    metadata::text, embedding, given_id
             FROM rag.chunks WHERE {}
             ORDER BY document_id, chunk_index, chunk_id",
            collection.rows("")
        )
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let chunk = Chunk {
            document_id: row.uuid("document_id")?,
            chunk_id: row.uuid("chunk_id")?,
            given_id: row.get("given_id")?,
            chunk_index: row.required("chunk_index")?,
            start_index: row.required("start_index")?,
            head_length: row.required("head_length")?,
            start_line: row.required("start_line")?,
            end_line: row.required("end_line")?,
            page: row.get("page")?,
            heading_path: row.get("heading_path")?,
            anchor: row.get("anchor")?,
            source: row.get("source")?,
            uri: row.required("uri")?,
            title: row.get("title")?,
            knowledge_id: row.get("knowledge_id")?,
            document_type: row.required("document_type")?,
            category: row.get("category")?,
            tags: row.get("tags")?,
            embedding_key: row.uuid("embedding_key")?,
            fetched_at: row.required("fetched_at")?,
            indexed_at: row.required("indexed_at")?,
            content: row.required("content")?,
            metadata: row.required("metadata")?,
        };
        Ok((chunk, Vec::from(row.required::<OwnedVector>("embedding")?)))
    }

    fn size(&self) -> usize {
        1000 + self.0.metadata.len() + self.0.content.len() + 4 * self.1.len()
    }
}

impl BundledRows for KnowledgeItem {
    fn statement(collection: &Collection) -> String {
        format!(
            "SELECT knowledge_id, title, uri, document_type, category, tags, status, error,
                    nullif(array_to_string(paths, E'\\n'), '') AS paths, content_hash,
                    created_at::text AS created_at, last_fetched_at::text AS fetched_at,
                    indexed_at::text AS indexed_at
             FROM rag_internal.knowledge_item WHERE collection = {} ORDER BY knowledge_id",
            literal(collection)
        )
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            knowledge_id: row.required("knowledge_id")?,
            title: row.get("title")?,
            uri: row.required("uri")?,
            document_type: row.required("document_type")?,
            category: row.get("category")?,
            tags: row.get("tags")?,
            paths: row.get("paths")?,
            status: row.required("status")?,
            error: row.get("error")?,
            content_hash: row.get("content_hash")?,
            created_at: row.required("created_at")?,
            fetched_at: row.get("fetched_at")?,
            indexed_at: row.get("indexed_at")?,
        })
    }

    fn size(&self) -> usize {
        1000
    }
}

impl BundledRows for Digest {
    fn statement(collection: &Collection) -> String {
        format!(
            "SELECT document_id, source, uri, content_hash, chunk_count,
                    encode(digest, 'hex') AS digest
             FROM rag_internal.document_digest WHERE collection = {} ORDER BY document_id",
            literal(collection)
        )
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            document_id: row.uuid("document_id")?,
            source: row.required("source")?,
            uri: row.required("uri")?,
            content_hash: row.get("content_hash")?,
            chunk_count: row.required("chunk_count")?,
            digest: row.required("digest")?,
        })
    }

    fn size(&self) -> usize {
        500
    }
}
