//! Collections: create, drop, show their status.

use pgrx::{
    JsonB, datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern,
    pg_sys::panic::ErrorReport,
};

use rag_definition::{Unit, collection::CollectionDefinition, name::split};
use serde_json::Value;

use super::required;
use crate::{
    catalog::{
        access, chunks,
        collections::{self, Collection},
        name::canonical,
        sources,
    },
    cluster,
    collection::{self, damage::explained, placement, rights, status},
    error::Error,
    pg::roles,
    search::retrieval,
    settings,
    source::drop::drop_sources_of,
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
    let model = model.map(canonical).filter(|name| !name.is_empty());
    let given = dimensions.map(given_vectors_of).transpose()?;
    if given.is_some() && model.is_some() {
        return Err(
            Error::invalid_parameter("model and dimensions exclude each other")
                .hint("dimensions is for a collection whose vectors are given.")
                .into(),
        );
    }
    let definition = CollectionDefinition {
        retriever: required("retriever", retriever)?.to_owned(),
        embedding_model: given.or(model.map(str::to_owned)),
        external_id: external_id.map(str::to_owned),
        description: description.map(str::to_owned),
        chunk_size,
        chunk_overlap,
        chunk_unit: unit(required("chunk_unit", chunk_unit)?)?,
        metadata_whitelist: super::without_nulls("metadata_whitelist", metadata_whitelist)?,
        text_config: required("text_config", text_config)?.to_owned(),
        title_weight: required("title_weight", title_weight)?,
        max_documents,
        max_bytes,
    };
    collection::create(required("name", name)?, definition, owner)?;
    Ok(())
}

fn given_vectors_of(dimensions: i32) -> Result<String, Error> {
    match usize::try_from(dimensions) {
        Ok(n @ 1..=MAX_DIMENSIONS) => Ok(collections::given_vectors(n)),
        _ => Err(Error::invalid_parameter(format!(
            "dimensions must be between 1 and {MAX_DIMENSIONS}, not {dimensions}"
        ))),
    }
}

fn unit(name: &str) -> Result<Unit, Error> {
    Unit::parse(name).map_err(Error::of_problem)
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
    owner: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::prevent_on_standby(c"rag_alter_collection()");
    // an owner that is no admin may give the collection to another role
    let require_admin = || roles::require_admin("alter a collection");
    if owner.is_none() {
        require_admin()?;
    }
    let collection = Collection::lock(required("name", name)?)?;
    let action = match owner {
        Some(_) => "change the owner of collection",
        None => "alter collection",
    };
    rights::require_owner(&collection, action)?;
    let whitelist = super::without_nulls("metadata_whitelist", metadata_whitelist)?;
    let before = Collection::wanted(collection.name.as_str())?.definition;
    let unchanged = before.clone();
    // an empty text removes a value
    let text = |text: Option<&str>, before| match text {
        Some(text) => Some(text.to_owned()).filter(|text| !text.is_empty()),
        None => before,
    };
    // so does a number that is no size
    let number = |size: Option<i32>, none, before| match size {
        Some(size) => Some(size).filter(|size| *size != none),
        None => before,
    };
    let definition = CollectionDefinition {
        retriever: retriever.map_or(before.retriever, str::to_owned),
        embedding_model: text(model.map(canonical), before.embedding_model),
        external_id: text(external_id, before.external_id),
        description: text(description, before.description),
        chunk_size: number(chunk_size, 0, before.chunk_size),
        chunk_overlap: number(chunk_overlap, -1, before.chunk_overlap),
        chunk_unit: chunk_unit.map_or(Ok(before.chunk_unit), unit)?,
        metadata_whitelist: whitelist.or(before.metadata_whitelist),
        text_config: text_config.map_or(before.text_config, str::to_owned),
        title_weight: title_weight.unwrap_or(before.title_weight),
        max_documents: max_documents.or(before.max_documents),
        max_bytes: max_bytes.or(before.max_bytes),
    };
    if definition != unchanged {
        require_admin()?;
    }
    if owner.is_none() || definition != unchanged {
        collection::alter(&collection, definition)?;
    }
    match owner {
        Some(owner) => {
            let owner = roles::future_owner(owner, "collection")?;
            Ok(access::set_owner(&collection, &owner)?)
        }
        None => Ok(()),
    }
}

#[pg_extern]
fn rag_rename_collection(name: Option<&str>, new_name: Option<&str>) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_rename_collection()", "rename a collection")?;
    Ok(collection::rename::rename(
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
            rights::require_owner(&collection, "drop collection")?;
            explained(|| {
                if with_sources {
                    collection::drop::check_droppable(&collection)?;
                    drop_sources_of(&collection)?;
                }
                collection::drop(&collection)
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
    Ok(placement::restore(&Collection::get(name)?)?)
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
        None => status::of_all()?,
        Some(name) => {
            let collection = super::readable(Some(name))?;
            known = Some(collection.name.to_string());
            status::of(&collection)?.into_iter().collect()
        }
    };
    let mut sources = sources::by_collection(known.as_deref())?;
    Ok(TableIterator::new(found.into_iter().map(move |status| {
        let own = sources.remove(&status.name).unwrap_or_default();
        let (state, detail) = (status.state().to_owned(), status.detail());
        let (total, chunk_bytes) = (status.total_bytes(), status.chunk_bytes());
        let embedding_bytes = status.embedding_bytes();
        let (has_vector_index, index_type) =
            (status.has_vector_index(), status.index_type().to_owned());
        let (counts, figures) = (status.counts, status.figures);
        let namespace = split(&figures.definition.retriever).0.to_owned();
        (
            status.name,
            counts.documents > 0,
            counts.documents,
            counts.errors,
            counts.chunks,
            figures.dimensions,
            has_vector_index,
            index_type,
            figures.created_at,
            figures.updated_at,
            total,
            counts.text_bytes,
            chunk_bytes,
            embedding_bytes,
            figures.index_bytes,
            state,
            detail,
            figures.storage_type,
            figures.vector_index_bytes,
            figures.keyword_index_bytes,
            figures.model,
            figures.model_fingerprint,
            figures.model_precision,
            figures.model_max_tokens,
            figures.definition.retriever,
            namespace,
            figures.definition.external_id,
            figures.index_strategy,
            figures.partition,
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
