//! Statistics of searches, in shared memory: the view `rag.search_stats`.
//!
//! They can be reset. [`count_table`] says how long they last otherwise.
#![allow(unsafe_code)] // the declaration of the shared memory

use std::time::Duration;

use pgrx::{PgLwLock, pg_guard, pg_shmem_init, pg_sys};
use rag_definition::retriever::RetrievalMode;

use super::count_table::{self, CountKey, CountTable, Counts};

/// Number of measured times.
pub const TIMES: usize = 5;
/// Upper limits of the histogram of whole searches, in seconds.
pub const LIMITS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// The sum and the maximum of times, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeSum {
    pub total: u64,
    pub max: u64,
}

impl TimeSum {
    fn add(&mut self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.total = self.total.saturating_add(time);
        self.max = self.max.max(time);
    }
}

/// What is counted of the searches in a collection with a mode.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchCounts {
    pub calls: u64,
    /// Searches that failed or were cancelled.
    pub errors: u64,
    pub rows: u64,
    /// Searches without rows.
    pub empty: u64,
    /// Searches with fewer rows than `top_k`.
    pub fewer: u64,
    /// Searches for which another mode was used.
    pub degraded: u64,
    /// The whole search, then the embedding, the list of vector search, that of keyword search, and
    /// fusion.
    pub times: [TimeSum; TIMES],
    /// Searches without error that took at most the time of the same place in [`LIMITS`].
    pub within: [u64; LIMITS.len()],
}

impl Counts for SearchCounts {
    fn events(&self) -> u64 {
        self.calls
    }
}

/// The counts of a collection and a mode.
pub struct SearchStats {
    pub collection: String,
    pub mode: RetrievalMode,
    pub counts: SearchCounts,
}

// SAFETY: no other lock has this name.
static TABLE: PgLwLock<CountTable<SearchCounts>> = unsafe { PgLwLock::new(c"rag search stats") };

/// Requests the shared memory. Called while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(TABLE = CountTable::EMPTY);
}

/// What a search has done.
pub struct SearchRecord {
    pub rows: usize,
    pub top_k: usize,
    pub is_degraded: bool,
    /// As in [`SearchCounts::times`].
    pub times: [Duration; TIMES],
}

/// A search that is counted when this is dropped: as an error, unless it has [ended](Self::end).
pub struct Counted {
    key: CountKey,
    record: Option<SearchRecord>,
}

impl Counted {
    /// `mode` is the one that was asked for.
    pub fn begin(collection: &str, mode: RetrievalMode) -> Self {
        Self {
            key: CountKey::new(collection, mode as u8),
            record: None,
        }
    }

    pub fn end(mut self, record: SearchRecord) {
        self.record = Some(record);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let record = self.record.as_ref();
        count_table::count(&TABLE, self.key, |counts| add(counts, record));
    }
}

fn add(counts: &mut SearchCounts, record: Option<&SearchRecord>) {
    counts.calls += 1;
    let Some(record) = record else {
        counts.errors += 1;
        return;
    };
    counts.rows += record.rows as u64;
    counts.empty += u64::from(record.rows == 0);
    counts.fewer += u64::from(record.rows < record.top_k);
    counts.degraded += u64::from(record.is_degraded);
    for (sum, time) in counts.times.iter_mut().zip(record.times) {
        sum.add(time);
    }
    let seconds = record.times[0].as_secs_f64();
    for (count, limit) in counts.within.iter_mut().zip(LIMITS) {
        *count += u64::from(seconds <= limit);
    }
}

/// Returns the statistics of the current database.
pub fn of_database() -> Vec<SearchStats> {
    let of = |(key, counts): (CountKey, SearchCounts)| {
        Some(SearchStats {
            collection: key.collection()?.to_owned(),
            mode: RetrievalMode::ALL
                .into_iter()
                .find(|mode| *mode as u8 == key.kind)?,
            counts,
        })
    };
    let entries = count_table::of_database(&TABLE);
    entries.into_iter().filter_map(of).collect()
}

/// Forgets the statistics of the current database.
pub fn reset() {
    count_table::forget(&TABLE, |_| true);
}

/// Forgets the statistics of a collection.
pub fn forget_collection(collection: &str) {
    count_table::forget(&TABLE, |key| key.is_of(collection));
}
