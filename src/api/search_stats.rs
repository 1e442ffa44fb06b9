//! Statistics of searches: the view `rag.search_stats` (`sql/search_stats.sql`) and their reset.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    catalog::access,
    cluster::search_stats::{self, LIMITS, SearchStats, TimeSum},
    error::Error,
    pg::roles,
};

/// Returns the statistics of the collections that the caller may read or monitor. Times are in
/// milliseconds: of the whole search, of embedding, vector search, keyword search and fusion.
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
        ),
    >,
    ErrorReport,
> {
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
        )
    };
    Ok(TableIterator::new(monitored()?.map(row)))
}

/// Returns a histogram of the times of searches without error, in seconds: how many took at most
/// each of the limits, and the number and the sum of all.
#[pg_extern(sql = false, stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn search_durations() -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(mode, String),
            name!(limits, Vec<f64>),
            name!(counts, Vec<i64>),
            name!(count, i64),
            name!(sum, f64),
        ),
    >,
    ErrorReport,
> {
    Ok(TableIterator::new(monitored()?.map(|stats| {
        let counts = &stats.counts;
        (
            stats.collection,
            stats.mode.name().to_owned(),
            LIMITS.to_vec(),
            counts.within.iter().map(|count| *count as i64).collect(),
            counts.calls.saturating_sub(counts.errors) as i64,
            counts.times[0].total as f64 / 1e6,
        )
    })))
}

fn monitored() -> Result<impl Iterator<Item = SearchStats>, Error> {
    let all = search_stats::of_database();
    let names = all.iter().map(|stats| stats.collection.clone()).collect();
    let monitored = access::monitored_among(roles::current(), names)?;
    Ok(all
        .into_iter()
        .filter(move |stats| monitored.contains(&stats.collection)))
}

/// Works on a standby, too: the statistics are those of the server.
#[pg_extern(volatile)]
fn rag_reset_search_stats() -> Result<(), ErrorReport> {
    roles::require_admin("reset the statistics of searches")?;
    search_stats::reset();
    Ok(())
}
