//! The meta page, the first one of an index.

use std::mem::offset_of;

use rag_pages::{HEADER_BYTES, Page, ReadPages, WritePages};

use super::{
    IndexError, IndexParameters, MAX_DIMENSIONS, MAX_LEVELS,
    format::{BLOCK_BYTES, MAGIC, MetaBytes, VERSION, put, u16_at, u32_at, u64_at},
    layout::{NONE, PageKind, SpecialSpace},
};
use crate::code::Metric;

/// The bytes that the checksum is of. They change only when the first vector determines the
/// dimensions and when the centroid is learned. With another seed or metric all distances would be
/// wrong, and nothing else would reveal that.
const FIXED: usize = offset_of!(MetaBytes, entry);

/// The offset of a field in the meta page, after the page header.
macro_rules! at {
    ($field:ident) => {
        offset_of!(MetaBytes, $field)
    };
}

/// The contents of the meta page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaPage {
    pub description: IndexParameters,
    /// 0 until the first vector.
    pub dimensions: u32,
    pub code_dimensions: u32,
    /// The first page of the centroid, or [`NONE`] if the centroid is zero.
    pub centroid: u32,
    /// True if some codes are not yet of differences to the centroid (see [`super::learn`]).
    pub mixed: bool,
    /// The slot on `top_level` where searches begin, or [`NONE`] while there is no node.
    pub entry: u32,
    pub top_level: u32,
    /// The page for new nodes of a level: the first of a chain of pages with free slots, or
    /// [`NONE`].
    pub insert_block: [u32; MAX_LEVELS],
    /// The page for new cells, likewise.
    pub cell_block: u32,
    /// True if rows were removed since [`repair`](super::repair) was last completed.
    pub repair_due: bool,
    /// Number of nodes of the base level with rows at the last build or vacuum.
    pub nodes: u64,
    pub tombstones: u64,
}

impl MetaPage {
    pub fn new(description: IndexParameters) -> Self {
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

    pub fn read(store: &impl ReadPages) -> Result<Self, IndexError> {
        if store.block_count() == 0 {
            return Err(IndexError::corrupted(0, "the index has no pages"));
        }
        store.read(0, Self::decode)
    }

    fn decode(page: &Page) -> Result<Self, IndexError> {
        let damage = |what: &str| Err(IndexError::corrupted(0, what));
        if SpecialSpace::read(page, 0)?.kind != PageKind::MetaPage {
            return damage("page is not a meta page");
        }
        let b = &page.0[HEADER_BYTES..];
        if !b.starts_with(&MAGIC) {
            return damage("the meta page has another magic number");
        }
        let found = u32_at(b, at!(version));
        if found != VERSION {
            let known = VERSION;
            return Err(IndexError::OtherVersion { found, known });
        }
        if u32_at(b, at!(checksum)) != checksum(&b[..FIXED]) {
            return damage("the checksum of the meta page does not match");
        }
        let metric = match b[at!(metric)] {
            0 => Metric::L2,
            1 => Metric::InnerProduct,
            2 => Metric::Cosine,
            3 => Metric::L1,
            _ => return damage("the meta page has an unknown metric"),
        };
        let (m, ef_construction) = (u16_at(b, at!(m)), u16_at(b, at!(ef_construction)));
        let meta = Self {
            description: IndexParameters {
                metric,
                m,
                ef_construction,
                seed: u64_at(b, at!(seed)),
            },
            dimensions: u32_at(b, at!(dimensions)),
            code_dimensions: u32_at(b, at!(code_dimensions)),
            centroid: u32_at(b, at!(centroid)),
            mixed: b[at!(mixed)] != 0,
            entry: u32_at(b, at!(entry)),
            top_level: u32_at(b, at!(top_level)),
            insert_block: std::array::from_fn(|i| u32_at(b, at!(insert_block) + BLOCK_BYTES * i)),
            // Indexes that an older version created have zeros there.
            cell_block: Some(u32_at(b, at!(cell_block)))
                .filter(|block| *block != 0)
                .unwrap_or(NONE),
            repair_due: b[at!(repair_due)] != 0,
            nodes: u64_at(b, at!(nodes)),
            tombstones: u64_at(b, at!(tombstones)),
        };
        if !(2..=100).contains(&m)
            || ef_construction == 0
            || meta.dimensions as usize > MAX_DIMENSIONS
            || meta.top_level as usize >= MAX_LEVELS
        {
            return damage("a parameter in the meta page is out of range");
        }
        Ok(meta)
    }

    fn encode(&self, page: &mut Page) {
        let b = &mut page.0[HEADER_BYTES..];
        let IndexParameters {
            metric,
            m,
            ef_construction,
            seed,
        } = self.description;
        let metric = match metric {
            Metric::L2 => 0,
            Metric::InnerProduct => 1,
            Metric::Cosine => 2,
            Metric::L1 => 3,
        };
        put(b, at!(magic), MAGIC);
        put(b, at!(version), VERSION.to_le_bytes());
        put(b, at!(metric), [metric]);
        put(b, at!(mixed), [u8::from(self.mixed)]);
        put(b, at!(m), m.to_le_bytes());
        put(b, at!(ef_construction), ef_construction.to_le_bytes());
        put(b, at!(dimensions), self.dimensions.to_le_bytes());
        put(b, at!(code_dimensions), self.code_dimensions.to_le_bytes());
        put(b, at!(seed), seed.to_le_bytes());
        put(b, at!(centroid), self.centroid.to_le_bytes());
        put(b, at!(entry), self.entry.to_le_bytes());
        put(b, at!(top_level), self.top_level.to_le_bytes());
        put(b, at!(nodes), self.nodes.to_le_bytes());
        put(b, at!(tombstones), self.tombstones.to_le_bytes());
        for (i, block) in self.insert_block.iter().enumerate() {
            put(b, at!(insert_block) + BLOCK_BYTES * i, block.to_le_bytes());
        }
        put(b, at!(cell_block), self.cell_block.to_le_bytes());
        put(b, at!(repair_due), [u8::from(self.repair_due)]);
        let checksum = checksum(&b[..FIXED]);
        put(b, at!(checksum), checksum.to_le_bytes());
    }

    /// Appends it as the first page of a store without pages.
    pub fn create(&self, store: &impl WritePages) {
        store.append(|_, page| {
            self.encode(page);
            SpecialSpace {
                kind: PageKind::MetaPage,
                level: 0,
                used: 0,
                next: NONE,
            }
            .write(page);
        });
    }

    /// Changes it by `f`, which returns true if it changed something.
    pub fn update(
        store: &impl WritePages,
        f: impl FnOnce(&mut Self) -> bool,
    ) -> Result<(), IndexError> {
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

#[cfg(test)]
mod tests {
    use rag_pages::MemoryPages;

    use super::*;

    #[test]
    fn another_format_version_is_not_corruption() {
        let store = MemoryPages::default();
        let description = IndexParameters {
            metric: Metric::L2,
            m: 16,
            ef_construction: 100,
            seed: 1,
        };
        MetaPage::new(description).create(&store);
        assert_eq!(MetaPage::read(&store), Ok(MetaPage::new(description)));
        store.write(0, |page| {
            let version = (VERSION + 1).to_le_bytes();
            put(&mut page.0[HEADER_BYTES..], at!(version), version);
            Some(())
        });
        let (found, known) = (VERSION + 1, VERSION);
        let expected = IndexError::OtherVersion { found, known };
        assert_eq!(MetaPage::read(&store), Err(expected));
    }
}
