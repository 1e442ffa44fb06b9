//! Scores of documents for a query: `POST /rerank` of Cohere and of Text Embeddings Inference.

use rag_definition::model::Provider;
use rag_protocol::{
    EngineError,
    call::{Call, CallEvent, TEI_DOCUMENTS, TokenUsage},
};
use serde_json::{Map, Value, json};

use crate::{attempt::Attempts, failure, lines::MAX_BODY, request};

/// Returns a score for each document, in their order.
///
/// # Errors
/// The server does not score each document once.
pub fn score(
    attempts: &mut Attempts<'_>,
    query: &str,
    documents: &[String],
) -> Result<CallEvent, EngineError> {
    let call = attempts.call;
    let batch = match call.provider {
        Provider::Tei => TEI_DOCUMENTS,
        _ => documents.len().max(1),
    };
    let mut scores = vec![];
    let mut input = None;
    for documents in documents.chunks(batch) {
        let body = request(call, body(call, query, documents));
        let response = attempts.send(&body)?;
        let bytes = response
            .bytes(MAX_BODY as u64)
            .map_err(|error| failure::of_http(call, &error))?;
        let answer: Value = serde_json::from_slice(&bytes)
            .map_err(|_| failure::no_answer(call, "It is not JSON."))?;
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            return Err(failure::reported(call, error));
        }
        scores.extend(read(&answer, documents.len()).map_err(|e| failure::no_answer(call, e))?);
        input = tokens(&answer).or(input);
    }
    let usage = TokenUsage {
        input,
        output: input.map(|_| 0),
    };
    Ok(CallEvent::Scored { scores, usage })
}

fn body(call: &Call, query: &str, documents: &[String]) -> Map<String, Value> {
    let body = match call.provider {
        Provider::Tei => json!({"query": query, "texts": documents, "truncate": true}),
        _ => json!({"query": query, "documents": documents, "top_n": documents.len()}),
    };
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// Returns the scores in the order of the documents.
fn read(answer: &Value, documents: usize) -> Result<Vec<f64>, String> {
    let results = match answer {
        Value::Array(results) => results,
        other => other["results"].as_array().ok_or("It has no results.")?,
    };
    if results.len() != documents {
        return Err(format!(
            "It has {} scores for {documents} documents.",
            results.len()
        ));
    }
    let mut scores = vec![None; documents];
    for result in results {
        let score = result["relevance_score"].as_f64();
        let score = score.or(result["score"].as_f64());
        let score = score.filter(|score| score.is_finite());
        let place = result["index"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok());
        match (place.and_then(|place| scores.get_mut(place)), score) {
            (Some(place @ None), Some(score)) => *place = Some(score),
            (Some(Some(_)), _) => return Err("It scores a document twice.".into()),
            (None, _) => return Err("It scores a document that was not sent.".into()),
            (_, None) => return Err("A score is not a number.".into()),
        }
    }
    Ok(scores.into_iter().flatten().collect())
}

/// Returns the number of tokens that the server has counted.
fn tokens(answer: &Value) -> Option<u64> {
    let places = [
        "/usage/total_tokens",
        "/meta/tokens/input_tokens",
        "/meta/billed_units/input_tokens",
    ];
    let mut found = places.iter().filter_map(|place| answer.pointer(place));
    found.find_map(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects() {
        let cohere = json!({"results": [{"index": 1, "relevance_score": 0.9},
                                        {"index": 0, "relevance_score": 0.1}]});
        assert_eq!(read(&cohere, 2), Ok(vec![0.1, 0.9]));
        let tei = json!([{"index": 0, "score": 2}, {"index": 1, "score": -3.5}]);
        assert_eq!(read(&tei, 2), Ok(vec![2.0, -3.5]));
        let billed = json!({"meta": {"tokens": {"input_tokens": 7}}});
        assert_eq!(tokens(&billed), Some(7));
    }

    #[test]
    fn each_document_has_one_score() {
        for (answer, problem) in [
            (json!({}), "It has no results."),
            (json!([]), "It has 0 scores for 2 documents."),
            (
                json!([{"index": 0, "score": 1}, {"index": 0, "score": 1}]),
                "It scores a document twice.",
            ),
            (
                json!([{"index": 0, "score": 1}, {"index": 2, "score": 1}]),
                "It scores a document that was not sent.",
            ),
            (
                json!([{"index": 0, "score": 1}, {"index": 1, "score": "high"}]),
                "A score is not a number.",
            ),
            (
                json!([{"index": 0, "score": 1}, {"index": 1, "score": null}]),
                "A score is not a number.",
            ),
        ] {
            assert_eq!(read(&answer, 2), Err(problem.into()), "{answer}");
        }
    }
}
