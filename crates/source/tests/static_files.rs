//! Lists of files from a real server on loopback, with and without errors.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::support;
use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use crate::support::web_job;
use crate::web::{HttpRequest, Reply, Server, Then};
use flate2::{Compression, write::GzEncoder};
use rag_protocol::ingest::{Credentials, Failure, Job, KnownVersion};
use rag_source::{FetchOutcome, FetchedContent, SourceItem, SourceReader};
use serde_json::{Value, json};
use tempfile::tempdir;

fn job(endpoints: &[String]) -> Job {
    web_job(
        "static",
        &json!({ "endpoints": endpoints }),
        std::path::Path::new("unused"),
    )
}

fn open(job: &Job) -> (Box<dyn SourceReader>, Vec<SourceItem>) {
    let mut source = rag_source::open(job).unwrap();
    let listing = source.list().unwrap();
    assert!(listing.complete && listing.failures.is_empty());
    (source, listing.items)
}

/// What becomes of the one endpoint of a server.
fn fetch(server: &Server, known: Option<&KnownVersion>) -> Result<FetchOutcome, Failure> {
    let (mut source, items) = open(&job(&[server.url("/docs/guide.md")]));
    source.fetch(&items[0], known)
}

fn content(server: &Server) -> FetchedContent {
    match fetch(server, None) {
        Ok(FetchOutcome::Content(content)) => content,
        other => panic!("{other:?}"),
    }
}

fn message(server: &Server) -> String {
    fetch(server, None).unwrap_err().message
}

/// Answers the first requests with `bad` and the others well.
fn recovers(times: usize, bad: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) < times {
            bad()
        } else {
            Reply::ok("text/plain", "well")
        }
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn endpoints_are_listed_as_they_were_written() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("a b.md");
    std::fs::write(&file, "# On the server").unwrap();
    let endpoints = [
        "HTTP://127.0.0.1:1/docs/Key%20rotation.md?x=1#top".to_owned(),
        file.to_str().unwrap().into(),
        "https://public.example".into(),
    ];
    let (mut source, items) = open(&job(&endpoints));
    let listed: Vec<_> = items
        .iter()
        .map(|item| (item.uri.as_str(), item.name.as_str()))
        .collect();
    let uri = url::Url::from_file_path(&file).unwrap();
    assert_eq!(
        listed,
        [
            (endpoints[0].as_str(), "Key rotation.md"),
            (uri.as_str(), "a b.md"),
            ("https://public.example", "index")
        ]
    );
    assert_eq!(
        support::bytes(source.as_mut(), &items[1]).unwrap(),
        b"# On the server"
    );
}

#[test]
fn a_missing_file_is_one_failure() {
    let server = Server::start(|_| Reply::ok("text/plain", "well"));
    let job = job(&["/does/not/exist.md".into(), server.url("/a.txt")]);
    let mut source = rag_source::open(&job).unwrap();
    let listing = source.list().unwrap();
    assert_eq!(
        listing.failures[0].message,
        "\"/does/not/exist.md\" does not exist"
    );
    assert!(
        listing.complete,
        "a failure keeps its document, and nothing else is in doubt"
    );
    assert_eq!(
        support::bytes(source.as_mut(), &listing.items[0]).unwrap(),
        b"well"
    );
}

#[test]
fn a_file_has_its_media_type_and_final_url() {
    let server = Server::start(|request| match request.target.as_str() {
        "/docs/guide.md" => Reply::redirect("/moved/guide.md"),
        "/moved/guide.md" => Reply::new(
            "200 OK",
            &[
                ("Content-Type", "text/markdown; charset=latin1"),
                ("Last-Modified", "Tue, 03 Mar 2026 10:00:00 GMT"),
            ],
            "# Guide",
        ),
        _ => Reply::not_found(),
    });
    let got = content(&server);
    assert_eq!(
        (got.bytes.as_slice(), got.media_type.as_deref()),
        (&b"# Guide"[..], Some("text/markdown; charset=latin1"))
    );
    let expected = json!({"final_url": server.url("/moved/guide.md"), "last_modified": "Tue, 03 Mar 2026 10:00:00 GMT"});
    assert_eq!(Value::from(got.metadata), expected);
    let agent = server.requests()[0]
        .header("user-agent")
        .map(String::from)
        .unwrap();
    assert!(agent.starts_with("rag/"), "{agent}");
}

#[test]
fn an_unchanged_file_is_not_transferred_again() {
    let server = Server::start(|request: &HttpRequest| {
        if request.header("if-none-match") == Some("\"v1\"") {
            assert_eq!(
                request.header("if-modified-since"),
                Some("Tue, 03 Mar 2026 10:00:00 GMT")
            );
            return Reply::new("304 Not Modified", &[("ETag", "\"v1\"")], "");
        }
        Reply::new(
            "200 OK",
            &[
                ("ETag", "\"v1\""),
                ("Last-Modified", "Tue, 03 Mar 2026 10:00:00 GMT"),
            ],
            "one",
        )
    });
    let known = KnownVersion {
        raw_hash: "unused".into(),
        validator: content(&server).validator,
    };
    assert_eq!(
        known.validator.as_deref(),
        Some(r#"{"etag":"\"v1\"","lastModified":"Tue, 03 Mar 2026 10:00:00 GMT"}"#)
    );
    assert_eq!(
        fetch(&server, Some(&known)).unwrap(),
        FetchOutcome::Unchanged {
            validator: known.validator.clone()
        }
    );
    for validator in [
        None,
        Some("{}".to_owned()),
        Some("12 34".to_owned()),
        Some(r#"{"etag":"\"v0\""}"#.to_owned()),
    ] {
        let known = KnownVersion {
            raw_hash: "unused".into(),
            validator,
        };
        assert!(
            matches!(fetch(&server, Some(&known)), Ok(FetchOutcome::Content(_))),
            "{known:?}"
        );
    }
}

#[test]
fn a_file_that_changed_in_this_second_has_no_validator() {
    let server = Server::start(|_| {
        let now = httpdate::fmt_http_date(SystemTime::now());
        Reply::new("200 OK", &[("Date", &now), ("Last-Modified", &now)], "one")
    });
    assert_eq!(content(&server).validator, None);
}

#[test]
fn a_304_without_conditions_is_a_failure() {
    let server = Server::start(|_| Reply::new("304 Not Modified", &[], ""));
    assert_eq!(message(&server), "the server answered 304 Not Modified");
}

#[test]
fn failures_have_the_status_of_the_response() {
    for (status, hint) in [
        (
            "404 Not Found",
            Some("Its document is kept until the endpoint is removed from the source."),
        ),
        (
            "410 Gone",
            Some("Its document is kept until the endpoint is removed from the source."),
        ),
        (
            "403 Forbidden",
            Some("If it is not public, create a secret and name it in the source's credentials."),
        ),
        ("204 No Content", None),
    ] {
        let server = Server::start(move |_| Reply::new(status, &[], ""));
        let failure = fetch(&server, None).unwrap_err();
        assert_eq!(
            (failure.message, failure.hint.as_deref()),
            (format!("the server answered {status}"), hint)
        );
        assert_eq!(server.requests().len(), 1, "asking again would not help");
    }
}

#[test]
fn temporary_errors_are_retried() {
    for bad in [
        || Reply::new("429 Too Many Requests", &[("Retry-After", "1")], ""),
        || {
            Reply::new(
                "503 Service Unavailable",
                &[("Retry-After", &httpdate::fmt_http_date(SystemTime::now()))],
                "",
            )
        },
        || Reply::new("500 Internal Server Error", &[], ""),
        || Reply::ok("text/plain", "well").cut(1).then(Then::Reset),
        || Reply::ok("text/plain", "").cut(4).then(Then::Close),
        || {
            Reply::new("200 OK", &[("Content-Encoding", "gzip")], gzip(b"well"))
                .cut(9)
                .then(Then::Close)
        },
    ] {
        let server = recovers(1, bad);
        assert_eq!(content(&server).bytes, b"well");
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn retry_after_is_obeyed() {
    let server = recovers(1, || {
        Reply::new("429 Too Many Requests", &[("Retry-After", "2")], "")
    });
    let started = std::time::Instant::now();
    assert_eq!(content(&server).bytes, b"well");
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[test]
fn three_attempts_or_a_too_long_wait_end_in_a_failure() {
    let server = recovers(9, || Reply::new("500 Internal Server Error", &[], ""));
    assert_eq!(
        message(&server),
        "the server answered 500 Internal Server Error"
    );
    assert_eq!(server.requests().len(), 3);
    let server = recovers(9, || {
        Reply::new("503 Service Unavailable", &[("Retry-After", "3600")], "")
    });
    assert_eq!(
        message(&server),
        "the server answered 503 Service Unavailable and asks to wait 3600 s"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn compressed_files_are_decompressed() {
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let server = Server::start(move |request| {
            assert_eq!(request.header("accept-encoding"), Some("gzip"));
            Reply::new(
                "200 OK",
                &[("Content-Encoding", encoding)],
                gzip(b"unpacked"),
            )
        });
        assert_eq!(content(&server).bytes, b"unpacked");
    }
}

#[test]
fn corrupted_compression_and_unknown_encodings_are_failures() {
    let whole = gzip(&[7; 500].map(|x: u8| x));
    for (encoding, body, expected) in [
        (
            "gzip",
            whole[..whole.len() - 9].to_vec(),
            "the compressed response is corrupted: it is truncated",
        ),
        (
            "gzip",
            b"no gzip at all".to_vec(),
            "the compressed response is corrupted: invalid gzip header",
        ),
        (
            "br",
            b"x".to_vec(),
            "the server sent the encoding \"br\", which was not requested",
        ),
        (
            "gzip, gzip",
            gzip(&whole),
            "the server sent the encoding \"gzip, gzip\", which was not requested",
        ),
    ] {
        let server =
            Server::start(move |_| Reply::new("200 OK", &[("Content-Encoding", encoding)], &body));
        assert_eq!(message(&server), expected);
    }
}

#[test]
fn a_bomb_is_stopped_at_the_limit() {
    let bomb = gzip(&vec![0; 50 << 20]);
    let server =
        Server::start(move |_| Reply::new("200 OK", &[("Content-Encoding", "gzip")], &bomb));
    let failure = fetch(&server, None).unwrap_err();
    assert_eq!(
        failure.message,
        "the response exceeds the limit of 1000 bytes"
    );
    assert!(failure.hint.unwrap().contains("rag.max_file_size"));
}

#[test]
fn sizes_are_limited_plain_chunked_and_to_the_byte() {
    let serve = |reply: fn() -> Reply| Server::start(move |_| reply());
    assert_eq!(
        content(&serve(|| Reply::ok("text/plain", [b'x'; 1000])))
            .bytes
            .len(),
        1000
    );
    let too_large = "the response exceeds the limit of 1000 bytes";
    assert_eq!(
        message(&serve(|| Reply::ok("text/plain", [b'x'; 1001]))),
        too_large
    );
    let endless = || {
        let mut reply = String::new();
        (0..100).for_each(|_| reply += &format!("40\r\n{}\r\n", "x".repeat(64)));
        Reply::new(
            "200 OK",
            &[("Content-Length-Not", ""), ("Transfer-Encoding", "chunked")],
            reply,
        )
        .then(Then::Silence)
    };
    assert_eq!(message(&serve(endless)), too_large);
}

#[test]
fn wrong_lengths_and_broken_answers_are_failures() {
    for (reply, expected) in [
        (
            Reply::new("200 OK", &[("Content-Length", "500")], "short").then(Then::Close),
            "before the response was complete",
        ),
        (
            Reply::ok("text/plain", "reset").cut(2).then(Then::Reset),
            "lost the connection to 127.0.0.1",
        ),
        (
            Reply::new("200 OK", &[("Content-Length", "-1")], "").then(Then::Close),
            "sent an invalid HTTP response",
        ),
        (
            Reply::ok("", "")
                .status("200")
                .status("SSH-2.0-OpenSSH_9.2")
                .then(Then::Close),
            "sent an invalid HTTP response",
        ),
    ] {
        let server = Server::start(move |_| reply.clone());
        let message = message(&server);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_redirect_loop_is_a_failure() {
    let server = Server::start(|request| Reply::redirect(&request.target));
    assert_eq!(message(&server), "the server redirects more than 8 times");
}

#[test]
fn one_failing_endpoint_does_not_affect_the_others() {
    let server = Server::start(|request| match request.target.as_str() {
        "/bad" => Reply::ok("text/plain", "x")
            .cut(1)
            .then(Then::Reset)
            .status("404 Not Found"),
        _ => Reply::ok("text/plain", "well"),
    });
    let (mut source, items) = open(&job(&[
        "http://10.0.0.1/".into(),
        server.url("/bad"),
        server.url("/good"),
    ]));
    let fetched: Vec<_> = items
        .iter()
        .map(|item| support::bytes(source.as_mut(), item))
        .collect();
    assert_eq!(
        fetched[0].as_ref().unwrap_err().message,
        "connections to 10.0.0.1 are not allowed: it is a private address"
    );
    assert_eq!(
        fetched[1].as_ref().unwrap_err().message,
        "the server answered 404 Not Found"
    );
    assert_eq!(fetched[2].as_ref().unwrap(), b"well");
}

#[test]
fn a_markdown_source_may_be_on_the_web() {
    let server = Server::start(|_| Reply::ok("text/markdown", "# Guide"));
    let job = web_job(
        "markdown",
        &json!({"uri": server.url("/guide.md")}),
        std::path::Path::new("unused"),
    );
    let (mut source, items) = open(&job);
    assert_eq!(items[0].uri, server.url("/guide.md"));
    assert_eq!(
        support::bytes(source.as_mut(), &items[0]).unwrap(),
        b"# Guide"
    );
}

#[test]
fn credentials_are_for_one_server() {
    let server = Server::start(|_| Reply::ok("text/plain", ""));
    let credentials = Some(Credentials {
        username: None,
        secret: "t".into(),
        ..Credentials::default()
    });
    let endpoints = [server.url("/a"), server.url("/b")];
    let (mut source, items) = open(&Job {
        credentials: credentials.clone(),
        ..job(&endpoints)
    });
    support::bytes(source.as_mut(), &items[1]).unwrap();
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer t")
    );
    let endpoints = [server.url("/a"), "https://public.example/b".into()];
    let error = rag_source::open(&Job {
        credentials,
        ..job(&endpoints)
    })
    .err()
    .unwrap();
    assert_eq!(
        error.message,
        "credentials are for one server, but the endpoints are on several servers"
    );
}
