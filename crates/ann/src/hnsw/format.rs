//! Where each field of a page is. No other file knows an offset.
//!
//! Each struct lists its fields in the order of their bytes. A field is an array of bytes, its
//! numbers are little-endian: so there is no padding, and `offset_of!` gives a field's place on
//! every machine. A test below compares the offsets in `tests/t/023_hnsw_damage.pl` with
//! [`MetaBytes`].
//!
//! "Changing the format" in `src/index/hnsw/README.md` says what a change here asks for.

use rag_pages::{HEADER_BYTES, SPECIAL_BYTES, SPECIAL_OFFSET, Tid};

pub use rag_pages::field::{f32_at, put, u16_at, u32_at, u64_at};

use super::MAX_LEVELS;

/// The version of the format, in the meta page.
pub const VERSION: u32 = 1;
/// The first bytes of the meta page.
pub const MAGIC: [u8; 4] = *b"rHNW";
/// The last two bytes of every page. Tools recognize by them whose page it is.
pub const PAGE_ID: u16 = 0xFF91;

/// The meta page, after the page header.
#[repr(C)]
pub struct MetaBytes {
    pub magic: [u8; 4],
    pub version: [u8; 4],
    pub metric: u8,
    pub mixed: u8,
    pub m: [u8; 2],
    pub ef_construction: [u8; 2],
    pub unused: [u8; 2],
    pub dimensions: [u8; 4],
    pub code_dimensions: [u8; 4],
    pub seed: [u8; 8],
    pub centroid: [u8; 4],
    // The fields above have the checksum.
    pub entry: [u8; 4],
    pub top_level: [u8; 4],
    pub checksum: [u8; 4],
    pub nodes: [u8; 8],
    pub tombstones: [u8; 8],
    pub insert_block: [[u8; 4]; MAX_LEVELS],
    pub cell_block: [u8; 4],
    pub repair_due: u8,
}

const _: () = assert!(size_of::<MetaBytes>() == 133);
const _: () = assert!(HEADER_BYTES + size_of::<MetaBytes>() <= SPECIAL_OFFSET);

/// The special space of every page.
#[repr(C)]
pub struct SpecialBytes {
    pub kind: u8,
    pub level: u8,
    pub used: [u8; 2],
    pub next: [u8; 4],
    pub unused: [u8; 6],
    pub page_id: [u8; 2],
}

const _: () = assert!(size_of::<SpecialBytes>() == SPECIAL_BYTES);

/// A slot's record before its links.
#[repr(C)]
pub struct RecordBytes {
    pub scale: [u8; 4],
    pub bias: [u8; 4],
    pub target: [u8; TID_BYTES],
    pub degree: u8,
    pub state: u8,
}

/// Bytes of a slot's record before its links.
pub const RECORD_HEAD: usize = size_of::<RecordBytes>();
const _: () = assert!(RECORD_HEAD == 16);

/// Bytes of a block's number.
pub const BLOCK_BYTES: usize = 4;
/// Bytes of a link in a record.
pub const LINK_BYTES: usize = 4;

/// Bytes of a heap row.
pub const TID_BYTES: usize = Tid::BYTES;

/// The target of a record that leads to another slot or to a cell.
#[repr(C)]
pub struct ChainBytes {
    pub first: [u8; 4],
    pub count: [u8; 2],
}

const _: () = assert!(size_of::<ChainBytes>() == TID_BYTES);

/// Heap rows of a cell.
pub const CELL_ROWS: usize = 3;

/// A cell.
#[repr(C)]
pub struct CellBytes {
    pub rows: [u8; CELL_ROWS * TID_BYTES],
    pub next: [u8; 4],
    pub count: u8,
    pub mark: u8,
}

/// Bytes of a cell.
pub const CELL_BYTES: usize = size_of::<CellBytes>();
const _: () = assert!(CELL_BYTES == 24);

/// The offset of a slot's first code, and of the centroid: they begin on a cache line.
pub const CODES_OFFSET: usize = 64;
const _: () = assert!(CODES_OFFSET >= HEADER_BYTES && SPECIAL_OFFSET.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_damage_test_has_the_offsets_of_the_meta_page() {
        let test = include_str!("../../../../tests/t/023_hnsw_damage.pl");
        let table = test
            .split_once("my %field = (")
            .and_then(|(_, rest)| rest.split_once(");"));
        let fields: Vec<(&str, usize)> = table
            .map_or("", |(table, _)| table)
            .split(',')
            .filter_map(|field| field.split_once("=>"))
            .filter_map(|(name, at)| Some((name.trim(), at.trim().parse().ok()?)))
            .collect();
        let at = |offset: usize| HEADER_BYTES + offset;
        let expected = [
            ("version", at(offset_of!(MetaBytes, version))),
            ("metric", at(offset_of!(MetaBytes, metric))),
            ("m", at(offset_of!(MetaBytes, m))),
            ("dimensions", at(offset_of!(MetaBytes, dimensions))),
            (
                "code_dimensions",
                at(offset_of!(MetaBytes, code_dimensions)),
            ),
            ("seed", at(offset_of!(MetaBytes, seed))),
            ("centroid", at(offset_of!(MetaBytes, centroid))),
            ("entry", at(offset_of!(MetaBytes, entry))),
            ("top_level", at(offset_of!(MetaBytes, top_level))),
        ];
        assert_eq!(fields, expected);
    }
}
