//! Storage `flat`: no index on the vectors. Each search reads all chunks that pass the filter.

use pgrx::pg_sys;
use rag_definition::retriever::StorageDefinition;

use super::Backend;
use crate::error::Error;

pub struct Flat;

impl Backend for Flat {
    fn wanted_index(&self, _: &StorageDefinition, _: usize) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn built_index(&self, _: &StorageDefinition, _: pg_sys::Oid) -> Option<pg_sys::Oid> {
        None
    }
}
