//! `rag-engine store`: one request to a server that searches vectors.

use rag_protocol::{
    EngineError,
    storage::{StorageCall, StorageEvent},
};

use crate::{redaction, request::Request};

impl Request for StorageCall {
    type Event = StorageEvent;

    fn hide_secrets(&self) {
        redaction::hide_secrets(self.credentials.secrets(), &self.network);
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    fn timed_out(&self) -> StorageEvent {
        Self::not_sent(rag_remote::storage::timeout(self))
    }

    fn not_sent(error: EngineError) -> StorageEvent {
        StorageEvent::Failed { error }
    }

    fn redacted(event: StorageEvent) -> StorageEvent {
        match event {
            StorageEvent::Failed { error } => StorageEvent::Failed {
                error: redaction::redacted_error(&error),
            },
            StorageEvent::Refused { created, error } => StorageEvent::Refused {
                created,
                error: redaction::redacted_error(&error),
            },
            other => other,
        }
    }

    fn perform(&self, emit: &mut dyn FnMut(StorageEvent)) {
        rag_remote::storage::perform(self, emit);
    }
}
