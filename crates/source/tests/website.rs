//! Websites of linked pages from a real server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod support;
mod web;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rag_protocol::{
    ingest::{Job, KnownVersion},
    spec::SourceSpec,
};
use rag_source::{FetchOutcome, Listing, SourceReader};
use serde_json::{Value, json};
use support::web_job;
use tempfile::{TempDir, tempdir};
use web::{HttpRequest, Reply, Server, Then};

/// A site whose pages are its paths, with their HTML.
fn site(pages: &[(&str, &str)]) -> Server {
    let pages: BTreeMap<String, String> = pages
        .iter()
        .map(|(path, html)| (path.to_string(), html.to_string()))
        .collect();
    Server::start(
        move |request| match (pages.get(&request.target), request.target.as_str()) {
            (Some(text), "/robots.txt") => Reply::ok("text/plain", text),
            (Some(text), path) if path.ends_with(".xml") => Reply::ok("application/xml", text),
            (Some(html), _) => Reply::html(html),
            (None, _) => Reply::not_found(),
        },
    )
}

fn link(to: &str) -> String {
    format!("<p><a href='{to}'>{to}</a></p>")
}

struct Crawled {
    listing: Listing,
    source: Box<dyn SourceReader>,
    origin: String,
    _folder: TempDir,
}

impl Crawled {
    /// The paths of the documents.
    fn paths(&self) -> Vec<&str> {
        self.listing
            .items
            .iter()
            .map(|item| item.uri.strip_prefix(&self.origin).unwrap())
            .collect()
    }

    fn failures(&self) -> Vec<(&str, &str)> {
        let failures = self.listing.failures.iter();
        failures
            .map(|f| {
                (
                    f.uri.strip_prefix(&self.origin).unwrap(),
                    f.message.as_str(),
                )
            })
            .collect()
    }
}

fn job(server: &Server, mut spec: Value, folder: &TempDir) -> Job {
    let fields = spec.as_object_mut().unwrap();
    let start = fields
        .get("url")
        .and_then(Value::as_str)
        .unwrap_or("/")
        .to_owned();
    fields.insert("url".into(), server.url(&start).into());
    fields.entry("delay").or_insert(json!(0));
    web_job("website", &spec, folder.path())
}

fn crawl(server: &Server, spec: Value) -> Crawled {
    let folder = tempdir().unwrap();
    let mut source = rag_source::open(&job(server, spec, &folder)).unwrap();
    let listing = source.list().unwrap();
    Crawled {
        listing,
        source,
        origin: server.origin.clone(),
        _folder: folder,
    }
}

fn refused(server: &Server) -> String {
    let folder = tempdir().unwrap();
    rag_source::open(&job(server, json!({}), &folder))
        .unwrap()
        .list()
        .unwrap_err()
        .message
}

#[test]
fn pages_are_found_by_their_links_and_read_once() {
    let server = site(&[
        (
            "/",
            "<a href='docs/'>D</a> <a href='docs/#top'>again</a> <a href='?'>self</a> <a \
                href='mailto:a@b'>M</a>",
        ),
        (
            "/docs/",
            &(link("one.html") + &link("../docs/one.html?x=1") + &link("/")),
        ),
        ("/docs/one.html", "<h1>One</h1>"),
        ("/docs/one.html?x=1", "<h1>Another</h1>"),
    ]);
    let mut crawled = crawl(&server, json!({}));
    assert_eq!(
        crawled.paths(),
        ["/", "/docs/", "/docs/one.html", "/docs/one.html?x=1"]
    );
    assert!(crawled.listing.complete);
    assert_eq!(
        server.targets(),
        [
            "/robots.txt",
            "/",
            "/sitemap.xml",
            "/docs/",
            "/docs/one.html",
            "/docs/one.html?x=1"
        ]
    );
    let item = crawled.listing.items[2].clone();
    assert_eq!((item.name.as_str(), item.size), ("one.html", 12));
    let Ok(FetchOutcome::Content(content)) = crawled.source.fetch(&item, None) else {
        panic!("it was fetched")
    };
    assert_eq!(
        (content.bytes.as_slice(), content.media_type.as_deref()),
        (&b"<h1>One</h1>"[..], Some("text/html; charset=utf-8"))
    );
}

#[test]
fn a_crawl_limited_by_depth_or_pages_is_complete() {
    let chain: Vec<_> = (0..9)
        .map(|i| (format!("/{i}"), link(&format!("/{}", i + 1))))
        .collect();
    let mut pages: Vec<_> = chain
        .iter()
        .map(|(path, html)| (path.as_str(), html.as_str()))
        .collect();
    pages.push(("/", "<a href=/0><a href=/x>"));
    let server = site(&pages);
    assert_eq!(crawl(&server, json!({"depth": 0})).paths(), ["/"]);
    assert_eq!(crawl(&server, json!({})).paths(), ["/", "/0", "/1"]);
    let crawled = crawl(&server, json!({"depth": 9, "maxPages": 4}));
    assert_eq!(
        (crawled.paths(), crawled.listing.complete),
        (vec!["/", "/0", "/1", "/2"], true)
    );
}

#[test]
fn patterns_select_paths_and_exclusion_wins() {
    let server = site(&[
        (
            "/",
            &[
                "/docs/",
                "/docs/a",
                "/docs/old/b",
                "/blog/c",
                "/docs/%C3%BC.html",
            ]
            .map(link)
            .concat(),
        ),
        ("/docs/", &link("/docs/d")),
        ("/docs/a", ""),
        ("/docs/d", ""),
        ("/docs/old/b", ""),
        ("/docs/%C3%BC.html", ""),
        ("/blog/c", ""),
    ]);
    let crawled = crawl(
        &server,
        json!({"include": ["/docs/"], "exclude": ["old/", "ü.html"]}),
    );
    assert_eq!(crawled.paths(), ["/docs/", "/docs/a", "/docs/d"]);
    let fetched = server.targets();
    assert!(
        !fetched
            .iter()
            .any(|path| path.contains("old") || path.contains("blog") || path.contains("C3")),
        "{fetched:?}"
    );
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({}), &folder);
    // no definition can have it, and a run looks itself
    let SourceSpec::Website(spec) = &mut job.source else {
        panic!("a website")
    };
    spec.filter.paths = vec!["[z-a]".into()];
    let error = rag_source::open(&job).err().unwrap();
    assert_eq!(
        error.message,
        "spec.include: \"[z-a]\" is not a valid pattern"
    );
}

#[test]
fn other_hosts_are_other_sites() {
    let other = site(&[("/", "")]);
    let server = Server::start({
        let there = other.url("/");
        move |request| match request.target.as_str() {
            "/" => Reply::html(
                &(link(&there)
                    + &link("/away")
                    + &link("http://localhost/")
                    + &link("ftp://127.0.0.1/")
                    + &link("/here")),
            ),
            "/away" => Reply::redirect(&there),
            "/here" => Reply::html(""),
            _ => Reply::not_found(),
        }
    });
    for same_site in ["host", "domain"] {
        let crawled = crawl(&server, json!({"sameSite": same_site}));
        assert_eq!(crawled.paths(), ["/", "/here"]);
        assert!(crawled.failures().is_empty() && crawled.listing.complete);
    }
    assert!(
        !other.targets().contains(&"/robots.txt".to_owned()),
        "it was never a part of the site"
    );
}

#[test]
fn robots_txt_is_obeyed() {
    let server = site(&[
        (
            "/robots.txt",
            "User-agent: *\nDisallow: /\n\nUser-agent: rag\nDisallow: /private/\nAllow: \
                /private/open\n",
        ),
        (
            "/",
            &["/a", "/private/b", "/private/open"].map(link).concat(),
        ),
        ("/a", ""),
        ("/private/b", ""),
        ("/private/open", ""),
    ]);
    assert_eq!(
        crawl(&server, json!({})).paths(),
        ["/", "/a", "/private/open"]
    );
    assert!(!server.targets().contains(&"/private/b".to_owned()));

    let closed = site(&[("/robots.txt", "User-agent: *\nDisallow: /\n"), ("/", "")]);
    assert_eq!(
        refused(&closed),
        format!("robots.txt does not allow fetching {}/", closed.origin)
    );
    assert_eq!(closed.targets(), ["/robots.txt"]);
}

#[test]
fn an_unavailable_robots_txt_forbids_everything() {
    let server = Server::start(|request| match request.target.as_str() {
        "/robots.txt" => Reply::new("503 Service Unavailable", &[("Retry-After", "3600")], ""),
        _ => Reply::html(""),
    });
    let message = refused(&server);
    assert!(
        message.contains("/robots.txt limits the rate of requests and asks to wait 3600 s"),
        "{message}"
    );
    assert_eq!(server.targets(), ["/robots.txt"]);
}

#[test]
fn delays_lie_between_requests() {
    let server = site(&[("/", &link("/a")), ("/a", "")]);
    let started = Instant::now();
    crawl(&server, json!({"delay": 0.2}));
    assert!(
        started.elapsed() >= Duration::from_millis(600),
        "four requests have three pauses"
    );

    let server = site(&[
        ("/robots.txt", "User-agent: *\nCrawl-delay: 0.3\n"),
        ("/", &link("/a")),
        ("/a", ""),
    ]);
    let started = Instant::now();
    crawl(&server, json!({"sitemap": false}));
    assert!(started.elapsed() >= Duration::from_millis(600));
}

#[test]
fn sitemaps_add_pages_that_nothing_links_to() {
    let server = Server::start(|request| {
        let at = format!("http://{}", request.header("host").unwrap());
        let urlset = |paths: &[&str]| {
            let pages: String = paths
                .iter()
                .map(|path| format!("<url><loc>{at}{path}</loc></url>"))
                .collect();
            Reply::ok(
                "application/xml",
                format!(
                    "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{pages}</urlset>"
                ),
            )
        };
        match request.target.as_str() {
            "/robots.txt" => Reply::ok("text/plain", format!("Sitemap: {at}/index.xml\n")),
            "/index.xml" => Reply::ok(
                "application/xml",
                format!(
                    "<sitemapindex><sitemap><loc>{at}/1.xml</loc></sitemap><sitemap><loc>{at}/gone.xml</loc></sitemap></sitemapindex>"
                ),
            ),
            "/1.xml" => urlset(&["/hidden?a=1&amp;b=2", "/other"]),
            "/sitemap.xml" => urlset(&["/unused"]),
            "/" | "/other" | "/hidden?a=1&b=2" => Reply::html(""),
            _ => Reply::not_found(),
        }
    });
    let crawled = crawl(&server, json!({}));
    assert_eq!(crawled.paths(), ["/", "/hidden?a=1&b=2", "/other"]);
    assert!(crawled.listing.complete && crawled.failures().is_empty());
    assert_eq!(crawl(&server, json!({"sitemap": false})).paths(), ["/"]);
    assert_eq!(crawl(&server, json!({"depth": 0})).paths(), ["/"]);
}

#[test]
fn a_page_at_the_address_of_a_sitemap_is_ignored_and_a_malformed_sitemap_is_a_failure() {
    let fallback =
        Server::start(|_| Reply::html("<html><body>Everything is a page here</body></html>"));
    assert!(crawl(&fallback, json!({})).listing.complete);
    let broken = site(&[
        ("/", ""),
        ("/sitemap.xml", "<urlset><url></loc></urlset>"),
        ("/robots.txt", "Sitemap: /sitemap.xml"),
    ]);
    let crawled = crawl(&broken, json!({}));
    assert!(!crawled.listing.complete);
    assert_eq!(crawled.failures()[0].0, "/sitemap.xml");
}

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
    assert_eq!((crawled.listing.skipped, crawled.failures().len()), (3, 0));
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
