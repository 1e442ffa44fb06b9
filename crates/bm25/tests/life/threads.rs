//! Several sessions at once, and a standby.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use rag_bm25::{Scan, SegmentCache, cleanup, create, info, insert, merge_all, remove, top};
use rag_pages::{
    Block, IndexError, IndexLock, LockMode, MemoryPages, Page, ReadPages, Tid, WritePages,
};

use super::support::*;

const INSERTERS: u64 = 4;
const DOCUMENTS: u64 = 1500;
/// Documents of the test of a long pending list, at most.
const MANY: u64 = 4000;

#[test]
fn sessions_insert_search_and_maintain_together() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let next = AtomicU64::new(0);
    let inserted = Mutex::new(BTreeSet::new());
    let is_over = AtomicBool::new(false);
    // Readers hold it shared. They end while it is held exclusively.
    let readers = RwLock::new(());
    thread::scope(|scope| {
        let inserters: Vec<_> = (0..INSERTERS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        if id >= INSERTERS * DOCUMENTS {
                            return;
                        }
                        insert(&pages, tid(id), &terms(&words(id))).unwrap();
                        inserted.lock().unwrap().insert(tid(id));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                match round % 4 {
                    0 => merge_all(&pages).unwrap(),
                    1 => cleanup(&pages).unwrap(),
                    // Rows with this offset are dead from the beginning.
                    2 => drop(remove(&pages, &mut |row| row.offset == 50).unwrap()),
                    _ => drop(readers.write().map(|_| pages.end_readers())),
                }
                thread::yield_now();
            }
        });
        for seed in 0..2 {
            let (pages, inserted, is_over, readers) = (&pages, &inserted, &is_over, &readers);
            scope.spawn(move || {
                let (mut random, cache) = (Random(seed), SegmentCache::default());
                while !is_over.load(Ordering::Relaxed) {
                    let _reader = readers.read().unwrap();
                    let before = inserted.lock().unwrap().clone();
                    let query = terms(&["all".to_string()]);
                    let scan = Scan::begin(pages, &cache, &query, None, 1 << 12).unwrap();
                    let found = drain(pages, scan);
                    let is_lost = |row: &&Tid| row.offset != 50 && !found.contains(row);
                    let lost: Vec<_> = before.iter().filter(is_lost).collect();
                    assert!(lost.is_empty(), "{lost:?}");
                    if let Some(row) = before.iter().nth(random.below(500) as usize)
                        && row.offset != 50
                    {
                        let id = u64::from(row.block) * 100 + u64::from(row.offset) - 1;
                        let found = top(pages, &cache, &terms(&[own_word(id)]), None, 3).unwrap();
                        let found: Vec<Tid> = found.iter().map(|(row, _)| *row).collect();
                        assert_eq!(found, [*row]);
                    }
                }
            });
        }
        let ended: Vec<_> = inserters
            .into_iter()
            .map(|inserter| inserter.join())
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(|ended| ended.is_ok()));
    });
    let (maybe, live): (Vec<u64>, Vec<u64>) =
        (0..INSERTERS * DOCUMENTS).partition(|id| tid(*id).offset == 50);
    let mut model = Model {
        live: live.into_iter().map(|id| (tid(id), id)).collect(),
        maybe: maybe.into_iter().map(tid).collect(),
        ..Model::default()
    };
    verify(&pages, &model, "all inserted");
    remove_from(&pages, &mut model, &BTreeSet::new()).unwrap();
    verify(&pages, &model, "dead rows removed");
    verify_search(&pages, &model, &mut Random(9));
}

/// Neither vacuum nor a merge stops inserts, of whatever length: they hold these locks.
#[test]
fn inserts_wait_for_no_maintenance() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let mut model = Model::default();
    let insert_many = |model: &mut Model| {
        for _ in 0..MANY {
            insert_into(&pages, model).unwrap();
        }
    };
    let state = || info(&pages).unwrap();
    pages.lock(IndexLock::First, LockMode::Exclusive);
    insert_many(&mut model);
    assert!(state().segments > 1 && state().pending_pages < 70);
    pages.lock(IndexLock::Second, LockMode::Exclusive);
    insert_many(&mut model);
    assert!(state().pending_pages > 512);
    pages.unlock(IndexLock::Second, LockMode::Exclusive);
    pages.unlock(IndexLock::First, LockMode::Exclusive);
    insert_into(&pages, &mut model).unwrap();
    assert!(state().pending_pages < 70);
    verify(&pages, &model, "spilled");
}

/// Pages that a standby replays. Searches do not keep them from being used again.
struct Standby<'a>(&'a MemoryPages);

impl ReadPages for Standby<'_> {
    fn block_count(&self) -> Block {
        self.0.block_count()
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.0.read(block, f)
    }

    fn is_in_recovery(&self) -> bool {
        true
    }
}

#[test]
fn a_search_on_a_standby_notices_recycled_pages() {
    let (mut recycled, mut complete) = (0, 0);
    for seed in 0..40 {
        let pages = MemoryPages::new();
        create(&pages, &creation());
        let mut model = Model::default();
        for _ in 0..100 + 11 * seed {
            insert_into(&pages, &mut model).unwrap();
        }
        merge_all(&pages).unwrap();
        let rows: BTreeSet<Tid> = model.live.keys().copied().collect();
        let standby = Standby(&pages);
        let query = terms(&["all".to_string()]);
        let mut scan = Scan::begin(&standby, &SegmentCache::default(), &query, None, 1).unwrap();
        let mut found = BTreeSet::new();
        let add = |row: Tid, found: &mut BTreeSet<Tid>| {
            assert!(rows.contains(&row) && found.insert(row), "{row:?} is wrong");
        };
        for _ in 0..seed * 2 {
            add(scan.next(&standby).unwrap().unwrap().0, &mut found);
        }
        // The remaining rows get other places, partly in the same blocks.
        let dead = model
            .live
            .keys()
            .copied()
            .filter(|row| row.offset % 3 == 1)
            .collect();
        remove_from(&pages, &mut model, &dead).unwrap();
        for _ in 0..2 + seed % 5 {
            insert_into(&pages, &mut model).unwrap();
            pages.end_readers();
            merge_all(&pages).unwrap();
        }
        loop {
            match scan.next(&standby) {
                Ok(Some((row, _))) => add(row, &mut found),
                Ok(None) => {
                    complete += 1;
                    break;
                }
                Err(IndexError::Recycled { .. }) => {
                    recycled += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(recycled > 0, "{recycled} {complete}");
}
