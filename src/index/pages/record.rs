//! Records of the write-ahead log for changes of pages.
//!
//! They are those of `GenericXLogFinish`, which any server replays: for each page what has changed,
//! or all of it. That function looks for changes byte by byte, which took two fifths of the time of
//! an insert into a graph. The records have had this form since PostgreSQL 9.6:
//!
//! ```text
//! a change: offset u16 │ length u16 │ bytes
//! ```
//!
//! Replay copies the bytes, and fills the page between `pd_lower` and `pd_upper` with zeros.
#![allow(unsafe_code)] // the interface of the write-ahead log

use std::mem::offset_of;

use pgrx::pg_sys::{self, Buffer};
use rag_pages::{HEADER_BYTES, PAGE_BYTES, Page, PageUse, SPECIAL_OFFSET, each_change};

use super::{bytes_of, raw};

/// Maximum number of pages that a record changes: block numbers that need no preparation
/// (XLR_NORMAL_MAX_BLOCK_ID).
pub const MAX_PAGES: usize = 4;

/// Bytes of a change before those that have changed.
const CHANGE_HEAD: usize = 4;

/// A buffer, and what its page becomes.
pub type Change<'a> = (Buffer, &'a Page, PageUse);

/// The changes of the pages of a record, one page after another.
#[derive(Default)]
struct Changes {
    bytes: Vec<u8>,
    /// Where those of each page end.
    ends: [usize; MAX_PAGES],
}

impl Changes {
    /// # Safety
    /// See [`replace`].
    unsafe fn of(changes: &[Change<'_>]) -> Self {
        let mut found = Self::default();
        for (number, &(buffer, page, usage)) in changes.iter().enumerate() {
            if usage == PageUse::Change {
                // SAFETY: the buffer is locked, so that its page stays as it is.
                let before = unsafe { &*bytes_of(buffer).cast::<[u8; PAGE_BYTES]>() };
                let at = offset_of!(pg_sys::PageHeaderData, pd_lower);
                let lower = content_end(page).to_ne_bytes();
                if before[at..at + lower.len()] != lower {
                    found.push(at, &lower);
                }
                each_change(before, page, CHANGE_HEAD, |range| {
                    found.push(range.start, &page.0[range]);
                });
            }
            found.ends[number] = found.bytes.len();
        }
        found
    }

    fn push(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.extend((offset as u16).to_ne_bytes());
        self.bytes.extend((bytes.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the changes of a page.
    fn of_page(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }
}

/// Replaces the pages in some buffers. If it `is_logged`, one record has all changes.
///
/// # Safety
/// The buffers are pinned and locked exclusively. They are different, and at most [`MAX_PAGES`].
pub unsafe fn replace(changes: &[Change<'_>], is_logged: bool) {
    // SAFETY: the caller's promise. Nothing in the critical section fails or allocates but what
    // writes the record, whose failure ends the server, as after any change that is not logged.
    unsafe {
        let found = Changes::of(changes);
        if is_logged {
            raw::XLogBeginInsert();
        }
        pg_sys::CritSectionCount += 1;
        for (number, &(buffer, page, usage)) in changes.iter().enumerate() {
            let target = bytes_of(buffer);
            match usage {
                PageUse::Change => apply(found.of_page(number), target),
                PageUse::New => overwrite(page, target),
            }
            raw::MarkBufferDirty(buffer);
            if is_logged {
                register(number as u8, buffer, usage, found.of_page(number));
            }
        }
        if is_logged {
            let end = raw::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0);
            for &(buffer, ..) in changes {
                let header = bytes_of(buffer).cast::<pg_sys::PageHeaderData>();
                (*header).pd_lsn.xlogid = (end >> 32) as u32;
                (*header).pd_lsn.xrecoff = end as u32;
            }
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// # Safety
/// A buffer of the record that is being made, and the changes of its page, which live until the
/// record is written.
unsafe fn register(number: u8, buffer: Buffer, usage: PageUse, changes: &[u8]) {
    let flags = match usage {
        PageUse::Change => pg_sys::REGBUF_STANDARD,
        PageUse::New => pg_sys::REGBUF_STANDARD | pg_sys::REGBUF_FORCE_IMAGE,
    };
    // SAFETY: the caller's promise.
    unsafe {
        raw::XLogRegisterBuffer(number, buffer, flags as u8);
        if !changes.is_empty() {
            raw::XLogRegisterBufData(number, changes.as_ptr(), changes.len() as u32);
        }
    }
}

/// # Safety
/// The changes of a page, and a page of 8 KB that nobody else reads or writes now.
unsafe fn apply(changes: &[u8], target: *mut u8) {
    let mut rest = changes;
    while let [a, b, c, d, bytes @ ..] = rest {
        let (offset, length) = (u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*c, *d]));
        let (bytes, others) = bytes.split_at(usize::from(length));
        // SAFETY: the caller's promise; changes are within a page.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                target.add(usize::from(offset)),
                bytes.len(),
            );
        }
        rest = others;
    }
}

/// Writes a whole page, with its header.
///
/// # Safety
/// A page of 8 KB that nobody else reads or writes now.
pub unsafe fn overwrite(page: &Page, target: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(page.0.as_ptr(), target, PAGE_BYTES);
        (*target.cast::<pg_sys::PageHeaderData>()).pd_lower = content_end(page);
    }
}

/// Returns where the zeros begin that the content of a page ends with.
fn content_end(page: &Page) -> u16 {
    let words = page.0[HEADER_BYTES..SPECIAL_OFFSET].as_chunks::<8>().0;
    let last = words.iter().rposition(|word| *word != [0; 8]);
    (HEADER_BYTES + last.map_or(0, |last| (last + 1) * 8)) as u16
}
const _: () = assert!((SPECIAL_OFFSET - HEADER_BYTES).is_multiple_of(8));
