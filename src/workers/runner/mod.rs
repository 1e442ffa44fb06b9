//! The worker that executes one run of a source.
//!
//! A session starts it ([`start`]) and may wait for it ([`wait_for`]). It takes the source's lock, which no second run of
//! the source can have; writes the run's row; has `rag-engine ingest` read the source and `rag-engine embed` compute
//! what is not stored yet ([`pipeline`]); writes each document in a transaction of its own; and writes how it ended.
//! Nothing is held open while it waits for the engine. SIGINT cancels the run, which is then Failed; SIGTERM ends the
//! process at once, and the run's row is put right by whoever waits for it or by the source's next run.
#![allow(unsafe_code)] // the entry point that the postmaster calls, signal handlers, heavyweight locks

pub mod ingest;
pub mod pipeline;
mod report;
pub mod table;

use std::{
    cell::RefCell,
    sync::Once,
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime},
    pg_guard, pg_sys,
};
use rag_protocol::spec::{Endpoint, Repository, SourceSpec};

use super::{supervisor, transaction::transaction};
use crate::{
    catalog::{self, name::Name, roles, runs, sources::Source},
    engine::wait::sleep,
    error::Error,
    settings,
};

pub use pgrx::bgworkers::DynamicBackgroundWorker;

/// Between two words about how far a run is: more at the beginning, when people watch.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// In the place of a run's id: only mark the source's runs that have lost their process.
const REAP: i64 = 0;

/// The present database.
fn database() -> pg_sys::Oid {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::MyDatabaseId }
}

/// Starts a runner for `source` in the present database; it will use `run_id`.
///
/// # Errors
/// The server has no room for another background worker.
pub fn start(source: &Name, run_id: i64) -> Result<DynamicBackgroundWorker, Error> {
    // SAFETY: reads a variable of the session.
    let pid = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new(&format!("rag runner: {source}"))
        .set_type("rag runner")
        .set_library("rag")
        .set_function("rag_runner_main")
        .set_extra(&format!("{} {run_id} {source}", database().to_u32()))
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
        .set_notify_pid(pid)
        .load_dynamic()
        .map_err(|_| supervisor::no_worker())
}

thread_local! {
    /// The runner that the session waits for.
    static WAITED_FOR: RefCell<Option<DynamicBackgroundWorker>> = const { RefCell::new(None) };
}

/// Cancels the run when the session stops waiting for it, be it for Ctrl-C or a timeout, or ([`cancel_at_exit`]) because
/// the session itself ends, which does not unwind.
struct CancelOnDrop;

impl CancelOnDrop {
    fn of(worker: DynamicBackgroundWorker) -> Self {
        static REGISTER: Once = Once::new();
        // SAFETY: the callback stays valid as long as the library, which is never unloaded.
        REGISTER.call_once(|| unsafe { pg_sys::before_shmem_exit(Some(cancel_at_exit), pg_sys::Datum::null()) });
        WAITED_FOR.set(Some(worker));
        Self
    }

    fn has_ended(&self) -> bool {
        WAITED_FOR.with_borrow(|worker| worker.as_ref().is_none_or(has_ended))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(worker) = WAITED_FOR.take() else { return };
        match worker.pid() {
            // SAFETY: a signal to the session's runner.
            Ok(pid) => unsafe {
                libc::kill(pid, libc::SIGINT);
            },
            // it would begin in a moment
            Err(BackgroundWorkerStatus::NotYetStarted) => {
                worker.terminate();
            }
            Err(_) => {}
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn cancel_at_exit(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    drop(CancelOnDrop);
}

/// Waits until the runner has ended; how its run stands, told to `tell` from time to time and returned at the end.
///
/// # Errors
/// The runner ended without having begun the run: another one holds the source, or the source is gone.
pub fn wait_for(
    worker: DynamicBackgroundWorker,
    source: &Name,
    run_id: i64,
    mut tell: impl FnMut(&runs::Status),
) -> Result<runs::Status, Error> {
    let run = CancelOnDrop::of(worker);
    let (mut told, mut pause) = (Instant::now(), FIRST_PAUSE);
    while !run.has_ended() {
        // the postmaster sets this session's latch when the runner starts or ends
        sleep(Duration::from_millis(500));
        if told.elapsed() >= pause {
            told = Instant::now();
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            if let Some(status) = fresh(|| runs::status(run_id))? {
                tell(&status);
            }
        }
    }
    drop(run);
    ended_run(source, run_id)
}

fn has_ended(worker: &DynamicBackgroundWorker) -> bool {
    !matches!(worker.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted))
}

fn ended_run(source: &Name, run_id: i64) -> Result<runs::Status, Error> {
    let status = fresh(|| runs::status(run_id))?;
    let Some(status) = status else {
        if fresh(|| Source::find(source.as_str()))?.is_none() {
            return Err(source_changed(source));
        }
        return Err(Error::in_use(format!("source \"{source}\" is being synced by another session"))
            .hint("rag.progress shows how far it is."));
    };
    if status.phase == "Running" {
        // another process writes that down: what this session does is undone by the error that it will raise
        let reaper = start(source, REAP)?;
        while !has_ended(&reaper) {
            sleep(Duration::from_millis(100));
        }
        return fresh(|| runs::status(run_id))?.ok_or_else(|| Error::internal("the run's row has vanished"));
    }
    Ok(status)
}

fn source_changed(source: &Name) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("source \"{source}\" was dropped or changed during the run"),
    )
}

/// Whether the transaction sees the database as it was at its start: REPEATABLE READ or SERIALIZABLE.
pub fn snapshot_is_fixed() -> bool {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Runs `f` under a snapshot that sees what others have committed by now, though the command began before.
fn fresh<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: an ERROR in between aborts the transaction, which pops the snapshot.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

unsafe extern "C" {
    // common/hashfn.h, which pgrx leaves out
    fn hash_bytes(bytes: *const u8, length: std::ffi::c_int) -> u32;
}

/// The heavyweight lock that makes a run the only one of its source, held by the session (the runner) until it ends.
fn source_lock_tag(source: &Name) -> Result<pg_sys::LOCKTAG, Error> {
    // SAFETY: look-ups of catalog OIDs.
    let relation = unsafe {
        let schema = pg_sys::get_namespace_oid(c"rag".as_ptr(), false);
        pg_sys::get_relname_relid(c"source".as_ptr(), schema)
    };
    // the object is named by a hash, that of hashtext, which rag.is_syncing asks for: sources that collide merely take
    // turns
    // SAFETY: reads as many bytes as the name has.
    let hash = unsafe { hash_bytes(source.as_str().as_ptr(), source.as_str().len() as i32) };
    Ok(pg_sys::LOCKTAG {
        locktag_field1: database().to_u32(),
        locktag_field2: relation.to_u32(),
        locktag_field3: hash,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        // the other lock method would leave a session's locks behind when its process ends
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    })
}

/// Takes the source's lock if it is free.
pub fn lock_source(source: &Name) -> Result<bool, Error> {
    let tag = source_lock_tag(source)?;
    // SAFETY: a well-formed tag; a session lock, which does not end with the transaction.
    let result = unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, true, true) };
    Ok(result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL)
}

pub fn unlock_source(source: &Name) -> Result<(), Error> {
    let tag = source_lock_tag(source)?;
    // SAFETY: gives back what lock_source took.
    unsafe { pg_sys::LockRelease(&tag, pg_sys::ExclusiveLock as i32, true) };
    Ok(())
}

/// # Errors
/// The source's owner may not, or may no longer, read what the source names.
pub fn check_rights(spec: &SourceSpec, owner: pg_sys::Oid) -> Result<(), Error> {
    match spec {
        SourceSpec::Folder(_) => roles::require_server_files(owner),
        SourceSpec::Markdown(markdown) => check_endpoints(std::slice::from_ref(&markdown.endpoint), owner),
        SourceSpec::Static(files) => check_endpoints(&files.endpoints, owner),
        SourceSpec::Website(_) => Ok(()),
        SourceSpec::Git(git) => match git.repository {
            Repository::Local(_) => roles::require_superuser(owner, "read a repository on the server"),
            Repository::Https(ref url)
                if url.starts_with("http://") && settings::network().allowed_private_hosts.is_empty() =>
            {
                Err(Error::invalid_parameter(format!("\"{url}\" does not start with https://"))
                    .hint("Only hosts that rag.allowed_private_hosts names may be asked over http."))
            }
            Repository::Https(_) => Ok(()),
        },
        // Postgres asks for them with each statement
        SourceSpec::Table(_) => Ok(()),
    }
}

fn check_endpoints(endpoints: &[Endpoint], owner: pg_sys::Oid) -> Result<(), Error> {
    if endpoints.iter().any(|endpoint| matches!(endpoint, Endpoint::File(_))) {
        return roles::require_server_files(owner);
    }
    Ok(())
}

/// The handler that sessions have: the process ends at its next safe point.
unsafe extern "C-unwind" fn on_sigterm(signal: std::ffi::c_int) {
    // SAFETY: called as a signal handler, which is what it is.
    unsafe { pg_sys::die(signal) };
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_runner_main(_argument: pg_sys::Datum) {
    let extra = BackgroundWorker::get_extra();
    let mut words = extra.splitn(3, ' ');
    let (Some(database), Some(run_id), Some(name)) = (
        words.next().and_then(|w| w.parse::<u32>().ok()),
        words.next().and_then(|w| w.parse::<i64>().ok()),
        words.next(),
    ) else {
        pgrx::warning!("rag: a runner was started without a run");
        return;
    };
    // SAFETY: installs a handler; that of SIGINT, which cancels, is set already.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(on_sigterm));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(on_sigterm));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if let Err(error) = run(run_id, name) {
        pgrx::log!("rag: run {run_id} of source \"{name}\" could not be carried out: {error}");
    }
}

unsafe extern "C" {
    // utils/timeout.h, which pgrx leaves out
    fn enable_timeout_after(id: std::ffi::c_int, delay_ms: std::ffi::c_int);
    fn disable_timeout(id: std::ffi::c_int, keep_indicator: bool);
}
const STATEMENT_TIMEOUT: std::ffi::c_int = 3;

/// Cancels the process when the time is up, as `statement_timeout` does it, whatever it is waiting for then.
fn limit_time(timeout: Duration) {
    let milliseconds = timeout.as_millis().saturating_add(1).try_into().unwrap_or(i32::MAX);
    // SAFETY: every process that is connected to a database has registered this timeout.
    unsafe { enable_timeout_after(STATEMENT_TIMEOUT, milliseconds) };
}

/// From here on nothing cancels the process, so that how the run ended can be written down.
fn write_down_undisturbed() {
    // SAFETY: ends what limit_time began, and holds off cancels as Postgres does it for a few statements of its own.
    unsafe {
        disable_timeout(STATEMENT_TIMEOUT, false);
        pg_sys::QueryCancelHoldoffCount += 1;
    }
}

/// The whole run. An error here is one that could not be written into the run's row.
fn run(run_id: i64, name: &str) -> Result<(), Error> {
    let source = transaction(|| {
        let name = Name::parse("source", name)?;
        if lock_source(&name)? { Source::find(name.as_str()) } else { Ok(None) }
    })?;
    if run_id == REAP {
        return source.map_or(Ok(()), |source| transaction(|| runs::abandon(source.name.as_str())));
    }
    // the lock is another run's, or the source was dropped meanwhile: whoever waits finds no row
    let Some(source) = source else { return Ok(()) };
    report::activity(&format!("rag: syncing {}", source.name));
    transaction(|| runs::start(run_id, &source))?;

    let started = Instant::now();
    limit_time(source.timeout);
    let mut report = report::Report::new(run_id, &source);
    let outcome = catalog::catch(|| pipeline::execute(&source, &mut report));
    // SAFETY: allowed in any state: an ERROR may have come inside or outside of a transaction.
    unsafe { pg_sys::AbortCurrentTransaction() };
    write_down_undisturbed();

    let outcome = outcome.map_err(|error| match error.code {
        pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED if started.elapsed() >= source.timeout => Error {
            message: format!("the run took longer than the source's timeout of {} s", source.timeout.as_secs()),
            ..error
        }
        .hint("Documents that it had stored stay. Raise the source's timeout, or sync again for the rest."),
        pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED => Error { message: "the run was cancelled".into(), ..error },
        _ => error,
    });
    report.flush()?;
    transaction(|| {
        runs::finish(run_id, &source, outcome.as_ref().map(|_| ()), report.commit.as_deref(), report.counts.failed == 0)
    })
}
