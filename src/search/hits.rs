//! Reads the chunks of the results: their columns, and the chunks around them.

use std::collections::{BTreeMap, HashMap};

use pgrx::datum::TimestampWithTimeZone;
use rag_ann::distance::cosine_distance;
use rag_retrieval::context::{JoinedText, QuotedChunk};
use rag_retrieval::fusion::{ChunkKey, Ranked};

use super::{SearchRequest, statements::key};
use crate::{
    catalog::chunks::{query_chunks, query_chunks_prepared, relation},
    error::Error,
    pg::spi::Row,
    types::vector::OwnedVector,
};

/// A chunk that a search found.
pub struct SearchHit {
    pub rank: i32,
    pub collection: String,
    /// 0 to 1.
    pub score: f64,
    pub content: String,
    pub title: Option<String>,
    pub uri: String,
    pub chunk_index: i32,
    pub start_index: i32,
    pub source: Option<String>,
    pub document_id: pgrx::Uuid,
    pub knowledge_id: Option<i64>,
    pub chunk_id: pgrx::Uuid,
    pub metadata: pgrx::JsonB,
    /// The cosine similarity, 0 for a negative one. None if vectors do not count.
    pub vector_score: Option<f64>,
    /// The BM25 score, divided by that of the best candidate. None if keywords do not count.
    pub keyword_score: Option<f64>,
    /// The place in the list of vector search, from 1. None if it is not in the list.
    pub vector_rank: Option<i32>,
    pub keyword_rank: Option<i32>,
    pub document_type: String,
    pub category: Option<String>,
    pub tags: Option<Vec<String>>,
    /// The first and the last line of the chunk in the document, counted from 1.
    pub start_line: i32,
    pub end_line: i32,
    /// The page on which the chunk begins, counted from 1. None for documents without pages.
    pub page: Option<i32>,
    pub heading_path: Option<Vec<String>>,
    /// The place of the document that the chunk belongs to, as addresses name it after `#`.
    pub anchor: Option<String>,
    pub indexed_at: TimestampWithTimeZone,
    pub fetched_at: TimestampWithTimeZone,
    /// The uris of other documents that were found with the same text.
    pub also_at: Vec<String>,
}

/// Reads the chunks of the results, in their order.
pub fn read_hits(request: &SearchRequest, results: &[Ranked]) -> Result<Vec<SearchHit>, Error> {
    if results.is_empty() {
        return Ok(vec![]);
    }
    let places: HashMap<ChunkKey, usize> = (0..)
        .zip(results)
        .map(|(n, ranked)| (ranked.key, n))
        .collect();
    let (documents, chunks) = ids(results);
    let statement = format!(
        "SELECT c.chunk_id, c.document_id, c.content, c.title, c.uri, c.chunk_index, c.start_index,
                c.source, c.knowledge_id, c.metadata, c.document_type, c.category, c.tags,
                c.start_line, c.end_line, c.page, c.heading_path, c.anchor, c.indexed_at,
                c.fetched_at
         FROM ROWS FROM (unnest($1), unnest($2))
                  AS wanted (document_id, chunk_id)
              JOIN {} AS c
                  ON {} AND c.document_id = wanted.document_id
                 AND c.chunk_id = wanted.chunk_id",
        relation(&request.collection)?,
        request.collection.rows("c.")
    );
    let mut hits = query_chunks_prepared(
        &request.collection,
        &statement,
        &[documents.into(), chunks.into()],
        |row| {
            let place = places.get(&key(&row)?);
            place
                .map(|place| hit(request, *place as i32 + 1, &results[*place], &row))
                .transpose()
        },
    )?;
    hits.retain(Option::is_some);
    let mut hits: Vec<SearchHit> = hits.into_iter().flatten().collect();
    hits.sort_unstable_by_key(|hit| hit.rank);
    Ok(hits)
}

fn ids(results: &[Ranked]) -> (Vec<pgrx::Uuid>, Vec<pgrx::Uuid>) {
    let uuid = pgrx::Uuid::from_bytes;
    results
        .iter()
        .map(|ranked| (uuid(ranked.key.document), uuid(ranked.key.chunk)))
        .unzip()
}

fn hit(
    request: &SearchRequest,
    rank: i32,
    ranked: &Ranked,
    row: &Row<'_, '_>,
) -> Result<SearchHit, Error> {
    Ok(SearchHit {
        rank,
        collection: request.collection.name.as_str().to_owned(),
        score: ranked.score,
        content: row.required("content")?,
        title: row.get("title")?,
        uri: row.required("uri")?,
        chunk_index: row.required("chunk_index")?,
        start_index: row.required("start_index")?,
        source: row.get("source")?,
        document_id: row.required("document_id")?,
        knowledge_id: row.get("knowledge_id")?,
        chunk_id: row.required("chunk_id")?,
        metadata: row.required("metadata")?,
        vector_score: ranked.vector_score,
        keyword_score: ranked.keyword_score,
        vector_rank: ranked.vector_rank.map(|rank| rank as i32),
        keyword_rank: ranked.keyword_rank.map(|rank| rank as i32),
        document_type: row.required("document_type")?,
        category: row.get("category")?,
        tags: row.get("tags")?,
        start_line: row.required("start_line")?,
        end_line: row.required("end_line")?,
        page: row.get("page")?,
        heading_path: row.get("heading_path")?,
        anchor: row.get("anchor")?,
        indexed_at: row.required("indexed_at")?,
        fetched_at: row.required("fetched_at")?,
        also_at: vec![],
    })
}

/// A chunk of a document, found by its position.
#[derive(Debug, Clone)]
pub struct Neighbour {
    pub chunk_id: pgrx::Uuid,
    pub text: QuotedChunk,
    pub start_line: i32,
    pub end_line: i32,
    pub page: Option<i32>,
    pub anchor: Option<String>,
}

/// Chunks by document and position.
pub type Neighbours = HashMap<[u8; 16], BTreeMap<i32, Neighbour>>;

/// Reads each hit's chunk again, with `distance` chunks before and after it.
pub fn read_neighbours(
    request: &SearchRequest,
    hits: &[SearchHit],
    distance: i32,
) -> Result<Neighbours, Error> {
    let documents: Vec<pgrx::Uuid> = hits.iter().map(|hit| hit.document_id).collect();
    let (first, last): (Vec<i32>, Vec<i32>) = hits.iter().map(|hit| hit.range(distance)).unzip();
    let mut found = Neighbours::new();
    query_chunks(
        &request.collection,
        &format!(
            "SELECT c.document_id, c.chunk_id, c.chunk_index, c.content, c.start_index,
                    c.head_length, c.start_line, c.end_line, c.page, c.anchor
             FROM ROWS FROM (unnest($1), unnest($2), unnest($3))
                      AS wanted (document_id, first, last)
                  JOIN {} AS c
                      ON {} AND c.document_id = wanted.document_id
                     AND c.chunk_index BETWEEN wanted.first AND wanted.last",
            relation(&request.collection)?,
            request.collection.rows("c.")
        ),
        &[documents.into(), first.into(), last.into()],
        |row| {
            let document: pgrx::Uuid = row.required("document_id")?;
            let chunks = found.entry(*document.as_bytes()).or_default();
            let index = row.required("chunk_index")?;
            let neighbour = Neighbour {
                chunk_id: row.required("chunk_id")?,
                text: QuotedChunk {
                    index,
                    start: row.required("start_index")?,
                    head_length: row.required("head_length")?,
                    content: row.required("content")?,
                },
                start_line: row.required("start_line")?,
                end_line: row.required("end_line")?,
                page: row.get("page")?,
                anchor: row.get("anchor")?,
            };
            chunks.insert(index, neighbour);
            Ok(())
        },
    )?;
    Ok(found)
}

impl SearchHit {
    pub fn key(&self) -> ChunkKey {
        ChunkKey {
            chunk: *self.chunk_id.as_bytes(),
            document: *self.document_id.as_bytes(),
        }
    }

    /// Returns the positions of the first and last chunk within `distance` of this one.
    pub fn range(&self, distance: i32) -> (i32, i32) {
        (self.chunk_index - distance, self.chunk_index + distance)
    }
}

/// Joins the chunks before and after each result to its text. The text of a result then begins at
/// `start_index` and ends on `end_line` of these chunks.
pub fn join_neighbours(request: &SearchRequest, hits: &mut [SearchHit]) -> Result<(), Error> {
    let found = read_neighbours(request, hits, request.neighbours)?;
    for hit in hits {
        let (first, last) = hit.range(request.neighbours);
        let Some(chunks) = found.get(hit.document_id.as_bytes()) else {
            continue;
        };
        let mut joined = JoinedText::default();
        for neighbour in chunks.range(first..=last).map(|(_, chunk)| chunk) {
            joined.push(&neighbour.text);
        }
        if let Some((_, first)) = chunks.range(first..=last).next() {
            hit.start_index = first.text.start;
            hit.start_line = first.start_line;
            hit.page = first.page;
            hit.anchor.clone_from(&first.anchor);
        }
        let last_lines = chunks.range(first..=last).map(|(_, chunk)| chunk.end_line);
        hit.end_line = last_lines.max().unwrap_or(hit.end_line);
        hit.content = joined.into_text();
    }
    Ok(())
}

/// The embeddings of ranked chunks.
#[derive(Default)]
pub struct Embeddings(HashMap<(usize, ChunkKey), Vec<f32>>);

impl Embeddings {
    pub fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Returns how similar two chunks are, 0 to 1. Embeddings of different numbers of dimensions
    /// are not similar.
    pub fn similarity(&self, one: &Ranked, other: &Ranked) -> f64 {
        let of = |chunk: &Ranked| self.0.get(&(chunk.part, chunk.key));
        match (of(one), of(other)) {
            (Some(one), Some(other)) if one.len() == other.len() => {
                (1.0 - cosine_distance(one, other)).clamp(0.0, 1.0)
            }
            _ => 0.0,
        }
    }
}

/// Reads the embeddings of ranked chunks, which are all of one collection.
pub fn read_embeddings(request: &SearchRequest, ranked: &[Ranked]) -> Result<Embeddings, Error> {
    let (documents, chunks) = ids(ranked);
    let found = query_chunks(
        &request.collection,
        &format!(
            "SELECT c.chunk_id, c.document_id, c.embedding
             FROM ROWS FROM (unnest($1), unnest($2))
                      AS wanted (document_id, chunk_id)
                  JOIN {} AS c
                      ON {} AND c.document_id = wanted.document_id
                     AND c.chunk_id = wanted.chunk_id",
            relation(&request.collection)?,
            request.collection.rows("c.")
        ),
        &[documents.into(), chunks.into()],
        |row| {
            Ok((
                key(&row)?,
                Vec::from(row.required::<OwnedVector>("embedding")?),
            ))
        },
    )?;
    let part = ranked.first().map_or(0, |chunk| chunk.part);
    let found = found.into_iter();
    Ok(Embeddings(
        found.map(|(key, vector)| ((part, key), vector)).collect(),
    ))
}
