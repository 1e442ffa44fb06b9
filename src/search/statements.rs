//! The statements of a search. Each reads chunks of one collection, with one condition, in one
//! order, so that it stays the same where chunks are distributed over several servers.

use pgrx::datum::DatumWithOid;
use rag_fusion::ChunkKey;
use rag_pages::Tid;

use super::{SearchRequest, words::QueryWords};
use crate::{
    catalog::{chunks::query_chunks, embedding_index, keyword_index},
    error::Error,
    pg::spi::{Row, filter_argument},
    types::vector::OwnedVector,
};

/// The number of parameters before those of the filter.
const OWN_PARAMETERS: usize = 4;

/// A chunk that a statement has found.
#[derive(Debug, Clone, Copy)]
pub struct FoundRow {
    pub key: ChunkKey,
    pub tid: Tid,
    /// If vectors count.
    pub cosine: Option<f64>,
    /// If keywords count, and the statement computes it.
    pub keyword: Option<f64>,
}

/// What the statements of a search have in common.
pub struct Statements<'a> {
    pub request: &'a SearchRequest,
    pub embedding: Option<&'a OwnedVector>,
    pub words: Option<&'a QueryWords>,
    /// The quoted name of the schema of the operators.
    pub operators: &'a str,
}

/// A statement with its arguments.
pub struct Statement<'a> {
    pub text: String,
    pub args: Vec<DatumWithOid<'a>>,
}

impl<'a> Statements<'a> {
    /// The nearest chunks.
    pub fn nearest(&self, limit: usize) -> Statement<'a> {
        // An index orders by distance alone. All chunks at the distance of the last one are
        // fetched, so that they can be ordered by their ids. Without an index this would sort all
        // rows completely.
        let order = match embedding_index::exists(&self.request.collection) {
            true => "ORDER BY distance FETCH FIRST $4 ROWS WITH TIES",
            false => "ORDER BY distance, c.chunk_id LIMIT $4",
        };
        self.statement(false, order, limit)
    }

    /// The chunks with the highest BM25 scores.
    pub fn best_by_words(&self, limit: usize) -> Statement<'a> {
        self.statement(
            true,
            "ORDER BY negative_score FETCH FIRST $4 ROWS WITH TIES",
            limit,
        )
    }

    /// All chunks that pass the filter, or some of them.
    pub fn filtered(&self, limit: Option<usize>) -> Statement<'a> {
        let order = limit.map_or("", |_| "LIMIT $4");
        self.statement(false, order, limit.unwrap_or_default())
    }

    fn statement(&self, with_words: bool, order: &str, limit: usize) -> Statement<'a> {
        let Self {
            request, operators, ..
        } = self;
        let filter = request.filter.to_sql(OWN_PARAMETERS + 1);
        let distance = match self.embedding {
            Some(_) => format!("c.embedding OPERATOR({operators}.<=>) $2"),
            None => "NULL::pg_catalog.float8".to_owned(),
        };
        let negative_score = match self.words.filter(|_| with_words) {
            Some(_) => {
                let text = keyword_index::expression(&request.collection, "c");
                format!("({text}) OPERATOR({operators}.<@>) $3")
            }
            None => "NULL::pg_catalog.float8".to_owned(),
        };
        let text = format!(
            "SELECT c.chunk_id, c.document_id, c.ctid, {distance} AS distance,
                    {negative_score} AS negative_score
             FROM rag.chunks AS c
             WHERE c.collection = $1 AND ({filter})
             {order}",
            filter = filter.text,
        );
        let mut args: Vec<DatumWithOid<'_>> = vec![
            request.collection.name.as_str().into(),
            self.embedding.cloned().into(),
            self.words.map(QueryWords::query).into(),
            (limit as i64).into(),
        ];
        args.extend(filter.params.into_iter().map(filter_argument));
        Statement { text, args }
    }

    /// Runs a statement. It returns what the caller may see.
    pub fn run(&self, statement: &Statement<'_>) -> Result<Vec<FoundRow>, Error> {
        query_chunks(
            &self.request.collection,
            &statement.text,
            &statement.args,
            |row| found(&row),
        )
    }
}

fn found(row: &Row<'_, '_>) -> Result<FoundRow, Error> {
    let place: pgrx::pg_sys::ItemPointerData = row.required(3)?;
    let (block, offset) = pgrx::itemptr::item_pointer_get_both(place);
    let distance: Option<f64> = row.get(4)?;
    let negative_score: Option<f64> = row.get(5)?;
    Ok(FoundRow {
        key: key(row)?,
        tid: Tid { block, offset },
        cosine: distance.map(|distance| 1.0 - distance),
        keyword: negative_score.map(|negative| -negative),
    })
}

/// Reads the ids in the first two columns.
pub fn key(row: &Row<'_, '_>) -> Result<ChunkKey, Error> {
    Ok(ChunkKey {
        chunk: *row.required::<pgrx::Uuid>(1)?.as_bytes(),
        document: *row.required::<pgrx::Uuid>(2)?.as_bytes(),
    })
}
