//! Groups of chunks of a collection whose texts are equal or nearly equal.

use pgrx::{Uuid, datum::DatumWithOid};
use rag_retrieval::similarity::{Leaders, Signature, likely_groups};

use crate::{
    catalog::{
        chunks::{as_reader, check_not_moved, query_chunks},
        collections::Collection,
    },
    collection::rights,
    error::Error,
    pg::{cursor::Cursor, memory::maintenance_work_mem},
};

/// The number of chunks that are read at once.
const CHUNKS: usize = 1000;
/// What a chunk takes in memory, in bytes: its signature, its ids, and its places in lists.
const CHUNK_BYTES: usize = 256;

/// A chunk of a group.
pub struct Duplicate {
    /// 1 for the group with the most chunks.
    pub group: i64,
    /// How similar it is to the first chunk of the group, 0 to 1.
    pub similarity: f64,
    pub chunk: DuplicateChunk,
}

pub struct DuplicateChunk {
    pub title: Option<String>,
    pub uri: String,
    pub chunk_index: i32,
    pub document_id: Uuid,
    pub chunk_id: Uuid,
}

/// The ids of a chunk.
#[derive(Clone, Copy)]
struct ChunkId {
    document: Uuid,
    chunk: Uuid,
}

/// Returns the chunks that the caller may see and that have at least a similarity of `least` to the
/// first one of their group: group by group, each in the order of the documents.
///
/// # Errors
/// The caller may not read the collection. Its chunks are too many for `maintenance_work_mem`.
pub fn duplicates(collection: &Collection, least: f64) -> Result<Vec<Duplicate>, Error> {
    rights::require_read(collection)?;
    let (ids, signatures) = read_signatures(collection)?;
    let mut groups: Vec<Vec<(f64, DuplicateChunk)>> = vec![];
    for likely in likely_groups(&signatures, least, || {
        pgrx::check_for_interrupts!();
    }) {
        let ids = likely.iter().map(|number| ids[*number as usize]);
        groups.extend(verified(collection, &ids.collect::<Vec<_>>(), least)?);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let numbered = (1..).zip(groups);
    let rows = numbered.flat_map(|(group, chunks)| {
        chunks
            .into_iter()
            .map(move |(similarity, chunk)| Duplicate {
                group,
                similarity,
                chunk,
            })
    });
    Ok(rows.collect())
}

/// Reads all chunks, in the order of their documents.
fn read_signatures(collection: &Collection) -> Result<(Vec<ChunkId>, Vec<Signature>), Error> {
    check_not_moved(collection)?;
    let statement = format!(
        "SELECT c.document_id, c.chunk_id, c.content FROM rag.chunks AS c WHERE {}
         ORDER BY c.uri COLLATE \"C\", c.document_id, c.chunk_index, c.chunk_id",
        collection.rows("c.")
    );
    let (mut ids, mut signatures) = (vec![], vec![]);
    as_reader(collection, |reader| {
        let cursor = Cursor::open(reader, &statement)?;
        loop {
            let found = cursor.fetch(reader, CHUNKS, |row| {
                let content: String = row.required("content")?;
                signatures.push(Signature::of_text(&content));
                ids.push(ChunkId {
                    document: row.required("document_id")?,
                    chunk: row.required("chunk_id")?,
                });
                Ok(())
            })?;
            if found.len() < CHUNKS {
                return cursor.close();
            }
            if ids.len() * CHUNK_BYTES > maintenance_work_mem() {
                return Err(Error::out_of_memory(format!(
                    "Collection \"{}\" has more than {} chunks.",
                    collection.name,
                    ids.len()
                ))
                .hint("Increase maintenance_work_mem: each chunk takes 256 bytes."));
            }
            pgrx::check_for_interrupts!();
        }
    })?;
    Ok((ids, signatures))
}

/// Returns the groups of chunks that are as similar as estimated, with the similarity of each chunk
/// to the first one.
fn verified(
    collection: &Collection,
    ids: &[ChunkId],
    least: f64,
) -> Result<Vec<Vec<(f64, DuplicateChunk)>>, Error> {
    let statement = format!(
        "SELECT c.document_id, c.chunk_id, c.content, c.title, c.uri, c.chunk_index
         FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY
                  AS wanted (document_id, chunk_id, place)
              JOIN rag.chunks AS c
                  ON {} AND c.document_id = wanted.document_id
                 AND c.chunk_id = wanted.chunk_id
         ORDER BY wanted.place",
        collection.rows("c.")
    );
    let mut leaders = Leaders::new(least);
    let mut groups: Vec<Vec<(f64, DuplicateChunk)>> = vec![];
    for some in ids.chunks(CHUNKS) {
        let (documents, chunks): (Vec<Uuid>, Vec<Uuid>) =
            some.iter().map(|id| (id.document, id.chunk)).unzip();
        let args: [DatumWithOid<'_>; 2] = [documents.into(), chunks.into()];
        query_chunks(collection, &statement, &args, |row| {
            let content: String = row.required("content")?;
            let (group, similarity) = leaders.place(&content);
            let chunk = DuplicateChunk {
                title: row.get("title")?,
                uri: row.required("uri")?,
                chunk_index: row.required("chunk_index")?,
                document_id: row.required("document_id")?,
                chunk_id: row.required("chunk_id")?,
            };
            match groups.get_mut(group) {
                Some(group) => group.push((similarity, chunk)),
                None => groups.push(vec![(similarity, chunk)]),
            }
            Ok(())
        })?;
        pgrx::check_for_interrupts!();
    }
    groups.retain(|group| group.len() > 1);
    Ok(groups)
}
