//! Rebuilds of collections: other chunks, embeddings, indexes or partitions, from the stored texts.
//!
//! ```text
//!            copy                         index              swap
//! documents ──────▶ a relation that   ──▶ indexes ──▶ changed documents, then in one transaction:
//! and chunks        nobody reads yet      on it         attach it, adopt the wanted settings,
//!                                                       write documents, drop the former one
//! ```
//!
//! [`step`] does a part of it, which the procedure `rag_rebuild_collection` commits. Searches and
//! writes use the former storage until the last transaction. Whatever happens, the row in
//! `rag_internal.rebuild` and the documents in `rag_internal.rebuilt_document` say what is done,
//! and the next rebuild goes on from there. With other wanted settings or another model
//! ([`target`]) it begins again.
//!
//! **What is copied.** Chunks that were made by the wanted settings and model are copied as they
//! are. Other texts are split again ([`documents`]), and what is not embedded yet is embedded.
//! Chunks of an application stay, and are embedded again if the model is another one.
//!
//! **Concurrent changes.** A transaction that changes chunks writes the row of their document, too.
//! So a document whose row has another version than the copied one is copied again. The last
//! transaction waits for all writers, and locks the row of the collection FOR UPDATE: they wait
//! ([`partitions`](crate::catalog::partitions)), and nothing changes after the last comparison.
//!
//! **Locks.** Attaching and dropping partitions needs ACCESS EXCLUSIVE on `rag.chunks`. A session
//! that waits for it blocks all searches. So it is tried for a moment, and everything is given up
//! and tried again, for as long as `rag.lock_timeout`. Then the rebuild fails, and what is built
//! stays. A search that has read the former name of the partition finds that it does not exist, and
//! begins again with a new snapshot ([`crate::search`]). A relation that becomes a partition that
//! others may join gets its name at last. If others are there already, its rows are copied to them,
//! and the lock comes after that. It is not needed if others share the former partition, too.

mod copies;
mod documents;
mod swap;
mod target;

use std::cell::RefCell;

use pgrx::PgSqlErrorCode;
use rag_protocol::identity::DocumentId;

use self::target::Target;
use crate::{
    catalog::{
        collections::Collection,
        partitions::{self, Partition},
        rebuilds::{self, Rebuild, Stage},
    },
    cluster::{
        lock::Lock,
        operation_stats::{CountedOperation, Operation},
    },
    collection::{index, keyword_index, partition, placement, rights},
    error::Error,
    pg::{
        disk_space,
        spi::{OwnerRights, as_owner},
        transaction::{self, TransactionEnd, snapshot_is_fixed},
    },
};

/// The rebuild that this session does.
struct Session {
    collection: String,
    lock: Lock,
    progress: Progress,
}

/// What the session knows of the rebuild from its earlier transactions.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// Nothing.
    New,
    /// The documents up to this one are copied, or have been looked at.
    Copying(Option<DocumentId>),
    /// The storage is being replaced.
    Swapping(swap::Attempts),
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Ends the session's rebuild when a transaction fails.
fn at_end(end: TransactionEnd) {
    if end == TransactionEnd::Abort {
        release();
    }
}

fn release() {
    if let Some(session) = SESSION.take() {
        session.lock.release();
    }
}

/// Checks that the caller may rebuild a collection.
///
/// # Errors
/// It does not exist, the caller does not own it, or the transaction would not see what others
/// write.
pub fn check(name: &str) -> Result<Collection, Error> {
    let collection = Collection::get(name)?;
    rights::require_owner(&collection, "rebuild collection")?;
    if !snapshot_is_fixed() {
        return Ok(collection);
    }
    // documents that are written after the snapshot would be lost
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        "cannot rebuild a collection in a transaction with a fixed snapshot",
    )
    .detail("The rebuild would not see what others write meanwhile.")
    .hint("Use isolation level READ COMMITTED."))
}

/// Does the next part of a rebuild, in the current transaction. Returns false after the last part.
///
/// # Errors
/// Another session rebuilds the collection, the engine is unavailable, the disk is too small, or a
/// statement fails.
pub fn step(name: &str) -> Result<bool, Error> {
    check(name)?;
    advance_rebuild(name)
}

/// Does the next step for a caller that may do it, such as a run that heals a damaged table.
///
/// # Errors
/// See [`step`].
pub fn advance_rebuild(name: &str) -> Result<bool, Error> {
    let collection = Collection::get(name)?;
    let counted = CountedOperation::begin(Operation::Rebuild, name, 1);
    let has_more = advance_uncounted(collection)?;
    match has_more {
        true => counted.pause(),
        false => counted.succeed(),
    }
    Ok(has_more)
}

fn advance_uncounted(collection: Collection) -> Result<bool, Error> {
    let name = collection.name.clone();
    let name = name.as_str();
    let progress = begin(name)?;
    let Some(target) = Target::of(collection)? else {
        pgrx::notice!("collection \"{name}\" has no chunks: there is nothing to rebuild");
        release();
        return Ok(false);
    };
    // before the row of the rebuild, as rag_drop_collection does
    partitions::join_writers(name);
    let next = as_owner(|owner| {
        let known = rebuilds::find(owner, name)?;
        let rebuild = match (known, progress) {
            (Some(rebuild), _) if target.is_of(&rebuild) && rebuild.relation.oid().is_some() => {
                rebuild
            }
            // it was dropped, or another session changed the settings
            (None, Progress::Copying(_) | Progress::Swapping(_)) => {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("the rebuild of collection \"{name}\" was ended by another session"),
                ));
            }
            _ => {
                start(owner, &target)?;
                return Ok(Some(Progress::Copying(None)));
            }
        };
        if let Progress::New = progress {
            pgrx::notice!(
                "an earlier rebuild of collection \"{name}\" was interrupted: what it has built is \
                 used"
            );
            copies::delete_unrecorded(owner, name, &rebuild.relation)?;
            return Ok(Some(Progress::Copying(None)));
        }
        advance(owner, &target, &rebuild, progress)
    })?;
    match next {
        Some(progress) => SESSION.with_borrow_mut(|session| {
            if let Some(session) = session {
                session.progress = progress;
            }
        }),
        None => release(),
    }
    Ok(next.is_some())
}

/// Returns the progress of this session's rebuild. A new one takes the lock.
fn begin(name: &str) -> Result<Progress, Error> {
    let known = SESSION.with_borrow(|session| {
        let session = session.as_ref()?;
        (session.collection == name).then_some(session.progress)
    });
    if let Some(progress) = known {
        return Ok(progress);
    }
    release();
    let lock = Lock::rebuild(name);
    if !lock.try_acquire() {
        return Err(Error::in_use(format!(
            "collection \"{name}\" is being rebuilt by another session"
        ))
        .hint("The view rag.progress shows how far it is."));
    }
    transaction::on_end(at_end);
    SESSION.set(Some(Session {
        collection: name.to_owned(),
        lock,
        progress: Progress::New,
    }));
    Ok(Progress::New)
}

fn advance(
    owner: &OwnerRights,
    target: &Target,
    rebuild: &Rebuild,
    progress: Progress,
) -> Result<Option<Progress>, Error> {
    let name = target.wanted().name.as_str();
    match (rebuild.stage, progress) {
        (Stage::Swap, progress) => {
            if target.has_own_relation(owner)? && lacks_index(owner, target, &rebuild.relation)? {
                create_index(owner, target, &rebuild.relation)?;
                return Ok(Some(progress));
            }
            let attempts = match progress {
                Progress::Swapping(attempts) => attempts,
                _ => swap::Attempts::default(),
            };
            let failed = swap::attempt(owner, target, rebuild, attempts)?;
            Ok(failed.map(Progress::Swapping))
        }
        (Stage::Index, _) => {
            // those of a partition of others exist
            if !target.has_own_relation(owner)? || !create_index(owner, target, &rebuild.relation)?
            {
                rebuilds::set_stage(owner, name, Stage::Swap)?;
            }
            Ok(Some(progress))
        }
        (Stage::Copy, progress) => {
            let after = match progress {
                Progress::Copying(after) => after,
                _ => None,
            };
            let last = documents::copy_some(owner, target, &rebuild.relation, after)?;
            if last.is_none() {
                partition::set_compresses(owner, &rebuild.relation, true)?;
                rebuilds::set_stage(owner, name, Stage::Index)?;
            }
            Ok(Some(Progress::Copying(last)))
        }
    }
}

/// Creates the relation to fill. What an earlier rebuild for other settings has built is dropped.
fn start(owner: &OwnerRights, target: &Target) -> Result<(), Error> {
    let name = target.wanted().name.as_str();
    // it is not dropped meanwhile
    partitions::of_writer(owner, name)?.ok_or_else(|| Collection::missing(name))?;
    placement::check_wanted(target.wanted())?;
    partition::discard_rebuild(owner, name)?;
    let relation = target.new_relation(owner)?;
    let rows_of = target.partition_of(&relation);
    let only = (!target.joins_shared()).then_some(name);
    partition::create_detached(
        owner,
        &relation,
        &rows_of,
        only,
        target.indexer.model.dimensions,
    )?;
    partition::set_compresses(owner, &relation, target.changes_texts())?;
    check_space(owner, target, &relation)?;
    rebuilds::start(owner, name, target.description.clone(), &relation)
}

/// Compares the size of the present storage with what the disk of the new one has.
fn check_space(owner: &OwnerRights, target: &Target, relation: &Partition) -> Result<(), Error> {
    let Some(present) = target.present.partition_oid() else {
        return Ok(());
    };
    let sizes = owner.query(
        "SELECT pg_total_relation_size($1::regclass) AS bytes,
                regexp_replace(pg_relation_filepath($2::regclass), '/[^/]*$', '') AS folder",
        &[present.into(), relation.oid().into()],
        |row| {
            Ok((
                row.required::<i64>("bytes")?,
                row.required::<String>("folder")?,
            ))
        },
    )?;
    let Some((bytes, folder)) = sizes.into_iter().next() else {
        return Ok(());
    };
    let share = target.share_of_partition(owner)?;
    let needed = (bytes as f64 * share) as u64;
    let purpose = format!("rebuild collection \"{}\"", target.wanted().name);
    disk_space::require_in(folder.as_ref(), needed, &purpose)
}

/// Returns true if a relation lacks an index that searches use.
fn lacks_index(owner: &OwnerRights, target: &Target, partition: &Partition) -> Result<bool, Error> {
    let Some(relation) = partition.oid() else {
        return Ok(false);
    };
    Ok(keyword_index::is_missing(target.wanted(), relation)
        || !index::missing(owner, target.wanted(), partition, relation)?.is_empty())
}

/// Creates one of the missing indexes. Returns false if there is none.
fn create_index(
    owner: &OwnerRights,
    target: &Target,
    partition: &Partition,
) -> Result<bool, Error> {
    let Some(relation) = partition.oid() else {
        return Ok(false);
    };
    if target.has_given_chunks(owner)? && index::create_for_given_chunks_on(owner, partition)? {
        return Ok(true);
    }
    if keyword_index::is_missing(target.wanted(), relation) {
        keyword_index::create(owner, target.wanted(), partition)?;
        return Ok(true);
    }
    let missing = index::missing(owner, target.wanted(), partition, relation)?;
    if let Some(index) = missing.first() {
        owner.execute(
            &format!("CREATE INDEX ON {} {index}", partition.qualified()),
            &[],
        )?;
        return Ok(true);
    }
    // autovacuum does the same for the texts, which take as long as all else together
    let columns = documents::columns(owner, &["content"])?.join(", ");
    let table = partition.qualified();
    owner.execute(&format!("ANALYZE {table} (partition, {columns})"), &[])?;
    Ok(false)
}
