//! Lists of pages that a site publishes: sitemaps (sitemaps.org), as XML or as lines, and feeds.
//! Plain or compressed.

mod date;
mod feed;
mod sitemap;

use std::{borrow::Cow, io::Read};

use flate2::read::MultiGzDecoder;
use quick_xml::{Reader, XmlVersion::Implicit1_0 as XML, events::BytesStart, events::Event};

pub use self::date::Date;

/// What a list names. Addresses are as written, and may be relative.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageList {
    pub pages: Vec<ListedPage>,
    /// Further lists: the sitemaps of an index, the next page of a feed.
    pub lists: Vec<String>,
    pub is_feed: bool,
    /// The page that a feed is of.
    pub home: Option<String>,
}

/// A page as a list names it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ListedPage {
    pub address: String,
    /// When the page was changed last.
    pub modified: Option<Date>,
    /// When an entry of a feed was published.
    pub published: Option<Date>,
    /// The page in other languages: tags and addresses.
    pub variants: Vec<(String, String)>,
}

/// Limits of a list.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// After decompression.
    pub bytes: u64,
    pub addresses: usize,
}

/// Reads a list, up to a number of addresses.
///
/// # Errors
/// Says why it is not a valid list.
pub fn read(bytes: &[u8], limits: Limits) -> Result<PageList, String> {
    let plain = decompressed(bytes, limits.bytes)?;
    let text = String::from_utf8_lossy(&plain);
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    if text.starts_with('{') {
        return feed::in_json(text, limits.addresses);
    }
    if !text.starts_with('<') {
        return sitemap::in_lines(text, limits.addresses);
    }
    match root(text)?.as_str() {
        "urlset" | "sitemapindex" => sitemap::in_xml(text, limits.addresses),
        "rss" | "feed" | "RDF" => feed::in_xml(text, limits.addresses),
        _ => Err(NO_LIST.into()),
    }
}

const NO_LIST: &str = "it is not a sitemap";

/// Returns true for bytes that begin as a feed or a sitemap in XML does.
pub fn is_likely(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(2000)];
    let text = String::from_utf8_lossy(begin);
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    let lists = ["urlset", "sitemapindex", "rss", "feed", "RDF"];
    text.starts_with('<') && root(text).is_ok_and(|name| lists.contains(&name.as_str()))
}

/// Returns the local name of the first element.
fn root(text: &str) -> Result<String, String> {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|error| invalid(&error))? {
            Event::Start(tag) | Event::Empty(tag) => {
                return Ok(tag.local_name().as_ref().to_owned());
            }
            Event::Eof => return Err(NO_LIST.into()),
            _ => {}
        }
    }
}

fn invalid(error: &quick_xml::Error) -> String {
    format!("the sitemap is not valid XML: {error}")
}

fn decompressed(bytes: &[u8], max_bytes: u64) -> Result<Cow<'_, [u8]>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.into());
    }
    let mut plain = vec![];
    let read = MultiGzDecoder::new(bytes)
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut plain);
    read.map_err(|error| format!("the compressed sitemap is corrupted: {error}"))?;
    if plain.len() as u64 > max_bytes {
        return Err(format!("the sitemap has more than {max_bytes} bytes"));
    }
    Ok(plain.into())
}

/// Returns the text of an event, or `None` for one that is no text.
fn text_of<'a>(event: &'a Event<'_>) -> Option<Cow<'a, str>> {
    match event {
        Event::Text(text) => Some(Cow::Borrowed(text)),
        Event::CData(text) => Some(Cow::Borrowed(text)),
        Event::GeneralRef(reference) => Some(match &**reference {
            "amp" => "&".into(),
            "lt" => "<".into(),
            "gt" => ">".into(),
            "quot" => "\"".into(),
            "apos" => "'".into(),
            _ => match reference.resolve_char_ref() {
                Ok(Some(c)) => c.to_string().into(),
                _ => "".into(),
            },
        }),
        _ => None,
    }
}

/// Returns the value of an attribute, by its name without the prefix.
fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|it| it.key.local_name().into_inner() == name)?;
    Some(found.normalized_value(XML).ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 1000,
        addresses: 10,
    };

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lists_are_read_plain_and_compressed() {
        let lines = "https://a.example/\n";
        let whole = read(lines.as_bytes(), LIMITS).unwrap();
        assert_eq!(whole.pages.len(), 1);
        assert_eq!(read(&gzip(lines), LIMITS).unwrap(), whole);
    }

    #[test]
    fn other_files_are_refused() {
        let bomb = gzip(&" ".repeat(100_000));
        let urlset = gzip(&format!("<urlset>{}</urlset>", "<url></url>".repeat(40)));
        for (bytes, expected) in [
            (&b""[..], "it is not a sitemap"),
            (
                b"<html><body>Not found</body></html>",
                "it is not a sitemap",
            ),
            (
                b"<urlset><url></loc></urlset>",
                "the sitemap is not valid XML",
            ),
            (b"{\"items\": 1}", "it is not a feed"),
            (b"Not found", "it is not a sitemap"),
            (&bomb, "the sitemap has more than 1000 bytes"),
            (&urlset[..20], "the compressed sitemap is corrupted"),
        ] {
            let error = read(bytes, LIMITS).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn feeds_are_told_from_pages() {
        for (text, expected) in [
            ("<?xml version='1.0'?><!-- x -->\n<rss version='2.0'>", true),
            ("\u{FEFF}<feed xmlns='http://www.w3.org/2005/Atom'>", true),
            ("<rdf:RDF xmlns:rdf='x'>", true),
            ("<!DOCTYPE html><html><rss>", false),
            ("rss", false),
            ("", false),
        ] {
            assert_eq!(is_likely(text.as_bytes()), expected, "{text}");
        }
    }
}
