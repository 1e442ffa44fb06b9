//! Redirects through the network guard, and the credentials that are sent on the way.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::guarded::{client, get, hello, network, refusal};
use crate::web::{Reply, Server};
use rag_protocol::ingest::Credentials;
use rag_source::http::{HttpClient, HttpError, HttpRequest, Redirects};
use url::Url;

#[test]
fn every_redirect_is_checked() {
    let secret = hello();
    let to = secret.port;
    let server = Server::start(move |request| {
        Reply::redirect(&request.target[1..].replace("PORT", &to.to_string()))
    });
    let client = client(&[&format!("127.0.0.1:{}", server.port)]);
    for location in [
        "http://127.0.0.1:PORT/",
        "//127.0.0.1:PORT/",
        "http://2130706433:PORT/",
        "http://[::ffff:127.0.0.1]:PORT/",
        "http://localhost:PORT/",
        "https://127.0.0.1:PORT/",
        "\\\\127.0.0.1:PORT\\",
    ] {
        refusal(&client, &server.url(&format!("/{location}")));
    }
    assert!(secret.targets().is_empty());
    for (location, message) in [
        ("file:///etc/passwd", "URL scheme \"file\" is not supported"),
        ("ftp://127.0.0.1/", "URL scheme \"ftp\" is not supported"),
        (
            "http://a:b@127.0.0.1/",
            "the URL contains a user name or password",
        ),
    ] {
        assert_eq!(
            refusal(&client, &server.url(&format!("/{location}"))),
            message
        );
    }
    let error = get(&client, &server.url("/http://[")).unwrap_err();
    assert!(matches!(error, HttpError::BadRedirect), "{error}");
}

#[test]
fn the_number_of_redirects_is_limited() {
    let server = Server::start(|request| Reply::redirect(&format!("{}x", request.target)));
    let error = get(&client(&["127.0.0.1"]), &server.url("/")).unwrap_err();
    assert_eq!(error.to_string(), "the server redirects more than 8 times");
    assert_eq!(server.targets().len(), 9);
}

#[test]
fn credentials_are_sent_to_their_origin_only() {
    let other = hello();
    let elsewhere = other.url("/");
    let server = Server::start(move |request| match request.target.as_str() {
        "/away" => Reply::redirect(&elsewhere),
        "/near" => Reply::redirect("/here"),
        _ => Reply::ok("text/plain", ""),
    });
    let credentials = Credentials {
        username: Some("u".into()),
        secret: "s".into(),
        ..Credentials::default()
    };
    let url = Url::parse(&server.origin).unwrap();
    let client = HttpClient::new(&network(&["127.0.0.1"]), Some((&credentials, &url))).unwrap();
    get(&client, &server.url("/near")).unwrap();
    get(&client, &server.url("/away")).unwrap();
    get(&client, &other.url("/direct")).unwrap();
    let shown: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.header("authorization").map(String::from))
        .collect();
    assert_eq!(shown, vec![Some("Basic dTpz".to_owned()); 3]);
    assert_eq!(other.requests().len(), 2);
    assert!(
        other
            .requests()
            .iter()
            .all(|r| r.header("authorization").is_none())
    );

    let token = Credentials {
        username: None,
        secret: "t".into(),
        ..Credentials::default()
    };
    let client = HttpClient::new(&network(&["127.0.0.1"]), Some((&token, &url))).unwrap();
    server.forget();
    get(&client, &server.url("/here")).unwrap();
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer t")
    );
}

#[test]
fn credentials_are_not_sent_unencrypted() {
    let credentials = Credentials {
        username: None,
        secret: "secret-token".into(),
        ..Credentials::default()
    };
    let url = Url::parse("http://example.org/").unwrap();
    let error = HttpClient::new(&network(&[]), Some((&credentials, &url))).unwrap_err();
    assert_eq!(error.message, "credentials cannot be sent over http");
    let broken = Credentials {
        username: None,
        secret: "a\r\nHost: b".into(),
        ..Credentials::default()
    };
    let url = Url::parse("https://example.org/").unwrap();
    let error = HttpClient::new(&network(&[]), Some((&broken, &url))).unwrap_err();
    assert_eq!(error.message, "the secret cannot be sent in an HTTP header");
    let client = HttpClient::new(&network(&[]), Some((&credentials, &url))).unwrap();
    assert!(!format!("{client:?}").contains("secret-token"));
}

#[test]
fn redirects_to_another_origin_are_refused_on_request() {
    let other = hello();
    let elsewhere = other.url("/");
    let server = Server::start(move |request| match request.target.as_str() {
        "/away" => Reply::redirect(&elsewhere),
        "/near" => Reply::redirect("/here"),
        _ => Reply::ok("text/plain", ""),
    });
    let client = client(&["127.0.0.1"]);
    let send = |path: &str| {
        let request = HttpRequest::get(Url::parse(&server.url(path)).unwrap());
        client.send(&HttpRequest {
            redirects: Redirects::SameOrigin,
            ..request
        })
    };
    assert_eq!(send("/near").unwrap().url.path(), "/here");
    assert!(
        matches!(send("/away").unwrap_err(), HttpError::OffOrigin(host) if host == "127.0.0.1")
    );
    assert!(other.targets().is_empty());
}

#[test]
fn a_redirected_post_is_repeated_only_for_307_and_308() {
    let server = Server::start(|request| match request.target.as_str() {
        "/found" => Reply::redirect("/end"),
        "/again" => Reply::new("307 Temporary Redirect", &[("Location", "/end")], ""),
        _ => Reply::ok("text/plain", &request.body),
    });
    let client = client(&["127.0.0.1"]);
    let post = |path: &str| {
        let request = HttpRequest::get(Url::parse(&server.url(path)).unwrap());
        client
            .send(&HttpRequest {
                body: Some(b"body"),
                ..request
            })
            .unwrap()
            .bytes(10)
            .unwrap()
    };
    assert_eq!(
        (post("/end"), post("/found"), post("/again")),
        (b"body".to_vec(), vec![], b"body".to_vec())
    );
    let methods: Vec<_> = server.requests().into_iter().map(|r| r.method).collect();
    assert_eq!(methods, ["POST", "POST", "GET", "POST", "POST"]);
}
