//! Reranking: a model scores what a search has found.

use rag_definition::model::{ModelKind, Provider};
use rag_protocol::call::CallRequest;

use super::{SearchHit, SearchRequest, SearchResult, search_all};
use crate::{
    catalog::{
        models::{self, Model},
        name::canonical,
    },
    engine::unexpected,
    error::Error,
    models::{
        call::{ModelCall, ModelEvent},
        local, rights,
    },
};

/// The weight of the score of late interaction. The rest is that of the score of the search. On
/// SciFact .75 was best in mode vector, and as good as .8 in mode hybrid (benches/README.md).
const LATE_WEIGHT: f64 = 0.75;

/// Runs a search of one or several collections, and sorts its results by the scores of a model if
/// the requests name one. If the model fails or takes too long, the order of the search stays, and
/// the caller is told.
///
/// # Errors
/// The search fails, there is no such model, or the current role may not use it.
pub fn search_and_rerank(requests: &mut [SearchRequest]) -> Result<SearchResult, Error> {
    let mut reranking = None;
    for request in &mut *requests {
        reranking = Reranking::begin(request)?;
    }
    let mut result = search_all(requests)?;
    if let Some(reranking) = reranking {
        reranking.finish(&mut result);
    }
    Ok(result)
}

/// What a model does with the results of a search.
pub struct Reranking {
    model: Model,
    is_late: bool,
    query: String,
    /// The number of results that the caller wants, and of those before them.
    wanted: usize,
    offset: usize,
}

impl Reranking {
    /// Returns what the request's model does, if it names one. The request asks for more results
    /// then.
    ///
    /// # Errors
    /// There is no such model, or the current role may not use it.
    pub fn begin(request: &mut SearchRequest) -> Result<Option<Self>, Error> {
        let Some(name) = &request.rerank else {
            return Ok(None);
        };
        let query = request.query.text.clone();
        let query =
            query.ok_or_else(|| Error::null_not_allowed("query must not be NULL with rerank"))?;
        let model = reranker(canonical(name))?;
        let settings = model.settings()?;
        let (wanted, offset) = (request.top_k, std::mem::take(&mut request.offset));
        request.top_k = settings.candidates.max(offset + wanted);
        Ok(Some(Self {
            model,
            is_late: settings.is_late,
            query,
            wanted,
            offset,
        }))
    }

    pub fn model(&self) -> &str {
        &self.model.name
    }

    pub fn finish(self, result: &mut SearchResult) {
        if result.hits.len() > 1 {
            let texts = result.hits.iter().map(text_of).collect();
            match scores(&self.model, &self.query, texts) {
                Ok(scores) if self.is_late => {
                    let mixed = mixed(&result.hits, &scores);
                    sort(&mut result.hits, &mixed);
                }
                Ok(scores) => sort(&mut result.hits, &scores),
                Err(error) => notify_unranked(&self.model.name, &error),
            }
        }
        let hits = &mut result.hits;
        hits.truncate(self.offset + self.wanted);
        hits.drain(..self.offset.min(hits.len()));
    }
}

/// Returns a score for each text.
///
/// # Errors
/// The model fails, or takes too long.
pub fn scores(model: &Model, query: &str, documents: Vec<String>) -> Result<Vec<f64>, Error> {
    let settings = model.settings()?;
    if model.provider == Provider::Local {
        return local::scores(model, &settings, query, documents);
    }
    let expected = documents.len();
    let request = CallRequest::Rerank {
        query: query.to_owned(),
        documents,
    };
    let mut call = ModelCall::begin(model, &settings, request, settings.timeout)?;
    match call.next()? {
        ModelEvent::Scored(scores) if scores.len() == expected => Ok(scores),
        _ => Err(unexpected()),
    }
}

/// Returns a reranker that the current role may use.
///
/// # Errors
/// There is no such model, it is of another kind, or the role may not use it.
pub fn reranker(name: &str) -> Result<Model, Error> {
    let model = models::find(name)?.ok_or_else(|| models::missing(name))?;
    rights::require_use(&model)?;
    rights::require_kind(&model, ModelKind::Rerank)?;
    Ok(model)
}

/// Returns what a model reads of a result: the title and the chunk, as the embedding model does.
fn text_of(hit: &SearchHit) -> String {
    match &hit.title {
        Some(title) => format!("{title}\n\n{}", hit.content),
        None => hit.content.clone(),
    }
}

/// Returns the scores of results with those of late interaction. Alone these would forget what the
/// words of the query, or whole texts, say.
fn mixed(hits: &[SearchHit], scores: &[f64]) -> Vec<f64> {
    let mix = |(hit, score): (&SearchHit, &f64)| {
        hit.score.mul_add(1.0 - LATE_WEIGHT, score * LATE_WEIGHT)
    };
    hits.iter().zip(scores).map(mix).collect()
}

/// Sorts results by their scores. Those with the same score stay in their order.
fn sort(hits: &mut Vec<SearchHit>, scores: &[f64]) {
    for (hit, score) in hits.iter_mut().zip(scores) {
        hit.score = *score;
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    for (rank, hit) in (1..).zip(hits) {
        hit.rank = rank;
    }
}

fn notify_unranked(model: &str, error: &Error) {
    let why = match &error.detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    };
    pgrx::notice!("the results are not reranked by model \"{model}\": {why}");
}
