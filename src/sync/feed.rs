//! Feeds of documents: who sends them, and what their events lead to.

use std::{ops::ControlFlow, time::Duration};

use rag_protocol::{
    EngineError,
    ingest::{Document, Event, Failure, Warning},
    skipped::SkippedFiles,
};

use crate::error::Error;

/// What sends documents, split but not embedded: `rag-engine ingest`
/// ([`ingest`](super::ingest)), or the rows of a table ([`table`](super::table)).
pub trait Feed {
    /// Returns the next event with its payload, or None if none came within about a second. The
    /// documents come after `Started`; the last event is `Finished` or `Fatal`.
    ///
    /// # Errors
    /// The feed cannot continue.
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error>;

    /// Returns false if documents that are not reported stay as they are.
    fn lists_all(&self) -> bool {
        true
    }

    /// Called once, after all reported documents are stored and the vanished ones deleted.
    ///
    /// # Errors
    /// The feed cannot store its state.
    fn done(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The last event of a feed that could read its source.
pub struct Listing {
    pub is_complete: bool,
    pub bytes_fetched: u64,
    pub skipped: SkippedFiles,
}

/// How far a listing is.
pub struct ListingProgress {
    /// Number of documents found.
    pub found: u64,
    /// Number of addresses that wait.
    pub waiting: u64,
    /// Number of addresses that are no documents.
    pub skipped: u64,
    /// What is being read.
    pub uri: String,
}

/// `Continue` to read more events, `Break` with how reading ended.
pub type Flow<E> = Result<ControlFlow<E>, Error>;

/// What stores the documents of a feed: a method for each event.
pub trait Reader {
    /// How reading ended.
    type End;

    /// Returns the next event of the feed.
    fn wait_for(&mut self, feed: &mut dyn Feed) -> Result<Option<(Event, Vec<u8>)>, Error> {
        feed.next_event()
    }

    /// Nothing has come for a second.
    fn idle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The source is being listed.
    fn listing(&mut self, _progress: &ListingProgress) {}

    /// The source is listed.
    fn started(&mut self, _documents: u64, _commit: Option<String>) {}

    fn document(&mut self, document: Document, text: String) -> Flow<Self::End>;

    fn unchanged(&mut self, _uri: &str, _validator: Option<String>) -> Flow<Self::End> {
        Ok(ControlFlow::Continue(()))
    }

    fn removed(&mut self, _uri: &str, _warning: Option<Warning>) -> Result<(), Error> {
        Ok(())
    }

    fn failed(&mut self, failure: Failure) -> Flow<Self::End>;

    /// The documents that a file holds are still there, whether they are reported or not.
    fn kept(&mut self, _container: &str) -> Result<(), Error> {
        Ok(())
    }

    /// The time that the feed has spent on reading, and on extracting.
    fn worked(&mut self, _fetch: Duration, _extract: Duration) {}

    fn finished(&mut self, listing: Listing) -> Result<Self::End, Error>;

    /// The source could not be read.
    fn fatal(&mut self, error: EngineError) -> Result<Self::End, Error>;
}

/// Reads a feed up to its last event, or until its reader stops.
///
/// # Errors
/// The feed or the reader fails.
pub fn read<R: Reader>(feed: &mut dyn Feed, reader: &mut R) -> Result<R::End, Error> {
    loop {
        let Some((event, payload)) = reader.wait_for(feed)? else {
            reader.idle()?;
            continue;
        };
        let flow = match event {
            Event::Listing {
                found,
                waiting,
                skipped,
                uri,
            } => {
                reader.listing(&ListingProgress {
                    found,
                    waiting,
                    skipped,
                    uri,
                });
                continue;
            }
            Event::Started { documents, commit } => {
                reader.started(documents, commit);
                continue;
            }
            Event::Document(document) => reader.document(*document, utf8(payload)?)?,
            Event::Unchanged { uri, validator } => reader.unchanged(&uri, validator)?,
            Event::Removed { uri, warning } => {
                reader.removed(&uri, warning)?;
                continue;
            }
            Event::Failed(failure) => reader.failed(failure)?,
            Event::Kept { container } => {
                reader.kept(&container)?;
                continue;
            }
            Event::Worked {
                fetch_ms,
                extract_ms,
            } => {
                let of_ms = Duration::from_millis;
                reader.worked(of_ms(fetch_ms), of_ms(extract_ms));
                continue;
            }
            Event::Finished {
                complete,
                bytes_fetched,
                skipped,
            } => {
                return reader.finished(Listing {
                    is_complete: complete,
                    bytes_fetched,
                    skipped,
                });
            }
            Event::Fatal { error } => return reader.fatal(error),
        };
        if let ControlFlow::Break(end) = flow {
            return Ok(end);
        }
    }
}

fn utf8(payload: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(payload)
        .map_err(|_| Error::internal("rag-engine sent a text that is not UTF-8"))
}
