//! Search: completes and checks the request ([`request`]), embeds the query, finds the best chunks
//! ([`find`]) and reads them ([`hits`]). Statements run with the caller's rights, so that grants
//! and row-level security apply. [`retrieval`] answers requests of applications.
//!
//! ```text
//! request ──▶ embedding of the query ──▶ vector list ───┐
//!        └──▶ words of the query ──────▶ keyword list ──┴▶ fusion ──▶ hits
//! ```
//!
//! All statements of a search have the snapshot of the calling one, so that it sees whole documents
//! only. What cannot answer (words, model, index) is left out, if the other half can.
//!
//! | file | contents |
//! |---|---|
//! | [`request`] | arguments, completed by the retriever and checked |
//! | [`fields`] | fields in the query |
//! | [`words`] | the words of the query in the keyword index |
//! | [`find`], [`statements`] | candidates of both searches, and their scores |
//! | [`candidates`] | candidates of a server that searches vectors |
//! | [`method`] | how candidates get their scores |
//! | [`distinct`] | results with equal texts become one |
//! | [`shards`], [`shard_settings`] | candidates of chunks that are distributed over servers |
//! | [`several`] | searches of several collections |
//! | [`hits`], [`citation`] | the rows of the results, and how people cite them |
//! | [`highlight`] | words of the query in results |
//! | [`notice`], [`diagnosis`] | what the caller is told besides, and why nothing was found |
//! | [`trace`], [`explain`] | what a search does, and how that is shown |
//! | [`rerank`], [`context`] | what follows a search: a reranker, a context for a language model |
//! | [`evaluate`] | searches whose relevant documents are known |
//! | [`facets`], [`duplicates`] | counts of values of all chunks that match; chunks with equal texts |
//! | [`fetch`] | chunks by their ids or by a filter |
//! | [`retrieval`] | requests of applications |
//! | [`file_name`] | names of files in URIs, for filters |

mod candidates;
mod citation;
pub mod context;
mod diagnosis;
mod distinct;
pub mod duplicates;
pub mod evaluate;
pub mod explain;
pub mod facets;
pub mod fetch;
mod fields;
mod file_name;
mod find;
pub mod highlight;
mod hits;
mod method;
mod notice;
mod request;
pub mod rerank;
pub mod retrieval;
mod several;
mod shard_settings;
mod shards;
mod statements;
mod trace;
mod words;

use std::{cell::OnceCell, time::Instant};

use rag_definition::retriever::RetrievalMode;
use rag_protocol::{
    call::Purpose,
    embed::{ModelInfo, Priority},
};
use rag_words::query::ParsedQuery;

use self::{
    find::Query,
    notice::Notice,
    trace::{Event, Part, Trace},
    words::{NoKeywords, QueryWords},
};
pub use self::{
    hits::SearchHit,
    request::{SearchQuery, SearchRequest},
    several::search_all,
};
use crate::{
    catalog::{
        chunks::{as_reader, check_not_moved},
        collections::StoredModel,
    },
    cluster::search_stats::{Counted, SearchRecord},
    collection::{
        corruption::{IndexUse, search_with_fallback},
        model,
    },
    error::{Cause, Error},
    models::embedding::EmbeddingModel,
    pg::transaction::{snapshot_is_fixed, with_latest_snapshot},
    types::vector::OwnedVector,
};

/// What a search has found.
pub struct SearchResult {
    /// The mode that was used.
    pub mode: RetrievalMode,
    /// Why it is not the mode that was asked for.
    pub degraded: Option<String>,
    pub hits: Vec<SearchHit>,
}

/// Runs a search, and raises its notices.
///
/// # Errors
/// The query cannot be embedded, or has another number of dimensions than the collection.
pub fn search(request: &SearchRequest) -> Result<SearchResult, Error> {
    let (result, notices) = search_quietly(request)?;
    notices.into_iter().for_each(Notice::raise);
    Ok(result)
}

/// Runs a search. Returns its notices with the result.
///
/// # Errors
/// The query cannot be embedded, or has another number of dimensions than the collection.
fn search_quietly(request: &SearchRequest) -> Result<(SearchResult, Vec<Notice>), Error> {
    let counted = Counted::begin(request.collection.name.as_str(), request.mode);
    let started = Instant::now();
    let trace = Trace::default();
    let result = match run(request, &trace) {
        Err(error) if is_of_rebuild(&error, [request]) => {
            with_latest_snapshot(|| run(&request.refreshed()?, &trace))?
        }
        result => result?,
    };
    counted.end(SearchRecord {
        rows: result.hits.len(),
        top_k: request.top_k,
        is_degraded: result.degraded.is_some(),
        times: trace.times(started.elapsed()),
    });
    Ok((result, trace.take_notices()))
}

/// Returns true if a rebuild has replaced a storage since the snapshot was taken, and the search
/// can be repeated with another snapshot. What was read of the former storage fails in many ways.
fn is_of_rebuild<'a>(error: &Error, requests: impl IntoIterator<Item = &'a SearchRequest>) -> bool {
    let has_moved = |request: &SearchRequest| check_not_moved(&request.collection).is_err();
    !snapshot_is_fixed()
        && !error.cause().ends_statement()
        && (error.is(Cause::Stale) || requests.into_iter().any(has_moved))
}

fn run(request: &SearchRequest, trace: &Trace) -> Result<SearchResult, Error> {
    let Some(stored) = &request.collection.model else {
        return Ok(SearchResult {
            mode: request.mode,
            degraded: None,
            hits: vec![], // nothing has been indexed
        });
    };
    let embedding = QueryEmbedding::new(trace);
    if request.mode == RetrievalMode::Vector {
        embedding.get(request, stored)?;
    }
    let result = search_with_fallback(&request.collection, |indexes| {
        let query = usable(request, stored, &embedding, indexes)?;
        let hits = distinct::hits(&Query {
            request,
            mode: query.mode,
            embedding: query.embedding,
            words: query.words.as_ref(),
            trace,
            indexes,
        })?;
        Ok(SearchResult {
            mode: query.mode,
            degraded: query.degraded,
            hits,
        })
    })?;
    diagnosis::explain_dates(request, trace)?;
    if result.hits.is_empty() && request.offset == 0 {
        diagnosis::explain(request, trace)?;
    }
    Ok(result)
}

/// What a search can use.
struct UsableQuery<'a> {
    mode: RetrievalMode,
    degraded: Option<String>,
    embedding: Option<&'a OwnedVector>,
    words: Option<QueryWords>,
}

/// Returns what the search can use. Without words or a keyword index, it is the vector; without a
/// model, the words.
fn usable<'a>(
    request: &SearchRequest,
    stored: &StoredModel,
    embedding: &'a QueryEmbedding<'_>,
    indexes: IndexUse,
) -> Result<UsableQuery<'a>, Error> {
    let trace = embedding.trace;
    let vector_only = |degraded| -> Result<_, Error> {
        Ok(UsableQuery {
            mode: RetrievalMode::Vector,
            degraded,
            embedding: Some(embedding.get(request, stored)?),
            words: None,
        })
    };
    if request.mode == RetrievalMode::Vector {
        return vector_only(None);
    }
    let text = request.query.words().unwrap_or_default();
    let words = match indexes {
        IndexUse::Allowed => trace.measure(Part::Keyword, || {
            as_reader(&request.collection, |_| {
                QueryWords::of(&request.collection, text, trace)
            })
        })?,
        IndexUse::Forbidden => trace.measure(Part::Keyword, || {
            QueryWords::of_table(&request.collection, text, trace)
        })?,
    };
    let keyword_only = |words, degraded| UsableQuery {
        mode: RetrievalMode::Keyword,
        degraded,
        embedding: None,
        words,
    };
    let words = match words {
        Ok(words) => words,
        Err(why)
            if why != NoKeywords::OnlyExcluded
                && request.collection.methods().enables(RetrievalMode::Vector)
                && has_vector(request, stored) =>
        {
            return vector_only(Some(why.reason().to_owned()));
        }
        Err(why) => return Ok(keyword_only(None, Some(why.reason().to_owned()))),
    };
    if request.mode == RetrievalMode::Keyword {
        return Ok(keyword_only(Some(words), None));
    }
    if !has_vector(request, stored) {
        return Ok(keyword_only(Some(words), None));
    }
    match embedding.get(request, stored) {
        Ok(embedding) => Ok(UsableQuery {
            mode: request.mode,
            degraded: None,
            embedding: Some(embedding),
            words: Some(words),
        }),
        // it was embedded by another model: words still find the right chunks
        Err(error) if error.is(Cause::OtherModel) => {
            let why = format!("the embeddings are stale: {}", error.message);
            Ok(keyword_only(Some(words), Some(why)))
        }
        Err(error) if error.cause().is_unavailable() => {
            let why = format!("the query cannot be embedded: {}", error.message);
            Ok(keyword_only(Some(words), Some(why)))
        }
        Err(error) => Err(error),
    }
}

/// Returns false for a text where there is no model: it has words only.
fn has_vector(request: &SearchRequest, stored: &StoredModel) -> bool {
    request.query.embedding.is_some() || !stored.is_given()
}

/// The embedding of the query, which is computed once.
struct QueryEmbedding<'a> {
    trace: &'a Trace,
    computed: OnceCell<OwnedVector>,
}

impl<'a> QueryEmbedding<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            computed: OnceCell::new(),
        }
    }

    fn get(&self, request: &SearchRequest, stored: &StoredModel) -> Result<&OwnedVector, Error> {
        if let Some(known) = self.computed.get() {
            return Ok(known);
        }
        let computed = self.trace.measure(Part::Embedding, || {
            self.trace.note(|| match request.query.embedding {
                Some(_) => Event::EmbeddingGiven,
                None => Event::EmbeddedBy(stored.name.clone()),
            });
            embed(request, stored, self.trace)
        })?;
        Ok(self.computed.get_or_init(|| computed))
    }
}

/// Returns the text that stands for a query. Words that are excluded are no part of it, nor are the
/// signs of the query language.
fn embedded_text(request: &SearchRequest, text: &str) -> String {
    if request.mode == RetrievalMode::Hybrid && request.query.hinted_words.is_none() {
        let subject = ParsedQuery::parse(text).subject();
        if !subject.is_empty() {
            return subject.into_owned();
        }
    }
    text.to_owned()
}

fn embed(
    request: &SearchRequest,
    stored: &StoredModel,
    trace: &Trace,
) -> Result<OwnedVector, Error> {
    let embedding = match (&request.query.embedding, &request.query.text) {
        (Some(vector), _) => vector.clone(),
        (None, text) => {
            let model = EmbeddingModel::of_collection(&request.collection)?;
            let text = vec![embedded_text(request, text.as_deref().unwrap_or_default())];
            let mut answer = model.embed_now(Priority::Query, Purpose::Query, text)?;
            model::check(&request.collection, &answer.model)?;
            if answer
                .tokens
                .iter()
                .any(|tokens| *tokens > answer.model.max_tokens)
            {
                let ModelInfo {
                    name, max_tokens, ..
                } = &answer.model;
                trace.tell(Notice::new(format!(
                    "the query is too long: model \"{name}\" uses only its first {max_tokens} \
                     tokens"
                )));
            }
            answer
                .vectors
                .pop()
                .ok_or_else(|| Error::internal("the query has no embedding"))?
        }
    };
    if embedding.len() != stored.dimensions {
        return Err(Error::data_exception(format!(
            "different vector dimensions {} and {}",
            embedding.len(),
            stored.dimensions
        ))
        .hint(format!(
            "Collection \"{}\" was embedded with model \"{}\".",
            request.collection.name, stored.name
        )));
    }
    OwnedVector::new(embedding)
}
