//! Drift: differences between what runs of a source have indexed and what is stored.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    catalog::name::canonical, collection::damage::explained, drift::FollowUp, run::drift_check,
    source::manage,
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
    super::prevent_on_standby(c"rag_check_drift()");
    let source = manage::find(name, "check a source for drift")?;
    let (findings, consequence) = explained(|| drift_check::check(&source))?;
    match consequence {
        FollowUp::Run(run_id) => {
            pgrx::notice!("{name}: run {run_id} is queued to index the drifted documents again");
        }
        FollowUp::RunExpected => {
            pgrx::notice!("{name}: a queued run or retry will index the drifted documents again");
        }
        _ if findings.has_drifted() => {
            pgrx::notice!(
                "{name}: the next run will index the drifted documents again; start it with \
                 SELECT rag_sync('{name}')"
            );
        }
        _ => {}
    }
    Ok(TableIterator::once((
        findings.expected,
        findings.actual,
        findings.has_drifted(),
        JsonB(findings.detail()),
    )))
}
