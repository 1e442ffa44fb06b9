//! A store in memory that threads can share.

use std::sync::{
    Condvar, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{Block, IndexLock, LockMode, Page, PageUse, ReadPages, ReusePages, WritePages};

/// Pages in memory. [`copy`](MemoryPages::copy) between two writes shows what a crash would leave.
#[derive(Default)]
pub struct MemoryPages {
    pages: RwLock<Vec<RwLock<Box<Page>>>>,
    locks: [WaitingLock; 4],
    reads: AtomicU64,
    clock: AtomicU64,
    horizon: AtomicU64,
    is_alone: AtomicBool,
}

impl MemoryPages {
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of pages that were read so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Returns a copy of all pages.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        for block in 0..self.block_count() {
            self.read(block, |page| copy.append(|_, new| new.0 = page.0));
        }
        copy
    }

    /// Ends all readers: stamps from before are past.
    pub fn end_readers(&self) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        self.horizon.store(now, Ordering::Relaxed);
    }

    /// From now on only one session uses the index, which may be [cut](ReusePages::truncate).
    pub fn leave_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    /// Changes a page without the index's knowledge, to test corruption.
    pub fn damage(&self, block: Block, f: impl FnOnce(&mut Page)) {
        self.write(block, |page| {
            f(page);
            Some(())
        });
    }
}

impl ReadPages for MemoryPages {
    fn block_count(&self) -> Block {
        self.pages
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len() as Block
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        f(&pages[block as usize]
            .read()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

impl WritePages for MemoryPages {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let mut page = pages[block as usize]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // `f` works on a copy, as in the server, so that `None` leaves no trace.
        let mut changed = Box::new(Page(page.0));
        let result = f(&mut changed)?;
        *page = changed;
        Some(result)
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let block = pages.len() as Block;
        let mut page = Box::new(Page::ZERO);
        f(block, &mut page);
        pages.push(RwLock::new(page));
        block
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.locks[lock as usize].lock(mode);
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.locks[lock as usize].unlock(mode);
    }
}

impl ReusePages for MemoryPages {
    fn write_group<const N: usize, R>(
        &self,
        blocks: [(Block, PageUse); N],
        f: impl FnOnce([&mut Page; N]) -> Option<R>,
    ) -> Option<R> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let mut guards = blocks.map(|(block, _)| {
            pages[block as usize]
                .write()
                .unwrap_or_else(PoisonError::into_inner)
        });
        let mut changed: [Box<Page>; N] = std::array::from_fn(|i| match blocks[i].1 {
            PageUse::Change => Box::new(Page(guards[i].0)),
            PageUse::New => Box::new(Page::ZERO),
        });
        let result = f(changed.each_mut().map(|page| &mut **page))?;
        for (guard, page) in guards.iter_mut().zip(changed) {
            **guard = page;
        }
        Some(result)
    }

    fn overwrite(&self, block: Block, f: impl FnOnce(&mut Page)) {
        self.extend(block);
        self.write_group([(block, PageUse::New)], |[page]| {
            f(page);
            Some(())
        });
    }

    fn extend(&self, block: Block) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        while pages.len() <= block as usize {
            pages.push(RwLock::new(Box::new(Page::ZERO)));
        }
    }

    fn truncate(&self, end: impl FnOnce() -> Option<Block>) {
        if !self.is_alone.load(Ordering::Relaxed) {
            return;
        }
        if let Some(end) = end() {
            let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
            pages.truncate(end as usize);
        }
    }

    fn try_lock(&self, lock: IndexLock, mode: LockMode) -> bool {
        self.locks[lock as usize].try_lock(mode)
    }

    /// Stamps count from 1 on. [`end_readers`](MemoryPages::end_readers) makes them past.
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed) + 1
    }

    /// Does nothing: [`end_readers`](MemoryPages::end_readers) decides.
    fn end_present(&self) {}

    fn is_past(&self, stamp: u64) -> bool {
        stamp <= self.horizon.load(Ordering::Relaxed)
    }
}

/// A lock that is released by a call, as Postgres's are. Holders: -1 for an exclusive one,
/// otherwise the number of shared ones.
#[derive(Default)]
struct WaitingLock {
    holders: Mutex<i32>,
    freed: Condvar,
}

impl WaitingLock {
    fn lock(&self, mode: LockMode) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        while *holders < 0 || (mode == LockMode::Exclusive && *holders > 0) {
            holders = self
                .freed
                .wait(holders)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *holders += if mode == LockMode::Exclusive { -1 } else { 1 };
    }

    fn try_lock(&self, mode: LockMode) -> bool {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if *holders < 0 || (mode == LockMode::Exclusive && *holders > 0) {
            return false;
        }
        *holders += if mode == LockMode::Exclusive { -1 } else { 1 };
        true
    }

    fn unlock(&self, mode: LockMode) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        *holders += if mode == LockMode::Exclusive { 1 } else { -1 };
        self.freed.notify_all();
    }
}
