//! Schedules: the times of their next runs.

use pgrx::{
    datum::TimestampWithTimeZone, iter::SetOfIterator, pg_extern, pg_sys::panic::ErrorReport,
};

use super::required;
use crate::{error::Error, run::schedule};

const MAX_TIMES: i32 = 1000;

#[pg_extern]
fn rag_next_runs(
    schedule: Option<&str>,
    n: pgrx::default!(Option<i32>, "5"),
    after: pgrx::default!(Option<TimestampWithTimeZone>, "pg_catalog.now()"),
) -> Result<SetOfIterator<'static, TimestampWithTimeZone>, ErrorReport> {
    let (text, n, after) = (
        required("schedule", schedule)?,
        required("n", n)?,
        required("after", after)?,
    );
    if !(1..=MAX_TIMES).contains(&n) {
        return Err(Error::invalid_parameter(format!(
            "n must be between 1 and {MAX_TIMES}, not {n}"
        ))
        .into());
    }
    let schedule =
        schedule::parse(text).map_err(|problem| Error::invalid("invalid schedule", &[problem]))?;
    if schedule.is_reboot() {
        pgrx::notice!("schedule @reboot has no predictable times: it runs when the server starts");
    }
    let zone = schedule::zone_of(&schedule)?;
    let times = std::iter::successors(schedule::next(&schedule, after, &zone), move |time| {
        schedule::next(&schedule, *time, &zone)
    });
    let times: Vec<TimestampWithTimeZone> = times.take(n.unsigned_abs() as usize).collect();
    Ok(SetOfIterator::new(times))
}
