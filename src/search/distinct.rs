//! Results with different texts. A text that is in several documents, or several times in one, is
//! one result, which names the other places: otherwise copies take the ranks of other answers.

use std::collections::HashMap;

use rag_fusion::Ranked;

use super::{
    SearchHit,
    find::Query,
    hits::{join_neighbours, read_hits},
    trace::Part,
};
use crate::error::Error;

/// If texts are found twice, this many times as many chunks are looked at.
const GROWTH: usize = 4;

/// Returns the results of a search, the best first.
///
/// # Errors
/// An index is corrupted.
pub fn hits(query: &Query<'_>) -> Result<Vec<SearchHit>, Error> {
    let (request, trace) = (query.request, query.trace);
    let wanted = request.top_k;
    let mut limit = wanted;
    let mut hits = loop {
        let results: Vec<Ranked> = query.find(limit)?;
        let found = results.len();
        let mut hits = trace.measure(Part::Results, || {
            trace.rows(found);
            trace.note(|| match request.neighbours {
                0 => "chunks read".to_owned(),
                distance => format!("chunks read, with neighbours: {distance}"),
            });
            read_hits(request, &results)
        })?;
        if !request.distinct_text {
            break hits;
        }
        let copies = fold(&mut hits);
        if copies > 0 {
            trace.note(|| format!("chunks with the text of another one: {copies}"));
        }
        if copies == 0 || hits.len() >= wanted || found < limit {
            break hits;
        }
        limit = limit.saturating_mul(GROWTH);
    };
    hits.truncate(wanted);
    for (rank, hit) in (1..).zip(&mut hits) {
        hit.rank = rank;
    }
    if request.neighbours > 0 {
        join_neighbours(request, &mut hits)?;
    }
    Ok(hits)
}

/// Keeps the best chunk with each text, and adds the places of the others to it. Returns the number
/// of the others.
fn fold(hits: &mut Vec<SearchHit>) -> usize {
    let before = hits.len();
    let mut places: HashMap<String, usize> = HashMap::with_capacity(before);
    let mut kept: Vec<SearchHit> = Vec::with_capacity(before);
    for hit in hits.drain(..) {
        match places.get(&hit.content) {
            Some(place) => {
                let first = &mut kept[*place];
                if hit.uri != first.uri && !first.also_at.contains(&hit.uri) {
                    first.also_at.push(hit.uri);
                }
            }
            None => {
                places.insert(hit.content.clone(), kept.len());
                kept.push(hit);
            }
        }
    }
    *hits = kept;
    before - hits.len()
}
