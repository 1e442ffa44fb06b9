//! Explains a search: runs it, and tells what each of its parts did.

use std::time::{Duration, Instant};

use rag_contract::{Fusion, RetrievalMode};

use super::{
    SearchRequest,
    notice::Notice,
    run,
    trace::{Step, Trace},
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

/// Runs a search, and returns what its parts did, in their order. `operators` is the quoted name of
/// the schema of the operators.
///
/// # Errors
/// The search fails.
pub fn explain(request: &SearchRequest, operators: &str) -> Result<Vec<ExplainedStep>, Error> {
    let mut steps = vec![ExplainedStep {
        step: "request",
        detail: describe(request),
        rows: None,
        pages: None,
        milliseconds: None,
    }];
    steps.extend(filter_step(request)?);
    let trace = Trace::of_steps();
    let (started, pages) = (Instant::now(), pages_read());
    let result = run(request, operators, &trace)?;
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
    steps.extend(trace.into_steps().into_iter().map(explained));
    steps.push(total);
    Ok(steps)
}

fn explained(step: Step) -> ExplainedStep {
    ExplainedStep {
        step: step.part.name(),
        detail: step.details.join("; "),
        rows: step.rows.map(|rows| rows as i64),
        pages: Some(step.pages),
        milliseconds: Some(milliseconds(step.time)),
    }
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
    if request.mode == RetrievalMode::Hybrid {
        words.push(match request.fusion {
            Fusion::Weighted => format!(
                "weights {} and {}",
                request.weights.vector, request.weights.keyword
            ),
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
        "SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE {})
         FROM rag.chunks AS c WHERE {}",
        filter.text,
        request.collection.rows("c.")
    );
    let args: Vec<_> = filter.params.into_iter().map(filter_argument).collect();
    let (started, pages) = (Instant::now(), pages_read());
    let counts = query_chunks(&request.collection, &statement, &args, |row| {
        Ok((row.required::<i64>(1)?, row.required::<i64>(2)?))
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
