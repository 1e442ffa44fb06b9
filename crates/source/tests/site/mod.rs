//! Websites of linked pages, and crawls of them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::support::web_job;
use crate::web::{Reply, Server};
use rag_protocol::ingest::Job;
use rag_source::{Listing, SourceReader};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// A site whose pages are its paths, with their HTML.
pub fn site(pages: &[(&str, &str)]) -> Server {
    let pages: BTreeMap<String, String> = pages
        .iter()
        .map(|(path, html)| (path.to_string(), html.to_string()))
        .collect();
    Server::start(
        move |request| match (pages.get(&request.target), request.target.as_str()) {
            (Some(text), "/robots.txt") => Reply::ok("text/plain", text),
            (Some(text), path) if path.ends_with(".xml") => Reply::ok("application/xml", text),
            (Some(html), _) => Reply::html(html),
            (None, _) => Reply::not_found(),
        },
    )
}

pub fn link(to: &str) -> String {
    format!("<p><a href='{to}'>{to}</a></p>")
}

pub struct Crawled {
    pub listing: Listing,
    pub source: Box<dyn SourceReader>,
    pub origin: String,
    _folder: TempDir,
}

impl Crawled {
    pub fn new(
        listing: Listing,
        source: Box<dyn SourceReader>,
        origin: String,
        folder: TempDir,
    ) -> Self {
        Self {
            listing,
            source,
            origin,
            _folder: folder,
        }
    }

    /// The paths of the documents.
    pub fn paths(&self) -> Vec<&str> {
        self.listing
            .items
            .iter()
            .map(|item| item.uri.strip_prefix(&self.origin).unwrap())
            .collect()
    }

    pub fn failures(&self) -> Vec<(&str, &str)> {
        let failures = self.listing.failures.iter();
        failures
            .map(|f| {
                (
                    f.uri.strip_prefix(&self.origin).unwrap(),
                    f.message.as_str(),
                )
            })
            .collect()
    }
}

pub fn job(server: &Server, mut spec: Value, folder: &TempDir) -> Job {
    let fields = spec.as_object_mut().unwrap();
    let start = fields
        .get("url")
        .and_then(Value::as_str)
        .unwrap_or("/")
        .to_owned();
    fields.insert("url".into(), server.url(&start).into());
    fields.entry("delay").or_insert(json!(0));
    web_job("website", &spec, folder.path())
}

pub fn crawl(server: &Server, spec: Value) -> Crawled {
    let folder = tempdir().unwrap();
    let mut source = rag_source::open(&job(server, spec, &folder)).unwrap();
    let listing = source.list().unwrap();
    Crawled {
        listing,
        source,
        origin: server.origin.clone(),
        _folder: folder,
    }
}

pub fn refused(server: &Server) -> String {
    let folder = tempdir().unwrap();
    rag_source::open(&job(server, json!({}), &folder))
        .unwrap()
        .list()
        .unwrap_err()
        .message
}
