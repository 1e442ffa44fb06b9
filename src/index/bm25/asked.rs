//! From what somebody typed to a query of an index: the words, and what rows must satisfy.
//!
//! The clauses are those of [`rag_words::query`]. A word that is required or excluded is the word
//! of each text that has one of its forms; a compound is a phrase of its parts. Of a phrase, each
//! word is at its place. An index without positions finds the rows that have them all, and the text
//! of each row decides.
//!
//! An index whose texts have configurations of their own is asked by each of them, and one is
//! enough.

use pgrx::pg_sys;
use rag_bm25::{
    Condition, CountedPattern, MAX_PLACES, Match, NumberedPhrase, Pattern, Query, Terms, Typo,
    auto_edits,
};
use rag_pages::memory::{OutOfMemory, push};
use rag_words::{
    Purpose, Weight,
    query::{Clause, Node, Occur, ParsedQuery, title_node},
};

use super::{
    languages,
    tokens::{self, Counted},
};
use crate::{error::Error, pg::words::Analyzer};

/// Of more prefixes and words with typos than these, the others are searched for as words.
const MAX_PATTERNS: usize = 32;
/// Lexemes of fewer letters are only equal to that of the word that was typed. Their words are.
const TYPO_LEXEME: usize = 5;

/// Reads a query. `used` are the configurations of the index's texts if each text has one of its
/// own.
///
/// # Errors
/// Memory runs out.
pub fn read(analyzer: Analyzer, text: &[u8], used: Option<&[pg_sys::Oid]>) -> Result<Query, Error> {
    // a database in another encoding has texts without clauses
    let parsed = std::str::from_utf8(text).map(ParsedQuery::parse);
    let analyzer = analyzer.with_positions(false);
    match parsed {
        Ok(parsed) if !parsed.is_plain() => Reader::new(analyzer, &parsed, used)?.read(&parsed),
        _ => tokens::query_terms(analyzer, text, used).map(Query::from),
    }
}

/// Reads what titles must have: a word, a phrase, a prefix, or a word with typos. See [`read`].
///
/// # Errors
/// Memory runs out.
pub fn read_title(
    analyzer: Analyzer,
    text: &str,
    used: Option<&[pg_sys::Oid]>,
) -> Result<Query, Error> {
    let mut parsed = ParsedQuery::of_words("");
    parsed.clauses.push(Clause {
        occur: Occur::Must,
        nodes: vec![title_node(text)],
    });
    Reader::new(analyzer.with_positions(false), &parsed, used)?.read(&parsed)
}

/// Reads a query with clauses.
pub struct Reader<'a> {
    analyzer: Analyzer,
    used: Option<&'a [pg_sys::Oid]>,
    /// The configuration of the query's own language, of those in use.
    pub own: pg_sys::Oid,
    /// The analyzers of all configurations in use.
    pub analyzers: Vec<Analyzer>,
    query: Query,
}

/// A word of a query by one configuration.
pub struct NeededWord {
    /// Where it begins, and how many places it covers.
    place: (Option<u32>, u32),
    /// Its forms, which are terms.
    pub terms: Vec<Vec<u8>>,
}

impl<'a> Reader<'a> {
    pub fn new(
        analyzer: Analyzer,
        parsed: &ParsedQuery<'_>,
        used: Option<&'a [pg_sys::Oid]>,
    ) -> Result<Self, Error> {
        let own = match used {
            Some([only]) => *only,
            Some(_) => languages::own_config(parsed.subject().as_bytes())?,
            None => analyzer.config,
        };
        let configs = used.unwrap_or(std::slice::from_ref(&own)).iter();
        Ok(Self {
            analyzer,
            used,
            own,
            analyzers: configs
                .map(|config| analyzer.with_config(*config))
                .collect(),
            query: Query::default(),
        })
    }

    fn read(mut self, parsed: &ParsedQuery<'_>) -> Result<Query, Error> {
        let nodes = parsed.clauses.iter().flat_map(|clause| &clause.nodes);
        let patterns = self.patterns(nodes)?;
        self.query.terms = self.terms(parsed, &patterns)?;
        let mut patterns = patterns.into_iter();
        let mut condition = Condition::default();
        for clause in &parsed.clauses {
            let counts = clause.occur != Occur::MustNot;
            let mut parts = vec![];
            for node in &clause.nodes {
                parts.extend(match patterns.next().flatten() {
                    Some(pattern) => Some(self.counted(pattern, counts)),
                    None => self.part(node)?,
                });
            }
            let part = match parts.len() {
                0 => continue, // stop words
                1 => parts.swap_remove(0),
                _ => Match::Any(parts),
            };
            match clause.occur {
                Occur::Should => {}
                Occur::Must => condition.required.push(part),
                Occur::MustNot => condition.excluded.push(part),
            }
        }
        let is_empty = condition == Condition::default();
        self.query.condition = (!is_empty).then_some(condition);
        Ok(self.query)
    }

    /// Returns the pattern of each node, or `None` for one that is searched for as words.
    pub fn patterns<'n>(
        &self,
        nodes: impl Iterator<Item = &'n Node<'n>>,
    ) -> Result<Vec<Option<Pattern>>, Error> {
        let (mut patterns, mut count) = (vec![], 0);
        for node in nodes {
            let pattern = match node {
                _ if count == MAX_PATTERNS => None,
                Node::Prefix(text) => self.prefix(text)?,
                Node::Typo { text, edits } => self.typo(text, *edits)?,
                Node::Words(_) | Node::Phrase { .. } => None,
            };
            count += usize::from(pattern.is_some());
            patterns.push(pattern);
        }
        Ok(patterns)
    }

    /// Returns the terms that count. The nodes of all clauses have these patterns.
    fn terms(
        &self,
        parsed: &ParsedQuery<'_>,
        patterns: &[Option<Pattern>],
    ) -> Result<Terms, Error> {
        let mut terms = Counted::new(self.analyzer);
        self.add(&mut terms, &parsed.words)?;
        let mut patterns = patterns.iter();
        for clause in &parsed.clauses {
            for node in &clause.nodes {
                let has_pattern = patterns.next().is_some_and(Option::is_some);
                let is_prefix = has_pattern && matches!(node, Node::Prefix(_));
                if clause.occur != Occur::MustNot && !is_prefix {
                    self.add(&mut terms, node.text())?;
                }
            }
        }
        Ok(terms.query())
    }

    pub fn add(&self, terms: &mut Counted, text: &str) -> Result<(), Error> {
        let added = match self.used {
            Some(used) => {
                languages::add_query_terms(terms, self.analyzer, text.as_bytes(), used, self.own)?
            }
            None => self
                .analyzer
                .each_term(text.as_bytes(), Purpose::Query, |term, weight| {
                    terms.add(term, weight)
                }),
        };
        added.map_err(out_of_memory)
    }

    /// Returns what rows have that have one of the terms of a pattern.
    fn counted(&mut self, pattern: Pattern, counts: bool) -> Match {
        let weight = match (counts, self.analyzer.has_parts()) {
            (false, _) => 0,
            (true, true) => Weight::Whole as u32,
            (true, false) => 1,
        };
        Match::Term(self.pattern(pattern, weight))
    }

    /// Returns what rows have that have a node, or `None` for stop words.
    fn part(&mut self, node: &Node<'_>) -> Result<Option<Match>, Error> {
        let slop = match node {
            Node::Phrase { slop, .. } => *slop,
            _ => 0,
        };
        let mut parts = vec![];
        for analyzer in self.analyzers.clone() {
            let words = needed_words(analyzer, node.text())?;
            if words.is_empty() {
                match analyzer.config == self.own {
                    true => return Ok(None),
                    false => continue,
                }
            }
            // a compound is a phrase of its parts
            let phrase = self.phrase(analyzer, node.text(), slop)?;
            let part = phrase.unwrap_or_else(|| self.all(words));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        Ok(match parts.len() {
            0 => None,
            1 => Some(parts.swap_remove(0)),
            _ => Some(Match::Any(parts)),
        })
    }

    /// Returns what a row has that has all words.
    fn all(&mut self, words: Vec<NeededWord>) -> Match {
        let words = words.into_iter();
        let mut parts: Vec<Match> = words
            .map(|word| {
                let mut terms = self.numbers(word.terms).into_iter().map(Match::Term);
                match (terms.next(), terms.len()) {
                    (Some(only), 0) => only,
                    (first, _) => Match::Any(first.into_iter().chain(terms).collect()),
                }
            })
            .collect();
        parts.dedup();
        match parts.len() {
            1 => parts.swap_remove(0),
            _ => Match::All(parts),
        }
    }

    /// Returns what a row has that has the words of a text one after the other. Returns `None` for
    /// one word, and for a text that is too long for a phrase.
    fn phrase(
        &mut self,
        analyzer: Analyzer,
        text: &str,
        slop: u32,
    ) -> Result<Option<Match>, Error> {
        let phrase = tokens::phrase(analyzer, text.as_bytes(), slop)?;
        if !(2..=MAX_PLACES).contains(&phrase.places().len()) {
            return Ok(None);
        }
        let terms = phrase.terms().iter().map(|(term, _)| term.to_vec());
        let numbers = self.numbers(terms.collect());
        Ok(Some(Match::Phrase(NumberedPhrase { phrase, numbers })))
    }

    fn prefix(&self, text: &str) -> Result<Option<Pattern>, Error> {
        let Some(word) = self.analyzer.plain_word(text).map_err(out_of_memory)? else {
            return Ok(None);
        };
        let prefix = word.into_bytes();
        let mut patterns = vec![];
        // a whole word has an ending, which its lexeme lacks
        for lexeme in self.lexemes(text)? {
            if !lexeme.starts_with(&prefix) {
                patterns.push(Pattern::Exact(lexeme));
            }
        }
        patterns.push(Pattern::Prefix(prefix));
        Ok(Some(one_of(patterns)))
    }

    fn typo(&self, text: &str, edits: Option<u8>) -> Result<Option<Pattern>, Error> {
        let Some(word) = self.analyzer.plain_word(text).map_err(out_of_memory)? else {
            return Ok(None);
        };
        let edits = edits.unwrap_or(auto_edits(&word));
        let Some(typo) = Typo::new(&word, edits).filter(|_| edits > 0) else {
            return Ok(None);
        };
        let mut patterns = vec![Pattern::Typo(typo)];
        for lexeme in self.lexemes(text)? {
            if lexeme == word.as_bytes() {
                continue;
            }
            let typo = std::str::from_utf8(&lexeme)
                .ok()
                .filter(|lexeme| lexeme.chars().count() >= TYPO_LEXEME)
                .and_then(|lexeme| Typo::new(lexeme, edits.min(auto_edits(lexeme))));
            patterns.push(typo.map_or(Pattern::Exact(lexeme), Pattern::Typo));
        }
        Ok(Some(one_of(patterns)))
    }

    /// Returns the lexemes of a word in all configurations.
    fn lexemes(&self, text: &str) -> Result<Vec<Vec<u8>>, Error> {
        let mut lexemes = vec![];
        for analyzer in &self.analyzers {
            let words = needed_words(*analyzer, text)?;
            lexemes.extend(words.into_iter().flat_map(|word| word.terms));
        }
        lexemes.sort();
        lexemes.dedup();
        Ok(lexemes)
    }

    /// Returns the numbers of terms. Those that do not count become patterns.
    fn numbers(&mut self, terms: Vec<Vec<u8>>) -> Vec<u32> {
        let terms = terms.into_iter();
        terms
            .map(|term| match self.query.terms.number(&term) {
                Some(number) => number as u32,
                None => self.pattern(Pattern::Exact(term), 0),
            })
            .collect()
    }

    /// Returns the number of a pattern.
    fn pattern(&mut self, pattern: Pattern, weight: u32) -> u32 {
        let counted = CountedPattern { pattern, weight };
        let patterns = &mut self.query.patterns;
        let known = patterns
            .iter()
            .position(|known| *known == counted && weight == 0);
        let place = known.unwrap_or_else(|| {
            patterns.push(counted);
            patterns.len() - 1
        });
        (self.query.terms.len() + place) as u32
    }
}

/// Returns the words that make up a text, without stop words.
pub fn needed_words(analyzer: Analyzer, text: &str) -> Result<Vec<NeededWord>, Error> {
    let mut words: Vec<NeededWord> = vec![];
    let read = analyzer.each_occurrence(text.as_bytes(), Purpose::Text, |found| {
        if !found.is_needed || found.term.is_empty() {
            return Ok(());
        }
        let (place, term) = ((found.position, found.places), found.term.to_vec());
        match words.last_mut() {
            Some(word) if word.place == place => push(&mut word.terms, term),
            _ => push(
                &mut words,
                NeededWord {
                    place,
                    terms: vec![term],
                },
            ),
        }
    });
    read.map_err(out_of_memory)?;
    Ok(words)
}

fn one_of(mut patterns: Vec<Pattern>) -> Pattern {
    match patterns.len() {
        1 => patterns.swap_remove(0),
        _ => Pattern::Any(patterns),
    }
}

fn out_of_memory(_: OutOfMemory) -> Error {
    Error::out_of_memory("Memory ran out while a query was being read.")
}
