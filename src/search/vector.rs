//! Search by cosine distance: exact, or by the index of the collection's partition, as the planner
//! finds cheaper.

use std::ffi::CString;

use pgrx::datum::DatumWithOid;

use super::{Hit, Request};
use crate::{
    catalog::{chunks::query_chunks, damage, embedding_index},
    error::Error,
    pg::{
        guc::with_settings,
        spi::{Row, filter_argument},
    },
    settings,
    types::vector::OwnedVector,
};

/// Parameters of the statement that come before the filter's.
const OWN_PARAMETERS: usize = 4;

/// The least `rag.ef_search` of a search: texts of questions lie farther from what answers them
/// than rows from each other, and the embedding of the question takes longer than the search.
const EF_SEARCH: usize = 200;

/// How the best are cut where all are sorted. Those at the same distance are in the order of their
/// ids.
const BEST_BY_SORT: &str = "ORDER BY 2, 1 LIMIT $3";
/// The same where an index gives them in the order of their distance alone: all that are as near as
/// the last one are taken, so that the order of ids decides between them, too. Without an index
/// this would sort all rows completely.
const BEST_BY_INDEX: &str = "ORDER BY 2 FETCH FIRST $3 ROWS WITH TIES";

/// The chunks nearest to `embedding`, best first, ties by chunk_id.
///
/// The inner query sees only what orders the rows; what is shown of them is read for the best
/// alone. Whatever the session has set for scans of its own, here a scan of the index goes on until
/// `top_k` rows have passed the filter and the caller's row-level security.
pub fn nearest(
    request: &Request,
    embedding: OwnedVector,
    operators: &str,
) -> Result<Vec<Hit>, Error> {
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
         SELECT s.score, c.content, c.title, c.uri, c.chunk_index, c.start_index, c.source, c.document_id, c.knowledge_id,
                c.chunk_id, c.metadata, c.start_line, c.end_line, c.page, c.heading_path
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
    damage::searching(&request.collection, || {
        let mut rank = 0;
        let ef_search =
            CString::new(settings::ef_search().max(EF_SEARCH).to_string()).unwrap_or_default();
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

fn hit(rank: i32, row: &Row<'_, '_>) -> Result<Hit, Error> {
    Ok(Hit {
        rank,
        score: row.required(1)?,
        content: row.required(2)?,
        title: row.get(3)?,
        uri: row.required(4)?,
        chunk_index: row.required(5)?,
        start_index: row.required(6)?,
        source: row.get(7)?,
        document_id: row.required(8)?,
        knowledge_id: row.get(9)?,
        chunk_id: row.required(10)?,
        metadata: row.required(11)?,
        start_line: row.required(12)?,
        end_line: row.required(13)?,
        page: row.get(14)?,
        heading_path: row.get(15)?,
    })
}
