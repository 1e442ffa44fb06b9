//! The progress of a run, written to its row at most once per second.

use std::time::{Duration, Instant};

use rag_definition::usage::Spent;
use rag_protocol::{
    ingest::{Failure, Warning},
    skipped::SkippedFiles,
};

use crate::{
    catalog::{
        runs::{self, RunCounts, StageTimes},
        sources::Source,
    },
    error::Error,
    models::spent,
    pg::{spi::as_owner, transaction::transaction},
};

/// The interval between two writes of the run's row.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

pub struct Report {
    run_id: i64,
    source: String,
    pub counts: RunCounts,
    pub times: StageTimes,
    /// What calls of models used in earlier processes of the run. This one makes no other calls.
    spent_earlier: Spent,
    pub commit: Option<String>,
    /// The whole source was listed.
    pub complete: bool,
    pub skipped: SkippedFiles,
    /// A remark about the run, for the case that it completes.
    pub note: Option<String>,
    pub stage: &'static str,
    pub current_uri: Option<String>,
    written: Instant,
}

impl Report {
    /// Must be called in a transaction.
    ///
    /// # Errors
    /// The row of the run cannot be read.
    pub fn new(run_id: i64, source: &Source) -> Result<Self, Error> {
        Ok(Self {
            run_id,
            source: source.name.to_string(),
            counts: RunCounts::default(),
            times: StageTimes::default(),
            spent_earlier: as_owner(|owner| runs::spent(owner, run_id))?,
            commit: None,
            complete: false,
            skipped: SkippedFiles::default(),
            note: None,
            stage: "fetch",
            current_uri: None,
            written: Instant::now(),
        })
    }

    pub fn count_skipped(&mut self, skipped: SkippedFiles) {
        self.counts.skipped = i64::try_from(skipped.total()).unwrap_or(i64::MAX);
        self.skipped = skipped;
    }

    pub fn run_id(&self) -> i64 {
        self.run_id
    }

    /// Writes the row if the interval has passed.
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.written.elapsed() < WRITE_INTERVAL {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.written = Instant::now();
        transaction(|| self.write())
    }

    /// Writes the row in the current transaction.
    pub fn write(&self) -> Result<(), Error> {
        as_owner(|owner| {
            runs::progress(
                owner,
                self.run_id,
                self.stage,
                &self.counts,
                &self.times,
                spent().plus(self.spent_earlier),
                self.current_uri.as_deref(),
            )
        })
    }

    /// Counts a failed document and stores the reason, in the current transaction.
    pub fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        as_owner(|owner| runs::add_error(owner, self.run_id, &self.source, failure))?;
        self.counts.failed += 1;
        Ok(())
    }
}

impl Report {
    /// Stores the warnings about a document, in the current transaction.
    pub fn warn(&self, uri: &str, warnings: &[Warning]) -> Result<(), Error> {
        as_owner(|owner| {
            warnings.iter().try_for_each(|warning| {
                runs::add_warning(owner, self.run_id, &self.source, uri, warning)
            })
        })
    }
}
