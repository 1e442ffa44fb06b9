//! Changes of pages: in a copy, and one record for all pages that change together.
#![allow(unsafe_code)] // the buffer manager's interface

use pgrx::pg_sys::{self, Buffer};
use rag_pages::{
    Block, IndexLock, LockMode, PAGE_BYTES, Page, PageUse, ReadPages, ReusePages, SPECIAL_BYTES,
    WritePages,
};

use super::{
    Logging, RelationPages, bytes_of, raw,
    record::{self, Change, MAX_PAGES},
};
use crate::pg::{compat, transaction};

impl RelationPages<'_> {
    /// Adds a page of zeros at the end of the file. Returns its buffer, which is pinned and locked
    /// exclusively.
    fn add_page(&self) -> Buffer {
        let extension_lock = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: the lock on the relation's extension keeps other backends from the new page until
        // its buffer is locked.
        unsafe {
            pg_sys::LockRelationForExtension(self.relation.as_raw(), extension_lock);
            let buffer = self.read_buffer(pg_sys::InvalidBlockNumber);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            pg_sys::UnlockRelationForExtension(self.relation.as_raw(), extension_lock);
            buffer
        }
    }

    /// Replaces the pages in some buffers. One record logs all changes.
    ///
    /// # Safety
    /// See [`record::replace`].
    unsafe fn replace(&self, changes: &[Change<'_>]) {
        // a build logs all pages at its end
        let is_logged = self.logging == Logging::EachChange && self.relation.needs_wal();
        // SAFETY: the caller's promise.
        unsafe { record::replace(changes, is_logged) };
    }
}

impl WritePages for RelationPages<'_> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        let buffer = self.pin(block);
        // SAFETY: the buffer is pinned, and locked until its new contents are logged.
        unsafe {
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            let mut page = Page(*bytes_of(buffer).cast::<[u8; PAGE_BYTES]>());
            let result = f(&mut page);
            if result.is_some() {
                self.replace(&[(buffer, &page, PageUse::Change)]);
            }
            raw::UnlockReleaseBuffer(buffer);
            result
        }
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        let buffer = self.add_page();
        // SAFETY: the buffer is pinned, and locked until its new contents are logged.
        unsafe {
            let block = pg_sys::BufferGetBlockNumber(buffer);
            let mut page = empty_page();
            f(block, &mut page);
            self.replace(&[(buffer, &page, PageUse::New)]);
            raw::UnlockReleaseBuffer(buffer);
            if let Some(hints) = self.hints {
                hints.set(block, buffer);
            }
            block
        }
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        // SAFETY: a heavyweight lock, which an ERROR releases. Nobody else locks rows of an index.
        unsafe { pg_sys::LockTuple(self.relation.as_raw(), &mut place_of(lock), lock_mode(mode)) };
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        // SAFETY: as above.
        unsafe {
            pg_sys::UnlockTuple(self.relation.as_raw(), &mut place_of(lock), lock_mode(mode));
        }
    }
}

impl ReusePages for RelationPages<'_> {
    fn write_group<const N: usize, R>(
        &self,
        pages: [(Block, PageUse); N],
        f: impl FnOnce([&mut Page; N]) -> Option<R>,
    ) -> Option<R> {
        const { assert!(N <= MAX_PAGES) };
        // a page that is pinned stays in its buffer, so that no lock is held while one is read
        let buffers = pages.map(|(block, _)| self.pin(block));
        // SAFETY: the buffers are pinned, and locked until their new contents are logged. Other
        // backends lock them in the same order.
        unsafe {
            for buffer in buffers {
                raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            }
            let mut copies: [Page; N] = std::array::from_fn(|i| match pages[i].1 {
                PageUse::Change => Page(*bytes_of(buffers[i]).cast::<[u8; PAGE_BYTES]>()),
                PageUse::New => empty_page(),
            });
            let result = f(copies.each_mut());
            if result.is_some() {
                let changes: [Change<'_>; N] =
                    std::array::from_fn(|i| (buffers[i], &copies[i], pages[i].1));
                self.replace(&changes);
            }
            for buffer in buffers {
                raw::UnlockReleaseBuffer(buffer);
            }
            result
        }
    }

    fn overwrite(&self, block: Block, f: impl FnOnce(&mut Page)) {
        self.extend(block);
        let (relation, strategy) = (self.relation.as_raw(), self.strategy.raw);
        // does not read what the page held
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
        // SAFETY: an open relation with this block. The buffer is pinned, and locked until its new
        // contents are logged.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(relation, self.fork, block, mode, strategy);
            let mut page = empty_page();
            f(&mut page);
            self.replace(&[(buffer, &page, PageUse::New)]);
            raw::UnlockReleaseBuffer(buffer);
            if let Some(hints) = self.hints {
                hints.set(block, buffer);
            }
        }
    }

    fn extend(&self, block: Block) {
        while self.block_count() <= block {
            let buffer = self.add_page();
            // SAFETY: the buffer is pinned and locked.
            unsafe { raw::UnlockReleaseBuffer(buffer) };
        }
    }

    /// The lock that keeps others from the index requires a transaction id, which a parallel vacuum
    /// cannot take.
    fn truncate(&self, end: impl FnOnce() -> Option<Block>) {
        let (relation, lock) = (
            self.relation.as_raw(),
            pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE,
        );
        // SAFETY: an open relation. Nobody else reads or writes its pages while the lock is held.
        unsafe {
            if transaction::is_parallel() || !pg_sys::ConditionalLockRelation(relation, lock) {
                return;
            }
            if let Some(blocks) = end().filter(|blocks| *blocks < self.block_count()) {
                pg_sys::RelationTruncate(relation, blocks);
            }
            pg_sys::UnlockRelation(relation, lock);
        }
    }

    fn try_lock(&self, lock: IndexLock, mode: LockMode) -> bool {
        let (relation, mut place) = (self.relation.as_raw(), place_of(lock));
        // SAFETY: as `lock`.
        unsafe { compat::try_lock_tuple(relation, &mut place, lock_mode(mode)) }
    }

    /// Returns the next transaction id, with its epoch. Readers that have begun by now have a
    /// snapshot for which that transaction is in progress.
    fn now(&self) -> u64 {
        // SAFETY: reads shared memory under a lock that is never held while a page is locked.
        unsafe { pg_sys::ReadNextFullTransactionId() }.value
    }

    /// Takes a transaction id, which the stamp is. During a parallel vacuum that is not possible.
    fn end_present(&self) {
        if !transaction::is_parallel() {
            transaction::take_id();
        }
    }

    fn is_past(&self, stamp: u64) -> bool {
        // no other backend reads an index that is being built
        stamp == 0 || self.logging == Logging::AtEnd || precedes_all_snapshots(stamp)
    }
}

/// Returns true if a transaction, of [`ReusePages::now`], has ended for all snapshots. Snapshots of
/// other databases count as well.
fn precedes_all_snapshots(transaction: u64) -> bool {
    let transaction = pg_sys::FullTransactionId { value: transaction };
    // SAFETY: reads the backend's horizons, or computes them. Null stands for any relation.
    unsafe { pg_sys::GlobalVisCheckRemovableFullXid(std::ptr::null_mut(), transaction) }
}

/// Returns the row whose lock stands for one of the index. Locks of pages would be more obvious,
/// but PostgreSQL does not allow a session to take others beside them.
fn place_of(lock: IndexLock) -> pg_sys::ItemPointerData {
    pg_sys::ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: 0, bi_lo: 0 },
        ip_posid: lock as u16 + 1,
    }
}

fn lock_mode(mode: LockMode) -> pg_sys::LOCKMODE {
    match mode {
        LockMode::Shared => pg_sys::ShareLock as pg_sys::LOCKMODE,
        LockMode::Exclusive => pg_sys::ExclusiveLock as pg_sys::LOCKMODE,
    }
}

/// Returns a page of zeros with its header.
fn empty_page() -> Page {
    let mut page = Page::ZERO;
    // SAFETY: writes the header of a page of 8 KB, which is aligned.
    unsafe { pg_sys::PageInit(page.0.as_mut_ptr().cast(), PAGE_BYTES, SPECIAL_BYTES) };
    page
}
