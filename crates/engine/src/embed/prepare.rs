//! Preparing one document that was put in directly: extract and split, no embedding yet.

use rag_document::{Extracted, Problem, TokenCounter, own_title};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Content, DocumentType, Splitting},
};

use crate::extraction;

/// Largest document taken, in bytes.
const MAX_DOCUMENT: usize = 64 << 20;

/// Gives the content and the extracted text. A `title` that is not blank takes the place of the document's own.
///
/// # Errors
/// `InvalidRequest` for an unknown type and for documents that cannot be read; `LimitExceeded` for too large ones.
pub fn prepare(
    bytes: &[u8],
    document_type: &str,
    title: Option<&str>,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
    abandoned: &dyn Fn() -> bool,
) -> Result<(Content, String), EngineError> {
    let document_type = DocumentType::parse(document_type).ok_or_else(|| {
        EngineError::new(ErrorKind::InvalidRequest, format!("\"{document_type}\" is not a type of document"))
            .hint(format!("Types: {}.", DocumentType::ALL.map(DocumentType::name).join(", ")))
    })?;
    if bytes.len() > MAX_DOCUMENT {
        return Err(EngineError::new(ErrorKind::LimitExceeded, "the document is too large")
            .detail(format!("It has {} bytes; the limit is {MAX_DOCUMENT}.", bytes.len())));
    }
    let mut extracted = extract(bytes, document_type, abandoned).map_err(into_error)?;
    // before the text is cut: the title takes room in each chunk
    if let Some(title) = title.and_then(own_title) {
        extracted.title = title;
    }
    let content = rag_document::content(&extracted, document_type, splitting, tokens).map_err(into_error)?;
    Ok((content, extracted.text))
}

/// This process serves everybody: formats with a parser worth the name are read in a process of their own.
fn extract(bytes: &[u8], document_type: DocumentType, abandoned: &dyn Fn() -> bool) -> Result<Extracted, Problem> {
    // A document that was put in has no file name to take a title from.
    const NAME: &str = "untitled";
    // PostgreSQL has the text in UTF-8, whatever HTML says of itself.
    const MEDIA_TYPE: &str = "text/plain; charset=utf-8";
    let mut extracted = if extraction::needs_isolation(document_type) {
        extraction::isolated(bytes, document_type, NAME, Some(MEDIA_TYPE), abandoned)?
    } else {
        rag_document::extract(bytes, document_type, NAME, Some(MEDIA_TYPE))?
    };
    extracted.metadata.remove("encoding");
    Ok(extracted)
}

fn into_error(problem: Problem) -> EngineError {
    let mut error = EngineError::new(ErrorKind::InvalidRequest, problem.message)
        .detail(format!("The document could not be processed in stage {}.", problem.stage.name()));
    error.hint = problem.hint;
    error
}
