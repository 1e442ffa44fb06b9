//! What a retriever says of the storage of its collections.

use rag_protocol::storage::{Quantization, ServerOptions};
use serde_json::Value;

/// Where the vectors of a collection are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StorageType {
    /// By an index `rag_hnsw` of this database.
    #[default]
    Hnsw,
    /// By reading all chunks.
    Flat,
    /// By an index `hnsw` of the extension pgvector.
    PgVector,
    /// By a Qdrant server.
    Qdrant,
    /// By an Elasticsearch server.
    Elasticsearch,
}

impl StorageType {
    pub const ALL: [Self; 5] = [
        Self::Hnsw,
        Self::Flat,
        Self::PgVector,
        Self::Qdrant,
        Self::Elasticsearch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Hnsw => "hnsw",
            Self::Flat => "flat",
            Self::PgVector => "pgvector",
            Self::Qdrant => "qdrant",
            Self::Elasticsearch => "elasticsearch",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|storage| storage.name() == name)
    }

    /// Returns true if the vectors are also on another server.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Qdrant | Self::Elasticsearch)
    }
}

/// How near two vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VectorMetric {
    #[default]
    Cosine,
    /// Euclidean distance.
    L2,
    InnerProduct,
}

impl VectorMetric {
    pub const ALL: [Self; 3] = [Self::Cosine, Self::L2, Self::InnerProduct];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
            Self::InnerProduct => "inner_product",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns the operator for the distance, as `rag` and pgvector name it.
    pub fn operator(self) -> &'static str {
        match self {
            Self::Cosine => "<=>",
            Self::L2 => "<->",
            Self::InnerProduct => "<#>",
        }
    }

    /// Returns the operator class of an index, as `rag_hnsw` and pgvector name it.
    pub fn operator_class(self) -> &'static str {
        match self {
            Self::Cosine => "vector_cosine_ops",
            Self::L2 => "vector_l2_ops",
            Self::InnerProduct => "vector_ip_ops",
        }
    }

    /// Returns the score of a distance, higher for nearer vectors.
    ///
    /// * `cosine`: `1 - distance`, the cosine similarity, -1 to 1;
    /// * `l2`: `1 / (1 + distance)`, above 0 and at most 1;
    /// * `inner_product`: `(1 + p / (1 + |p|)) / 2` for the product `p`, which is `-distance`,
    ///   between 0 and 1. It is 0.5 for orthogonal vectors.
    pub fn score(self, distance: f64) -> f64 {
        match self {
            Self::Cosine => 1.0 - distance,
            Self::L2 => 1.0 / (1.0 + distance),
            Self::InnerProduct => f64::midpoint(1.0, -distance / (1.0 + distance.abs())),
        }
    }
}

/// A value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretValueRef {
    pub name: String,
    /// None: `username`, `password` or `token`, by what the value is.
    pub key: Option<String>,
}

/// A server that searches vectors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteStorage {
    pub url: String,
    pub username: Option<SecretValueRef>,
    pub password: Option<SecretValueRef>,
    pub api_key: Option<SecretValueRef>,
    pub options: ServerOptions,
}

impl RemoteStorage {
    /// Returns the values of secrets that are sent to the server, and the key of each that names
    /// none.
    pub fn secrets(&self) -> impl Iterator<Item = (&SecretValueRef, &'static str)> {
        [
            (&self.username, "username"),
            (&self.password, "password"),
            (&self.api_key, "token"),
        ]
        .into_iter()
        .filter_map(|(reference, key)| Some((reference.as_ref()?, key)))
    }
}

/// The settings of the storage, from a spec that was checked when it was stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageSettings {
    pub storage: StorageType,
    pub metric: VectorMetric,
    /// Options of the vector index. None: the default of the index.
    pub m: Option<i32>,
    pub ef_construction: Option<i32>,
    /// For storage on another server.
    pub remote: Option<RemoteStorage>,
}

impl StorageSettings {
    pub fn of(spec: &Value) -> Self {
        let config = &spec["storageConfig"];
        let word = |key: &str| config[key].as_str();
        let storage = word("type").and_then(StorageType::parse);
        let storage = storage.unwrap_or_default();
        let option = |key: &str| config["ext"][key].as_i64().and_then(|n| n.try_into().ok());
        let secret = |key: &str| {
            Some(SecretValueRef {
                name: config[key]["name"].as_str()?.to_owned(),
                key: config[key]["key"].as_str().map(str::to_owned),
            })
        };
        Self {
            storage,
            metric: word("metric")
                .and_then(VectorMetric::parse)
                .unwrap_or_default(),
            m: option("m"),
            ef_construction: option("ef_construction"),
            remote: storage.is_remote().then(|| RemoteStorage {
                url: word("url").unwrap_or_default().to_owned(),
                username: secret("usernameRef"),
                password: secret("passwordRef"),
                api_key: secret("apiKeyRef"),
                options: ServerOptions {
                    shards: option("shards"),
                    replicas: option("replicas"),
                    on_disk: config["ext"]["on_disk"].as_bool(),
                    quantization: config["ext"]["quantization"]
                        .as_str()
                        .and_then(Quantization::parse),
                },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scores_fall_with_the_distance_and_stay_within_one() {
        for (metric, distances) in [
            (VectorMetric::Cosine, [0.0, 0.5, 1.0, 2.0]),
            (VectorMetric::L2, [0.0, 0.1, 5.0, 1e30]),
            (VectorMetric::InnerProduct, [-1e6, -1.0, 0.0, 7.0]),
        ] {
            let scores = distances.map(|distance| metric.score(distance));
            assert!(scores.is_sorted_by(|a, b| a > b), "{metric:?} {scores:?}");
            assert!(scores.iter().all(|score| (-1.0..=1.0).contains(score)));
        }
        assert_eq!(VectorMetric::InnerProduct.score(0.0), 0.5);
        assert_eq!(VectorMetric::InnerProduct.score(-1.0), 0.75);
        assert_eq!(VectorMetric::L2.score(1.0), 0.5);
    }

    #[test]
    fn settings_have_defaults() {
        assert_eq!(
            StorageSettings::of(&Value::Null),
            StorageSettings::default()
        );
        let settings = StorageSettings::of(&json!({"storageConfig": {
            "type": "qdrant", "url": "http://q:6333", "metric": "l2",
            "ext": {"m": 8, "shards": 2, "on_disk": true, "quantization": "int8"},
            "apiKeyRef": {"name": "q", "key": "token"}}}));
        assert_eq!(
            settings,
            StorageSettings {
                storage: StorageType::Qdrant,
                metric: VectorMetric::L2,
                m: Some(8),
                ef_construction: None,
                remote: Some(RemoteStorage {
                    url: "http://q:6333".into(),
                    api_key: Some(SecretValueRef {
                        name: "q".into(),
                        key: Some("token".into())
                    }),
                    options: ServerOptions {
                        shards: Some(2),
                        replicas: None,
                        on_disk: Some(true),
                        quantization: Some(Quantization::Int8),
                    },
                    ..RemoteStorage::default()
                }),
            }
        );
    }
}
