//! Operator classes: which distance an index orders by. `sql/hnsw.sql` makes them.
//!
//! A class has one ordering operator (strategy 1) and one support function (number 1) that tells
//! the metric.

use std::ffi::{c_char, c_int};

use pgrx::{
    PgLogLevel, datum::DatumWithOid, pg_extern, pg_guard, pg_sys, pg_sys::panic::ErrorReport,
};
use rag_ann::{code::Metric, distance};

use crate::error::Error;

/// Number of the support function that tells the metric.
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

/// The metric of an index.
///
/// # Safety
/// `index` is an open index of this access method.
pub unsafe fn metric(index: pg_sys::Relation) -> Metric {
    // SAFETY: raises an ERROR where the class has no such function.
    let number = unsafe {
        let function = pg_sys::index_getprocinfo(index, 1, METRIC_FUNCTION);
        pg_sys::FunctionCall0Coll(function, pg_sys::InvalidOid).value() as i32
    };
    let known = [Metric::L2, Metric::InnerProduct, Metric::Cosine, Metric::L1];
    known
        .into_iter()
        .find(|metric| *metric as i32 == number)
        .unwrap_or_else(|| {
            Error::invalid_parameter(format!(
                "support function {METRIC_FUNCTION} of the operator class tells no metric"
            ))
            .hint("Use vector_l2_ops, vector_ip_ops, vector_cosine_ops or vector_l1_ops.")
            .raise()
        })
}

/// The exact distance that codes estimate, or by which candidates are ranked; NaN where a vector
/// has no direction under [`Metric::Cosine`].
pub fn exact_distance(metric: Metric) -> fn(&[f32], &[f32]) -> f64 {
    match metric {
        Metric::L2 => distance::l2_squared,
        Metric::InnerProduct => distance::negative_inner_product,
        Metric::Cosine => distance::cosine_distance,
        Metric::L1 => distance::l1,
    }
}

/// `amvalidate`: whether an operator class is one that this access method can work with; says in
/// INFO what is wrong.
#[pg_guard]
pub unsafe extern "C-unwind" fn validate(class: pg_sys::Oid) -> bool {
    match problems(class) {
        Ok(problems) => {
            for problem in &problems {
                ErrorReport::from(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION,
                    problem,
                ))
                .report(PgLogLevel::INFO);
            }
            problems.is_empty()
        }
        Err(error) => error.raise(),
    }
}

fn problems(class: pg_sys::Oid) -> Result<Vec<String>, Error> {
    let statement = "
        WITH class AS (SELECT * FROM pg_catalog.pg_opclass WHERE oid = $1)
        SELECT 'operator class \"' || opcname || '\" is not for the type rag_types.vector' FROM class
        WHERE opcintype <> 'rag_types.vector'::pg_catalog.regtype
        UNION ALL
        SELECT 'operator class \"' || opcname || '\" lacks the ordering operator 1' FROM class
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_amop WHERE amopfamily = opcfamily AND amoplefttype = opcintype
            AND amoprighttype = opcintype AND amopstrategy = 1)
        UNION ALL
        SELECT 'operator ' || amopopr::pg_catalog.regoperator || ' with strategy ' || amopstrategy ||
            ' is not one that orders by a double precision' FROM class
        JOIN pg_catalog.pg_amop ON amopfamily = opcfamily
        JOIN pg_catalog.pg_operator o ON o.oid = amopopr
        WHERE amopstrategy <> 1 OR amoppurpose <> 'o' OR o.oprresult <> 'pg_catalog.float8'::pg_catalog.regtype
           OR NOT EXISTS (SELECT FROM pg_catalog.pg_opfamily f
               WHERE f.oid = amopsortfamily AND f.opfname = 'float_ops')
        UNION ALL
        SELECT 'operator class \"' || opcname || '\" lacks the support function 1, which tells the metric' FROM class
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_amproc WHERE amprocfamily = opcfamily AND amproclefttype = opcintype
            AND amprocrighttype = opcintype AND amprocnum = 1)
        UNION ALL
        SELECT 'function ' || amproc::pg_catalog.regprocedure || ' with number ' || amprocnum ||
            ' is not one without arguments that returns an integer' FROM class
        JOIN pg_catalog.pg_amproc ON amprocfamily = opcfamily
        JOIN pg_catalog.pg_proc p ON p.oid = amproc
        WHERE amprocnum <> 1 OR p.pronargs <> 0 OR p.prorettype <> 'pg_catalog.int4'::pg_catalog.regtype";
    let read = |row: crate::pg::spi::Row<'_, '_>| row.required(1);
    crate::pg::spi::query_as_caller(statement, &[DatumWithOid::from(class)], read)
}

/// `amproperty`: that columns are distance-orderable, which Postgres cannot tell by itself.
#[pg_guard]
pub unsafe extern "C-unwind" fn property(
    _index: pg_sys::Oid,
    column: c_int,
    property: pg_sys::IndexAMProperty::Type,
    _name: *const c_char,
    result: *mut bool,
    is_null: *mut bool,
) -> bool {
    if property != pg_sys::IndexAMProperty::AMPROP_DISTANCE_ORDERABLE || column == 0 {
        return false;
    }
    // SAFETY: Postgres's variables for the answer.
    unsafe {
        *result = true;
        *is_null = false;
    }
    true
}
