//! Prepares one document that was added directly: extracts and splits it, without embedding. Splits
//! a stored text again.

use rag_definition::DocumentType;
use rag_document::{DocumentError, ExtractedDocument, Structure, own_title};
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{MAX_DOCUMENT, StoredText, too_large},
    ingest::{Content, Splitting},
};

use super::counter::ChunkCounter;
use crate::extraction;

/// Size in bytes above which a document or text is read and split in a separate process, whatever
/// its type. That process can be stopped at once if the result is no longer wanted.
const ISOLATED_BYTES: usize = 256 << 10;

/// Returns the content and the extracted text. A `title` that is not blank replaces the document's
/// own. With a `name` the bytes are those of a file, without one they are a text in UTF-8.
///
/// # Errors
/// `InvalidRequest` for an unknown type and for documents that cannot be read; `LimitExceeded` for
/// documents that are too large.
pub fn prepare(
    bytes: &[u8],
    document_type: Option<&str>,
    name: Option<&str>,
    title: Option<&str>,
    splitting: &Splitting,
    tokens: &ChunkCounter,
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
                format!("\"{given}\" is not a document type"),
            )
            .hint(types())
        })?,
        None => {
            rag_document::document_type(name.unwrap_or_default(), None, bytes).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "files of this type are not documents",
                )
                .hint(format!(
                    "If the file is a document, specify document_type. {}",
                    types()
                ))
            })?
        }
    };
    if bytes.len() > MAX_DOCUMENT {
        return Err(too_large(bytes.len()));
    }
    let mut extracted = extract(bytes, document_type, name, abandoned).map_err(into_error)?;
    // Before the text is split: the title takes room in each chunk.
    if let Some(title) = title.and_then(own_title) {
        extracted.title = title;
    }
    let content = split(&mut extracted, document_type, splitting, tokens, abandoned)?;
    Ok((content, extracted.text))
}

/// Splits a text that was extracted before. With the same settings the chunks are the same.
///
/// # Errors
/// `InvalidRequest` for texts that cannot be split; `LimitExceeded` for those that are too large.
pub fn split_stored(
    text: String,
    stored: StoredText,
    splitting: &Splitting,
    tokens: &ChunkCounter,
    abandoned: &dyn Fn() -> bool,
) -> Result<Content, EngineError> {
    if text.len() > MAX_DOCUMENT {
        return Err(too_large(text.len()));
    }
    let document_type = stored.document_type;
    let mut extracted = match document_type {
        // the boundaries of its elements are not stored
        DocumentType::Code => {
            let name = stored.name.as_deref().unwrap_or(NAME);
            let media_type = Some(MEDIA_TYPE);
            extraction::isolated(text.as_bytes(), document_type, name, media_type, abandoned)
                .map_err(into_error)?
        }
        _ => {
            let structure = Structure::of_extracted(&text, document_type);
            ExtractedDocument::new(text, stored.title.clone(), structure)
        }
    };
    extracted.title = stored.title;
    extracted.lines_before = stored.lines_before;
    extracted.restore_anchors(&stored.anchors, document_type);
    extracted.metadata.clear();
    extracted.warnings.clear();
    split(&mut extracted, document_type, splitting, tokens, abandoned)
}

fn split(
    extracted: &mut ExtractedDocument,
    document_type: DocumentType,
    splitting: &Splitting,
    tokens: &ChunkCounter,
    abandoned: &dyn Fn() -> bool,
) -> Result<Content, EngineError> {
    let content = if extracted.text.len() > ISOLATED_BYTES {
        extraction::split(extracted, document_type, *splitting, tokens, abandoned)
    } else {
        rag_document::content(extracted, document_type, splitting, tokens)
    };
    content.map_err(into_error)
}

/// A text that was added directly has no file name to take a title from.
const NAME: &str = "untitled";
/// PostgreSQL sends the text in UTF-8, whatever HTML declares.
const MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// Extracts a document. This process serves all sessions, so formats with a complex parser are read
/// in a separate process.
fn extract(
    bytes: &[u8],
    document_type: DocumentType,
    name: Option<&str>,
    abandoned: &dyn Fn() -> bool,
) -> Result<ExtractedDocument, DocumentError> {
    let media_type = name.is_none().then_some(MEDIA_TYPE);
    let given_name = name.unwrap_or(NAME);
    let mut extracted =
        if extraction::needs_isolation(document_type) || bytes.len() > ISOLATED_BYTES {
            extraction::isolated(bytes, document_type, given_name, media_type, abandoned)?
        } else {
            rag_document::extract(bytes, document_type, given_name, media_type)?
        };
    if name.is_none() {
        extracted.metadata.remove("encoding");
    }
    Ok(extracted)
}

fn into_error(problem: DocumentError) -> EngineError {
    let mut error = EngineError::new(ErrorKind::InvalidRequest, problem.message).detail(format!(
        "The document could not be processed in stage {}.",
        problem.stage.name()
    ));
    error.hint = problem.hint;
    error
}
