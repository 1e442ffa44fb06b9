//! What a run has done so far, written to its row at a humane rate.

use std::time::{Duration, Instant};

use pgrx::pg_sys;
use rag_protocol::ingest::Failure;

use crate::{
    catalog::{
        runs::{self, Counts},
        sources::Source,
    },
    error::Error,
    workers::transaction::transaction,
};

/// Between two writes of the run's row.
const INTERVAL: Duration = Duration::from_secs(1);

pub struct Report {
    run_id: i64,
    source: String,
    pub counts: Counts,
    pub commit: Option<String>,
    pub stage: &'static str,
    pub current_uri: Option<String>,
    written: Instant,
}

impl Report {
    pub fn new(run_id: i64, source: &Source) -> Self {
        Self {
            run_id,
            source: source.name.to_string(),
            counts: Counts::default(),
            commit: None,
            stage: "fetch",
            current_uri: None,
            written: Instant::now(),
        }
    }

    /// Writes the row if the last time is long enough ago.
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.written.elapsed() < INTERVAL { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.written = Instant::now();
        transaction(|| self.write())
    }

    /// Writes the row within the present transaction.
    pub fn write(&self) -> Result<(), Error> {
        runs::progress(self.run_id, self.stage, &self.counts, self.current_uri.as_deref())
    }

    /// Counts a document that failed and writes down why, within the present transaction.
    pub fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        runs::add_error(self.run_id, &self.source, failure)?;
        self.counts.failed += 1;
        Ok(())
    }
}

/// Shows in pg_stat_activity what the worker does.
#[allow(unsafe_code)]
pub fn activity(text: &str) {
    if let Ok(text) = std::ffi::CString::new(text) {
        // SAFETY: the text is copied.
        unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()) };
    }
}
