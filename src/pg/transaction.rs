//! Transactions, subtransactions, snapshots, and what runs when a transaction ends.
#![allow(unsafe_code)] // the server's transaction commands and callbacks

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
};

use pgrx::{PgSqlErrorCode, pg_guard, pg_sys};

use super::memory;
use crate::error::Error;

/// Runs `f` in a transaction of its own. The transaction is committed if `f` succeeds, and rolled
/// back if it fails or raises an ERROR. Only background workers call this, outside a transaction.
///
/// # Errors
/// What `f` returned or raised, or what the commit raised.
pub fn transaction<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let result = catch(|| {
        begin();
        let result = f()?;
        commit();
        Ok(result)
    });
    if result.is_err() {
        // SAFETY: allowed in any state, also outside a transaction.
        unsafe { pg_sys::AbortCurrentTransaction() };
    }
    result
}

fn begin() {
    // SAFETY: the sequence that every background worker with SPI runs; the worker is connected to a
    // database, or needs shared catalogs only.
    unsafe {
        memory::keep_reserve();
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
}

/// Ends what [`begin`] has begun.
fn commit() {
    // SAFETY: as there.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
    }
}

/// Runs `f`, which runs transactions of its own, and rolls back the one that an ERROR left open.
///
/// # Errors
/// What `f` returned or raised.
pub fn roll_back_rest<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let result = catch(f);
    // SAFETY: allowed in any state: the ERROR may have come inside or outside a transaction.
    unsafe { pg_sys::AbortCurrentTransaction() };
    result
}

/// Turns an ERROR that Postgres raises inside `f` into a value. The transaction must be aborted
/// afterwards.
pub fn catch<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let (mut f, mut result) = (Some(f), None);
    catch_in(&mut || {
        if let Some(f) = f.take() {
            result = Some(f()?);
        }
        Ok(())
    })?;
    result.ok_or_else(|| Error::internal("a function has no result"))
}

/// [`catch`] for all types of results. It is compiled once, since pgrx's handlers are large.
fn catch_in(f: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let f = std::panic::AssertUnwindSafe(f);
    pgrx::PgTryBuilder::new(f)
        .catch_others(|error| Err(error.into()))
        .execute()
}

/// Runs `f` in a subtransaction: an ERROR in it undoes what `f` did and nothing else.
///
/// # Errors
/// What `f` returned or raised. An error that ends the whole statement or session is raised again.
pub fn subtransaction<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    subtransaction_kept_if(|_| true, f)
}

/// Reads with the latest snapshot and keeps no lock on the tables that `f` reads. So a session that
/// sleeps does not block commands such as DROP EXTENSION.
///
/// # Errors
/// See [`subtransaction`].
pub fn read_without_keeping_locks<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    subtransaction_kept_if(|_| false, || with_latest_snapshot(f))
}

/// Runs `f` in a subtransaction, and undoes what `f` did unless its value `is_kept`. So `f` can
/// give up, and tell its caller why.
///
/// # Errors
/// What `f` returned or raised. An error that ends the whole statement or session is raised again.
pub fn subtransaction_kept_if<R>(
    is_kept: impl FnOnce(&R) -> bool,
    f: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    let subtransaction = Subtransaction::begin();
    let result = catch(f);
    subtransaction.end(result.as_ref().is_ok_and(is_kept));
    match result {
        Err(error) if error.cause().ends_statement() => error.raise(),
        result => result,
    }
}

/// A subtransaction, with what the session returns to after it.
struct Subtransaction {
    context: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
}

impl Subtransaction {
    fn begin() -> Self {
        // SAFETY: the sequence of PL/pgSQL's exception blocks.
        unsafe {
            let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
            pg_sys::BeginInternalSubTransaction(std::ptr::null());
            pg_sys::MemoryContextSwitchTo(context);
            Self { context, owner }
        }
    }

    fn end(self, is_kept: bool) {
        // SAFETY: as above.
        unsafe {
            if is_kept {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            pg_sys::MemoryContextSwitchTo(self.context);
            pg_sys::CurrentResourceOwner = self.owner;
        }
    }
}

/// Runs `f` with a snapshot that sees everything committed by now, even though the command (or a
/// worker's transaction) began earlier. What is read after taking a lock must be read this way.
pub fn with_latest_snapshot<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: an ERROR in between aborts the transaction, which pops the snapshot.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Runs `f` with the snapshot of the current command. A transaction that is about to commit has
/// none, and gets the latest.
pub fn with_snapshot<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: reads a variable.
    if unsafe { pg_sys::ActiveSnapshotSet() } {
        f()
    } else {
        with_latest_snapshot(f)
    }
}

/// What tells the statements of a session, and what they see, apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementStamp([u64; 5]);

/// Returns the stamp of the current statement, or `None` if it has no snapshot.
pub fn statement_stamp() -> Option<StatementStamp> {
    // SAFETY: reads the session's state; a snapshot that is active stays so during the call.
    unsafe {
        if !pg_sys::ActiveSnapshotSet() {
            return None;
        }
        let snapshot = &*pg_sys::GetActiveSnapshot();
        Some(StatementStamp([
            pg_sys::GetCurrentStatementStartTimestamp() as u64,
            u64::from(u32::from(snapshot.xmin)),
            u64::from(u32::from(snapshot.xmax)),
            u64::from(snapshot.xcnt) << 32 | u64::from(snapshot.subxcnt as u32),
            u64::from(snapshot.curcid),
        ]))
    }
}

/// Returns when the transaction began, which tells those of a session apart.
pub fn transaction_start() -> i64 {
    // SAFETY: reads the session's state.
    unsafe { pg_sys::GetCurrentTransactionStartTimestamp() }
}

/// Returns true if every statement of the transaction sees the same snapshot: isolation level
/// REPEATABLE READ or SERIALIZABLE.
pub fn snapshot_is_fixed() -> bool {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Returns true if the statement is not a transaction of its own: it is in a transaction block, or
/// in one string with others.
pub fn is_in_block() -> bool {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::IsTransactionBlock() }
}

/// Checks that a procedure that commits may begin.
///
/// # Errors
/// It is called in a transaction block.
pub fn require_no_block(procedure: &str) -> Result<(), Error> {
    if !is_in_block() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{procedure} cannot run inside a transaction block"),
    )
    .detail("The procedure commits its work in parts.")
    .hint("Call it outside of BEGIN and COMMIT, and not in one string with other statements."))
}

/// Returns true if the session is in a transaction that has not failed.
pub fn is_active() -> bool {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::IsTransactionState() }
}

/// Returns true if the transaction has a transaction id, as one that has written does.
pub fn has_written() -> bool {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId }
}

/// Returns true if the transaction may not write.
pub fn is_read_only() -> bool {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::XactReadOnly }
}

/// Returns true while the statement has parallel workers, or this process is one.
pub fn is_parallel() -> bool {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::IsInParallelMode() }
}

/// Returns the id of the current (sub)transaction, or the invalid id if it has none yet.
pub fn id_if_any() -> pg_sys::TransactionId {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::GetCurrentTransactionIdIfAny() }
}

/// Gives the current (sub)transaction an id if it has none yet.
pub fn take_id() {
    // SAFETY: callers are in a transaction without parallel workers.
    unsafe { pg_sys::GetCurrentTransactionId() };
}

/// Returns true if `id` is the current transaction or one of its subtransactions that was not
/// rolled back.
pub fn is_current(id: pg_sys::TransactionId) -> bool {
    // SAFETY: reads the session's transaction state.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(id) }
}

// -- callbacks

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    Commit,
    Abort,
    /// PREPARE TRANSACTION: another session commits it or rolls it back.
    Prepare,
}

type Action = Box<dyn FnOnce()>;
type BeforeCommit = fn() -> Result<(), Error>;

thread_local! {
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
    static CALLBACKS: RefCell<Vec<fn(TransactionEnd)>> = const { RefCell::new(vec![]) };
    static BEFORE_COMMIT: RefCell<Vec<BeforeCommit>> = const { RefCell::new(vec![]) };
    /// Actions, with the subtransaction that each belongs to.
    static ACTIONS: RefCell<Vec<(pg_sys::TransactionId, Action)>> = const { RefCell::new(vec![]) };
}

fn register() {
    if !IS_REGISTERED.replace(true) {
        // SAFETY: the callback stays valid as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(call_back), std::ptr::null_mut()) };
    }
}

/// Registers a callback for the end of every transaction of this process from now on. It must
/// neither fail nor use the database. A second registration has no effect.
pub fn on_end(callback: fn(TransactionEnd)) {
    register();
    CALLBACKS.with_borrow_mut(|callbacks| {
        let mut known = callbacks.iter();
        if !known.any(|known| std::ptr::fn_addr_eq(*known, callback)) {
            callbacks.push(callback);
        }
    });
}

/// Registers a callback for every transaction of this process from now on, before it is committed
/// or prepared. The callback may use the database. The transaction is rolled back if it fails. A
/// second registration has no effect.
pub fn before_commit(callback: BeforeCommit) {
    register();
    BEFORE_COMMIT.with_borrow_mut(|callbacks| {
        let mut known = callbacks.iter();
        if !known.any(|known| std::ptr::fn_addr_eq(*known, callback)) {
            callbacks.push(callback);
        }
    });
}

/// Runs `action` once the current transaction has committed. The action is dropped if the
/// transaction, or the subtransaction that it belongs to, is rolled back or prepared.
///
/// The transaction can no longer be undone when the action runs: it must neither fail nor use the
/// database.
pub fn at_commit(action: impl FnOnce() + 'static) {
    register();
    // SAFETY: callers are in a transaction.
    let transaction = unsafe { pg_sys::GetCurrentTransactionId() };
    ACTIONS.with_borrow_mut(|actions| actions.push((transaction, Box::new(action))));
}

#[pg_guard]
unsafe extern "C-unwind" fn call_back(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{
        XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE,
        XACT_EVENT_PREPARE,
    };
    let end = match event {
        XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE => {
            for callback in BEFORE_COMMIT.with_borrow(Vec::clone) {
                callback().unwrap_or_else(|error| error.raise());
            }
            return;
        }
        XACT_EVENT_COMMIT => TransactionEnd::Commit,
        XACT_EVENT_ABORT => TransactionEnd::Abort,
        XACT_EVENT_PREPARE => TransactionEnd::Prepare,
        _ => return,
    };
    for callback in CALLBACKS.with_borrow(Vec::clone) {
        callback(end);
    }
    for (transaction, action) in ACTIONS.take() {
        // the transaction state still knows the subtransactions that were not rolled back
        if end == TransactionEnd::Commit && is_current(transaction) {
            action();
        }
    }
}
