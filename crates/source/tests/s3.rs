//! Buckets of a server that speaks the protocol of S3.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::path::Path;

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Failure, Job, KnownVersion},
};
use rag_source::{FetchOutcome, FetchedContent, Listing};
use serde_json::{Value, json};

use crate::{
    bucket::{BUCKET, Bucket, KEY_ID, REGION, SECRET_KEY, refused},
    support::web_job,
    web::Reply,
};

pub fn job(bucket: &Bucket, more: &Value) -> Job {
    let mut spec = json!({
        "bucket": BUCKET, "region": REGION, "endpoint": bucket.server.origin,
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let mut job = web_job("s3", &spec, Path::new("unused"));
    job.credentials = Some(Credentials {
        username: Some(KEY_ID.into()),
        secret: SECRET_KEY.into(),
        passphrase: None,
    });
    job
}

fn list(job: &Job) -> Result<Listing, EngineError> {
    rag_source::open(job)?.list()
}

fn uris(job: &Job) -> Vec<String> {
    let listing = list(job).unwrap();
    assert!(listing.complete && listing.failures.is_empty());
    listing.items.into_iter().map(|item| item.uri).collect()
}

/// Fetches all objects, the first one first.
fn fetch(job: &Job) -> Vec<Result<FetchedContent, Failure>> {
    let mut source = rag_source::open(job).unwrap();
    let items = source.list().unwrap().items;
    let fetched = items.iter().map(|item| match source.fetch(item, None)? {
        FetchOutcome::Content(content) => Ok(content),
        other => panic!("{other:?}"),
    });
    fetched.collect()
}

fn failure(job: &Job) -> Failure {
    fetch(job).remove(0).unwrap_err()
}

fn public(bucket: &Bucket) -> Job {
    let mut job = job(bucket, &json!({}));
    job.credentials = None;
    job
}

#[test]
fn objects_are_listed_page_by_page_and_fetched() {
    let bucket = Bucket::start();
    for i in 0..25 {
        bucket.put(&format!("guides/{i:02}.md"), &format!("# Guide {i}"));
    }
    bucket.state().page = 10;
    let job = job(&bucket, &json!({}));
    let uris = uris(&job);
    assert_eq!(uris.len(), 25);
    assert_eq!(uris[24], "s3://shelf/guides/24.md");
    assert_eq!(bucket.server.requests().len(), 3);
    let fetched = fetch(&job);
    let content = fetched[24].as_ref().unwrap();
    assert_eq!(content.bytes, b"# Guide 24");
    let expected = json!({
        "path": "guides/24.md", "version_id": "v0",
        "last_modified": "Thu, 01 Jan 2026 00:00:00 GMT",
    });
    assert_eq!(Value::Object(content.metadata.clone()), expected);
    // by its name, since many tools write the same type for all objects
    assert_eq!(content.media_type, None);
}

#[test]
fn keys_of_all_characters_are_fetched() {
    let keys = [
        "a b+c&d=e.md",
        "100%25.md",
        "what?#1.md",
        "a//b.md",
        "/leading.md",
        "line\nbreak\ttab\u{1}.md",
        "Größe/日本語 (1)'*!.md",
        "back\\slash.md",
        "~tilde_-.md",
        "key=value/a::b@c,$;[x]!.md",
        "\u{1F602}.md",
    ];
    let bucket = Bucket::start();
    for key in keys {
        bucket.put(key, key);
    }
    let longest = format!("{}.md", "x".repeat(1021));
    bucket.put(&longest, "long");
    for job in [
        job(&bucket, &json!({})),
        job(&bucket, &json!({"versions": "all"})),
    ] {
        let mut fetched: Vec<_> = fetch(&job)
            .into_iter()
            .map(|it| it.unwrap().bytes)
            .collect();
        fetched.sort();
        let mut expected: Vec<_> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        expected.push(b"long".to_vec());
        expected.sort();
        assert_eq!(fetched, expected);
    }
    let uris = uris(&job(&bucket, &json!({})));
    for uri in [
        "s3://shelf//leading.md",
        "s3://shelf/a%20b+c&d=e.md",
        "s3://shelf/line%0Abreak%09tab%01.md",
        "s3://shelf/100%2525.md",
    ] {
        assert!(uris.iter().any(|listed| listed == uri), "{uri}: {uris:?}");
    }
}

#[test]
fn a_key_that_no_url_has_is_one_failure() {
    let bucket = Bucket::of(&[
        ("../../etc/passwd.md", "x"),
        ("a/./b.md", "x"),
        ("c.md", "well"),
    ]);
    let fetched = fetch(&job(&bucket, &json!({})));
    let failure = fetched[0].as_ref().unwrap_err();
    assert_eq!(failure.uri, "s3://shelf/../../etc/passwd.md");
    assert_eq!(
        failure.message,
        "the key has a part \".\" or \"..\", which URLs cannot have"
    );
    assert!(fetched[1].is_err());
    assert_eq!(fetched[2].as_ref().unwrap().bytes, b"well");
}

#[test]
fn prefix_and_patterns_select_as_in_folders() {
    let bucket = Bucket::of(&[
        ("docs/", ""),
        ("docs/a.md", "a"),
        ("docs/guides/b.md", "b"),
        ("docs/guides/drafts/c.md", "c"),
        ("docs/.git/d.md", "d"),
        ("docs/.hidden.md", "e"),
        ("docs/server.pem", "f"),
        ("other/g.md", "g"),
    ]);
    let uris_of = |more: &Value| uris(&job(&bucket, more)).join(" ");
    let all = "s3://shelf/docs/a.md s3://shelf/docs/guides/b.md s3://shelf/docs/guides/drafts/c.md";
    assert_eq!(uris_of(&json!({"prefix": "docs/"})), all);
    assert_eq!(uris_of(&json!({})), format!("{all} s3://shelf/other/g.md"));
    let spec = json!({"prefix": "docs/", "paths": ["/guides"], "excludePaths": ["drafts/"]});
    assert_eq!(uris_of(&spec), "s3://shelf/docs/guides/b.md");
    assert_eq!(
        uris_of(&json!({"prefix": "docs/gui", "excludePaths": ["c.md"]})),
        "s3://shelf/docs/guides/b.md"
    );
    assert_eq!(
        uris_of(&json!({"paths": [".git/"]})),
        "s3://shelf/docs/.git/d.md"
    );
    assert_eq!(list(&job(&bucket, &json!({}))).unwrap().skipped.keys, 1);
}

#[test]
fn an_object_is_known_by_its_etag() {
    let bucket = Bucket::of(&[("a.md", "one"), ("b.md", "same"), ("c.md", "same")]);
    let job = job(&bucket, &json!({}));
    let validators = || {
        let items = list(&job).unwrap().items;
        items
            .into_iter()
            .map(|item| item.validator.unwrap())
            .collect::<Vec<_>>()
    };
    let before = validators();
    assert_eq!(before[1], before[2]);
    assert_eq!(before, validators());
    bucket.put("a.md", "two");
    let after = validators();
    assert!(after[0] != before[0] && after[1] == before[1]);
    // what is stored is what the next listing is compared with
    let stored: Vec<_> = fetch(&job)
        .into_iter()
        .map(|it| it.unwrap().validator.unwrap())
        .collect();
    assert_eq!(stored, after);
    bucket.state().has_etags = false;
    assert_eq!(list(&job).unwrap().items[0].validator, None);
}

#[test]
fn each_version_can_be_a_document() {
    let bucket = Bucket::of(&[("a.md", "one"), ("a.md", "two"), ("b.md", "three")]);
    bucket.state().page = 2;
    let job = job(&bucket, &json!({"versions": "all"}));
    let expected = [
        "s3://shelf/a.md?versionId=v0",
        "s3://shelf/a.md?versionId=v1",
        "s3://shelf/b.md?versionId=v0",
    ];
    assert_eq!(uris(&job), expected);
    let texts: Vec<_> = fetch(&job)
        .into_iter()
        .map(|it| it.unwrap().bytes)
        .collect();
    assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
}

#[test]
fn a_public_bucket_needs_no_credentials() {
    let bucket = Bucket::of(&[("a.md", "open")]);
    let error = list(&public(&bucket)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(
        error.message,
        "could not list bucket \"shelf\": it is not public"
    );
    bucket.state().is_public = true;
    assert_eq!(fetch(&public(&bucket))[0].as_ref().unwrap().bytes, b"open");
    let requests = bucket.server.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}

#[test]
fn errors_of_the_bucket_say_what_to_do() {
    let bucket = Bucket::of(&[("a.md", "text")]);
    let right = || job(&bucket, &json!({}));
    let mut cases: Vec<(Job, &str, &str)> = vec![
        (
            job(&bucket, &json!({"region": "us-east-1"})),
            "the bucket is in the region eu-central-1, not in us-east-1",
            "Set \"region\" to \"eu-central-1\".",
        ),
        (
            job(&bucket, &json!({"bucket": "other"})),
            "there is no bucket \"other\"",
            "Check \"bucket\" and \"endpoint\".",
        ),
    ];
    let with = |username: Option<&str>, secret: &str| {
        let mut job = right();
        job.credentials = Some(Credentials {
            username: username.map(Into::into),
            secret: secret.into(),
            passphrase: None,
        });
        job
    };
    cases.push((
        with(Some("AKIDOTHER"), SECRET_KEY),
        "the access key id does not exist there",
        "Check the value \"username\" of the secret, and \"endpoint\".",
    ));
    cases.push((
        with(Some(KEY_ID), "wrong"),
        "the signature is refused",
        "Check the value \"password\" of the secret",
    ));
    for (job, message, hint) in cases {
        let error = list(&job).unwrap_err();
        let name = match &job.source {
            rag_definition::source::SourceSpec::S3(spec) => &spec.bucket,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            error.message,
            format!("could not list bucket \"{name}\": {message}")
        );
        assert!(error.hint.as_ref().unwrap().starts_with(hint), "{error:?}");
        assert!(error.detail.unwrap().starts_with("The server answered 4"));
    }
    let error = list(&with(None, SECRET_KEY)).unwrap_err();
    assert_eq!(error.message, "the secret has no access key id");
    bucket.state().clock = std::time::Duration::from_secs(3600);
    let error = list(&right()).unwrap_err();
    let message =
        "could not list bucket \"shelf\": the clocks of this server and of the storage differ by 3";
    assert!(error.message.starts_with(message), "{}", error.message);
    assert_eq!(
        error.hint.unwrap(),
        "Synchronize the clock of the database server."
    );
}

#[test]
fn an_endpoint_that_is_no_storage_is_told() {
    for (reply, message, detail) in [
        (
            Reply::html("<html><title>Console</title></html>"),
            "the answer is not a list of objects",
            "It is \"html\".",
        ),
        (
            Reply::not_found(),
            "the server does not answer as S3 does",
            "The server answered 404 Not Found.",
        ),
    ] {
        let bucket = Bucket::start();
        bucket.state().faults = vec![reply];
        let error = list(&job(&bucket, &json!({}))).unwrap_err();
        assert_eq!(
            error.message,
            format!("could not list bucket \"shelf\": {message}")
        );
        assert_eq!(error.detail.unwrap().to_lowercase(), detail.to_lowercase());
        assert!(error.hint.unwrap().contains("\"endpoint\""));
    }
}

#[test]
fn errors_of_one_object_are_its_own() {
    let bucket = Bucket::of(&[("a.md", "archived"), ("b.md", "well"), ("c.md", "removed")]);
    bucket.state().objects.get_mut("a.md").unwrap().is_archived = true;
    let job = job(&bucket, &json!({}));
    let mut source = rag_source::open(&job).unwrap();
    let items = source.list().unwrap().items;
    bucket.remove("c.md");
    let failure = source.fetch(&items[0], None).unwrap_err();
    assert_eq!(
        failure.message,
        "the object is archived (the server answered 403 Forbidden, InvalidObjectState)"
    );
    assert!(source.fetch(&items[1], None).is_ok());
    let failure = source.fetch(&items[2], None).unwrap_err();
    assert!(
        failure
            .message
            .starts_with("it was removed after it was listed")
    );
}

#[test]
fn a_document_keeps_its_version_if_only_the_key_is_known() {
    // a known version is not asked about: the listing has told its ETag
    let bucket = Bucket::of(&[("a.md", "text")]);
    let job = job(&bucket, &json!({}));
    let mut source = rag_source::open(&job).unwrap();
    let item = source.list().unwrap().items.remove(0);
    let known = KnownVersion {
        raw_hash: "x".into(),
        validator: Some("other".into()),
    };
    assert!(matches!(
        source.fetch(&item, Some(&known)),
        Ok(FetchOutcome::Content(_))
    ));
}

#[test]
fn encodings_of_uploads_are_no_errors() {
    let bucket = Bucket::of(&[("a.md", "text")]);
    for encoding in ["aws-chunked", "utf-8", "", "identity, aws-chunked"] {
        let headers = vec![("Content-Encoding".into(), encoding.into())];
        bucket.state().objects.get_mut("a.md").unwrap().headers = headers;
        assert_eq!(
            fetch(&job(&bucket, &json!({})))[0].as_ref().unwrap().bytes,
            b"text"
        );
    }
    let headers = vec![("Content-Encoding".into(), "br".into())];
    bucket.state().objects.get_mut("a.md").unwrap().headers = headers;
    let failure = failure(&job(&bucket, &json!({})));
    assert_eq!(
        failure.message,
        "the server sent the encoding \"br\", which was not requested"
    );
}

#[test]
fn a_limit_on_requests_is_waited_for_and_then_told() {
    let bucket = Bucket::of(&[("a.md", "text")]);
    let slow = || refused("503 Slow Down", "SlowDown", "");
    bucket.state().faults = vec![slow(), slow()];
    assert_eq!(uris(&job(&bucket, &json!({}))).len(), 1);
    bucket.state().faults = vec![slow(), slow(), slow()];
    assert_eq!(
        list(&job(&bucket, &json!({}))).unwrap_err().kind,
        ErrorKind::Throttled
    );
    let internal = || refused("500 Internal Server Error", "InternalError", "");
    bucket.state().faults = vec![internal(), internal()];
    assert_eq!(uris(&job(&bucket, &json!({}))).len(), 1);
}
