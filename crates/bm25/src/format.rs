//! Where each field of a page is. No other file knows an offset, except
//! [`segment/layout.rs`](crate::segment) for the pages inside of a segment.
//!
//! Each struct lists its fields in the order of their bytes. A field is an array of bytes, its
//! numbers are little-endian: so there is no padding, and `offset_of!` gives a field's place on
//! every machine.
//!
//! "Changing the format" in `src/index/bm25/README.md` says what a change here asks for.

use std::mem::offset_of;

use rag_pages::{
    Block, HEADER_BYTES, IndexError, Page, ReadPages, SPECIAL_BYTES, SPECIAL_OFFSET, Tid,
    WritePages,
};

pub use rag_pages::field::{f32_at, put, u16_at, u32_at, u64_at};

/// The version of the format, in the meta page.
pub const VERSION: u32 = 1;
/// The version of an index with positions, which libraries of version 1 cannot read.
pub const VERSION_WITH_POSITIONS: u32 = 2;
/// The first bytes of the meta page.
pub const MAGIC: [u8; 4] = *b"rBM2";
/// The last two bytes of every page. Tools recognize by them whose page it is.
pub const PAGE_ID: u16 = 0xFF92;

/// Bytes of a page between its header and its special space.
pub const CONTENT_BYTES: usize = SPECIAL_OFFSET - HEADER_BYTES;

/// Segments that the meta page has room for.
pub const MAX_SEGMENTS: usize = 120;
/// Dropped chains that the meta page has room for.
pub const MAX_DROPPED: usize = 64;
/// Spare blocks that the meta page has room for.
pub const MAX_SPARE: usize = 128;

/// Bytes that the meta page keeps for the caller.
pub const LABEL_BYTES: usize = 128;

/// The owner of the meta page. The numbers of segments and pending lists are greater.
pub const META_OWNER: u64 = 0;

/// What a page contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    Meta = 1,
    /// Documents that are not in a segment yet.
    Pending = 2,
    /// Extents that belong to a segment.
    Owner = 3,
    /// Counts of a segment, and the blocks of its document pages and row pages.
    Header = 4,
    /// Terms of the dictionary.
    Leaf = 5,
    /// Pages of the dictionary's next lower level.
    Inner = 6,
    Postings = 7,
    Skips = 8,
    /// Lengths of documents, and which of them are deleted.
    Documents = 9,
    /// Heap rows of documents.
    Rows = 10,
    /// Where in its documents a term occurs.
    Positions = 11,
}

impl PageKind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Meta,
            2 => Self::Pending,
            3 => Self::Owner,
            4 => Self::Header,
            5 => Self::Leaf,
            6 => Self::Inner,
            7 => Self::Postings,
            8 => Self::Skips,
            9 => Self::Documents,
            10 => Self::Rows,
            11 => Self::Positions,
            _ => return None,
        })
    }
}

/// The special space of every page.
#[repr(C)]
pub struct SpecialBytes {
    pub owner_id: [u8; 8],
    pub next: [u8; 4],
    pub kind: u8,
    pub unused: u8,
    pub page_id: [u8; 2],
}

const _: () = assert!(size_of::<SpecialBytes>() == SPECIAL_BYTES);

/// The meta page, after the page header.
#[repr(C)]
pub struct MetaBytes {
    pub magic: [u8; 4],
    pub version: [u8; 4],
    pub k1: [u8; 4],
    pub b: [u8; 4],
    /// The number that the next segment or pending list gets.
    pub next_number: [u8; 8],
    /// The first block that was never used.
    pub high_water: [u8; 4],
    pub spare_count: [u8; 2],
    pub dropped_count: [u8; 2],
    pub segment_count: [u8; 2],
    /// 1 if documents have parts of compounds, or else 0.
    pub has_parts: u8,
    /// What the caller stores beside the label.
    pub variant: u8,
    /// 1 if documents have positions, or else 0.
    pub has_positions: u8,
    pub unused: [u8; 3],
    /// A random number of this index.
    pub identity: [u8; 8],
    /// What the caller stores, padded with zeros.
    pub label: [u8; LABEL_BYTES],
    pub pending: ListBytes,
    pub spilled: ListBytes,
    /// What the session with the spill lock has in flight.
    pub in_flight: ListBytes,
    pub spare: [[u8; 4]; MAX_SPARE],
    pub dropped: [DroppedBytes; MAX_DROPPED],
    pub segments: [SegmentBytes; MAX_SEGMENTS],
    /// What the session with the merge lock has in flight.
    pub merging: ListBytes,
    pub frozen: [u8; 8],
}

const _: () = assert!(size_of::<MetaBytes>() <= CONTENT_BYTES);

/// A chain of pages of one owner. There are no pages if `head` is 0.
#[repr(C)]
pub struct ListBytes {
    pub id: [u8; 8],
    pub head: [u8; 4],
    pub tail: [u8; 4],
    /// Number of blocks: of the pages of a pending list, or of all that is in flight.
    pub blocks: [u8; 4],
    pub unused: [u8; 4],
}

const _: () = assert!(size_of::<ListBytes>() == 24);

/// A chain of pages, from `head` to `tail`, that are used again. The pages have several owners.
#[repr(C)]
pub struct DroppedBytes {
    /// Readers from before this moment may still read the blocks. 0 if there are none.
    pub stamp: [u8; 8],
    pub head: [u8; 4],
    pub tail: [u8; 4],
}

const _: () = assert!(size_of::<DroppedBytes>() == 16);

/// A segment, in the meta page.
#[repr(C)]
pub struct SegmentBytes {
    pub id: [u8; 8],
    pub total_length: [u8; 8],
    pub header: [u8; 4],
    pub owner: [u8; 4],
    pub owner_tail: [u8; 4],
    pub documents: [u8; 4],
    pub dead: [u8; 4],
    pub pages: [u8; 4],
    /// Number of positions and 1, or 0 if the segment has none.
    pub positions: [u8; 8],
}

const _: () = assert!(size_of::<SegmentBytes>() == 48);

/// A pending page, after the page header. Records follow.
#[repr(C)]
pub struct PendingBytes {
    /// Bytes of records.
    pub used: [u8; 2],
    /// 1 if this is the last page of a list that gets no more documents.
    pub closed: u8,
    pub unused: [u8; 5],
}

/// Bytes of records that a pending page has room for.
pub const PENDING_ROOM: usize = CONTENT_BYTES - size_of::<PendingBytes>();

/// A record of a pending document, before its terms. After it come, for each term in the order of
/// hashes: the hash (4 bytes each), then the frequencies (a byte each), then the lengths of the
/// terms (a byte each). A byte of 255 stands for a number that follows these: 4 bytes for a
/// frequency, 2 for a length. The terms themselves are at the end.
///
/// In a record with positions they come last: for each term their number, the first, and the
/// differences less 1, in 7 bits a byte. If the positions of a term do not fit into a record,
/// further records have the term with frequency 0 and further positions.
#[repr(C)]
pub struct RecordBytes {
    /// The heap row.
    pub row: [u8; Tid::BYTES],
    pub flags: u8,
    pub norm: u8,
    pub terms: [u8; 2],
    /// Bytes of the whole record.
    pub bytes: [u8; 2],
}

/// Bytes of a record before its terms.
pub const RECORD_HEAD: usize = size_of::<RecordBytes>();
const _: () = assert!(RECORD_HEAD == 12);

/// An owner page, after the page header. Extents follow.
#[repr(C)]
pub struct OwnerBytes {
    /// Number of extents on the page.
    pub count: [u8; 2],
    /// Number of extents at the start that were handed out, after the page was dropped.
    pub taken: [u8; 2],
    pub unused: [u8; 4],
}

/// Blocks that follow each other.
#[repr(C)]
pub struct ExtentBytes {
    pub first: [u8; 4],
    pub blocks: [u8; 4],
}

/// Extents that an owner page has room for.
pub const MAX_EXTENTS: usize = (CONTENT_BYTES - size_of::<OwnerBytes>()) / size_of::<ExtentBytes>();

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The owner of its pages. A number is never used twice.
    pub id: u64,
    pub header: Block,
    /// The first and the last of its owner pages.
    pub owner: Block,
    pub owner_tail: Block,
    /// Number of documents, with those that are deleted.
    pub documents: u32,
    /// Number of deleted documents, as the last vacuum has counted them.
    pub dead: u32,
    /// Sum of the lengths of all documents, as norms tell them.
    pub total_length: u64,
    /// Number of blocks that it owns.
    pub pages: u32,
    /// Number of positions, if it has some.
    pub positions: Option<u64>,
}

/// Makes a page of zeros one of `owner_id`.
pub fn init(page: &mut Page, owner_id: u64, kind: PageKind) {
    let special = &mut page.0[SPECIAL_OFFSET..];
    put(
        special,
        offset_of!(SpecialBytes, owner_id),
        owner_id.to_le_bytes(),
    );
    put(special, offset_of!(SpecialBytes, next), [0; 4]);
    put(special, offset_of!(SpecialBytes, kind), [kind as u8]);
    put(
        special,
        offset_of!(SpecialBytes, page_id),
        PAGE_ID.to_le_bytes(),
    );
}

/// Returns the kind of a page, or `None` if it is not a page of this format.
#[inline]
pub fn kind(page: &Page) -> Option<PageKind> {
    let special = &page.0[SPECIAL_OFFSET..];
    (u16_at(special, offset_of!(SpecialBytes, page_id)) == PAGE_ID)
        .then(|| PageKind::of(special[offset_of!(SpecialBytes, kind)]))?
}

#[inline]
pub fn owner_id(page: &Page) -> u64 {
    u64_at(&page.0, SPECIAL_OFFSET + offset_of!(SpecialBytes, owner_id))
}

/// Returns true if a page has this owner and kind.
#[inline]
pub fn is(page: &Page, owner: u64, expected: PageKind) -> bool {
    owner_id(page) == owner && kind(page) == Some(expected)
}

/// Checks that a page has this owner and kind.
///
/// # Errors
/// It has another one. On a standby in recovery this is [`IndexError::Recycled`], because the page
/// may have got another use meanwhile.
#[inline]
pub fn expect(
    pages: &impl ReadPages,
    page: &Page,
    block: Block,
    owner: u64,
    expected: PageKind,
) -> Result<(), IndexError> {
    if is(page, owner, expected) {
        Ok(())
    } else {
        Err(unexpected(pages, page, block, owner, expected))
    }
}

#[cold]
fn unexpected(
    pages: &impl ReadPages,
    page: &Page,
    block: Block,
    owner: u64,
    expected: PageKind,
) -> IndexError {
    if pages.is_in_recovery() {
        return IndexError::Recycled { block };
    }
    let problem = match kind(page) {
        None => "page is not one of a keyword index".to_string(),
        Some(found) if found != expected => {
            format!("page has kind {found:?} instead of {expected:?}")
        }
        Some(_) => format!("page belongs to {} instead of {owner}", owner_id(page)),
    };
    IndexError::corrupted(block, problem)
}

/// Reads a page after checking that it exists and has this owner and kind.
///
/// # Errors
/// The page does not exist, or is another one (see [`expect`]), or `f` fails.
pub fn read<P: ReadPages, R>(
    pages: &P,
    block: Block,
    owner: u64,
    expected: PageKind,
    f: impl FnOnce(&Page) -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    exists(pages, block)?;
    pages.read(block, |page| {
        expect(pages, page, block, owner, expected)?;
        f(page)
    })
}

/// Changes a page after checking that it exists. Nothing is changed if `f` fails or returns `None`.
///
/// # Errors
/// The page does not exist, or `f` fails.
pub fn change<P: WritePages, R>(
    pages: &P,
    block: Block,
    f: impl FnOnce(&mut Page) -> Result<Option<R>, IndexError>,
) -> Result<Option<R>, IndexError> {
    exists(pages, block)?;
    let mut failure = None;
    let result = pages.write(block, |page| {
        f(page).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    });
    failure.map_or(Ok(result), Err)
}

/// Checks that a block exists.
///
/// # Errors
/// It does not.
pub fn exists(pages: &impl ReadPages, block: Block) -> Result<(), IndexError> {
    if block < pages.block_count() {
        Ok(())
    } else {
        Err(IndexError::corrupted(block, "page does not exist"))
    }
}

/// Returns the next page of the chain, or 0.
#[inline]
pub fn next(page: &Page) -> Block {
    u32_at(&page.0, SPECIAL_OFFSET + offset_of!(SpecialBytes, next))
}

pub fn set_next(page: &mut Page, block: Block) {
    let at = SPECIAL_OFFSET + offset_of!(SpecialBytes, next);
    put(&mut page.0, at, block.to_le_bytes());
}

#[inline]
pub fn content(page: &Page) -> &[u8] {
    &page.0[HEADER_BYTES..SPECIAL_OFFSET]
}

#[inline]
pub fn content_mut(page: &mut Page) -> &mut [u8] {
    &mut page.0[HEADER_BYTES..SPECIAL_OFFSET]
}

#[cfg(test)]
mod tests {
    use rag_pages::MemoryPages;

    use super::*;

    #[test]
    fn a_page_tells_its_owner_and_kind() {
        let pages = MemoryPages::new();
        let mut page = Page::ZERO;
        assert_eq!(kind(&page), None);
        assert!(expect(&pages, &page, 7, 0, PageKind::Meta).is_err());
        init(&mut page, 1 << 40, PageKind::Rows);
        set_next(&mut page, 9);
        assert_eq!(expect(&pages, &page, 7, 1 << 40, PageKind::Rows), Ok(()));
        assert_eq!((next(&page), owner_id(&page)), (9, 1 << 40));
        assert!(expect(&pages, &page, 7, 1, PageKind::Rows).is_err());
        assert!(expect(&pages, &page, 7, 1 << 40, PageKind::Leaf).is_err());
        assert_eq!(u16_at(&page.0, page.0.len() - 2), PAGE_ID);
    }

    #[test]
    fn a_byte_tells_one_kind() {
        for byte in 0..=u8::MAX {
            let page_kind = PageKind::of(byte);
            assert_eq!(page_kind.map_or(byte, |k| k as u8), byte);
            assert_eq!(page_kind.is_some(), (1..=11).contains(&byte));
        }
    }
}
