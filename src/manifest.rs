//! Manifests: sources and retrievers as the upstream proposals write them down.
//!
//! The text is read by `crates/manifest`, which names everything that is wrong in it; here is what needs the database. What is
//! wrong with a source is found by the same checks as where it is made by a call ([`crate::definition`]), and named by its path
//! in the document.

use std::time::Duration;

use rag_manifest::{AutoIndexer, Manifest, Retriever, SecretRef};
use rag_protocol::{definition::DriftPolicy, spec::SourceSpec};
use serde_json::{Value, json};

use crate::{
    catalog::{
        collections::{self, Collection, NewCollection},
        name::Name,
        retrievers::{self, Put},
        roles,
        sources::{self, Visible},
    },
    definition::{self, Faults, Given},
    error::Error,
    secrets::{self, Named},
};

/// What became of one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Created,
    Configured,
    Unchanged,
}

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// A document's kind and name, and what became of it.
pub type Applied = (&'static str, String, Action);

/// Applies all documents, retrievers first: the others may name them.
///
/// # Errors
/// Something is wrong with one of them, all of which is named; the caller undoes what was done until then.
pub fn apply(text: &str) -> Result<Vec<Applied>, Error> {
    let manifests = rag_manifest::parse(text).map_err(|problems| Error::invalid("invalid manifest", &problems))?;
    let mut actions: Vec<Option<Action>> = vec![None; manifests.len()];
    let mut faults = Faults::default();
    let (retrievers, sources): (Vec<_>, Vec<_>) =
        manifests.iter().zip(&mut actions).partition(|(manifest, _)| matches!(manifest, Manifest::Retriever(_)));
    for (manifest, action) in retrievers.into_iter().chain(sources) {
        let mut found = Faults::default();
        *action = match manifest {
            Manifest::Retriever(retriever) => Some(apply_retriever(retriever)?),
            Manifest::AutoIndexer(source) => apply_source(source, &mut found)?,
        };
        let of = match manifests.len() {
            1 => String::new(),
            _ => format!("{} {}: ", manifest.kind(), manifest.name()),
        };
        // a collection is not made where its retriever is missing
        let found = if found.has("retriever") { found.without("collection") } else { found };
        faults.append(found.in_fields(|field| format!("{of}{}", path(manifest, field))));
    }
    if !faults.is_empty() {
        return Err(faults.to_error("invalid manifest"));
    }
    let applied = manifests.iter().zip(actions);
    Ok(applied.filter_map(|(manifest, action)| Some((manifest.kind(), manifest.name().into(), action?))).collect())
}

/// Where in a manifest the field of a definition is.
fn path(manifest: &Manifest, field: &str) -> String {
    let Manifest::AutoIndexer(source) = manifest else { return field.into() };
    match field {
        "name" => "metadata.name".into(),
        "kind" => "spec.dataSource.type".into(),
        "retriever" => "spec.ragEngineRef.name".into(),
        "collection" => "spec.indexName".into(),
        "credentials" => "spec.credentials.secretRef".into(),
        "max_retries" => "spec.retryPolicy.maxRetries".into(),
        "drift_policy" => "spec.driftRemediationPolicy".into(),
        _ => match field.strip_prefix("spec") {
            Some(inside) => format!("spec.dataSource.{}{inside}", source.kind),
            None => format!("spec.{field}"),
        },
    }
}

fn apply_retriever(retriever: &Retriever) -> Result<Action, Error> {
    let present = retrievers::find(&retriever.name)?;
    if present.is_some_and(|present| present.spec == retriever.spec) {
        return Ok(Action::Unchanged);
    }
    roles::require_admin("create or change a retriever")?;
    Ok(match retrievers::put(&retriever.name, &retriever.spec)? {
        Put::Created => Action::Created,
        Put::Changed => Action::Configured,
        Put::Unchanged => Action::Unchanged,
    })
}

/// `None`: there are faults.
fn apply_source(source: &AutoIndexer, faults: &mut Faults) -> Result<Option<Action>, Error> {
    let is_new = match faults.note("name", Name::parse("source", &source.name)) {
        Some(name) => !sources::has_name(&name)?,
        None => true,
    };
    if is_new {
        roles::require_admin("create a source")?;
    }
    prepare_collection(source, faults)?;
    let credentials = match &source.credentials {
        Some(secret) => named(source, secret)?,
        None => String::new(),
    };
    let timeout = definition::interval(source.timeout.unwrap_or(definition::DEFAULT_TIMEOUT));
    let given = Given {
        name: Some(&source.name),
        kind: Some(source.kind),
        spec: Some(&source.spec),
        collection: Some(&source.collection),
        schedule: Some(source.schedule.as_deref().unwrap_or_default()).filter(|text| !is_new || !text.is_empty()),
        credentials: Some(credentials.as_str()).filter(|text| !is_new || !text.is_empty()),
        max_retries: Some(i32::try_from(source.max_retries).unwrap_or(i32::MAX)),
        timeout: Some(timeout),
        suspend: Some(source.suspend),
        drift_policy: Some(source.drift_policy.name()),
        owner: None,
    };
    let action = if is_new {
        definition::create(&given, faults)?;
        Action::Created
    } else if definition::alter(&given, faults)? {
        Action::Configured
    } else {
        Action::Unchanged
    };
    Ok(faults.is_empty().then_some(action))
}

/// Makes the collection with the retriever, if it is not there.
fn prepare_collection(source: &AutoIndexer, faults: &mut Faults) -> Result<(), Error> {
    let (name, retriever) = (source.collection.as_str(), source.retriever.as_str());
    if retrievers::find(retriever)?.is_none() {
        faults.add("retriever", retrievers::missing(retriever));
        return Ok(());
    }
    match Collection::find(name)? {
        Some(present) if present.retriever == retriever => {}
        Some(present) => {
            let other = Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("collection \"{name}\" has retriever \"{}\", not \"{retriever}\"", present.retriever),
            );
            faults.add("retriever", other.hint("Name that retriever, or another collection (spec.indexName)."));
        }
        None => {
            let Some(parsed) = faults.note("collection", Name::parse("collection", name)) else { return Ok(()) };
            roles::require_admin("create a collection")?;
            collections::create(NewCollection {
                name: &parsed,
                retriever,
                chunk_size: None,
                chunk_overlap: None,
                chunk_unit: "characters",
                metadata_whitelist: None,
                description: None,
            })?;
            pgrx::notice!("collection \"{name}\" was created with retriever \"{retriever}\"");
        }
    }
    Ok(())
}

/// The secret as a definition names it. A manifest always names a key; where a source that is there names none, and so is shown
/// the same one, that is no other definition.
fn named(source: &AutoIndexer, secret: &SecretRef) -> Result<String, Error> {
    let present = sources::lock(&source.name)?.and_then(|stored| stored.named());
    let is_unnamed = present == Some(Named { secret: secret.name.clone(), key: None });
    if is_unnamed && secrets::default_key(&secret.name)?.as_ref() == Some(&secret.key) {
        return Ok(secret.name.clone());
    }
    Ok(format!("{}/{}", secret.name, secret.key))
}

/// Kinds of manifests, whose case does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    AutoIndexer,
    Retriever,
}

impl Kind {
    /// # Errors
    /// There is no such kind.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "autoindexer" => Ok(Self::AutoIndexer),
            "retriever" => Ok(Self::Retriever),
            _ => {
                let shown: String = text.chars().take(80).collect();
                Err(Error::invalid_parameter(format!("\"{shown}\" is not a kind of manifest"))
                    .hint("Kinds: AutoIndexer, Retriever."))
            }
        }
    }
}

/// The manifest of what there is now, with its status. Applied again, it changes nothing.
///
/// # Errors
/// There is none that the caller may see.
pub fn get(kind: Kind, name: &str) -> Result<Value, Error> {
    match kind {
        Kind::AutoIndexer => {
            let source = sources::visible(name)?.ok_or_else(|| sources::Source::missing(name))?;
            let mut manifest = autoindexer(&source)?.to_json();
            manifest["metadata"] = json!({
                "name": source.name,
                "uid": source.uid,
                "generation": source.generation,
                "creationTimestamp": source.created_at,
            });
            manifest["status"] = source.status;
            Ok(manifest)
        }
        Kind::Retriever => {
            let present = retrievers::find(name)?.ok_or_else(|| retrievers::missing(name))?;
            let mut manifest = Retriever { name: present.name, spec: present.spec }.to_json();
            manifest["metadata"]["creationTimestamp"] = present.created_at.into();
            manifest["status"] = json!({"collections": present.collections});
            Ok(manifest)
        }
    }
}

fn autoindexer(source: &Visible) -> Result<AutoIndexer, Error> {
    let parsed = SourceSpec::parse(&source.kind, &source.spec)
        .map_err(|problems| Error::invalid_spec(&format!("source \"{}\"", source.name), &problems))?;
    let credentials = source.credentials.as_deref().map(Named::parse);
    let credentials = credentials.map(|named| {
        let key = match named.key {
            Some(key) => Some(key),
            None => secrets::default_key(&named.secret)?,
        };
        Ok::<_, Error>(SecretRef { name: named.secret, key: key.unwrap_or_else(|| secrets::TOKEN.into()) })
    });
    Ok(AutoIndexer {
        name: source.name.clone(),
        retriever: source.retriever.clone(),
        collection: source.collection.clone(),
        kind: parsed.kind(),
        spec: source.spec.clone(),
        credentials: credentials.transpose()?,
        schedule: source.schedule.clone(),
        max_retries: u32::try_from(source.max_retries).unwrap_or(0),
        suspend: source.suspend,
        drift_policy: DriftPolicy::parse(&source.drift_policy).unwrap_or_default(),
        timeout: Some(Duration::from_micros(u64::try_from(source.timeout_microseconds).unwrap_or(0))),
    })
}

/// Drops a retriever; whether there was one.
///
/// # Errors
/// The caller may not, collections have it, or it is the one named default.
pub fn drop_retriever(name: &str) -> Result<bool, Error> {
    roles::require_admin("drop a retriever")?;
    retrievers::drop(name)
}
