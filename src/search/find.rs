//! Finds the chunks of a search: candidates from vector and keyword search, then the best of them.

use std::{collections::HashMap, ffi::CStr, ops::ControlFlow};

use pgrx::datum::DatumWithOid;
use rag_definition::retriever::RetrievalMode;
use rag_pages::Tid;
use rag_retrieval::fusion::{
    Candidates, Chosen, ChunkKey, Limits, Part as RankedPart, Ranked, choose, rank,
};
use serde_json::Value;

use super::{
    SearchRequest,
    hits::read_embeddings,
    statements::{FoundRow, Statement, Statements},
    trace::{Event, Part, Trace},
    words::QueryWords,
};
use crate::{
    catalog::{
        access::{sees_every_row, sees_partition},
        chunks::as_reader,
        shards::is_distributed,
    },
    collection::{corruption::IndexUse, index},
    error::Error,
    pg::{
        explain::{explain, scans},
        extension,
        guc::with_settings,
        spi::Rights,
    },
    settings,
    storage::{IndexScan, Storage},
    types::vector::OwnedVector,
};

/// The minimum number of chunks that each search contributes. Fusion looks at more chunks than are
/// wanted, because the best may be far down in one of the lists.
pub const MIN_POOL: usize = 100;
/// If `per_document` leaves out too many chunks, the lists grow by this factor.
pub const POOL_GROWTH: usize = 4;

/// The minimum of `rag.ef_search` for a search. A question lies farther from its answers than rows
/// from each other, and embedding the question takes longer than the search.
pub const MIN_EF_SEARCH: usize = 200;

/// What the search uses.
pub struct Query<'a> {
    pub request: &'a SearchRequest,
    /// The mode that is used: the request's, or another one that can answer.
    pub mode: RetrievalMode,
    pub embedding: Option<&'a OwnedVector>,
    pub words: Option<&'a QueryWords>,
    pub trace: &'a Trace,
    pub indexes: IndexUse,
}

impl Query<'_> {
    /// Returns the best `top_k` chunks, in the order of the results.
    ///
    /// # Errors
    /// An index is corrupted.
    pub fn find(&self, top_k: usize) -> Result<Vec<Ranked>, Error> {
        let limits = Limits {
            top_k,
            threshold: self.request.threshold,
            per_document: self.request.per_document,
            mmr_lambda: self.request.mmr_lambda,
        };
        let mut pool = self.first_pool(top_k);
        loop {
            let found = self.candidates(pool)?;
            let chosen = self
                .trace
                .measure(Part::Fusion, || self.choose(&found, limits))?;
            if !chosen.needs_more || !found.has_more {
                return Ok(chosen.results);
            }
            pool = pool.saturating_mul(POOL_GROWTH);
        }
    }

    fn choose(&self, found: &Found, limits: Limits) -> Result<Chosen, Error> {
        let method = self.method(found.best_by_words)?;
        let mut ranked = rank(&[RankedPart {
            candidates: &found.candidates,
            method,
            baseline: self.baseline(),
        }]);
        if let Some(least) = self.request.min_similarity {
            ranked.retain(|chunk| chunk.vector_score.is_none_or(|score| score >= least));
        }
        let chosen = match limits.mmr_lambda {
            None => choose(&ranked, limits, |_, _| 0.0),
            Some(_) => {
                let vectors = read_embeddings(self.request, &ranked)?;
                choose(&ranked, limits, |one, other| {
                    vectors.similarity(&ranked[one], &ranked[other])
                })
            }
        };
        self.trace.rows(chosen.results.len());
        self.trace.note(|| Event::Chosen {
            method,
            baseline: self.baseline(),
            candidates: ranked.len(),
            below_threshold: limits.threshold.map(|threshold| {
                ranked
                    .iter()
                    .filter(|chunk| chunk.score < threshold)
                    .count()
            }),
            needs_more: chosen.needs_more,
        });
        Ok(chosen)
    }

    /// Returns how many chunks each search finds at first.
    fn first_pool(&self, top_k: usize) -> usize {
        let SearchRequest {
            per_document,
            mmr_lambda,
            ..
        } = *self.request;
        let is_plain = self.mode != RetrievalMode::Hybrid && mmr_lambda.is_none();
        if is_plain && per_document.is_none() {
            top_k
        } else {
            top_k.max(MIN_POOL)
        }
    }

    fn statements(&self) -> Result<Statements<'_>, Error> {
        Ok(Statements {
            request: self.request,
            embedding: self.embedding,
            operators: extension::own_schema()?,
            // a filter has a plan of its own, by its values
            keeps_plans: self.indexes == IndexUse::Allowed && !self.is_restricted(),
        })
    }

    /// Returns the candidates of searches for `pool` chunks each. All scores that the mode uses are
    /// known of each candidate.
    pub fn candidates(&self, pool: usize) -> Result<Found, Error> {
        let statements = self.statements()?;
        if is_distributed()? {
            return self.candidates_of_shards(&statements, pool);
        }
        if let Some(words) = self.words
            && self.is_filtered()
        {
            let part = match self.embedding {
                Some(_) => Part::Vector,
                None => Part::Keyword,
            };
            let few = self
                .trace
                .measure(part, || self.few_filtered(&statements, words, pool))?;
            if let Some(mut rows) = few {
                self.retain_allowed(words, &mut rows)?;
                return self
                    .trace
                    .measure(Part::Keyword, || self.all_of(&rows, words, pool));
            }
        }
        let mut found = Found::default();
        let mut nearest = vec![];
        if self.embedding.is_some() {
            (nearest, found.has_more) = self
                .trace
                .measure(Part::Vector, || self.allowed_nearest(&statements, pool))?;
            let list = similarities(&nearest);
            found.candidates.add_vector_list(list, pool);
        }
        if let Some(words) = self.words {
            self.trace.measure(Part::Keyword, || {
                self.add_by_words(&statements, words, nearest, &mut found, pool)
            })?;
        }
        Ok(found)
    }

    /// Adds the list of keyword search to what was found, and the scores that candidates lack.
    /// `nearest` is the list of vector search.
    fn add_by_words(
        &self,
        statements: &Statements<'_>,
        words: &QueryWords,
        mut nearest: Vec<FoundRow>,
        found: &mut Found,
        pool: usize,
    ) -> Result<(), Error> {
        let (best, has_more) = self.best_by_words(statements, words, &nearest, pool)?;
        self.trace.rows(best.len());
        found.has_more |= has_more;
        found.best_by_words = best_row(best.iter().map(|(row, score)| (row, *score)));
        let candidates = &mut found.candidates;
        let scores = best.iter().map(|(row, score)| (row.key, *score));
        candidates.add_keyword_list(scores.collect(), pool);
        if self.embedding.is_some() {
            for (row, _) in &best {
                candidates.set_cosine(row.key, row.similarity.unwrap_or_default());
            }
            nearest.retain(|row| candidates.lacks_keyword(row.key));
            // if all rows that match were found, the others do not match
            let scores = if has_more {
                self.trace.note(|| Event::ScoredByWords(nearest.len()));
                self.keyword_scores(words, &nearest)?
            } else {
                vec![0.0; nearest.len()]
            };
            for (row, score) in nearest.iter().zip(scores) {
                candidates.set_keyword(row.key, score);
            }
        }
        Ok(())
    }

    /// Returns the chunks with the highest BM25 scores, and whether there may be more. The index
    /// says which ones these are. A statement with the caller's rights says which of them may be
    /// found, except for the `nearest`, which may be. An ORDER BY would put together the indexed
    /// text of each chunk again.
    fn best_by_words(
        &self,
        statements: &Statements<'_>,
        words: &QueryWords,
        nearest: &[FoundRow],
        limit: usize,
    ) -> Result<(Vec<(FoundRow, f64)>, bool), Error> {
        let known: HashMap<Tid, &FoundRow> = nearest.iter().map(|row| (row.tid, row)).collect();
        let mut found: Vec<(FoundRow, f64)> = vec![];
        let (mut steps, mut named) = (0, 0);
        as_reader(&self.request.collection, |_| {
            words.each_batch(limit, |batch| {
                steps += 1;
                named += batch.len();
                let mut scores: HashMap<Tid, f64> = HashMap::new();
                for (tid, score) in batch {
                    match known.get(&tid) {
                        Some(row) => found.push((**row, score)),
                        None => drop(scores.insert(tid, score)),
                    }
                }
                if !scores.is_empty() {
                    let places: Vec<Tid> = scores.keys().copied().collect();
                    let rows = statements.run(&statements.at_places(&places))?;
                    let scored = |row: FoundRow| Some((row, *scores.get(&row.tid)?));
                    found.extend(rows.into_iter().filter_map(scored));
                }
                Ok(if found.len() >= limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            })
        })?;
        // the number of rows that policies hide would tell that the words are in them
        if self.trace.records_steps() && sees_partition(&self.request.collection) {
            self.trace.note(|| Event::NamedByIndex {
                chunks: named,
                steps,
            });
        }
        self.trace.note(|| Event::FoundByWords(found.len()));
        let has_more = found.len() >= limit;
        Ok((found, has_more))
    }

    /// Returns the nearest chunks that have what the words of the query require, and nothing that
    /// they exclude, and whether there may be more.
    fn allowed_nearest(
        &self,
        statements: &Statements<'_>,
        pool: usize,
    ) -> Result<(Vec<FoundRow>, bool), Error> {
        let mut limit = pool;
        loop {
            let mut nearest = self.nearest(statements, limit)?;
            let has_more = nearest.len() >= limit;
            let Some(words) = self.words else {
                return Ok((nearest, has_more));
            };
            self.retain_allowed(words, &mut nearest)?;
            // what is required is in the list of keyword search
            let is_enough = words.requires || nearest.len() * POOL_GROWTH >= pool;
            if is_enough || !has_more {
                nearest.truncate(pool);
                return Ok((nearest, has_more));
            }
            limit = limit.saturating_mul(POOL_GROWTH);
        }
    }

    /// Returns the nearest chunks.
    fn nearest(&self, statements: &Statements<'_>, limit: usize) -> Result<Vec<FoundRow>, Error> {
        let collection = &self.request.collection;
        let storage = Storage::of(collection);
        if let Storage::Server(server) = storage
            && let Some(embedding) = self.embedding
            && let Some(found) = self.nearest_of_server(server, statements, embedding, limit)?
        {
            self.trace.rows(found.len());
            return Ok(found);
        }
        let index = storage.index().filter(|_| index::exists(collection));
        let statement = statements.nearest(limit, index)?;
        let run = |complete| {
            let ef_search = settings::ef_search().max(MIN_EF_SEARCH).max(2 * limit);
            let scan = IndexScan {
                ef_search,
                is_complete: complete,
            };
            with_scan_settings(storage, scan, || {
                if self.trace.records_steps() {
                    self.note_path(&statement, ef_search)?;
                }
                let rows = statements.run(&statement)?;
                self.trace.rows(rows.len());
                Ok(rows)
            })
        };
        // Without a filter, one walk finds enough. A walk that can go on prepares for that, which
        // takes as long again.
        let is_complete = self.is_filtered() || 2 * limit > settings::MAX_EF_SEARCH;
        let found = run(is_complete)?;
        if is_complete || found.len() >= limit || index.is_none() {
            return Ok(found);
        }
        run(true)
    }

    /// Records how the planner finds the nearest chunks.
    fn note_path(&self, statement: &Statement, ef_search: usize) -> Result<(), Error> {
        let plan = as_reader(&self.request.collection, |reader| {
            explain(reader, &statement.text, &statement.args)
        })?;
        let scans = scans(&plan);
        let is_ordered = scans.iter().any(|scan| scan.is_ordered);
        self.trace.note(|| Event::Path {
            ef_search: is_ordered.then_some(ef_search),
            scans: scans.into_iter().map(|scan| scan.description).collect(),
        });
        Ok(())
    }

    /// Returns true if some chunks of the collection must not be found: by the filter or by
    /// row-level security.
    fn is_restricted(&self) -> bool {
        !self.request.filter.is_unrestricted() || !sees_every_row(&self.request.collection)
    }

    /// Returns true if some chunks of the partition must not be found.
    pub fn is_filtered(&self) -> bool {
        self.is_restricted() || self.request.collection.shares_partition()
    }

    /// Returns all chunks that pass the filter, if there are so few that it is faster to compute
    /// the score of each than to search until enough of the best have passed the filter.
    fn few_filtered(
        &self,
        statements: &Statements<'_>,
        words: &QueryWords,
        pool: usize,
    ) -> Result<Option<Vec<FoundRow>>, Error> {
        let mut limit = few(words.chunks, pool);
        if statements.keeps_plans {
            // part of the statement, which should stay the same while the partition grows
            limit = limit.next_power_of_two();
        }
        let every_row = statements.filtered(None);
        let estimate = as_reader(&self.request.collection, |reader| {
            estimated_rows(reader, &every_row.text, &every_row.args)
        })?;
        self.trace.note(|| Event::ExpectedToPass(estimate));
        if estimate > limit as f64 {
            self.trace.note(|| Event::ManyExpected(limit));
            return Ok(None);
        }
        let rows = statements.run(&statements.filtered(Some(limit + 1)))?;
        if rows.len() > limit {
            self.trace.note(|| Event::ManyPass(limit));
            return Ok(None);
        }
        self.trace.rows(rows.len());
        self.trace.note(|| Event::FewPass);
        Ok(Some(rows))
    }

    /// Keeps the rows that have what the query requires, and nothing that it excludes.
    fn retain_allowed(&self, words: &QueryWords, rows: &mut Vec<FoundRow>) -> Result<(), Error> {
        as_reader(&self.request.collection, |_| {
            words.retain(rows, |row| row.tid)
        })
    }

    fn keyword_scores(&self, words: &QueryWords, rows: &[FoundRow]) -> Result<Vec<f64>, Error> {
        let tids: Vec<Tid> = rows.iter().map(|row| row.tid).collect();
        as_reader(&self.request.collection, |_| words.scores(&tids))
    }

    /// Returns the candidates among chunks that are all that pass the filter.
    fn all_of(&self, rows: &[FoundRow], words: &QueryWords, pool: usize) -> Result<Found, Error> {
        let scores = self.keyword_scores(words, rows)?;
        self.trace.note(|| Event::Scored(rows.len()));
        let scored = || rows.iter().map(|row| row.key).zip(scores.iter().copied());
        let matches: Vec<_> = scored().filter(|(_, score)| *score > 0.0).collect();
        self.trace.rows(matches.len());
        let mut candidates = Candidates::default();
        let mut has_more = matches.len() > pool;
        let best_by_words = best_row(rows.iter().zip(scores.iter().copied()));
        candidates.add_keyword_list(matches, pool);
        if self.embedding.is_some() {
            has_more |= rows.len() > pool;
            candidates.add_vector_list(similarities(rows), pool);
            for (key, cosine) in similarities(rows) {
                candidates.set_cosine(key, cosine);
            }
            for (key, score) in scored() {
                candidates.set_keyword(key, score);
            }
        }
        Ok(Found {
            candidates,
            has_more,
            best_by_words,
        })
    }
}

/// What the searches have found.
#[derive(Default)]
pub struct Found {
    pub candidates: Candidates,
    /// A search may have more chunks than it was asked for.
    pub has_more: bool,
    /// The chunk with the highest BM25 score. Of equal ones, that with the lowest ids.
    pub best_by_words: Option<FoundRow>,
}

/// Returns the row with the highest score above 0. Of equal ones, that with the lowest
/// ids.
pub fn best_row<'a>(rows: impl Iterator<Item = (&'a FoundRow, f64)>) -> Option<FoundRow> {
    rows.filter(|(_, score)| *score > 0.0)
        .max_by(|(row, score), (other, of_other)| {
            score.total_cmp(of_other).then(other.key.cmp(&row.key))
        })
        .map(|(row, _)| *row)
}

/// Returns how many chunks are few enough to compute the score of each. An index search for `pool`
/// chunks with a filter that passes `n` of `chunks` reads `pool * chunks / n` rows, each of which
/// takes about 2.5 times as long as one of the `n` here.
fn few(chunks: u64, pool: usize) -> usize {
    let balance = (2.5 * pool as f64 * chunks as f64).sqrt();
    (balance as usize).max(10 * MIN_POOL)
}

/// Returns how many rows the planner expects of a statement.
fn estimated_rows(
    reader: &Rights,
    statement: &str,
    args: &[DatumWithOid<'_>],
) -> Result<f64, Error> {
    let plan = explain(reader, statement, args)?;
    let rows = plan.pointer("/0/Plan/Plan Rows");
    Ok(rows.and_then(Value::as_f64).unwrap_or(f64::INFINITY))
}

/// Runs a vector search, whatever the settings of the session for index scans say.
pub fn with_scan_settings<T>(
    storage: Storage,
    scan: IndexScan,
    f: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let index = storage.index();
    let settings = index.map_or_else(Vec::new, |index| index.scan_settings(scan));
    let settings: Vec<(&CStr, &CStr)> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_c_str()))
        .collect();
    with_settings(&settings, f)
}

pub fn similarities(rows: &[FoundRow]) -> Vec<(ChunkKey, f64)> {
    let of = |row: &FoundRow| Some((row.key, row.similarity?));
    rows.iter().filter_map(of).collect()
}
