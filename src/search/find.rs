//! Finds the chunks of a search: candidates from vector and keyword search, then the best of them.

use pgrx::datum::DatumWithOid;
use rag_contract::{Fusion, RetrievalMode};
use rag_fusion::{Candidates, ChunkKey, Limits, Method, Ranked, Weights, choose, rank};
use rag_pages::Tid;
use serde_json::Value;

use super::{
    SearchRequest,
    hits::read_embeddings,
    statements::{FoundRow, Statements},
    words::QueryWords,
};
use crate::{
    catalog::{access::sees_every_row, chunks::as_reader},
    error::Error,
    pg::{guc::with_settings, spi::explain},
    settings,
    types::vector::OwnedVector,
};

/// The minimum number of chunks that each search contributes. Fusion looks at more chunks than are
/// wanted, because the best may be far down in one of the lists.
const MIN_POOL: usize = 100;
/// If `per_document` leaves out too many chunks, the lists grow by this factor.
const POOL_GROWTH: usize = 4;

/// The minimum of `rag.ef_search` for a search. A question lies farther from its answers than rows
/// from each other, and embedding the question takes longer than the search.
const MIN_EF_SEARCH: usize = 200;

/// What the search uses.
pub struct Query<'a> {
    pub request: &'a SearchRequest,
    /// The mode that is used: the request's, or another one that can answer.
    pub mode: RetrievalMode,
    pub embedding: Option<&'a OwnedVector>,
    pub words: Option<&'a QueryWords>,
    /// The quoted name of the schema of the operators.
    pub operators: &'a str,
}

impl Query<'_> {
    /// Returns the best chunks, in the order of the results.
    ///
    /// # Errors
    /// An index is corrupted.
    pub fn find(&self) -> Result<Vec<Ranked>, Error> {
        let limits = Limits {
            top_k: self.request.top_k,
            threshold: self.request.threshold,
            per_document: self.request.per_document,
            mmr_lambda: self.request.mmr_lambda,
        };
        let mut pool = self.first_pool();
        loop {
            let (candidates, has_more) = self.candidates(pool)?;
            let ranked = rank(&candidates, self.method(), 0.0);
            let chosen = match limits.mmr_lambda {
                None => choose(&ranked, limits, |_, _| 0.0),
                Some(_) => {
                    let vectors = read_embeddings(self.request, &ranked)?;
                    choose(&ranked, limits, |one, other| vectors.similarity(one, other))
                }
            };
            if !chosen.needs_more || !has_more {
                return Ok(chosen.results);
            }
            pool = pool.saturating_mul(POOL_GROWTH);
        }
    }

    fn method(&self) -> Method {
        let weights = self.request.weights;
        match (self.mode, self.request.fusion) {
            (RetrievalMode::Vector, _) => Method::Vector,
            (RetrievalMode::Keyword, _) => Method::Keyword,
            (RetrievalMode::Hybrid, Fusion::ReciprocalRank) => Method::ReciprocalRank,
            (RetrievalMode::Hybrid, Fusion::Weighted) => Method::Weighted(Weights {
                vector: weights.vector,
                keyword: weights.keyword,
            }),
        }
    }

    /// Returns how many chunks each search finds at first.
    fn first_pool(&self) -> usize {
        let SearchRequest {
            top_k,
            per_document,
            mmr_lambda,
            ..
        } = *self.request;
        let is_plain = self.mode != RetrievalMode::Hybrid && mmr_lambda.is_none();
        match is_plain && per_document.is_none() {
            true => top_k,
            false => top_k.max(MIN_POOL),
        }
    }

    fn statements(&self) -> Statements<'_> {
        Statements {
            request: self.request,
            embedding: self.embedding,
            words: self.words,
            operators: self.operators,
        }
    }

    /// Returns the candidates, and whether a search may have more than `pool`. All scores that the
    /// mode uses are known of each candidate.
    fn candidates(&self, pool: usize) -> Result<(Candidates, bool), Error> {
        let statements = self.statements();
        if let Some(words) = self.words
            && let Some(rows) = self.few_filtered(&statements, words, pool)?
        {
            return self.all_of(&rows, words, pool);
        }
        let mut candidates = Candidates::default();
        let mut has_more = false;
        let mut nearest = vec![];
        if self.embedding.is_some() {
            nearest = with_complete_scans(|| statements.run(&statements.nearest(pool)))?;
            has_more |= nearest.len() >= pool;
            candidates.add_vector_list(cosines(&nearest), pool);
        }
        let Some(words) = self.words else {
            return Ok((candidates, has_more));
        };
        let mut best = statements.run(&statements.best_by_words(pool))?;
        // without an index scan, rows without the words come last
        best.retain(|row| row.keyword.is_some_and(|score| score > 0.0));
        let has_more_matches = best.len() >= pool;
        candidates.add_keyword_list(keywords(&best), pool);
        if self.embedding.is_some() {
            for (key, cosine) in cosines(&best) {
                candidates.set_cosine(key, cosine);
            }
            nearest.retain(|row| candidates.lacks_keyword(row.key));
            // if all rows that match were found, the others do not match
            let scores = match has_more_matches {
                true => self.keyword_scores(words, &nearest)?,
                false => vec![0.0; nearest.len()],
            };
            for (row, score) in nearest.iter().zip(scores) {
                candidates.set_keyword(row.key, score);
            }
        }
        Ok((candidates, has_more || has_more_matches))
    }

    /// Returns all chunks that pass the filter, if there are so few that it is faster to compute
    /// the score of each than to search until enough of the best have passed the filter.
    fn few_filtered(
        &self,
        statements: &Statements<'_>,
        words: &QueryWords,
        pool: usize,
    ) -> Result<Option<Vec<FoundRow>>, Error> {
        if self.request.filter.is_unrestricted() && sees_every_row(&self.request.collection) {
            return Ok(None);
        }
        let limit = few(words.chunks, pool);
        let every_row = statements.filtered(None);
        let estimate = as_reader(&self.request.collection, || {
            estimated_rows(&every_row.text, &every_row.args)
        })?;
        if estimate > limit as f64 {
            return Ok(None);
        }
        let rows = statements.run(&statements.filtered(Some(limit + 1)))?;
        Ok((rows.len() <= limit).then_some(rows))
    }

    fn keyword_scores(&self, words: &QueryWords, rows: &[FoundRow]) -> Result<Vec<f64>, Error> {
        let tids: Vec<Tid> = rows.iter().map(|row| row.tid).collect();
        as_reader(&self.request.collection, || words.scores(&tids))
    }

    /// Returns the candidates among chunks that are all that pass the filter.
    fn all_of(
        &self,
        rows: &[FoundRow],
        words: &QueryWords,
        pool: usize,
    ) -> Result<(Candidates, bool), Error> {
        let scores = self.keyword_scores(words, rows)?;
        let scored = || rows.iter().map(|row| row.key).zip(scores.iter().copied());
        let matches: Vec<_> = scored().filter(|(_, score)| *score > 0.0).collect();
        let mut candidates = Candidates::default();
        let mut has_more = matches.len() > pool;
        candidates.add_keyword_list(matches, pool);
        if self.embedding.is_some() {
            has_more |= rows.len() > pool;
            candidates.add_vector_list(cosines(rows), pool);
            for (key, cosine) in cosines(rows) {
                candidates.set_cosine(key, cosine);
            }
            for (key, score) in scored() {
                candidates.set_keyword(key, score);
            }
        }
        Ok((candidates, has_more))
    }
}

/// Returns how many chunks are few enough to compute the score of each. An index search for `pool`
/// chunks with a filter that passes `n` of `chunks` reads `pool * chunks / n` rows, each of which
/// takes about 2.5 times as long as one of the `n` here.
fn few(chunks: u64, pool: usize) -> usize {
    let balance = (2.5 * pool as f64 * chunks as f64).sqrt();
    (balance as usize).max(10 * MIN_POOL)
}

/// Returns how many rows the planner expects of a statement.
fn estimated_rows(statement: &str, args: &[DatumWithOid<'_>]) -> Result<f64, Error> {
    let plan = explain(statement, args)?;
    let rows = plan.pointer("/0/Plan/Plan Rows");
    Ok(rows.and_then(Value::as_f64).unwrap_or(f64::INFINITY))
}

/// Runs a vector search to its end, whatever the settings of the session for index scans say: a
/// scan continues until enough rows have passed the filter and row-level security.
fn with_complete_scans<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let ef_search = settings::ef_search().max(MIN_EF_SEARCH).to_string();
    let ef_search = std::ffi::CString::new(ef_search).unwrap_or_default();
    let complete = [
        (c"rag.iterative_scan", c"strict"),
        (c"rag.max_scan_tuples", c"0"),
        (c"rag.ef_search", ef_search.as_c_str()),
    ];
    with_settings(&complete, f)
}

fn cosines(rows: &[FoundRow]) -> Vec<(ChunkKey, f64)> {
    let of = |row: &FoundRow| Some((row.key, row.cosine?));
    rows.iter().filter_map(of).collect()
}

fn keywords(rows: &[FoundRow]) -> Vec<(ChunkKey, f64)> {
    let of = |row: &FoundRow| Some((row.key, row.keyword?));
    rows.iter().filter_map(of).collect()
}
