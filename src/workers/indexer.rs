//! The worker that indexes all knowledge items of a collection, for a session that waits for it
//! ([`crate::run::session::knowledge`]).
//!
//! It has the rights of the role that asked for it. SIGINT cancels it; what it has indexed stays.

use pgrx::{bgworkers::BackgroundWorker, pg_sys};

use crate::{
    catalog::{access::CollectionPrivilege, knowledge_runs},
    cluster::{
        lock::Lock,
        shared::{self, WorkerKind},
    },
    collection::rights,
    error::Error,
    pg::{
        calls::worker_main,
        guc, process,
        spi::{as_owner, owner_transaction},
        transaction::{roll_back_rest, transaction},
    },
    run::session::knowledge::IndexerTask,
    settings,
    sync::knowledge::all,
};

worker_main!(rag_indexer_main, main);

fn main() {
    let extra = BackgroundWorker::get_extra();
    let task = extra.split_once(' ').and_then(|(database, task)| {
        Some((database.parse::<u32>().ok()?, IndexerTask::decode(task)?))
    });
    let Some((database, task)) = task else {
        pgrx::warning!("rag: an indexer was started without a collection");
        return;
    };
    process::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if !shared::enter(WorkerKind::Runner) {
        return;
    }
    let lock_timeout = settings::lock_timeout().as_millis().to_string();
    guc::set_setting(c"lock_timeout", &lock_timeout);
    if let Err(error) = carry_out(task) {
        pgrx::log!("rag: knowledge items could not be indexed: {error}");
    }
}

/// Carries out the task. Errors are those that could not be stored in the run's row.
fn carry_out(task: IndexerTask) -> Result<(), Error> {
    let role = pg_sys::Oid::from(task.role);
    let collection = transaction(|| {
        process::become_session_user(role);
        let collection = as_owner(|owner| knowledge_runs::collection(owner, task.serial))?;
        rights::require(role, &collection, CollectionPrivilege::Write)?;
        Ok(collection)
    })?;
    let name = collection.name.as_str();
    process::report_activity(&format!("rag: indexing knowledge of {name}"));
    // another session was quicker: the one that asked for this worker notices it
    if !transaction(|| Ok(Lock::knowledge(name).try_acquire()))? {
        return Ok(());
    }
    let outcome = roll_back_rest(|| all::index_all(task.run_id, name, task.status));
    process::ignore_cancels();
    owner_transaction(|owner| knowledge_runs::finish(owner, name, task.run_id, &outcome))
}
