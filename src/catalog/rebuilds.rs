//! Rebuilds that have not ended: `rag_internal.rebuild`. All functions run as the extension's
//! owner.
//! `sync::rebuild` has the documents that they have copied.

use serde_json::Value;

use super::partitions::Partition;
use crate::{error::Error, pg::spi::OwnerRights};

/// Where a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Documents are copied.
    Copy,
    /// Indexes are created.
    Index,
    /// What has changed meanwhile is copied, and the storage is replaced.
    Swap,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Index => "index",
            Self::Swap => "swap",
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "index" => Self::Index,
            "swap" => Self::Swap,
            _ => Self::Copy,
        }
    }
}

pub struct Rebuild {
    /// The settings and the model that it is for.
    pub target: Value,
    /// The relation that is being filled.
    pub relation: Partition,
    pub stage: Stage,
}

pub fn find(owner: &OwnerRights, collection: &str) -> Result<Option<Rebuild>, Error> {
    // the latest version: another session may have dropped the collection
    let found = owner.execute_returning(
        "SELECT target, relation, stage FROM rag_internal.rebuild WHERE collection = $1 FOR UPDATE",
        &[collection.into()],
        |row| {
            Ok(Rebuild {
                target: row.required::<pgrx::JsonB>("target")?.0,
                relation: Partition::new(row.required::<String>("relation")?),
                stage: Stage::parse(&row.required::<String>("stage")?),
            })
        },
    )?;
    Ok(found.into_iter().next())
}

pub fn start(
    owner: &OwnerRights,
    collection: &str,
    target: Value,
    relation: &Partition,
) -> Result<(), Error> {
    owner.execute(
        "INSERT INTO rag_internal.rebuild (collection, target, relation, documents_total)
         SELECT $1, $2, $3, count(*) FROM rag.documents WHERE collection = $1",
        &[
            collection.into(),
            pgrx::JsonB(target).into(),
            relation.name().into(),
        ],
    )?;
    Ok(())
}

pub fn set_stage(owner: &OwnerRights, collection: &str, stage: Stage) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.rebuild SET stage = $2, current_uri = NULL WHERE collection = $1",
        &[collection.into(), stage.name().into()],
    )?;
    Ok(())
}

/// Adds to the counts that `rag.progress` shows.
pub fn note_progress(
    owner: &OwnerRights,
    collection: &str,
    chunks: usize,
    embedded: usize,
    uri: &str,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.rebuild
         SET chunks_written = chunks_written + $2, chunks_embedded = chunks_embedded + $3,
             current_uri = $4
         WHERE collection = $1",
        &[
            collection.into(),
            (chunks as i64).into(),
            (embedded as i64).into(),
            uri.into(),
        ],
    )?;
    Ok(())
}

/// Forgets a rebuild.
pub fn forget(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    for table in ["rag_internal.rebuild", "rag_internal.rebuilt_document"] {
        owner.execute(
            &format!("DELETE FROM {table} WHERE collection = $1"),
            &[collection.into()],
        )?;
    }
    Ok(())
}
