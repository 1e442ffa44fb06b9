//! Documents that are stored: they are changed, or removed.

use rag_protocol::identity::DocumentId;

use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
        document_update::{self, DocumentUpdate},
        documents, partitions,
    },
    collection::{corruption, rights},
    error::Error,
    pg::spi::as_owner,
    sync::chunk_metadata::chunk_metadata,
};

/// Changes title, labels and metadata of a document, not its text. Returns false if the document
/// does not exist.
///
/// # Errors
/// The caller has no permission, or the document belongs to a source or a knowledge item, which
/// would overwrite the change.
pub fn update(
    id: DocumentId,
    collection: Option<&str>,
    change: &DocumentUpdate,
) -> Result<bool, Error> {
    let Some(collection) = writable_with(id, collection)? else {
        return Ok(false);
    };
    let name = collection.name.as_str();
    let Some(document) = as_owner(|owner| documents::lock(owner, name, id))? else {
        return Ok(false);
    };
    let set_back = |what: String, hint: &str| {
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("document {id} belongs to {what}"),
        )
        .detail("A change made here would be overwritten when the document is indexed again.")
        .hint(hint)
    };
    if let Some(source) = &document.source {
        return Err(set_back(
            format!("source \"{source}\""),
            "Change the original, or give the source a category and tags: rag_alter_source(name, \
             spec => ...).",
        ));
    }
    if let Some(item) = document.knowledge_id
        && crate::sync::knowledge::document_id(&collection.ids_from, item, &document.uri) == id
    {
        return Err(set_back(
            format!("knowledge item {item}"),
            "Change the item: rag_alter_knowledge(knowledge_id, ...).",
        ));
    }
    update_attributes(&collection, id, change)?;
    Ok(true)
}

/// Updates the attributes of a document and of its chunks, if they differ.
///
/// # Errors
/// A statement fails.
pub fn update_attributes(
    collection: &Collection,
    id: DocumentId,
    change: &DocumentUpdate,
) -> Result<(), Error> {
    let name = collection.name.as_str();
    partitions::join_writers(name);
    corruption::write_with_repair(collection, || {
        as_owner(|owner| {
            // a rebuild may have changed it since the statement began
            let collection = Collection::get(name)?;
            let mut change = change.clone();
            if let (Some(new), true) = (&mut change.metadata, collection.detects_language())
                && !new.contains_key(rag_language::KEY)
                && let Some(language) =
                    document_update::stored_member(owner, name, id, rag_language::KEY)?
            {
                new.insert(rag_language::KEY.into(), language);
            }
            let of_chunks = change.metadata.as_ref();
            let of_chunks = of_chunks.map(|metadata| chunk_metadata(metadata, &collection));
            document_update::update(owner, name, id, &change, of_chunks)
        })
    })
}

/// Removes a document. Returns false if it does not exist.
///
/// # Errors
/// The caller has no permission.
pub fn remove(id: DocumentId, collection: Option<&str>) -> Result<bool, Error> {
    let Some(collection) = writable_with(id, collection)? else {
        return Ok(false);
    };
    let name = collection.name.as_str();
    let removed = corruption::write_with_repair(&collection, || {
        as_owner(|owner| documents::delete(owner, name, &[id]))
    })?;
    Ok(removed > 0)
}

/// Returns the collection that has a document of this id: the named one, or else the only one that
/// the caller can write to. Collections that the caller cannot read are not disclosed.
///
/// # Errors
/// The caller cannot write to the collection, or several have such a document.
fn writable_with(id: DocumentId, named: Option<&str>) -> Result<Option<Collection>, Error> {
    let mut found = vec![];
    for name in as_owner(|owner| documents::collections_of(owner, id))? {
        let collection = Collection::get(&name)?;
        let is_meant = named.is_none_or(|named| collection.is_known_as(named));
        if is_meant && access::has_privilege(&collection, CollectionPrivilege::Read) {
            found.push(collection);
        }
    }
    if found.len() > 1 {
        found.retain(|collection| access::has_privilege(collection, CollectionPrivilege::Write));
    }
    if found.len() > 1 {
        let names: Vec<String> = found
            .iter()
            .map(|collection| format!("\"{}\"", collection.name))
            .collect();
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_AMBIGUOUS_PARAMETER,
            format!("several collections have a document {id}"),
        )
        .detail(format!("They are {}.", names.join(", ")))
        .hint("Name the collection: collection => '...'."));
    }
    let Some(collection) = found.pop() else {
        return Ok(None);
    };
    rights::require_write(&collection)?;
    Ok(Some(collection))
}
