//! When a scheduler has sources checked for drift: one at a time, each by a runner, so that a long
//! one holds nobody up.
//!
//! A check that was carried out, or failed, says so in the source's row. Where a runner ends and
//! the source is due as before, it could not even begin (its lock or the last slot was taken, or it
//! was killed): the source rests for a while.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    catalog::name::Name,
    cluster::{
        lock::Lock,
        slots::{self, Claim},
    },
    drift,
    error::Error,
    pg::transaction::transaction,
    run::process::{self, DynamicBackgroundWorker, Task},
    settings,
};

/// Until a check that could not begin is tried again; doubled each time up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The same where there is no slot for it.
const NO_SLOT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Checks {
    running: Option<(String, DynamicBackgroundWorker, Claim)>,
    /// Sources whose check could not begin: not before this time again.
    resting: HashMap<String, (Instant, Duration)>,
}

impl Checks {
    /// Whether a check was started that has not ended, for all that is known.
    pub fn are_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts a check that is due; when to look again, where nobody wakes the scheduler before.
    pub fn look(&mut self) -> Result<Option<Duration>, Error> {
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
        let due = transaction(|| drift::due(interval))?;
        if let Some(source) = ended.filter(|source| due.contains(source)) {
            self.rest(source);
        } else {
            self.resting.retain(|source, _| due.contains(source));
        }
        let mut next = transaction(|| drift::until_next(interval))?;
        let mut sooner = |rest: Duration| next = Some(next.map_or(rest, |next| next.min(rest)));
        for source in due {
            let rest = self
                .resting
                .get(&source)
                .map(|(until, _)| until.saturating_duration_since(Instant::now()));
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                sooner(rest);
                continue;
            }
            let name = Name::source(&source)?;
            if transaction(|| Ok(!Lock::source_at_work(&name).is_free()))? {
                // its end wakes the scheduler
                continue;
            }
            let Some(claim) = slots::claim_spare(0) else {
                sooner(NO_SLOT);
                break;
            };
            match process::start(&name, Task::Check, Some(&claim)) {
                Ok(worker) => {
                    self.running = Some((source, worker, claim));
                    return Ok(None);
                }
                Err(error) => {
                    let rest = self.rest(source.clone());
                    if rest == FIRST_PAUSE {
                        pgrx::warning!(
                            "rag: source \"{source}\" cannot be checked for drift: {error}"
                        );
                    }
                    sooner(rest);
                    break;
                }
            }
        }
        Ok(next)
    }

    fn rest(&mut self, source: String) -> Duration {
        let pause = self
            .resting
            .get(&source)
            .map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
        self.resting.insert(source, (Instant::now() + pause, pause));
        pause
    }
}
