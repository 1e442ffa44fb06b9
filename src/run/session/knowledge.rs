//! Indexing all knowledge items of a collection: a session starts the worker that does it
//! (`workers/indexer.rs`), and waits for it.
//!
//! The worker sees what is committed. It ends if the session stops waiting.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{CancelOnDrop, DeadlockCheck, RUNNER_POLL_INTERVAL, read_now};
use crate::{
    catalog::{
        collections::Collection,
        knowledge::Status,
        knowledge_runs::{self, KnowledgeRun},
        runs,
    },
    cluster::{lock::Lock, no_worker},
    error::Error,
    pg::{roles, spi::as_owner, wait::sleep, worker},
};

/// Interval between notices of the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// What the worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexerTask {
    pub run_id: i64,
    /// The role whose rights it has.
    pub role: u32,
    /// The serial number of the collection.
    pub serial: i64,
    /// The status of the items. None: all.
    pub status: Option<Status>,
}

impl IndexerTask {
    /// Returns the task as words of the worker's arguments.
    fn encode(self) -> String {
        let status = self.status.map_or("all", Status::name);
        format!("{} {} {} {status}", self.run_id, self.role, self.serial)
    }

    pub fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            run_id: words.next()?.parse().ok()?,
            role: words.next()?.parse().ok()?,
            serial: words.next()?.parse().ok()?,
            status: match words.next()? {
                "all" => None,
                status => Some(Status::parse(status)?),
            },
        })
    }
}

/// Indexes the items of a collection that have a status, or all, and returns the summary.
///
/// # Errors
/// Another session does it, no worker is free, or what ended the worker.
pub fn index_all(collection: &Collection, status: Option<Status>) -> Result<Value, Error> {
    let name = collection.name.as_str();
    if !Lock::knowledge(name).is_free() {
        return Err(busy(name));
    }
    let task = IndexerTask {
        run_id: as_owner(runs::next_id)?,
        role: roles::current().to_u32(),
        serial: collection.serial,
        status,
    };
    let worker = worker::start(worker::indexer(&task.encode())).ok_or_else(no_worker)?;
    let worker = CancelOnDrop::of(worker);
    let (mut reported, mut deadlocks) = (Instant::now(), DeadlockCheck::new());
    while !worker.has_ended() {
        // the postmaster sets this session's latch when the worker starts or ends
        sleep(RUNNER_POLL_INTERVAL);
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            if let Some(run) = read_now(|owner| knowledge_runs::find(owner, name, task.run_id))? {
                report(name, &run);
            }
        }
        deadlocks.check(worker.pid())?;
    }
    match read_now(|owner| knowledge_runs::find(owner, name, task.run_id))? {
        Some(KnowledgeRun {
            outcome: Some(outcome),
            ..
        }) => outcome,
        Some(_) => Err(lost(name)),
        None if !Lock::knowledge(name).is_free() => Err(busy(name)),
        None if read_now(|_| Collection::find(name))?.is_none() => Err(Collection::missing(name)
            .detail("It was dropped, or this transaction has created it. COMMIT first.")),
        None => Err(not_begun(name)),
    }
}

fn report(name: &str, run: &KnowledgeRun) {
    pgrx::notice!(
        "knowledge items of collection \"{name}\": {} of {} indexed",
        run.items_done,
        run.items_total
    );
}

fn busy(name: &str) -> Error {
    Error::in_use(format!(
        "knowledge items of collection \"{name}\" are being indexed by another session"
    ))
    .hint("The view rag.progress shows how far it is.")
}

fn lost(name: &str) -> Error {
    Error::engine_unavailable(format!(
        "the process that indexed knowledge items of collection \"{name}\" was lost"
    ))
    .hint("The items that it has indexed stay. Call rag_index_all_knowledge again for the rest.")
}

fn not_begun(name: &str) -> Error {
    Error::in_use(format!(
        "indexing knowledge items of collection \"{name}\" could not begin"
    ))
    .hint("The server's log shows the reason.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_the_arguments_of_a_worker() {
        for status in [None, Some(Status::Pending), Some(Status::Error)] {
            let task = IndexerTask {
                run_id: i64::MAX,
                role: u32::MAX,
                serial: i64::MAX,
                status,
            };
            let text = task.encode();
            assert_eq!(IndexerTask::decode(&text), Some(task));
            // with the database, it must fit into the 128 bytes of a worker
            assert!(text.len() < 100);
        }
    }
}
