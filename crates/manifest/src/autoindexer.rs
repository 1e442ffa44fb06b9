//! `kind: AutoIndexer`: a source.
//!
//! KAITO has two forms of it: that of its proposal, and that of the releases
//! (`autoindexer.kaito.sh`), which call some fields otherwise. Both are read; the first is written.

use std::time::Duration;

use rag_protocol::{
    definition::{DriftPolicy, MAX_RETRIES, MAX_TIMEOUT, MIN_TIMEOUT},
    name::{Form, qualify, split},
    spec::{Problem, SourceSpec, keys_of},
};
use serde_json::{Map, Value, json};

use crate::{
    Metadata,
    duration::duration_text,
    object::{Object, did_you_mean, shown, type_of},
};

/// A source, as the proposal of the AutoIndexer describes it. Names that it refers to may not
/// exist, and its schedule is not looked into: that is for whoever has the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoIndexer {
    pub metadata: Metadata,
    /// `ragEngineRef`: its name, or `namespace/name`. Where no namespace is given, it is the
    /// manifest's own.
    pub retriever: String,
    /// `indexName`.
    pub collection: String,
    /// One of [`rag_protocol::spec::KINDS`].
    pub kind: &'static str,
    /// The object `dataSource.<kind>` as it was given: [`SourceSpec::parse`] accepts it.
    pub spec: Value,
    pub credentials: Option<SecretRef>,
    pub schedule: Option<String>,
    /// 0..=100.
    pub max_retries: u32,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    /// In microseconds, as PostgreSQL's intervals are; from 1 s to 24 days.
    pub timeout: Option<Duration>,
    /// Fields that the manifest calls as KAITO's releases do.
    pub renamed: Vec<Renamed>,
}

/// A field that has two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renamed {
    /// Its path by the proposal.
    path: &'static str,
    /// And by the releases.
    released: &'static str,
}

const RETRIEVER: Renamed = Renamed {
    path: "spec.ragEngineRef.name",
    released: "spec.ragEngine",
};
const REPOSITORY: Renamed = Renamed {
    path: "spec.dataSource.git.repositoryURL",
    released: "spec.dataSource.git.repository",
};
const ENDPOINTS: Renamed = Renamed {
    path: "spec.dataSource.static.endpoints",
    released: "spec.dataSource.static.urls",
};

/// One value of a secret in the namespace of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRef {
    pub name: String,
    pub key: String,
}

const SPEC: [&str; 10] = [
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
];
const DATA_SOURCE: [&str; 7] = [
    "type", "git", "static", "folder", "website", "table", "markdown",
];
/// Types of data sources, and the kinds of sources that they are.
const TYPES: [&str; 6] = ["Git", "Static", "Folder", "Website", "Table", "Markdown"];
const KINDS: [&str; 6] = ["git", "static", "folder", "website", "table", "markdown"];
/// Policies, as manifests write them.
const POLICIES: [(&str, DriftPolicy); 3] = [
    ("Auto", DriftPolicy::Auto),
    ("Manual", DriftPolicy::Manual),
    ("Ignore", DriftPolicy::Ignore),
];
const DEFAULT_RETRIES: u32 = 3;

impl AutoIndexer {
    /// `None`: there are problems.
    pub(crate) fn read(document: &Object<'_>, metadata: Option<Metadata>) -> Option<Self> {
        let spec = document.required_object("spec", &SPEC)?;
        let mut renamed = vec![];
        let retriever = retriever(&spec, metadata.as_ref(), &mut renamed);
        let collection = spec.name("indexName", Form::Collection);
        let data = data_source(&spec, &mut renamed);
        let credentials = credentials(&spec);
        let schedule = spec.text("schedule").map(ToOwned::to_owned);
        let max_retries = max_retries(&spec);
        let suspend = spec.boolean("suspend");
        let drift_policy = drift_policy(&spec);
        let timeout = timeout(&spec);
        let (kind, source) = data?;
        Some(Self {
            metadata: metadata?,
            retriever: retriever?,
            collection: collection?,
            kind,
            spec: source,
            credentials,
            schedule,
            max_retries: max_retries.unwrap_or(DEFAULT_RETRIES),
            suspend: suspend.unwrap_or(false),
            drift_policy: drift_policy.unwrap_or_default(),
            timeout,
            renamed,
        })
    }

    /// The path of a field as the manifest has it.
    pub fn as_written(&self, path: &str) -> String {
        as_written(path, &self.renamed)
    }

    /// The manifest with all that it stands for, defaults included.
    pub fn to_json(&self) -> Value {
        let mut source = Map::new();
        source.insert("type".into(), type_of_kind(self.kind).into());
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
        json!({
            "apiVersion": "kaito.ai/v1alpha1",
            "kind": "AutoIndexer",
            "metadata": self.metadata.to_json(),
            "spec": spec,
        })
    }
}

fn as_written(path: &str, renamed: &[Renamed]) -> String {
    let rest_after = |renamed: &Renamed| {
        let rest = path.strip_prefix(renamed.path)?;
        (rest.is_empty() || rest.starts_with(['.', '[']))
            .then(|| format!("{}{rest}", renamed.released))
    };
    renamed
        .iter()
        .find_map(rest_after)
        .unwrap_or_else(|| path.to_owned())
}

fn retriever(
    spec: &Object<'_>,
    metadata: Option<&Metadata>,
    renamed: &mut Vec<Renamed>,
) -> Option<String> {
    if spec.get("ragEngine").is_some() {
        if spec.get("ragEngineRef").is_some() {
            spec.problem(
                "ragEngine",
                "means the same as \"ragEngineRef\"",
                Some("Keep one of them.".into()),
            );
            return None;
        }
        renamed.push(RETRIEVER);
        let name = spec.name("ragEngine", Form::Subdomain);
        return Some(qualify(metadata?.namespace(), &name?));
    }
    let reference = spec.required_object("ragEngineRef", &["name", "namespace"])?;
    let name = reference.name("name", Form::Subdomain);
    let namespace = match reference.get("namespace") {
        Some(_) => reference.name("namespace", Form::Namespace)?,
        None => metadata?.namespace().to_owned(),
    };
    Some(qualify(&namespace, &name?))
}

fn type_of_kind(kind: &str) -> &'static str {
    KINDS
        .iter()
        .position(|known| *known == kind)
        .map_or("", |i| TYPES[i])
}

fn name_of_policy(policy: DriftPolicy) -> &'static str {
    POLICIES
        .iter()
        .find(|(_, known)| *known == policy)
        .map_or("", |(name, _)| name)
}

fn data_source(spec: &Object<'_>, renamed: &mut Vec<Renamed>) -> Option<(&'static str, Value)> {
    let source = spec.required_object("dataSource", &DATA_SOURCE)?;
    let given: Vec<_> = KINDS
        .into_iter()
        .filter(|kind| source.get(kind).is_some())
        .collect();
    let types = format!("Types: {}.", TYPES.join(", "));
    let named = match (source.get("type").is_some(), given.as_slice()) {
        (true, _) => source.word("type", &TYPES, "a type of data source"),
        (false, [kind]) => {
            source.has(
                "type",
                Some(&format!("Write type: {}.", type_of_kind(kind))),
            );
            None
        }
        (false, _) => {
            source.has("type", Some(&types));
            None
        }
    };
    // Its fields are worth a look even if it is not said that they are meant.
    let kind = match (named, given.as_slice()) {
        (Some(name), _) => TYPES
            .iter()
            .position(|known| *known == name)
            .map(|i| KINDS[i]),
        (None, [kind]) => Some(*kind),
        (None, _) => None,
    };
    match (kind, named) {
        (Some(kind), Some(name)) => {
            source.has(
                kind,
                Some(&format!("The type is {name}. Fields: {}.", keys_of(kind))),
            );
            for other in given.iter().filter(|other| **other != kind) {
                let hint = format!("Leave it out, or write type: {}.", type_of_kind(other));
                source.problem(
                    other,
                    format!("is a second data source: the type is {name}"),
                    Some(hint),
                );
            }
        }
        (None, None) if given.len() > 1 => {
            spec.problem(
                "dataSource",
                format!("has {} data sources: {}", given.len(), given.join(", ")),
                Some("Keep one, and name its type.".into()),
            );
        }
        (None, None) if given.is_empty() => {
            spec.problem(
                "dataSource",
                "has no data source",
                Some(format!("It is one of {}.", KINDS.join(", "))),
            );
        }
        _ => {}
    }
    let kind = kind?;
    let mut fields = source.any_object(kind, None)?.clone();
    for (of, released, key, field) in [
        ("git", "repository", "repositoryURL", REPOSITORY),
        ("static", "urls", "endpoints", ENDPOINTS),
    ] {
        // both are a problem, which the spec's own reader names
        if kind == of
            && !fields.contains_key(key)
            && let Some(value) = fields.shift_remove(released)
        {
            fields.insert(key.into(), value);
            renamed.push(field);
        }
    }
    let fields = Value::Object(fields);
    if let Err(problems) = SourceSpec::parse(kind, &fields) {
        for problem in problems {
            let problem = in_manifest(problem, kind);
            let field = as_written(&problem.field, renamed);
            source.problems().push(Problem { field, ..problem });
        }
        return None;
    }
    named.map(|_| (kind, fields))
}

/// A problem of a source's spec, as one of the manifest that it is in.
fn in_manifest(problem: Problem, kind: &str) -> Problem {
    const UNKNOWN: &str = "is not a key of kind";
    const NO_TEXT: &str = "must be a text, not ";
    let path = problem.field.strip_prefix("spec").unwrap_or(&problem.field);
    let mut hint = problem.hint;
    if problem.problem.starts_with(UNKNOWN) {
        let known: Vec<_> = keys_of(kind).split(", ").collect();
        hint = Some(did_you_mean(path.trim_start_matches('.'), &known, "Fields"));
    } else if let Some(read_as) = problem
        .problem
        .strip_prefix(NO_TEXT)
        .filter(|it| matches!(*it, "a number" | "a boolean"))
    {
        hint = Some(format!(
            "Put it in quotes: without them it is read as {read_as}."
        ));
    }
    Problem {
        field: format!("spec.dataSource.{kind}{}", shown(path)),
        problem: problem.problem,
        hint,
    }
}

fn credentials(spec: &Object<'_>) -> Option<SecretRef> {
    let credentials = spec.object("credentials", &["type", "secretRef"])?;
    if credentials.has("type", Some("Write type: SecretRef.")) {
        credentials.word("type", &["SecretRef"], "a type of credentials");
    }
    let secret = credentials.required_object("secretRef", &["name", "key"])?;
    let (name, key) = (
        secret.name("name", Form::Subdomain),
        secret.name("key", Form::SecretKey),
    );
    Some(SecretRef {
        name: name?,
        key: key?,
    })
}

fn max_retries(spec: &Object<'_>) -> Option<u32> {
    let policy = spec.object("retryPolicy", &["maxRetries"])?;
    let given = policy.get("maxRetries")?;
    let retries = given
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n <= MAX_RETRIES);
    if retries.is_none() {
        let found = if given.is_number() {
            given.to_string()
        } else {
            type_of(given).to_owned()
        };
        policy.problem(
            "maxRetries",
            format!("must be an integer from 0 to {MAX_RETRIES}, not {found}"),
            None,
        );
    }
    retries
}

fn drift_policy(spec: &Object<'_>) -> Option<DriftPolicy> {
    const KEY: &str = "driftRemediationPolicy";
    const WHAT: &str = "a policy";
    let names = POLICIES.map(|(name, _)| name);
    let name = match spec.get(KEY)? {
        Value::Object(_) => spec
            .object(KEY, &["strategy"])?
            .word("strategy", &names, WHAT)?,
        _ => spec.word(KEY, &names, WHAT)?,
    };
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, policy)| *policy)
}

fn timeout(spec: &Object<'_>) -> Option<Duration> {
    const KEY: &str = "timeout";
    const HINT: &str = "Write a duration such as 1h30m, or a number of seconds.";
    let given = match spec.get(KEY)? {
        Value::Number(seconds) => seconds
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => rag_schedule::duration(spec.text(KEY)?).ok(),
    };
    let Some(given) = given else {
        spec.problem(KEY, "is not a duration", Some(HINT.into()));
        return None;
    };
    let whole = Duration::new(given.as_secs(), given.subsec_micros() * 1_000);
    if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&whole) {
        let [least, most, given] = [MIN_TIMEOUT, MAX_TIMEOUT, given].map(duration_text);
        spec.problem(
            KEY,
            format!("must be from {least} to {most}, not {given}"),
            Some(HINT.into()),
        );
        return None;
    }
    Some(whole)
}
