//! Search by cosine distance. The planner chooses between an exact search and the index of the
//! collection's partition.

use std::ffi::CString;

use pgrx::datum::DatumWithOid;

use super::{SearchHit, SearchRequest};
use crate::{
    catalog::{chunks::query_chunks, corruption, embedding_index},
    error::Error,
    pg::{
        guc::with_settings,
        spi::{Row, filter_argument},
    },
    settings,
    types::vector::OwnedVector,
};

/// The number of parameters before those of the filter.
const OWN_PARAMETERS: usize = 4;

/// The minimum of `rag.ef_search` for a search. A question lies farther from its answers than rows
/// from each other, and embedding the question takes longer than the search.
const MIN_EF_SEARCH: usize = 200;

/// The order of a search without an index. Chunks at the same distance are ordered by their ids.
const BEST_BY_SORT: &str = "ORDER BY 2, 1 LIMIT $3";
/// The order of a search with an index, which orders by distance alone. All chunks at the distance
/// of the last one are fetched, so that the outer query can order them by their ids. Without an
/// index this would sort all rows completely.
const BEST_BY_INDEX: &str = "ORDER BY 2 FETCH FIRST $3 ROWS WITH TIES";

/// Returns the chunks nearest to `embedding` in the order of their scores. Ties are ordered by
/// chunk_id.
///
/// The inner query reads only the columns that order the rows. The outer query reads the others for
/// the best rows. The settings of the session for index scans do not apply: a scan continues until
/// `top_k` rows have passed the filter and row-level security.
pub fn nearest(
    request: &SearchRequest,
    embedding: OwnedVector,
    operators: &str,
) -> Result<Vec<SearchHit>, Error> {
    let filter = request.filter.to_sql(OWN_PARAMETERS + 1);
    let best = if embedding_index::exists(&request.collection) {
        BEST_BY_INDEX
    } else {
        BEST_BY_SORT
    };
    let statement = format!(
        "WITH best AS MATERIALIZED (
             SELECT c.chunk_id, c.embedding OPERATOR({operators}.<=>) $2 AS distance
             FROM rag.chunks AS c
             WHERE c.collection = $1 AND ({filter})
             {best}),
         scored AS (SELECT chunk_id, greatest(1 - distance, 0) AS score FROM best)
         SELECT s.score, c.content, c.title, c.uri, c.chunk_index, c.start_index, c.source,
                c.document_id, c.knowledge_id, c.chunk_id, c.metadata, c.document_type, c.category,
                c.tags, c.start_line, c.end_line, c.page, c.heading_path, c.indexed_at,
                c.fetched_at
         FROM scored AS s JOIN rag.chunks AS c ON c.collection = $1 AND c.chunk_id = s.chunk_id
         WHERE s.score >= $4
         ORDER BY s.score DESC, c.chunk_id
         LIMIT $3",
        filter = filter.text,
    );
    let mut args: Vec<DatumWithOid<'_>> = vec![
        request.collection.name.as_str().into(),
        embedding.into(),
        i64::from(request.top_k).into(),
        request.threshold.unwrap_or(0.0).into(),
    ];
    args.extend(filter.params.into_iter().map(filter_argument));
    corruption::search_with_fallback(&request.collection, || {
        let mut rank = 0;
        let ef_search =
            CString::new(settings::ef_search().max(MIN_EF_SEARCH).to_string()).unwrap_or_default();
        let complete = [
            (c"rag.iterative_scan", c"strict"),
            (c"rag.max_scan_tuples", c"0"),
            (c"rag.ef_search", ef_search.as_c_str()),
        ];
        with_settings(&complete, || {
            query_chunks(&request.collection, &statement, &args, |row| {
                rank += 1;
                hit(rank, &row)
            })
        })
    })
}

fn hit(rank: i32, row: &Row<'_, '_>) -> Result<SearchHit, Error> {
    Ok(SearchHit {
        rank,
        score: row.required("score")?,
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
        document_type: row.required("document_type")?,
        category: row.get("category")?,
        tags: row.get("tags")?,
        start_line: row.required("start_line")?,
        end_line: row.required("end_line")?,
        page: row.get("page")?,
        heading_path: row.get("heading_path")?,
        indexed_at: row.required("indexed_at")?,
        fetched_at: row.required("fetched_at")?,
    })
}
