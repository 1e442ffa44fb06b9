//! A search of several collections: each is searched by its own model and configuration, and what
//! is found is ranked together.
//!
//! ```text
//! statistics of words ──▶ candidates of each collection ──▶ one ranking ──▶ hits of each one
//! ```
//!
//! Words have the statistics of all keyword indexes with the same rules, and the BM25 scores of all
//! collections are divided by the best. A cosine similarity counts from what the model gives texts
//! that have nothing to do with each other.

use std::{cell::RefCell, collections::HashMap, time::Instant};

use pgrx::pg_sys;
use rag_definition::retriever::{Fusion, RetrievalMode, Weights};
use rag_retrieval::fusion::{
    Candidates, Chosen, ChunkKey, Limits, Method, Part as RankedPart, Ranked, choose, rank,
};

use super::{
    QueryEmbedding, SearchHit, SearchRequest, SearchResult, diagnosis,
    distinct::{self, Finds},
    find::{MIN_POOL, POOL_GROWTH, Query},
    hits::{Embeddings, join_neighbours, read_embeddings, read_hits},
    is_of_rebuild,
    notice::Notice,
    search, shards,
    trace::Trace,
    usable,
};
use crate::{
    catalog::{
        access::sees_every_row,
        chunks::{as_reader, check_not_moved},
        collections::{Collection, StoredModel},
        shards::is_distributed,
    },
    cluster::search_stats::{Counted, SearchRecord},
    collection::{corruption::search_with_fallback, keyword_index},
    error::{Cause, Error},
    index::bm25::partitions::{groups, rank_together},
    pg::transaction::{is_parallel, subtransaction, with_latest_snapshot},
};

/// Runs a search of one or several collections, and raises its notices. The requests only differ
/// in what their retrievers decide.
///
/// # Errors
/// The query cannot be embedded, or has another number of dimensions than a collection.
pub fn search_all(requests: &[SearchRequest]) -> Result<SearchResult, Error> {
    if let [request] = requests {
        return search(request);
    }
    let counted: Vec<Counted> = requests
        .iter()
        .map(|request| Counted::begin(request.collection.name.as_str(), request.mode))
        .collect();
    let started = Instant::now();
    let traces: Vec<Trace> = requests.iter().map(|_| Trace::default()).collect();
    let result = match Several::new(requests, &traces).run() {
        Err(error) if is_of_rebuild(&error, requests) => with_latest_snapshot(|| {
            let requests = requests.iter().map(SearchRequest::refreshed);
            let requests = requests.collect::<Result<Vec<_>, Error>>()?;
            Several::new(&requests, &traces).run()
        })?,
        result => result?,
    };
    for ((counted, trace), request) in counted.into_iter().zip(&traces).zip(requests) {
        let name = request.collection.name.as_str();
        let of_collection = |hit: &&SearchHit| hit.collection == name;
        counted.end(SearchRecord {
            rows: result.hits.iter().filter(of_collection).count(),
            top_k: 0, // the others may be better
            is_degraded: result.degraded.is_some(),
            times: trace.times(started.elapsed()),
        });
    }
    // what several collections have to tell is told once
    let once = Trace::default();
    let notices = traces.iter().flat_map(Trace::take_notices);
    notices.for_each(|notice| once.tell(notice));
    once.take_notices().into_iter().for_each(Notice::raise);
    Ok(result)
}

/// Collections that are searched together. At least one.
struct Several<'a> {
    requests: &'a [SearchRequest],
    traces: &'a [Trace],
}

/// What was found in a collection.
struct Found {
    candidates: Candidates,
    has_more: bool,
    method: Method,
    /// The weights are those of the query's words, in this collection.
    is_weighed: bool,
    baseline: f64,
    mode: RetrievalMode,
    degraded: Option<String>,
}

/// The embeddings of the query, by models and the modes that they are for.
type QueryEmbeddings<'a> = HashMap<(&'a str, &'a str, usize, bool), QueryEmbedding<'a>>;

impl<'a> Several<'a> {
    fn new(requests: &'a [SearchRequest], traces: &'a [Trace]) -> Self {
        Self { requests, traces }
    }

    /// Returns the collections that have been indexed, with their numbers.
    fn indexed(&self) -> impl Iterator<Item = (usize, &'a SearchRequest, &'a StoredModel)> {
        let all = self.requests.iter().enumerate();
        all.filter_map(|(number, request)| {
            let model = request.collection.model.as_ref()?;
            Some((number, request, model))
        })
    }

    fn run(&self) -> Result<SearchResult, Error> {
        self.share_statistics()?;
        let mut embeddings = QueryEmbeddings::new();
        for (number, request, model) in self.indexed() {
            let embedding = embeddings.entry(embedding_key(request, model));
            let embedding = embedding.or_insert_with(|| QueryEmbedding::new(&self.traces[number]));
            if request.mode == RetrievalMode::Vector {
                embedding.get(request, model)?;
            }
        }
        let search = SearchOfSeveral {
            several: self,
            embeddings,
            degraded: RefCell::default(),
        };
        let hits = distinct::hits(&search)?;
        for (request, trace) in self.requests.iter().zip(self.traces) {
            diagnosis::explain_dates(request, trace)?;
        }
        let (mode, degraded) = search.degraded.into_inner().unzip();
        Ok(SearchResult {
            mode: mode.unwrap_or(self.requests[0].mode),
            degraded,
            hits,
        })
    }

    /// Gives words the same statistics in all collections with the same rules. A collection of
    /// which the caller must not see all chunks has its own: scores of the others would tell of
    /// words in it.
    fn share_statistics(&self) -> Result<(), Error> {
        let requests = self.requests.iter().filter(|request| {
            request.mode != RetrievalMode::Vector && sees_every_row(&request.collection)
        });
        let requests: Vec<&SearchRequest> = requests.collect();
        let [first, _, ..] = requests[..] else {
            return Ok(());
        };
        let Some(text) = first.query.words() else {
            return Ok(());
        };
        for request in &requests {
            check_not_moved(&request.collection)?;
        }
        let collections = requests.iter().filter_map(|request| {
            let index = keyword_index::find(&request.collection)?;
            Some((&request.collection, index))
        });
        let collections: Vec<_> = collections.collect();
        let indexes: Vec<_> = collections.iter().map(|(_, index)| *index).collect();
        let is_distributed = is_distributed()?;
        let share = || {
            as_reader(&first.collection, |_| match is_distributed {
                true => share_of_shards(&collections, text),
                false => rank_together(&indexes, text.as_bytes()),
            })
        };
        let shared = match is_parallel() {
            true => share(),
            false => subtransaction(share),
        };
        match shared {
            // the search of the collection tells of it
            Err(error) if error.is(Cause::Corrupt) => Ok(()),
            result => result,
        }
    }
}

/// Gives words the same statistics in collections whose indexes have the same rules.
fn share_of_shards(collections: &[(&Collection, pg_sys::Oid)], text: &str) -> Result<(), Error> {
    let indexes: Vec<_> = collections.iter().map(|(_, index)| *index).collect();
    for group in groups(&indexes)? {
        let of_group = collections
            .iter()
            .filter(|(_, index)| group.contains(index));
        shards::share_statistics(&of_group.copied().collect::<Vec<_>>(), text)?;
    }
    Ok(())
}

/// Returns what an embedding of the query depends on.
fn embedding_key<'a>(
    request: &SearchRequest,
    model: &'a StoredModel,
) -> (&'a str, &'a str, usize, bool) {
    let is_hybrid = request.mode == RetrievalMode::Hybrid;
    (&model.name, &model.fingerprint, model.dimensions, is_hybrid)
}

/// A search with the embeddings of its query.
struct SearchOfSeveral<'a> {
    several: &'a Several<'a>,
    embeddings: QueryEmbeddings<'a>,
    /// The mode that was used, and why it is not the one that was asked for.
    degraded: RefCell<Option<(RetrievalMode, String)>>,
}

impl SearchOfSeveral<'_> {
    /// Returns what was found in each collection, with the scores that it needs for the ranking.
    fn found(&self, pool: usize) -> Result<Vec<(usize, Found)>, Error> {
        let mut found = vec![];
        // the best keyword hit of all decides on the weights
        let mut weighed: Option<(f64, Weights)> = None;
        for (number, request, model) in self.several.indexed() {
            let trace = &self.several.traces[number];
            let embedding = &self.embeddings[&embedding_key(request, model)];
            let of_collection = search_with_fallback(&request.collection, |indexes| {
                let usable = usable(request, model, embedding, indexes)?;
                let query = Query {
                    request,
                    mode: usable.mode,
                    embedding: usable.embedding,
                    words: usable.words.as_ref(),
                    trace,
                    indexes,
                };
                let found = query.candidates(pool)?;
                Ok(Found {
                    method: query.method(found.best_by_words)?,
                    is_weighed: request.fusion == Fusion::Weighted && request.weights.is_none(),
                    candidates: found.candidates,
                    has_more: found.has_more,
                    baseline: query.baseline(),
                    mode: usable.mode,
                    degraded: usable.degraded,
                })
            })?;
            if let Some(why) = &of_collection.degraded {
                let why = format!("{why} (collection \"{}\")", request.collection.name);
                let mut degraded = self.degraded.borrow_mut();
                degraded.get_or_insert((of_collection.mode, why));
            }
            if let (Method::Weighted(weights), true) =
                (of_collection.method, of_collection.is_weighed)
            {
                let keywords = of_collection.candidates.iter();
                let best = keywords
                    .filter_map(|found| found.keyword)
                    .fold(0.0, f64::max);
                if weighed.is_none_or(|(known, _)| best > known) {
                    weighed = Some((best, weights));
                }
            }
            found.push((number, of_collection));
        }
        use_one_method(&mut found, weighed.map(|(_, weights)| weights));
        Ok(found)
    }

    /// Returns the chunks that may be results, the best first.
    fn ranked(&self, found: &[(usize, Found)]) -> Vec<Ranked> {
        let parts: Vec<RankedPart<'_>> = found
            .iter()
            .map(|(_, found)| RankedPart {
                candidates: &found.candidates,
                method: found.method,
                baseline: found.baseline,
            })
            .collect();
        let mut ranked = rank(&parts);
        for chunk in &mut ranked {
            chunk.part = found[chunk.part].0;
        }
        ranked.retain(|chunk| {
            let request = &self.several.requests[chunk.part];
            let is_similar = |least: f64| chunk.vector_score.is_none_or(|score| score >= least);
            request.threshold.is_none_or(|least| chunk.score >= least)
                && request.min_similarity.is_none_or(is_similar)
        });
        ranked
    }

    /// Calls `f` with the request of each collection and its chunks, and returns what it returns.
    fn of_collections<T>(
        &self,
        ranked: &[Ranked],
        f: impl Fn(&SearchRequest, &[Ranked]) -> Result<T, Error>,
    ) -> Result<Vec<(usize, T)>, Error> {
        let mut all = vec![];
        for (number, request) in self.several.requests.iter().enumerate() {
            let chunks = ranked.iter().filter(|chunk| chunk.part == number);
            let chunks: Vec<Ranked> = chunks.copied().collect();
            if !chunks.is_empty() {
                let read = search_with_fallback(&request.collection, |_| f(request, &chunks))?;
                all.push((number, read));
            }
        }
        Ok(all)
    }

    fn choose(&self, ranked: &[Ranked], limits: Limits) -> Result<Chosen, Error> {
        if limits.mmr_lambda.is_none() {
            return Ok(choose(ranked, limits, |_, _| 0.0));
        }
        let mut vectors = Embeddings::default();
        for (_, of_collection) in self.of_collections(ranked, read_embeddings)? {
            vectors.append(of_collection);
        }
        Ok(choose(ranked, limits, |one, other| {
            vectors.similarity(&ranked[one], &ranked[other])
        }))
    }
}

impl Finds for SearchOfSeveral<'_> {
    fn request(&self) -> &SearchRequest {
        &self.several.requests[0]
    }

    fn trace(&self) -> &Trace {
        &self.several.traces[0]
    }

    fn find(&self, top_k: usize) -> Result<Vec<Ranked>, Error> {
        let request = self.request();
        let limits = Limits {
            top_k,
            threshold: None, // each collection has its own
            per_document: request.per_document,
            mmr_lambda: request.mmr_lambda,
        };
        let mut pool = top_k.max(MIN_POOL);
        loop {
            let found = self.found(pool)?;
            let chosen = self.choose(&self.ranked(&found), limits)?;
            let has_more = found.iter().any(|(_, found)| found.has_more);
            if !chosen.needs_more || !has_more {
                return Ok(chosen.results);
            }
            pool = pool.saturating_mul(POOL_GROWTH);
        }
    }

    fn read(&self, results: &[Ranked]) -> Result<Vec<SearchHit>, Error> {
        let place = |(place, chunk): (usize, &Ranked)| ((chunk.part, chunk.key), place);
        let places: HashMap<(usize, ChunkKey), usize> =
            results.iter().enumerate().map(place).collect();
        let mut placed: Vec<(usize, SearchHit)> = vec![];
        for (number, hits) in self.of_collections(results, read_hits)? {
            for hit in hits {
                if let Some(place) = places.get(&(number, hit.key())) {
                    placed.push((*place, hit));
                }
            }
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        Ok(placed.into_iter().map(|(_, hit)| hit).collect())
    }

    fn join_neighbours(&self, hits: &mut [SearchHit]) -> Result<(), Error> {
        hits.sort_by(|one, other| one.collection.cmp(&other.collection));
        for of_collection in hits.chunk_by_mut(|one, other| one.collection == other.collection) {
            let name = of_collection[0].collection.as_str();
            let mut requests = self.several.requests.iter();
            let of_name = |request: &&SearchRequest| request.collection.name.as_str() == name;
            if let Some(request) = requests.find(of_name) {
                join_neighbours(request, of_collection)?;
            }
        }
        hits.sort_by_key(|hit| hit.rank);
        Ok(())
    }
}

/// Makes the scores of all collections comparable. `weights` are those that the query decides on.
///
/// If one is searched by vectors and words, the others count with the weights of what they are
/// searched by. A cosine similarity counts from the model's baseline where these differ.
fn use_one_method(found: &mut [(usize, Found)], weights: Option<Weights>) {
    let given = |(_, found): &(usize, Found)| match found.method {
        Method::Weighted(weights) => Some(weights),
        _ => None,
    };
    let of_one = weights.or_else(|| found.iter().find_map(given));
    let first = found.first().map(|(_, found)| found.baseline);
    let is_same = found.iter().all(|(_, found)| Some(found.baseline) == first);
    let vectors = Weights {
        vector: 1.0,
        keyword: 0.0,
    };
    for (_, found) in found {
        found.method = match (found.method, of_one) {
            (Method::Weighted(given), _) if !found.is_weighed => Method::Weighted(given),
            (Method::Weighted(_) | Method::Vector | Method::Keyword, Some(weights)) => {
                Method::Weighted(weights)
            }
            (Method::Vector, None) if !is_same => Method::Weighted(vectors),
            (method, _) => method,
        };
    }
}
