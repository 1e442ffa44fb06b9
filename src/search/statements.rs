//! The statements of a search. Each reads chunks of one collection, with one condition, in one
//! order, so that it stays the same where chunks are distributed over several servers.

use pgrx::{datum::DatumWithOid, pg_sys::ItemPointerData};
use rag_definition::retriever::Metric;
use rag_pages::Tid;
use rag_retrieval::fusion::ChunkKey;
use uuid::Uuid;

use super::SearchRequest;
use crate::{
    catalog::chunks::{query_chunks, query_chunks_prepared},
    error::Error,
    index::am::tid::{from_pointer, to_pointer},
    pg::spi::{Row, filter_argument, uuid},
    storage::VectorIndex,
    types::vector::OwnedVector,
};

/// The number of parameters before those of the filter.
const OWN_PARAMETERS: usize = 2;

/// A chunk that a statement has found.
#[derive(Debug, Clone, Copy)]
pub struct FoundRow {
    pub key: ChunkKey,
    pub tid: Tid,
    /// If vectors count: see [`Metric::score`].
    pub similarity: Option<f64>,
}

/// What the statements of a search have in common.
pub struct Statements<'a> {
    pub request: &'a SearchRequest,
    pub embedding: Option<&'a OwnedVector>,
    /// The quoted name of the schema of the operators.
    pub operators: String,
    /// Plans are kept for the next search of the session.
    pub keeps_plans: bool,
}

/// A statement with its arguments.
pub struct Statement {
    pub text: String,
    pub args: Vec<DatumWithOid<'static>>,
}

impl Statements<'_> {
    /// The nearest chunks, by the index of the partition if it has one.
    ///
    /// # Errors
    /// The database lacks what the index needs.
    pub fn nearest(
        &self,
        limit: usize,
        index: Option<&dyn VectorIndex>,
    ) -> Result<Statement, Error> {
        // An index orders by distance alone. All chunks at the distance of the last one are
        // fetched, so that they can be ordered by their ids. Without an index this would sort all
        // rows completely.
        let collection = &self.request.collection;
        let order = match (index, &collection.model) {
            (Some(index), Some(model)) => {
                let order = index.order(collection.storage(), model.dimensions)?;
                format!("ORDER BY {order} FETCH FIRST {limit} ROWS WITH TIES")
            }
            _ => format!("ORDER BY distance, c.chunk_id LIMIT {limit}"),
        };
        Ok(self.statement("", &order, None::<i64>.into()))
    }

    /// Those of some chunks that pass the filter, by their ids.
    pub fn among(&self, documents: &[Uuid], chunks: &[Uuid]) -> Statement {
        let keys: Vec<String> = documents
            .iter()
            .zip(chunks)
            .map(|(document, chunk)| format!("{document}{chunk}"))
            .collect();
        // a join with the ids uses the primary key
        let condition = " AND (c.document_id, c.chunk_id) IN (
             SELECT left(k.key, 36)::uuid, right(k.key, 36)::uuid
             FROM unnest($2) AS k (key))";
        self.statement(condition, "", keys.into())
    }

    /// The chunks of some documents that pass the filter.
    pub fn of_documents(&self, documents: &[Uuid]) -> Statement {
        let documents: Vec<pgrx::Uuid> = documents.iter().map(|id| uuid(*id)).collect();
        self.statement(" AND c.document_id = ANY ($2)", "", documents.into())
    }

    /// Those of some chunks that pass the filter.
    pub fn at_places(&self, places: &[Tid]) -> Statement {
        let places: Vec<ItemPointerData> = places.iter().map(|tid| to_pointer(*tid)).collect();
        self.statement(" AND c.ctid = ANY ($2)", "", places.into())
    }

    /// All chunks that pass the filter, or some of them.
    pub fn filtered(&self, limit: Option<usize>) -> Statement {
        let order = limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        self.statement("", &order, None::<i64>.into())
    }

    /// `argument` is the second parameter.
    fn statement(
        &self,
        condition: &str,
        order: &str,
        argument: DatumWithOid<'static>,
    ) -> Statement {
        let Self {
            request, operators, ..
        } = self;
        let filter = request.filter.to_sql(OWN_PARAMETERS + 1);
        let distance = match self.embedding {
            Some(_) => {
                let operator = request.collection.storage().metric().operator();
                format!("c.embedding OPERATOR({operators}.{operator}) $1")
            }
            None => "NULL::float8".to_owned(),
        };
        let text = format!(
            "SELECT c.chunk_id, c.document_id, c.ctid, {distance} AS distance
             FROM rag.chunks AS c
             WHERE {rows} AND ({filter}){condition}
             {order}",
            rows = request.collection.rows("c."),
            filter = filter.text,
        );
        let mut args: Vec<DatumWithOid<'static>> = vec![self.embedding.cloned().into(), argument];
        args.extend(filter.params.into_iter().map(filter_argument));
        Statement { text, args }
    }

    /// Runs a statement. It returns what the caller may see.
    pub fn run(&self, statement: &Statement) -> Result<Vec<FoundRow>, Error> {
        let Statement { text, args } = statement;
        let collection = &self.request.collection;
        let metric = collection.storage().metric();
        if self.keeps_plans {
            query_chunks_prepared(collection, text, args, |row| found(&row, metric))
        } else {
            query_chunks(collection, text, args, |row| found(&row, metric))
        }
    }
}

fn found(row: &Row<'_, '_>, metric: Metric) -> Result<FoundRow, Error> {
    let distance: Option<f64> = row.get("distance")?;
    Ok(FoundRow {
        key: key(row)?,
        tid: from_pointer(row.required("ctid")?),
        similarity: distance.map(|distance| metric.score(distance)),
    })
}

/// Reads the ids of a chunk.
pub fn key(row: &Row<'_, '_>) -> Result<ChunkKey, Error> {
    Ok(ChunkKey {
        chunk: row.uuid("chunk_id")?.into_bytes(),
        document: row.uuid("document_id")?.into_bytes(),
    })
}
