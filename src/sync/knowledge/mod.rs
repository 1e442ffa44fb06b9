//! Knowledge items: `rag-engine ingest` fetches, extracts and splits them, as in a run. They are
//! embedded and stored as with `rag_add_document`.
//!
//! ```text
//! item ──▶ SourceSpec ──▶ rag-engine ingest ──▶ each document: embed, store
//!      ──▶ documents that the item no longer has: delete
//! ```
//!
//! A session indexes one item in its own transaction ([`index`]). All items of a collection are
//! indexed by a background worker, with one process and a transaction for each item ([`all`]).

pub mod all;
mod index;

use rag_definition::{labels, source::SourceSpec};
use rag_protocol::identity::DocumentId;
use serde_json::json;

pub use self::index::{KnowledgeResult, index};
use super::document;
use crate::{
    catalog::{
        collections::Collection,
        document_update, documents,
        knowledge::{self, KnowledgeItem, KnowledgeKind},
    },
    error::Error,
    pg::{
        roles::{self, Owner},
        spi::{OwnerRights, as_owner},
    },
    source::rights,
};

/// The arguments that describe an item. None means not given.
#[derive(Debug, Default)]
pub struct KnowledgeArguments<'a> {
    pub title: Option<&'a str>,
    pub uri: Option<&'a str>,
    pub document_type: Option<&'a str>,
    pub category: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub paths: Option<Vec<String>>,
}

impl KnowledgeArguments<'_> {
    /// Returns a new item.
    fn new_item(&self, id: i64) -> Result<KnowledgeItem, Error> {
        let uri = self.uri.ok_or_else(|| {
            Error::undefined(format!("knowledge item {id} does not exist")).hint(
                "The view rag.knowledge lists all items. Create one with \
                 rag_create_knowledge, or give a uri.",
            )
        })?;
        let item = KnowledgeItem {
            id,
            title: None,
            uri: uri.to_string(),
            kind: KnowledgeKind::Markdown,
            category: None,
            tags: None,
            paths: vec![],
            owner: Owner::current()?,
        };
        self.apply_to(&item)
    }

    /// Returns an item with these changes. A caller that changes where the item comes from becomes
    /// its owner.
    fn apply_to(&self, item: &KnowledgeItem) -> Result<KnowledgeItem, Error> {
        let own = |given: Option<&str>| given.map(|text| text.trim().to_string());
        let kind = self.document_type.map(kind_of_name).transpose()?;
        let kind = kind.unwrap_or(item.kind);
        let tags = self.tags.map(labels::split);
        document::checked_labels(self.category, tags.as_deref())?;
        let paths = match (kind, &self.paths) {
            (KnowledgeKind::Folder, Some(given)) => given.clone(),
            (KnowledgeKind::Folder, None) => item.paths.clone(),
            (_, Some(given)) if !given.is_empty() => {
                return Err(
                    Error::invalid_parameter("paths can only be given for a folder")
                        .detail(format!("The type of the item is {}.", kind.name())),
                );
            }
            _ => vec![],
        };
        let changes_origin = self.uri.is_some() || self.document_type.is_some();
        Ok(KnowledgeItem {
            id: item.id,
            title: own(self.title)
                .filter(|title| !title.is_empty())
                .or_else(|| item.title.clone()),
            uri: own(self.uri).unwrap_or_else(|| item.uri.clone()),
            kind,
            category: own(self.category).or_else(|| item.category.clone()),
            tags: tags
                .map(|tags| tags.join(","))
                .or_else(|| item.tags.clone()),
            paths,
            owner: if changes_origin {
                Owner::current()?
            } else {
                item.owner.clone()
            },
        })
    }
}

/// Registers an item, and returns it.
///
/// # Errors
/// The id is taken, an argument is invalid, or the caller may not read the item.
pub fn create(
    collection: &Collection,
    id: i64,
    arguments: &KnowledgeArguments<'_>,
) -> Result<KnowledgeItem, Error> {
    let item = arguments.new_item(id)?;
    check_rights(&item)?;
    if as_owner(|owner| knowledge::create(owner, collection.name.as_str(), &item))? {
        return Ok(item);
    }
    Err(
        Error::duplicate(format!("knowledge item {id} already exists"))
            .hint("Change it with rag_alter_knowledge, or index it with rag_index_knowledge."),
    )
}

/// Changes an item. A new title, category or tags apply to its documents at once. A new uri or type
/// applies when the item is indexed next.
///
/// # Errors
/// The item does not exist, an argument is invalid, or the caller may not read the item's uri.
pub fn alter(
    collection: &Collection,
    id: i64,
    arguments: &KnowledgeArguments<'_>,
) -> Result<(), Error> {
    let name = collection.name.as_str();
    let stored = as_owner(|owner| knowledge::lock(owner, name, id))?.ok_or_else(|| missing(id))?;
    let item = arguments.apply_to(&stored)?;
    if item == stored {
        return Ok(());
    }
    let is_outdated =
        item.uri != stored.uri || item.kind != stored.kind || item.paths != stored.paths;
    if item.owner != stored.owner || is_outdated {
        check_rights(&item)?;
    }
    as_owner(|owner| knowledge::update(owner, name, &item, is_outdated))?;
    let tags = arguments.tags.map(labels::split);
    let change = document_update::DocumentUpdate {
        title: item
            .title
            .clone()
            .filter(|_| item.kind != KnowledgeKind::Folder && item.title != stored.title),
        labels: document::checked_labels(arguments.category, tags.as_deref())?,
        metadata: None,
    };
    for (document, uri) in as_owner(|owner| knowledge::documents(owner, name, id))? {
        if document_id(name, id, &uri) == document {
            document::update_attributes(collection, document, &change)?;
        }
    }
    Ok(())
}

fn kind_of_name(name: &str) -> Result<KnowledgeKind, Error> {
    KnowledgeKind::parse(name).ok_or_else(|| {
        let valid = KnowledgeKind::ALL.map(KnowledgeKind::name).join(", ");
        Error::invalid_parameter(format!("unknown document_type \"{name}\""))
            .hint(format!("Types: {valid}."))
    })
}

fn missing(id: i64) -> Error {
    Error::undefined(format!("knowledge item {id} does not exist"))
        .hint("The view rag.knowledge lists all items. Create one with rag_create_knowledge.")
}

/// Checks that both the caller and the item's owner may read its uri, so that neither can read it
/// with the other's rights.
///
/// # Errors
/// One of them has no permission, or the owner does not exist.
fn check_rights(item: &KnowledgeItem) -> Result<(), Error> {
    let spec = spec(item)?;
    rights::check(&spec, roles::current())?;
    if item.owner.id == roles::current() {
        return Ok(());
    }
    let again = format!(
        "A role that may read the uri can give it again: rag_alter_knowledge({}, uri => ...).",
        item.id
    );
    if roles::name_of(item.owner.id).is_none() {
        let message = format!(
            "role \"{}\", which owns knowledge item {}, does not exist",
            item.owner.name, item.id
        );
        return Err(Error::undefined(message).hint(again));
    }
    let owned = format!(
        "Knowledge item {} is owned by role \"{}\", which needs the same permission.",
        item.id, item.owner.name
    );
    if !roles::has_privileges_of(item.owner.id, roles::ADMIN) {
        return Err(
            Error::permission_denied("permission denied to index knowledge")
                .detail(owned)
                .hint(again),
        );
    }
    rights::check(&spec, item.owner.id).map_err(|error| error.detail(owned).hint(again))
}

/// Returns the id of a document of an item. It differs from the ids of other items and of
/// `rag_add_document` with the same uri, because no source's name contains a space. `collection` is
/// what ids of the collection are made from.
pub fn document_id(collection: &str, item: i64, uri: &str) -> DocumentId {
    DocumentId::derive(collection, Some(&format!("knowledge {item}")), uri)
}

/// Deletes the documents of an item. Returns true if there were any.
///
/// # Errors
/// There is neither an item nor a document with the number.
pub fn unindex(collection: &str, id: i64) -> Result<bool, Error> {
    let deleted = as_owner(|owner| delete_documents(owner, collection, id))?;
    if deleted || as_owner(|owner| knowledge::exists(owner, collection, id))? {
        Ok(deleted)
    } else {
        Err(missing(id))
    }
}

fn delete_documents(owner: &OwnerRights, collection: &str, id: i64) -> Result<bool, Error> {
    let ids: Vec<DocumentId> = knowledge::documents(owner, collection, id)?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let deleted = documents::delete(owner, collection, &ids)?;
    knowledge::reset_to_pending(owner, collection, id)?;
    Ok(deleted > 0)
}

/// Deletes an item and its documents. Returns true if either existed.
pub fn remove(collection: &str, id: i64) -> Result<bool, Error> {
    as_owner(|owner| {
        let had_documents = delete_documents(owner, collection, id)?;
        Ok(knowledge::remove(owner, collection, id)? || had_documents)
    })
}

/// Returns the spec by which an item's documents are fetched.
fn spec(item: &KnowledgeItem) -> Result<SourceSpec, Error> {
    let uri = item.uri.as_str();
    let is_remote = uri.starts_with("http://") || uri.starts_with("https://");
    let (kind, spec) = match item.kind {
        KnowledgeKind::Markdown if !is_remote => ("markdown", json!({ "uri": uri })),
        KnowledgeKind::Folder => (
            "folder",
            json!({
                "path": uri.strip_prefix("file://").unwrap_or(uri),
                "paths": item.paths,
            }),
        ),
        _ => ("static", json!({ "endpoints": [uri] })),
    };
    SourceSpec::parse(kind, &spec)
        .map_err(|problems| Error::invalid_spec(&format!("knowledge item {}", item.id), &problems))
}
