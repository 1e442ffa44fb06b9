//! `rag_hnsw_recall` for an index of `rag_hnsw`: what fraction of the true nearest neighbours the
//! index finds, and how fast, for several values of `rag.ef_search`.
//!
//! Vectors of random rows are easier queries than questions in words, because they find themselves
//! and their duplicates. The true neighbours come from one pass over the table, which computes the
//! distance of each row to each query. The time without the index is measured with a few queries.

use std::{ffi::CString, time::Instant};

use pgrx::datum::DatumWithOid;
use rag_ann::half::Half;

use super::{
    is_indexable,
    opclass::{self, Order},
};
use crate::{
    error::Error,
    index::{
        Recall, RecallQueries,
        am::{
            open::{IndexExpressions, OpenIndex, query_value},
            relation::ValueType,
        },
    },
    pg::{guc::with_settings, spi::Rights},
    settings,
    types::{
        indexed::IndexedType,
        vector::{OwnedVector, for_each_vector},
    },
};

/// Values of `rag.ef_search` that are measured, beside the current one.
const EF_SEARCH: [usize; 5] = [20, 40, 80, 160, 320];
/// Number of queries whose time without the index is measured.
const EXACT_QUERIES: usize = 3;
/// Rounding error up to which a row counts as near as the kth nearest.
const TOLERANCE: f64 = 1e-6;

/// Measures the recall of an index for `k` neighbours of each query.
pub fn recall(open: &OpenIndex, queries: RecallQueries, k: usize) -> Result<Vec<Recall>, Error> {
    let order = opclass::order(open.index());
    let ValueType::Indexed(indexed) = open.index().value_type() else {
        return Err(Error::internal("the index is not of vectors"));
    };
    open.as_owner(|rights| {
        let measured = MeasuredIndex {
            sql: open.expressions(rights)?,
            order,
            indexed,
        };
        let mut vectors = match queries {
            RecallQueries::RandomRows(count) => measured.random_vectors(rights, count)?,
            RecallQueries::Vectors(vectors) => vectors,
        };
        for vector in &mut vectors {
            round(vector, indexed);
        }
        vectors.retain(|vector| is_indexable(order.metric(), vector));
        measure(rights, &measured, &vectors, k)
    })
}

/// An index, and what of it a statement needs.
struct MeasuredIndex {
    sql: IndexExpressions,
    order: Order,
    indexed: IndexedType,
}

/// Makes a vector one of values of a type.
fn round(vector: &mut [f32], indexed: IndexedType) {
    let round = match indexed {
        IndexedType::Vector => return,
        IndexedType::Halfvec => |x| Half::from_f32(x).to_f32(),
        IndexedType::Bits => |x| f32::from(u8::from(x > 0.0)),
    };
    vector.iter_mut().for_each(|x| *x = round(*x));
}

fn measure(
    rights: &Rights,
    index: &MeasuredIndex,
    vectors: &[Vec<f32>],
    k: usize,
) -> Result<Vec<Recall>, Error> {
    if vectors.is_empty() {
        return Ok(vec![]);
    }
    let IndexExpressions {
        table,
        value,
        condition,
        operator,
    } = &index.sql;
    let truth = nearest_distances(rights, index, vectors, k)?;
    let possible: usize = truth.iter().map(Vec::len).sum();
    if possible == 0 {
        index.check_dimensions(rights, vectors[0].len())?;
        return Ok(vec![]);
    }

    let query = match index.indexed {
        IndexedType::Vector => "$1",
        IndexedType::Halfvec => "($1::rag_types.halfvec)",
        IndexedType::Bits => "rag_functions.binary_quantize($1)",
    };
    let distance = format!("({value}) {operator} {query}");
    let nearest = format!(
        "SELECT {distance} AS distance FROM ONLY {table} WHERE {condition}
         ORDER BY {distance} LIMIT {k}"
    );
    let some = &vectors[..vectors.len().min(EXACT_QUERIES)];
    let without_index = [
        (c"plan_cache_mode", c"force_generic_plan"),
        (c"enable_indexscan", c"off"),
        (c"enable_seqscan", c"on"),
        (c"max_parallel_workers_per_gather", c"0"),
    ];
    let (_, exact_milliseconds) = with_settings(&without_index, || run(rights, &nearest, some))?;

    let mut values = EF_SEARCH.to_vec();
    values.push(settings::ef_search());
    values.sort_unstable();
    values.dedup();
    let mut measured = vec![];
    for ef_search in values {
        let ef = CString::new(ef_search.to_string()).unwrap_or_default();
        let with_index = [
            (c"plan_cache_mode", c"force_generic_plan"),
            (c"rag.ef_search", ef.as_c_str()),
            (c"enable_indexscan", c"on"),
            (c"enable_seqscan", c"off"),
            (c"enable_bitmapscan", c"off"),
            (c"enable_sort", c"off"),
        ];
        let (found, milliseconds) = with_settings(&with_index, || run(rights, &nearest, vectors))?;
        let correct: usize = found
            .iter()
            .zip(&truth)
            .map(|(found, truth)| count_correct(found, truth))
            .sum();
        measured.push(Recall {
            ef_search: ef_search as i32,
            recall: correct as f64 / possible as f64,
            milliseconds,
            exact_milliseconds,
        });
    }
    Ok(measured)
}

impl MeasuredIndex {
    /// Returns the indexed value of a row as a `rag_types.vector`.
    fn vector(&self) -> String {
        let value = &self.sql.value;
        match self.indexed {
            IndexedType::Vector => format!("({value})::rag_types.vector"),
            IndexedType::Halfvec => format!("({value})::rag_types.halfvec::rag_types.vector"),
            IndexedType::Bits => format!("rag_internal.bits_to_vector({value})"),
        }
    }

    /// Returns a statement that selects all vectors.
    fn all_vectors(&self) -> String {
        let (vector, table, condition) = (self.vector(), &self.sql.table, &self.sql.condition);
        format!("SELECT {vector} AS vector FROM ONLY {table} WHERE {condition}")
    }

    fn random_vectors(&self, rights: &Rights, count: i64) -> Result<Vec<Vec<f32>>, Error> {
        let statement = format!("{} ORDER BY random() LIMIT $1", self.all_vectors());
        let vectors = with_settings(&[(c"enable_indexscan", c"off")], || {
            rights.query(&statement, &[DatumWithOid::from(count)], |row| {
                row.required::<OwnedVector>("vector")
            })
        })?;
        Ok(vectors.into_iter().map(Vec::from).collect())
    }

    /// # Errors
    /// The vectors of the table have other dimensions than the queries.
    fn check_dimensions(&self, rights: &Rights, dimensions: usize) -> Result<(), Error> {
        let statement = format!(
            "SELECT (SELECT rag_functions.vector_dims({}) FROM ONLY {} WHERE {} LIMIT 1) AS value",
            self.vector(),
            self.sql.table,
            self.sql.condition
        );
        match query_value::<i32>(rights, &statement, &[])? {
            Some(expected) if expected as usize != dimensions => Err(Error::data_exception(
                format!("expected {expected} dimensions, not {dimensions}"),
            )
            .hint(
                "Queries must be embedded by the model of the indexed vectors: see the \
                     argument model.",
            )),
            _ => Ok(()),
        }
    }
}

/// Returns how many of the found rows are as near as the farthest of the true nearest ones.
fn count_correct(found: &[f64], truth: &[f64]) -> usize {
    let Some(farthest) = truth.last() else {
        return 0;
    };
    let limit = farthest + TOLERANCE * farthest.abs().max(1e-3);
    found.iter().filter(|distance| **distance <= limit).count()
}

/// Returns the `k` least distances to each of the queries, in ascending order.
fn nearest_distances(
    rights: &Rights,
    index: &MeasuredIndex,
    queries: &[Vec<f32>],
    k: usize,
) -> Result<Vec<Vec<f64>>, Error> {
    let distance = index.order.exact_distance();
    let mut nearest: Vec<Vec<f64>> = vec![vec![]; queries.len()];
    let mut add = |vector: &[f32]| {
        for (query, nearest) in queries.iter().zip(&mut nearest) {
            if query.len() != vector.len() {
                continue;
            }
            let distance = distance(query, vector);
            if distance.is_nan()
                || (nearest.len() == k && nearest.last().is_some_and(|worst| distance >= *worst))
            {
                continue;
            }
            let at = nearest.partition_point(|other| *other <= distance);
            nearest.insert(at, distance);
            nearest.truncate(k);
        }
    };
    for_each_vector(rights, &index.all_vectors(), &mut add)?;
    if index.order == Order::L2 {
        // the operator returns the square root
        nearest
            .iter_mut()
            .flatten()
            .for_each(|distance| *distance = distance.sqrt());
    }
    Ok(nearest)
}

/// Runs a statement for each of the vectors. Returns the distances that it finds, and the mean time
/// in milliseconds.
fn run(
    rights: &Rights,
    statement: &str,
    vectors: &[Vec<f32>],
) -> Result<(Vec<Vec<f64>>, f64), Error> {
    let types = [<OwnedVector as pgrx::IntoDatum>::type_oid()];
    let prepared = rights.prepare_query(statement, &types)?;
    let mut results = Vec::with_capacity(vectors.len());
    let mut seconds = 0.0;
    for vector in vectors {
        pgrx::check_for_interrupts!();
        let argument = DatumWithOid::from(OwnedVector::new(vector.clone())?);
        let start = Instant::now();
        let distances = prepared.run(&[argument], |row| row.get::<f64>("distance"))?;
        seconds += start.elapsed().as_secs_f64();
        results.push(distances.into_iter().flatten().collect());
    }
    Ok((results, seconds * 1000.0 / vectors.len() as f64))
}
