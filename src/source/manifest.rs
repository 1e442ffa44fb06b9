//! Manifests: sources and retrievers as the upstream proposals write them down.
//!
//! The text is read by `crates/manifest`, which names everything that is wrong in it; here is what
//! needs the database. What is wrong with a source is found by the same checks as where it is made
//! by a call ([`super::definition`]), and named by its path in the document.

use std::time::Duration;

use rag_manifest::{AutoIndexer, Manifest, Metadata, Retriever, SecretRef};
use rag_protocol::{
    definition::DriftPolicy,
    name::{qualify, split},
    spec::SourceSpec,
};
use serde_json::{Value, json};

use super::definition::{self, Faults, Given};
use crate::{
    catalog::{
        access::{self, Privilege},
        collections::{self, Collection, NewCollection},
        name::Name,
        retrievers::{self, Put},
        secrets::Named,
        sources::{self, Stored, Visible},
    },
    error::Error,
    pg::roles::{self, Owner},
    secrets,
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

/// A document, what is wrong with it, and what became of it.
struct Document {
    manifest: Manifest,
    faults: Faults,
    action: Option<Action>,
}

/// Applies all documents, retrievers first: the others may name them.
///
/// Sessions that apply the same documents, in whatever order, take turns, and none waits for one
/// that waits for it: each goes by retrievers, collections and sources, and by their names.
///
/// # Errors
/// Something is wrong with one of them, all of which is named; the caller undoes what was done
/// until then.
pub fn apply(text: &str) -> Result<Vec<Applied>, Error> {
    // values and their places are several times as large as the text
    Error::unless_there_is_memory(
        10 * text.len(),
        "There is no room for what the manifest says.",
    )?;
    let manifests = rag_manifest::parse(text)
        .map_err(|problems| Error::invalid("invalid manifest", &problems))?;
    let mut documents: Vec<Document> = manifests
        .into_iter()
        .map(|manifest| Document {
            manifest,
            faults: Faults::default(),
            action: None,
        })
        .collect();
    let mut ordered: Vec<&mut Document> = documents.iter_mut().collect();
    ordered.sort_by(|a, b| a.manifest.name().cmp(b.manifest.name()));
    let (retrievers, mut sources): (Vec<_>, Vec<_>) = ordered
        .into_iter()
        .partition(|document| matches!(document.manifest, Manifest::Retriever(_)));
    retrievers.into_iter().for_each(Document::apply);
    make_collections(&mut sources);
    sources.into_iter().for_each(Document::apply);

    let is_one = documents.len() == 1;
    let mut faults = Faults::default();
    let mut applied = vec![];
    for Document {
        manifest,
        faults: found,
        action,
    } in documents
    {
        let of = if is_one {
            String::new()
        } else {
            format!("{} {}: ", manifest.kind(), manifest.name())
        };
        // a collection is not made where its retriever is missing
        let found = if found.has("retriever") {
            found.without("collection")
        } else {
            found
        };
        faults.append(found.in_fields(|field| format!("{of}{}", path(&manifest, field))));
        applied.extend(action.map(|action| (manifest.kind(), manifest.name().to_owned(), action)));
    }
    if faults.is_empty() {
        Ok(applied)
    } else {
        Err(faults.to_error("invalid manifest"))
    }
}

impl Document {
    fn apply(&mut self) {
        let applied = match &self.manifest {
            Manifest::Retriever(retriever) => apply_retriever(retriever).map(Some),
            Manifest::AutoIndexer(source) => apply_source(source, &mut self.faults),
        };
        // what is wrong with no single field is so with the whole
        self.action = self.faults.note("name", applied).flatten();
    }
}

/// Where in a manifest the field of a definition is.
fn path(manifest: &Manifest, field: &str) -> String {
    let Manifest::AutoIndexer(source) = manifest else {
        return "metadata.name".into();
    };
    let path = match field {
        // no manifest names an owner
        "name" | "owner" => "metadata.name".into(),
        "kind" => "spec.dataSource.type".into(),
        "retriever" => "spec.ragEngineRef.name".into(),
        "collection" => "spec.indexName".into(),
        "max_retries" => "spec.retryPolicy.maxRetries".into(),
        "drift_policy" => "spec.driftRemediationPolicy".into(),
        _ => match (
            field.strip_prefix("spec"),
            field.strip_prefix("credentials."),
        ) {
            (Some(inside), _) => format!("spec.dataSource.{}{inside}", source.kind),
            (None, Some(part)) => format!("spec.credentials.secretRef.{part}"),
            (None, None) => format!("spec.{field}"),
        },
    };
    source.as_written(&path)
}

fn apply_retriever(retriever: &Retriever) -> Result<Action, Error> {
    let Metadata { name, notes } = &retriever.metadata;
    let present = retrievers::find(name)?;
    if present.is_some_and(|present| present.spec == retriever.spec && present.notes == *notes) {
        return Ok(Action::Unchanged);
    }
    roles::require_admin("create or change a retriever")?;
    Ok(match retrievers::put(name, &retriever.spec, notes)? {
        Put::Created => Action::Created,
        Put::Changed => Action::Configured,
        Put::Unchanged => Action::Unchanged,
    })
}

/// Makes the collections that are not there, with their retrievers, where the caller may.
fn make_collections(sources: &mut [&mut Document]) {
    if !roles::is_admin() {
        return;
    }
    let mut sources: Vec<_> = sources
        .iter_mut()
        .filter_map(|document| match &document.manifest {
            Manifest::AutoIndexer(source) => Some((source, &mut document.faults)),
            Manifest::Retriever(_) => None,
        })
        .collect();
    sources.sort_by_key(|(source, _)| &source.collection);
    for (source, faults) in sources {
        let made = make_collection(&source.collection, &source.retriever);
        faults.note("collection", made);
    }
}

fn make_collection(name: &str, retriever: &str) -> Result<(), Error> {
    if Collection::find(name)?.is_some() || retrievers::find(retriever)?.is_none() {
        return Ok(());
    }
    let is_made = collections::create_if_missing(NewCollection {
        name: &Name::collection(name)?,
        external_id: None,
        retriever,
        chunk_size: None,
        chunk_overlap: None,
        chunk_unit: "characters",
        metadata_whitelist: None,
        description: None,
        owner: &Owner::current()?,
    })?;
    if is_made {
        pgrx::notice!("collection \"{name}\" was created with retriever \"{retriever}\"");
    }
    Ok(())
}

/// `None`: there are faults.
fn apply_source(source: &AutoIndexer, faults: &mut Faults) -> Result<Option<Action>, Error> {
    // before all else, and the same whether or not there is such a source: who may not learns
    // nothing
    let Metadata { name, notes } = &source.metadata;
    let mut stored = definition::lock(name, "create or alter a source")?;
    check_retriever(source, faults)?;
    if stored.is_none() {
        let credentials = credentials(source, None)?;
        let mut found = Faults::default();
        definition::create(&given(source, &credentials, true), &mut found)?;
        // another session may have made it meanwhile
        stored = if found.is_empty() {
            None
        } else {
            sources::lock(name)?
        };
        if stored.is_none() {
            faults.append(found);
            if faults.is_empty() {
                sources::put_notes(name, notes)?;
            }
            return Ok(faults.is_empty().then_some(Action::Created));
        }
    }
    let credentials = credentials(source, stored.as_ref())?;
    let mut has_changed = definition::alter(&given(source, &credentials, false), faults)?;
    if faults.is_empty() {
        has_changed |= sources::put_notes(name, notes)?;
    }
    Ok(faults.is_empty().then_some(if has_changed {
        Action::Configured
    } else {
        Action::Unchanged
    }))
}

/// What a manifest says of a source. Without a schedule or a secret one that is made has none, and
/// one that is altered has none any more.
fn given<'a>(source: &'a AutoIndexer, credentials: &'a str, is_new: bool) -> Given<'a> {
    let timeout = definition::interval(source.timeout.unwrap_or(definition::DEFAULT_TIMEOUT));
    Given {
        name: Some(&source.metadata.name),
        kind: Some(source.kind),
        spec: Some(&source.spec),
        collection: Some(&source.collection),
        schedule: Some(source.schedule.as_deref().unwrap_or_default())
            .filter(|text| !is_new || !text.is_empty()),
        credentials: Some(credentials).filter(|text| !is_new || !text.is_empty()),
        max_retries: Some(i32::try_from(source.max_retries).unwrap_or(i32::MAX)),
        timeout: Some(timeout),
        suspend: Some(source.suspend),
        drift_policy: Some(source.drift_policy.name()),
        owner: None,
    }
}

/// Whether the retriever is there, and the collection's.
fn check_retriever(source: &AutoIndexer, faults: &mut Faults) -> Result<(), Error> {
    let (name, retriever) = (source.collection.as_str(), source.retriever.as_str());
    if retrievers::find(retriever)?.is_none() {
        faults.add("retriever", retrievers::missing(retriever));
        return Ok(());
    }
    let present = Collection::find(name)?.filter(|present| access::may(present, Privilege::Read));
    if let Some(present) = present.filter(|present| present.retriever != retriever) {
        let other = Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "collection \"{name}\" has retriever \"{}\", not \"{retriever}\"",
                present.retriever
            ),
        );
        faults.add(
            "retriever",
            other.hint("Name that retriever, or another collection (spec.indexName)."),
        );
    }
    Ok(())
}

/// The secret as a definition names it, empty for none. A manifest always names a key; where a
/// source that is there names none, and so is shown the same one, that is no other definition.
fn credentials(source: &AutoIndexer, stored: Option<&Stored>) -> Result<String, Error> {
    let Some(secret) = &source.credentials else {
        return Ok(String::new());
    };
    let qualified = qualify(source.metadata.namespace(), &secret.name);
    let is_unnamed = stored.and_then(Stored::named)
        == Some(Named {
            secret: qualified.clone(),
            key: None,
        });
    if is_unnamed && secrets::default_key(&qualified)?.as_ref() == Some(&secret.key) {
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
                Err(
                    Error::invalid_parameter(format!("\"{shown}\" is not a kind of manifest"))
                        .hint("Kinds: AutoIndexer, Retriever."),
                )
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
            manifest["metadata"]["uid"] = source.uid.into();
            manifest["metadata"]["generation"] = source.generation.into();
            manifest["metadata"]["creationTimestamp"] = source.created_at.into();
            manifest["status"] = source.status;
            Ok(manifest)
        }
        Kind::Retriever => {
            let present = retrievers::find(name)?.ok_or_else(|| retrievers::missing(name))?;
            let metadata = Metadata {
                name: present.name,
                notes: present.notes,
            };
            let mut manifest = Retriever {
                metadata,
                spec: present.spec,
            }
            .to_json();
            manifest["metadata"]["creationTimestamp"] = present.created_at.into();
            let collections = access::readable_among(roles::current(), present.collections)?;
            manifest["status"] = json!({"collections": collections});
            Ok(manifest)
        }
    }
}

fn autoindexer(source: &Visible) -> Result<AutoIndexer, Error> {
    let parsed = SourceSpec::parse(&source.kind, &source.spec).map_err(|problems| {
        Error::invalid_spec(&format!("source \"{}\"", source.name), &problems)
    })?;
    let namespace = split(&source.name).0;
    let credentials = source
        .credentials
        .as_deref()
        .map(|text| Named::parse(text, namespace));
    let credentials = credentials.map(|named| {
        let key = match named.key {
            Some(key) => Some(key),
            None => secrets::default_key(&named.secret)?,
        };
        let name = split(&named.secret).1.to_owned();
        Ok::<_, Error>(SecretRef {
            name,
            key: key.unwrap_or_else(|| secrets::TOKEN.into()),
        })
    });
    Ok(AutoIndexer {
        metadata: Metadata {
            name: source.name.clone(),
            notes: source.notes.clone(),
        },
        retriever: source.retriever.clone(),
        collection: source.collection.clone(),
        kind: parsed.kind(),
        spec: source.spec.clone(),
        credentials: credentials.transpose()?,
        schedule: source.schedule.clone(),
        max_retries: u32::try_from(source.max_retries).unwrap_or(0),
        suspend: source.suspend,
        drift_policy: DriftPolicy::parse(&source.drift_policy).unwrap_or_default(),
        timeout: Some(Duration::from_micros(
            u64::try_from(source.timeout_microseconds).unwrap_or(0),
        )),
        renamed: vec![],
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
