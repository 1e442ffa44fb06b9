//! Documents that are not in a segment yet: a chain of pages, to which inserts append.
//!
//! A document is one record, if that fits into a page. Otherwise it is several, each with some of
//! its terms. Records of other documents may be between them.

use std::mem::offset_of;

use rag_pages::{Block, IndexError, Page, PageUse, ReadPages, ReusePages};

pub use crate::record::{Record, hash};
use crate::{
    allocate,
    format::{
        PENDING_ROOM, PageKind, PendingBytes, change, content, content_mut, expect, init, is, next,
        put, read, set_next, u16_at,
    },
    locks::{APPEND, exclusively},
    meta::{Meta, PageList, pending_list},
    record,
};

/// Appends records of documents to the pending list. Returns the number of the list's pages.
///
/// Documents of several records are appended by a session with the [append lock](APPEND), so that
/// no spill separates the records.
///
/// # Errors
/// A page is corrupted.
pub fn append(pages: &impl ReusePages, records: &[u8]) -> Result<u32, IndexError> {
    let (mut rest, mut length) = (records, 0);
    while !rest.is_empty() {
        pages.check_interrupts();
        let appended = append_some(pages, rest)?;
        length = appended.length;
        rest = &rest[appended.bytes..];
    }
    Ok(length)
}

/// Records that were appended.
struct Appended {
    bytes: usize,
    /// Number of the list's pages.
    length: u32,
}

/// What came of the attempt to append records to the last page.
enum Attempt {
    /// So many bytes had room.
    Done(usize),
    /// The page is no longer the last one of the list.
    Outdated,
}

/// Appends as many records as have room on the last page, or on a new one if it is full.
fn append_some(pages: &impl ReusePages, records: &[u8]) -> Result<Appended, IndexError> {
    let mut outdated = None;
    loop {
        let list = pending_list(pages)?;
        if !list.is_empty() {
            let attempt = change(pages, list.tail, |page| {
                if !is_open(page, list.id) {
                    return Ok(Some(Attempt::Outdated));
                }
                let bytes = push(page, list.tail, records)?;
                Ok((bytes > 0).then_some(Attempt::Done(bytes)))
            })?;
            let length = list.blocks;
            match attempt {
                Some(Attempt::Done(bytes)) => return Ok(Appended { bytes, length }),
                Some(Attempt::Outdated) if outdated == Some(list) => {
                    // The page and the meta page are changed together.
                    let problem = "the last pending page does not belong to the pending list";
                    return Err(IndexError::corrupted(list.tail, problem));
                }
                Some(Attempt::Outdated) => {
                    outdated = Some(list);
                    continue;
                }
                None => {}
            }
        }
        if let Some(bytes) = append_page(pages, &list, records)? {
            let length = list.blocks.saturating_add(1);
            return Ok(Appended { bytes, length });
        }
    }
}

/// Appends a page with as many records as it has room for. Returns their bytes, or `None` if the
/// list has changed meanwhile.
fn append_page(
    pages: &impl ReusePages,
    list: &PageList,
    records: &[u8],
) -> Result<Option<usize>, IndexError> {
    let meta = Meta::read(pages)?;
    if meta.pending != *list {
        return Ok(None);
    }
    let block = allocate::candidate(pages, &meta);
    let both = [(list.tail, PageUse::Change), (block, PageUse::New)];
    let others = if list.is_empty() { &both[1..] } else { &both };
    Meta::change(pages, others, |meta, others| {
        if meta.pending != *list || !allocate::claim(meta, block)? {
            return Ok(None);
        }
        let Some((new, last)) = others.split_last_mut() else {
            return Ok(None);
        };
        match last.first_mut() {
            Some(last) if is_open(last, list.id) => set_next(last, block),
            Some(_) => {
                let problem = "the last pending page does not belong to the pending list";
                return Err(IndexError::corrupted(list.tail, problem));
            }
            None => meta.pending.head = block,
        }
        meta.pending.tail = block;
        meta.pending.blocks = list.blocks.saturating_add(1);
        init(new, list.id, PageKind::Pending);
        let bytes = push(new, block, records)?;
        Ok((bytes > 0).then_some(bytes))
    })
}

/// Makes the pending list the spilled one, and begins another. There must be no spilled list.
/// Returns false if the pending list is empty.
///
/// # Errors
/// A page is corrupted.
pub fn close(pages: &impl ReusePages) -> Result<bool, IndexError> {
    exclusively(pages, APPEND, || close_locked(pages))
}

fn close_locked(pages: &impl ReusePages) -> Result<bool, IndexError> {
    // without interrupts, as vacuum sleeps when it looks for some
    loop {
        let list = pending_list(pages)?;
        if list.is_empty() {
            return Ok(false);
        }
        let tail = (list.tail, PageUse::Change);
        let closed = Meta::change(pages, &[tail], |meta, others| {
            let Some(tail) = others.first_mut() else {
                return Ok(None);
            };
            if meta.pending != list {
                return Ok(None);
            }
            if !meta.spilled.is_empty() {
                return Err(IndexError::corrupted(0, "there is a spilled list already"));
            }
            expect(pages, tail, list.tail, list.id, PageKind::Pending)?;
            put(content_mut(tail), offset_of!(PendingBytes, closed), [1]);
            meta.spilled = list;
            meta.pending = PageList {
                id: meta.next_number,
                ..PageList::default()
            };
            meta.next_number += 1;
            Ok(Some(()))
        })?;
        if closed.is_some() {
            return Ok(true);
        }
    }
}

/// Returns true for the last page of a list that gets no more documents.
pub fn is_closed(page: &Page) -> bool {
    content(page)[offset_of!(PendingBytes, closed)] != 0
}

/// Returns true if a page is the last one of the pending list `id`.
fn is_open(page: &Page, id: u64) -> bool {
    is(page, id, PageKind::Pending) && !is_closed(page) && next(page) == 0
}

/// Returns the page after a pending page, or 0.
pub fn next_page(page: &Page) -> Block {
    // The page after a closed one may belong to another dropped chain.
    if is_closed(page) { 0 } else { next(page) }
}

/// Appends as many records to a page as it has room for. Returns their bytes.
fn push(page: &mut Page, block: Block, records: &[u8]) -> Result<usize, IndexError> {
    let used = used(page, block)?;
    let mut bytes = 0;
    while let Some(record) = Record::parse(&records[bytes..]) {
        if used + bytes + record.bytes() > PENDING_ROOM {
            break;
        }
        bytes += record.bytes();
    }
    let b = content_mut(page);
    let start = size_of::<PendingBytes>() + used;
    b[start..start + bytes].copy_from_slice(&records[..bytes]);
    let used = (used + bytes) as u16;
    put(b, offset_of!(PendingBytes, used), used.to_le_bytes());
    Ok(bytes)
}

fn used(page: &Page, block: Block) -> Result<usize, IndexError> {
    let used = usize::from(u16_at(content(page), offset_of!(PendingBytes, used)));
    if used <= PENDING_ROOM {
        Ok(used)
    } else {
        Err(IndexError::corrupted(
            block,
            "pending page is more than full",
        ))
    }
}

/// Returns the records of a pending page and their places.
#[inline]
pub fn records(
    page: &Page,
    block: Block,
) -> impl Iterator<Item = Result<(usize, Record<'_>), IndexError>> {
    let start = size_of::<PendingBytes>();
    let (mut place, mut failure) = match used(page, block) {
        Ok(used) => (start..start + used, None),
        Err(error) => (0..0, Some(error)),
    };
    std::iter::from_fn(move || {
        if let Some(error) = failure.take() {
            return Some(Err(error));
        }
        if place.is_empty() {
            return None;
        }
        let here = place.start;
        let Some(record) = Record::parse(&content(page)[place.clone()]) else {
            place = 0..0;
            return Some(Err(IndexError::corrupted(
                block,
                "invalid record of a document",
            )));
        };
        place.start += record.bytes();
        Some(Ok((here, record)))
    })
}

/// Marks the record at a place as deleted.
pub fn set_dead(page: &mut Page, place: usize) {
    record::set_dead(&mut content_mut(page)[place..]);
}

/// Calls `f` with each page of a list. The pages are locked shared meanwhile.
///
/// # Errors
/// A page is corrupted or was recycled, or `f` fails.
pub fn each_page<P: ReadPages>(
    pages: &P,
    list: &PageList,
    f: &mut dyn FnMut(Block, &Page) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let (mut block, mut seen) = (list.head, 0);
    while block != 0 {
        pages.check_interrupts();
        // A chain has each block at most once, so that one with more pages is a circle.
        seen += 1;
        if seen > pages.block_count() {
            return Err(IndexError::corrupted(
                list.head,
                "the chain of pending pages has no end",
            ));
        }
        block = read(pages, block, list.id, PageKind::Pending, |page| {
            f(block, page)?;
            Ok(next_page(page))
        })?;
    }
    Ok(())
}

/// Calls `f` with each record of a list, also with those of deleted documents. The page is locked
/// shared meanwhile, so that `f` must not call the store.
///
/// # Errors
/// A page is corrupted or was recycled, or `f` fails.
pub fn each_record<P: ReadPages>(
    pages: &P,
    list: &PageList,
    f: &mut dyn FnMut(&Record<'_>) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    each_page(pages, list, &mut |block, page| {
        records(page, block).try_for_each(|record| f(&record?.1))
    })
}
