//! The connections of libgit2. It opens none itself: each fetch has a session, which speaks
//! [HTTP](super::http) or [ssh](super::ssh).
//!
//! libgit2 has one factory of transports for the whole process and reports errors as text. So the
//! session of a thread's fetch is in a thread-local variable, and the original error is kept in the
//! session.

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use git2::{Remote, transport::Transport};
use rag_protocol::{EngineError, ErrorKind};

use crate::http::HttpError;

/// Limit on the list of branches and tags: a million of them.
pub const LIST_BYTES: u64 = 64 << 20;
/// Delays before retries after temporary errors, unless the server asks for more.
pub const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The connections of one fetch.
pub trait GitSession: Send + Sync {
    /// Returns the transport of a remote.
    ///
    /// # Errors
    /// libgit2 has no memory for it.
    fn transport(self: Arc<Self>, remote: &Remote<'_>) -> Result<Transport, git2::Error>;

    /// Returns where the error of libgit2's last call is kept, if it was one of ours.
    fn error(&self) -> &KeptError;
}

/// An error that libgit2 cannot carry.
#[derive(Debug, Default)]
pub struct KeptError(Mutex<Option<EngineError>>);

impl KeptError {
    pub fn take(&self) -> Option<EngineError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps an error. Returns one that libgit2 can carry.
    pub fn keep(&self, error: EngineError) -> io::Error {
        let text = error.message.replace('\0', " ");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other(text)
    }
}

/// Returns the error of a repository whose server cannot be reached.
pub fn no_connection(named: &str, error: &HttpError) -> EngineError {
    let message = format!("could not fetch from {named}");
    let failed = EngineError::new(ErrorKind::SourceUnavailable, message).detail(error.to_string());
    match error.hint() {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn GitSession>>> = const { RefCell::new(None) };
}

/// Runs a function whose connections to a repository belong to this session.
pub fn within<T>(session: &Arc<dyn GitSession>, connecting: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<dyn GitSession>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(Arc::clone(session))));
    connecting()
}

/// Creates the transport of a remote for the session of the thread.
pub fn create(remote: &Remote<'_>) -> Result<Transport, git2::Error> {
    let session = CURRENT.with_borrow(Clone::clone);
    let session = session
        .ok_or_else(|| git2::Error::from_str("a connection was opened outside of a session"))?;
    session.transport(remote)
}
