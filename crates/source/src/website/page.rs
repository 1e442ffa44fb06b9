//! What a page tells crawlers: its links, its canonical address and its robots directives.
//!
//! Only the tokens of the HTML are read and no tree is built: the time is linear for any nesting.

use std::cell::RefCell;

use html5ever::{
    Attribute, LocalName,
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};
use url::Url;

/// Further links of a page are ignored.
const MAX_LINKS: usize = 10_000;
/// Longer addresses are ignored.
const MAX_ADDRESS: usize = 4096;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of the page, without fragments; may contain duplicates.
    pub links: Vec<Url>,
    pub canonical: Option<Url>,
    /// The page must not become a document.
    pub noindex: bool,
    /// Its links must not be followed.
    pub nofollow: bool,
}

impl Page {
    /// Reads a page that was found at `address`, with its `X-Robots-Tag` headers.
    pub fn read(html: &[u8], address: &Url, headers: &[String]) -> Self {
        let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from_slice(&String::from_utf8_lossy(html)));
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        let found = tokenizer.sink.found.into_inner();
        let base = found.base.and_then(|base| address.join(&base).ok());
        let base = base.as_ref().unwrap_or(address);
        let resolve = |link: &String| {
            let mut url = base.join(link).ok()?;
            url.set_fragment(None);
            Some(url)
        };
        let mut page = Self {
            links: found.links.iter().filter_map(resolve).collect(),
            canonical: found.canonical.as_ref().and_then(resolve),
            ..Self::default()
        };
        for directives in headers
            .iter()
            .filter_map(|header| of_this_robot(header))
            .chain(found.robots.iter().map(String::as_str))
        {
            page.obey(directives);
        }
        page
    }

    /// Reads only the headers, for a document that is not HTML.
    pub fn of_headers(headers: &[String]) -> Self {
        let mut page = Self::default();
        headers
            .iter()
            .filter_map(|header| of_this_robot(header))
            .for_each(|directives| page.obey(directives));
        page
    }

    fn obey(&mut self, directives: &str) {
        for directive in directives
            .split(',')
            .map(|directive| directive.trim().to_ascii_lowercase())
        {
            self.noindex |= matches!(directive.as_str(), "noindex" | "none");
            self.nofollow |= matches!(directive.as_str(), "nofollow" | "none");
        }
    }
}

/// The directives of `X-Robots-Tag`, unless they are for another robot: `otherbot: noindex`.
fn of_this_robot(header: &str) -> Option<&str> {
    match header.split_once(':') {
        Some((name, directives)) if name.trim().eq_ignore_ascii_case("rag") => Some(directives),
        Some((name, _))
            if !name.contains(',') && !name.trim().eq_ignore_ascii_case("unavailable_after") =>
        {
            None
        }
        _ => Some(header),
    }
}

#[derive(Default)]
struct Found {
    links: Vec<String>,
    base: Option<String>,
    canonical: Option<String>,
    robots: Vec<String>,
}

#[derive(Default)]
struct Sink {
    found: RefCell<Found>,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                self.take(&tag);
                // their content is not markup
                match &*tag.name {
                    "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
                        TokenSinkResult::RawData(RawKind::Rawtext)
                    }
                    "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
                    "plaintext" => TokenSinkResult::Plaintext,
                    _ => TokenSinkResult::Continue,
                }
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

impl Sink {
    fn take(&self, tag: &Tag) {
        let mut found = self.found.borrow_mut();
        let get = |name: &str| attribute(&tag.attrs, name);
        let has = |name: &str, word: &str| {
            get(name).is_some_and(|value| {
                value
                    .split_ascii_whitespace()
                    .any(|w| w.eq_ignore_ascii_case(word))
            })
        };
        let address = |name: &str| {
            get(name)
                .map(str::trim)
                .filter(|address| address.len() <= MAX_ADDRESS)
        };
        match &*tag.name {
            "a" | "area" if !has("rel", "nofollow") && found.links.len() < MAX_LINKS => {
                found.links.extend(address("href").map(Into::into));
            }
            "frame" if found.links.len() < MAX_LINKS => {
                found.links.extend(address("src").map(Into::into))
            }
            "base" if found.base.is_none() => found.base = address("href").map(Into::into),
            "link" if found.canonical.is_none() && has("rel", "canonical") => {
                found.canonical = address("href")
                    .filter(|address| !address.is_empty())
                    .map(Into::into);
            }
            "meta"
                if get("name").is_some_and(|name| {
                    ["robots", "rag"]
                        .iter()
                        .any(|n| name.trim().eq_ignore_ascii_case(n))
                }) =>
            {
                found.robots.extend(get("content").map(Into::into));
            }
            _ => {}
        }
    }
}

fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    let name = LocalName::from(name);
    attributes
        .iter()
        .find(|attribute| attribute.name.local == name)
        .map(|attribute| &*attribute.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Page {
        Page::read(
            html.as_bytes(),
            &Url::parse("https://a.example/docs/page.html?x=1#y").unwrap(),
            &[],
        )
    }

    fn links(html: &str) -> Vec<String> {
        read(html).links.into_iter().map(Into::into).collect()
    }

    #[test]
    fn links_are_resolved_and_lose_their_fragments() {
        assert_eq!(
            links(
                "<a href=b.html>B<a HREF='/c#d'> <area href='//e.example/f'><a href=' \
                    ../g?h=1&amp;i '><a name=x><a href='http://['>"
            ),
            [
                "https://a.example/docs/b.html",
                "https://a.example/c",
                "https://e.example/f",
                "https://a.example/g?h=1&i"
            ]
        );
        assert_eq!(
            links("<base href='/other/'><base href='/third/'><a href=b>"),
            ["https://a.example/other/b"]
        );
    }

    #[test]
    fn links_that_crawlers_must_not_follow_are_left_out() {
        let none = [
            "<a rel='noopener nofollow' href=b>",
            "<!-- <a href=b> -->",
            "<script>x = '<a href=b>'</script>",
            "<textarea><a href=b></textarea>",
            "<style><a href=b></style>",
            "<link rel=alternate href=b>",
        ];
        for html in none {
            assert!(links(html).is_empty(), "{html}");
        }
    }

    #[test]
    fn directives_for_all_robots_and_for_this_one_are_obeyed() {
        let read = |html: &str, headers: &[&str]| {
            let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
            let page = Page::read(
                html.as_bytes(),
                &Url::parse("https://a.example/").unwrap(),
                &headers,
            );
            (page.noindex, page.nofollow)
        };
        assert_eq!(
            read("<meta name=ROBOTS content='NoIndex, follow'>", &[]),
            (true, false)
        );
        assert_eq!(read("<meta name=rag content=none>", &[]), (true, true));
        assert_eq!(
            read("<meta name=otherbot content=none>", &["otherbot: noindex"]),
            (false, false)
        );
        assert_eq!(read("", &["rag: nofollow"]), (false, true));
        assert_eq!(
            read(
                "",
                &["noindex, unavailable_after: 25 Jun 2030 15:00:00 GMT"]
            ),
            (true, false)
        );
    }

    #[test]
    fn the_first_canonical_link_counts() {
        let page =
            read("<link rel='x Canonical' href='/docs/page#top'><link rel=canonical href=/z>");
        assert_eq!(
            page.canonical.map(String::from),
            Some("https://a.example/docs/page".into())
        );
    }

    #[test]
    fn deep_nesting_and_broken_markup_are_read_in_linear_time() {
        let html = "<div><b>".repeat(200_000) + "<a href=b><a <a <!" + &"<".repeat(100_000);
        assert_eq!(links(&html), ["https://a.example/docs/b"]);
    }
}
