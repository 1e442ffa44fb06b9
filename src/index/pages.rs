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
//! **Writing.** A page is changed in a copy. `GenericXLog` logs the differences, or all of a new
//! page. While an index is built no other backend sees it. Then nothing is logged until
//! [`RelationPages::log_all`].
//!
//! **Layout.** Pages have the standard header and a special space of [`SPECIAL_BYTES`]. `pd_lower`
//! and `pd_upper` leave no hole between them, because the write-ahead log would leave out its
//! contents. If the server crashes after a file was extended and before the new page was logged,
//! the page consists of zeros.
#![allow(unsafe_code)] // the buffer manager's interface

use std::{
    cell::RefCell,
    marker::PhantomData,
    sync::atomic::{AtomicU32, Ordering},
};

use pgrx::pg_sys::{self, Buffer};
use rag_ann::memory::Reserve;
use rag_pages::{
    Block, HEADER_BYTES, LockMode, PAGE_BYTES, Page, ReadPages, SPECIAL_BYTES, SPECIAL_OFFSET,
    WritePages, prefetch,
};

use super::am::relation::Relation;

const _: () = assert!(
    PAGE_BYTES == pg_sys::BLCKSZ as usize,
    "PostgreSQL must have been built with pages of 8 KB"
);

/// A page with fewer uses is read the ordinary way, which counts as a use. The clock that looks for
/// a buffer to evict takes one use from each page that it passes, and evicts a page without uses.
/// PostgreSQL counts up to 5.
const MIN_USES: u32 = 3;

/// Bytes of a buffer's descriptor with its padding (BUFFERDESC_PAD_TO_SIZE): one cache line.
const DESCRIPTOR_BYTES: usize = 64;

/// Offset of `BufferDesc.state` in a descriptor, after a tag of 20 bytes and the buffer's number:
/// the same in PostgreSQL 13 to 18.
const STATE_OFFSET: usize = 24;
/// Where the use count is in the state: `BUF_USAGECOUNT_SHIFT` and `BUF_USAGECOUNT_MASK` of
/// PostgreSQL 13 to 18.
const USES_SHIFT: u32 = 18;
const USES_MASK: u32 = 0xF << USES_SHIFT;

/// Functions that are called for each use of a page. pgrx's bindings prepare to catch an ERROR,
/// which takes longer than the functions themselves. None of them raises an ERROR for a valid
/// buffer.
mod raw {
    use super::Buffer;
    #[cfg(not(feature = "pg13"))]
    use super::pg_sys;

    unsafe extern "C-unwind" {
        #[cfg(not(feature = "pg13"))]
        pub fn ReadRecentBuffer(
            locator: crate::index::am::relation::FileLocator,
            fork: pg_sys::ForkNumber::Type,
            block: pg_sys::BlockNumber,
            buffer: Buffer,
        ) -> bool;
        pub fn LockBuffer(buffer: Buffer, mode: std::ffi::c_int);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        /// The descriptors of shared buffers. pgrx has no binding for it.
        pub static BufferDescriptors: *const u8;
    }
}

/// The shared buffer that this backend has last seen each block of a file in, or 0.
#[derive(Default)]
pub struct BufferHints {
    buffers: RefCell<Vec<Buffer>>,
}

impl BufferHints {
    #[inline]
    fn get(&self, block: Block) -> Buffer {
        self.buffers
            .borrow()
            .get(block as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Remembers nothing if there is no memory for it.
    fn set(&self, block: Block, buffer: Buffer) {
        let mut buffers = self.buffers.borrow_mut();
        let i = block as usize;
        if i >= buffers.len() {
            let length = (i + 1).next_multiple_of(1024);
            let more = length - buffers.len();
            if buffers.make_room(more).is_err() {
                return;
            }
            buffers.resize(length, 0);
        }
        buffers[i] = buffer;
    }

    /// Returns the memory that they take.
    pub fn bytes(&self) -> usize {
        self.buffers.borrow().capacity() * size_of::<Buffer>()
    }

    /// Returns the use count of a buffer that this has a hint of. Other processes change the count
    /// at any time.
    #[inline]
    fn uses(&self, buffer: Buffer) -> u32 {
        // SAFETY: the number of a shared buffer, which stays valid as long as the server runs. The
        // state is a `pg_atomic_uint32`.
        let state = unsafe {
            let descriptor = raw::BufferDescriptors.add((buffer as usize - 1) * DESCRIPTOR_BYTES);
            &*descriptor.add(STATE_OFFSET).cast::<AtomicU32>()
        };
        (state.load(Ordering::Relaxed) & USES_MASK) >> USES_SHIFT
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
    /// Whether this is vacuum, which sleeps if it has used too much of the disk's time.
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
    /// PostgreSQL 13 has no function for it.
    #[inline]
    #[cfg_attr(feature = "pg13", allow(unused_variables))]
    fn pin_recent(&self, block: Block, buffer: Buffer) -> bool {
        #[cfg(feature = "pg13")]
        return false;
        // SAFETY: an open relation. A hint is the number of a shared buffer, and these never
        // change their number.
        #[cfg(not(feature = "pg13"))]
        unsafe {
            raw::ReadRecentBuffer(self.relation.locator(), self.fork, block, buffer)
        }
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

    /// Replaces the page in a buffer and logs the change.
    ///
    /// # Safety
    /// The buffer is pinned and locked exclusively.
    unsafe fn replace(&self, buffer: Buffer, page: &Page, is_new: bool) {
        // The header of an existing page belongs to the buffer manager; the copy's is out of date.
        let start = if is_new { 0 } else { HEADER_BYTES };
        // SAFETY: `target` is a page of 8 KB that nobody else reads or writes now.
        let copy = |target: *mut u8| unsafe {
            std::ptr::copy_nonoverlapping(
                page.0.as_ptr().add(start),
                target.add(start),
                PAGE_BYTES - start,
            );
        };
        // SAFETY: the caller's promise.
        unsafe {
            match self.logging {
                Logging::EachChange => {
                    let record = pg_sys::GenericXLogStart(self.relation.as_raw());
                    let flags = if is_new {
                        pg_sys::GENERIC_XLOG_FULL_IMAGE as i32
                    } else {
                        0
                    };
                    copy(pg_sys::GenericXLogRegisterBuffer(record, buffer, flags).cast());
                    pg_sys::GenericXLogFinish(record);
                }
                Logging::AtEnd => {
                    copy(bytes_of(buffer));
                    pg_sys::MarkBufferDirty(buffer);
                }
            }
        }
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
                self.replace(buffer, &page, false);
            }
            raw::UnlockReleaseBuffer(buffer);
            result
        }
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        let extension_lock = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: the lock on the relation's extension keeps other backends from the new page until
        // its buffer is locked.
        unsafe {
            pg_sys::LockRelationForExtension(self.relation.as_raw(), extension_lock);
            let buffer = self.read_buffer(pg_sys::InvalidBlockNumber);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            pg_sys::UnlockRelationForExtension(self.relation.as_raw(), extension_lock);
            let block = pg_sys::BufferGetBlockNumber(buffer);
            let mut page = empty_page();
            f(block, &mut page);
            self.replace(buffer, &page, true);
            raw::UnlockReleaseBuffer(buffer);
            if let Some(hints) = self.hints {
                hints.set(block, buffer);
            }
            block
        }
    }

    fn lock(&self, mode: LockMode) {
        // SAFETY: a heavyweight lock, which an ERROR releases. Its tag is the first page, but it is
        // not the lock of that page's buffer.
        unsafe { pg_sys::LockPage(self.relation.as_raw(), 0, lock_mode(mode)) };
    }

    fn unlock(&self, mode: LockMode) {
        // SAFETY: as above.
        unsafe { pg_sys::UnlockPage(self.relation.as_raw(), 0, lock_mode(mode)) };
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
    unsafe {
        let bytes = page.0.as_mut_ptr();
        pg_sys::PageInit(bytes.cast(), PAGE_BYTES, SPECIAL_BYTES);
        (*bytes.cast::<pg_sys::PageHeaderData>()).pd_lower = SPECIAL_OFFSET as u16;
    }
    page
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
