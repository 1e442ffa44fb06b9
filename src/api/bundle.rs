//! Export and import of collections.

use pgrx::{
    datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern, pg_sys,
    pg_sys::panic::ErrorReport,
};

use super::required;
use crate::{
    bundle::{
        self, BlockTable, BundleInfo, BundleSource, CollectionExport, ImportRequest,
        export_to_folder, open_folder,
    },
    catalog::collections::Collection,
    cluster::operation_stats::{CountedOperation, Operation},
    collection::{damage::explained, rights},
    error::Error,
    pg::roles,
};

/// Works on a standby, too: it writes files only.
#[pg_extern(volatile)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_export_collection(
    name: Option<&str>,
    path: Option<&str>,
) -> Result<
    TableIterator<'static, (name!(documents, i64), name!(chunks, i64), name!(bytes, i64))>,
    ErrorReport,
> {
    let collection = Collection::get(required("name", name)?)?;
    let path = required("path", path)?;
    let exported = explained(|| export_to_folder(&collection, path))?;
    Ok(TableIterator::once((
        exported.documents,
        exported.chunks,
        exported.bytes,
    )))
}

/// Returns the blocks one by one: the bundle is never in memory as a whole.
#[pg_extern(stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_export_blocks(
    name: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(file, &'static str),
            name!(block, i32),
            name!(data, Vec<u8>),
        ),
    >,
    ErrorReport,
> {
    let collection = Collection::get(required("name", name)?)?;
    rights::require_owner(&collection, "export collection")?;
    let counted = bundle::count_export(&collection);
    let mut export = CollectionExport::begin(&collection)?;
    counted.pause();
    Ok(TableIterator::new(std::iter::from_fn(move || {
        // the time in which the client reads does not count
        let counted = bundle::count_export(&collection);
        let Some(block) = export.next_block().unwrap_or_else(|e| e.raise()) else {
            counted.succeed();
            return None;
        };
        counted.pause();
        Some((block.file.name(), block.number, block.bytes))
    })))
}

type ImportedRow = (String, i64, i64, i64);

fn import<B: BundleSource>(
    open: impl FnOnce() -> Result<B, Error>,
    name: Option<&str>,
    with_sources: Option<bool>,
) -> Result<ImportedRow, Error> {
    let request = ImportRequest {
        name,
        with_sources: required("with_sources", with_sources)?,
    };
    let counted = CountedOperation::begin_without_collection(Operation::Import);
    let imported = bundle::import(&open()?, &request)?;
    counted.succeed_in(&imported.collection);
    Ok((
        imported.collection,
        imported.documents,
        imported.chunks,
        imported.bytes,
    ))
}

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_import_collection(
    path: Option<&str>,
    name: pgrx::default!(Option<&str>, "NULL"),
    with_sources: pgrx::default!(Option<bool>, "false"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(documents, i64),
            name!(chunks, i64),
            name!(bytes, i64),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_import_collection()", "import a collection")?;
    let open = || open_folder(required("path", path)?);
    Ok(TableIterator::once(import(open, name, with_sources)?))
}

/// Works on a standby, too: it reads files only.
#[pg_extern(volatile)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_bundle_info(
    path: Option<&str>,
    verify: pgrx::default!(Option<bool>, "false"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(description, Option<String>),
            name!(rag_version, String),
            name!(format_version, i32),
            name!(model, Option<String>),
            name!(dimensions, Option<i32>),
            name!(retriever, String),
            name!(index_type, String),
            name!(documents, i64),
            name!(errors, i64),
            name!(chunks, i64),
            name!(bytes, i64),
            name!(sources, Vec<String>),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(exported_at, TimestampWithTimeZone),
        ),
    >,
    ErrorReport,
> {
    roles::require_admin("read a bundle")?;
    let verify = required("verify", verify)?;
    let bundle = open_folder(required("path", path)?)?;
    let BundleInfo {
        metadata,
        created_at,
        updated_at,
        exported_at,
    } = bundle::read_info(&bundle, verify)?;
    let bytes = metadata.total_bytes() as i64;
    Ok(TableIterator::once((
        metadata.rag_name,
        metadata.settings.definition.description,
        metadata.rag_version,
        metadata.format_version as i32,
        metadata.model.map(|model| model.name),
        metadata
            .embedding_dimension
            .map(|dimensions| dimensions as i32),
        metadata.settings.definition.retriever,
        metadata.index_type,
        metadata.document_count as i64,
        metadata.error_count as i64,
        metadata.chunk_count as i64,
        bytes,
        metadata.dataset_info.sources,
        created_at,
        updated_at,
        exported_at,
    )))
}

/// Declared in `sql/bundles.sql`, because pgrx does not know the type `regclass`.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_import_blocks(
    blocks: Option<pg_sys::Oid>,
    name: Option<&str>,
    with_sources: Option<bool>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(documents, i64),
            name!(chunks, i64),
            name!(bytes, i64),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_import_blocks()", "import a collection")?;
    let open = || BlockTable::of(required("blocks", blocks)?);
    Ok(TableIterator::once(import(open, name, with_sources)?))
}
