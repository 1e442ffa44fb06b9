//! Manifests: apply, get, delete.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::name::canonical,
    collection::retriever,
    error::Error,
    source::{
        drop::drop_source,
        manifest::{self, ManifestKind},
    },
};

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_apply_manifest(
    manifest: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(kind, &'static str),
            name!(name, String),
            name!(action, &'static str),
        ),
    >,
    ErrorReport,
> {
    super::prevent_on_standby(c"rag_apply_manifest()");
    let text = required("manifest", manifest)?;
    if text.len() > rag_manifest::MAX_BYTES {
        return Err(Error::limit(format!(
            "manifest has {} bytes, and the limit is {}",
            text.len(),
            rag_manifest::MAX_BYTES
        ))
        .hint("Apply its documents in several calls.")
        .into());
    }
    let applied = manifest::apply(text)?;
    Ok(TableIterator::new(
        applied
            .into_iter()
            .map(|(kind, name, action)| (kind, name, action.name())),
    ))
}

#[pg_extern(stable)]
fn rag_get_manifest(
    kind: Option<&str>,
    name: pgrx::default!(Option<&str>, "NULL"),
) -> Result<JsonB, ErrorReport> {
    let kind = ManifestKind::parse(required("kind", kind)?)?;
    Ok(JsonB(match name {
        Some(name) => manifest::get(kind, canonical(name))?,
        None => manifest::list(kind)?,
    }))
}

#[pg_extern]
fn rag_delete_manifest(
    kind: &str,
    name: &str,
    keep_documents: pgrx::default!(bool, "true"),
) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_delete_manifest()");
    match ManifestKind::parse(kind)? {
        ManifestKind::AutoIndexer => Ok(drop_source(name, keep_documents)?),
        ManifestKind::Retriever => Ok(retriever::drop(canonical(name))?),
    }
}
