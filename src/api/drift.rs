//! Drift: whether what is stored of a source is still what its runs have indexed.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    catalog::{
        name::canonical,
        runs,
        sources::{self, Source},
    },
    cluster::{
        self,
        lock::{self, Lock},
        news,
    },
    drift::{self, Consequence},
    pg::snapshot::{fresh, snapshot_is_fixed},
    run::session,
};

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_check_drift(
    name: &str,
) -> Result<
    TableIterator<
        'static,
        (
            name!(expected, Option<i64>),
            name!(actual, i64),
            name!(drifted, bool),
            name!(detail, JsonB),
        ),
    >,
    ErrorReport,
> {
    let name = canonical(name);
    let source = super::source::manageable(c"rag_check_drift()", name, "check a source for drift")?;
    lock::check_not_going(&source.name)?;
    if !snapshot_is_fixed() {
        session::wait_for_check(&source.name, Some(session::PATIENCE))?;
    }
    if !Lock::source_at_work(&source.name).take_for_transaction_patiently() {
        let run = fresh(|| runs::active(name))?;
        return Err(session::at_work(&source.name, run.map(|run| run.run_id)).into());
    }
    let findings = drift::look(&source)?;
    // what follows is for the source to say as it is now
    sources::lock(name)?;
    let source = fresh(|| source.again())?.ok_or_else(|| Source::missing(name))?;
    match drift::conclude(&source, &findings, cluster::are_scheduling())? {
        Consequence::Run(run_id) => {
            news::wake_scheduler_at_commit();
            pgrx::notice!("{name}: run {run_id} is queued, which indexes again what drifted");
        }
        Consequence::RunToCome => {
            pgrx::notice!(
                "{name}: the source's next run, which is to come already, indexes again what drifted"
            );
        }
        _ if findings.drifted => {
            pgrx::notice!(
                "{name}: the source's next run indexes again what drifted; SELECT rag_sync('{name}') begins one"
            );
        }
        _ => {}
    }
    Ok(TableIterator::once((
        findings.expected,
        findings.actual,
        findings.drifted,
        JsonB(findings.detail),
    )))
}
