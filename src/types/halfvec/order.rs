//! The order of vectors as values (for `=`, `ORDER BY` and btree indexes).

use pgrx::pg_extern;

use super::Halfvec;
use crate::types::vector::arithmetic::compare;

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_lt(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_lt()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_le(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_le()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_eq(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_eq()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_ne(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_ne()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_ge(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_ge()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_gt(a: Halfvec<'_>, b: Halfvec<'_>) -> bool {
    compare(a, b).is_gt()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_cmp(a: Halfvec<'_>, b: Halfvec<'_>) -> i32 {
    compare(a, b) as i32
}
