//! Pages of 8 KB, and what an index requires of the store that keeps them.
//!
//! An index over pages uses [`ReadPages`] and [`WritePages`]. In the server, the extension
//! implements them over Postgres's buffer manager and write-ahead log. [`MemoryPages`] keeps pages
//! in memory, for tests and benchmarks.
//!
//! **Locks.** A page is locked (shared or exclusively) while the closure runs that it is passed to.
//! A closure must not call the store: it waits for nothing while it holds a page lock. So two page
//! locks are never held together, and there is no order of locks to observe. An [`IndexLock`]
//! protects what must not change for longer. It is taken before any page lock.
//!
//! **Failure.** Stores return no errors. An I/O error, a cancelled statement or a block that does
//! not exist unwinds. The caller must check what a *page* contains.

mod changes;
mod copies;
mod error;
pub mod field;
pub mod memory;
mod memory_pages;
mod prefetch;
mod tid;

pub use changes::each_change;
pub use copies::{CopiedPages, PageCopies};
pub use error::IndexError;
pub use memory_pages::MemoryPages;
pub use prefetch::prefetch;
pub use tid::Tid;

/// Bytes of a page, which are Postgres's default block size.
pub const PAGE_BYTES: usize = 8192;
/// Bytes at the start of each page that belong to the store (Postgres's page header).
pub const HEADER_BYTES: usize = 24;
/// Bytes at the end of each page that Postgres calls the special space. They hold the kind of the
/// page.
pub const SPECIAL_BYTES: usize = 16;
/// The offset of the special space.
pub const SPECIAL_OFFSET: usize = PAGE_BYTES - SPECIAL_BYTES;

/// One page. Its first [`HEADER_BYTES`] belong to the store.
#[repr(C, align(64))]
pub struct Page(pub [u8; PAGE_BYTES]);

impl Page {
    pub const ZERO: Page = Page([0; PAGE_BYTES]);
}

/// The number of a page, from 0.
pub type Block = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    Shared,
    Exclusive,
}

/// One of the locks of an index that are held for longer than a page is locked. An index says what
/// each protects, and in which order they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLock {
    First,
    Second,
    Third,
    Fourth,
}

pub trait ReadPages {
    /// Returns the number of pages. Valid blocks are below it. It never shrinks while the index is
    /// in use: see [`ReusePages::truncate`].
    fn block_count(&self) -> Block;

    /// Calls `f` with a page that is locked shared.
    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R;

    /// Announces that some parts of a page, `(offset, bytes)` each, will be read soon. It takes no
    /// lock and may do nothing.
    #[inline]
    fn prefetch<const N: usize>(&self, _block: Block, _parts: [(usize, usize); N]) {}

    /// Called between the steps of long work, with no page locked. It may unwind to cancel the
    /// work.
    #[inline]
    fn check_interrupts(&self) {}

    /// Returns true on a standby, where pages may be used again although a reader still needs them.
    fn is_in_recovery(&self) -> bool {
        false
    }
}

pub trait WritePages: ReadPages {
    /// Calls `f` with a page that is locked exclusively. The changes become durable as a whole if
    /// `f` returns `Some`, and are dropped if it returns `None`.
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R>;

    /// Appends a page of zeros, which `f` fills. Returns its number.
    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block;

    /// Takes a lock of the index. Waits for holders whose mode excludes this one.
    fn lock(&self, lock: IndexLock, mode: LockMode);

    /// Releases the lock.
    fn unlock(&self, lock: IndexLock, mode: LockMode);
}

/// How [`ReusePages::write_group`] takes a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageUse {
    Change,
    /// `f` gets a page of zeros, whatever the page held.
    New,
}

/// A store for indexes that free pages and use them again.
pub trait ReusePages: WritePages {
    /// Calls `f` with several pages that are locked exclusively, in the order given. The changes
    /// become durable as a whole if `f` returns `Some`, and are dropped if it returns `None`. The
    /// pages are different, they exist, and there are at most 4.
    fn write_group<const N: usize, R>(
        &self,
        pages: [(Block, PageUse); N],
        f: impl FnOnce([&mut Page; N]) -> Option<R>,
    ) -> Option<R>;

    /// Writes a whole page, whatever it held. Creates it if it does not exist.
    fn overwrite(&self, block: Block, f: impl FnOnce(&mut Page));

    /// Appends pages of zeros until `block` exists. They need not survive a crash.
    fn extend(&self, block: Block);

    /// Cuts the pages from `end()` on, which is called when no other session uses the index and
    /// returns `None` to keep all. Does nothing if another one does.
    fn truncate(&self, end: impl FnOnce() -> Option<Block>);

    /// Takes a lock as [`lock`](WritePages::lock) does. Returns false instead of waiting.
    fn try_lock(&self, lock: IndexLock, mode: LockMode) -> bool;

    /// Returns a stamp of the present.
    fn now(&self) -> u64;

    /// Makes the stamp of the present one that can become past, also if nobody writes afterwards.
    /// May do nothing.
    fn end_present(&self);

    /// Returns true if all readers from before the stamp have ended. Pages that nothing has led to
    /// since then may be used again. Stamp 0 is always past.
    fn is_past(&self, stamp: u64) -> bool;
}
