//! Replaces the storage of a collection by the one that was built.

use std::time::Duration;

use pgrx::PgSqlErrorCode;
use rag_protocol::identity::DocumentId;

use super::{copies, documents, lacks_index, target::Target};
use crate::{
    catalog::{
        collections::{self, Collection},
        partitions::{self, Partition},
        rebuilds::{self, Rebuild},
    },
    collection::{partition, placement},
    error::{Cause, Error},
    pg::{
        guc::with_settings,
        lock::Lock,
        spi::OwnerRights,
        transaction::{read_without_keeping_locks, subtransaction_kept_if},
        wait::sleep,
    },
    settings,
    storage::Storage,
};

/// The number of changed documents that are copied while writers wait. More are copied before.
const LAST_DOCUMENTS: usize = 50;
/// The number of rounds after which they are copied in any case. The documents that change during
/// a round are fewer in the next one.
const MAX_ROUNDS: u32 = 10;
/// How long an attempt waits for a lock. All searches of the database wait as long.
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// How long an attempt waits for the writers of the collection. Others that want to write wait as
/// long.
const WRITERS_WAIT: Duration = Duration::from_millis(500);
/// The interval between two attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(200);

/// Why an attempt has not replaced the storage, and is repeated.
enum RetryReason {
    /// Changed documents were copied. The next attempt looks for more.
    Changes,
    /// Other transactions hold locks.
    Locks,
}

/// What was done before an attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    /// How often all changed documents were copied.
    rounds: u32,
    /// In a round, the last document that was copied.
    after: Option<DocumentId>,
    /// The number of attempts that others have kept from a lock.
    locked: u32,
}

impl Attempts {
    /// Returns true if changed documents are copied while writers wait, however many there are.
    fn is_last_round(self) -> bool {
        self.rounds >= MAX_ROUNDS
    }

    /// Returns true if others have held locks for longer than `rag.lock_timeout`.
    fn has_timed_out(self) -> bool {
        let limit = settings::lock_timeout();
        !limit.is_zero() && (LOCK_WAIT + ATTEMPT_INTERVAL) * self.locked > limit
    }
}

/// Copies some of what has changed since, or replaces the storage unless others hold locks. Returns
/// None if it is replaced.
///
/// # Errors
/// Others have held locks for longer than `rag.lock_timeout`; or a statement fails.
pub fn attempt(
    owner: &OwnerRights,
    target: &Target,
    rebuild: &Rebuild,
    attempts: Attempts,
) -> Result<Option<Attempts>, Error> {
    if let Some(next) = copy_changes(owner, target, rebuild, attempts)? {
        return Ok(Some(next));
    }
    if attempts.locked > 0 {
        sleep(ATTEMPT_INTERVAL);
    }
    // what it has locked and written is rolled back if something keeps it from its end
    let replaced = subtransaction_kept_if(Option::is_none, || {
        replace(owner, target, rebuild, attempts)
    });
    let reason = match replaced {
        Ok(None) => return Ok(None),
        Ok(Some(reason)) => reason,
        Err(error) if error.is(Cause::Locked) => RetryReason::Locks,
        Err(error) => return Err(error),
    };
    Ok(Some(match reason {
        RetryReason::Changes => Attempts {
            rounds: attempts.rounds + 1,
            ..attempts
        },
        RetryReason::Locks if attempts.has_timed_out() => return Err(give_up(target)),
        RetryReason::Locks => Attempts {
            locked: attempts.locked + 1,
            ..attempts
        },
    }))
}

fn give_up(target: &Target) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
        format!(
            "could not replace the storage of collection \"{}\"",
            target.wanted().name
        ),
    )
    .detail(format!(
        "Other transactions have used rag.chunks or the collection for longer than \
         rag.lock_timeout, {} ms. The former storage is still in use.",
        settings::lock_timeout().as_millis()
    ))
    .hint(
        "End long transactions, such as pg_dump, and call rag_rebuild_collection again. What it \
         has built is used.",
    )
}

/// Copies some of the documents that have changed since, if they are many. Returns None if they are
/// few.
fn copy_changes(
    owner: &OwnerRights,
    target: &Target,
    rebuild: &Rebuild,
    attempts: Attempts,
) -> Result<Option<Attempts>, Error> {
    if attempts.is_last_round() {
        return Ok(None);
    }
    if attempts.after.is_none() {
        let name = target.wanted().name.as_str();
        copies::remove_vanished(owner, name, &rebuild.relation)?;
        let changed = documents::pending(owner, target, None, LAST_DOCUMENTS as i64 + 1)?;
        if changed.len() <= LAST_DOCUMENTS && !documents::needs_model(target, &changed) {
            return Ok(None);
        }
    }
    let after = documents::copy_some(owner, target, &rebuild.relation, attempts.after)?;
    let rounds = attempts.rounds + u32::from(after.is_none());
    Ok(Some(Attempts {
        rounds,
        after,
        ..attempts
    }))
}

/// Replaces the storage. Returns what keeps it from that, and then is to be rolled back.
fn replace(
    owner: &OwnerRights,
    target: &Target,
    rebuild: &Rebuild,
    attempts: Attempts,
) -> Result<Option<RetryReason>, Error> {
    let name = target.wanted().name.as_str();
    waiting_for(WRITERS_WAIT, || {
        Lock::writers(name).acquire_for_transaction();
    });
    waiting_for(LOCK_WAIT, || {
        let relation = &rebuild.relation;
        // writers hold it in share mode: see catalog::partitions
        let former = owner.execute_returning(
            "SELECT partition FROM rag_internal.collection WHERE name = $1 FOR UPDATE",
            &[name.into()],
            |row| row.get::<String>("partition"),
        )?;
        let unchanged = Target::of(Collection::get(name)?)?.is_some_and(|now| now.is_of(rebuild));
        if former.is_empty() || !unchanged {
            return Ok(Some(RetryReason::Changes));
        }
        // what follows may take long, and would be lost
        let is_alone = placement::is_alone(owner, &target.present)?;
        let dropped = target.present.partition.as_ref().filter(|_| is_alone);
        let needs_lock = target.has_own_relation(owner)? || dropped.is_some();
        if needs_lock && !is_lock_free(owner, dropped)? {
            return Ok(Some(RetryReason::Locks));
        }
        copies::remove_vanished(owner, name, relation)?;
        loop {
            let changed = documents::pending(owner, target, None, LAST_DOCUMENTS as i64 + 1)?;
            if changed.is_empty() {
                break;
            }
            if !attempts.is_last_round()
                && (changed.len() > LAST_DOCUMENTS || documents::needs_model(target, &changed))
            {
                return Ok(Some(RetryReason::Changes));
            }
            documents::copy(owner, target, relation, &changed)?;
        }
        if !copies::apply_to_documents(owner, name, target.wanted().detects_language())? {
            return Ok(Some(RetryReason::Locks));
        }
        move_places(owner, target, rebuild)?;
        Storage::of(&target.present).release(&target.present)?;
        // from here on, no collection joins a partition
        let former = placement::leave(owner, &target.present)?;
        set_model(owner, target)?;
        let becomes_partition = target.has_own_relation(owner)?;
        // others have left the partition, or there are more chunks now
        if becomes_partition && lacks_index(owner, target, relation)? {
            return Ok(Some(RetryReason::Changes));
        }
        if !becomes_partition {
            // readers do not see these rows before the commit, and do not wait
            move_to_shared(owner, target, relation)?;
        }
        if former.is_some() || becomes_partition {
            // readers must not see chunks twice: from here on they wait
            lock_chunks(owner, former.as_ref())?;
        }
        if let Some(former) = former {
            partition::drop(owner, &former)?;
        }
        if becomes_partition {
            let joined = target.partition_of(relation);
            partition::attach_as(owner, relation, &joined)?;
            partitions::set(owner, name, &joined, target.wanted().strategy().mode())?;
            collections::adopt_wanted(owner, name)?;
        }
        let rebuilt = Collection::get(name)?;
        Storage::of(&rebuilt).adopt(&rebuilt)?;
        rebuilds::forget(owner, name)?;
        Ok(None)
    })
}

/// Runs `f`, in which a lock is waited for no longer than a time.
fn waiting_for<R>(time: Duration, f: impl FnOnce() -> R) -> R {
    let time = std::ffi::CString::new(time.as_millis().to_string()).unwrap_or_default();
    with_settings(&[(c"lock_timeout", time.as_c_str())], f)
}

/// Keeps readers and writers of all collections out until the transaction ends, and those that name
/// the partition to drop. Does not wait for statements that name another one.
fn lock_chunks(owner: &OwnerRights, dropped: Option<&Partition>) -> Result<(), Error> {
    let dropped = dropped.filter(|partition| partition.oid().is_some());
    let also = dropped.map_or_else(String::new, |it| format!(", ONLY {}", it.qualified()));
    owner.execute(
        &format!("LOCK TABLE ONLY rag.chunks{also} IN ACCESS EXCLUSIVE MODE"),
        &[],
    )?;
    Ok(())
}

/// Returns true if [`lock_chunks`] would succeed now.
fn is_lock_free(owner: &OwnerRights, dropped: Option<&Partition>) -> Result<bool, Error> {
    match read_without_keeping_locks(|| lock_chunks(owner, dropped)) {
        Err(error) if error.is(Cause::Locked) => Ok(false),
        tried => tried.map(|()| true),
    }
}

/// Copies the chunks into the partition that the collection shares with others.
fn move_to_shared(owner: &OwnerRights, target: &Target, relation: &Partition) -> Result<(), Error> {
    let name = target.wanted().name.as_str();
    partitions::forget(owner, name)?;
    collections::adopt_wanted(owner, name)?;
    placement::ensure(
        owner,
        &Collection::get(name)?,
        target.indexer.model.dimensions,
    )?;
    let shared = partitions::of_writer(owner, name)?
        .ok_or_else(|| Error::internal("a collection with documents has no partition"))?;
    let columns = documents::columns(owner, &[])?.join(", ");
    owner.execute(
        &format!(
            "INSERT INTO rag.chunks ({columns}, partition) SELECT {columns}, {} FROM {}",
            pgrx::spi::quote_literal(shared.name()),
            relation.qualified()
        ),
        &[],
    )?;
    partition::drop(owner, relation)
}

/// Records which embeddings the collection has now.
fn move_places(owner: &OwnerRights, target: &Target, rebuild: &Rebuild) -> Result<(), Error> {
    if !target.has_new_chunks(owner)? {
        return Ok(());
    }
    let name = target.wanted().name.as_str();
    let relation = rebuild.relation.qualified();
    owner.execute(
        &format!(
            "DELETE FROM rag_internal.embedding_place
             WHERE collection = $1 AND embedding_key IN (
                 SELECT embedding_key FROM rag_internal.embedding_place WHERE collection = $1
                 EXCEPT SELECT embedding_key FROM {relation})"
        ),
        &[name.into()],
    )?;
    owner.execute(
        &format!(
            "INSERT INTO rag_internal.embedding_place (embedding_key, collection)
             SELECT c.embedding_key, k.name
             FROM (SELECT DISTINCT embedding_key FROM {relation}) c, rag_internal.collection k
             WHERE k.name = $1 AND NOT k.imported AND NOT EXISTS (
                 SELECT FROM rag_internal.embedding_place p
                     WHERE p.embedding_key = c.embedding_key)"
        ),
        &[name.into()],
    )?;
    Ok(())
}

/// Records the model. Writers that know other settings than the new ones fail from now on: see
/// [`prepare_for`](crate::collection::model::prepare_for).
fn set_model(owner: &OwnerRights, target: &Target) -> Result<(), Error> {
    let has_other_chunks = target.changes_chunks() || target.has_new_chunks(owner)?;
    let name = target.wanted().name.as_str();
    collections::replace_model(owner, name, &target.indexer.model, has_other_chunks)
}
