//! Servers on loopback that limit the rate of requests, in contrast to servers that fail.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::server;
use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use crate::support::{bytes, web_job};
use crate::web::{Reply, Server};
use git2::{Repository, Signature};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Failure, FailureCause, Job},
};
use rag_source::{SourceItem, SourceReader};
use serde_json::json;
use tempfile::{TempDir, tempdir};

/// What a server answers everything with, and what is made of it: `None` where it is a failure,
/// else what it asks for.
struct Case {
    status: u16,
    headers: Vec<(&'static str, String)>,
    throttled: Option<Option<u64>>,
    /// Requests until it is given up.
    tries: usize,
}

fn cases() -> Vec<Case> {
    let date = |seconds: u64| {
        httpdate::fmt_http_date(
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000 + seconds),
        )
    };
    let case = |status, after: Option<&str>, throttled, tries| {
        let headers = after
            .map(|after| ("Retry-After", after.to_owned()))
            .into_iter()
            .collect();
        Case {
            status,
            headers,
            throttled,
            tries,
        }
    };
    // whatever time the test's clock says
    let dated = |status, seconds, throttled| Case {
        status,
        headers: vec![("Date", date(0)), ("Retry-After", date(seconds))],
        throttled,
        tries: 1,
    };
    vec![
        case(429, None, Some(None), 3),
        case(429, Some("0"), Some(Some(0)), 3),
        case(429, Some("120"), Some(Some(120)), 1),
        case(429, Some(" 11 "), Some(Some(11)), 1),
        case(
            429,
            Some("99999999999999999999999"),
            Some(Some(31_536_000)),
            1,
        ),
        case(429, Some("soon"), Some(None), 3),
        case(429, Some("-5"), Some(None), 3),
        case(429, Some(""), Some(None), 3),
        case(429, Some("Tue, 03 Jan 2006 08:04:05 GMT"), Some(Some(0)), 3),
        dated(429, 120, Some(Some(120))),
        dated(503, 3600, Some(Some(3600))),
        case(503, Some("120"), Some(Some(120)), 1),
        case(503, None, None, 3),
        case(503, Some("soon"), None, 3),
        case(500, Some("120"), None, 1),
        case(502, None, None, 3),
    ]
}

impl Case {
    fn serve(&self) -> Server {
        let (status, headers) = (format!("{} -", self.status), self.headers.clone());
        Server::start(move |_| {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            Reply::new(&status, &headers, "")
        })
    }

    fn name(&self) -> String {
        format!("{} {:?}", self.status, self.headers)
    }

    fn check_failure(&self, failure: &Failure) {
        let throttled = retry_after(failure);
        assert_eq!(throttled, self.throttled, "{}: {failure:?}", self.name());
    }

    fn check_error(&self, error: &EngineError) {
        let name = self.name();
        let Some(asked) = self.throttled else {
            assert_eq!(
                (error.kind, error.retry_after_seconds),
                (ErrorKind::SourceUnavailable, None),
                "{name}: {error:?}"
            );
            return;
        };
        assert_eq!(
            (error.kind, error.retry_after_seconds),
            (ErrorKind::Throttled, asked),
            "{name}: {error:?}"
        );
        let wait = match asked {
            Some(0) | None => String::new(),
            Some(seconds) => format!(" and asks to wait {seconds} s"),
        };
        assert!(
            error
                .message
                .ends_with(&format!(" limits the rate of requests{wait}")),
            "{name}: {}",
            error.message
        );
        let detail = error.detail.as_deref().unwrap_or_default();
        assert!(
            detail.contains(&self.status.to_string()),
            "{name}: {detail}"
        );
    }
}

/// How long the server asks to wait, if that is why an item was not fetched.
fn retry_after(failure: &Failure) -> Option<Option<u64>> {
    match failure.cause {
        FailureCause::Throttled {
            retry_after_seconds,
        } => Some(retry_after_seconds),
        _ => None,
    }
}

fn open(job: &Job) -> (Box<dyn SourceReader>, Vec<SourceItem>) {
    let mut source = rag_source::open(job).unwrap();
    let items = source.list().unwrap().items;
    (source, items)
}

/// Checks all cases at once: most of their time they wait.
fn each_case(check: impl Fn(&Case) + Sync) {
    std::thread::scope(|scope| {
        for case in cases() {
            let check = &check;
            scope.spawn(move || check(&case));
        }
    });
}

#[test]
fn web_files_distinguish_throttling_from_failure() {
    each_case(|case| {
        let server = case.serve();
        for (kind, spec) in [
            ("static", json!({"endpoints": [server.url("/a.md")]})),
            ("markdown", json!({"uri": server.url("/a.md")})),
        ] {
            let (mut source, items) = open(&web_job(kind, &spec, Path::new("unused")));
            server.forget();
            case.check_failure(&bytes(source.as_mut(), &items[0]).unwrap_err());
            assert_eq!(
                server.requests().len(),
                case.tries,
                "{kind}, {}",
                case.name()
            );
        }
    });
}

#[test]
fn websites_distinguish_throttling_from_failure() {
    each_case(|case| {
        let folder = tempdir().unwrap();
        let server = case.serve();
        let spec = json!({"url": server.url("/"), "delay": 0});
        let error = rag_source::open(&web_job("website", &spec, folder.path()))
            .unwrap()
            .list()
            .unwrap_err();
        case.check_error(&error);
        assert_eq!(
            server.targets(),
            vec!["/robots.txt"; case.tries],
            "{}",
            case.name()
        );
    });
}

struct Served {
    folder: TempDir,
    server: server::Server,
}

impl Served {
    fn start() -> Self {
        let folder = tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        repository.set_head("refs/heads/main").unwrap();
        let who = Signature::now("a", "a@b.example").unwrap();
        let tree = repository
            .find_tree(repository.treebuilder(None).unwrap().write().unwrap())
            .unwrap();
        repository
            .commit(Some("HEAD"), &who, &who, "first", &tree, &[])
            .unwrap();
        let server = server::Server::start(folder.path());
        Self { folder, server }
    }

    fn open(&self, commit: Option<&str>) -> Result<Box<dyn SourceReader>, EngineError> {
        let mut spec = json!({"repositoryURL": format!("{}/.git", self.server.url)});
        if let Some(commit) = commit {
            spec["commit"] = commit.into();
        }
        rag_source::open(&web_job("git", &spec, &self.folder.path().join("place")))
    }
}

#[test]
fn git_servers_distinguish_throttling_from_failure() {
    each_case(|case| {
        let served = Served::start();
        {
            let mut state = served.server.state();
            state.faults = vec![case.status; 9];
            state.fault_headers = case
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
        }
        case.check_error(&served.open(None).err().unwrap());
        assert_eq!(
            served.server.take_log().0.len(),
            case.tries,
            "{}",
            case.name()
        );
    });
}

#[test]
fn a_throttled_fetch_of_a_pinned_commit_is_not_replaced_by_a_full_one() {
    let served = Served::start();
    let pin = Repository::open(served.folder.path())
        .unwrap()
        .head()
        .unwrap()
        .target()
        .unwrap()
        .to_string();
    {
        let mut state = served.server.state();
        // the list of branches is answered
        state.faults = vec![0, 429];
        state.fault_headers = "Retry-After: 90\r\n".into();
    }
    let error = served.open(Some(&pin)).err().unwrap();
    assert_eq!(
        (error.kind, error.retry_after_seconds),
        (ErrorKind::Throttled, Some(90)),
        "{error:?}"
    );
    assert_eq!(served.server.take_log().0, ["GET", "POST"]);
}

#[test]
fn a_server_with_a_long_retry_after_gets_no_other_request() {
    let server = Server::start(|request| match request.target.as_str() {
        "/busy" => Reply::new("429 Too Many Requests", &[("Retry-After", "3600")], ""),
        _ => Reply::ok("text/plain", "well"),
    });
    let other = Server::start(|_| Reply::ok("text/plain", "well"));
    let endpoints = [
        server.url("/a"),
        server.url("/busy"),
        server.url("/b"),
        other.url("/c"),
    ];
    let (mut source, items) = open(&web_job(
        "static",
        &json!({ "endpoints": endpoints }),
        Path::new("unused"),
    ));
    let mut fetch = |item| bytes(source.as_mut(), item);
    assert_eq!(fetch(&items[0]).unwrap(), b"well");
    let failures = [fetch(&items[1]).unwrap_err(), fetch(&items[2]).unwrap_err()];
    for failure in &failures {
        assert!(
            retry_after(failure)
                .flatten()
                .is_some_and(|asked| asked > 3000),
            "{failure:?}"
        );
    }
    assert_eq!(fetch(&items[3]).unwrap(), b"well", "another one is");
    assert_eq!(server.targets(), ["/a", "/busy"]);
}

#[test]
fn a_server_with_a_long_retry_after_gets_no_request_by_redirects() {
    let busy =
        Server::start(|_| Reply::new("429 Too Many Requests", &[("Retry-After", "3600")], ""));
    let (there, back) = (busy.origin.clone(), busy.origin.clone());
    let other = Server::start(move |_| Reply::redirect(&format!("{back}/c")));
    let elsewhere = other.origin.clone();
    let first = Server::start(move |request| match request.target.as_str() {
        "/well" => Reply::ok("text/plain", "well"),
        "/b" => Reply::redirect(&format!("{elsewhere}/b")),
        _ => Reply::redirect(&format!("{there}{}", request.target)),
    });
    let endpoints = ["/a", "/b", "/c?key=hidden", "/well"].map(|path| first.url(path));
    let endpoints = [&endpoints[..], &[busy.url("/d")]].concat();
    let (mut source, items) = open(&web_job(
        "static",
        &json!({ "endpoints": endpoints }),
        Path::new("unused"),
    ));
    let mut fetch = |item| bytes(source.as_mut(), item);
    let origin = &busy.origin;
    for (item, who) in [
        (&items[0], &**origin),
        (&items[1], origin),
        (&items[2], origin),
        (&items[4], "the server"),
    ] {
        let failure = fetch(item).unwrap_err();
        assert!(
            retry_after(&failure)
                .flatten()
                .is_some_and(|asked| asked > 3000),
            "{failure:?}"
        );
        let message = format!("{who} answered 429 Too Many Requests and asks to wait ");
        assert!(failure.message.starts_with(&message), "{failure:?}");
    }
    assert_eq!(fetch(&items[3]).unwrap(), b"well", "who redirects there is");
    assert_eq!(busy.targets(), ["/a"]);
    assert_eq!(
        first.targets(),
        ["/a", "/b", "/c?key=hidden", "/well"],
        "each hop is asked once"
    );
}

#[test]
fn the_error_names_the_throttling_server_behind_a_redirect() {
    let folder = tempdir().unwrap();
    let busy =
        Server::start(|_| Reply::new("429 Too Many Requests", &[("Retry-After", "120")], ""));
    let there = busy.origin.clone();
    let first = Server::start(move |request| match request.target.as_str() {
        "/robots.txt" => Reply::not_found(),
        _ => Reply::redirect(&format!("{there}/")),
    });
    let spec = json!({"url": first.url("/"), "delay": 0});
    let error = rag_source::open(&web_job("website", &spec, folder.path()))
        .unwrap()
        .list()
        .unwrap_err();
    assert_eq!(
        (error.kind, error.retry_after_seconds),
        (ErrorKind::Throttled, Some(120)),
        "{error:?}"
    );
    let message = format!(
        "{} (redirected from {}) limits the rate of requests and asks to wait 120 s",
        busy.origin,
        first.url("/")
    );
    assert_eq!(error.message, message);
}

#[test]
fn a_503_of_one_resource_does_not_affect_the_others() {
    let server = Server::start(|request| match request.target.as_str() {
        "/busy" => Reply::new("503 Service Unavailable", &[("Retry-After", "3600")], ""),
        _ => Reply::ok("text/plain", "well"),
    });
    let endpoints = [server.url("/busy"), server.url("/b")];
    let (mut source, items) = open(&web_job(
        "static",
        &json!({ "endpoints": endpoints }),
        Path::new("unused"),
    ));
    assert!(
        bytes(source.as_mut(), &items[0])
            .unwrap_err()
            .is_throttled()
    );
    assert_eq!(bytes(source.as_mut(), &items[1]).unwrap(), b"well");
}

#[test]
fn a_throttled_crawl_keeps_its_pages_and_is_incomplete() {
    let folder = tempdir().unwrap();
    let server = Server::start(|request| match request.target.as_str() {
        "/robots.txt" | "/sitemap.xml" => Reply::not_found(),
        "/" => Reply::html("<p><a href='/a'>a</a> <a href='/b'>b</a></p>"),
        _ => Reply::new("429 Too Many Requests", &[("Retry-After", "3600")], ""),
    });
    let spec = json!({"url": server.url("/"), "delay": 0});
    let listing = rag_source::open(&web_job("website", &spec, folder.path()))
        .unwrap()
        .list()
        .unwrap();
    assert_eq!(listing.items.len(), 1);
    assert_eq!(
        listing
            .failures
            .iter()
            .filter(|failure| failure.is_throttled())
            .count(),
        2,
        "{:?}",
        listing.failures
    );
    assert!(!listing.complete);
    assert_eq!(
        server
            .targets()
            .iter()
            .filter(|target| matches!(target.as_str(), "/a" | "/b"))
            .count(),
        1
    );
}
