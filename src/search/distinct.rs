//! Results with different texts. A text that is in several documents, or several times in one, is
//! one result, which names the other places: otherwise copies take the ranks of other answers. A
//! caller can have nearly equal texts treated like this, too.

use std::collections::HashMap;

use rag_retrieval::{fusion::Ranked, similarity::Leaders};

use super::{
    SearchHit, SearchRequest,
    find::Query,
    hits::{join_neighbours, read_hits},
    notice::Notice,
    trace::{Event, Part, Trace},
};
use crate::error::Error;

/// If texts are found twice, this many times as many chunks are looked at.
const GROWTH: usize = 4;
/// As many chunks are looked at, or as many as results are wanted if these are more. A text may be
/// in more places than that.
const MOST_CHUNKS: usize = 1000;
/// The maximum number of places that a result names.
const MAX_PLACES: usize = 100;

/// A search that finds chunks, and reads what it has found.
pub trait Finds {
    /// The settings of the search.
    fn request(&self) -> &SearchRequest;
    fn trace(&self) -> &Trace;

    /// Returns the best `top_k` chunks, in the order of the results.
    ///
    /// # Errors
    /// An index is corrupted.
    fn find(&self, top_k: usize) -> Result<Vec<Ranked>, Error>;

    /// Reads chunks, in their order.
    ///
    /// # Errors
    /// The table is corrupted.
    fn read(&self, results: &[Ranked]) -> Result<Vec<SearchHit>, Error>;

    /// Joins the chunks before and after each result to it.
    ///
    /// # Errors
    /// The table is corrupted.
    fn join_neighbours(&self, hits: &mut [SearchHit]) -> Result<(), Error>;
}

impl Finds for Query<'_> {
    fn request(&self) -> &SearchRequest {
        self.request
    }

    fn trace(&self) -> &Trace {
        self.trace
    }

    fn find(&self, top_k: usize) -> Result<Vec<Ranked>, Error> {
        Query::find(self, top_k)
    }

    fn read(&self, results: &[Ranked]) -> Result<Vec<SearchHit>, Error> {
        read_hits(self.request, results)
    }

    fn join_neighbours(&self, hits: &mut [SearchHit]) -> Result<(), Error> {
        join_neighbours(self.request, hits)
    }
}

/// Returns the results of a search, the best first.
///
/// # Errors
/// An index is corrupted.
pub fn hits(search: &impl Finds) -> Result<Vec<SearchHit>, Error> {
    let (request, trace) = (search.request(), search.trace());
    let wanted = request.offset + request.top_k;
    let mut limit = wanted;
    let mut hits = loop {
        let results = search.find(limit)?;
        let found = results.len();
        let mut hits = trace.measure(Part::Results, || {
            trace.rows(found);
            trace.note(|| Event::Read {
                neighbours: request.neighbours,
            });
            search.read(&results)
        })?;
        if !request.distinct_text {
            break hits;
        }
        let copies = fold(&mut hits, request.distinct_similarity);
        if copies > 0 {
            trace.note(|| Event::Copies(copies));
        }
        if copies == 0 || hits.len() >= wanted || found < limit {
            break hits;
        }
        if limit >= MOST_CHUNKS.max(wanted) {
            trace.tell(too_many_copies(hits.len(), copies));
            break hits;
        }
        limit = limit.saturating_mul(GROWTH);
    };
    hits.truncate(wanted);
    for (rank, hit) in (1..).zip(&mut hits) {
        hit.rank = rank;
    }
    hits.drain(..request.offset.min(hits.len()));
    if request.neighbours > 0 {
        search.join_neighbours(&mut hits)?;
    }
    Ok(hits)
}

/// Returns that results may be missing.
fn too_many_copies(results: usize, copies: usize) -> Notice {
    Notice::new(format!(
        "there may be more results than {results}: {copies} other chunks have the same texts"
    ))
    .hint("Each of them is a result with distinct_text => false.")
}

/// Keeps the best chunk with each text, and adds the places of the others to it. Texts with at
/// least a similarity of `similar` are the same. Returns the number of the others.
fn fold(hits: &mut Vec<SearchHit>, similar: Option<f64>) -> usize {
    let before = hits.len();
    let mut place_of = places(similar);
    let mut kept: Vec<SearchHit> = Vec::with_capacity(before);
    for hit in hits.drain(..) {
        match kept.get_mut(place_of(&hit.content)) {
            Some(first) => {
                let has_room = first.also_at.len() < MAX_PLACES;
                if has_room && hit.uri != first.uri && !first.also_at.contains(&hit.uri) {
                    first.also_at.push(hit.uri);
                }
            }
            None => kept.push(hit),
        }
    }
    *hits = kept;
    before - hits.len()
}

/// Returns a function that returns the place of the first text that is the same, from 0, where
/// texts that are the same as another one have no places of their own.
fn places(similar: Option<f64>) -> Box<dyn FnMut(&str) -> usize> {
    match similar {
        Some(least) => {
            let mut leaders = Leaders::new(least);
            Box::new(move |text| leaders.place(text).0)
        }
        None => {
            let mut places: HashMap<String, usize> = HashMap::new();
            Box::new(move |text| {
                let next = places.len();
                *places.entry(text.to_owned()).or_insert(next)
            })
        }
    }
}
