//! Storage `hnsw`: the extension's own index `rag_hnsw`.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use rag_definition::retriever::{Metric, StorageDefinition};

use super::{Backend, IndexScan, graph_options, setting};
use crate::{
    error::Error,
    pg::{lookup, security::as_owner, spi::query},
    settings::MAX_EF_SEARCH,
};

pub struct Hnsw;

impl Backend for Hnsw {
    fn wanted_index(
        &self,
        settings: &StorageDefinition,
        _: usize,
    ) -> Result<Option<String>, Error> {
        let found = as_owner(|| {
            query(
                "SELECT pg_catalog.format('%I.%I', n.nspname, o.opcname)
              FROM pg_catalog.pg_am AS a
                 JOIN pg_catalog.pg_opclass AS o ON o.opcmethod = a.oid AND o.opcname = $1
                 JOIN pg_catalog.pg_namespace AS n ON n.oid = o.opcnamespace
                 WHERE a.amname = 'rag_hnsw'",
                &[settings.metric().operator_class().into()],
                |row| row.required::<String>(1),
            )
        })?;
        let class = found.into_iter().next();
        Ok(class.map(|class| {
            let options = graph_options(settings);
            format!("USING rag_hnsw (embedding {class}){options}")
        }))
    }

    fn built_index(
        &self,
        settings: &StorageDefinition,
        partition: pg_sys::Oid,
    ) -> Option<pg_sys::Oid> {
        lookup::whole_index_of(partition, c"rag_hnsw", operator_family(settings.metric()))
    }

    fn scan_settings(&self, scan: IndexScan) -> Vec<(&'static CStr, CString)> {
        let iterative = if scan.is_complete { "strict" } else { "off" };
        vec![
            setting(c"rag.iterative_scan", iterative),
            setting(c"rag.max_scan_tuples", 0),
            setting(c"rag.ef_search", scan.ef_search.min(MAX_EF_SEARCH)),
        ]
    }
}

/// Returns the operator family of an index, which has the name of its operator class.
pub fn operator_family(metric: Metric) -> &'static CStr {
    match metric {
        Metric::Cosine => c"vector_cosine_ops",
        Metric::L2 => c"vector_l2_ops",
        Metric::InnerProduct => c"vector_ip_ops",
    }
}
