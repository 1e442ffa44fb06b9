//! Two sessions whose steps alternate: at each step of one, the other does something.

use std::{
    cell::{Cell, RefCell},
    ops::Range,
};

use rag_bm25::{
    Scan, SegmentCache, TableRows, Terms, check, cleanup, count_rows, create, info, insert,
    merge_all, remove, score_rows,
};
use rag_pages::{
    Block, IndexLock, LockMode, MemoryPages, Page, PageUse, ReadPages, ReusePages, Tid, WritePages,
};

use super::support::*;

/// Pages on which another session acts once, before a page is locked.
struct Interleaved<'a> {
    pages: &'a MemoryPages,
    /// Number of pages that are locked before.
    left: Cell<u64>,
    action: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Interleaved<'a> {
    fn new(pages: &'a MemoryPages, left: u64, action: impl FnOnce() + 'a) -> Self {
        Self {
            pages,
            left: Cell::new(left),
            action: RefCell::new(Some(Box::new(action))),
        }
    }

    fn step(&self) {
        match self.left.get() {
            0 => {
                if let Some(action) = self.action.take() {
                    action();
                }
            }
            left => self.left.set(left - 1),
        }
    }

    /// Returns true if the other session has acted.
    fn is_done(&self) -> bool {
        self.action.borrow().is_none()
    }
}

impl ReadPages for Interleaved<'_> {
    fn block_count(&self) -> Block {
        self.pages.block_count()
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.step();
        self.pages.read(block, f)
    }
}

impl WritePages for Interleaved<'_> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        self.step();
        self.pages.write(block, f)
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        self.step();
        self.pages.append(f)
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.pages.lock(lock, mode);
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.pages.unlock(lock, mode);
    }
}

impl ReusePages for Interleaved<'_> {
    fn write_group<const N: usize, R>(
        &self,
        blocks: [(Block, PageUse); N],
        f: impl FnOnce([&mut Page; N]) -> Option<R>,
    ) -> Option<R> {
        self.step();
        self.pages.write_group(blocks, f)
    }

    fn overwrite(&self, block: Block, f: impl FnOnce(&mut Page)) {
        self.step();
        self.pages.overwrite(block, f);
    }

    fn extend(&self, block: Block) {
        self.pages.extend(block);
    }

    fn truncate(&self, end: impl FnOnce() -> Option<Block>) {
        self.pages.truncate(end);
    }

    fn try_lock(&self, lock: IndexLock, mode: LockMode) -> bool {
        self.pages.try_lock(lock, mode)
    }

    fn now(&self) -> u64 {
        self.pages.now()
    }

    fn end_present(&self) {
        self.pages.end_present();
    }

    fn is_past(&self, stamp: u64) -> bool {
        self.pages.is_past(stamp)
    }
}

/// Returns the terms of a document that takes about so many bytes.
fn terms_of(id: u64, bytes: usize) -> Terms {
    let mut words = vec!["all".to_string(), own_word(id)];
    // a word of 10 bytes, 6 that belong to it, and 3 of positions
    words.extend((0..bytes / 19).map(|i| format!("word{:06}", i * 7 + id as usize)));
    terms(&words)
}

fn put(pages: &impl ReusePages, id: u64, bytes: usize) {
    insert(pages, tid(id), &terms_of(id, bytes)).unwrap();
}

/// Returns true if the other session does not hold a lock.
fn is_free(pages: &MemoryPages, lock: IndexLock) -> bool {
    let is_free = pages.try_lock(lock, LockMode::Exclusive);
    if is_free {
        pages.unlock(lock, LockMode::Exclusive);
    }
    is_free
}

/// Makes all a segment, if the other session holds no lock.
fn merge_if_possible(pages: &MemoryPages) {
    let locks = [
        IndexLock::First,
        IndexLock::Second,
        IndexLock::Third,
        IndexLock::Fourth,
    ];
    if locks.into_iter().all(|lock| is_free(pages, lock)) {
        merge_all(pages).unwrap();
    }
}

/// Checks that an index has the documents below `end`, with all their words.
fn verify_documents(pages: &MemoryPages, end: u64, when: &str) {
    let model = Model {
        live: (0..end).map(|id| (tid(id), id)).collect(),
        ..Model::default()
    };
    verify(pages, &model, when);
    let cache = SegmentCache::default();
    let query = terms(&["all".to_string()]);
    let scan = Scan::begin(pages, &cache, &query, None, MEMORY).unwrap();
    assert!(drain(pages, scan).iter().eq(model.live.keys()), "{when}");
    for id in 0..end {
        let scores = score_rows(pages, &cache, &terms(&[own_word(id)]), None, &[tid(id)]);
        assert!(scores.unwrap()[0] > 0.0, "{when}: document {id}");
    }
}

fn base(pending: u64, segments: u64) -> (MemoryPages, u64) {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let mut id = 0;
    let mut put_next = |bytes| {
        put(&pages, id, bytes);
        id += 1;
    };
    for _ in 0..segments {
        (0..4).for_each(|_| put_next(3000));
        merge_all(&pages).unwrap();
    }
    (0..pending).for_each(|_| put_next(3000));
    pages.end_readers();
    (pages, id)
}

#[test]
fn an_insert_notices_what_another_session_does() {
    for (pending, segments) in [(0, 0), (1, 0), (2, 0), (5, 1), (4, 3)] {
        let (base, end) = base(pending, segments);
        for (bytes, act) in [20, 6000, 7000, 30_000]
            .into_iter()
            .flat_map(|b| [(b, 0), (b, 1), (b, 2)])
        {
            for step in 0.. {
                let pages = base.copy();
                pages.end_readers();
                let action = || match act {
                    0 => put(&pages, end, 6000),
                    1 => merge_if_possible(&pages),
                    _ => {
                        put(&pages, end, 20);
                        merge_if_possible(&pages);
                        pages.end_readers();
                        // The blocks of the list are used again.
                        merge_if_possible(&pages);
                        put(&pages, end + 1, 20);
                    }
                };
                let others = [1, 0, 2][act];
                let store = Interleaved::new(&pages, step, action);
                insert(&store, tid(end + others), &terms_of(end + others, bytes)).unwrap();
                let is_done = store.is_done();
                drop(store);
                if !is_done {
                    break;
                }
                let when = format!("{pending} {segments} {bytes} {act} {step}");
                verify_documents(&pages, end + others + 1, &when);
                merge_all(&pages).unwrap();
                assert_eq!(info(&pages).unwrap().segments, 1);
                verify_documents(&pages, end + others + 1, &when);
            }
        }
    }
}

#[test]
fn maintenance_notices_inserts() {
    let (base, end) = base(12, 2);
    for work in 0..3 {
        for step in 0.. {
            let pages = base.copy();
            if step % 2 == 0 {
                pages.end_readers();
                pages.end_readers();
            }
            let action = || (0..3).for_each(|i| put(&pages, end + i, 7000));
            let store = Interleaved::new(&pages, step, action);
            match work {
                0 => merge_all(&store).unwrap(),
                1 => cleanup(&store).unwrap(),
                _ => drop(remove(&store, &mut |_| false).unwrap()),
            }
            let is_done = store.is_done();
            drop(store);
            if !is_done {
                break;
            }
            verify_documents(&pages, end + 3, &format!("work {work}, step {step}"));
            merge_all(&pages).unwrap();
            verify_documents(
                &pages,
                end + 3,
                &format!("work {work}, step {step}, merged"),
            );
        }
    }
}

/// Documents move to other segments while vacuum looks for dead ones. It finds all of them.
#[test]
fn vacuum_finds_documents_that_move() {
    let (base, mut end) = base(12, 2);
    let is_dead = |row: Tid| row.offset.is_multiple_of(3);
    let next = end;
    // as many as make the pending list a segment
    end += 70;
    for step in (0..).step_by(7) {
        let pages = base.copy();
        pages.end_readers();
        let action = || (next..end).for_each(|id| put(&pages, id, 7000));
        let store = Interleaved::new(&pages, step, action);
        let removal = remove(&store, &mut |row| row < tid(next) && is_dead(row)).unwrap();
        let is_done = store.is_done();
        drop(store);
        if !is_done {
            break;
        }
        assert!(removal.removed > 0);
        let mut left = vec![];
        check(&pages, &mut |row| left.push(row), &mut |block, problem| {
            panic!("step {step}: block {block}: {problem}")
        })
        .unwrap();
        left.sort_unstable();
        let expected = (0..end).filter(|id| *id >= next || !is_dead(tid(*id)));
        assert!(left.into_iter().eq(expected.map(tid)), "step {step}");
    }
}

/// A session spills while another merges older segments.
#[test]
fn spills_and_merges_go_on_together() {
    let base = MemoryPages::new();
    create(&base, &creation());
    let put_all = |pages: &MemoryPages, ids: Range<u64>| ids.for_each(|id| put(pages, id, 7000));
    for segment in 0..7 {
        put_all(&base, segment * 10..segment * 10 + 10);
        cleanup(&base).unwrap();
    }
    let (end, later) = (80, 150);
    put_all(&base, 70..end);
    assert_eq!(info(&base).unwrap().segments, 7);
    let mut together = 0;
    for merges_all in [true, false] {
        for step in (0..).step_by(11) {
            let pages = base.copy();
            pages.end_readers();
            let inserted = Cell::new(end);
            let action = || {
                // The other session releases it within its step. Nobody can wait for it here.
                if is_free(&pages, IndexLock::Fourth) {
                    put_all(&pages, end..later);
                    inserted.set(later);
                }
            };
            let store = Interleaved::new(&pages, step, action);
            if merges_all {
                merge_all(&store).unwrap();
            } else {
                cleanup(&store).unwrap();
            }
            let is_done = store.is_done();
            drop(store);
            if !is_done {
                break;
            }
            verify_documents(&pages, inserted.get(), &format!("step {step}"));
            together += u32::from(info(&pages).unwrap().segments == 2);
        }
    }
    assert!(together > 10, "{together}");
}

#[test]
fn a_search_sees_one_state() {
    let (base, end) = base(6, 2);
    // The meta page has no more room for dropped chains, so that these are linked.
    for i in 0..100 {
        put(&base, end + i, 20);
        merge_all(&base).unwrap();
    }
    let (first, end) = (end + 100, end + 106);
    (first..end).for_each(|id| put(&base, id, 3000));
    for step in 0.. {
        let pages = base.copy();
        let action = || {
            for i in 0..4 {
                put(&pages, end + i, 3000);
                merge_all(&pages).unwrap();
            }
        };
        let store = Interleaved::new(&pages, step, action);
        let query = terms(&["all".to_string()]);
        let scan = Scan::begin(&store, &SegmentCache::default(), &query, None, MEMORY).unwrap();
        let found = drain(&store, scan);
        let is_done = store.is_done();
        drop(store);
        if !is_done {
            break;
        }
        let old: Vec<Tid> = found
            .iter()
            .copied()
            .filter(|row| *row < tid(end))
            .collect();
        assert!(old.into_iter().eq((0..end).map(tid)), "step {step}");
    }
}

/// A table some rows of which were deleted before.
struct CountedTable<'s, 'a> {
    store: &'s Interleaved<'a>,
    is_vacuumed: &'s Cell<bool>,
}

impl TableRows for CountedTable<'_, '_> {
    fn are_all_visible(&mut self, _: u32) -> bool {
        self.store.step();
        self.is_vacuumed.get()
    }

    fn is_counted(&mut self, row: Tid) -> bool {
        self.store.step();
        is_kept(row)
    }
}

fn is_kept(row: Tid) -> bool {
    !row.offset.is_multiple_of(3)
}

/// VACUUM removes documents and then tells that of their blocks, while others are merged.
#[test]
fn a_count_has_no_document_that_vacuum_removes() {
    let (base, end) = base(6, 2);
    let expected = (0..end).filter(|id| is_kept(tid(*id))).count() as u64;
    assert!(expected < end);
    for (before, after) in [(false, false), (true, false), (false, true), (true, true)] {
        for step in 0.. {
            let pages = base.copy();
            let is_vacuumed = Cell::new(false);
            let action = || {
                if before {
                    merge_all(&pages).unwrap();
                }
                remove(&pages, &mut |row| !is_kept(row)).unwrap();
                is_vacuumed.set(true);
                if after {
                    merge_all(&pages).unwrap();
                }
            };
            let store = Interleaved::new(&pages, step, action);
            let mut table = CountedTable {
                store: &store,
                is_vacuumed: &is_vacuumed,
            };
            let query = terms(&["all".to_string()]);
            let cache = SegmentCache::default();
            let count = count_rows(&store, &cache, &query, &mut table).unwrap();
            assert_eq!(count.rows, expected, "{before} {after} {step}");
            if !store.is_done() {
                break;
            }
        }
    }
}
