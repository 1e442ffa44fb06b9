//! Runs that sessions start, wait for and cancel.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use pgrx::bgworkers::BackgroundWorkerStatus;

use crate::{
    catalog::{
        name::Name,
        runs,
        sources::{self, Source},
    },
    cluster::{
        lock::{self, Lock},
        shared,
        slots::{self, Claim},
    },
    error::Error,
    pg::{
        blocking, exit::before_exit, process::signal, snapshot::snapshot_is_fixed,
        subtransaction::glance, wait::sleep,
    },
    run::process::{DynamicBackgroundWorker, Task, has_ended, is_locked, source_gone, start},
    settings,
};

/// Between two words about how far a run is: more at the beginning, when people watch.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// Between two looks at a run of another process, which does not wake the session.
const LOOK: Duration = Duration::from_millis(200);
/// The same where it is a matter of moments.
const SHORT_LOOK: Duration = Duration::from_millis(20);
/// Between two looks for deadlocks.
const DEADLOCKS: Duration = Duration::from_secs(1);
/// How long a check for drift, or a run that is just beginning or ending, is waited for by who
/// cannot wait for ever: whoever is at it may be waiting for this transaction.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// So often a session tries to begin a run, some ten seconds in all.
const TRIES: u32 = 30;
/// The same where it does not wait for a slot: a fifth of a second in all.
const TRIES_TO_BEGIN: u32 = 4;

/// So many processes try to write down how a run ended before the session that waits for it says
/// that none can.
const REAPERS: u32 = 5;

thread_local! {
    /// The runner that the session waits for.
    static WAITED_FOR: RefCell<Option<DynamicBackgroundWorker>> = const { RefCell::new(None) };
}

/// Cancels the run when the session stops waiting for it, be it for Ctrl-C or a timeout, or
/// ([`before_exit`]) because the session itself ends, which does not unwind.
struct CancelOnDrop;

impl CancelOnDrop {
    fn of(worker: DynamicBackgroundWorker) -> Self {
        before_exit(|| drop(CancelOnDrop));
        WAITED_FOR.set(Some(worker));
        Self
    }

    fn pid(&self) -> Option<i32> {
        WAITED_FOR.with_borrow(|worker| worker.as_ref()?.pid().ok())
    }

    fn has_ended(&self) -> bool {
        WAITED_FOR.with_borrow(|worker| worker.as_ref().is_none_or(has_ended))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(worker) = WAITED_FOR.take() else {
            return;
        };
        match worker.pid() {
            Ok(pid) => signal(pid, libc::SIGINT),
            // it would begin in a moment
            Err(BackgroundWorkerStatus::NotYetStarted) => {
                worker.terminate();
            }
            Err(_) => {}
        }
    }
}

/// Says from time to time how far a run is.
struct Teller<F> {
    tell: F,
    told: Instant,
    pause: Duration,
}

impl<F: FnMut(&runs::Status)> Teller<F> {
    fn new(tell: F) -> Self {
        Self {
            tell,
            told: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    fn tick(&mut self, run_id: i64) -> Result<(), Error> {
        if self.told.elapsed() >= self.pause {
            self.told = Instant::now();
            self.pause = (self.pause * 3 / 2).min(LONGEST_PAUSE);
            if let Some(status) = look(|| runs::status(run_id))? {
                (self.tell)(&status);
            }
        }
        Ok(())
    }
}

/// Sees that a process which is waited for waits for this session: for a lock that the transaction
/// took before, or for someone who waits for such a lock. The server's own look for deadlocks knows
/// nothing of a session that sleeps.
struct Deadlocks {
    looked: Instant,
}

impl Deadlocks {
    fn new() -> Self {
        Self {
            looked: Instant::now(),
        }
    }

    fn are_due(&self) -> bool {
        self.looked.elapsed() >= DEADLOCKS
    }

    /// # Errors
    /// `process` waits for this session.
    fn look(&mut self, process: Option<i32>) -> Result<(), Error> {
        let Some(process) = process.filter(|_| self.are_due()) else {
            return Ok(());
        };
        self.looked = Instant::now();
        if !blocking::waits_for_me(process)? {
            return Ok(());
        }
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED,
            "deadlock: the run waits for a lock that this transaction holds, and this transaction for the run",
        )
        .detail("The run is another process's, which may also wait for a third one that waits for this transaction.")
        .hint("COMMIT first, then have the source synced; or try again."))
    }
}

/// A run that a session is to have carried out.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// One that is queued.
    Queued(i64),
    /// One that nobody has queued, of this id.
    New(i64),
}

impl Wanted {
    fn id(self) -> i64 {
        let (Self::Queued(id) | Self::New(id)) = self;
        id
    }

    fn task(self) -> Task {
        match self {
            Self::Queued(id) => Task::Run(id),
            Self::New(id) => Task::NewRun(id),
        }
    }
}

/// Carries out a run of a source by a runner of this session, waiting for a slot first where all
/// are taken; its id, which is that of another one if one was queued meanwhile, and how it ended.
/// Meanwhile how far it is is told to `tell`.
///
/// # Errors
/// Another run of the source is under way, the source is gone, or the run cannot be begun.
pub fn run(
    source: &Name,
    wanted: Wanted,
    tell: impl FnMut(&runs::Status),
) -> Result<(i64, runs::Status), Error> {
    let (mut teller, mut deadlocks, mut wanted, mut tries) =
        (Teller::new(tell), Deadlocks::new(), wanted, 0);
    loop {
        let run_id = wanted.id();
        if !has_begun(run_id)?
            && let Some(claim) = wait_for_slot(source, run_id)?
            && let Some(worker) = wait_for_worker(source, wanted, &claim)?
        {
            let worker = CancelOnDrop::of(worker);
            // until the runner has the slot that is for it
            while !worker.has_ended() && !has_begun(run_id)? {
                sleep(SHORT_LOOK);
                deadlocks.look(worker.pid())?;
            }
            drop(claim);
            while !worker.has_ended() {
                // the postmaster sets this session's latch when the runner starts or ends
                sleep(Duration::from_millis(500));
                teller.tick(run_id)?;
                deadlocks.look(worker.pid())?;
            }
            drop(worker);
        }
        let status = look(|| runs::status(run_id))?;
        if let Some(status) = status.as_ref().filter(|status| status.has_ended()) {
            return Ok((run_id, status.clone()));
        }
        if look(|| Source::find(source.as_str()))?.is_none() {
            return Err(source_gone(source));
        }
        lock::check_not_going(source)?;
        let is_under_way = match status {
            Some(status) => status.phase == "Running",
            // it was cancelled before it began, so long ago that it is forgotten
            None if matches!(wanted, Wanted::Queued(_)) => return Err(vanished()),
            None => false,
        };
        if is_under_way {
            // the scheduler was quicker to begin the queued run, or the run's process has lost its
            // life
            return match wait_for(run_id, None, teller.tell)? {
                Some(status) => Ok((run_id, status)),
                None if look(|| Source::find(source.as_str()))?.is_none() => {
                    Err(source_gone(source))
                }
                None => Err(vanished()),
            };
        }
        let is_free = Lock::source_at_work(source).is_free();
        match look(|| runs::active(source.as_str()))? {
            Some(run) if run.is_pending => wanted = Wanted::Queued(run.run_id),
            Some(run) if !is_free && run.trigger == "manual" => {
                return Err(at_work(source, Some(run.run_id)));
            }
            // one that the scheduler has begun since then does what was wanted
            Some(run) if !is_free => {
                wanted = Wanted::Queued(run.run_id);
                continue;
            }
            _ => {}
        }
        if !is_free {
            wait_for_check(source, None)?;
            continue;
        }
        // the scheduler is about to begin the queued run; or another one was quicker to take the
        // last slot, or the lock; or the source's row is locked
        tries += 1;
        if tries == TRIES {
            return Err(Error::in_use(format!("a run of source \"{source}\" could not be begun")).hint(
                "Another session may be changing the source and not have committed, or else the server's log says why.",
            ));
        }
        sleep(SHORT_LOOK * tries);
    }
}

/// Has a run begun by a runner that nobody waits for, and waits until it has.
///
/// # Errors
/// It has not begun: another one is under way, there is no room, or the source's row is locked.
pub fn begin(source: &Name, wanted: Wanted) -> Result<i64, Error> {
    let (run_id, mut deadlocks) = (wanted.id(), Deadlocks::new());
    for tries in 1..=TRIES_TO_BEGIN {
        let Some(claim) = slots::claim(0, true, 0) else {
            slots::withdraw();
            return Err(no_slot());
        };
        let worker = start(source, wanted.task(), Some(&claim))?;
        // nothing that others do can be seen then
        if snapshot_is_fixed() {
            while !claim.is_adopted() && !has_ended(&worker) {
                sleep(SHORT_LOOK);
            }
            return Ok(run_id);
        }
        loop {
            let has_ended = has_ended(&worker);
            if has_begun(run_id)? {
                return Ok(run_id);
            }
            if has_ended {
                break;
            }
            sleep(SHORT_LOOK);
            deadlocks.look(worker.pid().ok())?;
        }
        if !Lock::source_at_work(source).is_free() {
            return Err(at_work(
                source,
                look(|| runs::active(source.as_str()))?.map(|run| run.run_id),
            ));
        }
        // what was in the way may just have gone: the last slot was taken
        sleep(SHORT_LOOK * tries);
    }
    Err(Error::in_use(format!("a run of source \"{source}\" could not be begun"))
        .hint("Another session may be changing the source and not have committed: try again in a moment."))
}

/// The error where nobody waits for a slot.
pub fn no_slot() -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "as many runs are under way as rag.max_running_syncs allows",
    )
    .hint("Wait for one of them, or put rag into shared_preload_libraries, which queues runs.")
}

/// Reads what others have committed by now.
///
/// # Errors
/// It cannot be read, for one because the extension has been dropped.
fn look<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    use pgrx::PgSqlErrorCode::{
        ERRCODE_INVALID_SCHEMA_NAME, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        ERRCODE_UNDEFINED_TABLE,
    };
    if shared::is_being_emptied() {
        return Err(Error::new(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "another session needs the database without runs, which are ended",
        )
        .detail("It drops the extension, or does with the database what nobody may be connected to it for."));
    }
    glance(f).map_err(|error| match error.code {
        ERRCODE_INVALID_SCHEMA_NAME | ERRCODE_UNDEFINED_TABLE => Error::new(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the extension rag was dropped while a run of one of its sources was waited for",
        ),
        _ => error,
    })
}

fn has_begun(run_id: i64) -> Result<bool, Error> {
    Ok(look(|| runs::status(run_id))?.is_some_and(|status| status.phase != "Pending"))
}

/// Waits until a run has ended, or until `timeout` is up; how it stands then. `None` where there is
/// no such run (any more).
///
/// # Errors
/// The run cannot be looked at, or has ended and nobody can write that down.
pub fn wait_for(
    run_id: i64,
    timeout: Option<Duration>,
    tell: impl FnMut(&runs::Status),
) -> Result<Option<runs::Status>, Error> {
    let (mut teller, mut deadlocks, began) = (Teller::new(tell), Deadlocks::new(), Instant::now());
    let (mut pause, mut reapers) = (Duration::from_millis(10), 0);
    loop {
        let Some(status) = look(|| runs::status(run_id))? else {
            return Ok(None);
        };
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if status.has_ended() || left == Some(Duration::ZERO) {
            return Ok(Some(status));
        }
        if status.phase == "Running" {
            let source = Name::source(&status.source)?;
            if deadlocks.are_due() {
                let process = look(|| sources::process_at_work(&source))?;
                deadlocks.look(process)?;
            }
            if Lock::source_at_work(&source).is_free() {
                // a run writes how it ended before it gives the lock back
                let Some(mut status) = look(|| runs::status(run_id))? else {
                    return Ok(None);
                };
                if !status.has_ended() {
                    reap(&source)?;
                    reapers += 1;
                    let Some(reaped) = look(|| runs::status(run_id))? else {
                        return Ok(None);
                    };
                    status = reaped;
                }
                if status.has_ended() {
                    return Ok(Some(status));
                }
                if reapers >= REAPERS {
                    check_end_can_be_written(&source)?;
                }
            }
        }
        sleep(left.map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(LOOK);
        teller.tick(run_id)?;
    }
}

/// A slot for the run of a session; without shared memory also the lock that makes it the next
/// one's.
struct Turn {
    claim: Claim,
    has_lock: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.has_lock {
            Lock::next_slot().give_back_in_transaction();
        }
    }
}

/// Withdraws the session from those who wait, however the wait ends.
struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        slots::withdraw();
    }
}

/// Waits until it is this session's turn to have a slot. `None`: the run `run_id` was begun by the
/// scheduler meanwhile, or has ended.
fn wait_for_slot(source: &Name, run_id: i64) -> Result<Option<Turn>, Error> {
    let owner = look(|| sources::owner_and_collection(source.as_str()))?;
    let owner = owner.map_or(0, |(owner, _)| owner.id.to_u32());
    let (began, mut told, _waiting) = (Instant::now(), false, Waiting);
    // dropped, and so given back, where the wait ends in another way
    let mut has_lock = false;
    loop {
        has_lock = has_lock || !shared::is_present() && Lock::next_slot().take_for_transaction();
        if (has_lock || shared::is_present())
            && let Some(claim) = slots::claim(owner, true, 0)
        {
            return Ok(Some(Turn { claim, has_lock }));
        }
        if !told && (slots::are_taken() || began.elapsed() >= LOOK) {
            told = true;
            pgrx::notice!(
                "waiting: as many runs are under way as rag.max_running_syncs allows ({})",
                settings::max_running_syncs()
            );
        }
        sleep(if told { LOOK } else { SHORT_LOOK });
        if has_begun(run_id)? {
            if has_lock {
                Lock::next_slot().give_back_in_transaction();
            }
            return Ok(None);
        }
    }
}

/// Starts the runner of a session, and waits for a worker first where the server has none. `None`:
/// the run was begun by the scheduler meanwhile, or has ended.
fn wait_for_worker(
    source: &Name,
    wanted: Wanted,
    turn: &Turn,
) -> Result<Option<DynamicBackgroundWorker>, Error> {
    let mut told = false;
    loop {
        let may_start = slots::may_take_worker(&turn.claim);
        if may_start && let Ok(worker) = start(source, wanted.task(), Some(&turn.claim)) {
            if told {
                slots::want_worker(&turn.claim, false);
            }
            return Ok(Some(worker));
        }
        slots::want_worker(&turn.claim, true);
        if !std::mem::replace(&mut told, true) {
            pgrx::notice!(
                "waiting: all background workers of the server are in use (max_worker_processes)"
            );
        }
        sleep(LOOK);
        if has_begun(wanted.id())? {
            return Ok(None);
        }
    }
}

/// Waits while a process is at work on a source none of whose runs is under way: a check for drift,
/// or a run that is just beginning or has just ended. No longer than `patience`.
pub fn wait_for_check(source: &Name, patience: Option<Duration>) -> Result<(), Error> {
    let (began, mut pause) = (Instant::now(), SHORT_LOOK);
    while !Lock::source_at_work(source).is_free()
        && look(|| runs::active(source.as_str()))?.is_none_or(|run| run.is_pending)
        && patience.is_none_or(|patience| began.elapsed() < patience)
    {
        sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
    Ok(())
}

/// The error for a source that a process is at work on: one that carries out the run `run_id`, or
/// else one as [`wait_for_check`] waits for.
pub fn at_work(source: &Name, run_id: Option<i64>) -> Error {
    let hint = match run_id {
        Some(run_id) => format!("rag.progress shows how far it is; SELECT rag_wait({run_id}) waits for it."),
        None => {
            "It is being checked for drift, or a run is just beginning or ending: try again in a moment.".to_string()
        }
    };
    Error::in_use(format!(
        "source \"{source}\" is being synced by another session"
    ))
    .hint(hint)
}

/// Has the rows of runs that lost their process put right, unless someone has the source's row
/// locked: by another process, because what this session does is undone by the error that it will
/// raise.
fn reap(source: &Name) -> Result<(), Error> {
    let (reaper, mut deadlocks) = (start(source, Task::Reap, None)?, Deadlocks::new());
    while !has_ended(&reaper) {
        sleep(Duration::from_millis(100));
        deadlocks.look(reaper.pid().ok())?;
    }
    Ok(())
}

/// # Errors
/// What keeps processes from writing down that a run has ended, a full disk for one. That someone
/// has a row locked passes.
fn check_end_can_be_written(source: &Name) -> Result<(), Error> {
    let tried = look(|| {
        match (
            Lock::source_at_work(source).take_for_transaction(),
            Source::find(source.as_str())?,
        ) {
            (true, Some(source)) => super::end::abandon(&source).map(drop),
            _ => Ok(()),
        }
    });
    match tried {
        Err(error) if !is_locked(&error) => Err(Error {
            message: format!("how the run of source \"{source}\" ended cannot be written down: {}", error.message),
            ..error
        }
        .hint("The run is under way no more, and the documents that it stored stay. Sync again once this is mended.")),
        _ => Ok(()),
    }
}

fn vanished() -> Error {
    Error::internal("the run's row has vanished")
}

/// Asks the process that is at work on a source to stop; whether there was one.
pub fn cancel(source: &Name) -> Result<bool, Error> {
    let process = sources::process_at_work(source)?;
    if let Some(pid) = process {
        signal(pid, libc::SIGINT);
    }
    Ok(process.is_some())
}
