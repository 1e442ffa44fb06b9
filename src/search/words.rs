//! The words of a query, and the keyword index of a collection.

use std::ops::ControlFlow;

use pgrx::pg_sys;
use rag_bm25::Terms;
use rag_pages::Tid;

use super::trace::Trace;
use crate::{
    catalog::{access::sees_partition, collections::Collection, keyword_index},
    error::Error,
    index::{
        am::relation::{LockedIndex, table_of},
        bm25,
    },
};

/// The words of a query that a collection's keyword index can search for.
pub struct QueryWords {
    text: String,
    index: pg_sys::Oid,
    /// The number of chunks in the index.
    pub chunks: u64,
}

/// Why keyword search cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeywords {
    /// Stop words, or signs without letters and digits.
    NoWords,
    NoIndex,
    /// The search found it, or another one, corrupted.
    Damaged,
}

impl NoKeywords {
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoWords => "the query has no words to search for",
            Self::Damaged => "an index of the collection is corrupted",
            Self::NoIndex => "the collection has no keyword index yet",
        }
    }
}

/// Returns the words of a query, with the numbers of chunks that have them.
fn described(terms: &Terms, counts: Option<&Vec<u64>>) -> String {
    let words: Vec<String> = terms
        .iter()
        .enumerate()
        .map(|(n, (term, _))| {
            let word = String::from_utf8_lossy(term);
            match counts.and_then(|counts| counts.get(n)) {
                Some(count) => format!("{word} in {count}"),
                None => word.into_owned(),
            }
        })
        .collect();
    words.join(", ")
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
        let Some(index) = keyword_index::find(collection) else {
            return Ok(Err(NoKeywords::NoIndex));
        };
        let ranking = bm25::ranking::ranking(index, text.as_bytes())?;
        if ranking.terms.is_empty() {
            trace.note(|| NoKeywords::NoWords.reason().to_owned());
            return Ok(Err(NoKeywords::NoWords));
        }
        trace.note(|| {
            let counts = sees_partition(collection).then_some(&ranking.statistics.frequencies);
            format!("words: {}", described(&ranking.terms, counts))
        });
        Ok(Ok(Self {
            text: text.to_owned(),
            index,
            chunks: ranking.statistics.documents,
        }))
    }

    /// Calls `f` with the chunks that have words of the query, the best first: see
    /// [`bm25::search::each_batch`]. The caller may not be allowed to see all of them.
    ///
    /// # Errors
    /// The index is corrupted, or `f` fails.
    pub fn each_batch(
        &self,
        first: usize,
        f: impl FnMut(Vec<(Tid, f64)>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        bm25::search::each_batch(&self.open()?, &self.text, first, f)
    }

    /// Returns the BM25 scores of chunks that the caller has read, 0 for those without the words.
    ///
    /// # Errors
    /// The index is corrupted.
    pub fn scores(&self, chunks: &[Tid]) -> Result<Vec<f64>, Error> {
        bm25::search::scores_of(&self.open()?, &self.text, chunks)
    }

    fn open(&self) -> Result<LockedIndex, Error> {
        table_of(self.index)
            .and_then(|table| LockedIndex::open(self.index, table))
            .ok_or_else(|| Error::internal("the keyword index was dropped"))
    }
}
