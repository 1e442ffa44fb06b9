//! Statistics of operations on collections, in shared memory, for the view `rag.metrics`.
//!
//! A statement that fails is rolled back, so no table can count it. [`count_table`] says how long
//! the counts last.
#![allow(unsafe_code)] // the declaration of the shared memory

use std::time::{Duration, Instant};

use pgrx::{PgLwLock, pg_guard, pg_shmem_init, pg_sys};

use super::count_table::{self, CountKey, CountTable, Counts};

/// What is counted, and in what: documents, chunks, or whole operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Documents that applications give.
    AddDocument,
    /// Chunks that applications give.
    UpsertChunks,
    Export,
    /// One that fails has no collection.
    Import,
    Rebuild,
}

impl Operation {
    const ALL: [Self; 5] = [
        Self::AddDocument,
        Self::UpsertChunks,
        Self::Export,
        Self::Import,
        Self::Rebuild,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::AddDocument => "add_document",
            Self::UpsertChunks => "upsert_chunks",
            Self::Export => "export",
            Self::Import => "import",
            Self::Rebuild => "rebuild",
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct OperationCounts {
    pub successes: u64,
    pub failures: u64,
    pub time: Duration,
}

impl Counts for OperationCounts {
    fn events(&self) -> u64 {
        self.successes.saturating_add(self.failures)
    }
}

/// The counts of an operation in a collection.
pub struct OperationStats {
    /// None for operations that have no collection.
    pub collection: Option<String>,
    pub operation: Operation,
    pub counts: OperationCounts,
}

// SAFETY: no other lock has this name.
static TABLE: PgLwLock<CountTable<OperationCounts>> =
    unsafe { PgLwLock::new(c"rag operation stats") };

/// Requests the shared memory. Called while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(TABLE = CountTable::EMPTY);
}

/// An operation, or a part of one, that is counted when this is dropped: as failed, unless it has
/// ended otherwise.
pub struct CountedOperation {
    key: CountKey,
    began: Instant,
    successes: u64,
    failures: u64,
}

impl CountedOperation {
    /// `items` is the number of what is counted, all of which fails if this is dropped.
    pub fn begin(operation: Operation, collection: &str, items: usize) -> Self {
        Self {
            key: CountKey::new(collection, operation as u8),
            began: Instant::now(),
            successes: 0,
            failures: items as u64,
        }
    }

    /// An operation that has no collection until it succeeds.
    pub fn begin_without_collection(operation: Operation) -> Self {
        Self::begin(operation, "", 1)
    }

    pub fn succeed(self) {
        let items = self.failures;
        self.end(items, 0);
    }

    pub fn succeed_in(mut self, collection: &str) {
        self.key = CountKey::new(collection, self.key.kind);
        self.succeed();
    }

    /// Ends a part of the operation that others follow.
    pub fn pause(self) {
        self.end(0, 0);
    }

    pub fn end(mut self, successes: u64, failures: u64) {
        (self.successes, self.failures) = (successes, failures);
    }
}

impl Drop for CountedOperation {
    fn drop(&mut self) {
        count_table::count(&TABLE, self.key, |counts| {
            counts.successes = counts.successes.saturating_add(self.successes);
            counts.failures = counts.failures.saturating_add(self.failures);
            counts.time = counts.time.saturating_add(self.began.elapsed());
        });
    }
}

/// Returns the statistics of the current database.
pub fn of_database() -> Vec<OperationStats> {
    let of = |(key, counts): (CountKey, OperationCounts)| {
        let collection = key.collection()?;
        Some(OperationStats {
            collection: (!collection.is_empty()).then(|| collection.to_owned()),
            operation: Operation::ALL
                .into_iter()
                .find(|operation| *operation as u8 == key.kind)?,
            counts,
        })
    };
    let entries = count_table::of_database(&TABLE);
    entries.into_iter().filter_map(of).collect()
}

/// Forgets the statistics of a collection.
pub fn forget_collection(collection: &str) {
    count_table::forget(&TABLE, |key| key.is_of(collection));
}
