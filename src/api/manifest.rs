//! Manifests: apply, get, delete.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::{required, source::drop_source};
use crate::{
    catalog::name::canonical,
    source::manifest::{self, Kind},
};

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_apply(
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
    super::prevent_on_standby(c"rag_apply()");
    let applied = manifest::apply(required("manifest", manifest)?)?;
    Ok(TableIterator::new(
        applied
            .into_iter()
            .map(|(kind, name, action)| (kind, name, action.name())),
    ))
}

#[pg_extern(stable)]
fn rag_get(kind: &str, name: &str) -> Result<JsonB, ErrorReport> {
    Ok(JsonB(manifest::get(Kind::parse(kind)?, canonical(name))?))
}

#[pg_extern]
fn rag_delete(
    kind: &str,
    name: &str,
    keep_documents: pgrx::default!(bool, "true"),
) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_delete()");
    match Kind::parse(kind)? {
        Kind::AutoIndexer => Ok(drop_source(name, keep_documents)?),
        Kind::Retriever => Ok(manifest::drop_retriever(canonical(name))?),
    }
}
