//! `storageConfig.indexStrategy`: which partition of `rag.chunks` has the chunks of a collection.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Fields,
    fields::shown,
    name::{NameError, NameForm},
    spelling::did_you_mean,
};

const KEYS: [&str; 4] = ["mode", "prefix", "fixedName", "rollingStep"];

/// The mode in which each collection has a partition of its own.
pub const OWN_PARTITION: &str = "per_dataset";
const FIXED: &str = "fixed";
const ROLLING: &str = "rolling";
const MODES: [&str; 3] = [OWN_PARTITION, FIXED, ROLLING];
/// Keys of some modes only.
const MODES_OF_KEYS: [(&str, &[&str]); 3] = [
    ("prefix", &[OWN_PARTITION, ROLLING]),
    ("fixedName", &[FIXED]),
    ("rollingStep", &[ROLLING]),
];

/// What is between the prefix and the name of a collection.
const OWN: &str = "_kb_";

const DEFAULT_PREFIX: &str = "rag";
const DEFAULT_FIXED_NAME: &str = "rag_documents";
const DEFAULT_STEP: i64 = 10;
const MAX_STEP: i64 = 1_000_000;

/// The maximum number of bytes of an identifier.
const MAX_NAME: usize = 63;
/// The maximum length of a prefix. What follows it is then more than a hash.
const MAX_PREFIX: usize = 32;
/// The number of hexadecimal digits of the hash in a shortened name.
const HASH_DIGITS: usize = 16;

/// How collections are distributed over partitions. None stands for the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum IndexStrategy {
    /// Each collection has a partition of its own.
    PerDataset {
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
    },
    /// One partition for all collections.
    Fixed {
        #[serde(rename = "fixedName", skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// One partition for `step` collections that were created one after another.
    Rolling {
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        #[serde(rename = "rollingStep", skip_serializing_if = "Option::is_none")]
        step: Option<i64>,
    },
}

impl Default for IndexStrategy {
    fn default() -> Self {
        Self::PerDataset { prefix: None }
    }
}

impl IndexStrategy {
    pub fn mode(&self) -> &'static str {
        match self {
            Self::PerDataset { .. } => OWN_PARTITION,
            Self::Fixed { .. } => FIXED,
            Self::Rolling { .. } => ROLLING,
        }
    }

    /// Returns true if a partition may have the chunks of several collections.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::PerDataset { .. })
    }

    /// Returns the name of the partition for a collection. `serial` numbers collections from 1. The
    /// name is an identifier of at most 63 bytes. A longer one is shortened: it ends with a `~`,
    /// which no prefix and no name of a collection contains, and a hash.
    pub fn partition(&self, collection: &str, serial: i64) -> String {
        let prefixed = |prefix: &Option<String>, rest: &str| {
            format!("{}{rest}", prefix.as_deref().unwrap_or(DEFAULT_PREFIX))
        };
        let name = match self {
            Self::PerDataset { prefix } => prefixed(prefix, &format!("{OWN}{collection}")),
            Self::Fixed { name } => name.as_deref().unwrap_or(DEFAULT_FIXED_NAME).to_owned(),
            Self::Rolling { prefix, step } => {
                let step = step.unwrap_or(DEFAULT_STEP);
                let first = (serial - 1).div_euclid(step) * step;
                prefixed(prefix, &format!("_index_{first}"))
            }
        };
        if name.len() <= MAX_NAME {
            return name;
        }
        let hash = Sha256::digest(&name);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let start: String = name.chars().take(MAX_NAME - 1 - HASH_DIGITS).collect();
        format!("{start}~{}", &hash[..HASH_DIGITS])
    }
}

impl IndexStrategy {
    /// Reads the key `indexStrategy` of `storageConfig`.
    pub(super) fn read(storage: &Fields<'_>) -> Option<Self> {
        let strategy = storage.object("indexStrategy", &KEYS)?;
        let mode = strategy.text("mode");
        if let Some(other) = mode.filter(|mode| !MODES.contains(mode)) {
            let problem = format!("\"{}\" is not a mode", shown(other));
            strategy.problem_with("mode", problem, did_you_mean(other, &MODES, "Modes"));
            return None;
        }
        let mode = mode.unwrap_or(OWN_PARTITION);
        for (key, modes) in MODES_OF_KEYS {
            if strategy.get(key).is_some() && !modes.contains(&mode) {
                let of = modes.iter().map(|mode| format!("\"{mode}\""));
                let of = of.collect::<Vec<_>>().join(" and ");
                let plural = if modes.len() > 1 { "modes" } else { "mode" };
                let problem = format!("is only for {plural} {of}");
                strategy.problem_with(key, problem, "Leave it out.");
            }
        }
        let prefix = name(&strategy, "prefix", MAX_PREFIX);
        let fixed_name = name(&strategy, "fixedName", MAX_NAME);
        let step = strategy.integer("rollingStep", 1..=MAX_STEP);
        Some(match mode {
            FIXED => Self::Fixed { name: fixed_name },
            ROLLING => Self::Rolling { prefix, step },
            _ => Self::PerDataset { prefix },
        })
    }
}

/// Reads a name that may begin the names of partitions, or be one.
fn name(strategy: &Fields<'_>, key: &str, longest: usize) -> Option<String> {
    let name = strategy.text(key)?;
    if !is_name(name, longest) {
        let problem = format!(
            "\"{}\" is not a name of at most {longest} characters",
            shown(name)
        );
        strategy.problem_with(key, problem, NameForm::Collection.hint());
    }
    if occupies(key, name) {
        let problem = format!("\"{}\" could be the partition of a collection", shown(name));
        let hint = format!(
            "Names with \"{OWN}\", and fixed names that end with \"_index_\" and a number, are \
             reserved for the modes {OWN_PARTITION} and {ROLLING}."
        );
        strategy.problem_with(key, problem, hint);
    }
    Some(name.to_owned())
}

/// Returns true if the name could occupy the partition of another collection or retriever. The
/// first [`OWN`] of a partition's name ends its prefix.
fn occupies(key: &str, name: &str) -> bool {
    if key == "prefix" {
        return format!("{name}{OWN}").find(OWN) != Some(name.len());
    }
    let number = name.rsplit_once("_index_").map(|(_, number)| number);
    name.contains(OWN) || number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

fn is_name(text: &str, longest: usize) -> bool {
    text.len() <= longest && NameForm::Collection.check(text) != Err(NameError::Form)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::retriever::RetrieverDefinition;

    fn strategy(value: Value) -> IndexStrategy {
        let spec = json!({"storageConfig": {"indexStrategy": value}});
        let read = RetrieverDefinition::parse(&spec).expect("valid");
        read.storage().strategy()
    }

    #[test]
    fn a_collection_has_its_own_partition_by_default() {
        let default = IndexStrategy::default();
        assert_eq!(default.mode(), "per_dataset");
        assert_eq!(default.partition("laws", 7), "rag_kb_laws");
        let other = strategy(json!({"mode": "per_dataset", "prefix": "legal"}));
        assert_eq!(other.partition("laws", 7), "legal_kb_laws");
    }

    #[test]
    fn all_collections_of_a_fixed_strategy_share_a_partition() {
        let default = strategy(json!({"mode": "fixed"}));
        assert_eq!(default.partition("laws", 7), "rag_documents");
        let named = strategy(json!({"mode": "fixed", "fixedName": "all"}));
        assert_eq!(named.partition("laws", 7), "all");
        assert!(named.is_shared());
    }

    #[test]
    fn a_rolling_strategy_starts_a_partition_with_every_step() {
        let default = strategy(json!({"mode": "rolling"}));
        let of = |serial| default.partition("laws", serial);
        assert_eq!(
            [1, 10, 11, 20, 21].map(of),
            [
                "rag_index_0",
                "rag_index_0",
                "rag_index_10",
                "rag_index_10",
                "rag_index_20"
            ]
        );
        let seed = strategy(json!({"mode": "rolling", "rollingStep": 5000, "prefix": "wecode"}));
        assert_eq!(seed.partition("laws", 5000), "wecode_index_0");
        assert_eq!(seed.partition("laws", 5001), "wecode_index_5000");
    }

    #[test]
    fn long_names_are_shortened_to_different_identifiers() {
        let long = strategy(json!({"prefix": "p".repeat(MAX_PREFIX)}));
        let (one, other) = ("a".repeat(55) + "1", "a".repeat(55) + "2");
        let (one, other) = (long.partition(&one, 1), long.partition(&other, 2));
        assert_eq!((one.len(), other.len()), (MAX_NAME, MAX_NAME));
        assert_ne!(one, other);
        // the longest name with the default prefix needs no hash
        let longest = strategy(json!({})).partition(&"a".repeat(56), 1);
        assert_eq!(longest, format!("rag_kb_{}", "a".repeat(56)));
    }

    proptest! {
        #[test]
        fn partitions_have_identifiers_and_steps_have_their_collections(
            prefix in "[a-z0-9]{1,32}",
            name in "[a-zA-Z0-9]{1,56}",
            serial in 1_i64..1_000_000_000,
            step in 1..=MAX_STEP,
        ) {
            let own = strategy(json!({"prefix": prefix}));
            prop_assert!(own.partition(&name, serial).len() <= MAX_NAME);
            let rolling =
                strategy(json!({"mode": "rolling", "prefix": prefix, "rollingStep": step}));
            let partition = rolling.partition(&name, serial);
            prop_assert!(partition.len() <= MAX_NAME);
            let first: i64 = partition.rsplit('_').next().unwrap_or_default().parse()?;
            prop_assert!((first + 1..=first + step).contains(&serial));
            prop_assert_eq!(first % step, 0);
        }
    }
}
