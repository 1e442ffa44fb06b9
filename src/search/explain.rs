//! Explains a search: runs it, and tells what each of its parts did.

use std::{
    iter,
    time::{Duration, Instant},
};

use rag_definition::retriever::{Fusion, Metric, RetrievalMode, Weights};
use rag_retrieval::fusion::{FoundWords, Method};

use super::{
    SearchRequest, SearchResult,
    notice::Notice,
    rerank::Reranking,
    run,
    trace::{Event, Step, Trace},
};
use crate::{
    catalog::{access::sees_every_row, chunks::query_chunks},
    error::Error,
    pg::{process::pages_read, spi::filter_argument},
};

/// A row of the explanation.
pub struct ExplainedStep {
    pub step: &'static str,
    pub detail: String,
    pub rows: Option<i64>,
    pub pages: Option<i64>,
    pub milliseconds: Option<f64>,
}

/// Runs a search, and returns what its parts did, in their order.
///
/// # Errors
/// The search fails.
pub fn explain(mut request: SearchRequest) -> Result<Vec<ExplainedStep>, Error> {
    let mut steps = vec![ExplainedStep {
        step: "request",
        detail: describe(&request),
        rows: None,
        pages: None,
        milliseconds: None,
    }];
    steps.extend(filter_step(&request)?);
    let reranking = Reranking::begin(&mut request)?;
    let trace = Trace::of_steps();
    let (started, pages) = (Instant::now(), pages_read());
    let mut result = run(&request, &trace)?;
    let reranked = reranking.map(|reranking| rerank(reranking, &mut result));
    trace.take_notices().into_iter().for_each(Notice::raise);
    let total = ExplainedStep {
        step: "total",
        detail: match &result.degraded {
            None => format!("mode {}", result.mode),
            Some(why) => format!("mode {} instead of {}: {why}", result.mode, request.mode),
        },
        rows: Some(result.hits.len() as i64),
        pages: Some(pages_read() - pages),
        milliseconds: Some(milliseconds(started.elapsed())),
    };
    let explained = |step| explained(step, &request);
    steps.extend(trace.into_steps().into_iter().map(explained));
    steps.extend(reranked);
    steps.push(total);
    Ok(steps)
}

/// Lets a model sort the results of a search.
fn rerank(reranking: Reranking, result: &mut SearchResult) -> ExplainedStep {
    let (model, candidates) = (reranking.model().to_owned(), result.hits.len());
    let (started, pages) = (Instant::now(), pages_read());
    reranking.finish(result);
    ExplainedStep {
        step: "rerank",
        detail: format!("by model \"{model}\"; results that it reads: {candidates}"),
        rows: Some(result.hits.len() as i64),
        pages: Some(pages_read() - pages),
        milliseconds: Some(milliseconds(started.elapsed())),
    }
}

fn explained(step: Step, request: &SearchRequest) -> ExplainedStep {
    let events = step.events.iter();
    let phrases: Vec<String> = events.flat_map(|event| phrases(event, request)).collect();
    ExplainedStep {
        step: step.part.name(),
        detail: phrases.join("; "),
        rows: step.rows.map(|rows| rows as i64),
        pages: Some(step.pages),
        milliseconds: Some(milliseconds(step.time)),
    }
}

/// Says in English what a part of a search does.
fn phrases(event: &Event, request: &SearchRequest) -> Vec<String> {
    let phrase = match event {
        Event::EmbeddingGiven => "given".to_owned(),
        Event::EmbeddedBy(model) => format!("by model \"{model}\""),
        Event::Words(words) => {
            let words = words.iter().map(|(word, count)| match count {
                Some(count) => format!("{word} in {count}"),
                None => word.clone(),
            });
            format!("words: {}", words.collect::<Vec<_>>().join(", "))
        }
        Event::NoWords(why) => why.reason().to_owned(),
        Event::WordsInTable => "the words are searched for in the table".to_owned(),
        Event::Path { ef_search, scans } => {
            let search = match ef_search {
                Some(ef_search) => format!("index search with ef_search {ef_search}"),
                None => "exact search".to_owned(),
            };
            return iter::once(search).chain(scans.iter().cloned()).collect();
        }
        Event::ManyPending(limit) => {
            format!("more than {limit} documents have changes that the server does not have yet")
        }
        Event::OfServer {
            named,
            pending,
            found,
        } => format!(
            "candidates of the server: {named}; changed documents: {pending}; of both are found: \
             {found}"
        ),
        Event::FewOfServer => "too few candidates pass, so all chunks are read".to_owned(),
        Event::NamedByIndex { chunks, steps } => {
            format!("chunks named by the index: {chunks} in {steps} steps")
        }
        Event::FoundOnShards(chunks) => format!("all shards are asked; found: {chunks}"),
        Event::FoundByWords(chunks) => format!("of these are found: {chunks}"),
        Event::ScoredByWords(chunks) => {
            format!("chunks of the vector list that are scored: {chunks}")
        }
        Event::ExpectedToPass(chunks) => {
            format!("chunks expected to pass the filter: {chunks:.0}")
        }
        Event::ManyExpected(limit) => format!("more than {limit}, so the best are searched for"),
        Event::ManyPass(limit) => format!("more than {limit} pass, so the best are searched for"),
        Event::FewPass => "few, so all are scored".to_owned(),
        Event::Scored(chunks) => format!("chunks that are scored: {chunks}"),
        Event::Weighed(words) => weighed(*words),
        Event::Chosen {
            method,
            baseline,
            candidates,
            below_threshold,
            needs_more,
        } => {
            let mut phrases = vec![score(*method, *baseline, request)];
            phrases.push(format!("candidates: {candidates}"));
            phrases.extend(choice(request, *below_threshold));
            if *needs_more {
                phrases.push("too few documents, so longer lists are needed".to_owned());
            }
            return phrases;
        }
        Event::Read { neighbours: 0 } => "chunks read".to_owned(),
        Event::Read { neighbours } => format!("chunks read, with neighbours: {neighbours}"),
        Event::Copies(chunks) => format!("chunks with the text of another one: {chunks}"),
    };
    vec![phrase]
}

/// Says what the weights were chosen by.
fn weighed(
    FoundWords {
        words,
        found,
        codes,
    }: FoundWords,
) -> String {
    match words {
        0 => "weights of prose".to_owned(),
        _ => format!("the best keyword hit has {found} of {words} words, {codes} of them codes"),
    }
}

/// Says how a result gets its score. `baseline` is the cosine similarity that counts as 0.
fn score(method: Method, baseline: f64, request: &SearchRequest) -> String {
    match method {
        Method::Vector => match request.collection.storage().metric() {
            Metric::Cosine => "score: cosine similarity".to_owned(),
            Metric::L2 => "score: 1 / (1 + Euclidean distance)".to_owned(),
            Metric::InnerProduct => "score: from the inner product".to_owned(),
        },
        Method::Keyword => "score: BM25, divided by the best".to_owned(),
        Method::Weighted(Weights { vector, keyword }) => match baseline {
            0.0 => format!("score: {vector} * vector_score + {keyword} * keyword_score"),
            mu => format!(
                "score: {vector} * (vector_score - {mu:.3}) / (1 - {mu:.3}) + {keyword} * \
                 keyword_score"
            ),
        },
        Method::ReciprocalRank => "score: reciprocal ranks, k = 60".to_owned(),
    }
}

/// Says what the results are chosen by, besides their scores.
fn choice(request: &SearchRequest, below_threshold: Option<usize>) -> Vec<String> {
    let mut phrases = vec![];
    if let (Some(threshold), Some(below)) = (request.threshold, below_threshold) {
        phrases.push(format!("below score_threshold {threshold}: {below}"));
    }
    if let Some(limit) = request.per_document {
        phrases.push(format!("at most {limit} of a document"));
    }
    if let Some(lambda) = request.mmr_lambda {
        phrases.push(format!("chosen for diversity, mmr_lambda {lambda}"));
    }
    phrases
}

/// Returns a time in milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn describe(request: &SearchRequest) -> String {
    let mut words = vec![
        format!("collection \"{}\"", request.collection.name),
        format!("mode {}", request.mode),
        format!("top_k {}", request.top_k),
    ];
    if request.offset > 0 {
        words.push(format!("offset {}", request.offset));
    }
    if request.mode == RetrievalMode::Hybrid {
        words.push(match request.fusion {
            Fusion::Weighted => match request.weights {
                Some(Weights { vector, keyword }) => format!("weights {vector} and {keyword}"),
                None => "weights by the query".to_owned(),
            },
            Fusion::ReciprocalRank => "fusion rrf".to_owned(),
        });
    }
    if let Some(threshold) = request.threshold {
        words.push(format!("score_threshold {threshold}"));
    }
    if let Some(limit) = request.per_document {
        words.push(format!("per_document {limit}"));
    }
    if request.neighbours > 0 {
        words.push(format!("neighbours {}", request.neighbours));
    }
    if let Some(lambda) = request.mmr_lambda {
        words.push(format!("mmr_lambda {lambda}"));
    }
    if !request.distinct_text {
        words.push("equal texts".to_owned());
    }
    if let Some(model) = &request.rerank {
        words.push(format!("rerank {model}"));
    }
    words.join(", ")
}

/// Returns how many of the chunks that the caller may see pass the filter.
fn filter_step(request: &SearchRequest) -> Result<Option<ExplainedStep>, Error> {
    let has_policies = !sees_every_row(&request.collection);
    if request.filter.is_unrestricted() && !has_policies {
        return Ok(None);
    }
    let filter = request.filter.to_sql(1);
    let statement = format!(
        "SELECT count(*) AS visible, count(*) FILTER (WHERE {}) AS passed
         FROM rag.chunks AS c WHERE {}",
        filter.text,
        request.collection.rows("c.")
    );
    let args: Vec<_> = filter.params.into_iter().map(filter_argument).collect();
    let (started, pages) = (Instant::now(), pages_read());
    let counts = query_chunks(&request.collection, &statement, &args, |row| {
        Ok((
            row.required::<i64>("visible")?,
            row.required::<i64>("passed")?,
        ))
    })?;
    let (visible, passed) = counts.into_iter().next().unwrap_or_default();
    let mut details = vec![];
    if has_policies {
        details.push("row-level security restricts what you see".to_owned());
    }
    details.push(format!(
        "chunks that pass the filter: {passed} of {visible}"
    ));
    Ok(Some(ExplainedStep {
        step: "filter",
        detail: details.join("; "),
        rows: Some(passed),
        pages: Some(pages_read() - pages),
        milliseconds: Some(milliseconds(started.elapsed())),
    }))
}
