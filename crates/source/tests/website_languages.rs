//! Pages of a website in several languages, from a real server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::site::{crawl, link, site};
use crate::web::Server;
use rag_protocol::skipped::SkippedPage;
use serde_json::json;

/// A page with its variants: tags and paths.
fn page(language: &str, variants: &[(&str, &str)], body: &str) -> String {
    let variants: String = variants
        .iter()
        .map(|(tag, path)| format!("<link rel=alternate hreflang='{tag}' href='{path}'>"))
        .collect();
    format!("<html lang='{language}'><head>{variants}</head><body>{body}</body></html>")
}

const HOME: [(&str, &str); 3] = [("en", "/"), ("de", "/de/"), ("x-default", "/")];
const GUIDE: [(&str, &str); 2] = [("en", "/guide"), ("de", "/de/guide")];

/// A site in English and German. One page is in German alone, and one names a variant that is
/// missing.
fn bilingual() -> Server {
    let missing = [("en", "/lost"), ("de", "/de/lost")];
    let switch = "<a href='/de/' hreflang=de>Deutsch</a>";
    site(&[
        (
            "/",
            &page("en", &HOME, &(link("/guide") + switch + &link("/de/only"))),
        ),
        (
            "/guide",
            &page("en-US", &GUIDE, &("Guide".to_owned() + &link("/de/guide"))),
        ),
        (
            "/de/",
            &page("de", &HOME, &(link("/de/guide") + &link("/de/lost"))),
        ),
        ("/de/guide", &page("de", &GUIDE, "Anleitung")),
        (
            "/de/only",
            &page("de", &[], &("Nur deutsch".to_owned() + &link("/de/lost"))),
        ),
        ("/de/lost", &page("de", &missing, "Verloren")),
    ])
}

#[test]
fn variants_are_indexed_in_the_language_of_the_first_page() {
    let server = bilingual();
    let crawled = crawl(&server, json!({"depth": 5}));
    assert_eq!(
        crawled.paths(),
        ["/", "/de/lost", "/de/only", "/guide"],
        "a page without a variant in English is kept"
    );
    let asked = server.targets();
    assert!(!asked.contains(&"/de/".to_owned()), "{asked:?}");
    assert!(crawled.listing.complete);
    let crawled = crawl(&server, json!({"url": "/de/", "depth": 5}));
    assert_eq!(crawled.paths(), ["/de/", "/de/guide", "/de/lost"]);
}

#[test]
fn a_page_whose_variant_is_found_later_is_left_out() {
    // nothing but the German page leads to the English one
    let server = site(&[
        ("/", &page("en", &[], &link("/de/guide"))),
        ("/guide", &page("en", &GUIDE, "Guide")),
        ("/de/guide", &page("de", &GUIDE, "Anleitung")),
    ]);
    let crawled = crawl(&server, json!({}));
    assert_eq!(crawled.paths(), ["/", "/guide"]);
    let skipped = &crawled.listing.skipped.pages;
    assert_eq!(skipped.get(&SkippedPage::OtherLanguage), Some(&1));
}

#[test]
fn languages_are_chosen() {
    let server = bilingual();
    let all = crawl(&server, json!({"depth": 5, "languages": ["*"]}));
    assert_eq!(
        all.paths(),
        ["/", "/de/", "/de/guide", "/de/lost", "/de/only", "/guide"]
    );
    let german = crawl(&server, json!({"depth": 5, "languages": ["de"]}));
    assert_eq!(
        german.paths(),
        ["/de/", "/de/guide", "/de/lost", "/de/only"]
    );
    let american = crawl(&server, json!({"depth": 5, "languages": ["en-US"]}));
    assert_eq!(
        american.paths(),
        [] as [&str; 0],
        "pages say that they are in English"
    );
    let english = crawl(&server, json!({"depth": 5, "languages": ["EN"]}));
    assert_eq!(english.paths(), ["/", "/guide"]);
}

#[test]
fn pages_that_name_each_other_wrongly_are_read_once() {
    let circle = [("en", "/b"), ("de", "/a")];
    let other = [("en", "/a"), ("de", "/b")];
    let server = site(&[
        ("/", &page("en", &[], &(link("/a") + &link("/b")))),
        ("/a", &page("de", &circle, "A")),
        ("/b", &page("de", &other, "B")),
    ]);
    let crawled = crawl(&server, json!({}));
    assert!(crawled.paths().contains(&"/"));
    assert!(server.targets().len() < 20, "{:?}", server.targets());
}

#[test]
fn a_sitemap_names_variants() {
    let server = site(&[
        ("/", &page("en", &[], "Start")),
        (
            "/sitemap.xml",
            "<urlset xmlns:x='http://www.w3.org/1999/xhtml'><url><loc>/guide</loc>\
             <x:link rel='alternate' hreflang='de-DE' href='/de/guide'/></url></urlset>",
        ),
        ("/guide", &page("en", &[], "Guide")),
        ("/de/guide", &page("de-DE", &[], "Anleitung")),
    ]);
    assert_eq!(crawl(&server, json!({})).paths(), ["/", "/guide"]);
    assert_eq!(
        crawl(&server, json!({"languages": ["de"]})).paths(),
        ["/de/guide"]
    );
}
