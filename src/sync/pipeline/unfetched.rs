//! The documents of a run that could not be fetched.

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, FailureCause},
};

use crate::error::Error;

#[derive(Debug, Default)]
pub struct Unfetched {
    count: i64,
    /// The first failure. If the server limits the rate of requests, the one with the longest wait.
    first: Option<Failure>,
}

impl Unfetched {
    pub fn add(&mut self, failure: Failure) {
        self.count += 1;
        if self
            .first
            .as_ref()
            .is_none_or(|kept| failure.cause > kept.cause)
        {
            self.first = Some(failure);
        }
    }

    pub fn count(&self) -> i64 {
        self.count
    }

    /// # Errors
    /// There are some. The error is that of the run, if no document could be fetched.
    pub fn check(&self) -> Result<(), Error> {
        let Some(first) = &self.first else {
            return Ok(());
        };
        let more = match self.count - 1 {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let detail = format!("{}: {}{more}.", first.uri, first.message);
        if let FailureCause::Throttled {
            retry_after_seconds,
        } = first.cause
        {
            return Err(EngineError::throttled("the server", retry_after_seconds)
                .detail(detail)
                .into());
        }
        let error = EngineError::new(
            ErrorKind::SourceUnavailable,
            "no document of the source could be fetched",
        )
        .detail(detail);
        Err(Error::from_source(
            first
                .hint
                .iter()
                .fold(error, |error, hint| error.hint(hint)),
        ))
    }
}
