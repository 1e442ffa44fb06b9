//! Operator classes: the distance that an index orders by. `sql/hnsw.sql` creates them.
//!
//! A class has one ordering operator (strategy 1) and one support function (number 1), which
//! returns the number of its [`Order`]. pgvector's operator on PostgreSQL's type `bit` is beside
//! that of this extension (strategy 2).

use pgrx::{datum::DatumWithOid, pg_extern, pg_sys};
use rag_ann::{code::Metric, distance};

use crate::{
    error::Error,
    index::am::relation::Index,
    pg::spi::{Row, as_caller},
    types::bits::jaccard,
};

/// Strategy of the operator that an index orders by.
pub const ORDER_STRATEGY: u16 = 1;
/// Number of the support function that returns the order.
const ORDER_FUNCTION: u16 = 1;

/// A distance that an index orders by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    L2,
    InnerProduct,
    Cosine,
    L1,
    /// Number of bits that differ: the squared Euclidean distance of vectors of 0 and 1.
    Hamming,
    /// 1 - the bits that both have, of all that either has.
    Jaccard,
}

impl Order {
    /// Returns the metric of the codes, by which candidates are found.
    ///
    /// If x is the cosine similarity of two sets, the Jaccard similarity is at most x / (2 - x). It
    /// is exactly that for sets of the same size.
    pub fn metric(self) -> Metric {
        match self {
            Self::L2 | Self::Hamming => Metric::L2,
            Self::InnerProduct => Metric::InnerProduct,
            Self::Cosine | Self::Jaccard => Metric::Cosine,
            Self::L1 => Metric::L1,
        }
    }

    /// Returns the function for the exact distance, by which candidates are ranked. Its value is
    /// NaN if a vector has no direction under [`Order::Cosine`].
    pub fn exact_distance(self) -> fn(&[f32], &[f32]) -> f64 {
        match self {
            Self::L2 | Self::Hamming => distance::l2_squared,
            Self::InnerProduct => distance::negative_inner_product,
            Self::Cosine => distance::cosine_distance,
            Self::L1 => distance::l1,
            Self::Jaccard => |a, b| {
                let both = distance::inner_product(a, b);
                let (a, b) = (distance::inner_product(a, a), distance::inner_product(b, b));
                jaccard(both, a, b)
            },
        }
    }

    /// Returns its name in `rag_hnsw_info`.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "inner_product",
            Self::Cosine => "cosine",
            Self::L1 => "l1",
            Self::Hamming => "hamming",
            Self::Jaccard => "jaccard",
        }
    }
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_l2() -> i32 {
    Order::L2 as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_inner_product() -> i32 {
    Order::InnerProduct as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_cosine() -> i32 {
    Order::Cosine as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_l1() -> i32 {
    Order::L1 as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_hamming() -> i32 {
    Order::Hamming as i32
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hnsw_metric_jaccard() -> i32 {
    Order::Jaccard as i32
}

/// Returns the order of an index.
pub fn order(index: Index<'_>) -> Order {
    use Order::{Cosine, Hamming, InnerProduct, Jaccard, L1, L2};
    let number = index.support_number(ORDER_FUNCTION);
    [L2, InnerProduct, Cosine, L1, Hamming, Jaccard]
        .into_iter()
        .find(|order| *order as i32 == number)
        .unwrap_or_else(|| {
            Error::invalid_parameter(format!(
                "support function {ORDER_FUNCTION} of the operator class returns no known metric"
            ))
            .hint("Use vector_l2_ops, vector_ip_ops, vector_cosine_ops or vector_l1_ops.")
            .raise()
        })
}

/// Returns what is wrong with an operator class.
pub fn problems(class: pg_sys::Oid) -> Result<Vec<String>, Error> {
    let statement = "
        WITH class AS (SELECT * FROM pg_opclass WHERE oid = $1)
        SELECT 'operator class \"' || opcname || '\" is not for a type of vectors' AS problem
        FROM class
        WHERE opcintype NOT IN ('rag_types.vector'::regtype, 'bit'::regtype)
          AND opcintype IS DISTINCT FROM to_regtype('rag_types.halfvec')
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
        WHERE amopstrategy NOT IN (1, 2) OR amoppurpose <> 'o'
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
