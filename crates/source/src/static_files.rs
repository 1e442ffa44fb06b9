//! A list of single files, on the web and on the server.
//!
//! What the server said of a version (ETag, Last-Modified) is stored with the document and shown to
//! it again, so that a file that has not changed is not sent again (304). Redirects are followed; a
//! document keeps the uri that the source gives it, and the metadata say where it was found.
//!
//! An endpoint that fails is one failure and the rest goes on. That holds for one that is gone
//! (404) as well: it is named by the user, so its disappearance is for the user to judge, and what
//! was indexed of it stays.

use std::path::Path;

use percent_encoding::percent_decode_str;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, Job, Known},
    spec::{Endpoint, Problem, server_of},
};
use reqwest::StatusCode;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    Content, Fetched, Item, Listing, Locator, Source, fetch_failure,
    fetcher::{self, Validator, Wish},
    http::Client,
    item_failure,
    markdown::Markdown,
};

pub struct StaticFiles {
    client: Client,
    endpoints: Vec<Endpoint>,
    most: u64,
}

impl StaticFiles {
    pub fn open(endpoints: &[Endpoint], job: &Job) -> Result<Self, EngineError> {
        let invalid = |problem: Problem| {
            let error = EngineError::new(ErrorKind::InvalidRequest, problem.problem);
            problem.hint.into_iter().fold(error, EngineError::hint)
        };
        let server = match &job.credentials {
            Some(_) => server_of(endpoints).map_err(invalid)?,
            None => None,
        };
        let credentials = job.credentials.as_ref().zip(server.as_ref());
        let client = Client::new(&job.network, credentials)?;
        Ok(Self {
            client,
            endpoints: endpoints.to_vec(),
            most: job.limits.max_file_bytes,
        })
    }

    fn fetch_web(&self, item: &Item, known: Option<&Known>) -> Result<Fetched, Failure> {
        let url =
            parse(&item.uri).map_err(|error| fetch_failure(&item.uri, error.message, None))?;
        let stored = known
            .and_then(|known| known.validator.as_deref())
            .and_then(Validator::parse);
        let wish = Wish {
            url: &url,
            known: stored.as_ref(),
            most: self.most,
            wants: &|_| true,
        };
        let got =
            fetcher::get(&self.client, &wish).map_err(|problem| problem.failure(&item.uri))?;
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
                Ok(Fetched::Content(Content {
                    bytes: got.bytes,
                    validator,
                    media_type,
                    metadata,
                }))
            }
            // what was asked for with conditions is the only thing that it can be the answer to
            StatusCode::NOT_MODIFIED if stored.is_some() => Ok(Fetched::Unchanged {
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

impl Source for StaticFiles {
    fn list(&mut self) -> Result<Listing, EngineError> {
        let mut listing = Listing {
            items: vec![],
            failures: vec![],
            complete: true,
            skipped: 0,
            commit: None,
        };
        for endpoint in &self.endpoints {
            match endpoint {
                Endpoint::Web(url) => listing.items.push(Item {
                    uri: url.clone(),
                    name: name(&parse(url)?),
                    size: 0,
                    validator: None,
                    locator: Locator::Web,
                }),
                Endpoint::File(path) => {
                    match Markdown::open(path, self.most).and_then(|mut file| file.list()) {
                        Ok(file) => {
                            listing
                                .items
                                .extend(file.items.into_iter().map(|item| Item {
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

    fn fetch(&mut self, item: &Item, known: Option<&Known>) -> Result<Fetched, Failure> {
        match &item.locator {
            Locator::Path(path) => {
                let failed = |error| item_failure(&item.uri, error);
                let mut file = Markdown::open(Path::new(path), self.most).map_err(failed)?;
                file.fetch(item, known)
            }
            _ => self.fetch_web(item, known),
        }
    }

    fn gives_media_types(&self) -> bool {
        true
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

/// What a resource is called: the last part of its path.
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
            Some("If it is not public, make a secret and name it in the source's credentials.")
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            Some("What was indexed of it stays until it is no longer an endpoint of the source.")
        }
        _ => None,
    }
}
