//! Inventories of applications: what they no longer have is deleted.

use std::collections::{HashMap, HashSet};

use rag_protocol::identity::{ChunkId, DocumentId};

use super::{lock, stored};
use crate::{
    catalog::{collections::Collection, documents},
    collection::corruption,
    error::Error,
    pg::spi::{OwnerRights, as_owner},
};

/// A document of an application's inventory.
#[derive(Debug)]
pub struct PlannedDocument {
    pub id: DocumentId,
    pub hash: String,
    pub chunks: HashSet<ChunkId>,
}

/// What a plan has done with the documents of the application.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlanResult {
    pub deleted: i64,
    pub changed: i64,
    pub unchanged: i64,
    /// The number of chunks of the documents that were deleted.
    pub deleted_chunks: i64,
    /// The number of planned chunks that are not stored.
    pub missing_chunks: i64,
}

/// Deletes the documents of the application that are not planned, and those with another hash.
///
/// A document that was stored before any plan has the hash of its content. The hashes of the others
/// are given to the documents that their chunks create.
///
/// # Errors
/// A planned document is one of a source or of `rag_add_document`.
pub fn apply_plan(
    collection: &Collection,
    planned: &[PlannedDocument],
) -> Result<PlanResult, Error> {
    corruption::write_with_repair(collection, || {
        as_owner(|owner| apply(owner, collection, planned))
    })
}

fn apply(
    owner: &OwnerRights,
    collection: &Collection,
    planned: &[PlannedDocument],
) -> Result<PlanResult, Error> {
    let ids: Vec<DocumentId> = planned.iter().map(|document| document.id).collect();
    lock(owner, collection, &ids)?;
    let documents = stored::lock_all(owner, collection)?;
    let ids: Vec<DocumentId> = documents.iter().map(|document| document.id).collect();
    let chunks = stored::ids_by_document(owner, collection, &ids)?;
    let none = HashSet::new();
    let chunks_of = |id: &DocumentId| chunks.get(id).unwrap_or(&none);

    let planned: HashMap<DocumentId, &PlannedDocument> = planned
        .iter()
        .map(|document| (document.id, document))
        .collect();
    let mut result = PlanResult::default();
    let (mut removed, mut kept) = (vec![], HashSet::new());
    for document in &documents {
        let id = document.id;
        match planned.get(&id) {
            None => {
                removed.push(id);
                result.deleted += 1;
            }
            Some(plan) if document.hash.as_deref() == Some(plan.hash.as_str()) => {
                kept.insert(id);
                result.unchanged += 1;
            }
            Some(_) => {
                removed.push(id);
                result.changed += 1;
            }
        }
    }
    let deleted_chunks = removed.iter().map(|id| chunks_of(id).len());
    result.deleted_chunks = deleted_chunks.sum::<usize>() as i64;
    documents::delete(owner, collection.name.as_str(), &removed)?;
    let announced = planned.iter().filter(|(id, _)| !kept.contains(id));
    let announced: Vec<_> = announced
        .map(|(id, plan)| (*id, plan.hash.as_str()))
        .collect();
    stored::announce(owner, collection, &announced)?;
    for (id, plan) in &planned {
        let stored = if kept.contains(id) {
            chunks_of(id)
        } else {
            &none
        };
        result.missing_chunks += plan.chunks.difference(stored).count() as i64;
    }
    Ok(result)
}
