//! Which pages of a website become documents, and what fails, from a real server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::support;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::site::{crawl, job, link, refused, site};
use crate::web::{HttpRequest, Reply, Server, Then};
use rag_protocol::ingest::{Job, KnownVersion};
use rag_source::FetchOutcome;
use serde_json::json;
use tempfile::tempdir;

#[test]
fn redirects_and_canonical_links_decide_the_uri() {
    let server = Server::start(|request| match request.target.as_str() {
        "/" => Reply::redirect("/home"),
        "/home" => Reply::html(
            &["/old", "/new", "/print?x=1", "/print?x=2", "/foreign"]
                .map(link)
                .concat(),
        ),
        "/old" => Reply::redirect("/new#part"),
        "/new" => Reply::html("<h1>New</h1>"),
        "/print?x=1" | "/print?x=2" => {
            Reply::html("<link rel=canonical href='/print'><h1>Print</h1>")
        }
        "/foreign" => Reply::html("<link rel=canonical href='https://public.example/'>"),
        _ => Reply::not_found(),
    });
    let crawled = crawl(&server, json!({}));
    assert_eq!(crawled.paths(), ["/foreign", "/home", "/new", "/print"]);
    assert_eq!(
        server
            .targets()
            .iter()
            .filter(|path| *path == "/new")
            .count(),
        1,
        "known from the redirect"
    );
}

#[test]
fn noindex_and_nofollow_are_obeyed() {
    let server = Server::start(|request| match request.target.as_str() {
        "/" => Reply::html(
            &(["/noindex", "/nofollow", "/header"].map(link).concat()
                + "<a rel=nofollow href=/skip>"),
        ),
        "/noindex" => {
            Reply::html(&("<meta name=robots content=noindex>".to_owned() + &link("/followed")))
        }
        "/nofollow" => {
            Reply::html(&("<meta name=robots content=nofollow>".to_owned() + &link("/skip")))
        }
        "/header" => Reply::new(
            "200 OK",
            &[("Content-Type", "text/html"), ("X-Robots-Tag", "none")],
            link("/skip"),
        ),
        "/followed" | "/skip" => Reply::html(""),
        _ => Reply::not_found(),
    });
    assert_eq!(
        crawl(&server, json!({})).paths(),
        ["/", "/followed", "/nofollow"]
    );
    assert!(!server.targets().contains(&"/skip".to_owned()));
}

#[test]
fn only_documents_are_read() {
    let server = Server::start(|request| match request.target.as_str() {
        "/" => Reply::html(
            &["/a.txt", "/b.md", "/c.pdf", "/d.png", "/e.js", "/f"]
                .map(link)
                .concat(),
        ),
        "/a.txt" => Reply::ok("text/plain", "a"),
        "/b.md" => Reply::ok("Text/Markdown; charset=utf-8", "b"),
        "/c.pdf" => Reply::ok("application/pdf", "c"),
        "/d.png" => Reply::ok("image/png", "d"),
        "/e.js" => Reply::ok("text/javascript", "e"),
        "/f" => Reply::new("200 OK", &[], "no type at all"),
        _ => Reply::not_found(),
    });
    let crawled = crawl(&server, json!({}));
    assert_eq!(crawled.paths(), ["/", "/a.txt", "/b.md", "/c.pdf"]);
    assert_eq!(
        (crawled.listing.skipped.total(), crawled.failures().len()),
        (3, 0)
    );
}

#[test]
fn a_page_that_fails_leaves_the_listing_incomplete_only_if_it_may_have_had_links() {
    let server = Server::start(|request| match request.target.as_str() {
        "/" => Reply::html(&["/bad", "/good", "/gone", "/large"].map(link).concat()),
        "/bad" => Reply::new("403 Forbidden", &[], ""),
        "/large" => Reply::html(&"x".repeat(1001)),
        "/good" => Reply::html(""),
        _ => Reply::not_found(),
    });
    let failures = [
        ("/bad", "the server answered 403 Forbidden"),
        ("/large", "the response exceeds the limit of 1000 bytes"),
    ];
    let crawled = crawl(&server, json!({"depth": 1}));
    assert_eq!(
        (crawled.paths(), crawled.failures()),
        (vec!["/", "/good"], failures.to_vec())
    );
    assert!(
        crawled.listing.complete,
        "their links would not be followed"
    );
    let crawled = crawl(&server, json!({"depth": 2}));
    assert_eq!(crawled.failures(), failures);
    assert!(!crawled.listing.complete);
}

#[test]
fn an_unavailable_first_page_fails_the_run() {
    let gone = site(&[]);
    assert_eq!(
        refused(&gone),
        format!(
            "could not fetch the first page, {}/: the server answered 404 Not Found",
            gone.origin
        )
    );
    let image = Server::start(|request| match request.target.as_str() {
        "/robots.txt" => Reply::not_found(),
        _ => Reply::ok("image/png", "x"),
    });
    assert_eq!(
        refused(&image),
        format!(
            "could not fetch the first page, {}/: its type is \"image/png\"",
            image.origin
        )
    );
    let looping = Server::start(|request| match request.target.as_str() {
        "/robots.txt" => Reply::not_found(),
        path => Reply::redirect(path),
    });
    assert_eq!(
        refused(&looping),
        format!(
            "could not fetch {}/: the server redirects more than 8 times",
            looping.origin
        )
    );
    let broken = Server::start(|request| match request.target.as_str() {
        "/robots.txt" => Reply::not_found(),
        _ => Reply::html("x").cut(1).then(Then::Reset),
    });
    assert!(refused(&broken).contains("lost the connection to 127.0.0.1"));
}

#[test]
fn the_guard_checks_the_first_request() {
    let server = site(&[("/", "")]);
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({}), &folder);
    job.network.allowed_private_hosts.clear();
    let error = rag_source::open(&job).unwrap().list().unwrap_err();
    assert!(
        error
            .message
            .ends_with("connections to 127.0.0.1 are not allowed: it is a loopback address"),
        "{}",
        error.message
    );
    assert!(error.hint.unwrap().contains("rag.allowed_private_hosts"));
    assert!(server.targets().is_empty());
}

#[test]
fn pages_without_links_to_follow_are_requested_with_conditions() {
    let changed = Arc::new(AtomicBool::new(false));
    let has_changed = Arc::clone(&changed);
    let server = Server::start(move |request: &HttpRequest| {
        let tag = if has_changed.load(Ordering::SeqCst) {
            "\"2\""
        } else {
            "\"1\""
        };
        let reply = |html: &str| {
            if request.header("if-none-match") == Some(tag) {
                return Reply::new("304 Not Modified", &[], "");
            }
            Reply::new(
                "200 OK",
                &[("Content-Type", "text/html"), ("ETag", tag)],
                html,
            )
        };
        match request.target.as_str() {
            "/" => reply(&link("/leaf")),
            "/leaf" => reply(tag),
            _ => Reply::not_found(),
        }
    });
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({"depth": 1}), &folder);
    let list = |job: &Job| {
        let mut source = rag_source::open(job).unwrap();
        let listing = source.list().unwrap();
        (source, listing)
    };
    let (_, first) = list(&job);
    for item in &first.items {
        job.known.insert(
            item.uri.clone(),
            KnownVersion {
                raw_hash: "unused".into(),
                validator: item.validator.clone(),
            },
        );
    }
    server.forget();
    let (mut source, second) = list(&job);
    assert_eq!(
        second
            .items
            .iter()
            .map(|item| &item.uri)
            .collect::<Vec<_>>(),
        first.items.iter().map(|item| &item.uri).collect::<Vec<_>>()
    );
    let conditional: Vec<_> = server
        .requests()
        .iter()
        .filter(|r| r.header("if-none-match").is_some())
        .map(|r| r.target.clone())
        .collect();
    assert_eq!(
        conditional,
        ["/leaf"],
        "the links of the first page are needed"
    );
    let leaf = &second.items[1];
    assert_eq!(
        source.fetch(leaf, job.known.get(&leaf.uri)).unwrap(),
        FetchOutcome::Unchanged {
            validator: leaf.validator.clone()
        }
    );
    changed.store(true, Ordering::SeqCst);
    let (mut source, third) = list(&job);
    assert_eq!(
        support::bytes(source.as_mut(), &third.items[1]).unwrap(),
        b"\"2\""
    );
}

#[test]
fn a_crawl_of_endless_pages_ends() {
    let server = Server::start(|request| match request.target.as_str() {
        "/robots.txt" | "/sitemap.xml" => Reply::not_found(),
        path => Reply::html(
            &("<meta name=robots content=noindex>".to_owned()
                + &link(&format!("{path}1"))
                + &link(&format!("{path}2"))),
        ),
    });
    let crawled = crawl(&server, json!({"depth": 100, "maxPages": 5}));
    assert_eq!((crawled.paths(), crawled.listing.complete), (vec![], true));
    assert!(server.targets().len() <= 130, "{}", server.targets().len());
}
