//! Citations of search results for people.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rag_protocol::ingest::Title;

use super::SearchHit;

/// A part of a document that is cited.
pub struct CitedPart<'a> {
    pub page: Option<i32>,
    pub lines: (i32, i32),
    pub anchor: Option<&'a str>,
}

impl SearchHit {
    /// Returns a citation: `[1] Key rotation, p. 3 (file:///srv/docs/keys.pdf)`, or for a file of a
    /// repository `[1] Key rotation, docs/keys.md:12-30 @ 1f3a9c0
    /// (https://example.org/guide.git#docs/keys.md)`.
    pub fn citation(&self) -> String {
        self.citation_of(self.rank, &self.part())
    }

    /// Returns the part of the document that was found.
    fn part(&self) -> CitedPart<'_> {
        CitedPart {
            page: self.page,
            lines: (self.start_line, self.end_line),
            anchor: self.anchor.as_deref(),
        }
    }

    /// Returns the citation of another part of the document, with a number of its own.
    pub fn citation_of(&self, rank: i32, part: &CitedPart<'_>) -> String {
        let page = part.page.map(|page| format!("p. {page}"));
        let place = page.or_else(|| {
            let path = escaped(self.path_in_repository()?);
            let lines = format!("{path}:{}-{}", part.lines.0, part.lines.1);
            Some(match self.commit() {
                Some(commit) => format!("{lines} @ {commit}"),
                None => lines,
            })
        });
        let uri = self.link(part);
        // a title that is the name of the file would repeat the path
        let title = self.title.as_deref();
        let title = title.filter(|title| {
            self.path_in_repository()
                .is_none_or(|path| !is_named(path, title))
        });
        match (title.map(escaped), place) {
            (Some(title), Some(place)) => format!("[{rank}] {title}, {place} ({uri})"),
            (Some(title), None) => format!("[{rank}] {title} ({uri})"),
            (None, Some(place)) if self.title.is_some() => format!("[{rank}] {place} ({uri})"),
            (None, Some(place)) => format!("[{rank}] {uri}, {place}"),
            (None, None) => format!("[{rank}] {uri}"),
        }
    }

    /// Returns the title, or else the last part of the address.
    pub fn title_or_name(&self) -> &str {
        let address = self.address().trim_end_matches('/');
        let name = address.rsplit(['/', '#']).next().unwrap_or(address);
        self.title.as_deref().unwrap_or(name)
    }

    /// Returns the page or the lines of the document, for people: `docs/keys.md:12-30`.
    pub fn location(&self) -> String {
        let path = self.path_in_repository();
        let address = path.unwrap_or(self.address());
        let has_lines = path.is_some() || address.starts_with("file://");
        match self.page {
            Some(page) => format!("{address}, p. {page}"),
            None if has_lines => format!("{address}:{}-{}", self.start_line, self.end_line),
            None => match self.fragment(&self.part()) {
                Some(fragment) => format!("{address}#{fragment}"),
                None => address.to_owned(),
            },
        }
    }

    /// Returns the address of a part of the document, which browsers open there.
    fn link(&self, part: &CitedPart<'_>) -> String {
        let address = enclosed(self.address(), &ENDS);
        match self.fragment(part) {
            Some(fragment) => format!("{address}#{fragment}"),
            None => address,
        }
    }

    /// Returns what follows `#` in the address of a part of the document: the name of the place, or
    /// the page of a PDF. Returns `None` if the address has a fragment of its own, or is not one
    /// that browsers open. Of a file they find places of HTML and PDF only.
    fn fragment(&self, part: &CitedPart<'_>) -> Option<String> {
        let is_pdf = self.document_type == "pdf";
        let (scheme, rest) = self.address().split_once("://")?;
        let is_opened = match scheme {
            "http" | "https" => true,
            "file" => is_pdf || self.document_type == "html",
            _ => false,
        };
        match (part.anchor, part.page) {
            _ if !is_opened || rest.contains('#') => None,
            (Some(anchor), _) => Some(enclosed(anchor, &NAME)),
            (None, page) => page.filter(|_| is_pdf).map(|page| format!("page={page}")),
        }
    }

    /// Returns where readers find the document: `source_url` of its front matter, or its uri.
    pub fn address(&self) -> &str {
        self.text("source_url")
            .filter(|url| url.starts_with("https://") || url.starts_with("http://"))
            .unwrap_or(&self.uri)
    }

    /// Returns the path of a file that was fetched from a repository.
    fn path_in_repository(&self) -> Option<&str> {
        self.source
            .as_ref()
            .and(self.text("repository"))
            .and(self.text("path"))
    }

    /// Returns the first seven digits of the commit that a file was fetched from.
    fn commit(&self) -> Option<&str> {
        let commit = self.text("commit")?;
        let is_commit = commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        is_commit.then(|| &commit[..7])
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.metadata.0.get(key).and_then(serde_json::Value::as_str)
    }
}

/// Returns true if a title is the name of the file, with or without the extension, perhaps with its
/// folder.
fn is_named(path: &str, title: &str) -> bool {
    let is_end = |path: &str| {
        let rest = path.strip_suffix(title);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let stem = path.rsplit_once('.').map(|(stem, _)| stem);
    is_end(path) || stem.is_some_and(is_end)
}

/// Returns a title as one line, cut if it is long, with brackets and parentheses escaped as in
/// Markdown. Otherwise a title could imitate the end of its citation and the start of another one.
fn escaped(title: &str) -> String {
    let mut escaped = String::with_capacity(title.len());
    let is_long = title.chars().nth(Title::SHOWN_CHARS).is_some();
    let shown = title.chars().take(Title::SHOWN_CHARS);
    for c in shown.chain(is_long.then_some('…')) {
        match c {
            '\\' | '[' | ']' | '(' | ')' => escaped.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Characters that would end a uri.
const ENDS: AsciiSet = CONTROLS.add(b' ').add(b'(').add(b')').add(b'[').add(b']');
/// Characters that a name after `#` cannot have.
const NAME: AsciiSet = ENDS
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'`');

/// Returns a part of a uri in which some characters are percent-encoded.
fn enclosed(uri: &str, ends: &'static AsciiSet) -> String {
    let mut enclosed = String::with_capacity(uri.len());
    for piece in uri.split_inclusive(|c: char| c.is_ascii()) {
        let is_safe = |c: char| !c.is_ascii() && !c.is_control() && !c.is_whitespace();
        let end = piece.find(|c| !is_safe(c)).unwrap_or(piece.len());
        enclosed.push_str(&piece[..end]);
        enclosed.extend(utf8_percent_encode(&piece[end..], ends));
    }
    enclosed
}
