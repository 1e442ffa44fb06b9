//! Documents that are added directly, and the splitter.

use pgrx::{JsonB, Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::{identity::DocumentId, ingest::LINK_TARGETS};

use super::{parsed, required, without_nulls};
use crate::{
    catalog::{
        collections::Collection, document_update::DocumentUpdate, documents::DocumentAttributes,
        name::canonical,
    },
    collection::definition::splitting,
    engine::client::{DocumentInput, with_client},
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{json::JsonbText, spi::uuid as pg_uuid},
    search::retrieval::check_retriever,
    sync::document::{self, AddedDocument, Body, NewDocument},
};

/// The arguments of `rag_add_document` other than the content.
struct DocumentArguments<'a> {
    uri: Option<&'a str>,
    title: Option<&'a str>,
    document_type: Option<&'a str>,
    category: Option<&'a str>,
    tags: Option<Vec<Option<String>>>,
    knowledge_id: Option<i64>,
    metadata: Option<JsonB>,
    collection: Option<&'a str>,
    /// The retriever that the collection must have.
    retriever: Option<&'a str>,
}

type AddedRow = (bool, Uuid, i32, Option<String>, Option<String>, String);

impl DocumentArguments<'_> {
    /// Returns the document, and the collection, to which the caller may write.
    fn read(self, body: Body) -> Result<(NewDocument, Collection), Error> {
        let tags = without_nulls("tags", self.tags)?;
        let new = NewDocument {
            body,
            uri: document::checked_uri(required("uri", self.uri)?)?,
            title: self.title.map(document::checked_title).transpose()?,
            document_type: self
                .document_type
                .map(document::document_type)
                .transpose()?,
            attributes: DocumentAttributes {
                knowledge_id: self.knowledge_id,
                labels: document::checked_labels(self.category, tags.as_deref())?,
            },
            metadata: self
                .metadata
                .map(|json| document::checked_metadata(json.0))
                .transpose()?
                .unwrap_or_default(),
        };
        let collection = super::writable(self.collection)?;
        if let Some(retriever) = self.retriever {
            check_retriever(&collection, canonical(retriever))?;
        }
        Ok((new, collection))
    }

    /// Returns the id of the document in the queue.
    fn enqueue(self, body: Body) -> Result<i64, Error> {
        let (new, collection) = self.read(body)?;
        document::queue::enqueue(new, &collection)
    }

    fn add(self, body: Body) -> Result<AddedRow, Error> {
        let (new, collection) = self.read(body)?;
        let mut added = document::add(vec![new], collection)?;
        added
            .pop()
            .map(|added| row(added).1)
            .ok_or_else(|| Error::internal("no result for the document"))
    }
}

/// Returns the uri of an added document and its row of the result.
fn row(added: AddedDocument) -> (String, AddedRow) {
    let is_stored = added.action != document::AddAction::Failed;
    let action = added.action.name().to_string();
    (
        added.uri,
        (
            is_stored,
            pg_uuid(added.id.0),
            added.chunks,
            added.content_hash,
            added.error,
            action,
        ),
    )
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
    retriever: pgrx::default!(Option<&str>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(document_id, Uuid),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
            name!(action, String),
        ),
    >,
    ErrorReport,
> {
    super::prevent_on_standby(c"rag_add_document()");
    let body = given_text(content)?;
    let document_type = Some(required("document_type", document_type)?);
    let arguments = DocumentArguments {
        uri,
        title,
        document_type,
        category,
        tags,
        knowledge_id,
        metadata,
        collection,
        retriever,
    };
    Ok(TableIterator::once(arguments.add(body)?))
}

fn given_text(content: Option<&str>) -> Result<Body, Error> {
    let content = required("content", content)?;
    Error::check_memory(
        content.len(),
        "The text of the document requires more memory.",
    )?;
    Ok(Body::Text(content.to_string()))
}

#[pg_extern(name = "rag_add_document")]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_add_document_file(
    content: Option<&[u8]>,
    uri: Option<&str>,
    title: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    knowledge_id: pgrx::default!(Option<i64>, "NULL"),
    metadata: pgrx::default!(Option<JsonB>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    retriever: pgrx::default!(Option<&str>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(document_id, Uuid),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
            name!(action, String),
        ),
    >,
    ErrorReport,
> {
    super::prevent_on_standby(c"rag_add_document()");
    let body = Body::File(required("content", content)?.to_vec());
    let arguments = DocumentArguments {
        uri,
        title,
        document_type,
        category,
        tags,
        knowledge_id,
        metadata,
        collection,
        retriever,
    };
    Ok(TableIterator::once(arguments.add(body)?))
}

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_add_documents(
    documents: Option<JsonbText>,
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(uri, String),
            name!(success, bool),
            name!(document_id, Uuid),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
            name!(action, String),
        ),
    >,
    ErrorReport,
> {
    super::prevent_on_standby(c"rag_add_documents()");
    let documents = document::read_json(required("documents", parsed("documents", documents)?)?)?;
    let collection = super::writable(collection)?;
    let added = document::add(documents, collection)?;
    Ok(TableIterator::new(added.into_iter().map(|added| {
        let (uri, (success, id, chunks, hash, error, action)) = row(added);
        (uri, success, id, chunks, hash, error, action)
    })))
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_enqueue_document(
    content: Option<&str>,
    uri: Option<&str>,
    title: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "'markdown'"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    knowledge_id: pgrx::default!(Option<i64>, "NULL"),
    metadata: pgrx::default!(Option<JsonB>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<i64, ErrorReport> {
    super::prevent_on_standby(c"rag_enqueue_document()");
    let body = given_text(content)?;
    let document_type = Some(required("document_type", document_type)?);
    let arguments = DocumentArguments {
        uri,
        title,
        document_type,
        category,
        tags,
        knowledge_id,
        metadata,
        collection,
        retriever: None,
    };
    Ok(arguments.enqueue(body)?)
}

#[pg_extern(name = "rag_enqueue_document")]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_enqueue_document_file(
    content: Option<&[u8]>,
    uri: Option<&str>,
    title: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    knowledge_id: pgrx::default!(Option<i64>, "NULL"),
    metadata: pgrx::default!(Option<JsonB>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<i64, ErrorReport> {
    super::prevent_on_standby(c"rag_enqueue_document()");
    let body = Body::File(required("content", content)?.to_vec());
    let arguments = DocumentArguments {
        uri,
        title,
        document_type,
        category,
        tags,
        knowledge_id,
        metadata,
        collection,
        retriever: None,
    };
    Ok(arguments.enqueue(body)?)
}

#[pg_extern(strict)]
fn rag_dequeue_document(id: i64) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_dequeue_document()");
    Ok(document::queue::dequeue(id)?)
}

#[pg_extern]
fn rag_update_document(
    document_id: Option<Uuid>,
    collection: pgrx::default!(Option<&str>, "NULL"),
    title: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    metadata: pgrx::default!(Option<JsonB>, "NULL"),
) -> Result<bool, ErrorReport> {
    super::prevent_on_standby(c"rag_update_document()");
    let tags = without_nulls("tags", tags)?;
    let change = DocumentUpdate {
        title: title.map(document::checked_title).transpose()?,
        labels: document::checked_labels(category, tags.as_deref())?,
        metadata: metadata
            .map(|json| document::checked_metadata(json.0))
            .transpose()?,
    };
    Ok(document::update(
        document_id_of(required("document_id", document_id)?),
        collection,
        &change,
    )?)
}

fn document_id_of(id: Uuid) -> DocumentId {
    DocumentId(uuid::Uuid::from_bytes(*id.as_bytes()))
}

#[pg_extern]
fn rag_delete_document(
    document_id: Option<Uuid>,
    collection: pgrx::default!(Option<&str>, "NULL"),
) -> Result<Option<bool>, ErrorReport> {
    super::prevent_on_standby(c"rag_delete_document()");
    let id = document_id.map(document_id_of);
    Ok(id.map(|id| document::remove(id, collection)).transpose()?)
}

#[pg_extern(stable, parallel_restricted)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_split(
    content: &str,
    document_type: pgrx::default!(&str, "'markdown'"),
    chunk_size: pgrx::default!(i32, "1000"),
    chunk_overlap: pgrx::default!(i32, "200"),
    chunk_unit: pgrx::default!(&str, "'characters'"),
    metadata: pgrx::default!(JsonB, "'{}'"),
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
            name!(anchor, Option<String>),
            name!(metadata, JsonB),
        ),
    >,
    ErrorReport,
> {
    let document_type = Some(document::document_type(document_type)?);
    let splitting = splitting(chunk_size, chunk_overlap, chunk_unit)?;
    let given = document::checked_metadata(metadata.0)?;
    if content.trim().is_empty() {
        return Ok(TableIterator::new(vec![]));
    }
    let tokens = EmbeddingModel::default_model()?.token_source();
    let unprepared = DocumentInput {
        bytes: content.as_bytes(),
        document_type,
        ..Default::default()
    };
    let (split, text) = with_client(|client| client.prepare(&tokens, splitting, &unprepared))?;
    let mut metadata = split.metadata;
    metadata.remove(LINK_TARGETS);
    metadata.extend(given);
    let rows: Vec<_> = split
        .chunks
        .into_iter()
        .enumerate()
        .map(|(i, chunk)| {
            let content = chunk.content(chunk.piece(&text).unwrap_or_default());
            let (start, lines) = (
                chunk.start_index as i32,
                (chunk.start_line as i32, chunk.end_line as i32),
            );
            let page = chunk.page.map(|page| page as i32);
            (
                i as i32,
                start,
                content.into_owned(),
                lines.0,
                lines.1,
                page,
                chunk.heading_path,
                chunk.anchor,
                JsonB(metadata.clone().into()),
            )
        })
        .collect();
    Ok(TableIterator::new(rows))
}
