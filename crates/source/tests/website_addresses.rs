//! Pages of a website under several addresses: refreshes, tracking parameters, and equal texts,
//! from a real server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::site::{crawl, job, link, refused, site};
use crate::web::{HttpRequest, Reply, Server};
use rag_protocol::ingest::{Job, KnownVersion};
use rag_source::{ALIAS_URIS, FetchOutcome, FetchedContent, Listing, SourceReader};
use serde_json::{Value, json};
use tempfile::tempdir;

fn refresh(to: &str) -> String {
    format!("<meta http-equiv=\"refresh\" content=\"0; url={to}\">")
}

#[test]
fn a_refresh_is_followed_as_a_redirect() {
    let server = site(&[
        ("/", &refresh("latest/")),
        ("/latest/", &(link("a") + &link("/old") + &link("/gone"))),
        ("/latest/a", "<p>A</p>"),
        ("/old", &(refresh("/older") + &link("/unread"))),
        ("/older", &refresh("/new")),
        ("/new", "<p>New</p>"),
        ("/gone", &refresh("/missing")),
        ("/unread", "<p>Unread</p>"),
    ]);
    let crawled = crawl(&server, json!({"depth": 1}));
    assert_eq!(crawled.paths(), ["/latest/", "/latest/a", "/new"]);
    assert!(crawled.listing.complete && crawled.failures().is_empty());
    assert!(!server.targets().contains(&"/unread".to_owned()));
    assert_eq!(crawl(&server, json!({"depth": 0})).paths(), ["/latest/"]);
}

#[test]
fn a_refresh_has_the_rules_of_hosts_and_robots() {
    let other = site(&[("/", "<p>Other</p>"), ("/deep", "<p>Deep</p>")]);
    let away = refresh(&other.url("/deep"));
    let server = site(&[
        ("/robots.txt", "User-agent: *\nDisallow: /private\n"),
        ("/", &["/away", "/closed", "/excluded"].map(link).concat()),
        ("/away", &away),
        ("/closed", &refresh("/private")),
        ("/private", "<p>Private</p>"),
        ("/excluded", &refresh("/no/page")),
        ("/no/page", "<p>No</p>"),
    ]);
    let crawled = crawl(&server, json!({"exclude": ["no/"]}));
    assert_eq!(crawled.paths(), ["/"]);
    assert!(crawled.listing.complete && crawled.failures().is_empty());
    assert_eq!(other.targets(), [] as [&str; 0], "it is another site");
    assert!(!server.targets().contains(&"/private".to_owned()));

    // the site is where the first page is found
    let moved = site(&[("/", &refresh(&other.url("/")))]);
    let folder = tempdir().unwrap();
    let listing = rag_source::open(&job(&moved, json!({}), &folder))
        .unwrap()
        .list()
        .unwrap();
    assert_eq!(listing.items.len(), 1);
    assert_eq!(listing.items[0].uri, other.url("/"));
    let closed = site(&[
        ("/robots.txt", "User-agent: *\nDisallow: /private\n"),
        ("/", &refresh("/private")),
    ]);
    assert_eq!(
        refused(&closed),
        format!(
            "robots.txt does not allow fetching {}/private",
            closed.origin
        )
    );
    let inward = site(&[("/", &refresh("http://169.254.169.254/latest/"))]);
    assert!(refused(&inward).contains("connections to 169.254.169.254 are not allowed"));
    let missing = site(&[("/", &refresh("/missing"))]);
    assert_eq!(
        refused(&missing),
        format!(
            "could not fetch the first page, {}/missing: the server answered 404 Not Found",
            missing.origin
        )
    );
}

#[test]
fn circles_of_refreshes_end() {
    let circle = site(&[("/", &refresh("/b")), ("/b", &refresh("/"))]);
    assert_eq!(
        refused(&circle),
        format!(
            "could not fetch {}/: the server redirects more than 8 times",
            circle.origin
        )
    );
    let endless = Server::start(|request| match request.target.as_str() {
        "/" => Reply::html(&(link("/x") + &link("/self") + "<p>Start</p>")),
        "/robots.txt" | "/sitemap.xml" => Reply::not_found(),
        "/self" => Reply::html(&(refresh("/self") + "<p>Itself</p>")),
        path => Reply::html(&refresh(&format!("{path}x"))),
    });
    let crawled = crawl(&endless, json!({}));
    assert_eq!(crawled.paths(), ["/", "/self"]);
    assert_eq!(
        crawled.failures(),
        [("/xxxxxxxxx", "the server redirects more than 8 times")]
    );
    assert_eq!(endless.targets().len(), 13, "{:?}", endless.targets());
}

#[test]
fn tracking_parameters_are_no_part_of_an_address() {
    let server = Server::start(|request| {
        let path = request.target.split('?').next().unwrap();
        match path {
            "/" => Reply::html(
                &[
                    "/a?utm_source=x&utm_medium=mail",
                    "/a?gclid=1",
                    "/a?fbclid=2#part",
                    "/a?id=1&mc_eid=3",
                    "/moved",
                ]
                .map(link)
                .concat(),
            ),
            "/moved" => Reply::redirect("/b?utm_campaign=moved"),
            "/a" if request.target.contains("id=1") => Reply::html("<p>With an id</p>"),
            "/a" => Reply::html("<p>A</p>"),
            "/b" => Reply::html("<link rel=canonical href='/c?utm_source=y'><p>B</p>"),
            _ => Reply::not_found(),
        }
    });
    let crawled = crawl(&server, json!({"url": "/?utm_source=start"}));
    assert_eq!(crawled.paths(), ["/", "/a", "/a?id=1", "/c"]);
    let asked = server.targets();
    assert_eq!(
        asked.iter().filter(|path| path.starts_with("/a")).count(),
        2
    );
}

fn list(job: &Job) -> (Box<dyn SourceReader>, Listing) {
    let mut source = rag_source::open(job).unwrap();
    let listing = source.list().unwrap();
    (source, listing)
}

/// The items with their other addresses. They are stored as a run stores them.
fn sync(job: &mut Job, origin: &str) -> Vec<(String, Vec<String>)> {
    let (mut source, listing) = list(job);
    let failed: Vec<_> = listing.failures.iter().map(|f| f.uri.clone()).collect();
    let mut found = vec![];
    let mut known = std::mem::take(&mut job.known);
    known.retain(|uri, _| {
        !listing.complete || failed.contains(uri) || listing.items.iter().any(|i| i.uri == *uri)
    });
    for item in &listing.items {
        let strip = |uri: &str| uri.strip_prefix(origin).unwrap().to_owned();
        let stored = known.get(&item.uri);
        let is_same = item.validator.is_some()
            && stored.is_some_and(|stored| stored.validator == item.validator);
        if is_same {
            found.push((strip(&item.uri), vec!["unchanged".into()]));
            continue;
        }
        let content = match source.fetch(item, stored).unwrap() {
            FetchOutcome::Content(content) => content,
            other => panic!("{other:?}"),
        };
        let aliases = aliases(&content).iter().map(|uri| strip(uri)).collect();
        found.push((strip(&item.uri), aliases));
        let version = KnownVersion {
            raw_hash: "unused".into(),
            validator: content.validator,
        };
        known.insert(item.uri.clone(), version);
    }
    job.known = known;
    found
}

fn aliases(content: &FetchedContent) -> Vec<String> {
    match content.metadata.get(ALIAS_URIS) {
        Some(Value::Array(uris)) => uris
            .iter()
            .map(|uri| uri.as_str().unwrap().to_owned())
            .collect(),
        _ => vec![],
    }
}

fn item(uri: &str, aliases: &[&str]) -> (String, Vec<String>) {
    let aliases = aliases.iter().map(ToString::to_string).collect();
    (uri.into(), aliases)
}

#[test]
fn pages_with_equal_text_are_one_document() {
    let requests = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let page = |text: &str| {
            // as pages do that are made for each request
            let n = requests.fetch_add(1, Ordering::SeqCst);
            Reply::html(&format!(
                "<title>T</title><script nonce={n}>x({n})</script><p data-n={n}>{text}</p>"
            ))
        };
        match request.target.as_str() {
            "/" => Reply::html(
                &[
                    "/a/index.html",
                    "/a?print=1",
                    "/a/",
                    "/a",
                    "/b",
                    "/c.txt",
                    "/d.txt",
                    "/e?x",
                ]
                .map(link)
                .concat(),
            ),
            "/a/index.html" | "/a/" | "/a" | "/a?print=1" => page("Words."),
            "/b" => page("Other words."),
            "/e?x" => Reply::html("<link rel=canonical href=/canonical><p>Third words.</p>"),
            "/c.txt" | "/d.txt" => Reply::ok("text/plain", "Words."),
            _ => Reply::not_found(),
        }
    });
    let crawled = crawl(&server, json!({"maxPages": 5}));
    assert_eq!(
        crawled.paths(),
        ["/", "/a", "/b", "/c.txt", "/canonical"],
        "the others do not count for maxPages"
    );
    assert_eq!(crawled.listing.skipped.total(), 4);
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({}), &folder);
    for _ in 0..2 {
        assert_eq!(
            sync(&mut job, &server.origin),
            [
                item("/", &[]),
                item("/a", &["/a/", "/a?print=1", "/a/index.html"]),
                item("/b", &[]),
                item("/c.txt", &["/d.txt"]),
                item("/canonical", &[]),
            ]
        );
    }
}

#[test]
fn a_canonical_address_comes_before_a_short_one() {
    let server = site(&[
        ("/", &["/a", "/a/long?x=1"].map(link).concat()),
        ("/a", "<p>Words.</p>"),
        (
            "/a/long?x=1",
            "<link rel=canonical href=/a/long><p>Words.</p>",
        ),
    ]);
    assert_eq!(crawl(&server, json!({})).paths(), ["/", "/a/long"]);
}

#[test]
fn pages_without_text_are_not_compared() {
    let server = site(&[
        ("/", &["/a", "/b"].map(link).concat()),
        ("/a", "<img src=a.png>"),
        ("/b", "<img src=b.png>"),
    ]);
    assert_eq!(crawl(&server, json!({})).paths(), ["/", "/a", "/b"]);
}

/// A site whose links and faults change between two runs: the n-th time has the links `links[n]`,
/// and the pages of `failing[n]` answer 403.
fn changing(
    links: &'static [&'static [&'static str]],
    failing: &'static [&'static str],
) -> (Server, Arc<AtomicUsize>) {
    let time = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&time);
    let server = Server::start(move |request: &HttpRequest| {
        let now = now.load(Ordering::SeqCst);
        let path = request.target.as_str();
        if path == "/" {
            let links: String = links[now].iter().copied().map(link).collect();
            return Reply::html(&links);
        }
        if failing[now].split(' ').any(|failing| failing == path) {
            return Reply::new("403 Forbidden", &[], "");
        }
        if !path.starts_with("/a") {
            return Reply::not_found();
        }
        if request.header("if-none-match") == Some("\"1\"") {
            return Reply::new("304 Not Modified", &[], "");
        }
        Reply::new(
            "200 OK",
            &[("Content-Type", "text/html"), ("ETag", "\"1\"")],
            "<p>Words.</p>",
        )
    });
    (server, time)
}

#[test]
fn the_stored_address_stays_from_run_to_run() {
    let (server, time) = changing(
        &[
            &["/a/index.html", "/a/"],
            &["/a/index.html", "/a/"],
            &["/a", "/a/index.html", "/a/"],
            &["/a", "/a/index.html", "/a/"],
            &["/a", "/a/index.html"],
        ],
        &["", "", "", "/a/", ""],
    );
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({"depth": 1, "sitemap": false}), &folder);
    let mut next = || {
        let found = sync(&mut job, &server.origin);
        time.fetch_add(1, Ordering::SeqCst);
        found[1..].to_vec()
    };
    assert_eq!(next(), [item("/a/", &["/a/index.html"])]);
    assert_eq!(next(), [item("/a/", &["unchanged"])]);
    assert_eq!(
        next(),
        [item("/a/", &["/a", "/a/index.html"])],
        "its stored version has no such alias, and a shorter address changes nothing"
    );
    assert_eq!(
        next(),
        [],
        "the failed page is kept, and no alias takes its place"
    );
    assert_eq!(
        next(),
        [item("/a", &["/a/index.html"])],
        "nothing leads to the stored address any more"
    );
}

#[test]
fn documents_of_former_versions_become_one() {
    let (server, _) = changing(&[&["/a/index.html", "/a/", "/a"]], &[""]);
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({"depth": 1}), &folder);
    for path in ["/a", "/a/", "/a/index.html"] {
        let version = KnownVersion {
            raw_hash: "unused".into(),
            // without the hash of its text
            validator: Some(r#"{"etag":"\"1\""}"#.into()),
        };
        job.known.insert(server.url(path), version);
    }
    let found = sync(&mut job, &server.origin);
    assert_eq!(found[1..], [item("/a", &["/a/", "/a/index.html"])]);
    assert_eq!(
        sync(&mut job, &server.origin)[1..],
        [item("/a", &["unchanged"])]
    );
    for broken in ["", "{", "[]", r#"{"text":1}"#] {
        for version in job.known.values_mut() {
            version.validator = Some(broken.into());
        }
        let found = sync(&mut job, &server.origin);
        assert_eq!(found[1..], [item("/a", &["/a/", "/a/index.html"])]);
    }
}

#[test]
fn few_of_many_aliases_are_noted() {
    let links: String = (10..40).map(|n| format!("<a href=/a?{n}>")).collect();
    let server = Server::start(move |request| match request.target.as_str() {
        "/" => Reply::html(&links),
        path if path.starts_with("/a") => Reply::html("<p>Words.</p>"),
        _ => Reply::not_found(),
    });
    let mut crawled = crawl(&server, json!({"depth": 1}));
    assert_eq!(crawled.paths(), ["/", "/a?10"]);
    assert_eq!(crawled.listing.skipped.total(), 29);
    let page = crawled.listing.items[1].clone();
    let Ok(FetchOutcome::Content(content)) = crawled.source.fetch(&page, None) else {
        panic!("it was fetched")
    };
    let aliases = aliases(&content);
    assert_eq!(aliases.len(), 20);
    assert_eq!(aliases[0], server.url("/a?11"));
}
