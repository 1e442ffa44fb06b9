//! The query language: what people type into a search box.
//!
//! | typed | meaning |
//! |---|---|
//! | `write log` | words that count; none of them is required |
//! | `"write ahead log"` | a phrase, which is required |
//! | `"write log"~3` | its words near each other: 3 moves bring them together |
//! | `+word` | the word is required |
//! | `-word`, `-"a phrase"` | what must not be there |
//! | `conf*` | all words that begin so |
//! | `databse~`, `databse~1` | words that are spelled almost so |
//! | `"a b" OR c` | one of both is required |
//!
//! Nothing is a syntax error: signs that mean nothing where they are belong to the text, which is
//! searched for as if there was no language. So `a->b`, `C++`, `--flag`, `foo(*args)`, `*.py`,
//! `-25` and an open quotation mark find what they find as a text. The rules:
//!
//! * A clause begins at the start of the query or after a blank, and ends before a blank.
//! * `-` excludes if at least three characters follow that are one word, and the first is a letter.
//!   So `-rf` is text, and `-"rf"` excludes. `+` requires a word of two characters.
//! * `*` and `~` count after a word, with two and three letters or digits before the sign.
//! * Quotation marks are `"`, and typographic ones. After the second no letter or digit may follow.
//! * A text of more than 8 kB has no clauses.
//! * `OR` joins the clauses beside it, in capitals, unless one of them is excluded.

mod fields;
mod scan;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range};

pub use fields::{Field, FieldClause, FieldedQuery, title_node};
use scan::{Item, Kind, items};

/// Longer texts are words alone. Nobody has typed them.
const MAX_BYTES: usize = 8192;
/// How far apart the words of a phrase may be at most.
pub const MAX_SLOP: u32 = 1000;

/// What a clause requires of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occur {
    /// It counts, and is not required.
    Should,
    Must,
    MustNot,
}

/// What a clause looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node<'t> {
    Words(&'t str),
    /// Words in this order. So many moves of a word by one place may be needed for that.
    Phrase {
        text: &'t str,
        slop: u32,
    },
    /// Words that begin with this one.
    Prefix(&'t str),
    /// Words that are like this one: with so many edits at most, or as many as suit its length.
    Typo {
        text: &'t str,
        edits: Option<u8>,
    },
}

impl<'t> Node<'t> {
    /// Returns the text of the node, without signs of the language.
    pub fn text(&self) -> &'t str {
        match self {
            Self::Words(text)
            | Self::Phrase { text, .. }
            | Self::Prefix(text)
            | Self::Typo { text, .. } => text,
        }
    }

    pub fn is_phrase(&self) -> bool {
        matches!(self, Self::Phrase { .. })
    }
}

/// A part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause<'t> {
    pub occur: Occur,
    /// At least one. Of several, one is enough.
    pub nodes: Vec<Node<'t>>,
}

/// A query that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedQuery<'t> {
    /// What is searched for word by word: the text without the clauses.
    pub words: Cow<'t, str>,
    pub clauses: Vec<Clause<'t>>,
}

impl<'t> ParsedQuery<'t> {
    /// Reads a query.
    pub fn parse(text: &'t str) -> Self {
        if text.len() > MAX_BYTES || !may_have_syntax(text) {
            return Self::of_words(text);
        }
        let items = items(text);
        if items.iter().all(|item| item.kind == Kind::Word) {
            return Self::of_words(text);
        }
        Grouped::of(text, &items).finish()
    }

    /// Returns a query without syntax.
    pub fn of_words(text: &'t str) -> Self {
        Self {
            words: Cow::Borrowed(text),
            clauses: vec![],
        }
    }

    /// Returns true if the text is searched for as it is.
    pub fn is_plain(&self) -> bool {
        self.clauses.is_empty() && matches!(self.words, Cow::Borrowed(_))
    }

    /// Returns what the query is about: its text without signs of the language, and without what
    /// must not be there.
    pub fn subject(&self) -> Cow<'t, str> {
        if self.is_plain() {
            return self.words.clone();
        }
        let words = self.words.split_whitespace();
        let all = words.chain(self.wanted().map(|node| node.text().trim()));
        Cow::Owned(all.collect::<Vec<_>>().join(" "))
    }

    /// Returns the nodes of all clauses but those that must not be there.
    pub fn wanted(&self) -> impl Iterator<Item = &Node<'t>> {
        let clauses = self.clauses.iter();
        let wanted = clauses.filter(|clause| clause.occur != Occur::MustNot);
        wanted.flat_map(|clause| &clause.nodes)
    }

    /// Returns true if nothing is searched for, but something excluded.
    pub fn only_excludes(&self) -> bool {
        let is_excluded = |clause: &Clause<'_>| clause.occur == Occur::MustNot;
        !self.clauses.is_empty()
            && self.clauses.iter().all(is_excluded)
            && !self.words.chars().any(char::is_alphanumeric)
    }
}

/// Returns false for most texts without syntax.
fn may_have_syntax(text: &str) -> bool {
    text.contains(['"', '“', '„', '”', '+', '-', '*', '~']) || text.contains("OR")
}

/// Returns a text that is searched for word by word as this one is without a query language.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let escaped = without_clauses(text);
    if FieldedQuery::parse(&escaped).fields.is_empty() {
        return escaped;
    }
    Cow::Owned(fields::without_fields(&escaped))
}

fn without_clauses(text: &str) -> Cow<'_, str> {
    if ParsedQuery::parse(text).is_plain() {
        return Cow::Borrowed(text);
    }
    let mut escaped = text.replace(['"', '“', '„', '”', '*', '~'], " ");
    // twice, as a sign may stand behind one that is removed
    loop {
        let found = items(&escaped);
        let signs: Vec<Range<usize>> = found
            .iter()
            .filter_map(|item| match item.kind {
                Kind::Clause(..) => Some(item.range.start..item.range.start + 1),
                Kind::Or => Some(item.range.clone()),
                Kind::Word => None,
            })
            .collect();
        if signs.is_empty() {
            return Cow::Owned(escaped);
        }
        for sign in signs {
            let other = if sign.len() == 1 { " " } else { "or" };
            escaped.replace_range(sign, other);
        }
    }
}

/// The items of a query, put together.
struct Grouped<'t> {
    text: &'t str,
    clauses: Vec<Clause<'t>>,
    /// What is not searched for word by word.
    taken: Vec<Range<usize>>,
}

impl<'t> Grouped<'t> {
    fn of(text: &'t str, items: &[Item<'t>]) -> Self {
        let mut grouped = Self {
            text,
            clauses: vec![],
            taken: vec![],
        };
        let mut rest = items;
        while !rest.is_empty() {
            let mut count = 1;
            while joins(rest, count) {
                count += 2;
            }
            let (group, others) = rest.split_at(count);
            grouped.add(group);
            rest = others;
        }
        grouped
    }

    /// Adds an item, or several with OR between them.
    fn add(&mut self, group: &[Item<'t>]) {
        let is_required = |item: &Item<'_>| matches!(item.kind, Kind::Clause(Occur::Must, _));
        let is_required = group.iter().any(is_required);
        if is_required && group.len() > 1 {
            let nodes = group.iter().filter_map(|item| match item.kind {
                Kind::Clause(_, node) => Some(node),
                Kind::Word => Some(Node::Words(&self.text[item.range.clone()])),
                Kind::Or => None,
            });
            self.clauses.push(Clause {
                occur: Occur::Must,
                nodes: nodes.collect(),
            });
            self.taken
                .extend(group.iter().map(|item| item.range.clone()));
            return;
        }
        for item in group {
            match item.kind {
                Kind::Clause(occur, node) => self.clauses.push(Clause {
                    occur,
                    nodes: vec![node],
                }),
                Kind::Word => continue,
                Kind::Or if group.len() == 1 => continue,
                Kind::Or => {}
            }
            self.taken.push(item.range.clone());
        }
    }

    fn finish(mut self) -> ParsedQuery<'t> {
        if self.taken.is_empty() {
            return ParsedQuery::of_words(self.text);
        }
        // a phrase without letters and digits looks for nothing
        for clause in &mut self.clauses {
            clause
                .nodes
                .retain(|node| node.text().contains(char::is_alphanumeric));
        }
        self.clauses.retain(|clause| !clause.nodes.is_empty());
        let mut words = String::with_capacity(self.text.len());
        let mut at = 0;
        for taken in self.taken {
            words.push_str(&self.text[at..taken.start]);
            words.push(' ');
            at = taken.end;
        }
        words.push_str(&self.text[at..]);
        ParsedQuery {
            words: Cow::Owned(words),
            clauses: self.clauses,
        }
    }
}

/// Returns true if the item at a place is an OR between two that it can join.
fn joins(items: &[Item<'_>], place: usize) -> bool {
    let can_join = |item: Option<&Item<'_>>| {
        item.is_some_and(|item| match item.kind {
            Kind::Word => true,
            Kind::Clause(occur, _) => occur != Occur::MustNot,
            Kind::Or => false,
        })
    };
    let is_or = items.get(place).is_some_and(|item| item.kind == Kind::Or);
    is_or && can_join(items.get(place - 1)) && can_join(items.get(place + 1))
}
