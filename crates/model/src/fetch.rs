//! Fetches the files of a published model from a hub, by the commit and by their hashes.
//!
//! ```text
//! api/models/REPOSITORY/revision/REVISION ── commit, files, hashes
//!        │
//!        ▼   for each file that is needed
//! REPOSITORY/resolve/COMMIT/FILE ──▶ .rag-fetch/FILE.part ── hash ──▶ FILE
//! ```
//!
//! Every file has a hash in the answer: SHA-256 for large ones, and the id of a blob of git for the
//! others. A part that was fetched before is continued, also by a later call, and a file that is
//! there with its hash is not fetched again. All requests go through the network guard of
//! `rag-source`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use git2::{ObjectType, Oid};
use rag_protocol::{EngineError, ErrorKind, ingest::Network};
use rag_source::http::{HttpClient, HttpError, HttpRequest, HttpResponse};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;

/// The hub that is asked if none is named.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// The files that are fetched, in the folder itself.
const FILES: [&str; 8] = [
    "config.json",
    "config_sentence_transformers.json",
    "LICENSE",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
];
/// The files that are fetched in folders of steps, such as `1_Pooling`.
const STEP_FILES: [&str; 2] = ["config.json", "model.safetensors"];
/// The file without which there is nothing to convert.
const WEIGHTS: &str = "model.safetensors";
/// The folder of files that are not complete.
const PARTS: &str = ".rag-fetch";
/// Maximum size of the list of files, in bytes.
const MAX_LIST: u64 = 16 << 20;
/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 << 30;
/// Maximum size of a file that is not a large one, in bytes.
const MAX_SMALL: u64 = 64 << 20;
/// Number of requests for a file that break off before the next byte.
const MAX_TRIES: u32 = 3;

/// One model to fetch.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// Its name at the hub: `owner/name`.
    pub repository: &'a str,
    /// A branch, a tag or a commit.
    pub revision: &'a str,
    /// The address of the hub.
    pub endpoint: &'a str,
    pub to: &'a Path,
    pub network: &'a Network,
}

/// What was fetched.
#[derive(Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The commit that the revision stands for.
    pub commit: String,
    /// The files, and false for those that were there before.
    pub files: Vec<(String, bool)>,
}

#[derive(Debug, Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    rfilename: String,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Large>,
}

#[derive(Debug, Deserialize)]
struct Large {
    sha256: String,
}

/// Fetches the files that a conversion needs.
///
/// # Errors
/// `InvalidRequest` for names that are none; `FileNotFound` if the hub has no such model;
/// `Unsupported` for a model without `model.safetensors`; `InvalidModel` for a file with another
/// hash; `SourceUnavailable`, `InvalidAnswer` or `Io` if a file cannot be fetched or written.
pub fn fetch(fetch: &Fetch) -> Result<Fetched, EngineError> {
    let hub = Hub::new(fetch)?;
    let listing = hub.list()?;
    let is_commit = |name: &str| name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_commit(&listing.sha) || (is_commit(fetch.revision) && listing.sha != fetch.revision) {
        return Err(hub.unexpected(&format!("the commit \"{}\"", listing.sha)));
    }
    let wanted: Vec<&Listed> = listing
        .siblings
        .iter()
        .filter(|it| it.is_wanted())
        .collect();
    if !wanted.iter().any(|file| file.rfilename == WEIGHTS) {
        let message = format!("\"{}\" has no {WEIGHTS}", fetch.repository);
        return Err(EngineError::new(ErrorKind::Unsupported, message)
            .hint("Other formats of weights cannot be converted."));
    }
    let mut files = vec![];
    for file in wanted {
        let is_new = hub.get(&listing.sha, file)?;
        files.push((file.rfilename.clone(), is_new));
    }
    // it is empty, unless another call is at work
    let _ = fs::remove_dir(fetch.to.join(PARTS));
    Ok(Fetched {
        commit: listing.sha,
        files,
    })
}

impl Listed {
    /// Returns true for a file that is fetched. No other name is ever used as a path.
    fn is_wanted(&self) -> bool {
        match self.rfilename.split_once('/') {
            None => FILES.contains(&self.rfilename.as_str()),
            Some((folder, file)) => is_step(folder) && STEP_FILES.contains(&file),
        }
    }

    fn check(&self, path: &Path) -> Result<bool, EngineError> {
        let unreadable = |e: io::Error| rag_model::unreadable(path, &e);
        match (&self.lfs, &self.blob_id) {
            (Some(large), _) => {
                let mut hasher = Sha256::new();
                let mut file = File::open(path).map_err(unreadable)?;
                io::copy(&mut file, &mut hasher).map_err(unreadable)?;
                Ok(hex::encode(hasher.finalize()).eq_ignore_ascii_case(&large.sha256))
            }
            (None, Some(id)) => {
                let length = fs::metadata(path).map_err(unreadable)?.len();
                if length > MAX_SMALL {
                    return Ok(false);
                }
                let bytes = fs::read(path).map_err(unreadable)?;
                let found = Oid::hash_object(ObjectType::Blob, &bytes);
                Ok(found.is_ok_and(|found| found.to_string().eq_ignore_ascii_case(id)))
            }
            (None, None) => Ok(false),
        }
    }
}

/// Returns true for the name of a folder such as `1_Pooling`.
fn is_step(folder: &str) -> bool {
    folder.split_once('_').is_some_and(|(number, class)| {
        let is_class = |class: &str| class.bytes().all(|b| b.is_ascii_alphanumeric());
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && is_class(class)
    })
}

struct Hub<'a> {
    fetch: &'a Fetch<'a>,
    endpoint: Url,
    client: HttpClient,
}

impl<'a> Hub<'a> {
    fn new(fetch: &'a Fetch<'a>) -> Result<Self, EngineError> {
        let refused = |message: String, hint: &str| {
            Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(hint))
        };
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes.all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
                && !name.is_empty()
                && !name.starts_with('.')
        };
        let parts: Vec<&str> = fetch.repository.split('/').collect();
        if parts.len() != 2 || !parts.iter().all(|part| is_name(part)) {
            return refused(
                format!("\"{}\" is not the name of a repository", fetch.repository),
                "Write owner/name.",
            );
        }
        if !fetch.revision.split('/').all(is_name) {
            return refused(
                format!("\"{}\" is not a revision", fetch.revision),
                "Write a branch, a tag or a commit.",
            );
        }
        let endpoint = Url::parse(fetch.endpoint).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.has_host()
        });
        let Some(endpoint) = endpoint else {
            return refused(
                format!("\"{}\" is not the address of a hub", fetch.endpoint),
                "Write https://host.",
            );
        };
        Ok(Self {
            fetch,
            endpoint,
            client: HttpClient::new(fetch.network, None)?,
        })
    }

    /// Returns the URL of a path at the hub.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(path.iter().flat_map(|part| part.split('/')));
        }
        url
    }

    fn list(&self) -> Result<Listing, EngineError> {
        let Fetch {
            repository,
            revision,
            ..
        } = self.fetch;
        // a slash in a revision is a part of its name
        let mut url = self.url(&["api/models", repository, "revision"]);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(revision);
        }
        url.set_query(Some("blobs=true"));
        let response = self.send(&HttpRequest::get(url))?;
        let bytes = response.bytes(MAX_LIST).map_err(|e| self.broken(&e))?;
        serde_json::from_slice(&bytes).map_err(|e| self.unexpected(&e.to_string()))
    }

    /// Sends a request, and returns a response of success.
    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, EngineError> {
        let response = self.client.send(request).map_err(|e| self.broken(&e))?;
        let status = response.status;
        if status.is_success() {
            return Ok(response);
        }
        let Fetch {
            repository,
            revision,
            ..
        } = self.fetch;
        let host = self.endpoint.host_str().unwrap_or_default();
        Err(match status.as_u16() {
            401 | 403 | 404 => EngineError::new(
                ErrorKind::FileNotFound,
                format!("{host} has no public model \"{repository}\" of revision \"{revision}\""),
            )
            .detail(format!("It answered {status}.")),
            _ => EngineError::new(
                ErrorKind::SourceUnavailable,
                format!("{host} answered {status}"),
            ),
        })
    }

    /// Fetches a file. Returns false if it was there.
    fn get(&self, commit: &str, file: &Listed) -> Result<bool, EngineError> {
        let path = self.fetch.to.join(&file.rfilename);
        if path.is_file() && file.check(&path)? {
            return Ok(false);
        }
        let part = self
            .fetch
            .to
            .join(PARTS)
            .join(file.rfilename.replace('/', "."));
        let part = part.with_added_extension("part");
        for folder in [part.parent(), path.parent()].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))?;
        }
        let was_there = part.exists();
        self.complete(commit, file, &part)?;
        if !file.check(&part)? {
            fs::remove_file(&part).map_err(|e| unwritable(&part, &e))?;
            // what was fetched before may be of another commit
            if was_there {
                self.complete(commit, file, &part)?;
            }
            if !was_there || !file.check(&part)? {
                let _ = fs::remove_file(&part);
                return Err(rag_model::invalid(&path, "it was sent with another hash"));
            }
        }
        fs::rename(&part, &path).map_err(|e| unwritable(&path, &e))?;
        Ok(true)
    }

    /// Appends to a part what is missing of it.
    fn complete(&self, commit: &str, file: &Listed, part: &Path) -> Result<(), EngineError> {
        let unwritable = |e: io::Error| unwritable(part, &e);
        let url = self.url(&[self.fetch.repository, "resolve", commit, &file.rfilename]);
        let opened = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(part);
        let mut out = opened.map_err(unwritable)?;
        let mut tries = 0;
        loop {
            let start = out.seek(SeekFrom::End(0)).map_err(unwritable)?;
            let mut request = HttpRequest::get(url.clone());
            if start > 0 {
                request = request.header("range", format!("bytes={start}-"));
            }
            let error = match self.client.send(&request) {
                // all bytes are there
                Ok(response) if response.status.as_u16() == 416 => return Ok(()),
                Ok(response) if !response.status.is_success() => {
                    return self.send(&request).map(drop);
                }
                Ok(response) => {
                    if start > 0 && response.status.as_u16() != 206 {
                        out.set_len(0).map_err(unwritable)?;
                    }
                    match append(response, &mut out).map_err(unwritable)? {
                        None => return out.sync_all().map_err(unwritable),
                        Some(error) => error,
                    }
                }
                Err(error) => error,
            };
            let end = out.seek(SeekFrom::End(0)).map_err(unwritable)?;
            tries = if end > start { 0 } else { tries + 1 };
            if !error.is_transient() || tries == MAX_TRIES {
                return Err(self.broken(&error).hint("Call it again to continue."));
            }
        }
    }

    fn broken(&self, error: &HttpError) -> EngineError {
        let host = self.endpoint.host_str().unwrap_or_default();
        EngineError::new(
            ErrorKind::SourceUnavailable,
            format!("could not fetch from {host}"),
        )
        .detail(error.to_string())
    }

    fn unexpected(&self, what: &str) -> EngineError {
        let host = self.endpoint.host_str().unwrap_or_default();
        EngineError::new(
            ErrorKind::InvalidAnswer,
            format!("{host} sent something unexpected"),
        )
        .detail(what)
    }
}

/// Appends a body. Returns the error that it breaks off with.
fn append(response: HttpResponse, out: &mut File) -> io::Result<Option<HttpError>> {
    let host = response.url.host_str().unwrap_or_default().to_owned();
    let mut body = response.body.take(MAX_FILE);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match body.read(&mut buffer) {
            Ok(0) if body.limit() == 0 => return Ok(Some(HttpError::TooLarge(MAX_FILE))),
            Ok(0) => return Ok(None),
            Ok(n) => out.write_all(&buffer[..n])?,
            Err(error) => return Ok(Some(HttpError::of_io(&host, error))),
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> EngineError {
    let path: PathBuf = path.into();
    EngineError::new(
        ErrorKind::Io,
        format!("could not write \"{}\"", path.display()),
    )
    .detail(error.to_string())
}
