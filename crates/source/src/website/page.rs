//! What a page tells crawlers: its links, its canonical address, where it redirects to, its robots
//! directives, and whether its text is that of another page.
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

use super::{
    address::normalized,
    language::tag_of,
    refresh::Refresh,
    text::{Text, TextHash, decoded},
};

/// Further links of a page are ignored.
const MAX_LINKS: usize = 10_000;
/// Maximum number of languages of a page.
const MAX_VARIANTS: usize = 200;
/// Longer addresses are ignored.
const MAX_ADDRESS: usize = 4096;
/// A page that a browser leaves within this number of seconds is not there to be read.
const MAX_REFRESH_DELAY: u32 = 5;
/// A refresh for browsers without scripts counts only on a page with so few letters: it tells where
/// to go. A page with more text is there to be read, and sends these browsers elsewhere.
const MAX_NOTICE: usize = 500;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of the page, without fragments; may contain duplicates.
    pub links: Vec<Url>,
    pub canonical: Option<Url>,
    /// The tag of its language, in small letters.
    pub language: Option<String>,
    /// The page in several languages: tags in small letters, and addresses.
    pub variants: Vec<(String, Url)>,
    /// Where the page sends its readers before they can read it.
    pub refresh: Option<Url>,
    /// `None` for a page without text.
    pub text: Option<TextHash>,
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
        input.push_back(StrTendril::from_slice(&decoded(html)));
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        let mut found = tokenizer.sink.found.into_inner();
        let base = found.base.take().and_then(|base| address.join(&base).ok());
        let base = base.as_ref().unwrap_or(address);
        let resolve = |link: &String| {
            let mut url = base.join(link).ok()?;
            url.set_fragment(None);
            Some(url)
        };
        let mut page = Self {
            links: found.links.iter().filter_map(resolve).collect(),
            canonical: found.canonical.as_ref().and_then(resolve),
            language: found.language.take(),
            variants: found
                .variants
                .iter()
                .filter_map(|(tag, link)| Some((tag.clone(), resolve(link)?)))
                .collect(),
            ..Self::default()
        };
        let refresh = found.refresh.take().and_then(|(refresh, target)| {
            let target = resolve(&target).filter(|url| matches!(url.scheme(), "http" | "https"))?;
            (normalized(target.clone()) != normalized(address.clone())).then_some((refresh, target))
        });
        match refresh {
            Some((delay, target)) if found.leaves(delay) => page.refresh = Some(target),
            // the page can be read, and its readers come to the other
            Some((_, target)) => page.links.push(target),
            None => {}
        }
        page.text = found.text.finish();
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
    language: Option<String>,
    variants: Vec<(String, String)>,
    robots: Vec<String>,
    /// The first refresh: its delay in seconds, and its target.
    refresh: Option<(Delay, String)>,
    /// Title and text, and what stands for pictures.
    text: Text,
    /// The number of letters outside of the title.
    letters: usize,
    /// The element whose content is not markup.
    raw: Option<LocalName>,
    in_noscript: bool,
}

/// The time after which browsers leave a page.
#[derive(Clone, Copy)]
struct Delay {
    seconds: u32,
    /// Only those without scripts leave it.
    in_noscript: bool,
}

impl Found {
    /// Returns true if a page is not there to be read.
    fn leaves(&self, delay: Delay) -> bool {
        delay.seconds <= MAX_REFRESH_DELAY && (!delay.in_noscript || self.letters <= MAX_NOTICE)
    }

    fn add_text(&mut self, text: &str) {
        match self.raw.as_deref() {
            Some("script" | "style" | "iframe" | "noembed" | "noframes") => return,
            Some("title") => {}
            _ => self.letters += text.chars().filter(|c| !c.is_whitespace()).count(),
        }
        self.text.add(text);
    }
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
                let raw = match &*tag.name {
                    "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
                        TokenSinkResult::RawData(RawKind::Rawtext)
                    }
                    "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
                    "plaintext" => TokenSinkResult::Plaintext,
                    _ => return TokenSinkResult::Continue,
                };
                self.found.borrow_mut().raw = Some(tag.name);
                return raw;
            }
            Token::TagToken(tag) => {
                let mut found = self.found.borrow_mut();
                found.text.part();
                found.raw = None;
                found.in_noscript &= &*tag.name != "noscript";
            }
            Token::CharacterTokens(text) => self.found.borrow_mut().add_text(&text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Sink {
    fn take(&self, tag: &Tag) {
        let mut found = self.found.borrow_mut();
        found.text.part();
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
            "noscript" => found.in_noscript = true,
            "img" => found.text.add(get("alt").unwrap_or_default()),
            "base" if found.base.is_none() => found.base = address("href").map(Into::into),
            "html" if found.language.is_none() => {
                found.language = get("lang").or_else(|| get("xml:lang")).and_then(tag_of);
            }
            "link" if has("rel", "alternate") && get("hreflang").is_some() => {
                let tag = get("hreflang").and_then(tag_of);
                if let Some((tag, address)) = tag.zip(address("href"))
                    && found.variants.len() < MAX_VARIANTS
                {
                    found.variants.push((tag, address.into()));
                }
            }
            "link" if found.canonical.is_none() && has("rel", "canonical") => {
                found.canonical = address("href")
                    .filter(|address| !address.is_empty())
                    .map(Into::into);
            }
            "meta"
                if found.refresh.is_none()
                    && get("http-equiv")
                        .is_some_and(|name| name.trim().eq_ignore_ascii_case("refresh")) =>
            {
                let refresh = get("content")
                    .and_then(Refresh::parse)
                    .filter(|refresh| refresh.target.len() <= MAX_ADDRESS);
                if let Some(refresh) = refresh {
                    let (seconds, in_noscript) = (refresh.delay, found.in_noscript);
                    let delay = Delay {
                        seconds,
                        in_noscript,
                    };
                    found.refresh = Some((delay, refresh.target.into()));
                }
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

    fn refresh(html: &str) -> Option<String> {
        read(html).refresh.map(String::from)
    }

    #[test]
    fn a_page_that_is_left_at_once_redirects() {
        let to = |content: &str| format!("<meta http-equiv=Refresh content='{content}'>");
        for (html, expected) in [
            (to("0; url=latest/"), Some("https://a.example/docs/latest/")),
            (to("5;URL=/b#top"), Some("https://a.example/b")),
            (
                "<base href=/x/>".to_owned() + &to("0;y"),
                Some("https://a.example/x/y"),
            ),
            (to("0;url=https://e.example"), Some("https://e.example/")),
            (
                to("x") + &to("0;url=b") + &to("0;url=c"),
                Some("https://a.example/docs/b"),
            ),
            // the page itself again
            (to("0"), None),
            (to("0; url="), None),
            (to("0; url=#top"), None),
            (to("0; url=page.html?x=1&utm_source=self"), None),
            // readers have time, or stay
            (to("6; url=b"), None),
            (to("0; url=javascript:x()"), None),
            (to("0; url=app://open"), None),
            (format!("<!-- {} -->", to("0; url=b")), None),
            (
                format!("<script>'{}'</script>", to("0; url=b").replace('\'', "")),
                None,
            ),
            (to(&format!("0; url={}", "b".repeat(5000))), None),
        ] {
            assert_eq!(refresh(&html).as_deref(), expected, "{html}");
        }
        assert_eq!(
            links(&to("6; url=b")),
            ["https://a.example/docs/b"],
            "readers come to it later"
        );
    }

    #[test]
    fn a_page_for_browsers_with_scripts_is_read() {
        let other = "<noscript><meta http-equiv=refresh content='0; url=plain'></noscript>";
        let notice = format!("<title>Redirecting</title>{other}Redirecting to <a href=b>b</a>...");
        assert_eq!(
            refresh(&notice).as_deref(),
            Some("https://a.example/docs/plain")
        );
        let page = other.to_owned() + &"<p>Words to read. </p>".repeat(50);
        assert_eq!(refresh(&page), None);
        assert_eq!(links(&page), ["https://a.example/docs/plain"]);
    }

    #[test]
    fn equal_texts_are_recognized() {
        let text = |html: &str| read(html).text;
        let page = text("<title>T</title><p>One two &amp; three.</p>");
        assert!(page.is_some());
        for same in [
            "<!-- 1 --><title>T</title>\n<p class=x>One\ttwo\n &amp; three. </p>\n",
            "<title>T</title><script nonce=1>let x = 2;</script><p>One two &#38; three.",
            "<link rel=canonical href=/x><style>p{}</style><TITLE>T</TITLE><p>One two & three.",
        ] {
            assert_eq!(text(same), page, "{same}");
        }
        for other in [
            "<title>U</title><p>One two &amp; three.</p>",
            "<title>T</title><p>One two &amp; four.</p>",
            "<title>T</title><p>Onetwo &amp; three.</p>",
            "<title>T</title><p>One two &amp; three.</p><img alt=Cat>",
        ] {
            assert_ne!(text(other), page, "{other}");
        }
        for none in ["", " \n", "<p><img src=a.png></p><script>x</script>"] {
            assert_eq!(text(none), None, "{none}");
        }
    }

    #[test]
    fn texts_in_other_encodings_are_told_apart() {
        let text =
            |bytes: &[u8]| Page::read(bytes, &Url::parse("https://a.example/").unwrap(), &[]).text;
        assert_ne!(text(b"<p>Gr\xf6\xdfe"), text(b"<p>Gr\xfc\xdfe"));
        assert_ne!(text(b"\xff\xfe<\0p\0>\0a\0"), text(b"\xff\xfe<\0p\0>\0b\0"));
        assert_eq!(
            Page::read(
                b"<p>\xf6<a href=b>",
                &Url::parse("https://a.example/").unwrap(),
                &[]
            )
            .links
            .len(),
            1
        );
    }

    #[test]
    fn deep_nesting_and_broken_markup_are_read_in_linear_time() {
        let html = "<div><b>".repeat(200_000) + "<a href=b><a <a <!" + &"<".repeat(100_000);
        assert_eq!(links(&html), ["https://a.example/docs/b"]);
    }
}
