//! Pages that lists name: several first pages, feeds, and the dates of sitemaps, from a real server
//! on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use crate::site::{Crawled, crawl, job, link, site};
use crate::support::web_job;
use crate::web::{Reply, Server};
use rag_definition::source::SourceSpec;
use rag_protocol::{
    ingest::{Job, KnownVersion},
    skipped::SkippedPage,
};
use rag_source::{FetchOutcome, Listing, SourceReader};
use serde_json::{Value, json};
use tempfile::tempdir;

/// Crawls with first pages of a server.
fn crawl_from(server: &Server, paths: &[&str], mut spec: Value) -> Result<Crawled, String> {
    let urls: Vec<String> = paths.iter().map(|path| server.url(path)).collect();
    spec["urls"] = urls.into();
    spec["delay"] = 0.into();
    let folder = tempdir().unwrap();
    let mut source = rag_source::open(&web_job("website", &spec, folder.path())).unwrap();
    let listing = source.list().map_err(|error| error.message)?;
    Ok(Crawled::new(listing, source, server.origin.clone(), folder))
}

fn skipped(crawled: &Crawled, why: SkippedPage) -> u64 {
    let pages = &crawled.listing.skipped.pages;
    pages.get(&why).copied().unwrap_or_default()
}

#[test]
fn a_crawl_may_begin_with_several_pages() {
    let server = site(&[
        ("/docs/", &(link("/docs/a") + &link("/blog/"))),
        ("/docs/a", "<p>A</p>"),
        ("/blog/", &link("/blog/1")),
        ("/blog/1", &link("/blog/2")),
        ("/blog/2", "<p>2</p>"),
        ("/elsewhere", "<p>No</p>"),
    ]);
    let crawled = crawl_from(&server, &["/docs/", "/blog/"], json!({"depth": 1})).unwrap();
    assert_eq!(crawled.paths(), ["/blog/", "/blog/1", "/docs/", "/docs/a"]);
    assert!(crawled.listing.complete);
    let sitemaps = server.targets();
    let sitemaps = sitemaps.iter().filter(|path| *path == "/sitemap.xml");
    assert_eq!(sitemaps.count(), 1, "the sitemap is read once");
}

#[test]
fn a_first_page_that_fails_does_not_end_the_crawl_of_the_others() {
    let server = site(&[("/docs/", &link("/docs/a")), ("/docs/a", "<p>A</p>")]);
    let crawled = crawl_from(&server, &["/gone", "/docs/"], json!({})).unwrap();
    assert_eq!(crawled.paths(), ["/docs/", "/docs/a"]);
    assert!(!crawled.listing.complete, "what was found from it is kept");
    let message = format!(
        "could not fetch the first page, {}/gone: the server answered 404 Not Found",
        server.origin
    );
    assert_eq!(crawled.failures(), [("/gone", message.as_str())]);
    let error = crawl_from(&server, &["/gone", "/gone2"], json!({})).err();
    assert_eq!(error, Some(message), "without any of them the run fails");
}

#[test]
fn first_pages_of_several_hosts_are_one_site() {
    let other = site(&[("/", "<p>Other</p>"), ("/x", "<p>X</p>")]);
    let server = site(&[("/", &link(&other.url("/x")))]);
    let folder = tempdir().unwrap();
    let spec = json!({"urls": [server.url("/"), other.url("/")], "delay": 0});
    let mut source = rag_source::open(&web_job("website", &spec, folder.path())).unwrap();
    let mut uris: Vec<String> = source
        .list()
        .unwrap()
        .items
        .into_iter()
        .map(|it| it.uri)
        .collect();
    uris.sort();
    let mut expected = [server.url("/"), other.url("/"), other.url("/x")];
    expected.sort();
    assert_eq!(uris, expected, "links from one to the other are followed");
}

const RSS: &str = "<?xml version='1.0'?><rss version='2.0'><channel><title>News</title>
    <link>/</link>
    <item><link>/news/2?utm_source=rss</link><pubDate>Sat, 31 Jan 2026 12:00:00 GMT</pubDate></item>
    <item><guid isPermaLink='true'>/news/0</guid><link>/news/1</link></item>
    <item><link>https://public.example/elsewhere</link></item>
    </channel></rss>";

fn news(media_type: &'static str, feed: Arc<Mutex<String>>) -> Server {
    Server::start(move |request| match request.target.as_str() {
        "/feed" => Reply::ok(media_type, feed.lock().unwrap().as_str()),
        "/news/1" => Reply::html(&("<p>One</p>".to_owned() + &link("/archive"))),
        "/news/2" => Reply::html("<p>Two</p>"),
        "/news/3" => Reply::html("<p>Three</p>"),
        "/archive" => Reply::html("<p>Archive</p>"),
        _ => Reply::not_found(),
    })
}

#[test]
fn a_feed_is_a_source_of_pages() {
    for media_type in [
        "application/rss+xml",
        "text/xml; charset=utf-8",
        "text/html",
    ] {
        let server = news(media_type, Arc::new(Mutex::new(RSS.into())));
        let mut crawled = crawl(&server, json!({"url": "/feed"}));
        assert_eq!(crawled.paths(), ["/news/1", "/news/2"], "{media_type}");
        assert!(crawled.listing.complete && crawled.failures().is_empty());
        let item = crawled.listing.items[1].clone();
        let Ok(FetchOutcome::Content(content)) = crawled.source.fetch(&item, None) else {
            panic!("it was fetched")
        };
        assert_eq!(content.metadata["published"], "2026-01-31T12:00:00Z");
    }
    let server = news("application/rss+xml", Arc::new(Mutex::new(RSS.into())));
    let crawled = crawl(&server, json!({"url": "/feed", "depth": 2}));
    assert_eq!(crawled.paths(), ["/archive", "/news/1", "/news/2"]);
    let crawled = crawl(&server, json!({"url": "/feed", "depth": 0}));
    assert_eq!(crawled.paths(), ["/news/1", "/news/2"]);
}

#[test]
fn entries_are_relative_to_where_the_feed_is() {
    let server = Server::start(|request| match request.target.as_str() {
        "/feed" => Reply::redirect("/blog/feed.xml"),
        "/blog/feed.xml" => Reply::ok(
            "application/atom+xml",
            "<feed xmlns='http://www.w3.org/2005/Atom'><link rel='next' href='?page=2'/>\
             <entry><link rel='alternate' href='posts/1'/></entry></feed>",
        ),
        "/blog/feed.xml?page=2" => Reply::ok(
            "application/atom+xml",
            "<feed><link rel='next' href='?page=2'/><entry><link href='posts/2'/></entry></feed>",
        ),
        "/blog/posts/1" | "/blog/posts/2" => Reply::html(&format!("<p>{}</p>", request.target)),
        _ => Reply::not_found(),
    });
    let crawled = crawl(&server, json!({"url": "/feed"}));
    assert_eq!(crawled.paths(), ["/blog/posts/1", "/blog/posts/2"]);
}

#[test]
fn entries_that_a_feed_no_longer_names_stay_until_they_are_gone() {
    let feed = Arc::new(Mutex::new(RSS.to_owned()));
    let server = news("application/rss+xml", Arc::clone(&feed));
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({"url": "/feed"}), &folder);
    let (mut source, first) = list(&job);
    remember(&mut job, source.as_mut(), &first);
    *feed.lock().unwrap() =
        "<rss><channel><item><link>/news/3</link></item><item><link>/news/4</link></item>\
         </channel></rss>"
            .to_owned();
    let (_, second) = list(&job);
    assert_eq!(paths(&server, &second), ["/news/1", "/news/2", "/news/3"]);
    assert!(second.complete);
    job.known
        .insert(server.url("/news/0"), KnownVersion::default());
    let (_, third) = list(&job);
    assert_eq!(
        paths(&server, &third),
        ["/news/1", "/news/2", "/news/3"],
        "it is gone"
    );
    let SourceSpec::Website(spec) = &mut job.source else {
        panic!("a website")
    };
    spec.max_pages = 2;
    let (_, limited) = list(&job);
    assert_eq!(
        paths(&server, &limited),
        ["/news/2", "/news/3"],
        "the latest entries are kept"
    );
}

#[test]
fn a_sitemap_may_be_the_first_page() {
    let server = site(&[
        (
            "/map.xml",
            "<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>",
        ),
        ("/a", &link("/c")),
        ("/b", "<p>B</p>"),
        ("/c", "<p>C</p>"),
    ]);
    let crawled = crawl(&server, json!({"url": "/map.xml"}));
    assert_eq!(crawled.paths(), ["/a", "/b"]);
}

#[test]
fn pictures_of_a_sitemap_are_not_requested() {
    let server = site(&[
        ("/", "<p>Start</p>"),
        (
            "/sitemap.xml",
            "<urlset xmlns:image='http://www.google.com/schemas/sitemap-image/1.1'><url><loc>/a</loc>\
             <image:image><image:loc>/a.png</image:loc></image:image></url></urlset>",
        ),
        ("/a", "<p>A</p>"),
    ]);
    assert_eq!(crawl(&server, json!({})).paths(), ["/", "/a"]);
    assert!(!server.targets().contains(&"/a.png".to_owned()));
}

fn list(job: &Job) -> (Box<dyn SourceReader>, Listing) {
    let mut source = rag_source::open(job).unwrap();
    let listing = source.list().unwrap();
    (source, listing)
}

fn paths(server: &Server, listing: &Listing) -> Vec<String> {
    let items = listing.items.iter();
    items
        .map(|item| item.uri.strip_prefix(&server.origin).unwrap().to_owned())
        .collect()
}

/// Stores what a listing has found, as a run does.
fn remember(job: &mut Job, source: &mut dyn SourceReader, listing: &Listing) {
    for item in &listing.items {
        let known = job.known.get(&item.uri).cloned();
        let validator = match source.fetch(item, known.as_ref()).unwrap() {
            FetchOutcome::Content(content) => content.validator,
            FetchOutcome::Unchanged { validator } => {
                validator.or_else(|| known.and_then(|known| known.validator))
            }
            FetchOutcome::Skipped(_) => None,
        };
        let raw_hash = "unused".into();
        job.known.insert(
            item.uri.clone(),
            KnownVersion {
                raw_hash,
                validator,
            },
        );
    }
}

/// Changes the times at which stored pages were fetched.
fn fetched_before(job: &mut Job, seconds: i64) {
    for known in job.known.values_mut() {
        let mut version: Value = serde_json::from_str(known.validator.as_ref().unwrap()).unwrap();
        if let Some(fetched) = version["fetched"].as_i64() {
            version["fetched"] = (fetched - seconds).into();
        }
        known.validator = Some(version.to_string());
    }
}

/// A site whose sitemap says that /a and /b changed in 2020. What /a says changes with `edition`.
fn dated(edition: &Arc<AtomicUsize>) -> Server {
    let edition = Arc::clone(edition);
    Server::start(move |request| match request.target.as_str() {
        "/" => Reply::html(&("<p>Start</p>".to_owned() + &link("/undated"))),
        "/sitemap.xml" => Reply::ok(
            "application/xml",
            "<urlset><url><loc>/a</loc><lastmod>2020-01-31</lastmod></url>\
             <url><loc>/b</loc><lastmod>2020-01-31T00:00:00Z</lastmod></url>\
             <url><loc>/future</loc><lastmod>2999-01-01</lastmod></url></urlset>",
        ),
        "/a" => Reply::html(&format!(
            "<p>Edition {}</p>{}",
            edition.load(Ordering::SeqCst),
            link("/deep")
        )),
        "/b" | "/deep" | "/undated" | "/future" => {
            Reply::html(&format!("<p>Page {}</p>", request.target))
        }
        _ => Reply::not_found(),
    })
}

#[test]
fn pages_that_the_sitemap_calls_unchanged_are_not_fetched() {
    let edition = Arc::default();
    let server = dated(&edition);
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({}), &folder);
    let all = ["/", "/a", "/b", "/deep", "/future", "/undated"];
    for run in 0..3 {
        server.forget();
        let (mut source, listing) = list(&job);
        assert_eq!(paths(&server, &listing), all);
        assert!(listing.complete);
        remember(&mut job, source.as_mut(), &listing);
        let asked = server.targets();
        let is_asked = |path: &str| asked.iter().any(|it| it == path);
        assert_eq!(is_asked("/a") && is_asked("/b"), run == 0, "{asked:?}");
        assert!(is_asked("/future") && is_asked("/undated"), "{asked:?}");
        assert!(
            is_asked("/deep"),
            "it may have changed, and only /a leads to it: {asked:?}"
        );
    }
    // a week later everything is fetched
    fetched_before(&mut job, 8 * 24 * 3600);
    server.forget();
    let (mut source, listing) = list(&job);
    remember(&mut job, source.as_mut(), &listing);
    assert!(server.targets().contains(&"/b".to_owned()));
}

#[test]
fn a_sitemap_whose_times_do_not_change_is_not_believed() {
    let edition = Arc::new(AtomicUsize::new(1));
    let server = dated(&edition);
    let folder = tempdir().unwrap();
    let mut job = job(&server, json!({}), &folder);
    let (mut source, listing) = list(&job);
    remember(&mut job, source.as_mut(), &listing);
    // found out when everything is fetched
    edition.store(2, Ordering::SeqCst);
    fetched_before(&mut job, 8 * 24 * 3600);
    let (mut source, listing) = list(&job);
    remember(&mut job, source.as_mut(), &listing);
    let stored = job.known[&server.url("/a")].validator.clone().unwrap();
    assert!(stored.contains("isStale"), "{stored}");
    for _ in 0..2 {
        server.forget();
        let (mut source, listing) = list(&job);
        remember(&mut job, source.as_mut(), &listing);
        let asked = server.targets();
        for path in ["/a", "/b"] {
            assert!(
                asked.contains(&path.to_owned()),
                "one of two was wrong: {asked:?}"
            );
        }
    }
}

#[test]
fn reasons_of_skipped_addresses_are_counted() {
    let other = site(&[("/", "")]);
    let server = Server::start({
        let there = other.url("/");
        move |request| match request.target.as_str() {
            "/robots.txt" => Reply::ok("text/plain", "User-agent: *\nDisallow: /private\n"),
            "/" => Reply::html(
                &[
                    "/private", "/noindex", "/missing", "/image", "/same", "/away", "/1", "/2",
                ]
                .map(link)
                .concat(),
            ),
            "/noindex" => Reply::html("<meta name=robots content=noindex>"),
            "/image" => Reply::ok("image/png", "x"),
            "/same" => Reply::redirect("/"),
            "/away" => Reply::redirect(&there),
            "/1" | "/2" => Reply::html(&format!("<p>{}</p>", request.target)),
            _ => Reply::not_found(),
        }
    });
    let crawled = crawl(&server, json!({"maxPages": 2}));
    for why in [
        SkippedPage::Forbidden,
        SkippedPage::NotIndexed,
        SkippedPage::Missing,
        SkippedPage::OtherType,
        SkippedPage::OtherAddress,
        SkippedPage::OtherSite,
        SkippedPage::Unvisited,
    ] {
        assert_eq!(
            skipped(&crawled, why),
            1,
            "{why:?}: {:?}",
            crawled.listing.skipped
        );
    }
    assert_eq!(crawled.listing.skipped.total(), 7);
}

#[test]
fn a_crawl_tells_how_far_it_is() {
    let server = site(&[
        ("/", &(link("/a") + &link("/b"))),
        ("/a", "<p>A</p>"),
        ("/b", "<p>B</p>"),
    ]);
    let folder = tempdir().unwrap();
    let mut source = rag_source::open(&job(&server, json!({}), &folder)).unwrap();
    let mut told = vec![];
    source
        .list_with(&mut |progress| {
            told.push((progress.found, progress.waiting, progress.uri.to_owned()));
        })
        .unwrap();
    assert_eq!(told, [(1, 1, server.url("/a")), (2, 0, server.url("/b"))]);
}

#[test]
fn a_server_that_limits_the_rate_is_asked_less_often() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let server = Server::start(move |request| match request.target.as_str() {
        "/" => Reply::html(&["/a", "/b"].map(link).concat()),
        "/a" if counted.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::new("429 Too Many Requests", &[("Retry-After", "0")], "")
        }
        "/a" | "/b" => Reply::html(&format!("<p>{}</p>", request.target)),
        _ => Reply::not_found(),
    });
    let began = std::time::Instant::now();
    let crawled = crawl(&server, json!({"sitemap": false}));
    assert_eq!(crawled.paths(), ["/", "/a", "/b"]);
    let pauses = std::time::Duration::from_millis(500 + 200);
    assert!(
        began.elapsed() >= pauses,
        "the retry waits, and so does the request after it"
    );
}
