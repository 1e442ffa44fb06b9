//! Fields in a query over documents: `title:word`, `title:"a phrase"`, `-title:draft`,
//! `uri:docs/guide`.
//!
//! A field begins where a clause does, and what it is about follows its colon without a blank. The
//! fields are these two, so that any other colon belongs to the text: `std::vector`, `12:30`,
//! `http://x`, `note: see`. Each field requires or excludes.

use std::borrow::Cow;

use super::{
    MAX_BYTES, Node, Occur,
    scan::{Kind, blanks, item},
    without_clauses,
};

/// What a query can name of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Title,
    Uri,
}

const FIELDS: [(&str, Field); 2] = [("title:", Field::Title), ("uri:", Field::Uri)];

/// What documents must have in a field, or must not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldClause<'t> {
    pub field: Field,
    pub is_excluded: bool,
    /// Of a title: a word, a phrase, a prefix or a word with typos, as a query of its own. Of a
    /// uri: a part.
    pub text: &'t str,
}

/// A query that was divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldedQuery<'t> {
    /// The query without its fields. Words that a field requires remain as words that count.
    pub rest: Cow<'t, str>,
    pub fields: Vec<FieldClause<'t>>,
}

impl<'t> FieldedQuery<'t> {
    /// Divides a query.
    pub fn parse(text: &'t str) -> Self {
        let mut fielded = Self {
            rest: Cow::Borrowed(text),
            fields: vec![],
        };
        if text.len() > MAX_BYTES || !FIELDS.iter().any(|(name, _)| text.contains(name)) {
            return fielded;
        }
        let mut rest = String::with_capacity(text.len());
        let (mut at, mut copied) = (0, 0);
        loop {
            at += blanks(&text[at..]);
            if at == text.len() {
                break;
            }
            match field(&text[at..]) {
                None => at += item(&text[at..]).0,
                Some((bytes, clause)) => {
                    rest.push_str(&text[copied..at]);
                    if !clause.is_excluded {
                        rest.push_str(&clause.words());
                    }
                    at += bytes;
                    copied = at;
                    fielded.fields.push(clause);
                }
            }
        }
        rest.push_str(&text[copied..]);
        let Some(first) = fielded.fields.first().copied() else {
            return fielded;
        };
        if rest.trim().is_empty() {
            rest = format!("-\"{}\"", first.words()); // a query that only excludes
        }
        fielded.rest = Cow::Owned(rest);
        fielded
    }
}

impl FieldClause<'_> {
    /// Returns the words of a clause, without signs that would require them of the text.
    fn words(&self) -> Cow<'_, str> {
        match (self.field, title_node(self.text)) {
            (Field::Title, Node::Phrase { text, .. }) => without_clauses(text),
            _ => Cow::Borrowed(self.text),
        }
    }
}

/// Returns a text whose colons name no fields.
pub fn without_fields(text: &str) -> String {
    FIELDS.iter().fold(text.to_owned(), |text, (name, _)| {
        text.replace(name, &format!("{name} "))
    })
}

/// Reads the field that a text begins with. Returns the number of its bytes.
fn field(text: &str) -> Option<(usize, FieldClause<'_>)> {
    let (is_excluded, named) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (name, field) = FIELDS.iter().find(|(name, _)| named.starts_with(name))?;
    let value = &named[name.len()..];
    let start = text.len() - value.len();
    let bytes = match field {
        Field::Title => title(value)?,
        Field::Uri => {
            let end = value.find(char::is_whitespace).unwrap_or(value.len());
            value[..end].trim_end_matches([',', ';']).len()
        }
    };
    let value = &value[..bytes];
    let clause = FieldClause {
        field: *field,
        is_excluded,
        text: value,
    };
    let has_text = value.contains(char::is_alphanumeric);
    has_text.then_some((start + bytes, clause))
}

/// Returns the length of what a text begins with, if that can be in a title.
fn title(text: &str) -> Option<usize> {
    if text.is_empty() || text.starts_with(char::is_whitespace) {
        return None;
    }
    let (bytes, kind) = item(text);
    match kind {
        Kind::Clause(Occur::Must, Node::Phrase { .. }) => Some(bytes),
        Kind::Clause(Occur::Should, _) => Some(bytes),
        Kind::Word => {
            let word = text[..bytes].trim_end_matches(['.', ',', ';', ':', '!', '?']);
            let begins = word.chars().next().is_some_and(char::is_alphanumeric);
            (begins && !word.contains([':', '"'])).then_some(word.len())
        }
        _ => None,
    }
}

/// Returns what a clause of a title looks for.
pub fn title_node(text: &str) -> Node<'_> {
    match text.is_empty() {
        false => match item(text) {
            (_, Kind::Clause(_, node)) => node,
            _ => Node::Words(text),
        },
        true => Node::Words(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Vec<(Field, bool, String)>) {
        let read = FieldedQuery::parse(text);
        let clauses = read.fields.iter();
        let clauses = clauses.map(|c| (c.field, c.is_excluded, c.text.to_owned()));
        (read.rest.clone().into_owned(), clauses.collect())
    }

    #[test]
    fn fields_are_found_where_clauses_begin() {
        let title = |text: &str| (Field::Title, false, text.to_owned());
        let not_title = |text: &str| (Field::Title, true, text.to_owned());
        let uri = |text: &str| (Field::Uri, false, text.to_owned());
        let cases = [
            ("title:archive log", "archive log", vec![title("archive")]),
            ("log +title:archive", "log archive", vec![title("archive")]),
            (
                "title:\"write ahead\" log",
                "write ahead log",
                vec![title("\"write ahead\"")],
            ),
            ("log -title:draft", "log ", vec![not_title("draft")]),
            (
                "log -title:\"first draft\" x",
                "log  x",
                vec![not_title("\"first draft\"")],
            ),
            ("title:arch* log", "arch* log", vec![title("arch*")]),
            ("title:archvie~1", "archvie~1", vec![title("archvie~1")]),
            ("title:E-117, log", "E-117, log", vec![title("E-117")]),
            ("title:水漏れ", "水漏れ", vec![title("水漏れ")]),
            (
                "title:\"a\" title:b",
                "a b",
                vec![title("\"a\""), title("b")],
            ),
            (
                "uri:docs/guide index",
                "docs/guide index",
                vec![uri("docs/guide")],
            ),
            (
                "uri:http://x.org/a?b=c",
                "http://x.org/a?b=c",
                vec![uri("http://x.org/a?b=c")],
            ),
            ("-title:draft", "-\"draft\"", vec![not_title("draft")]),
            ("\"x title:y\" title:z", "\"x title:y\" z", vec![title("z")]),
        ];
        for (text, rest, clauses) in cases {
            assert_eq!(read(text), (rest.to_owned(), clauses), "{text}");
        }
    }

    #[test]
    fn escaped_queries_have_no_fields() {
        for text in [
            "title:x",
            "a -title:\"b c\" uri:d",
            "title:title:x",
            "x\"title:y",
        ] {
            let escaped = super::super::escaped(text);
            let read = FieldedQuery::parse(&escaped);
            assert!(read.fields.is_empty(), "{text}: {escaped}");
        }
    }

    #[test]
    fn other_colons_belong_to_the_text() {
        for text in [
            "std::vector",
            "12:30",
            "http://x",
            "note: see",
            "title: a word",
            "title:",
            "title::x",
            "title:\"open",
            "title:\"a\"b",
            "subtitle:x",
            "Title:x",
            "x=title:y",
            "uri:",
            "uri:// -",
            "-title:",
            "title:-x",
            "title:a:b",
            "title:+",
            "\"title:x\"",
            "--title:x",
        ] {
            assert_eq!(read(text), (text.to_owned(), vec![]), "{text}");
        }
    }
}
