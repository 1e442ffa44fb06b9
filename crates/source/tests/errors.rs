//! Errors of the client for servers that answer wrongly or not at all.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use crate::web::{Reply, Server, Then};
use rag_protocol::ingest::Network;
use rag_source::http::{HttpClient, HttpError, HttpRequest};
use url::Url;

fn client(proxy: Option<String>) -> HttpClient {
    HttpClient::new(
        &Network {
            allowed_private_hosts: vec!["127.0.0.0/8".into()],
            proxy,
            silence_seconds: None,
        },
        None,
    )
    .unwrap()
}

fn error(client: &HttpClient, url: &str) -> HttpError {
    match client.send(&HttpRequest::get(Url::parse(url).unwrap())) {
        Ok(response) => response.bytes(1 << 20).unwrap_err(),
        Err(error) => error,
    }
}

/// Answers every connection with these bytes once it was asked, and closes it.
fn raw(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(bytes);
        }
    });
    url
}

#[test]
fn lost_connections_are_temporary_errors() {
    let reply = || Reply::ok("text/plain", "x".repeat(5000));
    let short = Server::start(move |_| reply().cut(1).then(Then::Close));
    let reset = Server::start(move |_| reply().cut(1).then(Then::Reset));
    let chunks = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    for url in [
        short.url("/"),
        chunks,
        raw(b""),
        raw(b"HTTP/1.1 200 OK\r\nContent-"),
    ] {
        let error = error(&client(None), &url);
        let HttpError::Broken { reason, .. } = &error else {
            panic!("{url}: {error:?}")
        };
        assert_eq!(
            reason, "it was closed before the response was complete",
            "{url}"
        );
        assert!(error.is_transient());
    }
    let error = error(&client(None), &reset.url("/"));
    assert!(matches!(error, HttpError::Broken { .. }), "{error:?}");
}

#[test]
fn a_server_that_does_not_speak_http_is_reported() {
    for bytes in [
        b"220 mail.example ESMTP\r\n".as_slice(),
        b"HTTP/1.1 200 OK\r\nA B: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nhello\r\n",
    ] {
        let error = error(&client(None), &raw(bytes));
        let text = String::from_utf8_lossy(bytes);
        assert!(
            matches!(error, HttpError::Protocol { .. }) && !error.is_transient(),
            "{text}: {error:?}"
        );
    }
}

#[test]
fn corrupted_compression_differs_from_a_lost_connection() {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(&b"0123456789".repeat(1000)).unwrap();
    let packed = packed.finish().unwrap();
    let gzip = [("Content-Encoding", "gzip")];
    let damaged = [&packed[..20], b"xxxx", &packed[24..]].concat();
    for body in [
        &packed[..packed.len() / 2],
        &damaged,
        b"plain text after all",
    ] {
        let body = body.to_vec();
        let server = Server::start(move |_| Reply::new("200 OK", &gzip, &body));
        let error = error(&client(None), &server.url("/"));
        assert!(matches!(error, HttpError::Compression(_)), "{error:?}");
    }
    let whole = packed.clone();
    let server = Server::start(move |_| Reply::new("200 OK", &gzip, &whole));
    let send = || {
        client(None)
            .send(&HttpRequest::get(Url::parse(&server.url("/")).unwrap()))
            .unwrap()
    };
    assert_eq!(send().bytes(10_000).unwrap().len(), 10_000);
    assert!(matches!(
        send().bytes(9_999).unwrap_err(),
        HttpError::TooLarge(9_999)
    ));
    let server = Server::start(move |_| {
        Reply::new("200 OK", &gzip, &packed)
            .cut(10)
            .then(Then::Close)
    });
    let cut = error(&client(None), &server.url("/"));
    assert!(matches!(cut, HttpError::Broken { .. }), "{cut:?}");
    let server = Server::start(|_| Reply::new("200 OK", &[("Content-Encoding", "br")], "x"));
    let other = error(&client(None), &server.url("/"));
    assert!(
        matches!(&other, HttpError::Encoding(name) if name == "br"),
        "{other:?}"
    );
}

#[test]
fn the_time_of_a_request_ends_before_and_within_its_response() {
    let url = |server: &Server| Url::parse(&server.url("/")).unwrap();
    let limited = |url, milliseconds| HttpRequest {
        total: Some(Duration::from_millis(milliseconds)),
        ..HttpRequest::get(url)
    };
    let mute = Server::start(|_| Reply::ok("text/plain", "").cut(1).then(Then::Silence));
    let error = client(None).send(&limited(url(&mute), 300)).unwrap_err();
    assert!(
        matches!(&error, HttpError::Timeout { during, .. } if during == "response"),
        "{error:?}"
    );
    let stuck = Server::start(|_| Reply::ok("text/plain", "hello").cut(1).then(Then::Silence));
    // enough for the head of the response, which is there at once, on a machine that is busy
    let error = client(None)
        .send(&limited(url(&stuck), 3000))
        .unwrap()
        .bytes(10)
        .unwrap_err();
    assert!(
        matches!(&error, HttpError::Timeout { during, .. } if during == "body"),
        "{error:?}"
    );
}

#[test]
fn an_unavailable_proxy_is_named() {
    let refusing = raw(b"HTTP/1.1 403 Forbidden\r\n\r\n");
    let closed = format!(
        "http://{}",
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    );
    for (proxy, url) in [
        (refusing, "https://public.example/"),
        (closed.clone(), "https://public.example/"),
        (closed, "http://public.example/"),
        (
            "http://does-not-exist.invalid:3128".into(),
            "https://public.example/",
        ),
    ] {
        let error = error(&client(Some(proxy.clone())), url);
        let HttpError::Connect { reason, .. } = &error else {
            panic!("{proxy}: {error:?}")
        };
        assert!(reason.starts_with("rag.http_proxy: "), "{proxy}: {reason}");
    }
}
