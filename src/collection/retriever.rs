//! Retrievers: create, alter, apply, drop, test. All of them share one check. A change of the
//! storage concerns the collections with the retriever: [`change_storage`], and [`follow`] for one
//! of them.

use std::time::{Duration, Instant};

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_definition::{
    FieldProblem, Notes,
    collection::DEFAULT_RETRIEVER,
    name::split,
    retriever::{RetrieverDefinition, StorageDefinition, StorageType},
};
use rag_manifest::{ApplyAction, Metadata};
use serde_json::Value;

use super::{index, placement};
use crate::{
    catalog::{
        access,
        collections::Collection,
        models,
        name::Name,
        retrievers::{self, Retriever},
    },
    error::{Cause, Error},
    models::{embedding::EmbeddingModel, users::named},
    pg::{
        roles::{self, Owner},
        spi::as_owner,
    },
    secrets,
    storage::{self, Storage},
};

const CHANGE: &str = "create or change a retriever";

/// Changes of a retriever. None leaves a value as it is.
#[derive(Debug, Default)]
pub struct RetrieverChanges<'a> {
    pub spec: Option<Value>,
    pub display_name: Option<&'a str>,
    pub description: Option<&'a str>,
}

impl RetrieverChanges<'_> {
    /// Returns the settings with the description in them.
    ///
    /// # Errors
    /// They are invalid.
    fn definition(
        &self,
        name: &str,
        present: Option<&RetrieverDefinition>,
    ) -> Result<RetrieverDefinition, Error> {
        let mut definition = match (&self.spec, present) {
            (None, Some(present)) => present.clone(),
            (spec, _) => retrievers::definition(name, spec.as_ref().unwrap_or(&Value::Null))?,
        };
        if let Some(description) = self.description {
            definition.description = Some(description.to_owned()).filter(|it| !it.is_empty());
        }
        Ok(definition)
    }
}

/// Creates a retriever, which the current role then owns.
///
/// # Errors
/// The settings are invalid, or a retriever of the name exists.
pub fn create(name: &Name, changes: &RetrieverChanges<'_>) -> Result<(), Error> {
    roles::require_admin(CHANGE)?;
    let name = name.as_str();
    let definition = changes.definition(name, None)?;
    check(name, &definition)?;
    check_model(None, &definition)?;
    let notes = Notes {
        display_name: changes.display_name.map(str::to_owned),
        ..Notes::default()
    };
    check_secrets(name, &definition, roles::current())?;
    if retrievers::create(name, &definition, &notes)? {
        return Ok(());
    }
    Err(
        Error::duplicate(format!("retriever \"{name}\" already exists"))
            .hint("Change it with rag_alter_retriever."),
    )
}

/// Changes the settings or the name for people. The next search of its collections uses them.
///
/// # Errors
/// The settings are invalid, the caller does not own the retriever, or collections have an index
/// with other options.
pub fn alter(name: &Name, changes: &RetrieverChanges<'_>) -> Result<(), Error> {
    roles::require_admin(CHANGE)?;
    let name = name.as_str();
    let present = retrievers::lock(name)?.ok_or_else(|| retrievers::missing(name))?;
    require_owner(&present)?;
    let definition = changes.definition(name, Some(&present.definition))?;
    check(name, &definition)?;
    check_model(Some(&present), &definition)?;
    check_secrets(name, &definition, present.owner.id)?;
    let mut notes = present.notes.clone();
    if let Some(display_name) = changes.display_name {
        notes.display_name = Some(display_name.to_owned()).filter(|name| !name.is_empty());
    }
    change_storage(&present, &definition)?;
    retrievers::update(name, &definition, &notes)?;
    check_partitions(name)
}

/// Creates a retriever, or replaces its settings and metadata.
///
/// # Errors
/// See [`create`] and [`alter`].
pub fn apply(retriever: &rag_manifest::Retriever) -> Result<ApplyAction, Error> {
    let Metadata { name, notes } = &retriever.metadata;
    let definition = &retriever.definition;
    let is_same =
        |present: &Retriever| present.definition == *definition && present.notes == *notes;
    if retrievers::find(name)?.as_ref().is_some_and(is_same) {
        return Ok(ApplyAction::Unchanged);
    }
    roles::require_admin(CHANGE)?;
    check(name, definition)?;
    check_model(retrievers::find(name)?.as_ref(), definition)?;
    check_secrets(name, definition, roles::current())?;
    if retrievers::create(name, definition, notes)? {
        return Ok(ApplyAction::Created);
    }
    let present = retrievers::lock(name)?.ok_or_else(|| retrievers::missing(name))?;
    require_owner(&present)?;
    check_secrets(name, definition, present.owner.id)?;
    change_storage(&present, definition)?;
    let change = retrievers::update(name, definition, notes)?;
    check_partitions(name)?;
    Ok(if change {
        ApplyAction::Configured
    } else {
        ApplyAction::Unchanged
    })
}

/// Drops a retriever. Returns false if it does not exist.
///
/// # Errors
/// The caller does not own it, collections use it, or its name is default.
pub fn drop(name: &str) -> Result<bool, Error> {
    roles::require_admin("drop a retriever")?;
    match retrievers::lock(name)? {
        None => Ok(false),
        Some(present) => {
            require_owner(&present)?;
            check_unused(&present)?;
            retrievers::delete(name)?;
            Ok(true)
        }
    }
}

/// # Errors
/// Collections use it, or it is the default retriever.
fn check_unused(retriever: &Retriever) -> Result<(), Error> {
    let name = retriever.name.as_str();
    let refuse = |why: &str| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop retriever \"{name}\" because {why}"),
        )
    };
    if name == DEFAULT_RETRIEVER {
        return Err(refuse("it is the default retriever of collections"));
    }
    let users = retrievers::users(name)?;
    if users.is_empty() {
        return Ok(());
    }
    Err(refuse("collections depend on it")
        .detail(named(&access::readable_among(roles::current(), users)?))
        .hint("Give them another retriever with rag_alter_collection, or drop them first."))
}

fn require_owner(retriever: &Retriever) -> Result<(), Error> {
    if roles::may_act_for(roles::current(), retriever.owner.id) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to change retriever \"{}\"",
        retriever.name
    ))
    .detail(format!("Role \"{}\" owns it.", retriever.owner.name))
    .hint("Must be a member of this role. Create a retriever of your own for other settings."))
}

/// Checks the secrets that the storage sends to its server, and prevents them from being dropped
/// until the transaction ends.
///
/// # Errors
/// One does not exist, or belongs to another role than the retriever.
fn check_secrets(
    name: &str,
    definition: &RetrieverDefinition,
    owner: pg_sys::Oid,
) -> Result<(), Error> {
    let secrets = definition.storage().secrets().into_iter().flatten();
    for named in secrets.map(|secret| secret.within(split(name).0)) {
        secrets::lock_until_commit(&named.name)?;
        secrets::check_value_for(&named, owner)?;
    }
    Ok(())
}

/// Checks that the current role may use a model that the settings newly name. Collections with the
/// retriever call it with the rights of its owner.
///
/// # Errors
/// The role may not use the model.
fn check_model(present: Option<&Retriever>, definition: &RetrieverDefinition) -> Result<(), Error> {
    let before = present.and_then(|present| present.definition.model());
    match definition.model() {
        Some(wanted) if before != Some(wanted) => EmbeddingModel::usable(Some(wanted)).map(|_| ()),
        _ => Ok(()),
    }
}

/// Checks that this database has what the settings name.
fn check(name: &str, definition: &RetrieverDefinition) -> Result<(), Error> {
    let invalid = |problem: FieldProblem| retrievers::invalid(name, &[problem]);
    let storage = definition.storage().storage_type();
    if let Err(error) = Storage::of_type(storage).check() {
        let problem = FieldProblem::new(
            StorageDefinition::TYPE_FIELD,
            format!("\"{}\" cannot be used: {}", storage.name(), error.message),
        );
        let problem = error.hint.into_iter().fold(problem, FieldProblem::hint);
        return Err(invalid(problem));
    }
    if let Some(wanted) = definition.model() {
        as_owner(|owner| models::lock_shared(owner, wanted))?;
        EmbeddingModel::named(wanted).map_err(|error| match error.cause() {
            Cause::Right => error,
            _ => {
                let problem = FieldProblem::new("spec.embedding.model", error.message);
                invalid(problem.hint(
                    "Leave it out, create the model with rag_create_model, or set rag.model_dir to \
                     its folder.",
                ))
            }
        })?;
    }
    Ok(())
}

/// Checks the collections of a retriever that share their partitions with others.
///
/// # Errors
/// A collection with another retriever needs another index.
fn check_partitions(name: &str) -> Result<(), Error> {
    for collection in retrievers::filled_collections(name)? {
        let collection = Collection::get(&collection)?;
        if collection.shares_partition() {
            placement::check(&collection)?;
        }
    }
    Ok(())
}

/// Makes collections with documents follow a change of the storage. They lose their vector index if
/// it does not fit any more. The next sync or added document creates the one that they need then.
///
/// # Errors
/// Other options would need another index.
fn change_storage(present: &Retriever, definition: &RetrieverDefinition) -> Result<(), Error> {
    let (before, after) = (present.definition.storage(), definition.storage());
    match storage_change(before, after) {
        StorageChange::None => Ok(()),
        StorageChange::OtherOptions => {
            let filled = retrievers::filled_collections(&present.name)?;
            if !filled.is_empty() {
                let known = access::readable_among(roles::current(), filled)?;
                pgrx::notice!(
                    "the storage of collections is stale until rag_rebuild_collection is called \
                     for them; {}",
                    named(&known)
                );
            }
            Ok(())
        }
        StorageChange::OtherIndex => {
            for name in retrievers::filled_collections(&present.name)? {
                move_storage(&Collection::get(&name)?, after)?;
            }
            Ok(())
        }
    }
}

/// Makes the storage of a collection follow another retriever, as [`alter`] does for all
/// collections of one. Returns false, and changes nothing, if that needs a rebuild.
///
/// # Errors
/// A statement fails.
pub fn follow(collection: &Collection, after: &RetrieverDefinition) -> Result<bool, Error> {
    let has_other_strategy =
        collection.partition.is_some() && collection.strategy() != after.storage().strategy();
    let has_other_model = collection.model.is_some()
        && collection.definition.embedding_model.is_none()
        && collection.settings.model() != after.model();
    if has_other_strategy || has_other_model {
        return Ok(false);
    }
    let after = after.storage();
    match storage_change(collection.storage(), after) {
        StorageChange::None => Ok(true),
        StorageChange::OtherOptions => Ok(false),
        StorageChange::OtherIndex => move_storage(collection, after).map(|()| true),
    }
}

/// Moves a collection from its present storage to another one.
fn move_storage(collection: &Collection, after: &StorageDefinition) -> Result<(), Error> {
    index::drop(collection)?;
    Storage::of(collection).release(collection)?;
    Storage::of_type(after.storage_type()).adopt(collection)
}

/// What a change of settings means for the vector index of a collection.
enum StorageChange {
    None,
    /// Only a rebuild can give the index other options.
    OtherOptions,
    /// The next write or rebuild creates it.
    OtherIndex,
}

fn storage_change(before: &StorageDefinition, after: &StorageDefinition) -> StorageChange {
    if (before.storage_type(), before.metric(), before.url())
        != (after.storage_type(), after.metric(), after.url())
    {
        StorageChange::OtherIndex
    } else if before.options() != after.options() {
        StorageChange::OtherOptions
    } else {
        StorageChange::None
    }
}

/// The result of a test of a retriever.
pub struct RetrieverTest {
    pub success: bool,
    pub message: String,
    pub storage_type: StorageType,
    pub latency: Duration,
}

/// Tests if collections with a retriever can be filled and searched.
///
/// # Errors
/// It does not exist.
pub fn test(name: &str) -> Result<RetrieverTest, Error> {
    let retriever = retrievers::find(name)?.ok_or_else(|| retrievers::missing(name))?;
    let storage_type = retriever.definition.storage().storage_type();
    Ok(timed(storage_type, || test_settings(&retriever)))
}

/// Tests settings as those of a retriever that the current role would create. Secrets are in the
/// namespace of its name.
///
/// # Errors
/// The role may not create retrievers.
pub fn test_unsaved(name: &Name, spec: &Value) -> Result<RetrieverTest, Error> {
    roles::require_admin("test settings of a retriever that is not saved")?;
    let definition = retrievers::definition(name.as_str(), spec);
    let storage_type = match &definition {
        Ok(definition) => definition.storage().storage_type(),
        Err(_) => StorageType::default(),
    };
    let owner = Owner::current()?;
    Ok(timed(storage_type, || {
        test_settings(&Retriever {
            definition: definition?,
            name: name.to_string(),
            notes: Notes::default(),
            owner,
            created_at: String::new(),
            collections: vec![],
        })
    }))
}

fn test_settings(retriever: &Retriever) -> Result<String, Error> {
    let definition = &retriever.definition;
    check(&retriever.name, definition)?;
    let model = match definition.model() {
        // the test calls the model with the key of its owner
        Some(name) => EmbeddingModel::usable(Some(name)),
        None => EmbeddingModel::default_model(),
    }?
    .info_now()?;
    let storage = storage::test(retriever)?;
    Ok(format!(
        "{storage}; model \"{}\" with {} dimensions is ready",
        model.name, model.dimensions
    ))
}

fn timed(storage_type: StorageType, test: impl FnOnce() -> Result<String, Error>) -> RetrieverTest {
    let started = Instant::now();
    let result = test();
    let latency = started.elapsed();
    let (success, message) = match result {
        Ok(message) => (true, message),
        Err(error) => (
            false,
            [Some(error.message), error.detail, error.hint]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": "),
        ),
    };
    RetrieverTest {
        success,
        message,
        storage_type,
        latency,
    }
}
