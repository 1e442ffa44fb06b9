//! The division of pages into slots. `src/index/hnsw/README.md` has a picture.

use std::mem::offset_of;

use rag_pages::{Block, Page, SPECIAL_OFFSET};

use super::{
    IndexError,
    format::{
        CODES_OFFSET, LINK_BYTES, PAGE_ID, RECORD_HEAD, SpecialBytes, TID_BYTES, put, u16_at,
        u32_at,
    },
    slots::{Slots, SlotsMut},
};

/// Ids are below this, because the keys of a search have 31 bits for them.
const MAX_IDS: u64 = 1 << 31;

/// No page, no slot.
pub const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// A page of zeros: a crash happened between its creation and its first record. Nothing leads
    /// to it.
    Unused = 0,
    MetaPage = 1,
    Centroid = 2,
    Slots = 3,
    /// Cells with heap rows, see [`super::cells`].
    Cells = 4,
}

/// The special space at the end of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialSpace {
    pub kind: PageKind,
    /// Of a page of slots: its level. 0 is the base.
    pub level: u8,
    /// Of a page of slots or cells: the number that is not free.
    pub used: u16,
    /// Of a page of slots or cells: the next page that has free ones, or [`NONE`].
    pub next: u32,
}

impl SpecialSpace {
    #[inline]
    pub fn read(page: &Page, block: Block) -> Result<Self, IndexError> {
        let s = &page.0[SPECIAL_OFFSET..];
        let of_index = u16_at(s, offset_of!(SpecialBytes, page_id)) == PAGE_ID;
        let kind = match s[offset_of!(SpecialBytes, kind)] {
            _ if s.iter().all(|byte| *byte == 0) => PageKind::Unused,
            1 if of_index => PageKind::MetaPage,
            2 if of_index => PageKind::Centroid,
            3 if of_index => PageKind::Slots,
            4 if of_index => PageKind::Cells,
            _ => {
                return Err(IndexError::corrupted(
                    block,
                    "page is not part of a rag_hnsw index",
                ));
            }
        };
        Ok(Self {
            kind,
            level: s[offset_of!(SpecialBytes, level)],
            used: u16_at(s, offset_of!(SpecialBytes, used)),
            next: u32_at(s, offset_of!(SpecialBytes, next)),
        })
    }

    pub fn write(self, page: &mut Page) {
        let s = &mut page.0[SPECIAL_OFFSET..];
        s.fill(0);
        s[offset_of!(SpecialBytes, kind)] = self.kind as u8;
        s[offset_of!(SpecialBytes, level)] = self.level;
        put(s, offset_of!(SpecialBytes, used), self.used.to_le_bytes());
        put(s, offset_of!(SpecialBytes, next), self.next.to_le_bytes());
        put(s, offset_of!(SpecialBytes, page_id), PAGE_ID.to_le_bytes());
    }
}

/// The division of the pages of one level into slots: codes first, then one record a slot.
///
/// ```text
/// record: scale f32 | bias f32 | target 6 B | degree u8 | state u8 | links u32 x max_links
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    pub level: u8,
    pub code_bytes: usize,
    pub max_links: usize,
    /// Number of slots of a page, at least 1.
    pub slots: usize,
    shift: u32,
    records: usize,
}

impl Geometry {
    /// Slots with codes of `code_bytes` (a multiple of 64) and at most `max_links` links.
    fn new(level: u8, code_bytes: usize, max_links: usize) -> Self {
        let record = RECORD_HEAD + LINK_BYTES * max_links;
        let slots = ((SPECIAL_OFFSET - CODES_OFFSET) / (code_bytes + record)).max(1);
        let shift = usize::BITS - (slots - 1).leading_zeros();
        Self {
            level,
            code_bytes,
            max_links,
            slots,
            shift,
            records: CODES_OFFSET + slots * code_bytes,
        }
    }

    /// The division of a level's pages. Nodes of the base level (`level` 0) have twice as many
    /// links.
    pub fn of_level(level: usize, code_bytes: usize, m: u16) -> Self {
        Self::new(level as u8, code_bytes, max_links(level, m))
    }

    pub fn id(&self, block: Block, slot: usize) -> u32 {
        block << self.shift | slot as u32
    }

    #[inline]
    pub fn block(&self, id: u32) -> Block {
        id >> self.shift
    }

    #[inline]
    pub fn slot(&self, id: u32) -> usize {
        (id & ((1 << self.shift) - 1)) as usize
    }

    /// Number of pages that ids can name.
    pub fn max_blocks(&self) -> Block {
        (MAX_IDS >> self.shift) as Block
    }

    /// Ids below this belong to the first `blocks` pages.
    pub fn ids(&self, blocks: Block) -> u64 {
        u64::from(blocks) << self.shift
    }

    #[inline]
    pub fn code_offset(&self, slot: usize) -> usize {
        CODES_OFFSET + slot * self.code_bytes
    }

    #[inline]
    pub fn record_offset(&self, slot: usize) -> usize {
        self.records + slot * self.record_bytes()
    }

    #[inline]
    pub fn record_bytes(&self) -> usize {
        RECORD_HEAD + LINK_BYTES * self.max_links
    }

    /// Returns offset and bytes of a slot's record.
    #[inline]
    pub fn record_range(&self, slot: usize) -> (usize, usize) {
        (self.record_offset(slot), self.record_bytes())
    }

    /// Number of heap rows that an overflow slot holds, in place of a code.
    pub fn overflow_rows(&self) -> usize {
        (self.code_bytes / TID_BYTES).min(usize::from(u8::MAX))
    }

    /// Opens a page that a link led to. Each slot has its own level, so nothing is checked here.
    #[inline]
    pub fn follow<'a>(&'a self, page: &'a Page, block: Block) -> Slots<'a> {
        Slots::new(page, self, block)
    }

    /// Called if a link led to a slot without a node. The slot may have been freed meanwhile, but
    /// its page must belong to this level.
    #[cold]
    pub fn check_freed(&self, page: &Page, block: Block) -> Result<(), IndexError> {
        self.open(page, block).map(|_| ())
    }

    /// Checks that a page is one of this level.
    pub fn open<'a>(&'a self, page: &'a Page, block: Block) -> Result<Slots<'a>, IndexError> {
        let special = SpecialSpace::read(page, block)?;
        if special.kind != PageKind::Slots || special.level != self.level {
            return Err(IndexError::corrupted(
                block,
                format!(
                    "a link of level {} leads to a page of another level or kind",
                    self.level
                ),
            ));
        }
        Ok(Slots::new(page, self, block))
    }

    /// Checks that a page to be changed is one of this level.
    pub fn open_mut<'a>(
        &'a self,
        page: &'a mut Page,
        block: Block,
    ) -> Result<SlotsMut<'a>, IndexError> {
        self.open(page, block)?;
        Ok(SlotsMut::new(page, self, block))
    }

    /// Turns a page of zeros into an empty page of this level.
    pub fn init(&self, page: &mut Page) {
        SpecialSpace {
            kind: PageKind::Slots,
            level: self.level,
            used: 0,
            next: NONE,
        }
        .write(page);
    }
}

/// Maximum number of links of a node on a level.
pub fn max_links(level: usize, m: u16) -> usize {
    if level == 0 {
        2 * usize::from(m)
    } else {
        usize::from(m)
    }
}

/// Maximum number of code dimensions (a multiple of 128) of a slot of the base level, with its
/// links.
pub fn max_code_dimensions(m: u16) -> usize {
    (SPECIAL_OFFSET - CODES_OFFSET - RECORD_HEAD - LINK_BYTES * max_links(0, m)) / 64 * 128
}

/// Number of centroid elements on a page.
pub const CENTROID_ELEMENTS: usize = (SPECIAL_OFFSET - CODES_OFFSET) / 4;

pub fn centroid_elements(page: &Page) -> impl Iterator<Item = f32> {
    page.0[CODES_OFFSET..SPECIAL_OFFSET]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|x| f32::from_le_bytes(*x))
}

pub fn write_centroid(page: &mut Page, elements: &[f32]) {
    for (place, x) in page.0[CODES_OFFSET..SPECIAL_OFFSET]
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip(elements)
    {
        *place = x.to_le_bytes();
    }
    SpecialSpace {
        kind: PageKind::Centroid,
        level: 0,
        used: 0,
        next: NONE,
    }
    .write(page);
}
