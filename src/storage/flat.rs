//! Storage `flat`: no index on the vectors. Each search reads all chunks that pass the filter.

use pgrx::pg_sys;
use rag_contract::StorageSettings;

use super::Backend;
use crate::error::Error;

pub struct Flat;

impl Backend for Flat {
    fn wanted_index(&self, _: &StorageSettings, _: usize) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn built_index(&self, _: &StorageSettings, _: pg_sys::Oid) -> Option<pg_sys::Oid> {
        None
    }
}
