//! The slots of a page. Each has a code and a record.

use std::{mem::offset_of, ops::Range};

use rag_pages::{Block, Page};

use super::{
    IndexError, Tid,
    format::{
        ChainBytes, LINK_BYTES, RECORD_HEAD, RecordBytes, TID_BYTES, f32_at, put, u16_at, u32_at,
    },
    layout::{Geometry, SpecialSpace},
};
use crate::code::Factors;

const TARGET: Range<usize> =
    offset_of!(RecordBytes, target)..offset_of!(RecordBytes, target) + TID_BYTES;
const DEGREE: usize = offset_of!(RecordBytes, degree);
const STATE_BYTE: usize = offset_of!(RecordBytes, state);
/// Of an overflow slot, which has no factors.
const MARK: usize = offset_of!(RecordBytes, scale);

/// The content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotState {
    /// Nothing, or something that was freed.
    Free = 0,
    /// A vector that some heap row has.
    Node = 1,
    /// A vector whose rows are dead. It still leads to other nodes.
    Tombstone = 2,
    /// Heap rows of a node of the base level that has several.
    Overflow = 3,
}

impl SlotState {
    /// Returns true if the slot has a code and links.
    pub fn has_code(self) -> bool {
        matches!(self, Self::Node | Self::Tombstone)
    }
}

/// The state byte has two bits of [`SlotState`], one that is set if the target is a chain, and four
/// of the level. So a search that follows a link need not read the special space, which would be
/// another cache line.
const STATE: u8 = 0b0000_0011;
const HAS_OVERFLOW: u8 = 0b0000_0100;
const LEVEL_SHIFT: u32 = 3;

const _: () = assert!(super::MAX_LEVELS <= 16);

/// A page of slots.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    page: &'a Page,
    geometry: &'a Geometry,
    block: Block,
}

impl<'a> Slots<'a> {
    #[inline]
    pub(super) fn new(page: &'a Page, geometry: &'a Geometry, block: Block) -> Self {
        Self {
            page,
            geometry,
            block,
        }
    }

    #[inline]
    pub fn slot(&self, slot: usize) -> Result<Slot<'a>, IndexError> {
        if slot >= self.geometry.slots {
            return Err(IndexError::corrupted(
                self.block,
                format!("a link leads to slot {slot}, which the page does not have"),
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

    pub fn slots(&self) -> impl Iterator<Item = Result<(usize, Slot<'a>), IndexError>> + use<'a> {
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
            scale: f32_at(self.record, offset_of!(RecordBytes, scale)),
            bias: f32_at(self.record, offset_of!(RecordBytes, bias)),
        }
    }

    /// # Errors
    /// It is a slot of another level.
    #[inline]
    pub fn state(&self) -> Result<SlotState, IndexError> {
        let byte = self.record[STATE_BYTE];
        let state = match byte & STATE {
            0 => SlotState::Free,
            1 => SlotState::Node,
            2 => SlotState::Tombstone,
            _ => SlotState::Overflow,
        };
        if state != SlotState::Free && byte >> LEVEL_SHIFT != self.level {
            return Err(self.of_other_level(byte >> LEVEL_SHIFT));
        }
        Ok(state)
    }

    #[cold]
    fn of_other_level(&self, level: u8) -> IndexError {
        IndexError::corrupted(
            self.block,
            format!(
                "a link of level {} leads to a slot of level {level}",
                self.level
            ),
        )
    }

    #[inline]
    pub fn has_overflow(&self) -> bool {
        self.record[STATE_BYTE] & HAS_OVERFLOW != 0
    }

    /// Returns the heap row of a node of the base level that has one.
    #[inline]
    pub fn tid(&self) -> Tid {
        Tid::read(&self.record[TARGET])
    }

    /// Returns the target as a slot. For a node above the base this is the slot one level down. For
    /// a node with a chain it is the first link, for an overflow slot the next link.
    #[inline]
    pub fn down(&self) -> u32 {
        u32_at(&self.record[TARGET], offset_of!(ChainBytes, first))
    }

    /// Returns a value that changes when the node gets another chain, or a link before its first
    /// one.
    pub fn chain(&self) -> (u32, u16) {
        (
            self.down(),
            u16_at(&self.record[TARGET], offset_of!(ChainBytes, count)),
        )
    }

    #[inline]
    pub fn links(&self) -> Result<impl ExactSizeIterator<Item = u32> + use<'a>, IndexError> {
        let bytes = LINK_BYTES * usize::from(self.record[DEGREE]);
        let Some(links) = self.record[RECORD_HEAD..].get(..bytes) else {
            return Err(IndexError::corrupted(
                self.block,
                format!("a slot has {} links", self.record[DEGREE]),
            ));
        };
        Ok(links
            .as_chunks::<LINK_BYTES>()
            .0
            .iter()
            .map(|link| u32::from_le_bytes(*link)))
    }

    /// Returns true if [`SlotsMut::set_mark`] has marked an overflow slot since it was filled.
    pub fn is_marked(&self) -> bool {
        self.record[MARK] != 0
    }

    /// Returns the heap rows of an overflow slot.
    pub fn rows(&self) -> Result<impl ExactSizeIterator<Item = Tid> + use<'a>, IndexError> {
        let bytes = TID_BYTES * usize::from(self.record[DEGREE]);
        let Some(rows) = self.code.get(..bytes) else {
            return Err(IndexError::corrupted(
                self.block,
                format!("an overflow slot has {} rows", self.record[DEGREE]),
            ));
        };
        Ok(rows
            .as_chunks::<TID_BYTES>()
            .0
            .iter()
            .map(|row| Tid::read(row)))
    }
}

/// A page of slots that is locked exclusively.
pub struct SlotsMut<'a> {
    page: &'a mut Page,
    geometry: &'a Geometry,
    block: Block,
}

impl<'a> SlotsMut<'a> {
    pub(super) fn new(page: &'a mut Page, geometry: &'a Geometry, block: Block) -> Self {
        Self {
            page,
            geometry,
            block,
        }
    }

    pub fn slot(&self, slot: usize) -> Result<Slot<'_>, IndexError> {
        Slots::new(self.page, self.geometry, self.block).slot(slot)
    }

    /// Returns the first free slot.
    pub fn free_slot(&self) -> Result<Option<usize>, IndexError> {
        for i in 0..self.geometry.slots {
            if self.slot(i)?.state()? == SlotState::Free {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }

    pub fn special(&self) -> Result<SpecialSpace, IndexError> {
        SpecialSpace::read(self.page, self.block)
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

    /// Fills a free slot with a node.
    pub fn put_node(
        &mut self,
        slot: usize,
        code: &[u8],
        factors: Factors,
        target: Target,
        links: &[u32],
    ) {
        self.set_code(slot, code, factors);
        self.record(slot)[STATE_BYTE] = SlotState::Node as u8 | self.geometry.level << LEVEL_SHIFT;
        self.set_target(slot, target);
        self.set_links(slot, links);
        self.count_used(1);
    }

    /// Replaces the code of a node.
    pub fn set_code(&mut self, slot: usize, code: &[u8], factors: Factors) {
        let length = self.geometry.code_bytes.min(code.len());
        self.code(slot)[..length].copy_from_slice(&code[..length]);
        let record = self.record(slot);
        put(
            record,
            offset_of!(RecordBytes, scale),
            factors.scale.to_le_bytes(),
        );
        put(
            record,
            offset_of!(RecordBytes, bias),
            factors.bias.to_le_bytes(),
        );
    }

    /// Fills a free slot with heap rows of a node.
    pub fn put_overflow(&mut self, slot: usize, rows: &[Tid], next: u32) {
        self.record(slot)[..RECORD_HEAD].fill(0);
        self.record(slot)[STATE_BYTE] = SlotState::Overflow as u8;
        self.set_target(slot, Target::Slot(next));
        self.set_rows(slot, rows);
        self.count_used(1);
    }

    /// Replaces the heap rows of an overflow slot. There are at most [`Geometry::overflow_rows`].
    pub fn set_rows(&mut self, slot: usize, rows: &[Tid]) {
        let code = self.code(slot);
        for (place, row) in code.as_chunks_mut::<TID_BYTES>().0.iter_mut().zip(rows) {
            row.write(place);
        }
        self.record(slot)[DEGREE] = rows.len() as u8;
    }

    pub fn set_target(&mut self, slot: usize, target: Target) {
        let record = self.record(slot);
        let count = u16_at(&record[TARGET], offset_of!(ChainBytes, count));
        record[TARGET].fill(0);
        record[STATE_BYTE] &= !HAS_OVERFLOW;
        match target {
            Target::Row(tid) => tid.write(&mut record[TARGET]),
            Target::Slot(id) => put(
                &mut record[TARGET],
                offset_of!(ChainBytes, first),
                id.to_le_bytes(),
            ),
            Target::Overflow(id) => {
                let target = &mut record[TARGET];
                put(target, offset_of!(ChainBytes, first), id.to_le_bytes());
                // distinguishes chains that begin in the same place at different times
                let count = count.wrapping_add(1).to_le_bytes();
                put(target, offset_of!(ChainBytes, count), count);
                record[STATE_BYTE] |= HAS_OVERFLOW;
            }
        }
    }

    /// Replaces the links. Links for which the slot has no room are left out.
    pub fn set_links(&mut self, slot: usize, links: &[u32]) {
        let links = &links[..links.len().min(self.geometry.max_links)];
        let record = self.record(slot);
        record[DEGREE] = links.len() as u8;
        for (place, link) in record[RECORD_HEAD..]
            .as_chunks_mut::<LINK_BYTES>()
            .0
            .iter_mut()
            .zip(links)
        {
            *place = link.to_le_bytes();
        }
    }

    /// Marks an overflow slot, in place of the factors of a node.
    pub fn set_mark(&mut self, slot: usize) {
        self.record(slot)[MARK] = 1;
    }

    pub fn set_tombstone(&mut self, slot: usize) {
        let record = self.record(slot);
        record[STATE_BYTE] = record[STATE_BYTE] & !STATE | SlotState::Tombstone as u8;
    }

    pub fn set_free(&mut self, slot: usize) {
        let record = self.record(slot);
        record[TARGET.start..RECORD_HEAD].fill(0);
        self.count_used(-1);
    }
}

/// The target of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A node of the base level with one heap row.
    Row(Tid),
    /// The first overflow slot of a node of the base level.
    Overflow(u32),
    /// The same node one level down, or the next overflow slot.
    Slot(u32),
}
