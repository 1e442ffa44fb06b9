//! Writes events: as frames for `rag.so`, as lines for people.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rag_protocol::{
    frame::{self, FrameError},
    ingest::Event,
};

use crate::{process, redaction};

/// How events are written, and how the job is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Messages of [`rag_protocol::frame`].
    Frames,
    /// JSON in, a line for each event out.
    Pretty,
}

/// Standard output, shared with the clock, which may send a last event.
#[derive(Debug, Clone)]
pub struct Output {
    file: Arc<Mutex<File>>,
    form: Form,
    /// Set if a failed document was not reported by its uri, because the uri contains a secret.
    is_one_unnamed: Arc<AtomicBool>,
}

impl Output {
    pub fn new(file: File, form: Form) -> Self {
        Self {
            file: Arc::new(Mutex::new(file)),
            form,
            is_one_unnamed: Arc::default(),
        }
    }

    /// Writes one event, without the secrets of the job. If nobody reads it any more, the process
    /// ends.
    pub fn emit(&self, event: &Event, text: &str) {
        let event = &*self.redacted(event);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match self.form {
            Form::Frames => match frame::write(&mut *file, event, text.as_bytes()) {
                Err(FrameError::Io(e)) => Err(e),
                Err(e) => Err(io::Error::other(e)),
                Ok(()) => Ok(()),
            },
            Form::Pretty => writeln!(file, "{}", describe(event, text)),
        };
        if let Err(e) = written {
            tracing::error!("an event could not be written: {e}");
            std::process::exit(process::ORPHANED);
        }
    }
}

impl Output {
    fn redacted<'a>(&self, event: &'a Event) -> Cow<'a, Event> {
        if let Event::Finished {
            complete: true,
            bytes_fetched,
            skipped,
        } = event
            && self.is_one_unnamed.load(Ordering::Relaxed)
        {
            // Else its stored data would count as deleted.
            return Cow::Owned(Event::Finished {
                complete: false,
                bytes_fetched: *bytes_fetched,
                skipped: skipped.clone(),
            });
        }
        let redacted = redaction::redacted_event(event);
        if let (Event::Failed(failure), Event::Failed(shown)) = (event, &*redacted)
            && failure.uri != shown.uri
        {
            self.is_one_unnamed.store(true, Ordering::Relaxed);
        }
        redacted
    }
}

fn describe(event: &Event, text: &str) -> String {
    match event {
        Event::Listing {
            found,
            waiting,
            uri,
            ..
        } => format!("listing: {found} documents, {waiting} addresses wait; {uri}"),
        Event::Started { documents, commit } => {
            let at = commit
                .as_ref()
                .map(|commit| format!(" at commit {commit}"))
                .unwrap_or_default();
            format!("started: {documents} documents{at}")
        }
        Event::Document(document) => {
            let content = &document.content;
            format!(
                "document {}: {} \"{}\", {} bytes, {} characters in {} chunks",
                document.uri,
                content.document_type.name(),
                content.title.text,
                document.bytes,
                text.chars().count(),
                content.chunks.len()
            )
        }
        Event::Unchanged { uri, .. } => format!("unchanged {uri}"),
        Event::Removed { uri, .. } => format!("removed {uri}"),
        Event::Kept { container } => format!("kept what {container} holds"),
        Event::Failed(failure) => {
            let hint = failure
                .hint
                .as_ref()
                .map(|hint| format!(" ({hint})"))
                .unwrap_or_default();
            format!(
                "failed {} in stage {}: {}{hint}",
                failure.uri,
                failure.stage.name(),
                failure.message
            )
        }
        Event::Worked {
            fetch_ms,
            extract_ms,
        } => {
            format!("worked: {fetch_ms} ms of reading, {extract_ms} ms of extracting and splitting")
        }
        Event::Finished {
            complete,
            bytes_fetched,
            skipped,
        } => {
            let what = if *complete {
                "all of the source"
            } else {
                "a part of the source"
            };
            format!(
                "finished: {what}, {bytes_fetched} bytes fetched, {} files skipped",
                skipped.total()
            )
        }
        Event::Fatal { error } => {
            let part = |part: &Option<String>| {
                part.as_ref()
                    .map(|part| format!("; {part}"))
                    .unwrap_or_default()
            };
            format!("fatal: {error}{}{}", part(&error.detail), part(&error.hint))
        }
    }
}
