//! Counts of the values under some keys, of all chunks that a search for words matches.

use std::ops::ControlFlow;

use pgrx::{
    datum::DatumWithOid,
    pg_sys::{self, ItemPointerData},
};
use rag_filter::{Facet, Filter};
use rag_pages::{Tid, memory::append};

use super::{fields::divide_text, notice::Notice, trace::Trace, words::QueryWords};
use crate::{
    catalog::{
        access::sees_every_row,
        chunks::{as_reader, query_chunks},
        collections::Collection,
        shards::is_distributed,
    },
    collection::{
        corruption::{IndexUse, search_with_fallback},
        keyword_index, rights,
    },
    error::Error,
    index::am::tid::to_pointer,
    pg::{extension, spi::filter_argument},
};

/// The number of chunks that the keyword index is asked for at first.
const FIRST_BATCH: usize = 16_384;

/// The columns that facets are of.
const COLUMNS: &str = "c.document_id, c.chunk_id, c.uri, c.title, c.source, c.knowledge_id,
    c.document_type, c.category, c.tags, c.metadata, c.chunk_index, c.start_index, c.start_line,
    c.end_line, c.page, c.heading_path, c.fetched_at, c.indexed_at";

/// What to count.
pub struct FacetRequest {
    pub collection: Collection,
    /// Chunks match that have at least one of its words. Without it, all do.
    pub query: Option<String>,
    pub facets: Vec<Facet>,
    pub filter: Filter,
    /// The maximum number of values of each key.
    pub top: i32,
}

/// How often a value was found.
pub struct FacetCount {
    pub key: String,
    pub value: String,
    pub documents: i64,
    pub chunks: i64,
}

/// Returns the most frequent values of each key, in the order of the keys. They are those of chunks
/// that the caller may see.
///
/// # Errors
/// The caller may not read the collection.
pub fn facets(mut request: FacetRequest) -> Result<Vec<FacetCount>, Error> {
    rights::require_read(&request.collection)?;
    let Some(query) = request.query.take() else {
        return count(&request, &Matching::All);
    };
    let (query, filter) = divide_text(&request.collection, &query, request.filter)?;
    request.filter = filter;
    let (counts, notices) = search_with_fallback(&request.collection, |indexes| {
        let trace = Trace::default();
        let counts = match matching(&request.collection, &query, indexes, &trace)? {
            Some(matching) => count(&request, &matching)?,
            None => vec![],
        };
        Ok((counts, trace.take_notices()))
    })?;
    notices.into_iter().for_each(Notice::raise);
    Ok(counts)
}

/// The chunks that are counted.
enum Matching {
    All,
    /// Those with words of a query, by the keyword index.
    Words {
        index: pg_sys::Oid,
        query: String,
    },
    /// Those at some places. The caller may not be allowed to see all of them.
    Places(Vec<Tid>),
    /// Those with words of a query, by the keyword indexes on shards.
    Shards(String),
}

/// Returns the chunks with words of the query, or `None` if it has no words.
fn matching(
    collection: &Collection,
    query: &str,
    indexes: IndexUse,
    trace: &Trace,
) -> Result<Option<Matching>, Error> {
    let words = match indexes {
        IndexUse::Allowed => as_reader(collection, |_| QueryWords::of(collection, query, trace))?,
        IndexUse::Forbidden => QueryWords::of_table(collection, query, trace)?,
    };
    let words = match words {
        Ok(words) => words,
        Err(why) => {
            trace.tell(Notice::new(format!(
                "nothing was counted: {}",
                why.reason()
            )));
            return Ok(None);
        }
    };
    if let Some(query) = words.of_shards() {
        return Ok(Some(Matching::Shards(query.to_owned())));
    }
    // row-level security would be asked of each chunk before the operator
    if let Some(index) = words.index()
        && sees_every_row(collection)
    {
        let query = query.to_owned();
        return Ok(Some(Matching::Words { index, query }));
    }
    let mut places: Vec<Tid> = vec![];
    as_reader(collection, |_| {
        words.each_batch(FIRST_BATCH, |rows| {
            let batch: Vec<Tid> = rows.into_iter().map(|(tid, _)| tid).collect();
            append(&mut places, &batch)
                .map_err(|_| Error::out_of_memory("Memory ran out while matches were listed."))?;
            Ok(ControlFlow::Continue(()))
        })
    })?;
    Ok(Some(Matching::Places(places)))
}

impl Matching {
    /// Returns the condition of these chunks, whose parameter is `$1`.
    fn to_sql(&self, collection: &Collection) -> Result<(String, DatumWithOid<'static>), Error> {
        Ok(match self {
            Self::All => ("$1::text IS NULL".to_owned(), None::<String>.into()),
            Self::Words { index, query } => {
                let expression = keyword_index::expression(collection, "c");
                let (operators, index) = (extension::own_schema()?, index.to_u32());
                let condition = format!(
                    "({expression}) OPERATOR({operators}.@@@) \
                     rag_internal.bm25_query($1, {index}::regclass)"
                );
                (condition, query.clone().into())
            }
            Self::Shards(query) => {
                let expression = keyword_index::expression(collection, "c");
                let operators = extension::own_schema()?;
                let condition = format!("({expression}) OPERATOR({operators}.@@@) $1");
                (condition, query.clone().into())
            }
            Self::Places(places) => {
                let pointers = places.iter().map(|tid| to_pointer(*tid));
                let pointers: Vec<ItemPointerData> = pointers.collect();
                ("c.ctid = ANY ($1)".to_owned(), pointers.into())
            }
        })
    }
}

/// Returns the relation that has the chunks. Only a partition has the keyword index.
fn relation(collection: &Collection, matching: &Matching) -> String {
    match (matching, &collection.partition) {
        (Matching::Shards(_), Some(partition)) => partition.qualified(),
        _ => "rag.chunks".to_owned(),
    }
}

/// Counts the values of chunks that pass the filter.
fn count(request: &FacetRequest, matching: &Matching) -> Result<Vec<FacetCount>, Error> {
    let FacetRequest {
        collection,
        facets,
        filter,
        top,
        ..
    } = request;
    let (matches, argument) = matching.to_sql(collection)?;
    let mut args: Vec<DatumWithOid<'static>> = vec![argument, (*top).into()];
    let filter = filter.to_sql(args.len() + 1);
    args.extend(filter.params.into_iter().map(filter_argument));
    let mut values = vec![];
    for (number, facet) in facets.iter().enumerate() {
        let of_key = facet.values(args.len() + 1);
        args.extend(of_key.params.into_iter().map(filter_argument));
        let text = of_key.text;
        values.push(format!(
            "SELECT {number} AS key, v.value FROM ({text}) AS v"
        ));
    }
    let from = relation(collection, matching);
    let rows = collection.rows("c.");
    let condition = format!("{rows} AND ({}) AND {matches}", filter.text);
    // Citus cannot send functions of values to shards, so their rows are read
    let (with, from, condition) = match is_distributed()? {
        true => (
            format!(
                "WITH c AS MATERIALIZED (SELECT {COLUMNS} FROM {from} AS c WHERE {condition}) "
            ),
            "c".to_owned(),
            "true".to_owned(),
        ),
        false => (String::new(), format!("{from} AS c"), condition),
    };
    let statement = format!(
        "{with}SELECT key, value, documents, chunks
         FROM (SELECT key, value, documents, chunks,
                      row_number() OVER (PARTITION BY key
                          ORDER BY documents DESC, chunks DESC, value COLLATE \"C\") AS place
               FROM (SELECT k.key, k.value, count(*) AS chunks,
                            count(DISTINCT c.document_id) AS documents
                     FROM {from} CROSS JOIN LATERAL ({values}) AS k
                     WHERE {condition}
                     GROUP BY k.key, k.value) AS counted) AS ranked
         WHERE place <= $2 ORDER BY key, place",
        values = values.join(" UNION ALL "),
    );
    query_chunks(collection, &statement, &args, |row| {
        let number: i32 = row.required("key")?;
        let facet = facets.get(number as usize);
        Ok(FacetCount {
            key: facet
                .map(|facet| facet.name().to_owned())
                .unwrap_or_default(),
            value: row.required("value")?,
            documents: row.required("documents")?,
            chunks: row.required("chunks")?,
        })
    })
}
