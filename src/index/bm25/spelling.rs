//! Words of a query that no row has, and what may have been meant.

use rag_bm25::{NearTerm, Typo, auto_edits, near_terms};
use rag_pages::memory::OutOfMemory;
use rag_words::{
    Purpose,
    query::{Node, Occur, ParsedQuery},
};

use super::{asked::needed_words, cache, index_error, languages, partitions, ranking::Ranking};
use crate::{
    error::Error,
    index::am::{
        heap::{HeapRows, Snapshot},
        relation::LockedIndex,
    },
    pg::words::{Analyzer, Words},
};

/// Shorter words are like many others.
const MIN_LETTERS: usize = 4;
/// Words of so many letters may have two typos.
const LONG_WORD: usize = 8;
/// The maximum number of words that are explained, and of suggestions for each.
const MAX_WORDS: usize = 3;
const MAX_SUGGESTIONS: usize = 3;

/// A word that no row has, and words that are spelled almost so.
pub struct UnknownWord {
    pub word: String,
    pub near: Vec<String>,
}

/// Returns the words of a query that no row has, if there are others that begin with the same
/// letter and are spelled almost so.
///
/// # Errors
/// The index is corrupted.
pub fn unknown_words(
    open: &LockedIndex,
    ranking: &Ranking,
    text: &str,
) -> Result<Vec<UnknownWord>, Error> {
    let candidates = candidates(text);
    if candidates.is_empty() {
        return Ok(vec![]);
    }
    let analyzers = analyzers(open, ranking.analyzer)?;
    let mut unknown = vec![];
    for word in candidates {
        let mut terms = vec![];
        for analyzer in &analyzers {
            let words = needed_words(*analyzer, &word)?;
            terms.extend(words.into_iter().flat_map(|word| word.terms));
        }
        let is_unknown = |term: &Vec<u8>| {
            let number = ranking.query.terms.number(term);
            number.is_some_and(|number| ranking.statistics.frequencies.get(number) == Some(&0))
        };
        if terms.is_empty() || !terms.iter().all(is_unknown) {
            continue;
        }
        let near = near(open, ranking.analyzer, &word, &terms)?;
        if !near.is_empty() {
            unknown.push(UnknownWord { word, near });
        }
        if unknown.len() == MAX_WORDS {
            break;
        }
    }
    Ok(unknown)
}

/// Returns the words of a query, each once, of which it makes sense to look for others.
fn candidates(text: &str) -> Vec<String> {
    let parsed = ParsedQuery::parse(text);
    let wanted = parsed.clauses.iter();
    let wanted = wanted.filter(|clause| clause.occur != Occur::MustNot);
    let nodes = wanted.flat_map(|clause| &clause.nodes);
    let nodes = nodes.filter(|node| matches!(node, Node::Words(_) | Node::Phrase { .. }));
    let texts = std::iter::once(&*parsed.words).chain(nodes.map(Node::text));
    let mut words: Vec<String> = vec![];
    for run in texts.flat_map(str::split_whitespace) {
        let word = run
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        let is_word = word.chars().all(char::is_alphabetic) && word.chars().count() >= MIN_LETTERS;
        if is_word && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Returns the analyzers that read texts of an index.
fn analyzers(open: &LockedIndex, analyzer: Analyzer) -> Result<Vec<Analyzer>, Error> {
    let used = match languages::is_auto(analyzer) {
        true => partitions::used_configs(&[open.index().id()])?,
        false => None,
    };
    let configs = used.unwrap_or_else(|| vec![analyzer.config]);
    let with = |config: &_| analyzer.with_config(*config);
    Ok(configs.iter().map(with).collect())
}

/// Returns the words that are spelled almost as one, whose lexemes are `terms`.
fn near(
    open: &LockedIndex,
    analyzer: Analyzer,
    word: &str,
    terms: &[Vec<u8>],
) -> Result<Vec<String>, Error> {
    let index = open.index();
    let opened = cache::open(index)?;
    let pages = opened.pages(index);
    let is_long = word.chars().count() >= LONG_WORD;
    let edits = if is_long { 2 } else { 1 };
    let first = word.chars().next().map_or(0, char::len_utf8);
    let mut found: Vec<NearTerm> = vec![];
    let lexemes = terms
        .iter()
        .filter_map(|term| std::str::from_utf8(term).ok());
    for form in std::iter::once(word).chain(lexemes) {
        let Some(typo) = Typo::new(form, edits.min(auto_edits(form))) else {
            continue;
        };
        let of_form = near_terms(&pages, &opened.segments, &typo, &word.as_bytes()[..first])
            .map_err(|e| index_error(*index, e))?;
        for near in of_form {
            if !found.iter().any(|known| known.term == near.term) {
                found.push(near);
            }
        }
    }
    found.sort_by_key(|near| (near.edits, std::cmp::Reverse(near.documents)));
    found.truncate(MAX_SUGGESTIONS);
    let mut rows = HeapRows::open(open.table(), index, Snapshot::of_statement());
    let mut words = vec![];
    for near in found {
        let written = rows.with_text(near.row, |text| written(analyzer, text, &near.term));
        let term = String::from_utf8_lossy(&near.term).into_owned();
        let word = written.transpose()?.flatten().unwrap_or(term);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    rows.close();
    Ok(words)
}

/// Returns how a term is written in a text that has it.
fn written(analyzer: Analyzer, text: &[u8], term: &[u8]) -> Result<Option<String>, Error> {
    let (analyzer, text) = languages::analyzer_of(analyzer, text)?;
    let mut words = Words::new(analyzer);
    let text = String::from_utf8_lossy(text);
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        let mut is_found = false;
        let read = words.each_occurrence(run.as_bytes(), Purpose::Text, |found| {
            is_found |= found.term == term;
            Ok(())
        });
        read.map_err(|OutOfMemory| Error::out_of_memory("the words of a row"))?;
        if is_found {
            return Ok(Some(run.to_lowercase()));
        }
    }
    Ok(None)
}
