//! `storageConfig`: where the vectors of collections are searched.

use std::ffi::CStr;

use serde::{Deserialize, Serialize, Serializer};

use super::{IndexStrategy, Metric};
use crate::{
    Fields, SecretRef,
    fields::{shown, type_of},
    spelling::did_you_mean,
};

/// Defines [`StorageType`] with the list of its values, so that none is missing there.
macro_rules! storage_types {
    (
        here { $($(#[$attribute:meta])* $here:ident = $here_name:literal;)* }
        servers { $($server:ident = $server_name:literal, $title:literal;)* }
    ) => {
        /// Where the vectors of a collection are searched.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum StorageType {
            $($(#[$attribute])* $here,)*
            /// By another server.
            Server(ServerKind),
        }

        /// The interface of a server that searches vectors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ServerKind {
            $($server,)*
        }

        impl StorageType {
            pub const ALL: &[Self] = &[
                $(Self::$here,)*
                $(Self::Server(ServerKind::$server),)*
            ];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$here => $here_name,)*
                    Self::Server(kind) => kind.name(),
                }
            }
        }

        impl ServerKind {
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$server => $server_name,)*
                }
            }

            /// Returns the name of the program.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$server => $title,)*
                }
            }
        }
    };
}

// All types of storage. No other place lists them.
storage_types! {
    here {
        /// By an index `rag_hnsw` of this database.
        #[default]
        Hnsw = "hnsw";
        /// By reading all chunks.
        Flat = "flat";
        /// By an index `hnsw` of the extension pgvector.
        PgVector = "pgvector";
    }
    servers {
        Qdrant = "qdrant", "Qdrant";
        Elasticsearch = "elasticsearch", "Elasticsearch";
    }
}

impl StorageType {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|storage| storage.name() == name)
    }

    /// Returns the names of all types.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|storage| storage.name()).collect()
    }

    /// Returns the server that has the vectors, too.
    pub fn server(self) -> Option<ServerKind> {
        match self {
            Self::Server(kind) => Some(kind),
            Self::Hnsw | Self::Flat | Self::PgVector => None,
        }
    }

    /// Returns the access method of its indexes in this database.
    pub fn access_method(self) -> Option<&'static CStr> {
        match self {
            Self::Hnsw => Some(c"rag_hnsw"),
            Self::PgVector => Some(c"hnsw"),
            Self::Flat | Self::Server(_) => None,
        }
    }

    /// Returns the type whose indexes in this database have an access method.
    pub fn of_access_method(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|storage| {
            storage
                .access_method()
                .is_some_and(|method| method.to_bytes() == name.as_bytes())
        })
    }
}

impl Serialize for StorageType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Options of a vector index. None: the default of the index or of its server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub m: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ef_construction: Option<i32>,
    /// For servers, as all that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<i32>,
    /// The number of copies of each shard beside the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The vectors and their graph are read from the disk, not kept in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
}

/// How the vectors are stored that a search compares first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantization {
    /// As they are.
    None,
    /// A byte for each dimension.
    Int8,
    /// A bit for each dimension.
    Binary,
}

impl Quantization {
    pub const ALL: [Self; 3] = [Self::None, Self::Int8, Self::Binary];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Int8 => "int8",
            Self::Binary => "binary",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The storage of a retriever. None stands for the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageDefinition {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    storage_type: Option<StorageType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<Metric>,
    /// For storage on another server.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    username_ref: Option<SecretRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_ref: Option<SecretRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key_ref: Option<SecretRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ext: Option<IndexOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index_strategy: Option<IndexStrategy>,
}

/// The storage of a retriever that has no settings of it.
pub(super) static DEFAULT: StorageDefinition = StorageDefinition {
    storage_type: None,
    metric: None,
    url: None,
    username_ref: None,
    password_ref: None,
    api_key_ref: None,
    ext: None,
    index_strategy: None,
};

impl StorageDefinition {
    /// The path of the type in a spec.
    pub const TYPE_FIELD: &str = "spec.storageConfig.type";

    pub fn storage_type(&self) -> StorageType {
        self.storage_type.unwrap_or_default()
    }

    /// Returns the server that has the vectors, too.
    pub fn server(&self) -> Option<ServerKind> {
        self.storage_type().server()
    }

    pub fn metric(&self) -> Metric {
        self.metric.unwrap_or_default()
    }

    /// Returns the address of the server, for storage on another server.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    pub fn options(&self) -> IndexOptions {
        self.ext.unwrap_or_default()
    }

    pub fn strategy(&self) -> IndexStrategy {
        self.index_strategy.clone().unwrap_or_default()
    }

    /// Returns the references to user name, password and API key that the server gets, each with
    /// the key of the secret.
    pub fn secrets(&self) -> [Option<SecretRef>; 3] {
        let complete = |given: &Option<SecretRef>, key: &str| {
            given.as_ref().map(|given| SecretRef {
                name: given.name.clone(),
                key: Some(given.key.clone().unwrap_or_else(|| key.to_owned())),
            })
        };
        [
            complete(&self.username_ref, "username"),
            complete(&self.password_ref, "password"),
            complete(&self.api_key_ref, "token"),
        ]
    }
}

pub(super) const FIELDS: [&str; 11] = [
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
const OF_SERVERS: [&str; 7] = [
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
const QUANTIZATION: &str = "quantization";
const ON_DISK: &str = "on_disk";

const URL_HINT: &str = "Write https://host:port, such as https://vectors.example.org:6333.";
const SECRET_HINT: &str = "Create a secret and name it in passwordRef or apiKeyRef.";

impl StorageDefinition {
    pub(super) fn read(storage: &Fields<'_>) -> Self {
        let given = storage.text("type");
        let known = given.and_then(StorageType::parse);
        if let (Some(given), None) = (given, known) {
            let problem = format!("\"{}\" is not supported by this version", shown(given));
            let hint = did_you_mean(given, &StorageType::names(), "Types");
            storage.problem_with("type", problem, hint);
        }
        // With another type, the type is the problem and not the address.
        let is_clear = known.is_some() || storage.get("type").is_none();
        let storage_type = known.unwrap_or_default();
        let mut read = Self {
            storage_type: known,
            metric: metric(storage),
            ..Self::default()
        };
        match storage_type.server() {
            _ if !is_clear => {}
            Some(kind) => read.read_server(storage, kind),
            None => refuse_server(storage, storage_type),
        }
        Self {
            ext: index_options(storage, storage_type),
            index_strategy: IndexStrategy::read(storage),
            ..read
        }
    }

    fn read_server(&mut self, storage: &Fields<'_>, kind: ServerKind) {
        self.url = storage.server_url("url", URL_HINT, SECRET_HINT);
        let [username, password, api_key] = VALUES.map(|(value, reference)| {
            if storage.get(value).is_some() {
                let problem = "is not stored in settings, which others can read";
                let hint = format!("Create a secret and write {reference}: {{\"name\": ...}}.");
                storage.problem_with(value, problem, hint);
            }
            secret(storage, reference)
        });
        (self.username_ref, self.password_ref, self.api_key_ref) = (username, password, api_key);
        check_secrets(storage, kind);
    }
}

fn metric(storage: &Fields<'_>) -> Option<Metric> {
    const KEY: &str = "metric";
    let given = storage.text(KEY)?;
    let metric = Metric::parse(given);
    if metric.is_none() {
        let names = Metric::ALL.map(Metric::name);
        let problem = format!("\"{}\" is not a metric", shown(given));
        storage.problem_with(KEY, problem, did_you_mean(given, &names, "Metrics"));
    }
    metric
}

fn refuse_server(storage: &Fields<'_>, known: StorageType) {
    for key in OF_SERVERS {
        if storage.get(key).is_some() {
            let problem = format!(
                "is for storage on another server, but \"{}\" is in this database",
                known.name()
            );
            storage.problem_with(key, problem, "Leave it out.");
        }
    }
}

/// Reads the name of a secret, and of its key if there is one.
fn secret(storage: &Fields<'_>, key: &str) -> Option<SecretRef> {
    let given = storage.get(key)?;
    if !given.is_object() {
        // the value may be the secret itself
        let problem = format!("must name a secret, and not be {}", type_of(given));
        let hint = format!("Write {key}: {{\"name\": ..., \"key\": ...}}.");
        storage.problem_with(key, problem, hint);
        return None;
    }
    SecretRef::read(&storage.object(key, &SecretRef::FIELDS)?)
}

/// Checks which secrets a server takes.
fn check_secrets(storage: &Fields<'_>, kind: ServerKind) {
    match kind {
        ServerKind::Qdrant => refuse_password(storage, kind),
        ServerKind::Elasticsearch => check_password_or_key(storage),
    }
}

fn refuse_password(storage: &Fields<'_>, kind: ServerKind) {
    for key in ["usernameRef", "passwordRef"] {
        if storage.get(key).is_some() {
            let problem = format!(
                "is not for storage \"{}\", whose servers take an API key",
                kind.name()
            );
            storage.problem_with(key, problem, "Write apiKeyRef.");
        }
    }
}

fn check_password_or_key(storage: &Fields<'_>) {
    let has = |key: &str| storage.get(key).is_some();
    for (given, missing) in [
        ("usernameRef", "passwordRef"),
        ("passwordRef", "usernameRef"),
    ] {
        if has(given) && !has(missing) {
            storage.problem(missing, format!("is missing beside {given}"));
        }
    }
    if has("apiKeyRef") && (has("usernameRef") || has("passwordRef")) {
        let problem = "excludes usernameRef and passwordRef";
        storage.problem_with("apiKeyRef", problem, "Write one of both.");
    }
}

/// Reads `ext`: options of the vector index.
fn index_options(storage: &Fields<'_>, of: StorageType) -> Option<IndexOptions> {
    let mut known = vec!["m", "ef_construction"];
    if let Some(kind) = of.server() {
        known.extend(["shards", "replicas", QUANTIZATION]);
        match kind {
            ServerKind::Qdrant => known.push(ON_DISK),
            ServerKind::Elasticsearch => {}
        }
    }
    let options = storage.object("ext", &known)?;
    // the default of ef_construction, if it must be twice m
    let default = match of {
        StorageType::Flat => {
            let problem = format!("is for a vector index, but \"{}\" has none", of.name());
            storage.problem_with("ext", problem, "Leave it out.");
            return None;
        }
        StorageType::Hnsw => Some(100),
        StorageType::PgVector => Some(64),
        StorageType::Server(_) => None,
    };
    let count = |name, least, most| {
        let count = options.integer(name, least..=most)?;
        i32::try_from(count).ok()
    };
    let mut read = IndexOptions {
        m: count("m", 2, 100),
        ef_construction: count("ef_construction", 4, 1000),
        ..IndexOptions::default()
    };
    if of.server().is_some() {
        read.shards = count("shards", 1, 1024);
        read.replicas = count("replicas", 0, 100);
        let names = Quantization::ALL.map(Quantization::name);
        let quantization = options.word(QUANTIZATION, &names, "a quantization");
        read.quantization = quantization.and_then(Quantization::parse);
        read.on_disk = options.boolean(ON_DISK);
    }
    let m = read.m.unwrap_or(16);
    if let Some(default) = default
        && read.ef_construction.unwrap_or(default) < 2 * m
    {
        let problem = format!("must be at least 2 * m, which is {}", 2 * m);
        options.problem("ef_construction", problem);
    }
    Some(read)
}
