//! Elasticsearch. A document of its index is a point, with the fields `collection`, `document`,
//! `chunk`, `labels` and `vector`.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rag_definition::retriever::{IndexOptions, Metric, Quantization};
use rag_protocol::{
    EngineError, ErrorKind,
    storage::{FoundPoint, IndexShape, Labelled, Place, Point, StorageCredentials, StorageRequest},
};
use rag_source::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    VectorServer, check_shape,
    client::{Body, StorageClient},
    found_point,
};

/// The maximum of `num_candidates` and `k`.
const MAX_CANDIDATES: usize = 10_000;

pub struct Elasticsearch;

impl VectorServer for Elasticsearch {
    fn secret_header(&self, credentials: &StorageCredentials) -> Option<(&'static str, String)> {
        if let Some(key) = &credentials.api_key {
            return Some(("authorization", format!("ApiKey {key}")));
        }
        let (user, password) = (
            credentials.username.as_ref()?,
            credentials.password.as_ref()?,
        );
        let both = BASE64_STANDARD.encode(format!("{user}:{password}"));
        Some(("authorization", format!("Basic {both}")))
    }

    fn describe(&self, client: &StorageClient<'_>) -> Result<String, EngineError> {
        let answer = client.ask(Method::GET, &[], "", &Body::None)?;
        match answer["version"]["number"].as_str() {
            Some(version) => Ok(format!("Elasticsearch {version}")),
            None => Err(client.no_answer("It has no version.")),
        }
    }

    fn ensure(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        shape: &IndexShape,
    ) -> Result<bool, EngineError> {
        let wanted = (shape.dimensions, similarity(shape.metric));
        let mapping = [place.index.as_str(), "_mapping"];
        let check = |found: &Value| {
            let vector = &found[&place.index]["mappings"]["properties"]["vector"];
            let found = (vector["dims"].as_u64(), vector["similarity"].as_str());
            check_shape(client, place, wanted, found)
        };
        if let Some(found) = client.find(Method::GET, &mapping, "", &Body::None)? {
            return check(&found).map(|()| false);
        }
        let mut vector = json!({
            "type": "dense_vector", "dims": wanted.0, "index": true, "similarity": wanted.1,
        });
        let IndexOptions {
            m,
            ef_construction,
            shards,
            replicas,
            on_disk: _, // it always is
            quantization,
        } = shape.options;
        if m.is_some() || ef_construction.is_some() || quantization.is_some() {
            vector["index_options"] = json!({
                "type": match quantization.unwrap_or(Quantization::None) {
                    Quantization::None => "hnsw",
                    Quantization::Int8 => "int8_hnsw",
                    Quantization::Binary => "bbq_hnsw",
                },
                "m": m.unwrap_or(16),
                "ef_construction": ef_construction.unwrap_or(100),
            });
        }
        let keyword = json!({"type": "keyword"});
        let mut body = json!({"mappings": {"dynamic": "strict", "properties": {
            "collection": keyword, "document": keyword, "chunk": keyword, "labels": keyword,
            "vector": vector,
        }}});
        for (name, value) in [
            ("number_of_shards", shards),
            ("number_of_replicas", replicas),
        ] {
            if let Some(value) = value {
                body["settings"]["index"][name] = value.into();
            }
        }
        let path = [place.index.as_str()];
        if let Err(error) = client.ask(Method::PUT, &path, "", &Body::Json(&body)) {
            // somebody else may have created it
            return match client.find(Method::GET, &mapping, "", &Body::None)? {
                Some(found) => check(&found).map(|()| false),
                None => Err(error),
            };
        }
        Ok(true)
    }

    fn delete(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        documents: &[Uuid],
    ) -> Result<(), EngineError> {
        let of_documents = json!({"terms": {"document": documents}});
        delete(client, place, &[of_collection(place), of_documents])
    }

    fn write(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        points: &[Point],
    ) -> Result<(), EngineError> {
        let mut lines = String::new();
        for point in points {
            let id = place.point_id(point.document, point.chunk);
            let stored = json!({
                "collection": place.collection,
                "document": point.document,
                "chunk": point.chunk,
                "labels": point.labels,
                "vector": point.vector,
            });
            lines += &format!("{}\n{stored}\n", json!({"index": {"_id": id}}));
        }
        let path = [place.index.as_str(), "_bulk"];
        let answer = client.ask(Method::POST, &path, "refresh=true", &Body::Lines(&lines))?;
        match answer["errors"].as_bool() {
            Some(false) => Ok(()),
            Some(true) => Err(of_items(client, &answer)),
            None => Err(client.no_answer("It does not say if all was written.")),
        }
    }

    fn clear(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        is_whole: bool,
    ) -> Result<(), EngineError> {
        if is_whole {
            client.find(Method::DELETE, &[&place.index], "", &Body::None)?;
            return Ok(());
        }
        delete(client, place, &[of_collection(place)])
    }

    fn search(
        &self,
        client: &StorageClient<'_>,
        request: &StorageRequest,
    ) -> Result<Option<Vec<FoundPoint>>, EngineError> {
        let StorageRequest::Search {
            place,
            vector,
            limit,
            ef_search,
            labels,
        } = request
        else {
            return Ok(None);
        };
        let mut filter = vec![of_collection(place)];
        filter.extend(labels.as_ref().map(condition));
        let limit = (*limit).min(MAX_CANDIDATES);
        let body = json!({
            "knn": {
                "field": "vector",
                "query_vector": vector,
                "k": limit,
                "num_candidates": (*ef_search).clamp(limit, MAX_CANDIDATES),
                "filter": filter,
            },
            "size": limit,
            "_source": ["chunk", "document"],
        });
        let path = [place.index.as_str(), "_search"];
        let Some(answer) = client.find(Method::POST, &path, "", &Body::Json(&body))? else {
            return Ok(None);
        };
        let hits = answer["hits"]["hits"].as_array();
        let hits = hits.ok_or_else(|| client.no_answer("It has no hits."))?;
        hits.iter()
            .map(|hit| found_point(client, &hit["_source"]))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn count(&self, client: &StorageClient<'_>, place: &Place) -> Result<u64, EngineError> {
        let path = [place.index.as_str(), "_count"];
        let body = json!({"query": of_collection(place)});
        let Some(answer) = client.find(Method::POST, &path, "", &Body::Json(&body))? else {
            return Ok(0);
        };
        let count = answer["count"].as_u64();
        count.ok_or_else(|| client.no_answer("It has no count."))
    }
}

fn delete(client: &StorageClient<'_>, place: &Place, filter: &[Value]) -> Result<(), EngineError> {
    let path = [place.index.as_str(), "_delete_by_query"];
    let body = json!({"query": {"bool": {"filter": filter}}});
    let query = "refresh=true&conflicts=proceed";
    let Some(answer) = client.find(Method::POST, &path, query, &Body::Json(&body))? else {
        return Ok(());
    };
    match answer["version_conflicts"].as_u64().unwrap_or_default() {
        0 => Ok(()),
        _ => Err(EngineError::new(
            ErrorKind::SourceUnavailable,
            format!(
                "{} changes the same points for somebody else",
                client.name()
            ),
        )
        .hint("What is not written yet is tried again.")),
    }
}

/// Returns the first error among the answers of a bulk request.
fn of_items(client: &StorageClient<'_>, answer: &Value) -> EngineError {
    let items = answer["items"].as_array();
    let mut failed = items.into_iter().flatten().filter_map(|item| {
        let item = &item["index"];
        item.get("error")
            .map(|error| (item["status"].as_u64(), error))
    });
    let (status, error) = failed.next().unwrap_or((None, &Value::Null));
    let kind = match status {
        Some(429 | 503) => ErrorKind::Throttled,
        _ => ErrorKind::InvalidRequest,
    };
    let why = error["reason"].as_str().unwrap_or("It does not say why.");
    let why: String = why.chars().take(300).collect();
    EngineError::new(kind, format!("{} refuses points", client.name())).detail(why)
}

fn similarity(metric: Metric) -> &'static str {
    match metric {
        Metric::Cosine => "cosine",
        Metric::L2 => "l2_norm",
        Metric::InnerProduct => "max_inner_product",
    }
}

fn of_collection(place: &Place) -> Value {
    json!({"term": {"collection": place.collection}})
}

fn condition(labels: &Labelled) -> Value {
    let conditions = |all: &[Labelled]| all.iter().map(condition).collect::<Vec<_>>();
    match labels {
        Labelled::All(all) => json!({"bool": {"filter": conditions(all)}}),
        Labelled::Any(any) => {
            json!({"bool": {"should": conditions(any), "minimum_should_match": 1}})
        }
        Labelled::OneOf(labels) => json!({"terms": {"labels": labels}}),
    }
}
