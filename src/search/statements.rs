//! The statements of a search. Each reads chunks of one collection, with one condition, in one
//! order, so that it stays the same where chunks are distributed over several servers.

use pgrx::{datum::DatumWithOid, pg_sys::ItemPointerData};
use rag_definition::retriever::Metric;
use rag_pages::Tid;
use rag_retrieval::fusion::ChunkKey;
use uuid::Uuid;

use super::SearchRequest;
use crate::{
    catalog::{
        chunks::{query_chunks, query_chunks_prepared, relation},
        partitions::Partition,
    },
    collection::keyword_index,
    error::Error,
    index::am::tid::{from_pointer, to_pointer},
    pg::spi::{Rights, Row, filter_argument, uuid},
    storage::{IndexScan, VectorIndex},
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

/// A list of chunks that is found on shards.
pub enum ShardList<'a> {
    /// The nearest chunks, by an index that is scanned so.
    Nearest {
        index: Option<&'a dyn VectorIndex>,
        scan: IndexScan,
    },
    /// The chunks with the highest BM25 scores.
    Best,
    /// Chunks by the ids of their documents, and their own.
    Among(&'a [Uuid], &'a [Uuid]),
}

/// A chunk that was found on a shard. Its place is one of that shard.
#[derive(Debug, Clone, Copy)]
pub struct ShardRow {
    pub row: FoundRow,
    /// The BM25 score, 0 if it was not asked for.
    pub score: f64,
    /// It has what the words require, and nothing that they exclude.
    pub is_allowed: bool,
}

/// What statements differ in.
#[derive(Default)]
struct Shape {
    /// The relation. None for `rag.chunks`.
    from: Option<String>,
    /// Further columns, after a comma.
    columns: String,
    /// A further condition, after AND.
    condition: String,
    order: String,
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
        Ok(self.statement("", &self.order(index, limit)?, None::<i64>.into()))
    }

    /// The order of the nearest chunks.
    fn order(&self, index: Option<&dyn VectorIndex>, limit: usize) -> Result<String, Error> {
        // An index orders by distance alone. All chunks at the distance of the last one are
        // fetched, so that they can be ordered by their ids. Without an index this would sort all
        // rows completely.
        let collection = &self.request.collection;
        Ok(match (index, &collection.model) {
            (Some(index), Some(model)) => {
                let order = index.order(collection.storage(), model.dimensions)?;
                format!("ORDER BY {order} FETCH FIRST {limit} ROWS WITH TIES")
            }
            _ => format!("ORDER BY distance, c.chunk_id LIMIT {limit}"),
        })
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

    /// A list that is found on shards. `query` has the words, with the statistics of all shards:
    /// then rows come with their keyword scores. The owner's rights are needed for that.
    ///
    /// # Errors
    /// The database lacks what the index needs.
    pub fn on_shards(
        &self,
        list: ShardList<'_>,
        query: Option<&str>,
        limit: usize,
    ) -> Result<Statement, Error> {
        let collection = &self.request.collection;
        let mut shape = Shape {
            from: Some(relation(collection)?),
            ..Shape::default()
        };
        match &list {
            ShardList::Nearest { index, scan } => {
                shape.order = self.order(*index, limit)?;
                if let Some(index) = index {
                    let settings = index.scan_settings(*scan).into_iter();
                    let settings = settings.map(|(name, value)| {
                        format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
                    });
                    shape.condition = format!(
                        " AND rag_internal.scan_settings(c.partition, '{}')",
                        settings.collect::<Vec<_>>().join(";")
                    );
                }
            }
            ShardList::Best => {
                let expression = keyword_index::expression(collection, "c");
                let partition = collection.partition.as_ref();
                shape.from = partition.map(Partition::qualified);
                shape.columns = format!(
                    ", ({expression}) OPERATOR({}.<@>) $2 AS score",
                    self.operators
                );
                shape.order = format!(
                    "ORDER BY ({expression}) OPERATOR({}.<@>) $2 LIMIT {limit}",
                    self.operators
                );
            }
            ShardList::Among(documents, chunks) => {
                let ids = |ids: &[Uuid]| {
                    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
                    ids.join(",")
                };
                shape.condition = format!(
                    " AND c.document_id = ANY ('{{{}}}') AND c.chunk_id = ANY ('{{{}}}')",
                    ids(documents),
                    ids(chunks)
                );
            }
        }
        if shape.columns.is_empty() {
            shape.columns = match query {
                Some(_) => ", rag_internal.keyword_score(c.tableoid, c.ctid, $2) AS score",
                None => ", CASE WHEN $2::text IS NULL THEN 0::float8 END AS score",
            }
            .to_owned();
        }
        Ok(self.statement_of(&shape, query.map(str::to_owned).into()))
    }

    /// `argument` is the second parameter.
    fn statement(
        &self,
        condition: &str,
        order: &str,
        argument: DatumWithOid<'static>,
    ) -> Statement {
        let shape = Shape {
            condition: condition.to_owned(),
            order: order.to_owned(),
            ..Shape::default()
        };
        self.statement_of(&shape, argument)
    }

    fn statement_of(&self, shape: &Shape, argument: DatumWithOid<'static>) -> Statement {
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
            "SELECT c.chunk_id, c.document_id, c.ctid, {distance} AS distance{columns}
             FROM {from} AS c
             WHERE {rows} AND ({filter}){condition}
             {order}",
            columns = shape.columns,
            from = shape.from.as_deref().unwrap_or("rag.chunks"),
            rows = request.collection.rows("c."),
            filter = filter.text,
            condition = shape.condition,
            order = shape.order,
        );
        let mut args: Vec<DatumWithOid<'static>> = vec![self.embedding.cloned().into(), argument];
        args.extend(filter.params.into_iter().map(filter_argument));
        Statement { text, args }
    }

    /// Runs a statement for shards.
    pub fn run_on_shards(
        &self,
        rights: &Rights,
        statement: &Statement,
    ) -> Result<Vec<ShardRow>, Error> {
        let metric = self.request.collection.storage().metric();
        rights.query(&statement.text, &statement.args, |row| {
            let score: Option<f64> = row.get("score")?;
            Ok(ShardRow {
                row: found(&row, metric)?,
                score: score.map_or(0.0, f64::abs), // the operator's is negative
                is_allowed: score.is_some(),
            })
        })
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
