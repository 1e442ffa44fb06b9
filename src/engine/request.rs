//! One request to a process of `rag-engine` that answers on its standard output.

use std::{
    ffi::OsStr,
    time::{Duration, Instant},
};

use rag_protocol::frame::{Frame, FrameBuffer};
use zeroize::Zeroizing;

use super::process::{self, EngineProcess};
use crate::{
    error::Error,
    pg::wait::{Until, wait},
};

/// A request in progress. Dropping it ends the process, and so its connections.
pub struct EngineRequest {
    /// For messages and the log.
    what: String,
    process: EngineProcess,
    events: FrameBuffer,
    /// It may hold a key.
    input: Zeroizing<Vec<u8>>,
    sent: usize,
    until: Instant,
}

impl EngineRequest {
    /// Starts `rag-engine` with `args`. `what` describes the request. After `timeout` the process
    /// is killed.
    ///
    /// # Errors
    /// The engine cannot be started.
    pub fn begin(
        what: String,
        args: &[&OsStr],
        input: Zeroizing<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        Ok(Self {
            what,
            process: EngineProcess::spawn(args)?,
            events: FrameBuffer::default(),
            input,
            sent: 0,
            until: Instant::now() + timeout,
        })
    }

    /// Returns the next event, if it has arrived.
    ///
    /// # Errors
    /// The process has ended without one, or does not answer in time.
    pub fn poll(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(frame) = self.events.next()? {
                return Ok(Some(frame));
            }
            self.send();
            let mut buffer = [0; 65536];
            let read = self.process.read(&mut buffer);
            self.forward_log();
            match read {
                Ok(Some(0)) | Err(_) => return Err(self.died()),
                Ok(Some(bytes)) => self.events.push(&buffer[..bytes]),
                Ok(None) if Instant::now() >= self.until => {
                    return Err(Error::engine_unavailable(format!(
                        "rag-engine did not answer in time ({})",
                        self.what
                    )));
                }
                Ok(None) => return Ok(None),
            }
        }
    }

    /// Waits for the next event. The wait can be cancelled.
    ///
    /// # Errors
    /// See [`EngineRequest::poll`].
    pub fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.poll()? {
                return Ok(frame);
            }
            let mut descriptors = vec![(self.process.stdout_fd(), Until::Readable)];
            descriptors.extend(self.process.stderr_fd().map(|fd| (fd, Until::Readable)));
            if self.sent < self.input.len() {
                descriptors.extend(self.process.stdin_fd().map(|fd| (fd, Until::Writable)));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            wait(&descriptors, Some(left));
        }
    }

    fn send(&mut self) {
        let unsent = &self.input[self.sent..];
        if unsent.is_empty() {
            return;
        }
        // if the engine has ended, reading reports it
        self.sent += self.process.write(unsent).unwrap_or(unsent.len());
        if self.sent == self.input.len() {
            self.input = Zeroizing::default();
            self.sent = 0;
        }
    }

    fn forward_log(&mut self) {
        for line in self.process.log_lines() {
            pgrx::log!("rag-engine: {line} ({})", self.what);
        }
    }

    fn died(&mut self) -> Error {
        let how = self
            .process
            .kill()
            .map_or_else(|| "ended".into(), process::describe);
        self.forward_log();
        Error::engine_unavailable(format!("rag-engine {how} ({})", self.what))
            .hint("Repeat the command. See the server log for the reason.")
    }
}
