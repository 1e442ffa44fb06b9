//! Documents put in directly, and the splitter for a look at what it does.

use pgrx::{JsonB, Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::{identity::DocumentId, ingest::DocumentType};
use serde_json::{Map, Value};

use super::required;
use crate::{
    catalog::{
        collections::{self, Collection},
        documents,
        embedding_index::{self, Writers},
    },
    engine::client::{Client, with_client},
    error::Error,
    indexing::{Attributes, PreparedDocument, Stored},
    settings,
};

fn document_type(name: &str) -> Result<DocumentType, Error> {
    DocumentType::parse(name).ok_or_else(|| {
        let names: Vec<_> = DocumentType::ALL.iter().map(|t| t.name()).collect();
        Error::invalid_parameter(format!("unknown document_type \"{name}\""))
            .hint(format!("Types: {}.", names.join(", ")))
    })
}

/// What `rag_add_document` is given.
struct NewDocument {
    content: String,
    uri: String,
    title: Option<String>,
    document_type: DocumentType,
    attributes: Attributes,
    metadata: Map<String, Value>,
}

impl NewDocument {
    /// Extracts, splits, embeds and stores it, in the present transaction.
    fn index(self, client: &mut Client, id: DocumentId, collection: &Collection) -> Result<(String, Stored), Error> {
        let model = settings::model(None)?;
        let (info, mut content, text) = client.prepare(
            &model,
            self.document_type,
            collection.splitting,
            self.title.as_deref(),
            self.content.as_bytes(),
        )?;
        collection.check_model(&info)?;
        if !content.title.own {
            content.title.text = last_part(&self.uri).to_string();
        }
        content.metadata.extend(self.metadata);
        let content_hash = content.content_hash.clone();
        let document = PreparedDocument {
            id,
            source: None,
            uri: self.uri,
            raw_hash: None,
            validator: None,
            text,
            content,
            attributes: self.attributes,
        };
        let stored = document.embed_and_store(client, &model, &info, collection)?;
        embedding_index::make_if_it_pays(collection, Writers::LeaveToNext)?;
        Ok((content_hash, stored))
    }
}

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_add_document(
    content: Option<&str>,
    uri: Option<&str>,
    title: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "'markdown'"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    knowledge_id: pgrx::default!(Option<i64>, "NULL"),
    metadata: pgrx::default!(Option<JsonB>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(document_id, Uuid),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_add_document()", "add a document")?;
    let (content, uri) = (required("content", content)?, required("uri", uri)?);
    let document_type = self::document_type(required("document_type", document_type)?)?;
    let tags = super::without_nulls("tags", tags)?;
    if uri.trim().is_empty() {
        return Err(Error::invalid_parameter("uri must not be empty").into());
    }
    let title = match title.map(str::trim) {
        Some("") => return Err(Error::invalid_parameter("title must not be empty").hint("Leave it NULL.").into()),
        Some(title) if title.chars().count() > MAX_TITLE => {
            return Err(Error::invalid_parameter(format!("title must have at most {MAX_TITLE} characters")).into());
        }
        title => title.map(String::from),
    };
    let metadata = match metadata.map(|json| json.0) {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(Error::invalid_parameter("metadata must be a JSON object").into()),
    };
    let collection = Collection::get(required("collection", collection)?)?;
    let id = DocumentId::derive(collection.name.as_str(), None, uri);
    let new = NewDocument {
        content: content.to_string(),
        uri: uri.to_string(),
        title,
        document_type,
        attributes: Attributes { knowledge_id, category: category.map(String::from), tags },
        metadata,
    };
    let row = match with_client(|client| new.index(client, id, &collection)) {
        Ok((content_hash, stored)) => (true, stored.chunks as i32, Some(content_hash), None),
        Err(error) if is_about_content(&error) => {
            documents::fail(id, collection.name.as_str(), None, uri, Some(document_type.name()), &error.message, true)?;
            (false, 0, None, Some(error.message))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(TableIterator::once((row.0, crate::catalog::uuid(id.0), row.1, row.2, row.3)))
}

/// What a document is called that does not say it itself: the end of its uri.
fn last_part(uri: &str) -> &str {
    uri.rsplit(['/', '#', ':']).find(|part| !part.trim().is_empty()).unwrap_or(uri)
}

/// Most characters of a title, as for those that are found in documents: it goes before every chunk.
const MAX_TITLE: usize = 200;

/// Whether an error says that this content cannot be indexed, rather than that nothing can be now.
fn is_about_content(error: &Error) -> bool {
    error.code == pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE
}

#[pg_extern]
fn rag_remove_document(document_id: Uuid) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_remove_document()", "remove a document")?;
    let Some(collection) = documents::collection_of(document_id)? else { return Ok(false) };
    let id = DocumentId(uuid::Uuid::from_bytes(*document_id.as_bytes()));
    Ok(documents::delete(&collection, &[id])? > 0)
}

#[pg_extern(stable, parallel_restricted)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_split(
    content: &str,
    document_type: pgrx::default!(&str, "'markdown'"),
    chunk_size: pgrx::default!(i32, "1000"),
    chunk_overlap: pgrx::default!(i32, "200"),
    chunk_unit: pgrx::default!(&str, "'characters'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(chunk_index, i32),
            name!(start_index, i32),
            name!(content, String),
            name!(start_line, i32),
            name!(end_line, i32),
            name!(page, Option<i32>),
            name!(heading_path, Vec<String>),
        ),
    >,
    ErrorReport,
> {
    let document_type = self::document_type(document_type)?;
    let splitting = collections::checked_splitting(Some(chunk_size), Some(chunk_overlap), chunk_unit)?;
    let model = settings::model(None)?;
    let (_, split, text) =
        with_client(|client| client.prepare(&model, document_type, splitting, None, content.as_bytes()))?;
    let rows: Vec<_> = split
        .chunks
        .into_iter()
        .enumerate()
        .map(|(i, chunk)| {
            let piece = text.get(chunk.byte_start..chunk.byte_start + chunk.byte_len).unwrap_or_default();
            let (start, lines) = (chunk.start_index as i32, (chunk.start_line as i32, chunk.end_line as i32));
            let page = chunk.page.map(|page| page as i32);
            (i as i32, start, piece.to_string(), lines.0, lines.1, page, chunk.heading_path)
        })
        .collect();
    Ok(TableIterator::new(rows))
}
