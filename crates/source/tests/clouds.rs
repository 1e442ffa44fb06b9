//! Containers of Azure and buckets of Google, of servers on loopback that refuse what these refuse.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::path::Path;

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use rag_protocol::{
    ErrorKind,
    ingest::{Credentials, Job},
};
use rag_source::FetchOutcome;
use ring::hmac;
use serde_json::json;

use crate::{
    support::web_job,
    web::{HttpRequest, Reply, Server},
};

const ACCOUNT: &str = "company";
const ACCOUNT_KEY: &[u8] = b"the key of the account";
const BLOBS: [(&str, &str); 3] = [
    ("guides/a b+c.md", "# One"),
    ("guides/\u{FFFE}&\n.md", "# Two"),
    ("other.md", "# Three"),
];

/// Returns true if a request has the signature of a key of the account: learn.microsoft.com,
/// "Authorize with Shared Key".
fn is_signed(request: &HttpRequest) -> bool {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let mut text = "GET\n\n\n\n\n\n".to_owned();
    text += request.header("date").unwrap_or_default();
    text += "\n\n\n\n\n\n";
    let mut headers: Vec<_> = request.headers.iter().collect();
    headers.retain(|(name, _)| name.starts_with("x-ms-"));
    headers.sort();
    for (name, value) in headers {
        text += &format!("{name}:{value}\n");
    }
    text += &format!("/{ACCOUNT}{path}");
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap();
        text += &format!(
            "\n{name}:{}",
            percent_decode_str(value).decode_utf8().unwrap()
        );
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, ACCOUNT_KEY);
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    request.header("authorization") == Some(&format!("SharedKey {ACCOUNT}:{signature}"))
}

fn azure(request: &HttpRequest) -> Reply {
    let refused = |status: &str, code: &str| {
        Reply::ok("", format!("\u{FEFF}<Error><Code>{code}</Code></Error>")).status(status)
    };
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let has_signature = query.contains("sig=c2ln%3D");
    if request.header("x-ms-version").is_none() {
        return refused("400 Bad Request", "MissingRequiredHeader");
    }
    if !has_signature && request.header("authorization").is_none() {
        return refused("404 Not Found", "ResourceNotFound");
    }
    if !has_signature && !is_signed(request) {
        return refused("403 Forbidden", "AuthenticationFailed");
    }
    let Some(key) = path.strip_prefix("/docs") else {
        return refused("404 Not Found", "ContainerNotFound");
    };
    if key.is_empty() {
        return list(query);
    }
    let key = percent_decode_str(&key[1..]).decode_utf8().unwrap();
    match BLOBS.iter().find(|(name, _)| *name == key) {
        Some((_, text)) => Reply::ok("application/octet-stream", text),
        None => refused("404 Not Found", "BlobNotFound"),
    }
}

/// One blob in a page.
fn list(query: &str) -> Reply {
    assert!(query.contains("restype=container") && query.contains("comp=list"));
    let marker = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("marker="));
    let number: usize = marker.map_or(0, |marker| marker.parse().unwrap());
    let (key, text) = BLOBS[number];
    let name = if key.contains('\u{FFFE}') {
        "<Name Encoded=\"true\">guides/%EF%BF%BE%26%0A.md</Name>".into()
    } else {
        format!("<Name>{key}</Name>")
    };
    let size = format!("<Content-Length>{}</Content-Length>", text.len());
    let blob = format!("<Blob>{name}<Properties>{size}<Etag>0x{number}</Etag></Properties></Blob>");
    let next = if number < 2 {
        (number + 1).to_string()
    } else {
        String::new()
    };
    Reply::ok(
        "application/xml",
        format!(
            "\u{FEFF}<?xml version=\"1.0\"?><EnumerationResults><Blobs>{blob}</Blobs>\
             <NextMarker>{next}</NextMarker></EnumerationResults>"
        ),
    )
}

fn azure_job(server: &Server, secret: Option<&str>) -> Job {
    let spec = json!({"account": ACCOUNT, "container": "docs", "endpoint": server.origin});
    let mut job = web_job("azblob", &spec, Path::new("unused"));
    job.credentials = secret.map(|secret| Credentials {
        username: None,
        secret: secret.into(),
        passphrase: None,
    });
    job
}

/// The texts of all objects, in the order of their uris.
fn texts(job: &Job) -> Vec<(String, String)> {
    let mut source = rag_source::open(job).unwrap();
    let items = source.list().unwrap().items;
    let texts = items.iter().map(|item| match source.fetch(item, None) {
        Ok(FetchOutcome::Content(content)) => {
            assert_eq!(content.validator, item.validator);
            assert_eq!(content.metadata["path"], item.name);
            (item.uri.clone(), String::from_utf8(content.bytes).unwrap())
        }
        other => panic!("{other:?}"),
    });
    texts.collect()
}

#[test]
fn blobs_are_fetched_with_a_key_of_the_account_and_with_a_signature() {
    let server = Server::start(azure);
    let key = BASE64_STANDARD.encode(ACCOUNT_KEY);
    let connection = format!("DefaultEndpointsProtocol=https;AccountKey={key};EndpointSuffix=x");
    for secret in [&*key, &connection, "sv=2023-11-03&sp=rl&sig=c2ln%3D"] {
        let texts = texts(&azure_job(&server, Some(secret)));
        let expected = [
            ("guides/%EF%BF%BE&%0A.md", "# Two"),
            ("guides/a%20b+c.md", "# One"),
            ("other.md", "# Three"),
        ];
        let expected =
            expected.map(|(key, text)| (format!("{}/docs/{key}", server.origin), text.to_owned()));
        assert_eq!(texts, expected);
    }
}

#[test]
fn refusals_of_azure_say_what_to_do() {
    let server = Server::start(azure);
    let error = |job: &Job| rag_source::open(job).unwrap().list().unwrap_err();
    let public = error(&azure_job(&server, None));
    assert_eq!(
        (public.kind, public.message.as_str()),
        (
            ErrorKind::Unauthorized,
            "could not list container \"docs\": it does not exist, or is not public"
        )
    );
    let wrong = error(&azure_job(&server, Some("d3Jvbmc=")));
    let message = "could not list container \"docs\": access is denied";
    assert_eq!(wrong.message, message);
    assert!(wrong.hint.unwrap().contains("Storage Blob Data Reader"));
}

/// A bucket with 2 objects in a page, whose keys are one part of the path.
fn google(request: &HttpRequest) -> Reply {
    let refused = |status: &str, reason: &str, message: &str| {
        let error = json!({"message": message, "errors": [{"reason": reason}]});
        Reply::ok("application/json", json!({"error": error}).to_string()).status(status)
    };
    let (path, query) = request.target.split_once('?').unwrap();
    let Some(key) = path.strip_prefix("/storage/v1/b/shelf/o") else {
        let message = "The specified bucket does not exist.";
        return refused("404 Not Found", "notFound", message);
    };
    if !key.is_empty() {
        assert!(
            query == "alt=media" && !key[1..].contains('/'),
            "{}",
            request.target
        );
        let key = percent_decode_str(&key[1..]).decode_utf8().unwrap();
        return match key.as_ref() {
            "gone.md" => refused("404 Not Found", "notFound", "No such object"),
            key => Reply::ok("text/plain", format!("# {key}")),
        };
    }
    let item = |key: &str| json!({"name": key, "size": "5", "generation": "17"});
    let page = if query.contains("pageToken=more%2B") {
        json!({"items": [item("a/../b.md")]})
    } else {
        json!({"items": [item("a//b c.md"), item("/x\n.md")], "nextPageToken": "more+"})
    };
    Reply::ok("application/json", page.to_string())
}

#[test]
fn objects_of_google_have_any_key() {
    let server = Server::start(google);
    let spec = |bucket: &str| json!({"bucket": bucket, "endpoint": server.origin});
    let found = texts(&web_job("gcs", &spec("shelf"), Path::new("unused")));
    let expected = [
        ("gs://shelf//x%0A.md", "# /x\n.md"),
        ("gs://shelf/a/../b.md", "# a/../b.md"),
        ("gs://shelf/a//b%20c.md", "# a//b c.md"),
    ];
    let expected = expected.map(|(uri, text)| (uri.to_owned(), text.to_owned()));
    assert_eq!(found, expected);
    let other = web_job("gcs", &spec("other"), Path::new("unused"));
    let error = rag_source::open(&other).unwrap().list().unwrap_err();
    assert_eq!(
        error.message,
        "could not list bucket \"other\": there is no bucket \"other\""
    );
}
