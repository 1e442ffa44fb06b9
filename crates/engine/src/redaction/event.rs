//! Events and errors without the secrets of the job.

use std::borrow::Cow;

use rag_protocol::{
    EngineError,
    ingest::{Event, Failure},
};

use super::redacted;

/// Returns an event without the secrets of the job.
pub fn redacted_event(event: &Event) -> Cow<'_, Event> {
    let text = |text: &str| redacted(text).into_owned();
    let some = |part: &Option<String>| part.as_deref().map(text);
    match event {
        Event::Failed(failure) => Cow::Owned(Event::Failed(Failure {
            uri: text(&failure.uri),
            message: text(&failure.message),
            hint: some(&failure.hint),
            ..failure.clone()
        })),
        Event::Fatal { error } => Cow::Owned(Event::Fatal {
            error: redacted_error(error),
        }),
        Event::Listing {
            found,
            waiting,
            skipped,
            uri,
        } => Cow::Owned(Event::Listing {
            found: *found,
            waiting: *waiting,
            skipped: *skipped,
            uri: text(uri),
        }),
        Event::Started { .. }
        | Event::Document(_)
        | Event::Unchanged { .. }
        | Event::Removed { .. }
        | Event::Kept { .. }
        | Event::Worked { .. }
        | Event::Finished { .. } => Cow::Borrowed(event),
    }
}

/// Returns an error without the secrets of the job.
pub fn redacted_error(error: &EngineError) -> EngineError {
    let text = |text: &str| redacted(text).into_owned();
    EngineError {
        message: text(&error.message),
        detail: error.detail.as_deref().map(text),
        hint: error.hint.as_deref().map(text),
        ..error.clone()
    }
}
