//! The life of a run.
//!
//! A run is a row of `rag_internal.run`. Its [`Phase`](crate::catalog::runs::Phase) changes only
//! here:
//!
//! | from | to | when | function |
//! |---|---|---|---|
//! | (none) | Pending | a source is due, its table changed, a retry or repair is due, or rag_sync(wait => false) | [`runs::queue`](crate::catalog::runs::queue) |
//! | (none) | Running | a session starts a new run: rag_sync waits, or there is no scheduler | [`start::start`] |
//! | Pending | Running | its runner has the source's lock and a slot | [`start::start`] |
//! | Pending | Failed | it was cancelled before it began | [`end::finish`] |
//! | Pending | Failed | the source's definition cannot be read | [`end::fail_unreadable`] |
//! | Running | Completed | all documents were processed | [`end::finish`] |
//! | Running | Failed | an error, a timeout, a cancel | [`end::finish`] |
//! | Running | Failed | its process was lost | [`end::end_lost_runs`] |
//! | Running | Pending | it gave its slot to a run of another database or owner | [`end::requeue`] |
//!
//! At most one run of a source is Pending or Running. The end of a run also updates the source's
//! row: counts, conditions, and the time of the next attempt ([`retry`]).
//!
//! Every change of a phase locks the source's row first, so that processes do not wait for each
//! other crosswise. A transaction that was left open may hold that lock for long. Workers never
//! wait for it (`sources::lock_at_once`), as they would delay other sources.
//!
//! | file | contents |
//! |---|---|
//! | [`schedule`] | when a source is due |
//! | [`request`] | what `rag_sync`, `rag_wait` and `rag_cancel_run` do |
//! | [`session`] | sessions that start runs and wait for them |
//! | [`process`] | how the process of a run is started; `workers/runner.rs` is what it does |
//! | [`start`], [`end`], [`retry`] | the start, the end, and the next attempt |
//! | [`drift_check`] | a drift check that a session requests |

pub mod drift_check;
pub mod end;
pub mod process;
pub mod request;
pub mod retry;
pub mod schedule;
pub mod session;
pub mod start;
