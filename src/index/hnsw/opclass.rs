//! Operator classes: the distance that an index orders by. `sql/hnsw.sql` creates them.
//!
//! A class has one ordering operator (strategy 1) and one support function (number 1), which
//! returns the metric.

use pgrx::{datum::DatumWithOid, pg_extern, pg_sys};
use rag_ann::{code::Metric, distance};

use crate::{
    error::Error,
    index::am::relation::Index,
    pg::spi::{Row, as_caller},
};

/// Strategy of the operator that an index orders by.
pub const ORDER_STRATEGY: u16 = 1;
/// Number of the support function that returns the metric.
const METRIC_FUNCTION: u16 = 1;

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_l2() -> i32 {
    Metric::L2 as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_inner_product() -> i32 {
    Metric::InnerProduct as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_cosine() -> i32 {
    Metric::Cosine as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_l1() -> i32 {
    Metric::L1 as i32
}

/// Returns the metric of an index.
pub fn metric(index: Index<'_>) -> Metric {
    let number = index.support_number(METRIC_FUNCTION);
    let known = [Metric::L2, Metric::InnerProduct, Metric::Cosine, Metric::L1];
    known
        .into_iter()
        .find(|metric| *metric as i32 == number)
        .unwrap_or_else(|| {
            Error::invalid_parameter(format!(
                "support function {METRIC_FUNCTION} of the operator class returns no known metric"
            ))
            .hint("Use vector_l2_ops, vector_ip_ops, vector_cosine_ops or vector_l1_ops.")
            .raise()
        })
}

/// Returns the function for the exact distance, by which candidates are ranked. Its value is NaN if
/// a vector has no direction under [`Metric::Cosine`].
pub fn exact_distance(metric: Metric) -> fn(&[f32], &[f32]) -> f64 {
    match metric {
        Metric::L2 => distance::l2_squared,
        Metric::InnerProduct => distance::negative_inner_product,
        Metric::Cosine => distance::cosine_distance,
        Metric::L1 => distance::l1,
    }
}

/// Returns what is wrong with an operator class.
pub fn problems(class: pg_sys::Oid) -> Result<Vec<String>, Error> {
    let statement = "
        WITH class AS (SELECT * FROM pg_opclass WHERE oid = $1)
        SELECT 'operator class \"' || opcname || '\" is not for the type rag_types.vector'
            AS problem
        FROM class
        WHERE opcintype <> 'rag_types.vector'::regtype
        UNION ALL
        SELECT 'operator class \"' || opcname || '\" lacks the ordering operator 1' FROM class
        WHERE NOT EXISTS (SELECT FROM pg_amop
            WHERE amopfamily = opcfamily AND amoplefttype = opcintype
            AND amoprighttype = opcintype AND amopstrategy = 1)
        UNION ALL
        SELECT 'operator ' || amopopr::regoperator || ' with strategy ' ||
            amopstrategy || ' does not order by a double precision' FROM class
        JOIN pg_amop ON amopfamily = opcfamily
        JOIN pg_operator o ON o.oid = amopopr
        WHERE amopstrategy <> 1 OR amoppurpose <> 'o'
           OR o.oprresult <> 'float8'::regtype
           OR NOT EXISTS (SELECT FROM pg_opfamily f
               WHERE f.oid = amopsortfamily AND f.opfname = 'float_ops')
        UNION ALL
        SELECT 'operator class \"' || opcname ||
            '\" lacks the support function 1, which returns the metric' FROM class
        WHERE NOT EXISTS (SELECT FROM pg_amproc
            WHERE amprocfamily = opcfamily AND amproclefttype = opcintype
            AND amprocrighttype = opcintype AND amprocnum = 1)
        UNION ALL
        SELECT 'function ' || amproc::regprocedure || ' with number ' || amprocnum ||
            ' is not a function without arguments that returns an integer' FROM class
        JOIN pg_amproc ON amprocfamily = opcfamily
        JOIN pg_proc p ON p.oid = amproc
        WHERE amprocnum <> 1 OR p.pronargs <> 0
           OR p.prorettype <> 'int4'::regtype";
    let read = |row: Row<'_, '_>| row.required("problem");
    as_caller(|caller| caller.query(statement, &[DatumWithOid::from(class)], read))
}
