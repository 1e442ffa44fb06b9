//! The words of a query, and the keyword index of a collection.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    rc::Rc,
};

use pgrx::pg_sys;
use rag_bm25::{Pattern, Query};
use rag_pages::Tid;
use rag_retrieval::fusion::{FoundWords, MAX_WORDS, written_words};
use rag_words::query::ParsedQuery;

use super::{
    notice::Notice,
    shards,
    statements::FoundRow,
    trace::{Event, Trace},
};
use crate::{
    catalog::{
        access::sees_partition, chunks::check_not_moved, collections::Collection,
        shards::distribution,
    },
    collection::keyword_index,
    error::Error,
    index::{
        am::{
            relation::{LockedIndex, table_of},
            tid::from_pointer,
        },
        bm25::{
            self,
            ranking::{Purpose, Ranking},
        },
    },
    pg::{cursor::Cursor, spi::as_owner},
};

/// The words of a query that a collection's keyword index can search for.
pub struct QueryWords {
    text: String,
    from: WordsFrom,
    ranking: Rc<Ranking>,
    /// The number of chunks in the index.
    pub chunks: u64,
    /// Something is required or excluded.
    has_condition: bool,
    /// Something is required, so that only chunks with words of the query are found.
    pub requires: bool,
}

/// What has the words of the chunks.
enum WordsFrom {
    Index(pg_sys::Oid),
    /// The table, because an index is corrupted. All chunks of the partition that have words of the
    /// query, the best first, and all that have what the query requires and nothing excluded.
    Table(Vec<(Tid, f64)>, HashSet<Tid>),
    /// The keyword indexes on all shards. Has the query with the statistics of all of them.
    Shards(String),
}

/// The number of texts that are read from the table at once.
const TEXTS: usize = 1000;

/// Why keyword search cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeywords {
    /// Stop words, or signs without letters and digits.
    NoWords,
    /// Words that must not be there, and no others.
    OnlyExcluded,
    NoIndex,
}

impl NoKeywords {
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoWords => "the query has no words to search for",
            Self::OnlyExcluded => "the query only has words that are excluded",
            Self::NoIndex => "the collection has no keyword index yet",
        }
    }
}

fn requires(query: &Query) -> bool {
    let condition = query.condition.as_ref();
    condition.is_some_and(|condition| !condition.required.is_empty())
}

fn no_words(text: &str, trace: &Trace) -> NoKeywords {
    let why = if ParsedQuery::parse(text).only_excludes() {
        NoKeywords::OnlyExcluded
    } else {
        NoKeywords::NoWords
    };
    trace.note(|| Event::NoWords(why));
    why
}

/// Tells of words that no chunk has, if there are others that may have been meant.
fn explain_unknown(
    index: pg_sys::Oid,
    ranking: &Ranking,
    text: &str,
    trace: &Trace,
) -> Result<(), Error> {
    for unknown in bm25::spelling::unknown_words(&open(index)?, ranking, text)? {
        let near: Vec<String> = unknown
            .near
            .iter()
            .map(|word| format!("\"{word}\""))
            .collect();
        let notice = Notice::new(format!("no chunk has the word \"{}\"", unknown.word));
        trace.tell(notice.hint(format!("Did you mean {}?", near.join(" or "))));
    }
    Ok(())
}

/// Returns the words of a query that count, with the numbers of chunks that have them.
fn described(query: &Query, counts: Option<&Vec<u64>>) -> Vec<(String, Option<u64>)> {
    let count = |n: usize| counts.and_then(|counts| counts.get(n)).copied();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let patterns = query
        .patterns
        .iter()
        .map(|counted| written(&counted.pattern));
    let terms = query.terms.iter().map(|(term, _)| text(term));
    let words = terms.chain(patterns).enumerate();
    words
        .filter(|(n, _)| query.as_ref().counts(*n))
        .map(|(n, word)| (word, count(n)))
        .collect()
}

/// Returns how a pattern is written in a query.
fn written(pattern: &Pattern) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match pattern {
        Pattern::Exact(term) => text(term),
        Pattern::Prefix(prefix) => format!("{}*", text(prefix)),
        Pattern::Typo(typo) => format!("{}~", typo.word()),
        Pattern::Any(patterns) => {
            let all: Vec<_> = patterns.iter().map(written).collect();
            all.join("/")
        }
    }
}

impl QueryWords {
    /// Runs with the rights of the role that reads the chunks.
    ///
    /// # Errors
    /// The index is corrupted.
    pub fn of(
        collection: &Collection,
        text: &str,
        trace: &Trace,
    ) -> Result<Result<Self, NoKeywords>, Error> {
        // rag.chunks is locked before its partition, as a rebuild does
        check_not_moved(collection)?;
        let Some(index) = keyword_index::find(collection) else {
            return Ok(Err(NoKeywords::NoIndex));
        };
        let shards = match distribution()? {
            Some(_) => Some(shards::query(collection, index, text)?),
            None => None,
        };
        let asked = shards.as_deref().unwrap_or(text);
        let ranking = bm25::ranking::ranking(Purpose::Search, index, asked.as_bytes())?;
        if ranking.query.is_empty() {
            return Ok(Err(no_words(text, trace)));
        }
        trace.note(|| {
            let counts = sees_partition(collection).then_some(&ranking.statistics.frequencies);
            Event::Words(described(&ranking.query, counts))
        });
        // the words of shards are not known here
        if shards.is_none() && sees_partition(collection) {
            explain_unknown(index, &ranking, text, trace)?;
        }
        Ok(Ok(Self {
            text: text.to_owned(),
            from: match shards {
                Some(query) => WordsFrom::Shards(query),
                None => WordsFrom::Index(index),
            },
            chunks: ranking.statistics.documents,
            has_condition: ranking.query.condition.is_some(),
            requires: requires(&ranking.query),
            ranking,
        }))
    }

    /// Returns the words without the index: reads all texts of the partition. Scores are those that
    /// the index would give.
    ///
    /// # Errors
    /// The table is corrupted.
    pub fn of_table(
        collection: &Collection,
        text: &str,
        trace: &Trace,
    ) -> Result<Result<Self, NoKeywords>, Error> {
        // rag.chunks is locked before its partition, as a rebuild does
        check_not_moved(collection)?;
        let Some(index) = keyword_index::find(collection) else {
            return Ok(Err(NoKeywords::NoIndex));
        };
        let ranking = bm25::ranking::over_texts(index, text.as_bytes(), |f| {
            each_text(collection, |_, text| f(text))
        })?;
        if ranking.query.is_empty() {
            return Ok(Err(no_words(text, trace)));
        }
        let has_condition = ranking.query.condition.is_some();
        let (mut found, mut allowed) = (vec![], HashSet::new());
        each_text(collection, |tid, text| {
            if has_condition && ranking.allows(text)? {
                allowed.insert(tid);
            }
            let score = ranking.score(text)?;
            if score > 0.0 {
                found.push((tid, score));
            }
            Ok(())
        })?;
        found.sort_by(|(one, of_one), (other, of_other)| {
            of_other.total_cmp(of_one).then(one.cmp(other))
        });
        trace.note(|| Event::WordsInTable);
        Ok(Ok(Self {
            text: text.to_owned(),
            from: WordsFrom::Table(found, allowed),
            chunks: ranking.statistics.documents,
            has_condition,
            requires: requires(&ranking.query),
            ranking: Rc::new(ranking),
        }))
    }

    /// Returns the keyword index, unless it is corrupted.
    pub fn index(&self) -> Option<pg_sys::Oid> {
        match self.from {
            WordsFrom::Index(index) => Some(index),
            WordsFrom::Table(..) | WordsFrom::Shards(_) => None,
        }
    }

    /// Returns the query for the keyword indexes on shards, if chunks are distributed.
    pub fn of_shards(&self) -> Option<&str> {
        match &self.from {
            WordsFrom::Shards(query) => Some(query),
            WordsFrom::Index(_) | WordsFrom::Table(..) => None,
        }
    }

    /// Calls `f` with the chunks that have words of the query, the best first: see
    /// [`bm25::search::each_batch`]. The caller may not be allowed to see all of them.
    ///
    /// # Errors
    /// The index is corrupted, or `f` fails.
    pub fn each_batch(
        &self,
        first: usize,
        mut f: impl FnMut(Vec<(Tid, f64)>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let all = match &self.from {
            WordsFrom::Index(index) => {
                return bm25::search::each_batch(&open(*index)?, &self.text, first, f);
            }
            WordsFrom::Table(all, _) => all,
            WordsFrom::Shards(_) => return Err(no_places()),
        };
        let (mut from, mut size) = (0, first.max(1));
        while from < all.len() {
            let to = from.saturating_add(size).min(all.len());
            if f(all[from..to].to_vec())?.is_break() {
                break;
            }
            (from, size) = (to, size.saturating_mul(2));
        }
        Ok(())
    }

    /// Returns the BM25 scores of chunks that the caller has read, 0 for those without the words.
    ///
    /// # Errors
    /// The index is corrupted.
    pub fn scores(&self, chunks: &[Tid]) -> Result<Vec<f64>, Error> {
        match &self.from {
            WordsFrom::Index(index) => bm25::search::scores_of(&open(*index)?, &self.text, chunks),
            WordsFrom::Table(all, _) => {
                let scores: HashMap<Tid, f64> = all.iter().copied().collect();
                let score = |tid| scores.get(tid).copied().unwrap_or(0.0);
                Ok(chunks.iter().map(score).collect())
            }
            WordsFrom::Shards(_) => Err(no_places()),
        }
    }

    /// Counts the words of the query that a chunk has which the caller has read. All counts are 0
    /// for a query without codes: its words are not looked at.
    ///
    /// # Errors
    /// The index is corrupted.
    pub fn found_in(&self, collection: &Collection, chunk: &FoundRow) -> Result<FoundWords, Error> {
        let mut counts = FoundWords::default();
        let parsed = ParsedQuery::parse(&self.text);
        let clauses = parsed.wanted();
        let of_clauses = clauses.flat_map(|node| written_words(node.text(), node.is_phrase()));
        let words = written_words(&parsed.words, false).chain(of_clauses);
        let words: Vec<_> = words.take(MAX_WORDS).collect();
        if !words.iter().any(|word| word.is_code) {
            return Ok(counts);
        }
        let has_term = self.terms_in(collection, chunk)?;
        for word in words {
            let terms = self.ranking.terms_of(word.text)?;
            let wholes = terms
                .iter()
                .filter(|(_, weight)| self.ranking.is_whole(*weight));
            let places: Vec<usize> = wholes
                .filter_map(|(term, _)| self.ranking.query.numbers_of(term).next())
                .collect();
            if places.is_empty() {
                continue; // a stop word
            }
            // in a collection of many languages, a word may have another stem in each
            let had = places.iter().filter(|place| has_term[**place]).count();
            let is_found = 2 * had >= places.len();
            counts.words += 1;
            counts.found += usize::from(is_found);
            counts.codes += usize::from(is_found && word.is_code);
        }
        Ok(counts)
    }

    /// Returns which terms of the query a chunk has.
    fn terms_in(&self, collection: &Collection, chunk: &FoundRow) -> Result<Vec<bool>, Error> {
        match &self.from {
            WordsFrom::Index(index) => {
                bm25::search::terms_in(&open(*index)?, &self.text, chunk.tid)
            }
            WordsFrom::Shards(query) => shards::terms_in(collection, query, chunk.key),
            WordsFrom::Table(..) => {
                let mut found = vec![false; self.ranking.query.as_ref().count()];
                each_text(collection, |tid, text| {
                    if tid == chunk.tid {
                        found = self.ranking.terms_in(text)?;
                    }
                    Ok(())
                })?;
                Ok(found)
            }
        }
    }
}

impl QueryWords {
    /// Keeps the chunks that have what the query requires, and nothing that it excludes. Vector
    /// search does not know of that.
    ///
    /// # Errors
    /// The index is corrupted.
    pub fn retain<T>(&self, chunks: &mut Vec<T>, place: impl Fn(&T) -> Tid) -> Result<(), Error> {
        if !self.has_condition {
            return Ok(());
        }
        let places: Vec<Tid> = chunks.iter().map(&place).collect();
        match &self.from {
            WordsFrom::Index(index) => {
                let allowed = bm25::search::allowed(&open(*index)?, &self.text, &places)?;
                let mut allowed = allowed.into_iter();
                chunks.retain(|_| allowed.next() == Some(true));
            }
            WordsFrom::Table(_, allowed) => chunks.retain(|chunk| allowed.contains(&place(chunk))),
            WordsFrom::Shards(_) => return Err(no_places()),
        }
        Ok(())
    }
}

/// Places of rows are those of their shards.
fn no_places() -> Error {
    Error::internal("chunks on shards have no places here")
}

fn open(index: pg_sys::Oid) -> Result<LockedIndex, Error> {
    table_of(index)
        .and_then(|table| LockedIndex::open(index, table))
        .ok_or_else(|| Error::internal("the keyword index was dropped"))
}

/// Calls `f` with the place and the indexed text of each chunk in the partition of a collection.
fn each_text(
    collection: &Collection,
    mut f: impl FnMut(Tid, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(partition) = &collection.partition else {
        return Ok(());
    };
    let statement = format!(
        "SELECT c.ctid, {} AS text FROM {} AS c",
        keyword_index::expression(collection, "c"),
        partition.qualified()
    );
    as_owner(|owner| {
        let cursor = Cursor::open(owner, &statement)?;
        loop {
            let texts = cursor.fetch(owner, TEXTS, |row| {
                let text: Option<String> = row.get("text")?;
                Ok((from_pointer(row.required("ctid")?), text))
            })?;
            let is_last = texts.len() < TEXTS;
            for (tid, text) in texts {
                if let Some(text) = text {
                    f(tid, text.as_bytes())?;
                }
            }
            if is_last {
                return cursor.close();
            }
        }
    })
}
