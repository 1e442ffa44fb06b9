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

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use git2::{
    Remote,
    transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport},
};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network, TOKEN_USER},
};
use url::Url;

use super::transport::{GitSession, KeptError, LIST_BYTES, RETRY_DELAYS, no_connection};
use crate::{
    fetcher::seconds,
    guard::Guard,
    http::{Body, HttpClient, HttpError, HttpRequest, HttpResponse, MAX_WAIT, Redirects},
};

/// Some servers send clients other than git the web page of the repository.
pub const USER_AGENT: &str = concat!("git/2.0 (rag ", env!("CARGO_PKG_VERSION"), ")");
/// The end of the first response's URL, after redirects.
const LIST_PATH: &str = "/info/refs";
const LIST_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";

/// The requests of one fetch.
pub struct HttpSession {
    client: HttpClient,
    has_credentials: bool,
    /// As the user wrote it.
    named: String,
    /// The URL that the paths of requests are appended to.
    base: Mutex<Url>,
    error: KeptError,
}

impl GitSession for HttpSession {
    fn error(&self) -> &KeptError {
        &self.error
    }

    fn transport(self: Arc<Self>, remote: &Remote<'_>) -> Result<Transport, git2::Error> {
        Transport::smart(remote, true, Subtransport(self))
    }
}

impl HttpSession {
    pub fn new(
        named: &str,
        credentials: Option<&Credentials>,
        network: &Network,
    ) -> Result<Self, EngineError> {
        let invalid = |message: String| EngineError::new(ErrorKind::InvalidRequest, message);
        let url = Url::parse(named)
            .map_err(|e| invalid(format!("\"{named}\" is not a URL")).detail(e.to_string()))?;
        if url.scheme() != "https" && !Guard::new(network)?.is_allowed_host(&url) {
            return Err(
                invalid("spec.repositoryURL: must start with https://".into())
                    .hint("Only hosts in rag.allowed_private_hosts can be used over http."),
            );
        }
        let credentials = credentials.cloned().map(|given| Credentials {
            username: given.username.or_else(|| Some(TOKEN_USER.into())),
            ..given
        });
        let client = HttpClient::new(
            network,
            credentials.as_ref().map(|credentials| (credentials, &url)),
        )?;
        Ok(Self {
            client,
            has_credentials: credentials.is_some(),
            named: named.into(),
            base: Mutex::new(url),
            error: KeptError::default(),
        })
    }

    fn failed(&self, error: &HttpError) -> EngineError {
        no_connection(&self.named, error)
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

    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, EngineError> {
        self.accept(send(&self.client, request).map_err(|error| self.failed(&error))?)
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

/// Sends a request, with retries: no request changes anything on the server.
pub fn send(client: &HttpClient, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpError> {
    let mut waits = RETRY_DELAYS.iter();
    loop {
        let answer = client.send(request);
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
            None => return answer,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Subtransport(Arc<HttpSession>);

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
    session: Arc<HttpSession>,
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
                            .map_err(|error| session.error.keep(error))?
                            .take(LIST_BYTES),
                    )
                } else {
                    Box::new(
                        session
                            .call(&self.request)
                            .map_err(|error| session.error.keep(error))?,
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
                Some(failed) => session.error.keep(failed),
                None => error,
            }
        })
    }
}
