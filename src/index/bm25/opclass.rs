//! Operator classes: `text_bm25_ops`, which `sql/bm25.sql` creates.

use pgrx::{datum::DatumWithOid, pg_sys};

use crate::{
    error::Error,
    pg::spi::{Row, as_caller},
};

/// The operators of an operator class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// `<@>`
    Order = 1,
    /// `@@@`
    Matches = 2,
    /// `!@@@`, which operator classes need not have.
    Misses = 3,
}

/// Returns what is wrong with an operator class.
pub fn problems(class: pg_sys::Oid) -> Result<Vec<String>, Error> {
    let statement = "
        WITH class AS (SELECT * FROM pg_opclass WHERE oid = $1)
        SELECT 'operator class \"' || opcname || '\" is not for the type text' AS problem
        FROM class
        WHERE opcintype <> 'text'::regtype
        UNION ALL
        SELECT 'operator class \"' || opcname || '\" lacks the operator ' || n FROM class
        CROSS JOIN (VALUES (1), (2)) AS needed (n)
        WHERE NOT EXISTS (SELECT FROM pg_amop
            WHERE amopfamily = opcfamily AND amoplefttype = opcintype
            AND amoprighttype = 'rag.bm25_query'::regtype AND amopstrategy = n)
        UNION ALL
        SELECT 'operator ' || amopopr::regoperator || ' with strategy ' ||
            amopstrategy || ' is not one of extension rag' FROM class
        JOIN pg_amop ON amopfamily = opcfamily
        JOIN pg_operator o ON o.oid = amopopr
        WHERE (amopstrategy, amoppurpose, o.oprcode::oid) NOT IN (
            (1, 'o', 'rag_internal.bm25_order(text, rag.bm25_query)'::regprocedure),
            (2, 's', 'rag_internal.bm25_matches(text, rag.bm25_query)'::regprocedure),
            (3, 's', 'rag_internal.bm25_misses(text, rag.bm25_query)'::regprocedure))";
    let read = |row: Row<'_, '_>| row.required("problem");
    as_caller(|caller| caller.query(statement, &[DatumWithOid::from(class)], read))
}
