//! Replaces the storage of a collection by the one that was built.

use std::time::Duration;

use pgrx::PgSqlErrorCode;

use super::{documents, target::Target};
use crate::{
    catalog::{
        collections::Collection,
        partitions::{self, Partition},
        placement,
        rebuilds::{self, Rebuild},
        wanted,
    },
    error::Error,
    pg::{
        guc::with_settings,
        spi::{execute, execute_returning},
        transaction::{read_without_keeping_locks, subtransaction},
        wait::sleep,
    },
    settings, storage,
};

/// The number of changed documents that are copied while writers wait. More are copied before.
const LAST_DOCUMENTS: usize = 50;
/// The number of attempts after which they are copied in any case.
const MAX_ROUNDS: u32 = 20;
/// How long an attempt waits for a lock. All searches of the database wait as long.
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// The interval between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// What kept an attempt from replacing the storage.
enum Obstacle {
    /// Changed documents were copied. The next attempt looks for more.
    Changes,
    /// Other transactions hold locks.
    Locks,
}

impl Obstacle {
    fn code(&self) -> PgSqlErrorCode {
        match self {
            Self::Changes => PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            Self::Locks => PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
        }
    }
}

/// Copies what has changed since, and replaces the storage unless others hold locks. Returns true
/// if it is replaced.
///
/// # Errors
/// Others have held locks for longer than `rag.lock_timeout`; or a statement fails.
pub fn attempt(target: &Target, rebuild: &Rebuild, attempts: u32) -> Result<bool, Error> {
    if attempts > 0 {
        sleep(PAUSE);
    }
    if copy_changes(target, rebuild, attempts)? {
        return Ok(false);
    }
    // what it has locked and written is rolled back if something keeps it from its end
    let replaced = subtransaction(|| match replace(target, rebuild, attempts)? {
        None => Ok(()),
        Some(obstacle) => Err(Error::new(
            obstacle.code(),
            "the storage cannot be replaced now",
        )),
    });
    match replaced {
        Ok(()) => Ok(true),
        Err(error) if is_locked(&error) && is_patience_over(attempts) => Err(give_up(target)),
        Err(error) if is_locked(&error) || error.code == Obstacle::Changes.code() => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_locked(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE | PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED
    )
}

fn is_patience_over(attempts: u32) -> bool {
    let limit = settings::lock_timeout();
    !limit.is_zero() && (LOCK_WAIT + PAUSE) * attempts > limit
}

fn give_up(target: &Target) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
        format!(
            "could not replace the storage of collection \"{}\"",
            target.wanted.name
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

/// Copies documents that have changed since, if they are many. Returns true if it has copied any.
fn copy_changes(target: &Target, rebuild: &Rebuild, attempts: u32) -> Result<bool, Error> {
    if attempts > MAX_ROUNDS {
        return Ok(false);
    }
    let name = target.wanted.name.as_str();
    let removed = rebuilds::remove_vanished(name, &rebuild.relation)?;
    let changed = rebuilds::next_documents(name, None, LAST_DOCUMENTS as i64 + 1)?;
    let are_few = removed <= LAST_DOCUMENTS && changed.len() <= LAST_DOCUMENTS;
    if are_few && !documents::needs_model(target, &changed) {
        return Ok(false);
    }
    Ok(documents::copy_some(target, &rebuild.relation, None)?.is_some())
}

/// Replaces the storage. Returns what keeps it from that, and then is to be rolled back.
fn replace(target: &Target, rebuild: &Rebuild, attempts: u32) -> Result<Option<Obstacle>, Error> {
    let wait = LOCK_WAIT.as_millis().to_string();
    let wait = std::ffi::CString::new(wait).unwrap_or_default();
    with_settings(&[(c"lock_timeout", wait.as_c_str())], || {
        let name = target.wanted.name.as_str();
        let relation = &rebuild.relation;
        // writers hold it in share mode: see catalog::partitions
        let former = execute_returning(
            "SELECT partition FROM rag.collections WHERE name = $1 FOR UPDATE",
            &[name.into()],
            |row| row.get::<String>(1),
        )?;
        let unchanged = Target::of(Collection::get(name)?)?.is_some_and(|now| now.is_of(rebuild));
        if former.is_empty() || !unchanged {
            return Ok(Some(Obstacle::Changes));
        }
        let is_shared = target.joins_shared();
        // what follows may take long, and would be lost
        if (!is_shared || placement::is_alone(&target.present)?) && !is_lock_free()? {
            return Ok(Some(Obstacle::Locks));
        }
        rebuilds::remove_vanished(name, relation)?;
        loop {
            let changed = rebuilds::next_documents(name, None, LAST_DOCUMENTS as i64 + 1)?;
            if changed.is_empty() {
                break;
            }
            if attempts <= MAX_ROUNDS
                && (changed.len() > LAST_DOCUMENTS || documents::needs_model(target, &changed))
            {
                return Ok(Some(Obstacle::Changes));
            }
            documents::copy(target, relation, &changed)?;
        }
        if !rebuilds::apply_to_documents(name)? {
            return Ok(Some(Obstacle::Locks));
        }
        move_places(target, rebuild)?;
        storage::of(&target.present).release(&target.present)?;
        let former = placement::leave(&target.present)?;
        set_model(target)?;
        // readers do not see these rows before the commit, and do not wait
        let is_moved = is_shared && former.as_ref() != Some(&placement::wanted(&target.wanted));
        if is_moved {
            move_to_shared(target, relation)?;
        }
        if former.is_some() || !is_shared {
            // readers must not see chunks twice: from here on they wait
            lock_chunks()?;
        }
        if let Some(former) = former {
            former.drop()?;
        }
        if !is_shared {
            relation.attach()?;
            partitions::set(name, relation, target.wanted.strategy.mode())?;
            wanted::adopt(name)?;
        } else if !is_moved {
            // the only collection of its partition, which is created again by its name
            move_to_shared(target, relation)?;
        }
        execute(
            "DELETE FROM rag.index_damage WHERE collection = $1",
            &[name.into()],
        )?;
        let rebuilt = Collection::get(name)?;
        storage::of(&rebuilt).adopt(&rebuilt)?;
        rebuilds::forget(name)?;
        Ok(None)
    })
}

/// Keeps readers and writers of all collections out until the transaction ends.
fn lock_chunks() -> Result<(), Error> {
    execute("LOCK TABLE rag.chunks IN ACCESS EXCLUSIVE MODE", &[])?;
    Ok(())
}

/// Returns true if [`lock_chunks`] would succeed now.
fn is_lock_free() -> Result<bool, Error> {
    match read_without_keeping_locks(lock_chunks) {
        Err(error) if is_locked(&error) => Ok(false),
        tried => tried.map(|()| true),
    }
}

/// Copies the chunks into the partition that the collection shares with others.
fn move_to_shared(target: &Target, relation: &Partition) -> Result<(), Error> {
    let name = target.wanted.name.as_str();
    execute(
        "UPDATE rag.collections SET partition = NULL, index_strategy = NULL WHERE name = $1",
        &[name.into()],
    )?;
    wanted::adopt(name)?;
    Collection::get(name)?.ensure_partition(target.model.dimensions)?;
    let partition = partitions::of_writer(name)?
        .ok_or_else(|| Error::internal("a collection with documents has no partition"))?;
    let columns = documents::columns(&[])?.join(", ");
    execute(
        &format!(
            "INSERT INTO rag.chunks ({columns}, partition) SELECT {columns}, {} FROM {}",
            pgrx::spi::quote_literal(partition.name()),
            relation.qualified()
        ),
        &[],
    )?;
    relation.drop()
}

/// Records which embeddings the collection has now.
fn move_places(target: &Target, rebuild: &Rebuild) -> Result<(), Error> {
    if !target.has_new_chunks()? {
        return Ok(());
    }
    let name = target.wanted.name.as_str();
    let relation = rebuild.relation.qualified();
    execute(
        &format!(
            "DELETE FROM rag.embedding_place p
             WHERE p.collection = $1
               AND NOT EXISTS (SELECT FROM {relation} c WHERE c.embedding_key = p.embedding_key)"
        ),
        &[name.into()],
    )?;
    execute(
        &format!(
            "INSERT INTO rag.embedding_place (embedding_key, collection)
             SELECT DISTINCT c.embedding_key, k.name FROM {relation} c, rag.collections k
             WHERE k.name = $1 AND NOT k.imported AND NOT EXISTS (
                 SELECT FROM rag.embedding_place p WHERE p.embedding_key = c.embedding_key)"
        ),
        &[name.into()],
    )?;
    Ok(())
}

/// Records the model. Writers that know other settings than the new ones fail from now on: see
/// [`Collection::prepare_for`].
fn set_model(target: &Target) -> Result<(), Error> {
    let model = &target.model;
    let are_others = target.changes_chunks() || target.has_new_chunks()?;
    execute(
        "UPDATE rag.collections SET model = $2, model_fingerprint = $3, embedding_dimension = $4,
             model_identity = $5, embedding_baseline = $6, rebuilds = rebuilds + $7
         WHERE name = $1",
        &[
            target.wanted.name.as_str().into(),
            model.name.as_str().into(),
            model.fingerprint.as_str().into(),
            (model.dimensions as i32).into(),
            model.identity.as_str().into(),
            model.baseline.into(),
            i64::from(are_others).into(),
        ],
    )?;
    Ok(())
}
