//! `storageConfig`: where the vectors of collections are searched.

use rag_contract::{StorageType, VectorMetric};
use rag_protocol::{name::NameForm, spelling::did_you_mean, storage::Quantization};

use super::integer;
use crate::{
    object::{Object, shown, type_of},
    server_url::server_url,
    strategy,
};

pub const FIELDS: [&str; 11] = [
    "type",
    "metric",
    "url",
    "usernameRef",
    "passwordRef",
    "apiKeyRef",
    "username",
    "password",
    "apiKey",
    "ext",
    "indexStrategy",
];
/// Fields of storage on another server.
const REMOTE: [&str; 7] = [
    "url",
    "usernameRef",
    "passwordRef",
    "apiKeyRef",
    "username",
    "password",
    "apiKey",
];
/// Values that belong into secrets, and the fields that name these.
const VALUES: [(&str, &str); 3] = [
    ("username", "usernameRef"),
    ("password", "passwordRef"),
    ("apiKey", "apiKeyRef"),
];
/// Options of a vector index, with their smallest and largest values.
const INDEX_OPTIONS: [(&str, i64, i64); 2] = [("m", 2, 100), ("ef_construction", 4, 1000)];
/// Options of an index on another server, with their smallest and largest values.
const SERVER_OPTIONS: [(&str, i64, i64); 2] = [("shards", 1, 1024), ("replicas", 0, 100)];
const ON_DISK: &str = "on_disk";
const QUANTIZATION: &str = "quantization";

const URL_HINT: &str = "Write https://host:port, such as https://vectors.example.org:6333.";
const SECRET_HINT: &str = "Create a secret and name it in passwordRef or apiKeyRef.";

pub fn check(storage: &Object<'_>) {
    let names = StorageType::ALL.map(StorageType::name);
    let given = storage.text("type");
    let known = given.and_then(StorageType::parse);
    if let (Some(given), None) = (given, known) {
        let problem = format!("\"{}\" is not supported by this version", shown(given));
        storage.problem("type", problem, Some(did_you_mean(given, &names, "Types")));
    }
    // With another type, the type is the problem and not the address.
    if known.is_some() || storage.get("type").is_none() {
        let known = known.unwrap_or_default();
        match known.is_remote() {
            true => check_server(storage, known),
            false => refuse_server(storage, known),
        }
    }
    check_metric(storage);
    check_index_options(storage, known.unwrap_or_default());
    strategy::check(storage);
}

fn check_metric(storage: &Object<'_>) {
    const KEY: &str = "metric";
    let names = VectorMetric::ALL.map(VectorMetric::name);
    let given = storage.text(KEY).filter(|given| !names.contains(given));
    if let Some(given) = given {
        let problem = format!("\"{}\" is not a metric", shown(given));
        storage.problem(KEY, problem, Some(did_you_mean(given, &names, "Metrics")));
    }
}

fn refuse_server(storage: &Object<'_>, known: StorageType) {
    for key in REMOTE.into_iter().filter(|key| storage.get(key).is_some()) {
        let problem = format!(
            "is for storage on another server, but \"{}\" is in this database",
            known.name()
        );
        storage.problem(key, problem, Some("Leave it out.".into()));
    }
}

fn check_server(storage: &Object<'_>, known: StorageType) {
    server_url(storage, "url", URL_HINT, SECRET_HINT);
    for (value, reference) in VALUES {
        if storage.get(value).is_some() {
            let problem = "is not stored in settings, which others can read";
            let hint = format!("Create a secret and write {reference}: {{\"name\": ...}}.");
            storage.problem(value, problem, Some(hint));
        }
        check_reference(storage, reference);
    }
    let has = |key: &str| storage.get(key).is_some();
    if known == StorageType::Qdrant {
        for key in ["usernameRef", "passwordRef"]
            .into_iter()
            .filter(|key| has(key))
        {
            let problem = "is not for storage \"qdrant\", whose servers take an API key";
            storage.problem(key, problem, Some("Write apiKeyRef.".into()));
        }
        return;
    }
    for (given, missing) in [
        ("usernameRef", "passwordRef"),
        ("passwordRef", "usernameRef"),
    ] {
        if has(given) && !has(missing) {
            storage.problem(missing, format!("is missing beside {given}"), None);
        }
    }
    if has("apiKeyRef") && (has("usernameRef") || has("passwordRef")) {
        let hint = "Write one of both.";
        storage.problem(
            "apiKeyRef",
            "excludes usernameRef and passwordRef",
            Some(hint.into()),
        );
    }
}

/// Checks the name of a secret, and of its key if there is one.
fn check_reference(storage: &Object<'_>, key: &str) {
    let Some(given) = storage.get(key) else {
        return;
    };
    if !given.is_object() {
        // the value may be the secret itself
        let problem = format!("must name a secret, and not be {}", type_of(given));
        let hint = format!("Write {key}: {{\"name\": ..., \"key\": ...}}.");
        storage.problem(key, problem, Some(hint));
    } else if let Some(reference) = storage.object(key, &["name", "key"]) {
        reference.name("name", NameForm::Subdomain);
        if reference.get("key").is_some() {
            reference.name("key", NameForm::SecretKey);
        }
    }
}

/// Checks `ext`: options of the vector index.
fn check_index_options(storage: &Object<'_>, of: StorageType) {
    let mut known = INDEX_OPTIONS.map(|(name, _, _)| name).to_vec();
    if of.is_remote() {
        known.extend(SERVER_OPTIONS.map(|(name, _, _)| name));
        known.push(QUANTIZATION);
    }
    if of == StorageType::Qdrant {
        known.push(ON_DISK);
    }
    let Some(options) = storage.object("ext", &known) else {
        return;
    };
    // the default of ef_construction, if it must be twice m
    let default = match of {
        StorageType::Flat => {
            let problem = format!("is for a vector index, but \"{}\" has none", of.name());
            storage.problem("ext", problem, Some("Leave it out.".into()));
            return;
        }
        StorageType::Hnsw => Some(100),
        StorageType::PgVector => Some(64),
        StorageType::Qdrant | StorageType::Elasticsearch => None,
    };
    let value = |(name, least, most): (&str, i64, i64)| integer(&options, name, least, most);
    let [m, ef_construction] = INDEX_OPTIONS.map(value);
    if of.is_remote() {
        for option in SERVER_OPTIONS {
            value(option);
        }
        options.word(
            QUANTIZATION,
            &Quantization::ALL.map(Quantization::name),
            "a quantization",
        );
        options.boolean(ON_DISK);
    }
    let m = m.unwrap_or(16);
    if let Some(default) = default
        && ef_construction.unwrap_or(default) < 2 * m
    {
        let problem = format!("must be at least 2 * m, which is {}", 2 * m);
        options.problem("ef_construction", problem, None);
    }
}
