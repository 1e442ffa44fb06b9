//! Documents that are not in a segment yet: a chain of pages, to which inserts append.
//!
//! A document is one record, if that fits into a page. Otherwise it is several, each with some of
//! its terms. Records of other documents may be between them.

use std::mem::offset_of;

use rag_pages::{Block, IndexError, Page, PageUse, ReadPages, ReusePages, Tid, memory};

pub use crate::record::{Record, hash, is_single};
use crate::{
    allocate,
    format::{
        PENDING_ROOM, PageKind, PendingBytes, RECORD_HEAD, change, content, content_mut, expect,
        init, is, next, put, read, set_next, u16_at,
    },
    locks::{APPEND, exclusively},
    meta::{Meta, PageList, pending_list},
    norm,
    record::{self, CONTINUATION, CONTINUES, encode, size},
    terms::Terms,
};

/// Appends a document to the pending list. Returns the number of the list's pages.
///
/// A document that is not [a single record](is_single) is appended by a session with the [append
/// lock](APPEND), so that no spill separates its records.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn append(pages: &impl ReusePages, tid: Tid, terms: &Terms) -> Result<u32, IndexError> {
    let norm = norm::encode(terms.length());
    let mut rest = terms.iter().peekable();
    let (mut chunk, mut bytes) = (vec![], vec![]);
    let (mut flags, mut count) = (0, 0);
    while rest.peek().is_some() {
        pages.check_interrupts();
        chunk.clear();
        let mut room = PENDING_ROOM - RECORD_HEAD;
        while let Some((term, frequency)) = rest.next_if(|(term, f)| size(term, *f) <= room) {
            room -= size(term, frequency);
            memory::push(&mut chunk, (hash(term), term, frequency))
                .map_err(IndexError::of_memory)?;
        }
        if chunk.is_empty() {
            // `Terms` has no terms as long as a page.
            break;
        }
        let more = if rest.peek().is_some() { CONTINUES } else { 0 };
        encode(tid, flags | more, norm, &mut chunk, &mut bytes)?;
        count = append_record(pages, &bytes)?;
        flags = CONTINUATION;
    }
    Ok(count)
}

/// What came of the attempt to append a record to the last page, if the page has room.
enum Attempt {
    Done,
    /// The page is no longer the last one of the list.
    Outdated,
}

fn append_record(pages: &impl ReusePages, record: &[u8]) -> Result<u32, IndexError> {
    let mut outdated = None;
    loop {
        let list = pending_list(pages)?;
        if !list.is_empty() {
            let attempt = change(pages, list.tail, |page| {
                if !is_open(page, list.id) {
                    return Ok(Some(Attempt::Outdated));
                }
                let is_done = push(page, list.tail, record)?;
                Ok(is_done.then_some(Attempt::Done))
            })?;
            match attempt {
                Some(Attempt::Done) => return Ok(list.blocks),
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
        if append_page(pages, &list, record)? {
            return Ok(list.blocks.saturating_add(1));
        }
    }
}

/// Appends a page with a record. Returns false if the list has changed meanwhile.
fn append_page(
    pages: &impl ReusePages,
    list: &PageList,
    record: &[u8],
) -> Result<bool, IndexError> {
    let meta = Meta::read(pages)?;
    if meta.pending != *list {
        return Ok(false);
    }
    let block = allocate::candidate(pages, &meta);
    let both = [(list.tail, PageUse::Change), (block, PageUse::New)];
    let others = if list.is_empty() { &both[1..] } else { &both };
    let changed = Meta::change(pages, others, |meta, others| {
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
        Ok(push(new, block, record)?.then_some(()))
    })?;
    Ok(changed.is_some())
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

/// Appends a record to a page. Returns false if there is no room.
fn push(page: &mut Page, block: Block, record: &[u8]) -> Result<bool, IndexError> {
    let used = used(page, block)?;
    let b = content_mut(page);
    let start = size_of::<PendingBytes>() + used;
    if used + record.len() > PENDING_ROOM {
        return Ok(false);
    }
    b[start..start + record.len()].copy_from_slice(record);
    let used = (used + record.len()) as u16;
    put(b, offset_of!(PendingBytes, used), used.to_le_bytes());
    Ok(true)
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
