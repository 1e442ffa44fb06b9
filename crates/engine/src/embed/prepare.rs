//! Preparing one document that was put in directly: extract and split, no embedding yet.

use rag_document::{Extracted, Problem, own_title};
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{MAX_DOCUMENT, too_large},
    ingest::{Content, DocumentType, Splitting},
};

use super::tokens::ModelTokenizer;
use crate::extraction;

/// A document or text of more bytes is read and split in a process of its own, whatever its type:
/// that process can be ended at once where nobody waits any more.
const LARGE: usize = 256 << 10;

/// Gives the content and the extracted text. A `title` that is not blank takes the place of the
/// document's own. With a `name` the bytes are those of a file, without one they are a text in
/// UTF-8.
///
/// # Errors
/// `InvalidRequest` for an unknown type and for documents that cannot be read; `LimitExceeded` for
/// too large ones.
pub fn prepare(
    bytes: &[u8],
    document_type: Option<&str>,
    name: Option<&str>,
    title: Option<&str>,
    splitting: &Splitting,
    tokens: &ModelTokenizer,
    abandoned: &dyn Fn() -> bool,
) -> Result<(Content, String), EngineError> {
    let types = || {
        format!(
            "Types: {}.",
            DocumentType::ALL.map(DocumentType::name).join(", ")
        )
    };
    let document_type = match document_type {
        Some(given) => DocumentType::parse(given).ok_or_else(|| {
            EngineError::new(
                ErrorKind::InvalidRequest,
                format!("\"{given}\" is not a type of document"),
            )
            .hint(types())
        })?,
        None => {
            rag_document::document_type(name.unwrap_or_default(), None, bytes).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "this kind of file is not a document",
                )
                .hint(format!(
                    "Name its document_type where it is one. {}",
                    types()
                ))
            })?
        }
    };
    if bytes.len() > MAX_DOCUMENT {
        return Err(too_large(bytes.len()));
    }
    let mut extracted = extract(bytes, document_type, name, abandoned).map_err(into_error)?;
    // before the text is cut: the title takes room in each chunk
    if let Some(title) = title.and_then(own_title) {
        extracted.title = title;
    }
    let content = if extracted.text.len() > LARGE {
        extraction::split(&mut extracted, document_type, *splitting, tokens, abandoned)
    } else {
        rag_document::content(&extracted, document_type, splitting, tokens)
    };
    let content = content.map_err(into_error)?;
    Ok((content, extracted.text))
}

/// This process serves everybody: formats with a parser worth the name are read in a process of
/// their own.
fn extract(
    bytes: &[u8],
    document_type: DocumentType,
    name: Option<&str>,
    abandoned: &dyn Fn() -> bool,
) -> Result<Extracted, Problem> {
    // A text that was put in has no file name to take a title from.
    const NAME: &str = "untitled";
    // PostgreSQL has the text in UTF-8, whatever HTML says of itself.
    const MEDIA_TYPE: &str = "text/plain; charset=utf-8";
    let media_type = name.is_none().then_some(MEDIA_TYPE);
    let given_name = name.unwrap_or(NAME);
    let mut extracted = if extraction::needs_isolation(document_type) || bytes.len() > LARGE {
        extraction::isolated(bytes, document_type, given_name, media_type, abandoned)?
    } else {
        rag_document::extract(bytes, document_type, given_name, media_type)?
    };
    if name.is_none() {
        extracted.metadata.remove("encoding");
    }
    Ok(extracted)
}

fn into_error(problem: Problem) -> EngineError {
    let mut error = EngineError::new(ErrorKind::InvalidRequest, problem.message).detail(format!(
        "The document could not be processed in stage {}.",
        problem.stage.name()
    ));
    error.hint = problem.hint;
    error
}
