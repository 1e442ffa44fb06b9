//! Which pages of a website are found, from a real server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::time::{Duration, Instant};

use crate::site::{crawl, job, link, refused, site};
use crate::web::{Reply, Server};
use rag_definition::source::SourceSpec;
use rag_source::FetchOutcome;
use serde_json::json;
use tempfile::tempdir;

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
