//! One request to a process of `rag-engine`, which reads it on its standard input and answers with
//! events on its standard output.
//!
//! All requests but those to `embed` go through here: runs (`ingest`), calls of models (`call`) and
//! servers that search vectors (`store`). Each wait reads while it writes, so neither side waits
//! for the other however much both have to send, and each wait can be cancelled.

use std::{
    ffi::{OsStr, OsString},
    marker::PhantomData,
    time::{Duration, Instant},
};

use rag_protocol::frame::FrameBuffer;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::process::{self, EngineProcess};
use crate::{
    error::Error,
    pg::wait::{Until, wait},
    settings,
};

/// The hint of an error after which a command can be repeated.
pub const REPEAT: &str = "Repeat the command. See the server log for the reason.";

/// What a process is started for.
pub struct EngineTask {
    /// The kind of process: `ingest`, `call`, `store`.
    pub command: &'static str,
    pub options: Vec<OsString>,
    /// It may hold a secret.
    pub input: Zeroizing<Vec<u8>>,
    /// Added to each line of the process's log: `source=docs run=7`.
    pub label: String,
    /// What the process does, for the message if it dies: `while reading the source`.
    pub activity: String,
    /// What a user can do if it dies.
    pub hint: &'static str,
    /// The maximum time for all events, and the error after it.
    pub limit: Option<(Duration, Error)>,
}

/// A request in progress, whose events are `E`. Dropping it ends the process, and so its
/// connections.
pub struct EngineRequest<E> {
    task: EngineTask,
    process: EngineProcess,
    events: FrameBuffer,
    /// The number of bytes of the input that were sent.
    sent: usize,
    deadline: Option<Instant>,
    event: PhantomData<fn() -> E>,
}

impl<E: DeserializeOwned> EngineRequest<E> {
    /// # Errors
    /// The engine cannot be started.
    pub fn begin(task: EngineTask) -> Result<Self, Error> {
        let fixed = [task.command, "--sandbox", settings::sandbox()];
        let mut args: Vec<&OsStr> = fixed.into_iter().map(OsStr::new).collect();
        args.extend(task.options.iter().map(OsString::as_os_str));
        Ok(Self {
            process: EngineProcess::spawn(&args)?,
            events: FrameBuffer::default(),
            sent: 0,
            deadline: task.limit.as_ref().map(|(time, _)| Instant::now() + *time),
            event: PhantomData,
            task,
        })
    }

    /// Returns the next event with its bytes, if it has arrived.
    ///
    /// # Errors
    /// The process has ended without one, or does not answer in time.
    pub fn poll(&mut self) -> Result<Option<(E, Vec<u8>)>, Error> {
        loop {
            if let Some(frame) = self.events.next()? {
                return Ok(Some((frame.header()?, frame.payload)));
            }
            self.send();
            match self.receive() {
                None => return Err(self.died()),
                Some(true) => {}
                Some(false) => match &self.task.limit {
                    Some((_, late)) if self.is_late() => return Err(late.clone()),
                    _ => return Ok(None),
                },
            }
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The process has ended without one, or does not answer in time.
    pub fn next(&mut self) -> Result<(E, Vec<u8>), Error> {
        loop {
            if let Some(event) = self.poll()? {
                return Ok(event);
            }
            self.wait(None);
        }
    }

    /// Waits for the next event, but not longer than `time`.
    ///
    /// # Errors
    /// The process has ended without one, or does not answer in time.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<(E, Vec<u8>)>, Error> {
        let until = Instant::now() + time;
        loop {
            let event = self.poll()?;
            if event.is_some() || Instant::now() >= until {
                return Ok(event);
            }
            self.wait(Some(until));
        }
    }

    /// Sends the whole input. The events that arrive meanwhile are kept for
    /// [`EngineRequest::next`], which also reports what fails here.
    pub fn send_all(&mut self) {
        while !self.is_sent() && !self.is_late() {
            self.send();
            match self.receive() {
                None => return,
                Some(false) if !self.is_sent() => self.wait(None),
                Some(_) => {}
            }
        }
    }

    /// Ends the process.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    fn is_sent(&self) -> bool {
        self.sent == self.task.input.len()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|it| Instant::now() >= it)
    }

    /// Sends what the process takes now.
    fn send(&mut self) {
        let unsent = &self.task.input[self.sent..];
        if unsent.is_empty() {
            return;
        }
        // if the process has ended, reading reports it
        self.sent += self.process.write(unsent).unwrap_or(unsent.len());
        if self.is_sent() {
            self.task.input = Zeroizing::default();
            self.sent = 0;
        }
    }

    /// Reads what has arrived. Returns true if anything had, and `None` if the process has ended.
    fn receive(&mut self) -> Option<bool> {
        let mut buffer = [0; 65536];
        let read = self.process.read(&mut buffer);
        self.forward_log();
        match read {
            Ok(Some(0)) | Err(_) => None,
            Ok(Some(bytes)) => {
                self.events.push(&buffer[..bytes]);
                Some(true)
            }
            Ok(None) => Some(false),
        }
    }

    /// Waits until the process sends anything, takes more of the input, or a time has come.
    fn wait(&self, until: Option<Instant>) {
        let mut descriptors = vec![(self.process.stdout_fd(), Until::Readable)];
        descriptors.extend(self.process.stderr_fd().map(|fd| (fd, Until::Readable)));
        if !self.is_sent() {
            descriptors.extend(self.process.stdin_fd().map(|fd| (fd, Until::Writable)));
        }
        let until = self.deadline.into_iter().chain(until).min();
        let left = until.map(|it| it.saturating_duration_since(Instant::now()));
        wait(&descriptors, left);
    }

    fn forward_log(&mut self) {
        for line in self.process.log_lines() {
            pgrx::log!("rag-engine: {line} {}", self.task.label);
        }
    }

    fn died(&mut self) -> Error {
        let how = self
            .process
            .kill()
            .map_or_else(|| "ended".into(), process::describe);
        self.forward_log();
        Error::engine_unavailable(format!("rag-engine {how} {}", self.task.activity))
            .hint(self.task.hint)
    }
}
