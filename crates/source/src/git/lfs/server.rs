//! The batch API of Git LFS, and downloads.
//!
//! Credentials are sent to the origin of the repository. A download gets the headers that the
//! server's answer has for it. They are sent to the origin of its URL, and not to the target of a
//! redirect to another one.

use std::io::Read;

use rag_definition::source::Repository;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network, TOKEN_USER},
};
use reqwest::{
    StatusCode,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::{LfsError, Pointer};
use crate::{
    fetcher::{ATTEMPT_TIMEOUT, answered, essence, seconds},
    git::{
        http::{USER_AGENT, send},
        ssh,
    },
    guard::Guard,
    http::{HttpClient, HttpError, HttpRequest, HttpResponse, Redirects},
};

const TYPE: &str = "application/vnd.git-lfs+json";
const ANSWER_BYTES: u64 = 1 << 20;
const LOGIN_BYTES: u64 = 64 << 10;
/// Headers that a server may not set for a download: they belong to the connection.
const REFUSED_HEADERS: [&str; 7] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "upgrade",
    "accept-encoding",
];

/// What a run knows of the server.
pub struct Connection {
    pub repository: Repository,
    pub credentials: Option<Credentials>,
    pub network: Network,
}

pub struct LfsServer {
    connection: Connection,
    login: Option<LfsLogin>,
}

/// How batch requests are sent.
struct LfsLogin {
    /// The URL of batch requests.
    batch: Url,
    headers: HeaderMap,
    /// Sends the credentials of the source.
    client: HttpClient,
    /// Sends none.
    stranger: HttpClient,
    guard: Guard,
}

#[derive(Deserialize)]
struct Batch {
    transfer: Option<String>,
    hash_algo: Option<String>,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    #[serde(default)]
    authenticated: bool,
    actions: Option<Actions>,
    error: Option<ObjectError>,
}

#[derive(Deserialize)]
struct ObjectError {
    code: i64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Actions {
    download: Option<Action>,
}

/// A URL, and the headers that open it.
#[derive(Deserialize)]
struct Action {
    href: String,
    header: Option<Map<String, Value>>,
}

/// How a download ended.
enum Download {
    Bytes(Vec<u8>),
    /// The URL is not valid any more.
    Expired(StatusCode),
}

impl LfsServer {
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            login: None,
        }
    }

    pub fn fetch(&mut self, pointer: &Pointer) -> Result<Vec<u8>, LfsError> {
        for is_last in [false, true] {
            if self.login.is_none() {
                self.login = Some(self.log_in().map_err(LfsError::Server)?);
            }
            let Some(login) = &self.login else { continue };
            let expired = match login.locate(pointer)? {
                None => StatusCode::UNAUTHORIZED,
                Some((action, authenticated)) => {
                    match login.download(pointer, &action, authenticated)? {
                        Download::Bytes(bytes) => return Ok(bytes),
                        Download::Expired(status) => status,
                    }
                }
            };
            // both kinds of access may have expired
            self.login = None;
            if is_last {
                return Err(LfsError::File(answered(expired)));
            }
        }
        Err(LfsError::File("its URL has expired".into()))
    }

    fn log_in(&self) -> Result<LfsLogin, EngineError> {
        let Connection {
            repository,
            credentials,
            network,
        } = &self.connection;
        let named = repository.url().unwrap_or_default();
        let guard = Guard::new(network)?;
        let (endpoint, headers, client) = match repository {
            Repository::Ssh(_) => {
                let action = self.authenticate(&named)?;
                let endpoint = allowed(&action.href, &guard).map_err(|e| unusable(&named, e))?;
                let headers = headers(action.header).map_err(|e| unusable(&named, e))?;
                (endpoint, headers, HttpClient::new(network, None)?)
            }
            Repository::Https(_) | Repository::Local(_) => {
                let mut url = allowed(&named, &guard).map_err(|e| unusable(&named, e))?;
                let path = url.path().trim_end_matches('/');
                let dot_git = if path.ends_with(".git") { "" } else { ".git" };
                let path = format!("{path}{dot_git}/info/lfs");
                url.set_path(&path);
                let credentials = credentials.clone().map(|given| Credentials {
                    username: given.username.or_else(|| Some(TOKEN_USER.into())),
                    ..given
                });
                let client =
                    HttpClient::new(network, credentials.as_ref().map(|given| (given, &url)))?;
                (url, HeaderMap::new(), client)
            }
        };
        let mut batch = endpoint;
        batch.set_path(&format!(
            "{}/objects/batch",
            batch.path().trim_end_matches('/')
        ));
        Ok(LfsLogin {
            batch,
            headers,
            client,
            stranger: HttpClient::new(network, None)?,
            guard,
        })
    }

    /// Asks the ssh server for the address of its batch API.
    fn authenticate(&self, named: &str) -> Result<Action, EngineError> {
        let Repository::Ssh(repository) = &self.connection.repository else {
            return Err(EngineError::new(
                ErrorKind::Internal,
                "not a repository over ssh",
            ));
        };
        let Connection {
            credentials,
            network,
            ..
        } = &self.connection;
        let account = ssh::SshAccount::new(repository, credentials.as_ref(), network)?;
        let path = ssh::quoted(account.path());
        let mut command = account.run(&format!("git-lfs-authenticate {path} download"))?;
        let mut answer = vec![];
        let read = (&mut command).take(LOGIN_BYTES).read_to_end(&mut answer);
        read.map_err(|error| unusable(named, error.to_string()))?;
        if command.status().is_some_and(|status| status != 0) {
            let reason = format!("git-lfs-authenticate says: {}", command.messages());
            return Err(unusable(named, reason));
        }
        serde_json::from_slice(&answer)
            .map_err(|_| unusable(named, "git-lfs-authenticate has not sent an address".into()))
    }
}

fn unusable(named: &str, reason: String) -> EngineError {
    let message = format!("could not use Git LFS of {named}: {reason}");
    EngineError::new(ErrorKind::SourceUnavailable, message).hint(super::HINT)
}

/// Reads a URL that a server has sent.
fn allowed(text: &str, guard: &Guard) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|_| "the server has sent an invalid URL".to_owned())?;
    guard.check(&url).map_err(|refusal| refusal.to_string())?;
    if url.scheme() != "https" && !guard.is_allowed_host(&url) {
        return Err(format!(
            "{} is not encrypted",
            url.origin().ascii_serialization()
        ));
    }
    Ok(url)
}

/// Reads the headers that a server has sent.
fn headers(given: Option<Map<String, Value>>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.unwrap_or_default() {
        let read = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = value
            .as_str()
            .and_then(|value| HeaderValue::from_str(value).ok());
        match (read, value) {
            (Some(name), _) if REFUSED_HEADERS.contains(&name.as_str()) => {}
            (Some(name), Some(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => return Err("the server has sent an invalid header".into()),
        }
    }
    Ok(headers)
}

impl LfsLogin {
    /// Asks where a file is. Returns the way to it, and true if it needs no credentials. Returns
    /// `None` if the headers of the request have expired.
    fn locate(&self, pointer: &Pointer) -> Result<Option<(Action, bool)>, LfsError> {
        let body = json!({
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": pointer.oid, "size": pointer.size}],
            "hash_algo": "sha256",
        });
        let body = body.to_string();
        let request = HttpRequest {
            body: Some(body.as_bytes()),
            redirects: Redirects::SameOrigin,
            own_headers: self.headers.clone(),
            total: Some(ATTEMPT_TIMEOUT),
            ..HttpRequest::get(self.batch.clone())
        }
        .header("user-agent", USER_AGENT)
        .header("content-type", TYPE)
        .header("accept", TYPE);
        let response = send(&self.client, &request).map_err(|e| self.failed(&e))?;
        match response.status.as_u16() {
            200 => {}
            401 if !self.headers.is_empty() => return Ok(None),
            _ => return Err(LfsError::Server(self.refused(&response))),
        }
        let media_type = essence(response.header("content-type"));
        if media_type != TYPE && media_type != "application/json" {
            let reason = format!("it sent \"{}\"", media_type.escape_default());
            return Err(LfsError::Server(self.unusable(&reason)));
        }
        let bytes = response.bytes(ANSWER_BYTES).map_err(|e| self.failed(&e))?;
        let invalid = |reason: &str| LfsError::Server(self.unusable(reason));
        let batch: Batch =
            serde_json::from_slice(&bytes).map_err(|_| invalid("it sent an invalid answer"))?;
        if batch
            .transfer
            .as_deref()
            .is_some_and(|transfer| transfer != "basic")
        {
            return Err(invalid("it asks for a transfer that is not supported"));
        }
        if batch
            .hash_algo
            .as_deref()
            .is_some_and(|hash| hash != "sha256")
        {
            return Err(invalid("it uses another hash than SHA-256"));
        }
        let found = batch
            .objects
            .into_iter()
            .find(|object| object.oid == pointer.oid);
        let file = |reason: String| Err(LfsError::File(reason));
        match found {
            Some(Object {
                error: Some(ObjectError { code, message }),
                ..
            }) => file(format!(
                "the server answered {code}: {}",
                message.escape_debug()
            )),
            Some(Object {
                actions:
                    Some(Actions {
                        download: Some(action),
                    }),
                authenticated,
                ..
            }) => Ok(Some((action, authenticated))),
            _ => file("the server does not have it".into()),
        }
    }

    fn download(
        &self,
        pointer: &Pointer,
        action: &Action,
        is_authenticated: bool,
    ) -> Result<Download, LfsError> {
        let url = allowed(&action.href, &self.guard).map_err(LfsError::File)?;
        let own_headers = headers(action.header.clone()).map_err(LfsError::File)?;
        let client = if is_authenticated || own_headers.contains_key(AUTHORIZATION) {
            &self.stranger
        } else {
            &self.client
        };
        let request = HttpRequest {
            own_headers,
            total: Some(ATTEMPT_TIMEOUT),
            ..HttpRequest::get(url)
        };
        let request = request.header("user-agent", USER_AGENT);
        let failed = |error: HttpError| LfsError::File(error.to_string());
        let response = send(client, &request).map_err(failed)?;
        let status = response.status;
        match status.as_u16() {
            200 => {
                // one byte more shows that there are more
                let limit = pointer.size.saturating_add(1);
                let mut bytes = vec![];
                let read = response.body.take(limit).read_to_end(&mut bytes);
                let host = || request.url.host_str().unwrap_or_default().to_owned();
                read.map_err(|error| failed(HttpError::of_io(&host(), error)))?;
                Ok(Download::Bytes(bytes))
            }
            400 | 401 | 403 | 404 | 410 => Ok(Download::Expired(status)),
            _ if response.is_throttling() => Err(LfsError::Server(self.refused(&response))),
            _ => Err(LfsError::File(answered(status))),
        }
    }

    fn unusable(&self, reason: &str) -> EngineError {
        unusable(self.batch.as_str(), reason.into())
    }

    fn failed(&self, error: &HttpError) -> LfsError {
        LfsError::Server(self.unusable(&error.to_string()))
    }

    /// Returns the error of a batch request that was not answered with a batch.
    fn refused(&self, response: &HttpResponse) -> EngineError {
        let status = response.status;
        if response.is_throttling() {
            let asked = response.retry_after().map(seconds);
            let who = format!("the server of Git LFS, {},", self.batch);
            return EngineError::throttled(&who, asked).detail(answered(status));
        }
        self.unusable(&match status.as_u16() {
            401 | 403 => format!(
                "{}, so the credentials give no access to it",
                answered(status)
            ),
            404 => {
                let answered = answered(status);
                format!("{answered}, so it has no Git LFS, or none for these credentials")
            }
            _ => answered(status),
        })
    }
}
