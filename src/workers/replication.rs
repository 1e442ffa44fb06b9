//! When a scheduler replicates changes to servers that search vectors: one request at a time, by a
//! process of `rag-engine` that the scheduler looks at now and then, so that a slow server delays
//! no source.

use std::time::Duration;

use crate::{
    cluster::backoff::Backoff,
    error::Error,
    pg::transaction::transaction,
    storage::{
        outbox::changes,
        remote::replication::{self, Replication},
    },
};

/// Intervals between looks at a request in progress.
const POLL_INTERVALS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// Delay before the next attempt while another process replicates a collection.
const BUSY_DELAY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Replicator {
    in_flight: Option<Replication>,
    /// The interval before the next look at it.
    interval: Option<Duration>,
}

impl Replicator {
    /// Returns true if a request is in progress.
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Takes the answer of the request in progress, and begins the next one that is due. Returns
    /// when to look again, if nothing wakes the scheduler before.
    ///
    /// # Errors
    /// The changes cannot be read.
    pub fn advance(&mut self) -> Result<Option<Duration>, Error> {
        if let Some(in_flight) = &mut self.in_flight {
            let answer = in_flight.poll();
            if let Ok(false) = answer {
                self.interval = Some(POLL_INTERVALS.after(self.interval));
                return Ok(self.interval);
            }
            let recorded = answer.and_then(|_| transaction(|| in_flight.record()).map(drop));
            let (collection, removal) = (in_flight.collection().to_owned(), in_flight.removal());
            self.in_flight = None;
            if let Err(error) = recorded {
                replication::delay(&collection, removal, &error)?;
            }
        }
        let mut is_busy = false;
        for due in transaction(changes::due)? {
            if !due.wait.is_zero() {
                let busy = is_busy.then_some(BUSY_DELAY);
                return Ok([Some(due.wait), busy].into_iter().flatten().min());
            }
            let begun = transaction(|| match due.removal {
                Some(removal) => replication::begin_removal(&due.collection, removal),
                None => replication::begin(&due.collection),
            });
            match begun {
                Ok(Some(in_flight)) => {
                    self.in_flight = Some(in_flight);
                    self.interval = Some(POLL_INTERVALS.first);
                    return Ok(self.interval);
                }
                Ok(None) => is_busy = true,
                Err(error) => replication::delay(&due.collection, due.removal, &error)?,
            }
        }
        Ok(is_busy.then_some(BUSY_DELAY))
    }
}
