//! What a user says of a collection.
//!
//! [`CollectionDefinition`] is the whole of it: arguments of a call become one, a row of the
//! catalog and the settings of a bundle are read as one, and so are the settings that wait for a
//! rebuild. Its fields have the names of the columns. So statements take their lists of columns
//! from here, and an attribute is added in one place.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    FieldProblem, Problems, Quota, Splitting, Unit, quota,
    retriever::{Quantization, RetrieverDefinition, StorageDefinition},
};

/// The retriever that every database has. Collections have it unless they name another one.
pub const DEFAULT_RETRIEVER: &str = "default";
const MAX_CHUNK_SIZE: i32 = 1_000_000;
const MAX_TITLE_WEIGHT: i32 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionDefinition {
    pub retriever: String,
    /// The model that the collection names. None: that of the retriever, or the default one.
    pub embedding_model: Option<String>,
    /// The name by which an application knows the collection.
    pub external_id: Option<String>,
    pub description: Option<String>,
    /// None: the default for the unit.
    pub chunk_size: Option<i32>,
    pub chunk_overlap: Option<i32>,
    pub chunk_unit: Unit,
    /// The metadata keys that chunks carry, or None for all.
    pub metadata_whitelist: Option<Vec<String>>,
    /// The text search configuration of the keyword index, with its schema.
    pub text_config: String,
    /// How often the title counts in the keyword index.
    pub title_weight: i32,
    /// None: no limit.
    pub max_documents: Option<i64>,
    /// The size of all texts in bytes. None: no limit.
    pub max_bytes: Option<i64>,
}

/// The attributes that say nothing of the stored chunks. All others wait for a rebuild once there
/// are chunks.
const APART_FROM_CHUNKS: [&str; 4] = ["external_id", "description", "max_documents", "max_bytes"];

impl Default for CollectionDefinition {
    fn default() -> Self {
        Self {
            retriever: DEFAULT_RETRIEVER.to_owned(),
            embedding_model: None,
            external_id: None,
            description: None,
            chunk_size: None,
            chunk_overlap: None,
            chunk_unit: Unit::default(),
            metadata_whitelist: None,
            // the language of the default model
            text_config: "pg_catalog.english".to_owned(),
            // on SciFact 2 and 3 were best
            title_weight: 2,
            max_documents: None,
            max_bytes: None,
        }
    }
}

impl CollectionDefinition {
    /// Returns the attributes by their names.
    pub fn attributes(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(attributes)) => attributes,
            _ => Map::new(),
        }
    }

    /// Returns the names of all attributes.
    pub fn names() -> Vec<String> {
        Self::default()
            .attributes()
            .keys()
            .map(String::from)
            .collect()
    }

    /// Returns the attributes that are other than before.
    pub fn changes_since(&self, before: &Self) -> Map<String, Value> {
        let before = before.attributes();
        let mut changes = self.attributes();
        changes.retain(|name, value| before.get(name) != Some(value));
        changes
    }

    /// Returns true if an attribute describes the stored chunks or their indexes.
    pub fn describes_chunks(name: &str) -> bool {
        !APART_FROM_CHUNKS.contains(&name)
    }

    /// Returns the definition in the form in which it is stored: a limit of 0 and an empty list of
    /// keys are None.
    ///
    /// # Errors
    /// All values that are out of range.
    pub fn checked(mut self) -> Result<Self, Vec<FieldProblem>> {
        let problems = Problems::default();
        let limit = |name, limit: &mut Option<i64>| match quota::limit(name, *limit) {
            Ok(checked) => *limit = checked,
            Err(problem) => problems.push(problem),
        };
        limit("max_documents", &mut self.max_documents);
        limit("max_bytes", &mut self.max_bytes);
        self.metadata_whitelist = self.metadata_whitelist.filter(|keys| !keys.is_empty());
        let found = [
            self.wrong_splitting(),
            self.wrong_whitelist(),
            self.wrong_title_weight(),
        ];
        found.into_iter().flatten().for_each(|it| problems.push(it));
        problems.into_result(Some(self))
    }

    fn wrong_splitting(&self) -> Option<FieldProblem> {
        if let Some(n) = self
            .chunk_size
            .filter(|n| !(1..=MAX_CHUNK_SIZE).contains(n))
        {
            let wrong = format!("chunk_size must be between 1 and {MAX_CHUNK_SIZE}, not {n}");
            return Some(FieldProblem::new("chunk_size", wrong));
        }
        if let Some(n) = self.chunk_overlap.filter(|n| *n < 0) {
            let wrong = format!("chunk_overlap must not be negative: {n}");
            return Some(FieldProblem::new("chunk_overlap", wrong));
        }
        let Splitting {
            chunk_size,
            chunk_overlap,
            ..
        } = self.splitting();
        (chunk_overlap >= chunk_size).then(|| {
            let wrong = format!(
                "chunk_overlap ({chunk_overlap}) must be smaller than chunk_size ({chunk_size})"
            );
            FieldProblem::new("chunk_overlap", wrong)
        })
    }

    fn wrong_whitelist(&self) -> Option<FieldProblem> {
        let mut seen = HashSet::new();
        let mut keys = self.metadata_whitelist.iter().flatten();
        let wrong = keys.find_map(|key| match key.as_str() {
            "" => Some("metadata_whitelist must not contain an empty key".to_owned()),
            key if !seen.insert(key) => {
                Some(format!("duplicate key \"{key}\" in metadata_whitelist"))
            }
            _ => None,
        })?;
        Some(FieldProblem::new("metadata_whitelist", wrong))
    }

    fn wrong_title_weight(&self) -> Option<FieldProblem> {
        let weight = self.title_weight;
        (!(0..=MAX_TITLE_WEIGHT).contains(&weight)).then(|| {
            let wrong =
                format!("title_weight must be between 0 and {MAX_TITLE_WEIGHT}, not {weight}");
            FieldProblem::new("title_weight", wrong)
        })
    }

    /// Returns how texts are split, with defaults for what is left out.
    pub fn splitting(&self) -> Splitting {
        let (default_size, default_overlap) = match self.chunk_unit {
            Unit::Characters => (1000, 200),
            Unit::Tokens => (200, 40),
        };
        let positive = |n: i32| usize::try_from(n).unwrap_or(0);
        let chunk_size = self.chunk_size.map_or(default_size, positive);
        // a small chunk_size must not conflict with the default overlap
        let chunk_overlap = self
            .chunk_overlap
            .map_or_else(|| default_overlap.min(chunk_size / 5), positive);
        Splitting {
            chunk_size,
            chunk_overlap,
            unit: self.chunk_unit,
        }
    }

    pub fn quota(&self) -> Quota {
        Quota {
            max_documents: self.max_documents,
            max_bytes: self.max_bytes,
        }
    }

    /// Returns the name of the model that embeds documents and queries. None: the default one.
    pub fn model<'a>(&'a self, retriever: &'a RetrieverDefinition) -> Option<&'a str> {
        self.embedding_model.as_deref().or(retriever.model())
    }

    /// Returns what the indexes of the chunks are made of. `retriever` is that of the collection.
    pub fn layout(&self, retriever: &RetrieverDefinition) -> Layout {
        Layout {
            text_config: self.text_config.clone(),
            title_weight: self.title_weight,
            keywords: retriever.methods().uses_keywords(),
            storage: retriever.storage().clone(),
        }
    }
}

/// What the indexes of chunks are made of. Collections that share a partition have the same one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Layout {
    text_config: String,
    title_weight: i32,
    /// There is a keyword index.
    keywords: bool,
    storage: StorageDefinition,
}

/// A part of two layouts in which they differ, as texts.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub part: &'static str,
    pub own: String,
    pub other: String,
}

impl Layout {
    /// Returns the first part in which another layout differs.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let parts = self.parts().into_iter().zip(other.parts());
        let mut parts = parts.map(|((part, own), (_, other))| Difference { part, own, other });
        parts.find(|it| it.own != it.other)
    }

    /// Returns name and value of each part.
    fn parts(&self) -> [(&'static str, String); 11] {
        let switch = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
        let number = |value: Option<i32>| value.map_or("default".to_owned(), |n| n.to_string());
        let (storage, options) = (&self.storage, self.storage.options());
        let on_disk = options.on_disk.map_or("default".to_owned(), switch);
        let quantization = options.quantization.map_or("default", Quantization::name);
        [
            ("text_config", self.text_config.clone()),
            ("title_weight", self.title_weight.to_string()),
            ("keyword search", switch(self.keywords)),
            ("storage type", storage.storage_type().name().to_owned()),
            ("metric", storage.metric().name().to_owned()),
            ("index option m", number(options.m)),
            (
                "index option ef_construction",
                number(options.ef_construction),
            ),
            ("index option shards", number(options.shards)),
            ("index option replicas", number(options.replicas)),
            ("index option on_disk", on_disk),
            ("index option quantization", quantization.to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(definition: CollectionDefinition) -> Vec<String> {
        let problems = definition.checked().unwrap_err();
        problems.into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn all_values_out_of_range_are_reported_together() {
        let wrong = CollectionDefinition {
            chunk_size: Some(0),
            metadata_whitelist: Some(vec!["a".into(), "a".into()]),
            title_weight: 11,
            max_bytes: Some(-1),
            ..Default::default()
        };
        assert_eq!(
            problems(wrong),
            [
                "max_bytes must not be negative: -1",
                "chunk_size must be between 1 and 1000000, not 0",
                "duplicate key \"a\" in metadata_whitelist",
                "title_weight must be between 0 and 10, not 11",
            ]
        );
    }

    #[test]
    fn the_overlap_is_smaller_than_the_chunk() {
        let wrong = CollectionDefinition {
            chunk_size: Some(100),
            chunk_overlap: Some(100),
            ..Default::default()
        };
        assert_eq!(
            problems(wrong),
            ["chunk_overlap (100) must be smaller than chunk_size (100)"]
        );
        let small = CollectionDefinition {
            chunk_size: Some(100),
            ..Default::default()
        };
        assert_eq!(small.checked().unwrap().splitting().chunk_overlap, 20);
    }

    #[test]
    fn a_limit_of_0_and_an_empty_list_are_none() {
        let written = CollectionDefinition {
            metadata_whitelist: Some(vec![]),
            max_documents: Some(0),
            max_bytes: Some(0),
            ..Default::default()
        };
        assert_eq!(written.checked(), Ok(CollectionDefinition::default()));
    }

    #[test]
    fn changes_are_the_attributes_that_differ() {
        let before = CollectionDefinition::default();
        let after = CollectionDefinition {
            chunk_unit: Unit::Tokens,
            description: Some("words".into()),
            ..Default::default()
        };
        let changes = after.changes_since(&before);
        let changes: Vec<(&str, &Value)> = changes.iter().map(|(k, v)| (k.as_str(), v)).collect();
        assert_eq!(
            changes,
            [
                ("description", &Value::from("words")),
                ("chunk_unit", &Value::from("tokens")),
            ]
        );
        assert!(CollectionDefinition::describes_chunks("chunk_unit"));
        assert!(!CollectionDefinition::describes_chunks("description"));
        let names = CollectionDefinition::names();
        assert!(
            APART_FROM_CHUNKS
                .iter()
                .all(|it| names.contains(&(*it).into()))
        );
    }

    #[test]
    fn layouts_differ_in_what_indexes_are_made_of() {
        let retriever = RetrieverDefinition::default();
        let one = CollectionDefinition::default();
        let other = CollectionDefinition {
            title_weight: 3,
            max_bytes: Some(1),
            ..Default::default()
        };
        let difference = one.layout(&retriever).difference(&other.layout(&retriever));
        assert_eq!(
            difference,
            Some(Difference {
                part: "title_weight",
                own: "2".into(),
                other: "3".into(),
            })
        );
    }
}
