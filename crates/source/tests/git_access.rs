//! Access to a real git server on loopback: credentials, refused addresses, unreachable hosts.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::process::Command;

use crate::served::{Served, all};
use crate::server::Server;
use rag_definition::source::{GitSpec, Repository as Named};
use rag_protocol::{
    ErrorKind,
    ingest::{Credentials, Job},
};

const SECRET: &str = "s3cr3t-t0ken";

fn basic(user: &str) -> Option<String> {
    use base64::Engine;
    Some(format!(
        "Basic {}",
        base64::prelude::BASE64_STANDARD.encode(format!("{user}:{SECRET}"))
    ))
}

fn with(mut job: Job, username: Option<&str>, secret: &str) -> Job {
    job.credentials = Some(Credentials {
        username: username.map(Into::into),
        secret: secret.into(),
        ..Credentials::default()
    });
    job
}

#[test]
fn credentials_open_a_private_repository() {
    let served = Served::with_files();
    let error = || served.failed(served.spec());
    served.server.state().password = basic("x-access-token");
    assert_eq!(
        error().message,
        format!(
            "the server of {}/.git asks for credentials",
            served.server.url
        )
    );
    assert!(error().hint.unwrap().contains("secret"));
    let token = with(served.job(served.spec()), None, SECRET);
    assert_eq!(
        all(&mut *rag_source::open(&token).unwrap()),
        served.committed()
    );

    assert_eq!(
        error().message,
        format!(
            "the server of {}/.git asks for credentials",
            served.server.url
        )
    );
    let wrong = rag_source::open(&with(served.job(served.spec()), None, "wr0ng"))
        .err()
        .unwrap();
    assert_eq!(
        wrong.message,
        format!(
            "the server of {}/.git does not accept the credentials",
            served.server.url
        )
    );
    assert!(wrong.hint.is_some() && !format!("{wrong:?}").contains("wr0ng"));

    served.server.state().password = basic("robot");
    let user = with(served.job(served.spec()), Some("robot"), SECRET);
    assert_eq!(
        all(&mut *rag_source::open(&user).unwrap()),
        served.committed()
    );
    let written = Command::new("grep")
        .args(["-r", "-e", SECRET, "-e", "Basic"])
        .arg(served.place.path())
        .output();
    assert_eq!(
        String::from_utf8(written.unwrap().stdout).unwrap(),
        "",
        "nothing of them is written down"
    );
}

#[test]
fn credentials_are_sent_to_no_other_server() {
    let served = Served::new();
    let elsewhere = Server::start(served.made.path());
    served.made.write("a.md", b"x").commit();
    served.server.state().redirect = Some(elsewhere.url.clone());
    let job = with(served.job(served.spec()), None, SECRET);
    let error = rag_source::open(&job).err().unwrap();
    assert_eq!(
        error.detail.as_deref(),
        Some("the server redirects to another host, 127.0.0.1")
    );
    assert!(!format!("{error:?}").contains(SECRET));
    assert!(elsewhere.state().log.is_empty(), "it was not even asked");
    assert!(
        served
            .server
            .state()
            .log
            .iter()
            .all(|seen| seen.authorization == basic("x-access-token"))
    );
}

#[test]
fn addresses_that_are_not_public_are_refused() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    let refused = |url: &str| {
        let mut job = served.job(GitSpec {
            repository: Named::Https(url.into()),
            ..served.spec()
        });
        job.network.allowed_private_hosts.clear();
        rag_source::open(&job).err().unwrap()
    };
    let error = refused(&format!("{}/.git", served.server.url));
    assert_eq!(
        error.message,
        "spec.repositoryURL: must start with https://"
    );
    let port = served.server.url.rsplit(':').next().unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        let error = refused(&format!("https://{host}:{port}/.git"));
        assert_eq!(error.kind, ErrorKind::SourceUnavailable);
        assert!(
            error.hint.unwrap().contains("rag.allowed_private_hosts"),
            "{host}"
        );
    }
    assert!(served.server.state().log.is_empty());
}

#[test]
fn a_host_that_cannot_be_reached_is_a_clear_error() {
    let served = Served::new();
    for url in ["https://127.0.0.1:1/a.git", "https://nowhere.invalid/a.git"] {
        let error = served.failed(GitSpec {
            repository: Named::Https(url.into()),
            ..served.spec()
        });
        assert_eq!(
            (error.kind, error.message),
            (
                ErrorKind::SourceUnavailable,
                format!("could not fetch from {url}")
            )
        );
        assert!(error.hint.is_some() && error.detail.is_some());
    }
}
