//! Where things lie on a page. See the picture in `src/index/hnsw/README.md`.

use rag_pages::{Block, HEADER_BYTES, PAGE_BYTES, Page, SPECIAL_OFFSET};

use super::{Damage, Tid};
use crate::code::Factors;

/// Codes begin on a cache line.
const CODES_OFFSET: usize = 64;
/// Bytes of a slot's record before its links.
pub const RECORD_HEAD: usize = 16;
/// Last two bytes of every page, by which tools tell whose it is.
const PAGE_ID: u16 = 0xFF91;
/// Ids are below this: a search's keys have 31 bits for them.
const MAX_IDS: u64 = 1 << 31;

/// No page, no slot.
pub const NONE: u32 = u32::MAX;

const _: () = assert!(CODES_OFFSET >= HEADER_BYTES && SPECIAL_OFFSET.is_multiple_of(8));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A page of zeros: a crash came between its making and its first record. Nothing leads to it.
    Unused = 0,
    Meta = 1,
    Centroid = 2,
    Slots = 3,
    /// Cells with heap rows, see [`super::cells`].
    Cells = 4,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nothing, or what was freed.
    Free = 0,
    /// A vector that some heap row has.
    Node = 1,
    /// A vector whose rows are gone: still a way to others.
    Tombstone = 2,
    /// Heap rows of a node of the base level that has several.
    Overflow = 3,
}

/// The state byte: two bits of [`State`], then whether the record names an overflow slot instead of
/// a heap row, then four bits of the level. So who follows a link need not look at the special
/// space, which is a cache line more.
const STATE: u8 = 0b0000_0011;
const HAS_OVERFLOW: u8 = 0b0000_0100;
const LEVEL_SHIFT: u32 = 3;

const _: () = assert!(super::MAX_LEVELS <= 16);

/// The special space at the end of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    pub kind: Kind,
    /// Of a page of slots: 0 is the base.
    pub level: u8,
    /// Of a page of slots or cells: those that are not free.
    pub used: u16,
    /// Of a page of slots or cells: the next one that has free ones, or [`NONE`].
    pub next: u32,
}

impl Special {
    #[inline]
    pub fn read(page: &Page, block: Block) -> Result<Self, Damage> {
        let s = &page.0[SPECIAL_OFFSET..];
        let kind = match (s[0], u16_at(s, 14)) {
            (0, 0) if s.iter().all(|byte| *byte == 0) => Kind::Unused,
            (1, PAGE_ID) => Kind::Meta,
            (2, PAGE_ID) => Kind::Centroid,
            (3, PAGE_ID) => Kind::Slots,
            (4, PAGE_ID) => Kind::Cells,
            _ => return Err(Damage::new(block, "it is not a page of this kind of index")),
        };
        Ok(Self {
            kind,
            level: s[1],
            used: u16_at(s, 2),
            next: u32_at(s, 4),
        })
    }

    pub fn write(self, page: &mut Page) {
        let s = &mut page.0[SPECIAL_OFFSET..];
        s.fill(0);
        s[0] = self.kind as u8;
        s[1] = self.level;
        s[2..4].copy_from_slice(&self.used.to_le_bytes());
        s[4..8].copy_from_slice(&self.next.to_le_bytes());
        s[14..16].copy_from_slice(&PAGE_ID.to_le_bytes());
    }
}

/// The division of the pages of one level into slots: codes first, then one record a slot.
///
/// ```text
/// record: scale f32 | bias f32 | target 6 bytes | degree u8 | state and level u8 | links u32 x max_links
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    pub level: u8,
    pub code_bytes: usize,
    pub max_links: usize,
    /// Slots of a page, at least 1.
    pub slots: usize,
    shift: u32,
    records: usize,
}

impl Geometry {
    /// Slots with codes of `code_bytes` (a multiple of 64) and so many links.
    fn new(level: u8, code_bytes: usize, max_links: usize) -> Self {
        let record = RECORD_HEAD + 4 * max_links;
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

    /// Of the base level (`level` 0), whose nodes have twice as many links, or of one above.
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

    /// Pages that ids can name.
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
        RECORD_HEAD + 4 * self.max_links
    }

    /// Heap rows that an overflow slot holds, in the place of a code.
    pub fn overflow_rows(&self) -> usize {
        (self.code_bytes / 6).min(usize::from(u8::MAX))
    }

    /// A page that a link led to: each slot says itself of which level it is.
    #[inline]
    pub fn follow<'a>(&'a self, page: &'a Page, block: Block) -> Slots<'a> {
        Slots {
            page,
            geometry: self,
            block,
        }
    }

    /// Called where a link led to a slot without a node: that may be one that was freed meanwhile,
    /// but not on another page than one of this level.
    #[cold]
    pub fn check_freed(&self, page: &Page, block: Block) -> Result<(), Damage> {
        self.open(page, block).map(|_| ())
    }

    /// Checks that a page is one of this level.
    pub fn open<'a>(&'a self, page: &'a Page, block: Block) -> Result<Slots<'a>, Damage> {
        let special = Special::read(page, block)?;
        if special.kind != Kind::Slots || special.level != self.level {
            return Err(Damage::new(
                block,
                format!("a link of level {} leads to it", self.level),
            ));
        }
        Ok(Slots {
            page,
            geometry: self,
            block,
        })
    }

    /// The same for a page that is to be changed.
    pub fn open_mut<'a>(
        &'a self,
        page: &'a mut Page,
        block: Block,
    ) -> Result<SlotsMut<'a>, Damage> {
        self.open(page, block)?;
        Ok(SlotsMut {
            page,
            geometry: self,
            block,
        })
    }

    /// Makes a page of zeros an empty page of this level.
    pub fn init(&self, page: &mut Page) {
        Special {
            kind: Kind::Slots,
            level: self.level,
            used: 0,
            next: NONE,
        }
        .write(page);
    }
}

/// Links of a node on a level.
pub fn max_links(level: usize, m: u16) -> usize {
    if level == 0 {
        2 * usize::from(m)
    } else {
        usize::from(m)
    }
}

/// Most code dimensions (a multiple of 128) that fit a slot of the base level with so many links.
pub fn max_code_dimensions(m: u16) -> usize {
    (SPECIAL_OFFSET - CODES_OFFSET - RECORD_HEAD - 4 * max_links(0, m)) / 64 * 128
}

/// A page of slots.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    page: &'a Page,
    geometry: &'a Geometry,
    block: Block,
}

impl<'a> Slots<'a> {
    #[inline]
    pub fn slot(&self, slot: usize) -> Result<Slot<'a>, Damage> {
        if slot >= self.geometry.slots {
            return Err(Damage::new(
                self.block,
                format!("a link leads to slot {slot}, which it does not have"),
            ));
        }
        let record = self.geometry.record_offset(slot);
        let code = self.geometry.code_offset(slot);
        Ok(Slot {
            code: &self.page.0[code..code + self.geometry.code_bytes],
            record: &self.page.0[record..record + self.geometry.record_bytes()],
            block: self.block,
            level: self.geometry.level,
        })
    }

    pub fn slots(&self) -> impl Iterator<Item = Result<(usize, Slot<'a>), Damage>> + use<'a> {
        let this = *self;
        (0..self.geometry.slots).map(move |i| Ok((i, this.slot(i)?)))
    }
}

#[derive(Clone, Copy)]
pub struct Slot<'a> {
    pub code: &'a [u8],
    record: &'a [u8],
    block: Block,
    level: u8,
}

impl<'a> Slot<'a> {
    #[inline]
    pub fn factors(&self) -> Factors {
        Factors {
            scale: f32_at(self.record, 0),
            bias: f32_at(self.record, 4),
        }
    }

    /// # Errors
    /// It is a slot of another level.
    #[inline]
    pub fn state(&self) -> Result<State, Damage> {
        let byte = self.record[15];
        let state = match byte & STATE {
            0 => State::Free,
            1 => State::Node,
            2 => State::Tombstone,
            _ => State::Overflow,
        };
        if state != State::Free && byte >> LEVEL_SHIFT != self.level {
            return Err(self.of_other_level(byte >> LEVEL_SHIFT));
        }
        Ok(state)
    }

    #[cold]
    fn of_other_level(&self, level: u8) -> Damage {
        Damage::new(
            self.block,
            format!(
                "a link of level {} leads to a slot of level {level}",
                self.level
            ),
        )
    }

    #[inline]
    pub fn has_overflow(&self) -> bool {
        self.record[15] & HAS_OVERFLOW != 0
    }

    /// The heap row, of a node of the base level that has one.
    #[inline]
    pub fn tid(&self) -> Tid {
        Tid::read(&self.record[8..14])
    }

    /// The slot one level down, of a node above the base; the first overflow slot, of one that has
    /// any; the next one, of an overflow slot.
    #[inline]
    pub fn down(&self) -> u32 {
        u32_at(self.record, 8)
    }

    /// What changes whenever the node gets another chain, or a link before its first one.
    pub fn chain(&self) -> (u32, u16) {
        (self.down(), u16_at(self.record, 12))
    }

    #[inline]
    pub fn links(&self) -> Result<impl ExactSizeIterator<Item = u32> + use<'a>, Damage> {
        let bytes = 4 * usize::from(self.record[14]);
        let Some(links) = self.record[RECORD_HEAD..].get(..bytes) else {
            return Err(Damage::new(
                self.block,
                format!("a slot has {} links", self.record[14]),
            ));
        };
        Ok(links
            .as_chunks::<4>()
            .0
            .iter()
            .map(|link| u32::from_le_bytes(*link)))
    }

    /// Whether [`SlotsMut::set_mark`] has marked an overflow slot since it was filled.
    pub fn is_marked(&self) -> bool {
        self.record[0] != 0
    }

    /// The heap rows of an overflow slot.
    pub fn rows(&self) -> Result<impl ExactSizeIterator<Item = Tid> + use<'a>, Damage> {
        let bytes = 6 * usize::from(self.record[14]);
        let Some(rows) = self.code.get(..bytes) else {
            return Err(Damage::new(
                self.block,
                format!("an overflow slot has {} rows", self.record[14]),
            ));
        };
        Ok(rows.as_chunks::<6>().0.iter().map(|row| Tid::read(row)))
    }
}

/// A page of slots that is locked for change.
pub struct SlotsMut<'a> {
    page: &'a mut Page,
    geometry: &'a Geometry,
    block: Block,
}

impl SlotsMut<'_> {
    pub fn slot(&self, slot: usize) -> Result<Slot<'_>, Damage> {
        Slots {
            page: self.page,
            geometry: self.geometry,
            block: self.block,
        }
        .slot(slot)
    }

    /// The first slot that is free.
    pub fn free_slot(&self) -> Result<Option<usize>, Damage> {
        for i in 0..self.geometry.slots {
            if self.slot(i)?.state()? == State::Free {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }

    pub fn special(&self) -> Result<Special, Damage> {
        Special::read(self.page, self.block)
    }

    fn record(&mut self, slot: usize) -> &mut [u8] {
        let at = self.geometry.record_offset(slot);
        &mut self.page.0[at..at + self.geometry.record_bytes()]
    }

    fn code(&mut self, slot: usize) -> &mut [u8] {
        let at = self.geometry.code_offset(slot);
        &mut self.page.0[at..at + self.geometry.code_bytes]
    }

    fn count_used(&mut self, difference: i32) {
        if let Ok(mut special) = self.special() {
            special.used =
                (i32::from(special.used) + difference).clamp(0, self.geometry.slots as i32) as u16;
            special.write(self.page);
        }
    }

    /// Fills a free slot with a node; what it points to follows.
    pub fn put_node(
        &mut self,
        slot: usize,
        code: &[u8],
        factors: Factors,
        target: Target,
        links: &[u32],
    ) {
        self.set_code(slot, code, factors);
        self.record(slot)[15] = State::Node as u8 | self.geometry.level << LEVEL_SHIFT;
        self.set_target(slot, target);
        self.set_links(slot, links);
        self.count_used(1);
    }

    /// Replaces the code of a node.
    pub fn set_code(&mut self, slot: usize, code: &[u8], factors: Factors) {
        let length = self.geometry.code_bytes.min(code.len());
        self.code(slot)[..length].copy_from_slice(&code[..length]);
        let record = self.record(slot);
        record[..4].copy_from_slice(&factors.scale.to_le_bytes());
        record[4..8].copy_from_slice(&factors.bias.to_le_bytes());
    }

    /// Fills a free slot with heap rows of a node.
    pub fn put_overflow(&mut self, slot: usize, rows: &[Tid], next: u32) {
        self.record(slot)[..RECORD_HEAD].fill(0);
        self.record(slot)[15] = State::Overflow as u8;
        self.set_target(slot, Target::Slot(next));
        self.set_rows(slot, rows);
        self.count_used(1);
    }

    /// Replaces the heap rows of an overflow slot; at most [`Geometry::overflow_rows`].
    pub fn set_rows(&mut self, slot: usize, rows: &[Tid]) {
        let code = self.code(slot);
        for (place, row) in code.as_chunks_mut::<6>().0.iter_mut().zip(rows) {
            row.write(place);
        }
        self.record(slot)[14] = rows.len() as u8;
    }

    pub fn set_target(&mut self, slot: usize, target: Target) {
        let record = self.record(slot);
        let before = u16_at(record, 12);
        record[8..14].fill(0);
        record[15] &= !HAS_OVERFLOW;
        match target {
            Target::Row(tid) => tid.write(&mut record[8..14]),
            Target::Slot(id) => record[8..12].copy_from_slice(&id.to_le_bytes()),
            Target::Overflow(id) => {
                record[8..12].copy_from_slice(&id.to_le_bytes());
                // tells chains that begin in the same place at different times from each other
                record[12..14].copy_from_slice(&before.wrapping_add(1).to_le_bytes());
                record[15] |= HAS_OVERFLOW;
            }
        }
    }

    /// Replaces the links; those beyond what a slot holds are left out.
    pub fn set_links(&mut self, slot: usize, links: &[u32]) {
        let links = &links[..links.len().min(self.geometry.max_links)];
        let record = self.record(slot);
        record[14] = links.len() as u8;
        for (place, link) in record[RECORD_HEAD..]
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(links)
        {
            *place = link.to_le_bytes();
        }
    }

    /// Marks an overflow slot, in the place of the factors of a node.
    pub fn set_mark(&mut self, slot: usize) {
        self.record(slot)[0] = 1;
    }

    pub fn set_tombstone(&mut self, slot: usize) {
        let record = self.record(slot);
        record[15] = record[15] & !STATE | State::Tombstone as u8;
    }

    pub fn set_free(&mut self, slot: usize) {
        let record = self.record(slot);
        record[8..RECORD_HEAD].fill(0);
        self.count_used(-1);
    }
}

/// What a record points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A node of the base level with one heap row.
    Row(Tid),
    /// The first overflow slot of a node of the base level.
    Overflow(u32),
    /// The same node one level down, or the next overflow slot.
    Slot(u32),
}

impl Tid {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            block: u32_at(bytes, 0),
            offset: u16_at(bytes, 4),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.block.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.offset.to_le_bytes());
    }
}

/// Places of centroid elements on a page.
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
    Special {
        kind: Kind::Centroid,
        level: 0,
        used: 0,
        next: NONE,
    }
    .write(page);
}

#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

const _: () = assert!(PAGE_BYTES - SPECIAL_OFFSET >= 16);
