//! Pages of a relation, through the buffer manager and the write-ahead log: [`rag_pages`] for a
//! server.
//!
//! **Reading.** A search reads hundreds of pages in random order, so that the cost of each read
//! decides how fast it is. `ReadBuffer` looks up every page in the shared hash table of buffers.
//! Instead, a backend remembers in which buffer it has last seen a block ([`BufferHints`]) and
//! calls `ReadRecentBuffer`, which checks whether the block is still there. So hints may be stale.
//! With a hint the page and its descriptor can also be prefetched before they are pinned.
//! `ReadRecentBuffer` does not count as a use of the page. Therefore a page whose use count is
//! below [`MIN_USES`] is read the ordinary way; otherwise the pages of a busy index would be the
//! first to be evicted.
//!
//! **Writing** ([`write`]). A page is changed in a copy. A record logs the differences, or all of a
//! new page ([`record`]). One record can change several pages. While an index is built no other
//! backend sees it. Then nothing is logged until [`RelationPages::log_all`].
//!
//! **Layout.** Pages have the standard header and a special space of [`SPECIAL_BYTES`]. The zeros
//! that the content ends with are the hole between `pd_lower` and `pd_upper`. The write-ahead log
//! leaves it out, and replay fills it with zeros. If the server crashes after a file was extended
//! and before the new page was logged, the page consists of zeros.
#![allow(unsafe_code)] // the buffer manager's interface

mod hints;
mod record;
mod write;

use std::marker::PhantomData;

use pgrx::pg_sys::{self, Buffer};
#[cfg(doc)]
use rag_pages::SPECIAL_BYTES;
use rag_pages::{Block, PAGE_BYTES, Page, ReadPages, prefetch};

pub use self::hints::BufferHints;
use self::hints::DESCRIPTOR_BYTES;
use super::am::relation::Relation;
use crate::pg::process::is_in_recovery;

const _: () = assert!(
    PAGE_BYTES == pg_sys::BLCKSZ as usize,
    "PostgreSQL must have been built with pages of 8 KB"
);

/// A page with fewer uses is read the ordinary way, which counts as a use. The clock that looks for
/// a buffer to evict takes one use from each page that it passes, and evicts a page without uses.
/// PostgreSQL counts up to 5.
const MIN_USES: u32 = 3;

/// Functions that are called for each use of a page. pgrx's bindings prepare to catch an ERROR,
/// which takes longer than the functions themselves. None of them raises an ERROR for a valid
/// buffer.
mod raw {
    use super::{Buffer, pg_sys};

    unsafe extern "C-unwind" {
        pub fn ReadRecentBuffer(
            locator: crate::index::am::relation::FileLocator,
            fork: pg_sys::ForkNumber::Type,
            block: pg_sys::BlockNumber,
            buffer: Buffer,
        ) -> bool;
        pub fn LockBuffer(buffer: Buffer, mode: std::ffi::c_int);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        pub fn MarkBufferDirty(buffer: Buffer);
        pub fn XLogBeginInsert();
        pub fn XLogRegisterBuffer(number: u8, buffer: Buffer, flags: u8);
        pub fn XLogRegisterBufData(number: u8, bytes: *const u8, count: u32);
        pub fn XLogInsert(manager: u8, info: u8) -> u64;
        /// The descriptors of shared buffers. pgrx has no binding for it.
        pub static BufferDescriptors: *const u8;
    }
}

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logging {
    EachChange,
    /// All pages at once, by [`RelationPages::log_all`].
    AtEnd,
}

/// A strategy by which vacuum reads pages without evicting those that others use.
#[derive(Clone, Copy)]
pub struct ReadStrategy<'a> {
    raw: pg_sys::BufferAccessStrategy,
    lifetime: PhantomData<&'a ()>,
}

impl ReadStrategy<'_> {
    /// # Safety
    /// Null, or a strategy that exists for `'a`.
    pub unsafe fn from_raw(raw: pg_sys::BufferAccessStrategy) -> Self {
        Self {
            raw,
            lifetime: PhantomData,
        }
    }

    fn none() -> Self {
        // SAFETY: null.
        unsafe { Self::from_raw(std::ptr::null_mut()) }
    }
}

/// The pages of one fork of a relation.
pub struct RelationPages<'a> {
    relation: Relation<'a>,
    fork: pg_sys::ForkNumber::Type,
    hints: Option<&'a BufferHints>,
    strategy: ReadStrategy<'a>,
    logging: Logging,
    /// True if this is vacuum, which sleeps if it has used too much of the disk's time.
    is_vacuum: bool,
}

impl<'a> RelationPages<'a> {
    /// Hints of another file do no harm, but are of no use.
    pub fn new(relation: Relation<'a>, hints: &'a BufferHints) -> Self {
        Self {
            relation,
            fork: pg_sys::ForkNumber::MAIN_FORKNUM,
            // buffers of temporary tables belong to the backend and have no shared descriptor
            hints: (!relation.is_temporary()).then_some(hints),
            strategy: ReadStrategy::none(),
            logging: Logging::EachChange,
            is_vacuum: false,
        }
    }

    /// Returns the pages for a vacuum that reads them in any order.
    pub fn for_vacuum(relation: Relation<'a>, hints: &'a BufferHints) -> Self {
        Self {
            is_vacuum: true,
            ..Self::new(relation, hints)
        }
    }

    /// Returns the pages for a vacuum that reads them in the order of the file.
    pub fn for_vacuum_in_order(relation: Relation<'a>, strategy: ReadStrategy<'a>) -> Self {
        Self {
            relation,
            fork: pg_sys::ForkNumber::MAIN_FORKNUM,
            hints: None,
            strategy,
            logging: Logging::EachChange,
            is_vacuum: true,
        }
    }

    /// Returns the pages for the build of an index that no other backend sees yet. The build ends
    /// with [`log_all`](Self::log_all).
    pub fn for_build(relation: Relation<'a>, hints: &'a BufferHints) -> Self {
        Self {
            logging: Logging::AtEnd,
            ..Self::new(relation, hints)
        }
    }

    /// Returns the pages of the initial fork of an unlogged index, for its build.
    pub fn for_initial_fork(relation: Relation<'a>) -> Self {
        Self {
            relation,
            fork: pg_sys::ForkNumber::INIT_FORKNUM,
            hints: None,
            strategy: ReadStrategy::none(),
            logging: Logging::AtEnd,
            is_vacuum: false,
        }
    }

    /// Writes all pages into the write-ahead log if the relation needs that.
    pub fn log_all(&self) {
        // the initial fork of an unlogged relation replaces the relation after a crash
        if self.fork == pg_sys::ForkNumber::INIT_FORKNUM || self.relation.needs_wal() {
            let (relation, count) = (self.relation.as_raw(), self.block_count());
            // SAFETY: an open relation whose pages all have the standard header.
            unsafe { pg_sys::log_newpage_range(relation, self.fork, 0, count, true) };
        }
    }

    /// Pins the buffer of an existing block.
    #[inline]
    fn pin(&self, block: Block) -> Buffer {
        if let Some(hints) = self.hints {
            let buffer = hints.get(block);
            if buffer > 0 && hints.uses(buffer) >= MIN_USES && self.pin_recent(block, buffer) {
                if self.is_vacuum {
                    count_cost();
                }
                return buffer;
            }
        }
        self.pin_by_lookup(block)
    }

    /// Pins the buffer that a block was last seen in. Returns false if it is no longer there.
    #[inline]
    fn pin_recent(&self, block: Block, buffer: Buffer) -> bool {
        // SAFETY: an open relation. A hint is the number of a shared buffer, and these never
        // change their number.
        unsafe { raw::ReadRecentBuffer(self.relation.locator(), self.fork, block, buffer) }
    }

    #[cold]
    fn pin_by_lookup(&self, block: Block) -> Buffer {
        let buffer = self.read_buffer(block);
        if let Some(hints) = self.hints {
            hints.set(block, buffer);
        }
        buffer
    }

    /// Reads and pins a block, or a new one after the last for `InvalidBlockNumber`. Raises an
    /// ERROR if the block cannot be read.
    fn read_buffer(&self, block: Block) -> Buffer {
        let (relation, strategy) = (self.relation.as_raw(), self.strategy.raw);
        let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
        // SAFETY: an open relation.
        unsafe { pg_sys::ReadBufferExtended(relation, self.fork, block, mode, strategy) }
    }
}

impl ReadPages for RelationPages<'_> {
    fn block_count(&self) -> Block {
        // SAFETY: an open relation.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.relation.as_raw(), self.fork) }
    }

    #[inline]
    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        let buffer = self.pin(block);
        // SAFETY: the buffer is pinned, and locked while `f` reads it. A panic of `f` becomes an
        // ERROR, which releases all locks and pins.
        unsafe {
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let bytes = bytes_of(buffer);
            let result = if (bytes as usize).is_multiple_of(align_of::<Page>()) {
                f(&*bytes.cast::<Page>())
            } else {
                // a buffer of a temporary table before PostgreSQL 16
                f(&Page(*bytes.cast::<[u8; PAGE_BYTES]>()))
            };
            raw::UnlockReleaseBuffer(buffer);
            result
        }
    }

    #[inline]
    fn prefetch<const N: usize>(&self, block: Block, parts: [(usize, usize); N]) {
        let Some(hints) = self.hints else { return };
        let buffer = hints.get(block);
        if buffer <= 0 {
            return;
        }
        let i = buffer as usize - 1;
        // SAFETY: the addresses of a buffer and of its descriptor, which are not read.
        let (descriptor, page) = unsafe {
            let pages = pg_sys::BufferBlocks.cast::<u8>();
            (
                raw::BufferDescriptors.wrapping_add(i * DESCRIPTOR_BYTES),
                pages.wrapping_add(i * PAGE_BYTES),
            )
        };
        prefetch(descriptor, DESCRIPTOR_BYTES);
        for (offset, bytes) in parts {
            prefetch(page.wrapping_add(offset), bytes);
        }
    }

    #[inline]
    fn check_interrupts(&self) {
        if self.is_vacuum {
            // SAFETY: may raise an ERROR. No page is locked here.
            unsafe {
                #[cfg(feature = "pg18")]
                pg_sys::vacuum_delay_point(false);
                #[cfg(not(feature = "pg18"))]
                pg_sys::vacuum_delay_point();
            }
        } else {
            pgrx::check_for_interrupts!();
        }
    }

    fn is_in_recovery(&self) -> bool {
        is_in_recovery()
    }
}

/// Returns the 8 KB of a buffer.
///
/// # Safety
/// The buffer is pinned. It is locked while the pointer is used.
#[inline]
unsafe fn bytes_of(buffer: Buffer) -> *mut u8 {
    // SAFETY: positive numbers are shared buffers, negative ones the backend's own, both counted
    // from 1.
    unsafe {
        match usize::try_from(buffer) {
            Ok(shared) => pg_sys::BufferBlocks
                .cast::<u8>()
                .add((shared - 1) * PAGE_BYTES),
            Err(_) => (*pg_sys::LocalBufferBlockPointers.add(-(buffer + 1) as usize)).cast(),
        }
    }
}

/// Adds the cost of a page that vacuum found in its buffer. `ReadBuffer` does this,
/// `ReadRecentBuffer` does not.
fn count_cost() {
    // SAFETY: variables of this backend.
    unsafe {
        if pg_sys::VacuumCostActive {
            pg_sys::VacuumCostBalance += pg_sys::VacuumCostPageHit;
        }
    }
}
