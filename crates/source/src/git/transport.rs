//! Git's smart protocol over our own HTTP client: libgit2 says what to ask and understands the
//! answers, and opens no connection of its own.
//!
//! ```text
//!  libgit2 ── UploadPackLs ──▶ GET  <url>/info/refs?service=git-upload-pack     the branches and their commits
//!          ── UploadPack ────▶ POST <url>/git-upload-pack                       wants and haves; shallow list, pack
//! ```
//!
//! Each action is one request and one answer ("stateless RPC", gitprotocol-http(5)). The request is
//! sent when the answer is first read. The first one may be redirected within its origin
//! (`/group/repo` to `/group/repo.git/`), and what it is redirected to is what the others ask. One
//! that leads elsewhere is refused: the user has to write that URL.
//!
//! libgit2 keeps the factories of transports for the whole process and gives errors as text. Hence
//! the session of the thread's own fetch is found in a thread-local variable, and an error's real
//! self waits in the session.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use git2::{
    Remote,
    transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport},
};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Job, TOKEN_USER},
};
use url::Url;

use crate::{
    fetcher::seconds,
    guard::Guard,
    http::{Body, Client, HttpError, LONGEST_WAIT, Redirects, Request, Response},
};

/// Some servers speak git only to whom they take for git, and send others the page about the
/// repository.
const USER_AGENT: &str = concat!("git/2.0 (rag ", env!("CARGO_PKG_VERSION"), ")");
/// What the first answer's address ends with, after redirects.
const LIST_PATH: &str = "/info/refs";
const LIST_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";
/// Most bytes of the list of branches and tags: a million of them.
const LIST_BYTES: u64 = 64 << 20;
/// Waits before a request is repeated that met a passing fault, where the server does not say how
/// long.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The conversation with one repository's server.
pub struct Session {
    client: Client,
    has_credentials: bool,
    /// As the user wrote it.
    named: String,
    /// What the paths of requests are appended to.
    base: Mutex<Url>,
    error: Mutex<Option<EngineError>>,
}

impl Session {
    pub fn new(named: &str, job: &Job) -> Result<Self, EngineError> {
        let invalid = |message: String| EngineError::new(ErrorKind::InvalidRequest, message);
        let url = Url::parse(named)
            .map_err(|e| invalid(format!("\"{named}\" is not a URL")).detail(e.to_string()))?;
        if url.scheme() != "https" && !Guard::new(&job.network)?.is_exception(&url) {
            return Err(
                invalid("spec.repositoryURL: must start with https://".into()).hint(
                    "Only hosts that rag.allowed_private_hosts names may be asked over http.",
                ),
            );
        }
        let credentials = job.credentials.clone().map(|given| Credentials {
            username: given.username.or_else(|| Some(TOKEN_USER.into())),
            ..given
        });
        let client = Client::new(
            &job.network,
            credentials.as_ref().map(|credentials| (credentials, &url)),
        )?;
        Ok(Self {
            client,
            has_credentials: credentials.is_some(),
            named: named.into(),
            base: Mutex::new(url),
            error: Mutex::new(None),
        })
    }

    /// What went wrong in our part of libgit2's last call, if it was that.
    pub fn take_error(&self) -> Option<EngineError> {
        locked(&self.error).take()
    }

    /// Keeps an error for [`Session::take_error`], and gives what libgit2 can carry.
    fn keep(&self, error: EngineError) -> io::Error {
        let text = error.message.replace('\0', " ");
        *locked(&self.error) = Some(error);
        io::Error::other(text)
    }

    fn failed(&self, error: &HttpError) -> EngineError {
        let failed = EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("cannot fetch from {}", self.named),
        )
        .detail(error.to_string());
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }

    /// The branches and tags, and the address that further requests go to.
    fn list(&self) -> Result<Body, EngineError> {
        let mut url = locked(&self.base).clone();
        url.set_path(&format!("{}{LIST_PATH}", url.path().trim_end_matches('/')));
        url.set_query(Some("service=git-upload-pack"));
        let request = Request {
            redirects: Redirects::SameOrigin,
            ..Request::get(url)
        };
        let response = self.send(&request.header("user-agent", USER_AGENT))?;
        self.check_type(&response, LIST_TYPE)?;
        let mut base = response.url.clone();
        if let Some(path) = response.url.path().strip_suffix(LIST_PATH) {
            base.set_path(path);
            base.set_query(None);
            *locked(&self.base) = base;
        }
        Ok(response.body)
    }

    fn call(&self, wants: &[u8]) -> Result<Body, EngineError> {
        let mut url = locked(&self.base).clone();
        url.set_path(&format!(
            "{}/git-upload-pack",
            url.path().trim_end_matches('/')
        ));
        let request = Request {
            body: Some(wants),
            redirects: Redirects::SameOrigin,
            ..Request::get(url)
        }
        .header("user-agent", USER_AGENT)
        .header("content-type", "application/x-git-upload-pack-request")
        .header("accept", RESULT_TYPE);
        let response = self.send(&request)?;
        self.check_type(&response, RESULT_TYPE)?;
        Ok(response.body)
    }

    /// Sends a request, again after passing faults: none of them changes anything on the server.
    fn send(&self, request: &Request<'_>) -> Result<Response, EngineError> {
        let mut waits = WAITS.iter();
        loop {
            let answer = self.client.send(request);
            let wait = match &answer {
                Ok(response)
                    if response.status.as_u16() == 429 || response.status.is_server_error() =>
                {
                    let wait = waits
                        .next()
                        .map(|wait| response.retry_after().unwrap_or_default().max(*wait));
                    wait.filter(|wait| *wait <= LONGEST_WAIT)
                }
                Err(error) if error.is_transient() => waits.next().copied(),
                _ => None,
            };
            match wait {
                Some(wait) => thread::sleep(wait),
                None => return self.accept(answer.map_err(|error| self.failed(&error))?),
            }
        }
    }

    fn accept(&self, response: Response) -> Result<Response, EngineError> {
        let status = response.status;
        if status.is_success() {
            return Ok(response);
        }
        let named = &self.named;
        if response.is_throttling() {
            let asked = response.retry_after().map(seconds);
            return Err(
                EngineError::throttled(&format!("the server of {named}"), asked)
                    .detail(format!("The server answered with status {status}.")),
            );
        }
        let (message, hint) = match status.as_u16() {
            401 | 403 if self.has_credentials => (
                format!("the server of {named} does not accept the credentials"),
                "The token may have expired, may not be allowed to read this repository, or needs another user name.",
            ),
            401 | 403 => (
                format!("the server of {named} asks for credentials"),
                "Is the URL misspelt? A private repository needs a secret with a token that may read it, named in the \
                 source's credentials.",
            ),
            404 | 410 => (
                format!("there is no repository at {named}"),
                "Check the URL. Servers also say so of a private repository to those who may not read it.",
            ),
            500..=599 => (
                format!("the server of {named} cannot answer now"),
                "It may be a passing fault: sync again later.",
            ),
            _ => (
                format!("cannot fetch from {named}"),
                "Check the repository's URL.",
            ),
        };
        Err(EngineError::new(ErrorKind::SourceUnavailable, message)
            .detail(format!("The server answered with status {status}."))
            .hint(hint))
    }

    fn check_type(&self, response: &Response, expected: &str) -> Result<(), EngineError> {
        let media_type = response.header("content-type").unwrap_or_default();
        if media_type
            .split(';')
            .next()
            .is_some_and(|t| t.trim().eq_ignore_ascii_case(expected))
        {
            return Ok(());
        }
        let message = format!("what answers at {} is no git server", self.named);
        Err(EngineError::new(ErrorKind::SourceUnavailable, message)
            .detail(format!(
                "It sent \"{}\" instead of \"{expected}\".",
                media_type.escape_default()
            ))
            .hint(
                "Give the URL that \"git clone\" takes, not that of a page about the repository.",
            ))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Runs what connects to a repository; its requests are made in this session.
pub fn within<T>(session: &Arc<Session>, connecting: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<Session>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(Arc::clone(session))));
    connecting()
}

/// The transport of a remote: that of the session the thread is in.
pub fn create(remote: &Remote<'_>) -> Result<Transport, git2::Error> {
    let session = CURRENT.with_borrow(Clone::clone);
    let session = session.ok_or_else(|| {
        git2::Error::from_str("a repository was connected to outside of a session")
    })?;
    Transport::smart(remote, true, Subtransport(session))
}

struct Subtransport(Arc<Session>);

impl SmartSubtransport for Subtransport {
    fn action(
        &self,
        _url: &str,
        action: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let is_list = match action {
            Service::UploadPackLs => true,
            Service::UploadPack => false,
            Service::ReceivePackLs | Service::ReceivePack => {
                return Err(git2::Error::from_str("nothing is ever pushed"));
            }
        };
        Ok(Box::new(Exchange {
            session: Arc::clone(&self.0),
            is_list,
            request: vec![],
            answer: None,
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// One request and its answer.
struct Exchange {
    session: Arc<Session>,
    is_list: bool,
    request: Vec<u8>,
    answer: Option<Box<dyn Read + Send>>,
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let session = &self.session;
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let body: Box<dyn Read + Send> = if self.is_list {
                    Box::new(
                        session
                            .list()
                            .map_err(|error| session.keep(error))?
                            .take(LIST_BYTES),
                    )
                } else {
                    Box::new(
                        session
                            .call(&self.request)
                            .map_err(|error| session.keep(error))?,
                    )
                };
                self.answer.insert(body)
            }
        };
        answer.read(buffer).map_err(|error| {
            let http = error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<HttpError>());
            match http.map(|http| session.failed(http)) {
                Some(failed) => session.keep(failed),
                None => error,
            }
        })
    }
}
