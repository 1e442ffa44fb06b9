//! Starting the queued runs of a database: each needs a slot and a background worker.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use pgrx::bgworkers::DynamicBackgroundWorker;

use crate::{
    catalog::{
        due::{self, QueuedRun},
        name::Name,
    },
    cluster::{
        backoff::Backoff,
        lock::{self, Lock},
        no_worker, shared,
        slots::{self, Claim},
    },
    error::Error,
    pg::{spi::owner_transaction, transaction::transaction, worker::has_ended},
    run::process::{self, Task},
    settings,
};

/// Delay before the next attempt to start a queued run for which no slot was free. A process that
/// frees a slot wakes the scheduler before that.
const NO_SLOT_DELAY: Duration = Duration::from_secs(1);
/// Delay before the next attempt to start a run after the server had no free worker slot.
const NO_WORKER_DELAY: Duration = Duration::from_secs(3);
/// Delays before the next attempts to start a run whose process ended before the run had begun.
const NOT_BEGUN_DELAYS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
/// From this delay on, the queued run shows that its process keeps ending.
const SHOWN_DELAY: Duration = Duration::from_secs(1);
/// Interval between checks of whether a runner that was started has begun its run.
const BEGIN_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// What is left of the queue.
pub struct QueueState {
    /// Runs wait for a slot or for a worker, which nothing else may take.
    pub wants_room: bool,
    /// When to look again, if nothing wakes the scheduler before.
    pub next: Option<Duration>,
}

/// The queued runs that a scheduler is starting.
#[derive(Default)]
pub struct Queue {
    /// Runners that were started and have not begun their runs.
    started: HashMap<i64, DynamicBackgroundWorker>,
    /// Their slots, as long as the runners have not adopted them.
    claims: HashMap<i64, Claim>,
    /// Runs whose process ended before they had begun: no attempt before this time, and the delay.
    delayed: HashMap<i64, (Instant, Duration)>,
    /// No runner is started before this time: the server had no free worker slot.
    no_worker_until: Option<Instant>,
    /// The log already mentions that no background worker slot is free.
    is_shortage_logged: bool,
}

/// What became of a queued run.
enum Attempt {
    Started,
    /// Not to be tried before this time has passed.
    Delayed(Duration),
    NoSlot,
    NoWorker(Error),
}

impl Queue {
    /// Returns the number of runners that have not begun their runs.
    pub fn starting(&self) -> usize {
        self.started.len()
    }

    /// Starts queued runs as far as there are slots and workers.
    pub fn start(&mut self) -> Result<QueueState, Error> {
        let mut queued = self.take_ended()?;
        // the runs that have begun need nothing more from this worker
        self.started
            .retain(|run_id, _| queued.iter().any(|run| run.run_id == *run_id));
        self.forget_claims();
        queued.retain(|run| !self.started.contains_key(&run.run_id));
        if queued.is_empty() {
            slots::set_waiting_owners(&[]);
            return Ok(QueueState {
                wants_room: false,
                next: self.next_begin_check(),
            });
        }
        if let Some(left) = self
            .no_worker_until
            .map(time_until)
            .filter(|left| !left.is_zero())
        {
            return Ok(QueueState {
                wants_room: true,
                next: Some(left),
            });
        }
        self.start_each(&queued)
    }

    fn forget_claims(&mut self) {
        self.claims
            .retain(|run_id, _| self.started.contains_key(run_id));
    }

    fn next_begin_check(&self) -> Option<Duration> {
        (!self.started.is_empty()).then_some(BEGIN_CHECK_INTERVAL)
    }

    /// Removes the runners that have ended, and delays those of their runs that are still queued.
    /// Returns the queued runs.
    fn take_ended(&mut self) -> Result<Vec<QueuedRun>, Error> {
        let ended: Vec<i64> = self
            .started
            .extract_if(|_, worker| has_ended(worker))
            .map(|(run_id, _)| run_id)
            .collect();
        self.forget_claims();
        let queued = owner_transaction(due::queued)?;
        self.delayed
            .retain(|run_id, _| queued.iter().any(|run| run.run_id == *run_id));
        for run in queued.iter().filter(|run| ended.contains(&run.run_id)) {
            // another run was quicker to take the slot, which is no reason for a delay
            if !shared::is_present() && lock::free_slots() == 0 {
                continue;
            }
            let previous = self.delayed.get(&run.run_id).map(|(_, delay)| *delay);
            let delay = NOT_BEGUN_DELAYS.after(previous);
            self.delayed
                .insert(run.run_id, (Instant::now() + delay, delay));
            if delay >= SHOWN_DELAY {
                let why = "its process keeps ending before the run begins, see the server's log";
                owner_transaction(|owner| due::set_waiting(owner, &[run.run_id], why))?;
            }
        }
        if !ended.is_empty() {
            self.no_worker_until = None;
        }
        Ok(queued)
    }

    fn start_each(&mut self, queued: &[QueuedRun]) -> Result<QueueState, Error> {
        // owners that get no slot now, and their runs
        let (mut denied, mut waiting): (Vec<u32>, Vec<i64>) = (vec![], vec![]);
        let mut next = self.next_begin_check();
        let mut sooner = |delay: Duration| next = Some(next.map_or(delay, |next| next.min(delay)));
        for run in queued {
            if denied.contains(&run.owner) {
                waiting.push(run.run_id);
                continue;
            }
            match self.attempt(run)? {
                Attempt::Started => sooner(BEGIN_CHECK_INTERVAL),
                Attempt::Delayed(delay) => sooner(delay),
                Attempt::NoSlot => {
                    denied.push(run.owner);
                    waiting.push(run.run_id);
                }
                Attempt::NoWorker(error) => return self.wait_for_worker(queued, &error),
            }
        }
        self.is_shortage_logged = false;
        slots::set_waiting_owners(&denied);
        if waiting.is_empty() {
            return Ok(QueueState {
                wants_room: false,
                next,
            });
        }
        let limit = settings::max_running_syncs();
        self.set_waiting(
            waiting,
            &format!("too many runs in progress (rag.max_running_syncs = {limit})"),
        )?;
        // with shared memory, a free slot wakes the scheduler
        if !shared::is_present() {
            next = Some(next.map_or(NO_SLOT_DELAY, |next| next.min(NO_SLOT_DELAY)));
        }
        Ok(QueueState {
            wants_room: true,
            next,
        })
    }

    /// Tries to start one run.
    fn attempt(&mut self, run: &QueuedRun) -> Result<Attempt, Error> {
        let name = Name::source(&run.source)?;
        let delay = match self.delayed.get(&run.run_id) {
            Some((until, _)) => time_until(*until),
            // a drift check, or a session's run; its end wakes the scheduler
            None if transaction(|| Ok(!Lock::source_busy(&name).is_free()))? => NO_SLOT_DELAY,
            None => Duration::ZERO,
        };
        if !delay.is_zero() {
            return Ok(Attempt::Delayed(delay));
        }
        let Some(claim) = slots::claim(run.owner, false, self.started.len()) else {
            return Ok(Attempt::NoSlot);
        };
        let started = if slots::may_schedule() {
            process::start(&name, Task::Run(run.run_id), Some(&claim))
        } else {
            Err(no_worker())
        };
        Ok(match started {
            Ok(worker) => {
                self.started.insert(run.run_id, worker);
                self.claims.insert(run.run_id, claim);
                Attempt::Started
            }
            Err(error) => Attempt::NoWorker(error),
        })
    }

    /// No background worker slot is free: all queued runs wait.
    fn wait_for_worker(
        &mut self,
        queued: &[QueuedRun],
        error: &Error,
    ) -> Result<QueueState, Error> {
        shared::set_no_worker();
        self.no_worker_until = Some(Instant::now() + NO_WORKER_DELAY);
        if !std::mem::replace(&mut self.is_shortage_logged, true) && shared::may_log_shortage() {
            pgrx::warning!(
                "rag: runs wait: {error}. {}",
                error.hint.as_deref().unwrap_or_default()
            );
        }
        let waiting = queued.iter().map(|run| run.run_id);
        self.set_waiting(waiting, &format!("{error} (max_worker_processes)"))?;
        slots::set_waiting_owners(&[]);
        Ok(QueueState {
            wants_room: true,
            next: Some(NO_WORKER_DELAY),
        })
    }

    /// Records why queued runs have not been started.
    fn set_waiting(&self, runs: impl IntoIterator<Item = i64>, why: &str) -> Result<(), Error> {
        let waiting: Vec<i64> = runs
            .into_iter()
            .filter(|run| !self.started.contains_key(run))
            .collect();
        owner_transaction(|owner| due::set_waiting(owner, &waiting, why))
    }
}

fn time_until(time: Instant) -> Duration {
    time.saturating_duration_since(Instant::now())
}
