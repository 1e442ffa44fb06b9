//! Statistics of searches, in shared memory: the view `rag.search_stats`.
//!
//! They exist with `shared_preload_libraries = 'rag'`, on standbys too, and last until the server
//! stops or they are reset. An entry is found by the hash of its key. If the places that it may
//! have are taken, the entry among them with the fewest calls is replaced.
#![allow(unsafe_code)] // the declaration of the shared memory

use std::{hash::Hasher, time::Duration};

use pgrx::{PGRXSharedMemory, PgLwLock, pg_guard, pg_shmem_init, pg_sys};
use rag_contract::RetrievalMode;

use super::shared::is_present;
use crate::pg::{process::database, transaction::at_commit};

/// Maximum number of entries: one for each collection and mode, of all databases.
const ENTRIES: usize = 4096;
/// Number of places in which an entry may be.
const PROBES: usize = 32;
/// Maximum length of a collection's name, in bytes.
const NAME: usize = 64;
/// Number of measured times.
pub const TIMES: usize = 5;

/// What identifies an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    database: u32,
    mode: u8,
    /// The name of the collection, up to the first 0.
    collection: [u8; NAME],
}

impl Key {
    fn new(collection: &str, mode: RetrievalMode) -> Self {
        let mut name = [0; NAME];
        let bytes = collection.bytes().take(NAME);
        name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Self {
            database: database().to_u32(),
            mode: mode as u8,
            collection: name,
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u32(self.database);
        hasher.write_u8(self.mode);
        hasher.write(&self.collection);
        let first = hasher.finish() as usize;
        (0..PROBES).map(move |n| first.wrapping_add(n) % ENTRIES)
    }
}

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
}

/// The counts of a collection and a mode.
pub struct SearchStats {
    pub collection: String,
    pub mode: RetrievalMode,
    pub counts: SearchCounts,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    counts: SearchCounts,
}

#[derive(Clone, Copy)]
struct Entries([Option<Entry>; ENTRIES]);

// SAFETY: plain data without pointers.
unsafe impl PGRXSharedMemory for Entries {}

// SAFETY: no other lock has this name.
static ENTRIES_IN_MEMORY: PgLwLock<Entries> = unsafe { PgLwLock::new(c"rag search stats") };

/// Requests the shared memory. Called while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(ENTRIES_IN_MEMORY = Entries([None; ENTRIES]));
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
    key: Key,
    record: Option<SearchRecord>,
}

impl Counted {
    /// `mode` is the one that was asked for.
    pub fn begin(collection: &str, mode: RetrievalMode) -> Self {
        Self {
            key: Key::new(collection, mode),
            record: None,
        }
    }

    pub fn end(mut self, record: SearchRecord) {
        self.record = Some(record);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if is_present() {
            add(self.key, self.record.as_ref());
        }
    }
}

fn add(key: Key, record: Option<&SearchRecord>) {
    let mut entries = ENTRIES_IN_MEMORY.exclusive();
    let is_of_key = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.key == key);
    let calls = |entry: &Option<Entry>| entry.map_or(0, |entry| entry.counts.calls);
    let place = key
        .places()
        .find(|place| is_of_key(&entries.0[*place]))
        .or_else(|| key.places().min_by_key(|place| calls(&entries.0[*place])));
    let Some(place) = place else { return };
    let entry = &mut entries.0[place];
    if !is_of_key(entry) {
        *entry = None;
    }
    let new = Entry {
        key,
        counts: SearchCounts::default(),
    };
    let counts = &mut entry.get_or_insert(new).counts;
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
}

/// Returns the statistics of the current database.
pub fn of_database() -> Vec<SearchStats> {
    if !is_present() {
        return vec![];
    }
    let own = database().to_u32();
    let entries: Vec<Entry> = ENTRIES_IN_MEMORY
        .share()
        .0
        .iter()
        .flatten()
        .filter(|entry| entry.key.database == own)
        .copied()
        .collect();
    entries
        .into_iter()
        .filter_map(|Entry { key, counts }| {
            let name = key.collection.split(|byte| *byte == 0).next()?;
            Some(SearchStats {
                collection: std::str::from_utf8(name).ok()?.to_owned(),
                mode: RetrievalMode::ALL
                    .into_iter()
                    .find(|mode| *mode as u8 == key.mode)?,
                counts,
            })
        })
        .collect()
}

/// Forgets the statistics of the current database.
pub fn reset() {
    forget(|_| true);
}

/// Forgets the statistics of a collection when the transaction commits.
pub fn forget_collection_at_commit(collection: &str) {
    let of = Key::new(collection, RetrievalMode::ALL[0]).collection;
    at_commit(move || forget(|key| key.collection == of));
}

fn forget(is_affected: impl Fn(&Key) -> bool) {
    if !is_present() {
        return;
    }
    let own = database().to_u32();
    for entry in &mut ENTRIES_IN_MEMORY.exclusive().0 {
        if entry.is_some_and(|entry| entry.key.database == own && is_affected(&entry.key)) {
            *entry = None;
        }
    }
}
