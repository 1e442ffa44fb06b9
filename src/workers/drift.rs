//! When a scheduler has sources checked for drift: one at a time, each by a runner, so that a long
//! check delays no source.
//!
//! A check that was carried out, or failed, is stored in the source's row. If a runner ends and the
//! check is still due, it could not begin: its lock or the last slot was taken, or its process was
//! killed. The next attempt is delayed then.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    catalog::{drift, name::Name},
    cluster::{
        backoff::Backoff,
        lock::Lock,
        slots::{self, Claim},
    },
    error::Error,
    pg::{spi::owner_transaction, transaction::transaction},
    run::process::{self, DynamicBackgroundWorker, Task},
    settings,
};

/// Delays before the next attempts of a check that could not begin.
const NOT_BEGUN_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Delay before the next attempt after no slot was free.
const NO_SLOT_DELAY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Checks {
    running: Option<(String, DynamicBackgroundWorker, Claim)>,
    /// Sources whose check could not begin: no attempt before this time, and the delay.
    delayed: HashMap<String, (Instant, Duration)>,
}

impl Checks {
    /// Returns true if a check was started and is not known to have ended.
    pub fn are_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts a check that is due. Returns when to look again, if nothing wakes the scheduler
    /// before.
    pub fn start_due(&mut self) -> Result<Option<Duration>, Error> {
        let ended = match self.running.take() {
            Some((source, worker, claim)) if !process::has_ended(&worker) => {
                self.running = Some((source, worker, claim));
                return Ok(None);
            }
            ended => ended.map(|(source, ..)| source),
        };
        let Some(interval) = settings::drift_check_interval() else {
            return Ok(None);
        };
        let due = owner_transaction(|owner| drift::due(owner, interval))?;
        if let Some(source) = ended.filter(|source| due.contains(source)) {
            self.delay(source);
        } else {
            self.delayed.retain(|source, _| due.contains(source));
        }
        let mut next = owner_transaction(|owner| drift::until_next(owner, interval))?;
        let mut sooner = |time: Duration| next = Some(next.map_or(time, |next| next.min(time)));
        for source in due {
            let left = self
                .delayed
                .get(&source)
                .map(|(until, _)| until.saturating_duration_since(Instant::now()));
            if let Some(left) = left.filter(|left| !left.is_zero()) {
                sooner(left);
                continue;
            }
            let name = Name::source(&source)?;
            if transaction(|| Ok(!Lock::source_busy(&name).is_free()))? {
                // the end of the run wakes the scheduler
                continue;
            }
            let Some(claim) = slots::claim_spare(0) else {
                sooner(NO_SLOT_DELAY);
                break;
            };
            match process::start(&name, Task::Check, Some(&claim)) {
                Ok(worker) => {
                    self.running = Some((source, worker, claim));
                    return Ok(None);
                }
                Err(error) => {
                    let delay = self.delay(source.clone());
                    if delay == NOT_BEGUN_DELAYS.first {
                        pgrx::warning!(
                            "rag: source \"{source}\" cannot be checked for drift: {error}"
                        );
                    }
                    sooner(delay);
                    break;
                }
            }
        }
        Ok(next)
    }

    /// Delays the next check of a source. Returns the delay.
    fn delay(&mut self, source: String) -> Duration {
        let previous = self.delayed.get(&source).map(|(_, delay)| *delay);
        let delay = NOT_BEGUN_DELAYS.after(previous);
        self.delayed.insert(source, (Instant::now() + delay, delay));
        delay
    }
}
