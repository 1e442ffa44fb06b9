//! Pages of a relation, through the buffer manager and the write-ahead log: what [`rag_pages`] asks
//! of a server.
//!
//! **Reading.** A walk through an index touches hundreds of pages in random order, and what each
//! touch costs decides how fast it is. `ReadBuffer` looks every page up in the shared hash table of
//! buffers. Instead a backend remembers in which buffer it has last seen a block ([`Hints`]) and
//! asks `ReadRecentBuffer` for that, which checks whether the block is still there. So hints may be
//! stale. With a hint the page and its descriptor can also be prefetched before they are pinned.
//! `ReadRecentBuffer` does not count as a use of the page, so one read in [`USE_PERIOD`] is an
//! ordinary one, lest the pages of a busy index be the first to be evicted.
//!
//! **Writing.** Pages are changed in a copy and logged by `GenericXLog` as what differs, new pages
//! as a whole. While an index is built nobody else sees it: then nothing is logged until
//! [`RelationPages::log_all`].
//!
//! **Pages.** They have the standard header and a special space of [`SPECIAL_BYTES`]; `pd_lower`
//! and `pd_upper` leave no hole between them, since the write-ahead log would leave out what is in
//! it. A crash between the extension of the file and the record of the new page leaves a page of
//! zeros.
#![allow(unsafe_code)] // the buffer manager's interface

use std::cell::{Cell, RefCell};

use pgrx::pg_sys::{self, Buffer};
use rag_ann::{code, memory::Reserve};
use rag_pages::{
    Block, HEADER_BYTES, LockMode, PAGE_BYTES, Page, ReadPages, SPECIAL_BYTES, SPECIAL_OFFSET,
    WritePages,
};

const _: () = assert!(
    PAGE_BYTES == pg_sys::BLCKSZ as usize,
    "PostgreSQL must have been built with pages of 8 KB"
);

/// One read of this many goes the ordinary way, and counts as a use of the page.
const USE_PERIOD: u32 = 32;

/// Bytes of a buffer's descriptor with its padding (BUFFERDESC_PAD_TO_SIZE): one cache line.
const DESCRIPTOR_BYTES: usize = 64;

#[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
type Locator = pg_sys::RelFileNode;
#[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
type Locator = pg_sys::RelFileLocator;

/// What is called for every touch of a page. pgrx's bindings of the same functions prepare to catch
/// an ERROR, which takes longer than what these do; none of them raises one for a buffer that is
/// valid.
mod raw {
    use super::Buffer;
    #[cfg(not(feature = "pg13"))]
    use super::pg_sys;

    unsafe extern "C-unwind" {
        #[cfg(not(feature = "pg13"))]
        pub fn ReadRecentBuffer(
            locator: super::Locator,
            fork: pg_sys::ForkNumber::Type,
            block: pg_sys::BlockNumber,
            buffer: Buffer,
        ) -> bool;
        pub fn LockBuffer(buffer: Buffer, mode: std::ffi::c_int);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        /// The array of descriptors of shared buffers; pgrx has no binding for it.
        pub static BufferDescriptors: *const u8;
    }
}

/// In which shared buffer a backend has last seen each block of a file, 0 where it has not.
#[derive(Default)]
pub struct Hints {
    buffers: RefCell<Vec<Buffer>>,
    reads: Cell<u32>,
}

impl Hints {
    #[inline]
    fn get(&self, block: Block) -> Buffer {
        self.buffers
            .borrow()
            .get(block as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Without memory for it nothing is remembered.
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

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.buffers.borrow().capacity() * size_of::<Buffer>()
    }

    /// Whether this read is one of the ordinary ones.
    #[inline]
    fn is_ordinary(&self) -> bool {
        let reads = self.reads.get().wrapping_add(1);
        self.reads.set(reads);
        reads.is_multiple_of(USE_PERIOD)
    }
}

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logging {
    /// Each by itself.
    EachChange,
    /// All together in the end, by [`RelationPages::log_all`].
    AtTheEnd,
}

/// The pages of one fork of an open relation. Borrows the relation: it must stay open for as long.
pub struct RelationPages<'a> {
    relation: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
    hints: Option<&'a Hints>,
    strategy: pg_sys::BufferAccessStrategy,
    logging: Logging,
    /// Whether this is vacuum, which may have to wait lest it take too much of the disk's time.
    throttled: bool,
}

impl<'a> RelationPages<'a> {
    /// # Safety
    /// The relation is open for as long as this exists, with a lock that suits what is done.
    /// `hints` are of its file.
    pub unsafe fn new(relation: pg_sys::Relation, hints: &'a Hints) -> Self {
        // SAFETY: an open relation. Buffers of temporary tables are the backend's own and have no
        // descriptor to prefetch.
        let shared =
            unsafe { (*(*relation).rd_rel).relpersistence } as u8 != pg_sys::RELPERSISTENCE_TEMP;
        Self {
            relation,
            fork: pg_sys::ForkNumber::MAIN_FORKNUM,
            hints: shared.then_some(hints),
            strategy: std::ptr::null_mut(),
            logging: Logging::EachChange,
            throttled: false,
        }
    }

    /// For vacuum, of pages in any order.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn of_vacuum(relation: pg_sys::Relation, hints: &'a Hints) -> Self {
        // SAFETY: the caller's promise.
        Self {
            throttled: true,
            ..unsafe { Self::new(relation, hints) }
        }
    }

    /// For vacuum, of pages in the order of the file: reads by `strategy`, which spares what others
    /// have in the buffers.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn of_vacuum_in_order(
        relation: pg_sys::Relation,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> Self {
        Self {
            relation,
            fork: pg_sys::ForkNumber::MAIN_FORKNUM,
            hints: None,
            strategy,
            logging: Logging::EachChange,
            throttled: true,
        }
    }

    /// For the build of an index that nobody else sees yet; [`log_all`](Self::log_all) comes in the
    /// end.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn of_build(
        relation: pg_sys::Relation,
        fork: pg_sys::ForkNumber::Type,
        hints: Option<&'a Hints>,
    ) -> Self {
        // SAFETY: an open relation.
        let shared =
            unsafe { (*(*relation).rd_rel).relpersistence } as u8 != pg_sys::RELPERSISTENCE_TEMP;
        Self {
            relation,
            fork,
            hints: hints.filter(|_| shared),
            strategy: std::ptr::null_mut(),
            logging: Logging::AtTheEnd,
            throttled: false,
        }
    }

    /// Writes all pages into the write-ahead log, unless the relation has no need of it.
    pub fn log_all(&self) {
        // SAFETY: an open relation whose pages all have the standard header.
        unsafe {
            // that of an unlogged relation is what it begins with after a crash, and is logged
            if self.fork == pg_sys::ForkNumber::INIT_FORKNUM || needs_wal(self.relation) {
                pg_sys::log_newpage_range(self.relation, self.fork, 0, self.block_count(), true);
            }
        }
    }

    /// Pins the buffer of a block that is there.
    #[inline]
    fn pin(&self, block: Block) -> Buffer {
        if let Some(hints) = self.hints {
            let buffer = hints.get(block);
            // SAFETY: an open relation. The number was a valid buffer's in this server once, and
            // how many there are never changes.
            if buffer > 0
                && !hints.is_ordinary()
                && unsafe { pin_recent(self.relation, self.fork, block, buffer) }
            {
                if self.throttled {
                    count_cost();
                }
                return buffer;
            }
        }
        self.pin_ordinarily(block)
    }

    #[cold]
    fn pin_ordinarily(&self, block: Block) -> Buffer {
        // SAFETY: an open relation; raises an ERROR where the block cannot be read.
        let buffer = unsafe {
            let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
            pg_sys::ReadBufferExtended(self.relation, self.fork, block, mode, self.strategy)
        };
        if let Some(hints) = self.hints {
            hints.set(block, buffer);
        }
        buffer
    }

    /// Puts `page` into its buffer, which is locked exclusively, and logs that.
    fn put(&self, buffer: Buffer, page: &Page, is_new: bool) {
        // What is the buffer manager's of a page that exists is in the buffer, not in the copy.
        let own = if is_new { 0 } else { HEADER_BYTES };
        // SAFETY: `target` are the 8 KB of a page that nobody else reads or writes meanwhile.
        let copy = |target: *mut u8| unsafe {
            std::ptr::copy_nonoverlapping(
                page.0.as_ptr().add(own),
                target.add(own),
                PAGE_BYTES - own,
            );
        };
        // SAFETY: the buffer is pinned and locked exclusively.
        unsafe {
            match self.logging {
                Logging::EachChange => {
                    let record = pg_sys::GenericXLogStart(self.relation);
                    let flags = if is_new {
                        pg_sys::GENERIC_XLOG_FULL_IMAGE as i32
                    } else {
                        0
                    };
                    copy(pg_sys::GenericXLogRegisterBuffer(record, buffer, flags).cast());
                    pg_sys::GenericXLogFinish(record);
                }
                Logging::AtTheEnd => {
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
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.relation, self.fork) }
    }

    #[inline]
    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        let buffer = self.pin(block);
        // SAFETY: the buffer is pinned, and locked while `f` looks at it. If `f` panics, that
        // becomes an ERROR, which gives back all locks and pins.
        unsafe {
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let bytes = bytes_of(buffer);
            let result = if (bytes as usize).is_multiple_of(align_of::<Page>()) {
                f(&*bytes.cast::<Page>())
            } else {
                // as buffers of temporary tables may be before PostgreSQL 16
                f(&Page(*bytes.cast::<[u8; PAGE_BYTES]>()))
            };
            raw::UnlockReleaseBuffer(buffer);
            result
        }
    }

    #[inline]
    fn prefetch(&self, block: Block, offset: usize, bytes: usize) {
        let Some(hints) = self.hints else { return };
        let buffer = hints.get(block);
        if buffer <= 0 {
            return;
        }
        let i = buffer as usize - 1;
        // SAFETY: the addresses of a valid buffer and its descriptor, which are not read.
        unsafe {
            code::prefetch(
                raw::BufferDescriptors.wrapping_add(i * DESCRIPTOR_BYTES),
                DESCRIPTOR_BYTES,
            );
            code::prefetch(
                pg_sys::BufferBlocks
                    .cast::<u8>()
                    .wrapping_add(i * PAGE_BYTES + offset),
                bytes,
            );
        }
    }

    #[inline]
    fn check_interrupts(&self) {
        if self.throttled {
            // SAFETY: may raise an ERROR; no page is locked here.
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
        // SAFETY: the buffer is pinned, and locked until its new content is logged.
        unsafe {
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            let mut page = Page(*bytes_of(buffer).cast::<[u8; PAGE_BYTES]>());
            let result = f(&mut page);
            if result.is_some() {
                self.put(buffer, &page, false);
            }
            raw::UnlockReleaseBuffer(buffer);
            result
        }
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        let extension_lock = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: the lock on the relation's extension makes the new page this backend's alone
        // until it is locked itself.
        unsafe {
            pg_sys::LockRelationForExtension(self.relation, extension_lock);
            let buffer = self.pin_new();
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            pg_sys::UnlockRelationForExtension(self.relation, extension_lock);
            let block = pg_sys::BufferGetBlockNumber(buffer);
            let mut page = empty_page();
            f(block, &mut page);
            self.put(buffer, &page, true);
            raw::UnlockReleaseBuffer(buffer);
            if let Some(hints) = self.hints {
                hints.set(block, buffer);
            }
            block
        }
    }

    fn lock(&self, mode: LockMode) {
        // SAFETY: a heavyweight lock, which an ERROR gives back. Its tag is the first page, but it
        // is not that page's lock.
        unsafe { pg_sys::LockPage(self.relation, 0, lock_mode(mode)) };
    }

    fn unlock(&self, mode: LockMode) {
        // SAFETY: as above.
        unsafe { pg_sys::UnlockPage(self.relation, 0, lock_mode(mode)) };
    }
}

impl RelationPages<'_> {
    /// Pins a new page at the end; the extension lock is held.
    fn pin_new(&self) -> Buffer {
        // SAFETY: an open relation; the block number says that the file is to be extended.
        unsafe {
            let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
            pg_sys::ReadBufferExtended(
                self.relation,
                self.fork,
                pg_sys::InvalidBlockNumber,
                mode,
                self.strategy,
            )
        }
    }
}

fn lock_mode(mode: LockMode) -> pg_sys::LOCKMODE {
    match mode {
        LockMode::Shared => pg_sys::ShareLock as pg_sys::LOCKMODE,
        LockMode::Exclusive => pg_sys::ExclusiveLock as pg_sys::LOCKMODE,
    }
}

/// A page of zeros with its header.
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

/// The 8 KB of a pinned buffer.
///
/// # Safety
/// The buffer is pinned. Whoever uses the pointer has it locked.
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

/// Counts a page that vacuum found in its buffer, as `ReadBuffer` does and `ReadRecentBuffer` does
/// not.
fn count_cost() {
    // SAFETY: variables of this backend.
    unsafe {
        if pg_sys::VacuumCostActive {
            pg_sys::VacuumCostBalance += pg_sys::VacuumCostPageHit;
        }
    }
}

/// Pins the buffer that a block was seen in; false where it is no longer there. PostgreSQL 13
/// cannot tell.
///
/// # Safety
/// The relation is open and the buffer's number is valid.
#[inline]
#[cfg_attr(feature = "pg13", allow(unused_variables))]
unsafe fn pin_recent(
    relation: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
    block: Block,
    buffer: Buffer,
) -> bool {
    #[cfg(feature = "pg13")]
    return false;
    // SAFETY: the caller's promise.
    #[cfg(not(feature = "pg13"))]
    unsafe {
        raw::ReadRecentBuffer(locator(relation), fork, block, buffer)
    }
}

/// The name of a relation's file.
///
/// # Safety
/// The relation is open.
#[inline]
unsafe fn locator(relation: pg_sys::Relation) -> Locator {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        return (*relation).rd_node;
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        return (*relation).rd_locator;
    }
}

/// Tells one file of a relation from another: tablespace, database and number.
///
/// # Safety
/// The relation is open.
pub unsafe fn file_of(relation: pg_sys::Relation) -> [u32; 3] {
    // SAFETY: the caller's promise.
    let file = unsafe { locator(relation) };
    #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
    return [
        file.spcNode.to_u32(),
        file.dbNode.to_u32(),
        file.relNode.to_u32(),
    ];
    #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
    return [
        file.spcOid.to_u32(),
        file.dbOid.to_u32(),
        file.relNumber.to_u32(),
    ];
}

/// RelationNeedsWAL: whether what is written must be logged now. With wal_level = minimal a file
/// that was made in this transaction is synced in its end instead.
///
/// # Safety
/// The relation is open.
unsafe fn needs_wal(relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let relation = &*relation;
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        let first_file = relation.rd_firstRelfilenodeSubid;
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        let first_file = relation.rd_firstRelfilelocatorSubid;
        let is_new = relation.rd_createSubid != 0 || first_file != 0;
        let is_permanent =
            (*relation.rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        is_permanent && (pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32 || !is_new)
    }
}
