//! What a run has done so far, written to its row at a humane rate.

use std::time::{Duration, Instant};

use rag_protocol::ingest::{Failure, Warning};

use crate::{
    catalog::{
        runs::{self, Counts, Times},
        sources::Source,
    },
    error::Error,
    pg::transaction::transaction,
};

/// Between two writes of the run's row.
const INTERVAL: Duration = Duration::from_secs(1);

pub struct Report {
    run_id: i64,
    source: String,
    pub counts: Counts,
    pub times: Times,
    pub commit: Option<String>,
    /// All of the source was listed.
    pub complete: bool,
    /// What is remarkable about the run, should it complete.
    pub note: Option<String>,
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
            times: Times::default(),
            commit: None,
            complete: false,
            note: None,
            stage: "fetch",
            current_uri: None,
            written: Instant::now(),
        }
    }

    pub fn run_id(&self) -> i64 {
        self.run_id
    }

    /// Writes the row if the last time is long enough ago.
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.written.elapsed() < INTERVAL {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.written = Instant::now();
        transaction(|| self.write())
    }

    /// Writes the row within the present transaction.
    pub fn write(&self) -> Result<(), Error> {
        runs::progress(
            self.run_id,
            self.stage,
            &self.counts,
            &self.times,
            self.current_uri.as_deref(),
        )
    }

    /// Counts a document that failed and writes down why, within the present transaction.
    pub fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        runs::add_error(self.run_id, &self.source, failure)?;
        self.counts.failed += 1;
        Ok(())
    }
}

impl Report {
    /// Writes down what was lost of a document, within the present transaction.
    pub fn warn(&self, uri: &str, warnings: &[Warning]) -> Result<(), Error> {
        warnings
            .iter()
            .try_for_each(|warning| runs::add_warning(self.run_id, &self.source, uri, warning))
    }
}
