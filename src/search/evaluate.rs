//! Evaluates searches: asks queries whose relevant documents are known.

use std::{collections::BTreeMap, slice};

use rag_contract::RetrievalSettings;
use rag_retrieval::evaluation::{InvalidRelevance, Judgements, Measures, measure};
use serde_json::Value;

use super::{SearchHit, SearchQuery, SearchRequest, rerank::search_and_rerank};
use crate::{catalog::collections::Collection, error::Error, pg::wait::check_for_interrupts};

/// A query and its relevant documents.
pub struct JudgedQuery {
    pub id: String,
    pub text: String,
    judgements: Judgements<String>,
}

/// Reads queries, `{"id": "text"}`, and judgements, `{"id": {"document": relevance}}`. Queries
/// without a relevant document are left out: nothing can be said of them.
///
/// # Errors
/// One of both has another form, a relevance is negative, a judgement is of an unknown query, or no
/// query has a relevant document.
pub fn judged_queries(queries: &Value, judgements: &Value) -> Result<Vec<JudgedQuery>, Error> {
    let invalid = |message: String| Error::invalid_parameter(message);
    let queries = queries.as_object().ok_or_else(|| {
        invalid("queries must be an object".into()).hint("Write {\"id\": \"text of the query\"}.")
    })?;
    let judgements = judgements.as_object().ok_or_else(|| {
        invalid("qrels must be an object".into())
            .hint("Write {\"id\": {\"uri of a document\": 1}}.")
    })?;
    if let Some(unknown) = judgements.keys().find(|id| !queries.contains_key(*id)) {
        return Err(invalid(format!("qrels: there is no query \"{unknown}\"")));
    }
    let mut judged = vec![];
    for (id, text) in queries {
        let text = text.as_str().filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| invalid(format!("queries: \"{id}\" must be a text")))?;
        let mut of_query = Judgements::new();
        for (document, relevance) in documents_of(id, judgements.get(id))? {
            of_query
                .add(document.clone(), relevance)
                .map_err(|wrong| invalid_relevance(id, document, wrong))?;
        }
        if of_query.relevant() > 0 {
            judged.push(JudgedQuery {
                id: id.clone(),
                text: text.to_owned(),
                judgements: of_query,
            });
        }
    }
    if judged.is_empty() {
        return Err(invalid("no query has a relevant document".into())
            .hint("A document is relevant if its relevance is greater than 0."));
    }
    Ok(judged)
}

fn documents_of<'a>(
    query: &str,
    documents: Option<&'a Value>,
) -> Result<BTreeMap<&'a String, f64>, Error> {
    let invalid = |what: &str| {
        Error::invalid_parameter(format!("qrels: \"{query}\" must be {what}"))
            .hint("Write {\"id\": {\"uri of a document\": 1}}.")
    };
    let Some(documents) = documents else {
        return Ok(BTreeMap::new());
    };
    let documents = documents.as_object().ok_or_else(|| invalid("an object"))?;
    documents
        .iter()
        .map(|(document, relevance)| {
            let relevance = relevance.as_f64();
            Ok((
                document,
                relevance.ok_or_else(|| invalid("an object of numbers"))?,
            ))
        })
        .collect()
}

fn invalid_relevance(query: &str, document: &str, wrong: InvalidRelevance) -> Error {
    let what = match wrong {
        InvalidRelevance::Negative => "negative",
        InvalidRelevance::NotFinite => "infinite",
    };
    Error::invalid_parameter(format!(
        "qrels: the relevance of \"{document}\" for \"{query}\" must not be {what}"
    ))
}

/// Asks the queries, and measures the rankings of documents. A document ranks by its best chunk.
///
/// # Errors
/// A search fails.
pub fn evaluate(
    collection: &Collection,
    queries: &[JudgedQuery],
    settings: &RetrievalSettings,
    k: usize,
) -> Result<Vec<Measures>, Error> {
    let every_document = rag_filter::parse(&Value::Null)
        .map_err(|e| Error::internal(format!("no filter is an invalid filter: {e}")))?;
    let mut all = vec![];
    for query in queries {
        check_for_interrupts();
        let mut request = SearchRequest::new(
            collection.clone(),
            SearchQuery::of_text(&query.text),
            settings,
            every_document.clone(),
        )?;
        let found = search_and_rerank(slice::from_mut(&mut request))?;
        let mut ranking: Vec<String> = vec![];
        for hit in &found.hits {
            let document = name_of(hit, &query.judgements);
            if !ranking.contains(&document) {
                ranking.push(document);
            }
        }
        all.push(measure(&ranking, &query.judgements, k));
    }
    Ok(all)
}

/// Returns the name by which a document was judged: its uri, its id, or the last part of its uri.
fn name_of(hit: &SearchHit, judgements: &Judgements<String>) -> String {
    let file = hit.uri.rsplit(['/', '#']).next().unwrap_or_default();
    let decoded = rag_protocol::uri::file_name(&hit.uri).into_owned();
    let names = [hit.document_id.to_string(), file.to_owned(), decoded];
    let mut judged = names.into_iter().filter(|name| judgements.of(name) > 0.0);
    if judgements.of(&hit.uri) > 0.0 {
        hit.uri.clone()
    } else {
        judged.next().unwrap_or_else(|| hit.uri.clone())
    }
}
