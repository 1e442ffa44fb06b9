//! Collections: create, drop, show their status.

use pgrx::{
    JsonB, datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern,
    pg_sys::panic::ErrorReport,
};

use rag_definition::{Quota, name::split};
use serde_json::Value;

use super::required;
use crate::{
    catalog::{
        access, chunks, collection_status,
        collections::{self, Collection, CollectionChanges, NewCollection},
        damage::explained,
        keyword_index,
        name::{Name, canonical},
        quotas, sources, whitelist,
    },
    cluster,
    error::Error,
    models::users,
    pg::roles::{self, Owner},
    search::retrieval,
    settings,
    source::{collection::SettingsChanges, drop::drop_sources_of, rename},
    types::vector::MAX_DIMENSIONS,
};

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_create_collection(
    name: Option<&str>,
    retriever: pgrx::default!(Option<&str>, "'default'"),
    chunk_size: pgrx::default!(Option<i32>, "NULL"),
    chunk_overlap: pgrx::default!(Option<i32>, "NULL"),
    metadata_whitelist: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
    chunk_unit: pgrx::default!(Option<&str>, "'characters'"),
    external_id: pgrx::default!(Option<&str>, "NULL"),
    owner: pgrx::default!(Option<&str>, "NULL"),
    text_config: pgrx::default!(Option<&str>, "'pg_catalog.english'"),
    title_weight: pgrx::default!(Option<i32>, "2"),
    max_documents: pgrx::default!(Option<i64>, "NULL"),
    max_bytes: pgrx::default!(Option<i64>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
    dimensions: pgrx::default!(Option<i32>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_create_collection()", "create a collection")?;
    let name = Name::collection(required("name", name)?)?;
    let retriever = required("retriever", retriever)?;
    let metadata_whitelist = super::without_nulls("metadata_whitelist", metadata_whitelist)?;
    let metadata_whitelist = metadata_whitelist
        .map(whitelist::checked)
        .transpose()?
        .flatten();
    let chunk_unit = required("chunk_unit", chunk_unit)?;
    collections::checked_splitting(chunk_size, chunk_overlap, chunk_unit)?;
    let owner = match owner {
        Some(name) => roles::future_owner(name, "collection")?,
        None => Owner::current()?,
    };
    let text_config = keyword_index::qualified_text_config(required("text_config", text_config)?)?;
    let title_weight = required("title_weight", title_weight)?;
    keyword_index::check_title_weight(title_weight)?;
    let model = model.map(canonical).filter(|name| !name.is_empty());
    let given = dimensions.map(given_vectors_of).transpose()?;
    if given.is_some() && model.is_some() {
        return Err(
            Error::invalid_parameter("model and dimensions exclude each other")
                .hint("dimensions is for a collection whose vectors are given.")
                .into(),
        );
    }
    let model = given.as_deref().or(model);
    users::require_use_of(retriever, model)?;
    let new = NewCollection {
        name: &name,
        external_id,
        retriever,
        embedding_model: model,
        chunk_size,
        chunk_overlap,
        chunk_unit,
        metadata_whitelist,
        description,
        owner: &owner,
        text_config: &text_config,
        title_weight,
        quota: quota(Quota::default(), max_documents, max_bytes)?,
    };
    Ok(collections::create(new)?)
}

fn given_vectors_of(dimensions: i32) -> Result<String, Error> {
    match usize::try_from(dimensions) {
        Ok(n @ 1..=MAX_DIMENSIONS) => Ok(collections::given_vectors(n)),
        _ => Err(Error::invalid_parameter(format!(
            "dimensions must be between 1 and {MAX_DIMENSIONS}, not {dimensions}"
        ))),
    }
}

fn quota(quota: Quota, max_documents: Option<i64>, max_bytes: Option<i64>) -> Result<Quota, Error> {
    quotas::changed(quota, max_documents, max_bytes).map_err(|(_, error)| error)
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_alter_collection(
    name: Option<&str>,
    retriever: pgrx::default!(Option<&str>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
    external_id: pgrx::default!(Option<&str>, "NULL"),
    max_documents: pgrx::default!(Option<i64>, "NULL"),
    max_bytes: pgrx::default!(Option<i64>, "NULL"),
    chunk_size: pgrx::default!(Option<i32>, "NULL"),
    chunk_overlap: pgrx::default!(Option<i32>, "NULL"),
    chunk_unit: pgrx::default!(Option<&str>, "NULL"),
    metadata_whitelist: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    text_config: pgrx::default!(Option<&str>, "NULL"),
    title_weight: pgrx::default!(Option<i32>, "NULL"),
    model: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_alter_collection()", "alter a collection")?;
    let collection = Collection::lock(required("name", name)?)?;
    access::require_owner(&collection, "alter collection")?;
    let metadata_whitelist = super::without_nulls("metadata_whitelist", metadata_whitelist)?;
    let metadata_whitelist = metadata_whitelist.map(whitelist::checked).transpose()?;
    let text_config = text_config
        .map(keyword_index::qualified_text_config)
        .transpose()?;
    let model = model.map(canonical);
    if let Some(model) = model.filter(|name| !name.is_empty()) {
        users::require_use_of(retriever.unwrap_or(&collection.retriever), Some(model))?;
    }
    let settings = SettingsChanges {
        retriever,
        chunk_size,
        chunk_overlap,
        chunk_unit,
        metadata_whitelist,
        text_config,
        title_weight,
        model,
    };
    let changes = CollectionChanges {
        description,
        external_id,
        quota: quota(collection.quota, max_documents, max_bytes)?,
    };
    collections::alter(&collection, &changes)?;
    Ok(crate::source::collection::change_settings(
        &collection,
        settings,
    )?)
}

#[pg_extern]
fn rag_rename_collection(name: Option<&str>, new_name: Option<&str>) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_rename_collection()", "rename a collection")?;
    Ok(rename::rename_collection(
        required("name", name)?,
        required("new_name", new_name)?,
    )?)
}

#[pg_extern]
fn rag_drop_collection(
    name: &str,
    if_exists: pgrx::default!(bool, "false"),
    with_sources: pgrx::default!(bool, "false"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_collection()", "drop a collection")?;
    match Collection::find(name)? {
        Some(collection) => {
            access::require_owner(&collection, "drop collection")?;
            explained(|| {
                if with_sources {
                    collections::check_droppable(&collection)?;
                    drop_sources_of(&collection)?;
                }
                collections::drop(&collection)
            })?;
            cluster::forget_statistics_at_commit(collection.name.as_str());
            Ok(())
        }
        None if if_exists => {
            pgrx::notice!("collection \"{name}\" does not exist, skipping");
            Ok(())
        }
        None => Err(Collection::missing(name).into()),
    }
}

/// Creates the partition of a collection that comes from a dump. For the trigger of this name.
#[pg_extern(sql = false)]
fn create_restored_partition(name: &str) -> Result<(), ErrorReport> {
    Ok(Collection::get(name)?.restore_partition()?)
}

/// Returns a row for each collection if no name is given.
#[pg_extern(stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_collection_status(
    name: pgrx::default!(Option<&str>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(name, String),
            name!(has_index, bool),
            name!(document_count, i64),
            name!(error_count, i64),
            name!(chunk_count, i64),
            name!(embedding_dimension, Option<i32>),
            name!(has_vector_index, bool),
            name!(index_type, String),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(total_size_bytes, i64),
            name!(text_bytes, i64),
            name!(chunk_bytes, i64),
            name!(embedding_bytes, i64),
            name!(index_bytes, i64),
            name!(state, String),
            name!(detail, Option<String>),
            name!(wanted_index_type, String),
            name!(vector_index_bytes, i64),
            name!(keyword_index_bytes, i64),
            name!(model, Option<String>),
            name!(model_fingerprint, Option<String>),
            name!(model_precision, Option<String>),
            name!(model_max_tokens, Option<i32>),
            name!(retriever, String),
            name!(namespace, String),
            name!(external_id, Option<String>),
            name!(index_strategy, String),
            name!(partition, Option<String>),
            name!(sources, JsonB),
        ),
    >,
    ErrorReport,
> {
    let mut known = None;
    let found = match name {
        None => collection_status::of_all()?,
        Some(name) => {
            let collection = super::readable(Some(name))?;
            known = Some(collection.name.to_string());
            collection_status::of(&collection)?
        }
    };
    let mut sources = sources::by_collection(known.as_deref())?;
    Ok(TableIterator::new(found.into_iter().map(move |s| {
        let own = sources.remove(&s.name).unwrap_or_default();
        let (state, detail) = (s.state().to_string(), s.detail());
        let (total, chunk_bytes, embedding_bytes) =
            (s.total_bytes(), s.chunk_bytes(), s.embedding_bytes());
        let index_type = s.index_type().to_owned();
        let definition = s.totals.definition;
        let namespace = split(&definition.retriever).0.to_owned();
        (
            s.name,
            s.documents > 0,
            s.documents,
            s.errors,
            s.chunks,
            s.totals.dimensions,
            s.totals.has_vector_index,
            index_type,
            s.totals.created_at,
            s.totals.updated_at,
            total,
            s.text_bytes,
            chunk_bytes,
            embedding_bytes,
            s.totals.index_bytes,
            state,
            detail,
            definition.storage_type,
            s.totals.vector_index_bytes,
            s.totals.keyword_index_bytes,
            definition.model,
            definition.model_fingerprint,
            definition.model_precision,
            definition.model_max_tokens,
            definition.retriever,
            namespace,
            definition.external_id,
            definition.index_strategy,
            definition.partition,
            JsonB(Value::Array(own)),
        )
    })))
}

#[pg_extern(stable)]
fn rag_stats(collection: pgrx::default!(&str, "'default'")) -> Result<JsonB, ErrorReport> {
    let collection = retrieval::knowledge_base(collection)?;
    let (chunks, items) = explained(|| chunks::counts(&collection))?;
    let wanted = collection.wanted_model().map(str::to_owned);
    let stored = collection.model.map(|model| model.name);
    Ok(JsonB(serde_json::json!({
        "total_chunks": chunks,
        "unique_knowledge_items": items,
        "collection_name": collection.name.as_str(),
        "embedding_model": stored.or(wanted).unwrap_or_else(settings::default_model_name),
    })))
}
