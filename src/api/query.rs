//! `rag_escape_query`: texts that are no queries.

use pgrx::pg_extern;
use rag_words::query;

#[pg_extern(immutable, strict, parallel_safe)]
fn rag_escape_query(query: &str) -> String {
    query::escaped(query).into_owned()
}
