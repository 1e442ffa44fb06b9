//! Git's smart protocol over our own HTTP client. libgit2 writes the requests and parses the
//! responses, but opens no connection.
//!
//! ```text
//!  libgit2 ── UploadPackLs ─▶ GET  <url>/info/refs?service=git-upload-pack  branches, commits
//!          ── UploadPack ───▶ POST <url>/git-upload-pack                    wants, haves; pack
//! ```
//!
//! Each action is one request and one response ("stateless RPC", gitprotocol-http(5)). The request
//! is sent when the response is first read. The first one may be redirected within its origin
//! (`/group/repo` to `/group/repo.git/`), and the others use the new URL. A redirect to another
//! origin is refused: the user has to write that URL.
//!
//! libgit2 has one factory of transports for the whole process and reports errors as text. So the
//! session of a thread's fetch is in a thread-local variable, and the original error is kept in the
//! session.

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
    http::{Body, HttpClient, HttpError, HttpRequest, HttpResponse, MAX_WAIT, Redirects},
};

/// Some servers send clients other than git the web page of the repository.
const USER_AGENT: &str = concat!("git/2.0 (rag ", env!("CARGO_PKG_VERSION"), ")");
/// The end of the first response's URL, after redirects.
const LIST_PATH: &str = "/info/refs";
const LIST_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";
/// Limit on the list of branches and tags: a million of them.
const LIST_BYTES: u64 = 64 << 20;
/// Delays before retries after temporary errors, unless the server asks for more.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The requests of one fetch.
pub struct GitSession {
    client: HttpClient,
    has_credentials: bool,
    /// As the user wrote it.
    named: String,
    /// The URL that the paths of requests are appended to.
    base: Mutex<Url>,
    error: Mutex<Option<EngineError>>,
}

impl GitSession {
    pub fn new(named: &str, job: &Job) -> Result<Self, EngineError> {
        let invalid = |message: String| EngineError::new(ErrorKind::InvalidRequest, message);
        let url = Url::parse(named)
            .map_err(|e| invalid(format!("\"{named}\" is not a URL")).detail(e.to_string()))?;
        if url.scheme() != "https" && !Guard::new(&job.network)?.is_allowed_host(&url) {
            return Err(
                invalid("spec.repositoryURL: must start with https://".into())
                    .hint("Only hosts in rag.allowed_private_hosts can be used over http."),
            );
        }
        let credentials = job.credentials.clone().map(|given| Credentials {
            username: given.username.or_else(|| Some(TOKEN_USER.into())),
            ..given
        });
        let client = HttpClient::new(
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

    /// Returns the error of our part of libgit2's last call, if there was one.
    pub fn take_error(&self) -> Option<EngineError> {
        locked(&self.error).take()
    }

    /// Keeps an error for [`GitSession::take_error`]. Returns one that libgit2 can carry.
    fn keep(&self, error: EngineError) -> io::Error {
        let text = error.message.replace('\0', " ");
        *locked(&self.error) = Some(error);
        io::Error::other(text)
    }

    fn failed(&self, error: &HttpError) -> EngineError {
        let failed = EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("could not fetch from {}", self.named),
        )
        .detail(error.to_string());
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }

    /// Requests the branches and tags. Sets the URL of further requests.
    fn list(&self) -> Result<Body, EngineError> {
        let mut url = locked(&self.base).clone();
        url.set_path(&format!("{}{LIST_PATH}", url.path().trim_end_matches('/')));
        url.set_query(Some("service=git-upload-pack"));
        let request = HttpRequest {
            redirects: Redirects::SameOrigin,
            ..HttpRequest::get(url)
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
        let request = HttpRequest {
            body: Some(wants),
            redirects: Redirects::SameOrigin,
            ..HttpRequest::get(url)
        }
        .header("user-agent", USER_AGENT)
        .header("content-type", "application/x-git-upload-pack-request")
        .header("accept", RESULT_TYPE);
        let response = self.send(&request)?;
        self.check_type(&response, RESULT_TYPE)?;
        Ok(response.body)
    }

    /// Sends a request, with retries: no request changes anything on the server.
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, EngineError> {
        let mut waits = RETRY_DELAYS.iter();
        loop {
            let answer = self.client.send(request);
            let wait = match &answer {
                Ok(response)
                    if response.status.as_u16() == 429 || response.status.is_server_error() =>
                {
                    let wait = waits
                        .next()
                        .map(|wait| response.retry_after().unwrap_or_default().max(*wait));
                    wait.filter(|wait| *wait <= MAX_WAIT)
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

    fn accept(&self, response: HttpResponse) -> Result<HttpResponse, EngineError> {
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
                "The token may have expired, may lack access to this repository, or may need \
                    another \
                 user name.",
            ),
            401 | 403 => (
                format!("the server of {named} asks for credentials"),
                "Check the URL. For a private repository, create a secret with a token that may \
                    read it, \
                 and name it in the source's credentials.",
            ),
            404 | 410 => (
                format!("repository {named} does not exist"),
                "Check the URL. Servers also answer this if the repository is private and the \
                    credentials \
                 do not give access to it.",
            ),
            500..=599 => (
                format!("the server of {named} has failed"),
                "The error may be temporary. Sync again later.",
            ),
            _ => (
                format!("could not fetch from {named}"),
                "Check the repository's URL.",
            ),
        };
        Err(EngineError::new(ErrorKind::SourceUnavailable, message)
            .detail(format!("The server answered with status {status}."))
            .hint(hint))
    }

    fn check_type(&self, response: &HttpResponse, expected: &str) -> Result<(), EngineError> {
        let media_type = response.header("content-type").unwrap_or_default();
        if media_type
            .split(';')
            .next()
            .is_some_and(|t| t.trim().eq_ignore_ascii_case(expected))
        {
            return Ok(());
        }
        let message = format!("{} is not a git server", self.named);
        Err(EngineError::new(ErrorKind::SourceUnavailable, message)
            .detail(format!(
                "It sent \"{}\" instead of \"{expected}\".",
                media_type.escape_default()
            ))
            .hint("Write the URL that \"git clone\" takes, not the URL of a web page."))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<GitSession>>> = const { RefCell::new(None) };
}

/// Runs a function whose requests to a repository belong to this session.
pub fn within<T>(session: &Arc<GitSession>, connecting: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<GitSession>>);
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
    Transport::smart(remote, true, Subtransport(session))
}

struct Subtransport(Arc<GitSession>);

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
                return Err(git2::Error::from_str("pushing is not supported"));
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

/// One request and its response.
struct Exchange {
    session: Arc<GitSession>,
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
