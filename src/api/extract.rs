//! `rag_extract`.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::ingest::LINK_TARGETS;

use super::required;
use crate::{
    collection::definition::splitting,
    engine::client::{DocumentInput, with_client},
    models::embedding::EmbeddingModel,
    sync::document,
};

/// The metadata key of what may have been lost, which is a column here.
const WARNINGS: &str = "warnings";

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_extract(
    content: Option<&[u8]>,
    document_type: pgrx::default!(Option<&str>, "NULL"),
    uri: pgrx::default!(Option<&str>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(document_type, String),
            name!(title, String),
            name!(content, String),
            name!(metadata, JsonB),
            name!(warnings, Vec<String>),
        ),
    >,
    ErrorReport,
> {
    let input = DocumentInput {
        bytes: required("content", content)?,
        document_type: document_type.map(document::document_type).transpose()?,
        name: Some(uri.unwrap_or_default()),
        title: None,
    };
    let tokens = EmbeddingModel::default_model()?.token_source();
    let splitting = splitting(1000, 0, "characters")?;
    let (extracted, text) = with_client(|client| client.prepare(&tokens, splitting, &input))?;
    let mut metadata = extracted.metadata;
    metadata.remove(LINK_TARGETS);
    metadata.remove(WARNINGS);
    let warnings = extracted.warnings.into_iter();
    Ok(TableIterator::once((
        extracted.document_type.name().to_owned(),
        extracted.title.text,
        text,
        JsonB(metadata.into()),
        warnings.map(|warning| warning.message).collect(),
    )))
}
