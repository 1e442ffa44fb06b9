//! Requests through the network guard.
#![allow(clippy::unwrap_used)]

use rag_protocol::ingest::Network;
use rag_source::http::{HttpClient, HttpError, HttpRequest, HttpResponse};
use url::Url;

use crate::web::{Reply, Server};

pub fn client(allowed: &[&str]) -> HttpClient {
    HttpClient::new(&network(allowed), None).unwrap()
}

pub fn network(allowed: &[&str]) -> Network {
    Network {
        allowed_private_hosts: allowed.iter().map(ToString::to_string).collect(),
        proxy: None,
        silence_seconds: None,
    }
}

pub fn get(client: &HttpClient, url: &str) -> Result<HttpResponse, HttpError> {
    client.send(&HttpRequest::get(Url::parse(url).unwrap()))
}

pub fn refusal(client: &HttpClient, url: &str) -> String {
    match get(client, url) {
        Err(HttpError::Refused(refusal)) => refusal.to_string(),
        other => panic!("{url}: {other:?}"),
    }
}

pub fn hello() -> Server {
    Server::start(|_| Reply::ok("text/plain", "hello"))
}
