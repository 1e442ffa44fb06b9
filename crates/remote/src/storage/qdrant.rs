//! Qdrant. A point has the payload `collection`, `document`, `chunk` and `labels`.

use rag_definition::retriever::{IndexOptions, Metric, Quantization};
use rag_protocol::{
    EngineError,
    storage::{FoundPoint, IndexShape, Labelled, Place, Point, StorageCredentials, StorageRequest},
};
use rag_source::http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    VectorServer, check_shape,
    client::{Body, StorageClient},
    found_point,
};

/// The fields of the payload that filters compare.
const INDEXED: [&str; 3] = ["collection", "document", "labels"];

pub struct Qdrant;

impl VectorServer for Qdrant {
    fn secret_header(&self, credentials: &StorageCredentials) -> Option<(&'static str, String)> {
        Some(("api-key", credentials.api_key.clone()?))
    }

    fn describe(&self, client: &StorageClient<'_>) -> Result<String, EngineError> {
        let answer = client.ask(Method::GET, &[], "", &Body::None)?;
        match answer["version"].as_str() {
            Some(version) => Ok(format!("Qdrant {version}")),
            None => Err(client.no_answer("It has no version.")),
        }
    }

    fn ensure(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        shape: &IndexShape,
    ) -> Result<bool, EngineError> {
        let path = ["collections", &place.index];
        let wanted = (shape.dimensions, distance(shape.metric));
        let check = |found: &Value| {
            let vectors = &found["result"]["config"]["params"]["vectors"];
            let found = (vectors["size"].as_u64(), vectors["distance"].as_str());
            check_shape(client, place, wanted, found)
        };
        if let Some(found) = client.find(Method::GET, &path, "", &Body::None)? {
            return check(&found).map(|()| false);
        }
        let mut graph = Map::new();
        for (name, value) in [
            ("m", shape.options.m),
            ("ef_construct", shape.options.ef_construction),
        ] {
            if let Some(value) = value {
                graph.insert(name.into(), value.into());
            }
        }
        let mut body = json!({"vectors": {"size": wanted.0, "distance": wanted.1}});
        let IndexOptions {
            shards,
            replicas,
            on_disk,
            quantization,
            ..
        } = shape.options;
        if let Some(on_disk) = on_disk {
            body["vectors"]["on_disk"] = on_disk.into();
            graph.insert("on_disk".into(), on_disk.into());
        }
        if !graph.is_empty() {
            body["hnsw_config"] = graph.into();
        }
        if let Some(shards) = shards {
            body["shard_number"] = shards.into();
        }
        if let Some(replicas) = replicas {
            // the server counts the first copy, too
            body["replication_factor"] = (replicas + 1).into();
        }
        match quantization {
            Some(Quantization::Int8) => {
                body["quantization_config"] = json!({"scalar": {"type": "int8"}});
            }
            Some(Quantization::Binary) => body["quantization_config"] = json!({"binary": {}}),
            Some(Quantization::None) | None => {}
        }
        if let Err(error) = client.ask(Method::PUT, &path, "", &Body::Json(&body)) {
            // somebody else may have created it
            return match client.find(Method::GET, &path, "", &Body::None)? {
                Some(found) => check(&found).map(|()| false),
                None => Err(error),
            };
        }
        for field in INDEXED {
            let body = json!({"field_name": field, "field_schema": "keyword"});
            let path = ["collections", &place.index, "index"];
            client.ask(Method::PUT, &path, "wait=true", &Body::Json(&body))?;
        }
        Ok(true)
    }

    fn delete(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        documents: &[Uuid],
    ) -> Result<(), EngineError> {
        let filter = json!({"must": [of_collection(place), any("document", documents)]});
        delete(client, place, &filter)
    }

    fn write(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        points: &[Point],
    ) -> Result<(), EngineError> {
        let points: Vec<Value> = points
            .iter()
            .map(|point| {
                json!({
                    "id": place.point_id(point.document, point.chunk),
                    "vector": point.vector,
                    "payload": {
                        "collection": place.collection,
                        "document": point.document,
                        "chunk": point.chunk,
                        "labels": point.labels,
                    },
                })
            })
            .collect();
        let path = ["collections", &place.index, "points"];
        let body = json!({"points": points});
        client.ask(Method::PUT, &path, "wait=true", &Body::Json(&body))?;
        Ok(())
    }

    fn clear(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        is_whole: bool,
    ) -> Result<(), EngineError> {
        if is_whole {
            let path = ["collections", &place.index];
            client.find(Method::DELETE, &path, "", &Body::None)?;
            return Ok(());
        }
        delete(client, place, &json!({"must": [of_collection(place)]}))
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
        let mut must = vec![of_collection(place)];
        must.extend(labels.as_ref().map(condition));
        let body = json!({
            "query": vector,
            "limit": limit,
            "filter": {"must": must},
            "params": {"hnsw_ef": ef_search},
            "with_payload": ["chunk", "document"],
            "with_vector": false,
        });
        let path = ["collections", &place.index, "points", "query"];
        let Some(answer) = client.find(Method::POST, &path, "", &Body::Json(&body))? else {
            return Ok(None);
        };
        let points = answer["result"]["points"].as_array();
        let points = points.ok_or_else(|| client.no_answer("It has no points."))?;
        points
            .iter()
            .map(|point| found_point(client, &point["payload"]))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn count(&self, client: &StorageClient<'_>, place: &Place) -> Result<u64, EngineError> {
        let path = ["collections", &place.index, "points", "count"];
        let body = json!({"filter": {"must": [of_collection(place)]}, "exact": true});
        let Some(answer) = client.find(Method::POST, &path, "", &Body::Json(&body))? else {
            return Ok(0);
        };
        let count = answer["result"]["count"].as_u64();
        count.ok_or_else(|| client.no_answer("It has no count."))
    }
}

fn delete(client: &StorageClient<'_>, place: &Place, filter: &Value) -> Result<(), EngineError> {
    let path = ["collections", &place.index, "points", "delete"];
    let body = json!({"filter": filter});
    client.find(Method::POST, &path, "wait=true", &Body::Json(&body))?;
    Ok(())
}

fn distance(metric: Metric) -> &'static str {
    match metric {
        Metric::Cosine => "Cosine",
        Metric::L2 => "Euclid",
        Metric::InnerProduct => "Dot",
    }
}

fn of_collection(place: &Place) -> Value {
    json!({"key": "collection", "match": {"value": place.collection}})
}

fn any<T: serde::Serialize>(key: &str, values: &[T]) -> Value {
    json!({"key": key, "match": {"any": values}})
}

fn condition(labels: &Labelled) -> Value {
    let conditions = |all: &[Labelled]| all.iter().map(condition).collect::<Vec<_>>();
    match labels {
        Labelled::All(all) => json!({"must": conditions(all)}),
        Labelled::Any(any) => json!({"should": conditions(any)}),
        Labelled::OneOf(labels) => any("labels", labels),
    }
}
