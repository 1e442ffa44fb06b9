//! Citations of search results for people.

use rag_protocol::ingest::Title;

use super::SearchHit;

impl SearchHit {
    /// Returns a citation: `[1] Key rotation, p. 3 (file:///srv/docs/keys.pdf)`, or for a file of a
    /// repository `[1] Key rotation, docs/keys.md:12-30 @ 1f3a9c0
    /// (https://example.org/guide.git#docs/keys.md)`.
    pub fn citation(&self) -> String {
        self.citation_of(self.rank, self.page, (self.start_line, self.end_line))
    }

    /// Returns the citation of another part of the document, with a number of its own.
    pub fn citation_of(&self, rank: i32, page: Option<i32>, lines: (i32, i32)) -> String {
        let page = page.map(|page| format!("p. {page}"));
        let place = page.or_else(|| {
            let path = escaped(self.path_in_repository()?);
            let lines = format!("{path}:{}-{}", lines.0, lines.1);
            Some(match self.commit() {
                Some(commit) => format!("{lines} @ {commit}"),
                None => lines,
            })
        });
        let uri = enclosed(self.address());
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
            None => address.to_owned(),
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

/// Returns a uri in which characters that would end it are percent-encoded.
fn enclosed(uri: &str) -> String {
    const ENDS: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
        .add(b' ')
        .add(b'(')
        .add(b')')
        .add(b'[')
        .add(b']');
    let mut enclosed = String::with_capacity(uri.len());
    for piece in uri.split_inclusive(|c: char| c.is_ascii()) {
        let is_safe = |c: char| !c.is_ascii() && !c.is_control() && !c.is_whitespace();
        let end = piece.find(|c| !is_safe(c)).unwrap_or(piece.len());
        enclosed.push_str(&piece[..end]);
        enclosed.extend(percent_encoding::utf8_percent_encode(&piece[end..], ENDS));
    }
    enclosed
}
