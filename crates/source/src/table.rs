//! Rows of tables are read by the server. `rag-engine` never gets such a job.

use rag_definition::source::TableSpec;
use rag_protocol::{EngineError, ErrorKind, ingest::Job};

use crate::{OpenReader, SourceReader};

impl OpenReader for TableSpec {
    fn open(&self, _job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Err(EngineError::new(
            ErrorKind::Internal,
            "rag-engine cannot read tables",
        ))
    }
}
