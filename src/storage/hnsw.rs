//! Storage `hnsw`: the extension's own index `rag_hnsw`.

use std::ffi::{CStr, CString};

use rag_definition::retriever::StorageDefinition;

use super::access_methods;
use super::{IndexScan, VectorIndex, graph_options, setting};
use crate::{error::Error, settings::MAX_EF_SEARCH};

pub struct Hnsw;

impl VectorIndex for Hnsw {
    fn definition(&self, settings: &StorageDefinition, _: usize) -> Result<String, Error> {
        let class = access_methods::operator_class(settings.metric().operator_class())?;
        let class = class.ok_or_else(|| Error::internal("rag_hnsw has no operator class"))?;
        let options = graph_options(settings);
        Ok(format!("USING rag_hnsw (embedding {class}){options}"))
    }

    fn order(&self, _: &StorageDefinition, _: usize) -> Result<String, Error> {
        Ok("distance".into())
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
