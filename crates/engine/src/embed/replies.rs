//! Replies to a client, and the limit on its unanswered requests.
//!
//! A client that does not read must not delay others: replies are queued, and a separate thread of
//! the client writes them. The queue is bounded because requests are: each holds a [`Ticket`] until
//! its reply is written, and the client's next request is not accepted before there is room for it.

use std::{
    any::Any,
    io::Write,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, Reply},
    frame,
};

/// Maximum number of unanswered requests of one client before the next one is accepted.
pub const MAX_REQUESTS: usize = 64;
/// Maximum number of texts in the unanswered requests of one client. Each text takes some kilobytes
/// until it is answered.
pub const MAX_TEXTS: usize = 4096;
/// Interval at which a waiting client is checked for having hung up.
const TICK: Duration = Duration::from_millis(100);

/// An encoded reply. Its ticket is returned when the reply is written.
#[derive(Debug)]
pub struct EncodedReply {
    bytes: Vec<u8>,
    _claim: Option<RequestShare>,
}

/// The destination of the replies to one client.
#[derive(Debug, Clone)]
pub struct Replies {
    queue: Sender<EncodedReply>,
    owed: Arc<UnansweredRequests>,
}

/// The unanswered requests of a client, and the thread that waits for their number to fall.
#[derive(Debug, Default)]
struct UnansweredRequests {
    owed: Mutex<UnansweredCounts>,
    less: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct UnansweredCounts {
    requests: usize,
    texts: usize,
}

impl Replies {
    pub fn new(queue: Sender<EncodedReply>) -> Self {
        Self {
            queue,
            owed: Arc::default(),
        }
    }

    /// Waits until the client's unanswered requests leave room for another one. Returns false if
    /// the client has hung up.
    pub fn wait(&self, abandoned: &dyn Fn() -> bool) -> bool {
        let mut owed = self
            .owed
            .owed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while owed.requests >= MAX_REQUESTS || owed.texts >= MAX_TEXTS {
            owed = self
                .owed
                .less
                .wait_timeout(owed, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if abandoned() {
                return false;
            }
        }
        true
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// `LimitExceeded` if the request has too many texts.
    pub fn admit(&self, id: u64, texts: usize) -> Result<Ticket, EngineError> {
        if texts > MAX_TEXTS {
            return Err(EngineError::new(
                ErrorKind::LimitExceeded,
                "too many texts in one request",
            )
            .detail(format!("It has {texts} texts; the limit is {MAX_TEXTS}."))
            .hint("Send fewer texts in one request."));
        }
        let mut owed = self
            .owed
            .owed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *owed = UnansweredCounts {
            requests: owed.requests + 1,
            texts: owed.texts + texts,
        };
        Ok(Ticket {
            id,
            replies: self.clone(),
            claim: RequestShare {
                debt: Arc::clone(&self.owed),
                texts,
            },
        })
    }

    /// Sends an error for a request that was not accepted.
    pub fn refuse(&self, id: u64, error: EngineError) {
        self.send(id, Answer::Error { error }, &[], None);
    }

    fn send(&self, id: u64, answer: Answer, payload: &[u8], claim: Option<RequestShare>) {
        let bytes = frame::encode(&Reply { id, answer }, payload).or_else(|e| {
            let error = EngineError::new(ErrorKind::LimitExceeded, "the answer is too large")
                .detail(e.to_string());
            frame::encode(
                &Reply {
                    id,
                    answer: Answer::Error { error },
                },
                &[],
            )
        });
        match bytes {
            // Fails only if the client has hung up.
            Ok(bytes) => drop(self.queue.send(EncodedReply {
                bytes,
                _claim: claim,
            })),
            Err(e) => tracing::error!(id, "a reply could not be encoded: {e}"),
        }
    }
}

/// The right to one answer.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    replies: Replies,
    claim: RequestShare,
}

impl Ticket {
    pub fn answer(self, answer: Answer, payload: &[u8]) {
        self.replies
            .send(self.id, answer, payload, Some(self.claim));
    }

    pub fn fail(self, error: EngineError) {
        self.answer(Answer::Error { error }, &[]);
    }
}

/// The share of one request in its client's limits, until dropped.
#[derive(Debug)]
struct RequestShare {
    debt: Arc<UnansweredRequests>,
    texts: usize,
}

impl Drop for RequestShare {
    fn drop(&mut self) {
        let mut owed = self
            .debt
            .owed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        owed.requests -= 1;
        owed.texts -= self.texts;
        self.debt.less.notify_all();
    }
}

/// Writes replies as they come, until no more can follow or the client has hung up.
pub fn write_all(queue: &Receiver<EncodedReply>, to: &mut impl Write) {
    for reply in queue {
        if to
            .write_all(&reply.bytes)
            .and_then(|()| to.flush())
            .is_err()
        {
            return;
        }
    }
}

/// Returns the error that a client gets for a panic that its request caused.
pub fn internal(panic: &Box<dyn Any + Send>) -> EngineError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    EngineError::new(ErrorKind::Internal, "the engine failed on this request").detail(what)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_written_reply_makes_room_for_another_request() {
        let (sender, receiver) = mpsc::channel();
        let replies = Replies::new(sender);
        let mut tickets: Vec<_> = (0..MAX_REQUESTS as u64)
            .map(|id| replies.admit(id, 1).unwrap())
            .collect();
        assert!(!replies.wait(&|| true));
        tickets
            .pop()
            .unwrap()
            .fail(EngineError::new(ErrorKind::Internal, "x"));
        assert!(!replies.wait(&|| true), "the reply is not written yet");
        drop(receiver.recv().unwrap());
        assert!(replies.wait(&|| true));
    }

    #[test]
    fn texts_are_limited_across_requests() {
        let replies = Replies::new(mpsc::channel().0);
        let first = replies.admit(1, MAX_TEXTS).unwrap();
        assert!(!replies.wait(&|| true));
        drop(first);
        assert!(replies.wait(&|| true));
        assert_eq!(
            replies.admit(2, MAX_TEXTS + 1).unwrap_err().kind,
            ErrorKind::LimitExceeded
        );
    }
}
