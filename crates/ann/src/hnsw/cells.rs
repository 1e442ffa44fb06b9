//! Pages of cells. A cell holds a few heap rows of a node, for which an overflow slot would be
//! mostly empty.
//!
//! ```text
//! page: header | cells of 24 bytes | special space
//! cell: row 6 B x 3 | next u32 | rows u8, with the highest bit set | mark u8
//! ```
//! A free cell is zeros. The number of a cell is `block << 9 | place`. In a chain, [`CELL`] is set
//! in it, which distinguishes it from a slot.

use std::{mem::offset_of, ops::Range};

use rag_pages::{Block, HEADER_BYTES, Page, SPECIAL_OFFSET};

use super::{
    IndexError, Tid,
    format::{CELL_BYTES, CELL_ROWS, CellBytes, TID_BYTES, put, u32_at},
    layout::{NONE, PageKind, SpecialSpace},
};

/// Set in the number of a cell. The numbers of slots are below it.
pub const CELL: u32 = 1 << 31;
/// Number of heap rows of a cell.
pub const ROWS: usize = CELL_ROWS;
/// Number of cells of a page.
pub const CELLS: usize = (SPECIAL_OFFSET - HEADER_BYTES) / CELL_BYTES;
/// Number of pages whose cells have numbers. The last cell of one more page would have the number
/// [`NONE`].
pub const MAX_BLOCKS: Block = (CELL >> SHIFT) - 1;

const SHIFT: u32 = 9;
const USED: u8 = 0x80;
const _: () = assert!(CELLS <= 1 << SHIFT);

const ROW_BYTES: Range<usize> =
    offset_of!(CellBytes, rows)..offset_of!(CellBytes, rows) + CELL_ROWS * TID_BYTES;
/// The number of rows, with [`USED`].
const COUNT: usize = offset_of!(CellBytes, count);
const MARK: usize = offset_of!(CellBytes, mark);

/// The content of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    bytes: &'a [u8],
}

impl<'a> Cell<'a> {
    /// Returns the heap rows.
    pub fn rows(self) -> impl ExactSizeIterator<Item = Tid> + use<'a> {
        let rows = self.bytes[ROW_BYTES].as_chunks::<TID_BYTES>().0;
        rows[..usize::from(self.bytes[COUNT] & !USED).min(ROWS)]
            .iter()
            .map(|row| Tid::read(row))
    }

    /// Returns the next cell or slot of the chain, or [`NONE`].
    pub fn next(self) -> u32 {
        u32_at(self.bytes, offset_of!(CellBytes, next))
    }

    /// Returns true if [`CellsMut::set_mark`] has marked it since it was filled.
    pub fn is_marked(self) -> bool {
        self.bytes[MARK] != 0
    }
}

/// Returns the number of a cell.
pub fn id(block: Block, place: usize) -> u32 {
    CELL | block << SHIFT | place as u32
}

pub fn block(id: u32) -> Block {
    (id & !CELL) >> SHIFT
}

pub fn place(id: u32) -> usize {
    (id & ((1 << SHIFT) - 1)) as usize
}

/// A page of cells.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    page: &'a Page,
}

impl<'a> Cells<'a> {
    /// # Errors
    /// It is a page of another kind.
    pub fn open(page: &'a Page, block: Block) -> Result<Self, IndexError> {
        if SpecialSpace::read(page, block)?.kind != PageKind::Cells {
            return Err(IndexError::corrupted(
                block,
                "a chain of heap rows leads to a page without cells",
            ));
        }
        Ok(Self { page })
    }

    /// Returns a cell, or `None` where it is free or there is none.
    pub fn cell(self, place: usize) -> Option<Cell<'a>> {
        if place >= CELLS {
            return None;
        }
        let bytes = &self.page.0[offset(place)..offset(place) + CELL_BYTES];
        (bytes[COUNT] & USED != 0).then_some(Cell { bytes })
    }

    /// Returns the cells that are not free, with their places.
    pub fn used(self) -> impl Iterator<Item = (usize, Cell<'a>)> {
        (0..CELLS).filter_map(move |place| Some((place, self.cell(place)?)))
    }
}

/// A page of cells that is locked exclusively.
pub struct CellsMut<'a> {
    page: &'a mut Page,
    block: Block,
}

impl<'a> CellsMut<'a> {
    /// # Errors
    /// It is a page of another kind.
    pub fn open(page: &'a mut Page, block: Block) -> Result<Self, IndexError> {
        Cells::open(page, block)?;
        Ok(Self { page, block })
    }

    pub fn read(&self) -> Cells<'_> {
        Cells { page: self.page }
    }

    pub fn free_place(&self) -> Option<usize> {
        (0..CELLS).find(|place| self.read().cell(*place).is_none())
    }

    /// Fills a free cell with at most [`ROWS`] rows.
    pub fn put(&mut self, place: usize, rows: &[Tid], next: u32) -> Result<(), IndexError> {
        self.bytes(place).fill(0);
        let at = offset_of!(CellBytes, next);
        put(self.bytes(place), at, next.to_le_bytes());
        self.set_rows(place, rows);
        self.count_used(1)
    }

    /// Replaces the rows of a cell.
    pub fn set_rows(&mut self, place: usize, rows: &[Tid]) {
        let rows = &rows[..rows.len().min(ROWS)];
        let bytes = self.bytes(place);
        for (to, row) in bytes[ROW_BYTES]
            .as_chunks_mut::<TID_BYTES>()
            .0
            .iter_mut()
            .zip(rows)
        {
            row.write(to);
        }
        bytes[COUNT] = USED | rows.len() as u8;
    }

    pub fn set_mark(&mut self, place: usize) {
        self.bytes(place)[MARK] = 1;
    }

    pub fn set_free(&mut self, place: usize) -> Result<(), IndexError> {
        self.bytes(place).fill(0);
        self.count_used(-1)
    }

    fn bytes(&mut self, place: usize) -> &mut [u8] {
        &mut self.page.0[offset(place)..offset(place) + CELL_BYTES]
    }

    fn count_used(&mut self, difference: i32) -> Result<(), IndexError> {
        let mut special = SpecialSpace::read(self.page, self.block)?;
        special.used = (i32::from(special.used) + difference).clamp(0, CELLS as i32) as u16;
        special.write(self.page);
        Ok(())
    }
}

/// Turns a page of zeros into an empty page of cells.
pub fn init(page: &mut Page) {
    SpecialSpace {
        kind: PageKind::Cells,
        level: 0,
        used: 0,
        next: NONE,
    }
    .write(page);
}

fn offset(place: usize) -> usize {
    HEADER_BYTES + place.min(CELLS - 1) * CELL_BYTES
}
