//! `rag-engine call`: one call of a model on another server.

use rag_protocol::{
    EngineError,
    call::{Call, CallEvent},
};

use crate::{redaction, request::Request};

impl Request for Call {
    type Event = CallEvent;

    fn hide_secrets(&self) {
        redaction::hide(self.credentials.as_ref(), &self.network);
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    fn timed_out(&self) -> CallEvent {
        CallEvent::Failed {
            error: rag_remote::timeout(self),
            was_sent: true,
        }
    }

    fn not_sent(error: EngineError) -> CallEvent {
        CallEvent::Failed {
            error,
            was_sent: false,
        }
    }

    fn redacted(event: CallEvent) -> CallEvent {
        match event {
            CallEvent::Failed { error, was_sent } => CallEvent::Failed {
                error: redaction::redacted_error(&error),
                was_sent,
            },
            other => other,
        }
    }

    fn payload(event: &CallEvent) -> Vec<u8> {
        match event {
            CallEvent::Embedded { vectors, .. } => {
                vectors.iter().flat_map(|x| x.to_le_bytes()).collect()
            }
            _ => vec![],
        }
    }

    fn perform(&self, emit: &mut dyn FnMut(CallEvent)) {
        rag_remote::perform(self, emit);
    }
}
