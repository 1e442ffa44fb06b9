//! Manifests: sources and retrievers in the form of the upstream proposals.
//!
//! `crates/manifest` reads the text and reports all errors in it. This module does what needs the
//! database. Sources are checked as in a call ([`super::definition`]), and errors name the path in
//! the document.

use std::time::Duration;

use rag_definition::{
    SecretRef,
    collection::CollectionDefinition,
    name::{qualify, split},
    source::{DriftPolicy, Login, SourceSpec},
};
use rag_manifest::{ApplyAction, AutoIndexer, Manifest, Metadata, Retriever};
use serde_json::{Value, json};

use super::{
    alter,
    definition::{self, SourceArguments},
    manage,
};
use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
        retrievers,
        sources::{self, SourceRow, SourceView},
    },
    collection,
    error::{Error, definition::DefinitionErrors},
    pg::{roles, spi::as_owner},
    secrets,
};

/// A document's kind and name, and the result.
pub type AppliedManifest = (&'static str, String, ApplyAction);

/// A document, its errors and the result.
struct ManifestDocument {
    manifest: Manifest,
    errors: DefinitionErrors,
    action: Option<ApplyAction>,
}

/// Applies all documents. Retrievers come first, because sources may name them.
///
/// Documents are applied in the order of their names, retrievers, then collections, then sources.
/// So sessions that apply the same documents do not deadlock.
///
/// # Errors
/// There are errors in the documents; all are reported. The caller rolls back what was applied.
pub fn apply(text: &str) -> Result<Vec<AppliedManifest>, Error> {
    // values and their places take several times the size of the text
    Error::check_memory(
        10 * text.len(),
        "The manifest needs more memory than is available.",
    )?;
    let manifests = rag_manifest::parse(text)
        .map_err(|problems| Error::invalid("invalid manifest", &problems))?;
    apply_parsed(manifests)
}

/// Applies manifests.
///
/// # Errors
/// See [`apply`].
pub fn apply_parsed(manifests: Vec<Manifest>) -> Result<Vec<AppliedManifest>, Error> {
    let mut documents: Vec<ManifestDocument> = manifests
        .into_iter()
        .map(|manifest| ManifestDocument {
            manifest,
            errors: DefinitionErrors::default(),
            action: None,
        })
        .collect();
    let mut ordered: Vec<&mut ManifestDocument> = documents.iter_mut().collect();
    ordered.sort_by(|a, b| a.manifest.name().cmp(b.manifest.name()));
    let (retrievers, mut sources): (Vec<_>, Vec<_>) = ordered
        .into_iter()
        .partition(|document| matches!(document.manifest, Manifest::Retriever(_)));
    retrievers.into_iter().for_each(ManifestDocument::apply);
    create_missing_collections(&mut sources);
    sources.into_iter().for_each(ManifestDocument::apply);

    let is_one = documents.len() == 1;
    let mut errors = DefinitionErrors::default();
    let mut applied = vec![];
    for ManifestDocument {
        manifest,
        errors: found,
        action,
    } in documents
    {
        let of = if is_one {
            String::new()
        } else {
            format!("{} {}: ", manifest.kind(), manifest.name())
        };
        // a collection is not created if its retriever does not exist
        let found = if found.has("retriever") {
            found.without("collection")
        } else {
            found
        };
        errors.append(found.in_fields(|field| format!("{of}{}", path(&manifest, field))));
        applied.extend(action.map(|action| (manifest.kind(), manifest.name().to_owned(), action)));
    }
    if errors.is_empty() {
        Ok(applied)
    } else {
        Err(errors.to_error("invalid manifest"))
    }
}

impl ManifestDocument {
    fn apply(&mut self) {
        let applied = match &self.manifest {
            Manifest::Retriever(retriever) => collection::retriever::apply(retriever).map(Some),
            Manifest::AutoIndexer(source) => apply_source(source, &mut self.errors),
        };
        // an error of no single field is reported for the name
        self.action = self.errors.note("name", applied).flatten();
    }
}

/// Returns the path in a manifest for a field of a definition.
fn path(manifest: &Manifest, field: &str) -> String {
    let Manifest::AutoIndexer(source) = manifest else {
        return "metadata.name".into();
    };
    let path = match field {
        // a manifest cannot name an owner
        "name" | "owner" => "metadata.name".into(),
        "kind" => "spec.dataSource.type".into(),
        "retriever" => "spec.ragEngineRef.name".into(),
        "collection" => "spec.indexName".into(),
        "max_retries" => "spec.retryPolicy.maxRetries".into(),
        "drift_policy" => "spec.driftRemediationPolicy".into(),
        "max_documents" => "spec.quota.maxDocuments".into(),
        "max_bytes" => "spec.quota.maxBytes".into(),
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

/// Creates the missing collections with their retrievers, if the caller may.
fn create_missing_collections(sources: &mut [&mut ManifestDocument]) {
    if !roles::is_admin() {
        return;
    }
    let mut sources: Vec<_> = sources
        .iter_mut()
        .filter_map(|document| match &document.manifest {
            Manifest::AutoIndexer(source) => Some((source, &mut document.errors)),
            Manifest::Retriever(_) => None,
        })
        .collect();
    sources.sort_by_key(|(source, _)| &source.collection);
    for (source, errors) in sources {
        let made = create_missing_collection(&source.collection, &source.retriever);
        errors.note("collection", made);
    }
}

fn create_missing_collection(name: &str, retriever: &str) -> Result<(), Error> {
    if Collection::find(name)?.is_some() || retrievers::find(retriever)?.is_none() {
        return Ok(());
    }
    let definition = CollectionDefinition {
        retriever: retriever.to_owned(),
        ..Default::default()
    };
    if collection::create_if_missing(name, definition, None)?.is_some() {
        pgrx::notice!("collection \"{name}\" was created with retriever \"{retriever}\"");
    }
    Ok(())
}

/// Creates or alters a source. Returns None if there are errors.
fn apply_source(
    source: &AutoIndexer,
    errors: &mut DefinitionErrors,
) -> Result<Option<ApplyAction>, Error> {
    // comes first, so that callers without permission do not learn if the source exists
    let Metadata { name, notes } = &source.metadata;
    let mut stored = manage::lock(name, "create or alter a source")?;
    check_retriever(source, errors)?;
    if stored.is_none() {
        let credentials = credentials(source, None)?;
        let mut found = DefinitionErrors::default();
        definition::create(&arguments(source, &credentials, true), &mut found)?;
        // another session may have created it meanwhile
        stored = if found.is_empty() {
            None
        } else {
            sources::lock(name)?
        };
        if stored.is_none() {
            errors.append(found);
            if errors.is_empty() {
                as_owner(|owner| sources::put_notes(owner, name, notes))?;
            }
            return Ok(errors.is_empty().then_some(ApplyAction::Created));
        }
    }
    let credentials = credentials(source, stored.as_ref())?;
    let mut has_changed = alter::alter(&arguments(source, &credentials, false), errors)?;
    if errors.is_empty() {
        has_changed |= as_owner(|owner| sources::put_notes(owner, name, notes))?;
    }
    Ok(errors.is_empty().then_some(if has_changed {
        ApplyAction::Configured
    } else {
        ApplyAction::Unchanged
    }))
}

/// Returns the arguments that a manifest defines. Without a schedule or a secret in the manifest, a
/// new source has none and an altered source loses its own.
fn arguments<'a>(
    source: &'a AutoIndexer,
    credentials: &'a str,
    is_new: bool,
) -> SourceArguments<'a> {
    let timeout = definition::interval(source.timeout.unwrap_or(definition::DEFAULT_TIMEOUT));
    SourceArguments {
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
        // without a limit in the manifest there is none
        max_documents: Some(source.quota.max_documents.unwrap_or(0)),
        max_bytes: Some(source.quota.max_bytes.unwrap_or(0)),
        owner: None,
    }
}

/// Checks that the retriever exists and is the collection's.
fn check_retriever(source: &AutoIndexer, errors: &mut DefinitionErrors) -> Result<(), Error> {
    let (name, retriever) = (source.collection.as_str(), source.retriever.as_str());
    if retrievers::find(retriever)?.is_none() {
        errors.add("retriever", retrievers::missing(retriever));
        return Ok(());
    }
    let present = Collection::find(name)?
        .filter(|present| access::has_privilege(present, CollectionPrivilege::Read));
    if let Some(present) = present.filter(|present| present.definition.retriever != retriever) {
        let other = Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "collection \"{name}\" has retriever \"{}\", not \"{retriever}\"",
                present.definition.retriever
            ),
        );
        errors.add(
            "retriever",
            other.hint("Use that retriever, or another collection (spec.indexName)."),
        );
    }
    Ok(())
}

/// Returns the secret as a definition names it, empty for none. A manifest always names a key. If
/// the stored source names none and its default key is the same, the definition is unchanged.
fn credentials(source: &AutoIndexer, stored: Option<&SourceRow>) -> Result<String, Error> {
    let Some(secret) = &source.credentials else {
        return Ok(String::new());
    };
    let qualified = qualify(source.metadata.namespace(), &secret.name);
    let is_unnamed = stored.and_then(|row| row.definition.credentials.clone())
        == Some(SecretRef {
            name: qualified.clone(),
            key: None,
        });
    let login =
        SourceSpec::parse(source.kind, &source.spec).map_or(Login::Password, |spec| spec.login());
    match &secret.key {
        Some(key)
            if !is_unnamed || secrets::default_key(&qualified, login)?.as_ref() != Some(key) =>
        {
            Ok(format!("{}/{key}", secret.name))
        }
        _ => Ok(secret.name.clone()),
    }
}

/// A kind of manifest. Its case does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestKind {
    AutoIndexer,
    Retriever,
}

impl ManifestKind {
    /// # Errors
    /// The kind is unknown.
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

/// Returns the manifest of a source or retriever as it is now, with its status. Applying it changes
/// nothing.
///
/// # Errors
/// It does not exist, or the caller may not see it.
pub fn get(kind: ManifestKind, name: &str) -> Result<Value, Error> {
    match kind {
        ManifestKind::AutoIndexer => {
            let source = sources::visible(name)?.ok_or_else(|| sources::Source::missing(name))?;
            let mut manifest = autoindexer(&source)?.to_json();
            manifest["metadata"]["uid"] = source.uid.into();
            manifest["metadata"]["generation"] = source.generation.into();
            manifest["metadata"]["creationTimestamp"] = source.created_at.into();
            manifest["status"] = source.status;
            Ok(manifest)
        }
        ManifestKind::Retriever => {
            let present = retrievers::find(name)?.ok_or_else(|| retrievers::missing(name))?;
            let metadata = Metadata {
                name: present.name,
                notes: present.notes,
            };
            let mut manifest = Retriever {
                metadata,
                definition: present.definition,
            }
            .to_json();
            manifest["metadata"]["creationTimestamp"] = present.created_at.into();
            let collections = access::readable_among(roles::current(), present.collections)?;
            manifest["status"] = json!({"collections": collections});
            Ok(manifest)
        }
    }
}

/// Returns the manifests of all objects of a kind that the caller may see, in the order of their
/// names, as a list that can be applied.
///
/// # Errors
/// A statement fails.
pub fn list(kind: ManifestKind) -> Result<Value, Error> {
    let names = match kind {
        ManifestKind::AutoIndexer => sources::visible_names()?,
        ManifestKind::Retriever => {
            let found = retrievers::all()?;
            found.into_iter().map(|retriever| retriever.name).collect()
        }
    };
    let items: Vec<Value> = names
        .iter()
        .map(|name| get(kind, name))
        .collect::<Result<_, _>>()?;
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
}

fn autoindexer(source: &SourceView) -> Result<AutoIndexer, Error> {
    let parsed = SourceSpec::parse(&source.kind, &source.spec).map_err(|problems| {
        Error::invalid_spec(&format!("source \"{}\"", source.name), &problems)
    })?;
    let namespace = split(&source.name).0;
    let credentials = source
        .credentials
        .as_deref()
        .map(|text| SecretRef::parse(text).within(namespace));
    let credentials = credentials.map(|named| {
        let key = match named.key {
            Some(key) => Some(key),
            None => secrets::default_key(&named.name, parsed.login())?,
        };
        let name = split(&named.name).1.to_owned();
        Ok::<_, Error>(SecretRef {
            name,
            key: Some(key.unwrap_or_else(|| secrets::TOKEN.into())),
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
        quota: source.quota,
        timeout: Some(Duration::from_micros(
            u64::try_from(source.timeout_microseconds).unwrap_or(0),
        )),
        renamed: vec![],
    })
}
