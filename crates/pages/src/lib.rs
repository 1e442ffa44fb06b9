//! Pages of 8 KB, and what an index needs of the place that keeps them.
//!
//! An index over pages is written against [`ReadPages`] and [`WritePages`]. In the server
//! `src/storage.rs` implements them over Postgres's buffer manager and write-ahead log;
//! [`MemoryPages`] keeps pages in memory, for tests and benchmarks.
//!
//! **Locks.** A page is locked (shared or exclusively) for the duration of the closure it is given
//! to, and no call of a store may be made from inside such a closure: whoever holds a page lock
//! waits for nothing. So no two page locks are ever held together, and there is no order of locks
//! to keep. What must hold still for longer is guarded by the [structure lock](WritePages::lock),
//! taken before any page.
//!
//! **Failure.** Stores report no errors to their callers: an I/O error, a cancelled statement or a
//! block that is not there unwinds. What a *page* contains is the caller's to doubt.

mod memory;

pub use memory::MemoryPages;

/// Bytes of a page: Postgres's default block size.
pub const PAGE_BYTES: usize = 8192;
/// Bytes at the start of each page that belong to the store (Postgres's page header).
pub const HEADER_BYTES: usize = 24;
/// Bytes at the end of each page that Postgres calls the special space: what kind of page it is.
pub const SPECIAL_BYTES: usize = 16;
/// Where the special space begins.
pub const SPECIAL_OFFSET: usize = PAGE_BYTES - SPECIAL_BYTES;

/// One page. The first [`HEADER_BYTES`] are the store's.
#[repr(C, align(64))]
pub struct Page(pub [u8; PAGE_BYTES]);

impl Page {
    pub const ZERO: Page = Page([0; PAGE_BYTES]);
}

/// Number of a page, from 0.
pub type Block = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    Shared,
    Exclusive,
}

pub trait ReadPages {
    /// Pages there are: valid blocks are below it. It never shrinks.
    fn block_count(&self) -> Block;

    /// Gives a page to `f`, locked shared.
    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R;

    /// Says that `bytes` bytes from `offset` of a page will be read soon. Takes no lock and may do
    /// nothing.
    #[inline]
    fn prefetch(&self, _block: Block, _offset: usize, _bytes: usize) {}

    /// Called between the steps of long work, with no page locked: may unwind to cancel it.
    #[inline]
    fn check_interrupts(&self) {}
}

pub trait WritePages: ReadPages {
    /// Gives a page to `f`, locked exclusively. What `f` changed becomes durable as one whole if it
    /// returns `Some`, and is forgotten if it returns `None`.
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R>;

    /// Adds a page of zeros at the end, which `f` fills; returns its number.
    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block;

    /// Takes the lock on the structure of the whole index, waiting for those who hold it in a mode
    /// that excludes this one.
    fn lock(&self, mode: LockMode);

    /// Gives it back.
    fn unlock(&self, mode: LockMode);
}
