//! Servers that speak the protocol of S3 badly, on purpose or not.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rag_protocol::{EngineError, ErrorKind, ingest::Failure};
use serde_json::json;

use crate::{
    bucket::{Bucket, list},
    s3::job,
    web::{HttpRequest, Reply, Then},
};

/// A bucket whose lists are `answer`, and whose object `a.md` is `object`.
fn bucket(
    answer: impl Fn(&HttpRequest) -> Reply + Send + Sync + 'static,
    object: impl Fn() -> Reply + Send + Sync + 'static,
) -> Bucket {
    let bucket = Bucket::start();
    bucket.state().answer = Some(Arc::new(move |request: &HttpRequest| {
        let is_list = request.target.contains('?');
        Some(if is_list { answer(request) } else { object() })
    }));
    bucket
}

fn lists(answer: impl Fn(&HttpRequest) -> Reply + Send + Sync + 'static) -> EngineError {
    let bucket = bucket(answer, Reply::not_found);
    let error = rag_source::open(&job(&bucket, &json!({"prefix": "docs/"})));
    error.unwrap().list().unwrap_err()
}

/// A page with the next numbers as keys, and another page after it.
fn page(number: usize, keys: usize) -> Reply {
    let keys = (0..keys)
        .map(|key| format!("<Contents><Key>docs/{number}-{key}.md</Key><Size>1</Size></Contents>"));
    let keys: String = keys.collect();
    let token = format!("<NextContinuationToken>{number}</NextContinuationToken>");
    list(
        "ListBucketResult",
        &format!("<IsTruncated>true</IsTruncated>{token}{keys}"),
    )
}

#[test]
fn a_list_without_end_is_an_error() {
    let endless = "could not list bucket \"shelf\": the pages of the list have no end";
    let error = lists(|_| page(7, 3));
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::InvalidAnswer, endless)
    );
    let asked = AtomicUsize::new(0);
    let error = lists(move |_| page(asked.fetch_add(1, Ordering::Relaxed), 0));
    assert_eq!(error.message, endless);
    // a token without end is as bad
    let error = lists(|_| {
        let token = "t".repeat(1 << 20);
        let token = format!("<NextContinuationToken>{token}</NextContinuationToken>");
        list(
            "ListBucketResult",
            &format!("<IsTruncated>true</IsTruncated>{token}"),
        )
    });
    assert_eq!(
        error.detail.unwrap(),
        "The token for the next page is too long."
    );
}

#[test]
fn the_keys_of_a_list_are_limited() {
    let asked = AtomicUsize::new(0);
    let error = lists(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let long = format!("docs/{number}{}", "&lt;".repeat(250_000));
        let keys = format!("<Contents><Key>{long}</Key><Size>1</Size></Contents>").repeat(8);
        let token = format!("<NextContinuationToken>{number}</NextContinuationToken>");
        list(
            "ListBucketResult",
            &format!("<IsTruncated>true</IsTruncated>{token}{keys}"),
        )
    });
    let message = "could not list bucket \"shelf\": it has keys of more than 256 MB";
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::LimitExceeded, message)
    );
    assert!(error.hint.unwrap().contains("\"prefix\""));
}

#[test]
fn a_list_that_is_wrong_is_an_error() {
    let entries = |inside: &str| {
        let inside = inside.to_owned();
        lists(move |_| list("ListBucketResult", &inside))
            .detail
            .unwrap()
    };
    for (inside, detail) in [
        (
            "<Contents><Key>etc/a.md</Key></Contents>",
            "A key does not begin with \"docs/\".",
        ),
        (
            "<Contents><Size>1</Size></Contents>",
            "An object has no key.",
        ),
        (
            "<Contents><Key>docs/a</Key><Size>1e12</Size></Contents>",
            "\"1e12\" is not a size.",
        ),
        (
            "<IsTruncated>true</IsTruncated>",
            "It has no token for the next page.",
        ),
        (
            "<EncodingType>url</EncodingType><Contents><Key>%FF</Key></Contents>",
            "A key is not text in UTF-8.",
        ),
        (
            "<Contents><Key>&xxe;</Key></Contents>",
            "It has an entity of its own.",
        ),
    ] {
        assert_eq!(entries(inside), detail);
    }
    let bomb = flate2_bomb();
    let error = lists(move |_| Reply::new("200 OK", &[("Content-Encoding", "gzip")], &bomb));
    assert_eq!(error.detail.unwrap(), "It has more than 16 MB.");
}

/// 256 MB of blanks.
fn flate2_bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    for _ in 0..256 {
        encoder.write_all(&[b' '; 1 << 20]).unwrap();
    }
    encoder.finish().unwrap()
}

/// The failure of an object of the listed size.
fn fetches(size: &str, object: impl Fn() -> Reply + Send + Sync + 'static) -> (Failure, usize) {
    let entry = format!("<Contents><Key>a.md</Key><Size>{size}</Size></Contents>");
    let bucket = bucket(move |_| list("ListBucketResult", &entry), object);
    let mut job = job(&bucket, &json!({}));
    job.network.silence_seconds = Some(1);
    let mut source = rag_source::open(&job).unwrap();
    let item = source.list().unwrap().items.remove(0);
    let failure = source.fetch(&item, None).unwrap_err();
    (failure, bucket.server.requests().len() - 1)
}

#[test]
fn an_object_of_a_wrong_size_is_one_failure() {
    let (failure, requests) = fetches("1000000000000", || Reply::ok("", "x"));
    let message = "the file has 1000000000000 bytes, more than the limit of 1000 bytes";
    assert_eq!((failure.message.as_str(), requests), (message, 0));
    // it has grown since it was listed
    let (failure, _) = fetches("4", || Reply::ok("", "x".repeat(100_000)));
    assert_eq!(
        failure.message,
        "the response exceeds the limit of 1000 bytes"
    );
    let (failure, requests) = fetches("4", || {
        Reply::new("200 OK", &[("Content-Length", "1000000000000")], "text").then(Then::Close)
    });
    assert!(
        failure.message.starts_with("lost the connection"),
        "{}",
        failure.message
    );
    assert_eq!(requests, 3);
}

#[test]
fn an_object_that_does_not_come_is_one_failure() {
    let began = Instant::now();
    let (failure, _) = fetches("4", || Reply::ok("", "text").cut(2).then(Then::Silence));
    assert!(
        failure.message.contains("did not answer in time"),
        "{}",
        failure.message
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn no_redirect_is_followed() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://example.org/docs/?list-type=2",
    ] {
        let error = lists(move |_| Reply::redirect(location).status("307 Temporary Redirect"));
        let message =
            format!("could not list bucket \"shelf\": the server redirects to {location}");
        assert_eq!(error.message, message);
        let (failure, requests) = fetches("4", move || Reply::redirect(location));
        assert!(
            failure
                .message
                .starts_with(&format!("the server redirects to {location}"))
        );
        assert_eq!(requests, 1);
    }
}

#[test]
fn credentials_are_not_sent_unencrypted() {
    let bucket = Bucket::start();
    let mut job = job(&bucket, &json!({"endpoint": "http://storage.example"}));
    job.network.allowed_private_hosts.clear();
    let error = rag_source::open(&job).err().unwrap();
    assert_eq!(error.message, "credentials cannot be sent over http");
    job.credentials = None;
    assert!(rag_source::open(&job).is_ok());
}

#[test]
fn a_bucket_in_the_own_network_is_refused() {
    let bucket = Bucket::start();
    let mut job = job(&bucket, &json!({}));
    job.network.allowed_private_hosts.clear();
    job.credentials = None;
    let error = rag_source::open(&job).unwrap().list().unwrap_err();
    assert!(
        error
            .message
            .contains("connections to 127.0.0.1 are not allowed"),
        "{error}"
    );
    assert!(bucket.server.requests().is_empty());
}
