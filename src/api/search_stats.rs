//! Statistics of searches: the view `rag.search_stats` (`sql/search_stats.sql`) and their reset.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    catalog::access,
    cluster::search_stats::{self, LIMITS, SearchStats, TimeSum},
    pg::roles,
};

/// Returns the statistics of the collections that the caller may read or monitor. Times are in
/// milliseconds: of the whole search, of embedding, vector search, keyword search and fusion. The
/// limits of the histogram are in seconds.
#[pg_extern(sql = false, stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn search_statistics() -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(mode, String),
            name!(calls, i64),
            name!(errors, i64),
            name!(rows, i64),
            name!(empty, i64),
            name!(fewer, i64),
            name!(degraded, i64),
            name!(totals, Vec<f64>),
            name!(maxima, Vec<f64>),
            name!(limits, Vec<f64>),
            name!(counts, Vec<i64>),
        ),
    >,
    ErrorReport,
> {
    let all = search_stats::of_database();
    let names = all.iter().map(|stats| stats.collection.clone()).collect();
    let monitored = access::monitored_among(roles::current(), names)?;
    let monitored = all
        .into_iter()
        .filter(move |stats| monitored.contains(&stats.collection));
    let row = |SearchStats {
                   collection,
                   mode,
                   counts,
               }: SearchStats| {
        let milliseconds = |of: fn(&TimeSum) -> u64| {
            let times = counts.times.iter();
            times.map(|time| of(time) as f64 / 1e3).collect()
        };
        (
            collection,
            mode.name().to_owned(),
            counts.calls as i64,
            counts.errors as i64,
            counts.rows as i64,
            counts.empty as i64,
            counts.fewer as i64,
            counts.degraded as i64,
            milliseconds(|time| time.total),
            milliseconds(|time| time.max),
            LIMITS.to_vec(),
            counts.within.iter().map(|count| *count as i64).collect(),
        )
    };
    Ok(TableIterator::new(monitored.map(row)))
}

/// Works on a standby, too: the statistics are those of the server.
#[pg_extern(volatile)]
fn rag_reset_search_stats() -> Result<(), ErrorReport> {
    roles::require_admin("reset the statistics of searches")?;
    search_stats::reset();
    Ok(())
}
