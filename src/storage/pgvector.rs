//! Storage `pgvector`: an index `hnsw` of the extension pgvector, on the embeddings as its type.
//!
//! The stored vectors stay of type `rag_types.vector`. The index is on an expression, the cast to
//! pgvector's type, which copies nothing. A search orders by the same expression, and computes the
//! scores of what it finds as for any other storage.

use std::ffi::{CStr, CString};

use pgrx::PgSqlErrorCode;
use rag_definition::retriever::StorageDefinition;

use super::{
    IndexScan, VectorIndex,
    access_methods::{self, Pgvector},
    graph_options, setting,
};
use crate::error::Error;

/// The first version with iterative scans. Without them a filter could leave out nearer chunks.
const MIN_VERSION: (u32, u32) = (0, 8);
/// The maximum number of dimensions of pgvector's index on its type `vector`.
const MAX_DIMENSIONS: usize = 2000;
/// The maximum of `hnsw.ef_search`.
const MAX_EF_SEARCH: usize = 1000;

pub struct PgVector;

impl VectorIndex for PgVector {
    fn check(&self) -> Result<(), Error> {
        schema().map(|_| ())
    }

    fn definition(&self, settings: &StorageDefinition, dimensions: usize) -> Result<String, Error> {
        let schema = schema()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "pgvector cannot index vectors with {dimensions} dimensions, only up to \
                     {MAX_DIMENSIONS}"
                ),
            )
            .hint("Use a retriever with storage \"hnsw\"."));
        }
        let class = settings.metric().operator_class();
        let options = graph_options(settings);
        Ok(format!(
            "USING hnsw ((embedding::{schema}.vector({dimensions})) {schema}.{class}){options}"
        ))
    }

    fn order(&self, settings: &StorageDefinition, dimensions: usize) -> Result<String, Error> {
        let schema = schema()?;
        let operator = settings.metric().operator();
        Ok(format!(
            "(c.embedding::{schema}.vector({dimensions})) OPERATOR({schema}.{operator}) \
             ($1::{schema}.vector({dimensions}))"
        ))
    }

    fn scan_settings(&self, scan: IndexScan) -> Vec<(&'static CStr, CString)> {
        let iterative = if scan.is_complete {
            "strict_order"
        } else {
            "off"
        };
        vec![
            setting(c"hnsw.iterative_scan", iterative),
            setting(c"hnsw.max_scan_tuples", i32::MAX),
            setting(c"hnsw.ef_search", scan.ef_search.min(MAX_EF_SEARCH)),
        ]
    }
}

/// Returns the quoted schema of pgvector.
///
/// # Errors
/// It is not installed, too old, or its type has no cast.
fn schema() -> Result<String, Error> {
    let unusable = |message: String| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            message,
        )
    };
    let Some(Pgvector {
        schema,
        version,
        has_casts,
    }) = access_methods::pgvector()?
    else {
        return Err(unusable(
            "extension \"vector\" (pgvector) is not installed in this database".into(),
        )
        .hint("Install it with CREATE EXTENSION vector, or use storage \"hnsw\"."));
    };
    if numbers(&version) < MIN_VERSION {
        return Err(unusable(format!(
            "extension \"vector\" (pgvector) has version {version}"
        ))
        .detail("Version 0.8 or newer is needed, for its iterative index scans.")
        .hint("Install a newer version, and run ALTER EXTENSION vector UPDATE."));
    }
    if !has_casts {
        return Err(
            unusable("there is no cast to the type of extension \"vector\"".into())
                .hint("A superuser creates it with SELECT rag_pgvector_casts()."),
        );
    }
    Ok(schema)
}

/// Returns the first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
