//! Counts of collections in shared memory, one entry for each collection and kind of what is
//! counted, of all databases.
//!
//! They exist with `shared_preload_libraries = 'rag'`, on standbys too, and last until the server
//! stops. An entry is found by the hash of its key. If the places that it may have are taken, the
//! entry among them with the fewest events is replaced. A transaction that is rolled back does not
//! undo what was counted in it.
#![allow(unsafe_code)] // plain data in shared memory

use std::hash::Hasher;

use pgrx::{PGRXSharedMemory, PgLwLock};

use super::shared::is_present;
use crate::pg::process::database;

/// Maximum number of entries.
const ENTRIES: usize = 4096;
/// Number of places in which an entry may be.
const PROBES: usize = 32;
/// Maximum length of a collection's name, in bytes.
const NAME: usize = 64;

/// What is counted under a key: plain data without pointers.
pub trait Counts: Copy + Default {
    /// Returns the number of events that were counted.
    fn events(&self) -> u64;
}

/// What identifies an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountKey {
    database: u32,
    /// What is counted, as a number of the table's user.
    pub kind: u8,
    /// The name of the collection, up to the first 0.
    collection: [u8; NAME],
}

impl CountKey {
    /// The key of a collection in the current database.
    pub fn new(collection: &str, kind: u8) -> Self {
        Self {
            database: database().to_u32(),
            kind,
            collection: name_of(collection),
        }
    }

    pub fn collection(&self) -> Option<&str> {
        let name = self.collection.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok()
    }

    pub fn is_of(&self, collection: &str) -> bool {
        self.collection == name_of(collection)
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u32(self.database);
        hasher.write_u8(self.kind);
        hasher.write(&self.collection);
        let first = hasher.finish() as usize;
        (0..PROBES).map(move |n| first.wrapping_add(n) % ENTRIES)
    }
}

fn name_of(collection: &str) -> [u8; NAME] {
    let mut name = [0; NAME];
    let bytes = collection.bytes().take(NAME);
    name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    name
}

#[derive(Clone, Copy)]
struct Entry<C> {
    key: CountKey,
    counts: C,
}

#[derive(Clone, Copy)]
pub struct CountTable<C>([Option<Entry<C>>; ENTRIES]);

impl<C: Counts> CountTable<C> {
    pub const EMPTY: Self = Self([None; ENTRIES]);

    /// Returns the counts of a key. They are new if the key had no entry.
    fn counts_of(&mut self, key: CountKey) -> Option<&mut C> {
        let is_of_key = |entry: &Option<Entry<C>>| entry.is_some_and(|entry| entry.key == key);
        let events = |entry: &Option<Entry<C>>| entry.map_or(0, |entry| entry.counts.events());
        let place = key
            .places()
            .find(|place| is_of_key(&self.0[*place]))
            .or_else(|| key.places().min_by_key(|place| events(&self.0[*place])))?;
        let entry = &mut self.0[place];
        if !is_of_key(entry) {
            *entry = None;
        }
        let new = Entry {
            key,
            counts: C::default(),
        };
        Some(&mut entry.get_or_insert(new).counts)
    }
}

// SAFETY: counts are plain data without pointers.
unsafe impl<C: Counts> PGRXSharedMemory for CountTable<C> {}

/// Changes the counts of a key, if there is shared memory.
pub fn count<C: Counts>(
    table: &PgLwLock<CountTable<C>>,
    key: CountKey,
    change: impl FnOnce(&mut C),
) {
    if is_present()
        && let Some(counts) = table.exclusive().counts_of(key)
    {
        change(counts);
    }
}

/// Returns the counts of the current database.
pub fn of_database<C: Counts>(table: &PgLwLock<CountTable<C>>) -> Vec<(CountKey, C)> {
    if !is_present() {
        return vec![];
    }
    let own = database().to_u32();
    let table = table.share();
    let entries = table.0.iter().flatten();
    entries
        .filter(|entry| entry.key.database == own)
        .map(|entry| (entry.key, entry.counts))
        .collect()
}

/// Forgets counts of the current database.
pub fn forget<C: Counts>(table: &PgLwLock<CountTable<C>>, is_affected: impl Fn(&CountKey) -> bool) {
    if !is_present() {
        return;
    }
    let own = database().to_u32();
    for entry in &mut table.exclusive().0 {
        if entry.is_some_and(|entry| entry.key.database == own && is_affected(&entry.key)) {
            *entry = None;
        }
    }
}
