//! The first page.

use rag_pages::{Page, ReadPages, WritePages};

use super::{
    Damage, Description, MAX_DIMENSIONS, MAX_LEVELS,
    layout::{Kind, NONE, Special, u16_at, u32_at},
};
use crate::code::Metric;

const MAGIC: u32 = u32::from_le_bytes(*b"rHNW");
const VERSION: u32 = 1;
const OFFSET: usize = rag_pages::HEADER_BYTES;
/// The first bytes do not change while the index lives, but when the first vector tells the
/// dimensions and when the centroid is learned. Another seed or metric would give other distances
/// everywhere and look like nothing but bad luck; so they have a checksum.
const FIXED: usize = 36;
const CHECKSUM: usize = 44;
const CELL_BLOCK: usize = 64 + 4 * MAX_LEVELS;
const REPAIR_DUE: usize = CELL_BLOCK + 4;

/// What the first page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub description: Description,
    /// 0 until the first vector.
    pub dimensions: u32,
    pub code_dimensions: u32,
    /// First of the pages with the centroid, or [`NONE`] where that is zero.
    pub centroid: u32,
    /// Whether some codes are not of differences to the centroid yet (see [`super::learn`]).
    pub mixed: bool,
    /// Slot on `top_level` where searches begin, or [`NONE`] while there is no node.
    pub entry: u32,
    pub top_level: u32,
    /// Where new nodes of a level go: the first of a chain of pages with free slots, or [`NONE`].
    pub insert_block: [u32; MAX_LEVELS],
    /// The same for cells.
    pub cell_block: u32,
    /// Whether rows were removed since [`repair`](super::repair) has run to its end.
    pub repair_due: bool,
    /// Nodes of the base level with rows when they were last counted, by a build or by vacuum.
    pub nodes: u64,
    pub tombstones: u64,
}

impl Meta {
    pub fn new(description: Description) -> Self {
        Self {
            description,
            dimensions: 0,
            code_dimensions: 0,
            centroid: NONE,
            mixed: false,
            entry: NONE,
            top_level: 0,
            insert_block: [NONE; MAX_LEVELS],
            cell_block: NONE,
            repair_due: false,
            nodes: 0,
            tombstones: 0,
        }
    }

    pub fn read(store: &impl ReadPages) -> Result<Self, Damage> {
        if store.block_count() == 0 {
            return Err(Damage::new(0, "the index has no pages"));
        }
        store.read(0, Self::decode)
    }

    fn decode(page: &Page) -> Result<Self, Damage> {
        let damage = |what: &str| Err(Damage::new(0, what));
        if Special::read(page, 0)?.kind != Kind::Meta {
            return damage("it is not the first page of an index");
        }
        let b = &page.0[OFFSET..];
        if u32_at(b, 0) != MAGIC {
            return damage("it has not the magic number of rag_hnsw");
        }
        if u32_at(b, 4) != VERSION {
            return Err(Damage::new(
                0,
                format!("its format is version {}, not {VERSION}", u32_at(b, 4)),
            ));
        }
        if u32_at(b, CHECKSUM) != checksum(&b[..FIXED]) {
            return damage("its parameters do not fit their checksum");
        }
        let metric = match b[8] {
            0 => Metric::L2,
            1 => Metric::InnerProduct,
            2 => Metric::Cosine,
            3 => Metric::L1,
            _ => return damage("it names an unknown metric"),
        };
        let (m, ef_construction) = (u16_at(b, 10), u16_at(b, 12));
        let meta = Self {
            description: Description {
                metric,
                m,
                ef_construction,
                seed: u64_at(b, 24),
            },
            dimensions: u32_at(b, 16),
            code_dimensions: u32_at(b, 20),
            centroid: u32_at(b, 32),
            mixed: b[9] != 0,
            entry: u32_at(b, 36),
            top_level: u32_at(b, 40),
            insert_block: std::array::from_fn(|i| u32_at(b, 64 + 4 * i)),
            // an index that an older version has made has zeros there
            cell_block: Some(u32_at(b, CELL_BLOCK))
                .filter(|block| *block != 0)
                .unwrap_or(NONE),
            repair_due: b[REPAIR_DUE] != 0,
            nodes: u64_at(b, 48),
            tombstones: u64_at(b, 56),
        };
        if !(2..=100).contains(&m)
            || ef_construction == 0
            || meta.dimensions as usize > MAX_DIMENSIONS
            || meta.top_level as usize >= MAX_LEVELS
        {
            return damage("its parameters are out of range");
        }
        Ok(meta)
    }

    fn encode(&self, page: &mut Page) {
        let b = &mut page.0[OFFSET..];
        let mut put = |at: usize, bytes: &[u8]| b[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &VERSION.to_le_bytes());
        let metric = match self.description.metric {
            Metric::L2 => 0,
            Metric::InnerProduct => 1,
            Metric::Cosine => 2,
            Metric::L1 => 3,
        };
        put(8, &[metric, u8::from(self.mixed)]);
        put(10, &self.description.m.to_le_bytes());
        put(12, &self.description.ef_construction.to_le_bytes());
        put(16, &self.dimensions.to_le_bytes());
        put(20, &self.code_dimensions.to_le_bytes());
        put(24, &self.description.seed.to_le_bytes());
        put(32, &self.centroid.to_le_bytes());
        put(36, &self.entry.to_le_bytes());
        put(40, &self.top_level.to_le_bytes());
        put(48, &self.nodes.to_le_bytes());
        put(56, &self.tombstones.to_le_bytes());
        for (i, block) in self.insert_block.iter().enumerate() {
            put(64 + 4 * i, &block.to_le_bytes());
        }
        put(CELL_BLOCK, &self.cell_block.to_le_bytes());
        put(REPAIR_DUE, &[u8::from(self.repair_due)]);
        let checksum = checksum(&b[..FIXED]);
        b[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Makes it the first page of a store without pages.
    pub fn create(&self, store: &impl WritePages) {
        store.append(|_, page| {
            self.encode(page);
            Special {
                kind: Kind::Meta,
                level: 0,
                used: 0,
                next: NONE,
            }
            .write(page);
        });
    }

    /// Changes it by `f`, which returns whether there is anything to change.
    pub fn update(
        store: &impl WritePages,
        f: impl FnOnce(&mut Self) -> bool,
    ) -> Result<(), Damage> {
        let mut result = Ok(());
        store.write(0, |page| match Self::decode(page) {
            Ok(mut meta) => f(&mut meta).then(|| meta.encode(page)),
            Err(damage) => {
                result = Err(damage);
                None
            }
        });
        result
    }
}

/// FNV-1a
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
