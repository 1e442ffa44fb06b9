//! `kind: AutoIndexer`: a source.
//!
//! KAITO has two forms of it: that of its proposal, and that of its releases
//! (`autoindexer.kaito.sh`), where some fields have other names. Both are read, and the first is
//! written.

use std::time::Duration;

use rag_definition::{
    FieldProblem, Fields, Problems, Quota, SecretRef,
    name::{NameForm, qualify, split},
    source::{
        DriftPolicy, KINDS, MAX_RETRIES, MAX_TIMEOUT, MIN_TIMEOUT, SourceKind, SourceSpec,
        kind_named, kind_names,
    },
};
use serde_json::{Map, Value, json};

use crate::{Metadata, duration::duration_text};

/// A source, as the proposal of the AutoIndexer describes it. Its references and its schedule are
/// not checked here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoIndexer {
    pub metadata: Metadata,
    /// `ragEngineRef`: `name`, or `namespace/name`. The default is the manifest's own namespace.
    pub retriever: String,
    /// `indexName`.
    pub collection: String,
    /// The name of one of [`KINDS`].
    pub kind: &'static str,
    /// The object `dataSource.<kind>`. [`SourceSpec::parse`] accepts it.
    pub spec: Value,
    /// In the namespace of the source. It has a key.
    pub credentials: Option<SecretRef>,
    pub schedule: Option<String>,
    /// 0..=100.
    pub max_retries: u32,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    /// In whole microseconds, like PostgreSQL's intervals; from 1 s to 24 days.
    pub timeout: Option<Duration>,
    /// Each limit is at least 1.
    pub quota: Quota,
    /// Fields with the names of KAITO's releases.
    pub renamed: Vec<RenamedField>,
}

/// A field that has two names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedField {
    /// Its path in the proposal.
    path: String,
    /// Its path in the releases.
    released: String,
}

impl RenamedField {
    fn new(path: impl Into<String>, released: impl Into<String>) -> Self {
        let (path, released) = (path.into(), released.into());
        Self { path, released }
    }
}

const SPEC: [&str; 11] = [
    "ragEngineRef",
    "ragEngine",
    "indexName",
    "dataSource",
    "credentials",
    "schedule",
    "retryPolicy",
    "suspend",
    "driftRemediationPolicy",
    "timeout",
    "quota",
];
/// Policies and their names in manifests.
const POLICIES: [(&str, DriftPolicy); 3] = [
    ("Auto", DriftPolicy::Auto),
    ("Manual", DriftPolicy::Manual),
    ("Ignore", DriftPolicy::Ignore),
];
const DEFAULT_RETRIES: u32 = 3;

impl AutoIndexer {
    /// Returns `None` if there are problems.
    pub(crate) fn read(document: &Fields<'_>, metadata: Option<Metadata>) -> Option<Self> {
        let spec = document.required_object("spec", &SPEC)?;
        let mut renamed = vec![];
        let retriever = retriever(&spec, metadata.as_ref(), &mut renamed);
        let collection = spec.name("indexName", NameForm::Collection);
        let data = data_source(&spec, &mut renamed);
        let credentials = credentials(&spec);
        let schedule = spec.text("schedule").map(ToOwned::to_owned);
        let max_retries = max_retries(&spec);
        let suspend = spec.boolean("suspend");
        let drift_policy = drift_policy(&spec);
        let timeout = timeout(&spec);
        let quota = quota(&spec);
        let (kind, source) = data?;
        Some(Self {
            metadata: metadata?,
            retriever: retriever?,
            collection: collection?,
            kind: kind.name,
            spec: source,
            credentials,
            schedule,
            max_retries: max_retries.unwrap_or(DEFAULT_RETRIES),
            suspend: suspend.unwrap_or(false),
            drift_policy: drift_policy.unwrap_or_default(),
            timeout,
            quota,
            renamed,
        })
    }

    /// Returns the path of a field as the manifest writes it.
    pub fn as_written(&self, path: &str) -> String {
        as_written(path, &self.renamed)
    }

    /// Returns the complete manifest, with defaults.
    pub fn to_json(&self) -> Value {
        let mut source = Map::new();
        let kind = kind_named(self.kind);
        source.insert(
            "type".into(),
            kind.map_or("", |kind| kind.manifest_type).into(),
        );
        source.insert(self.kind.into(), self.spec.clone());
        let (namespace, retriever) = split(&self.retriever);
        let mut spec = json!({
            "ragEngineRef": {"name": retriever, "namespace": namespace},
            "indexName": self.collection,
            "dataSource": source,
        });
        if let Some(secret) = &self.credentials {
            spec["credentials"] =
                json!({"type": "SecretRef", "secretRef": {"name": secret.name, "key": secret.key}});
        }
        if let Some(schedule) = &self.schedule {
            spec["schedule"] = schedule.as_str().into();
        }
        spec["retryPolicy"] = json!({"maxRetries": self.max_retries});
        spec["suspend"] = self.suspend.into();
        spec["driftRemediationPolicy"] = json!({"strategy": name_of_policy(self.drift_policy)});
        if let Some(timeout) = self.timeout {
            spec["timeout"] = duration_text(timeout).into();
        }
        let limits = [
            ("maxDocuments", self.quota.max_documents),
            ("maxBytes", self.quota.max_bytes),
        ];
        for (name, limit) in limits {
            if let Some(limit) = limit {
                spec["quota"][name] = limit.into();
            }
        }
        json!({
            "apiVersion": "kaito.ai/v1alpha1",
            "kind": "AutoIndexer",
            "metadata": self.metadata.to_json(),
            "spec": spec,
        })
    }
}

fn as_written(path: &str, renamed: &[RenamedField]) -> String {
    let rest_after = |renamed: &RenamedField| {
        let rest = path.strip_prefix(renamed.path.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '[']))
            .then(|| format!("{}{rest}", renamed.released))
    };
    renamed
        .iter()
        .find_map(rest_after)
        .unwrap_or_else(|| path.to_owned())
}

fn retriever(
    spec: &Fields<'_>,
    metadata: Option<&Metadata>,
    renamed: &mut Vec<RenamedField>,
) -> Option<String> {
    if spec.get("ragEngine").is_some() {
        if spec.get("ragEngineRef").is_some() {
            spec.problem_with(
                "ragEngine",
                "means the same as \"ragEngineRef\"",
                "Keep one of them.",
            );
            return None;
        }
        renamed.push(RenamedField::new(
            "spec.ragEngineRef.name",
            "spec.ragEngine",
        ));
        let name = spec.name("ragEngine", NameForm::Subdomain);
        return Some(qualify(metadata?.namespace(), &name?));
    }
    let reference = spec.required_object("ragEngineRef", &["name", "namespace"])?;
    let name = reference.name("name", NameForm::Subdomain);
    let namespace = match reference.get("namespace") {
        Some(_) => reference.name("namespace", NameForm::Namespace)?,
        None => metadata?.namespace().to_owned(),
    };
    Some(qualify(&namespace, &name?))
}

fn name_of_policy(policy: DriftPolicy) -> &'static str {
    POLICIES
        .iter()
        .find(|(_, known)| *known == policy)
        .map_or("", |(name, _)| name)
}

fn data_source(
    spec: &Fields<'_>,
    renamed: &mut Vec<RenamedField>,
) -> Option<(&'static SourceKind, Value)> {
    let fields = [&["type"], kind_names().as_slice()].concat();
    let source = spec.required_object("dataSource", &fields)?;
    let given: Vec<&SourceKind> = KINDS
        .iter()
        .copied()
        .filter(|kind| source.get(kind.name).is_some())
        .collect();
    let named = kind_of_type(&source, &given);
    // Its fields are checked even if the type is missing.
    let kind = match (named, given.as_slice()) {
        (Some(kind), _) => Some(kind),
        (None, [kind]) => Some(*kind),
        (None, _) => None,
    };
    if let Some(kind) = named {
        let (name, type_name) = (kind.name, kind.manifest_type);
        let hint = format!("The type is {type_name}. {}", kind.keys_hint());
        source.has(name, Some(&hint));
        for other in given.iter().filter(|other| other.name != name) {
            let hint = format!("Leave it out, or write type: {}.", other.manifest_type);
            let problem = format!("is a second data source: the type is {type_name}");
            source.problem_with(other.name, problem, hint);
        }
    } else if given.len() > 1 {
        let names: Vec<_> = given.iter().map(|kind| kind.name).collect();
        let problem = format!("has {} data sources: {}", names.len(), names.join(", "));
        let hint = "Keep one, and write its type.";
        spec.problem_with("dataSource", problem, hint);
    } else if given.is_empty() {
        let hint = format!("Write one of {}.", kind_names().join(", "));
        spec.problem_with("dataSource", "has no data source", hint);
    }
    let kind = kind?;
    let fields = source_fields(&source, kind, renamed)?;
    let problems = Problems::default();
    let path = format!("spec.dataSource.{}", kind.name);
    let spec = SourceSpec::read(kind, &Fields::with_any(path, &fields, &problems));
    if let Err(problems) = problems.into_result(spec) {
        for problem in problems {
            let field = as_written(&problem.field, renamed);
            source.problems().push(FieldProblem { field, ..problem });
        }
        return None;
    }
    named.map(|_| (kind, Value::Object(fields)))
}

/// Reads the type of a data source that has the fields of the kinds `given`.
fn kind_of_type(source: &Fields<'_>, given: &[&SourceKind]) -> Option<&'static SourceKind> {
    const KEY: &str = "type";
    let types: Vec<_> = KINDS.iter().map(|kind| kind.manifest_type).collect();
    let hint = match given {
        [kind] => format!("Write type: {}.", kind.manifest_type),
        _ => format!("Types: {}.", types.join(", ")),
    };
    if !source.has(KEY, Some(&hint)) {
        return None;
    }
    let name = source.word(KEY, &types, "a type of data source")?;
    let mut kinds = KINDS.iter().copied();
    kinds.find(|kind| kind.manifest_type == name)
}

/// Returns the object `dataSource.<kind>`, with the keys of the proposal.
fn source_fields(
    source: &Fields<'_>,
    kind: &SourceKind,
    renamed: &mut Vec<RenamedField>,
) -> Option<Map<String, Value>> {
    let mut fields = source.any_object(kind.name)?.clone();
    for (released, key) in kind.released_names {
        // SourceSpec::parse reports a spec that has both
        if !fields.contains_key(*key)
            && let Some(value) = fields.shift_remove(*released)
        {
            fields.insert((*key).into(), value);
            let of = |key: &str| format!("spec.dataSource.{}.{key}", kind.name);
            renamed.push(RenamedField::new(of(key), of(released)));
        }
    }
    Some(fields)
}

fn credentials(spec: &Fields<'_>) -> Option<SecretRef> {
    let credentials = spec.object("credentials", &["type", "secretRef"])?;
    if credentials.has("type", Some("Write type: SecretRef.")) {
        credentials.word("type", &["SecretRef"], "a type of credentials");
    }
    let secret = credentials.required_object("secretRef", &SecretRef::FIELDS)?;
    secret.has("key", None);
    SecretRef::read(&secret)
}

fn max_retries(spec: &Fields<'_>) -> Option<u32> {
    let policy = spec.object("retryPolicy", &["maxRetries"])?;
    let retries = policy.integer("maxRetries", 0..=i64::from(MAX_RETRIES))?;
    u32::try_from(retries).ok()
}

fn quota(spec: &Fields<'_>) -> Quota {
    let Some(quota) = spec.object("quota", &["maxDocuments", "maxBytes"]) else {
        return Quota::default();
    };
    let limit = |key| quota.integer(key, 1..=i64::MAX);
    Quota {
        max_documents: limit("maxDocuments"),
        max_bytes: limit("maxBytes"),
    }
}

fn drift_policy(spec: &Fields<'_>) -> Option<DriftPolicy> {
    const KEY: &str = "driftRemediationPolicy";
    const WHAT: &str = "a drift policy";
    let names = POLICIES.map(|(name, _)| name);
    let name = spec
        .object(KEY, &["strategy"])?
        .word("strategy", &names, WHAT)?;
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, policy)| *policy)
}

fn timeout(spec: &Fields<'_>) -> Option<Duration> {
    const KEY: &str = "timeout";
    const HINT: &str = "Write a duration such as 1h30m, or a number of seconds.";
    let given = match spec.get(KEY)? {
        Value::Number(seconds) => seconds
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => rag_schedule::duration(spec.text(KEY)?).ok(),
    };
    let Some(given) = given else {
        spec.problem_with(KEY, "is not a duration", HINT);
        return None;
    };
    let whole = Duration::new(given.as_secs(), given.subsec_micros() * 1_000);
    if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&whole) {
        let [least, most, given] = [MIN_TIMEOUT, MAX_TIMEOUT, given].map(duration_text);
        spec.problem_with(
            KEY,
            format!("must be from {least} to {most}, not {given}"),
            HINT,
        );
        return None;
    }
    Some(whole)
}
