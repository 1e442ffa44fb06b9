//! Chunks by their ids or by a filter, without a search.

use std::vec;

use pgrx::{JsonB, Uuid, datum::DatumWithOid};
use rag_filter::Filter;
use rag_protocol::identity::ChunkId;

use crate::{
    catalog::{
        chunks::{as_reader, check_not_moved},
        collections::Collection,
    },
    collection::rights,
    error::Error,
    pg::{
        cursor::Cursor,
        spi::{Row, filter_argument, uuid},
    },
    types::vector::OwnedVector,
};

/// A stored chunk.
pub struct FetchedChunk {
    pub chunk_id: Uuid,
    /// Its id in the application that has split it, if that is no UUID.
    pub given_id: Option<String>,
    pub document_id: Uuid,
    pub uri: String,
    pub title: Option<String>,
    pub chunk_index: i32,
    pub content: String,
    pub metadata: JsonB,
    pub category: Option<String>,
    pub tags: Option<Vec<String>>,
    pub page: Option<i32>,
    /// None: it was not asked for.
    pub embedding: Option<OwnedVector>,
}

/// Number of chunks that are read together.
const PORTION: usize = 100;

/// Chunks that are read in portions, so that a large collection needs no more memory than a small
/// one.
pub struct OpenChunks {
    collection: Collection,
    cursor: Option<Cursor>,
    portion: vec::IntoIter<FetchedChunk>,
}

/// Opens the chunks of a collection that have one of the ids, if there are any to have, and pass
/// the filter, by uri, place and id. They are those that the caller may see.
///
/// # Errors
/// The caller may not read the collection.
pub fn open(
    collection: Collection,
    ids: Option<&[ChunkId]>,
    filter: &Filter,
    with_embeddings: bool,
) -> Result<OpenChunks, Error> {
    rights::require_read(&collection)?;
    let mut args: Vec<DatumWithOid<'static>> = vec![];
    let mut condition = collection.rows("c.");
    if let Some(ids) = ids {
        let ids: Vec<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
        args.push(ids.into());
        condition.push_str(" AND c.chunk_id = ANY ($1)");
    }
    let filter = filter.to_sql(args.len() + 1);
    args.extend(filter.params.into_iter().map(filter_argument));
    let embedding = match with_embeddings {
        true => "c.embedding",
        false => "NULL::rag_types.vector",
    };
    let statement = format!(
        "SELECT c.chunk_id, c.given_id, c.document_id, c.uri, c.title, c.chunk_index, c.content,
                c.metadata, c.category, c.tags, c.page, {embedding} AS embedding
         FROM rag.chunks AS c WHERE {condition} AND ({})
         ORDER BY c.uri COLLATE \"C\", c.chunk_index, c.chunk_id",
        filter.text
    );
    check_not_moved(&collection)?;
    let cursor = as_reader(&collection, |reader| {
        Cursor::open_with(reader, &statement, &args)
    })?;
    Ok(OpenChunks {
        collection,
        cursor: Some(cursor),
        portion: vec![].into_iter(),
    })
}

impl OpenChunks {
    /// Returns the next chunk, or `None` at the end.
    ///
    /// # Errors
    /// The statement fails.
    pub fn next(&mut self) -> Result<Option<FetchedChunk>, Error> {
        if self.portion.as_slice().is_empty()
            && let Some(cursor) = &self.cursor
        {
            let read = as_reader(&self.collection, |reader| {
                cursor.fetch(reader, PORTION, |row| FetchedChunk::read(&row))
            })?;
            if read.len() < PORTION
                && let Some(cursor) = self.cursor.take()
            {
                cursor.close()?;
            }
            self.portion = read.into_iter();
        }
        Ok(self.portion.next())
    }
}

impl FetchedChunk {
    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            chunk_id: row.required("chunk_id")?,
            given_id: row.get("given_id")?,
            document_id: row.required("document_id")?,
            uri: row.required("uri")?,
            title: row.get("title")?,
            chunk_index: row.required("chunk_index")?,
            content: row.required("content")?,
            metadata: row.required("metadata")?,
            category: row.get("category")?,
            tags: row.get("tags")?,
            page: row.get("page")?,
            embedding: row.get("embedding")?,
        })
    }
}
