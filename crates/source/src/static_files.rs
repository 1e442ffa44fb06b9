//! A list of single files of the web and of the database server.
//!
//! The validator of a version (ETag, Last-Modified) is stored with the document and sent with the
//! next request, so that an unchanged file is not transferred again (304). Redirects are followed.
//! A document keeps the uri of its endpoint; its metadata has the final URL.
//!
//! If an endpoint fails, the others are still read. This holds for one that is gone (404) too: the
//! user named it, so its document is kept until the user removes the endpoint.

use std::path::Path;

use percent_encoding::percent_decode_str;
use rag_definition::{
    FieldProblem,
    source::{Endpoint, StaticSpec, server_of},
};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, KnownVersion},
    skipped::SkippedFiles,
};
use reqwest::StatusCode;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    ConcurrentFetch, FetchOutcome, FetchedContent, Listing, Locator, OpenReader, SourceItem,
    SourceReader, fetch_failure,
    fetcher::{self, FetchRequest, Validator},
    http::HttpClient,
    item_failure,
    markdown::Markdown,
};

pub struct StaticFiles {
    client: HttpClient,
    endpoints: Vec<Endpoint>,
    max_bytes: u64,
}

impl OpenReader for StaticSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        Ok(Box::new(StaticFiles::open(&self.endpoints, job)?))
    }
}

impl StaticFiles {
    pub fn open(endpoints: &[Endpoint], job: &Job) -> Result<Self, EngineError> {
        let invalid = |problem: FieldProblem| {
            let error = EngineError::new(ErrorKind::InvalidRequest, problem.message);
            problem.hint.into_iter().fold(error, EngineError::hint)
        };
        let server = match &job.credentials {
            Some(_) => server_of(endpoints).map_err(invalid)?,
            None => None,
        };
        let credentials = job.credentials.as_ref().zip(server.as_ref());
        let client = HttpClient::new(&job.network, credentials)?;
        Ok(Self {
            client,
            endpoints: endpoints.to_vec(),
            max_bytes: job.limits.max_file_bytes,
        })
    }

    fn fetch_web(
        &self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        let url =
            parse(&item.uri).map_err(|error| fetch_failure(&item.uri, error.message, None))?;
        let stored = known
            .and_then(|known| known.validator.as_deref())
            .and_then(Validator::parse);
        let request = FetchRequest {
            url: &url,
            known: stored.as_ref(),
            max_bytes: self.max_bytes,
            accepts: &|_| true,
        };
        let got =
            fetcher::fetch(&self.client, &request).map_err(|problem| problem.failure(&item.uri))?;
        match got.status {
            StatusCode::OK => {
                let mut metadata = Map::new();
                if got.url != without_fragment(&url) {
                    metadata.insert("final_url".into(), Value::from(got.url.as_str()));
                }
                if let Some(time) = got.last_modified {
                    metadata.insert("last_modified".into(), time.into());
                }
                let (validator, media_type) = (got.validator.text(), got.media_type);
                Ok(FetchOutcome::Content(FetchedContent {
                    bytes: got.bytes,
                    validator,
                    media_type,
                    metadata,
                }))
            }
            // only a request with conditions can have this response
            StatusCode::NOT_MODIFIED if stored.is_some() => Ok(FetchOutcome::Unchanged {
                validator: known.and_then(|known| known.validator.clone()),
            }),
            status => Err(fetch_failure(
                &item.uri,
                fetcher::answered(status),
                hint(status),
            )),
        }
    }
}

impl SourceReader for StaticFiles {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: SkippedFiles::default(),
            commit: None,
        };
        for endpoint in &self.endpoints {
            match endpoint {
                Endpoint::Web(url) => listing.items.push(SourceItem {
                    uri: url.clone(),
                    name: name(&parse(url)?),
                    size: 0,
                    validator: None,
                    locator: Locator::Uri,
                }),
                Endpoint::File(path) => {
                    match Markdown::open(path, self.max_bytes).and_then(|mut file| file.list()) {
                        Ok(file) => {
                            listing
                                .items
                                .extend(file.items.into_iter().map(|item| SourceItem {
                                    locator: Locator::Path(path.clone()),
                                    ..item
                                }));
                        }
                        Err(error) => {
                            listing
                                .failures
                                .push(item_failure(&crate::root::uri(path), error));
                        }
                    }
                }
            }
        }
        Ok(listing)
    }

    fn fetch(
        &mut self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        ConcurrentFetch::fetch(self, item, known)
    }

    fn concurrent(&self) -> Option<&dyn ConcurrentFetch> {
        Some(self)
    }

    fn gives_media_types(&self) -> bool {
        true
    }
}

impl ConcurrentFetch for StaticFiles {
    fn fetch(
        &self,
        item: &SourceItem,
        known: Option<&KnownVersion>,
    ) -> Result<FetchOutcome, Failure> {
        match &item.locator {
            Locator::Path(path) => {
                let failed = |error| item_failure(&item.uri, error);
                let mut file = Markdown::open(Path::new(path), self.max_bytes).map_err(failed)?;
                file.fetch(item, known)
            }
            _ => self.fetch_web(item, known),
        }
    }

    fn server(&self, item: &SourceItem) -> String {
        let url = parse(&item.uri).ok();
        url.map_or_else(String::new, |url| url.origin().ascii_serialization())
    }
}

fn parse(url: &str) -> Result<Url, EngineError> {
    Url::parse(url)
        .map_err(|_| EngineError::new(ErrorKind::InvalidRequest, "an endpoint is not a URL"))
}

fn without_fragment(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_fragment(None);
    url
}

/// Returns the name of a resource: the last part of its path.
pub fn name(url: &Url) -> String {
    let last = url
        .path_segments()
        .and_then(|mut parts| parts.rfind(|part| !part.is_empty()))
        .unwrap_or("index");
    percent_decode_str(last).decode_utf8_lossy().into_owned()
}

fn hint(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Some("If it is not public, create a secret and name it in the source's credentials.")
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            Some("Its document is kept until the endpoint is removed from the source.")
        }
        _ => None,
    }
}
