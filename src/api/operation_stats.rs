//! Statistics of operations on collections, for the view `rag.metrics` (`sql/metrics.sql`).

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{catalog::access, cluster::operation_stats, pg::roles};

/// Returns the statistics of the collections that the caller may read or monitor, and of operations
/// without a collection.
#[pg_extern(sql = false, stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn operation_statistics() -> Result<
    TableIterator<
        'static,
        (
            name!(operation, String),
            name!(collection, Option<String>),
            name!(successes, i64),
            name!(failures, i64),
            name!(seconds, f64),
        ),
    >,
    ErrorReport,
> {
    let all = operation_stats::of_database();
    let names = all.iter().filter_map(|stats| stats.collection.clone());
    let monitored = access::monitored_among(roles::current(), names.collect())?;
    let monitored = all.into_iter().filter(move |stats| {
        let name = stats.collection.as_ref();
        name.is_none_or(|name| monitored.contains(name))
    });
    Ok(TableIterator::new(monitored.map(|stats| {
        (
            stats.operation.name().to_owned(),
            stats.collection,
            stats.counts.successes as i64,
            stats.counts.failures as i64,
            stats.counts.time.as_secs_f64(),
        )
    })))
}
