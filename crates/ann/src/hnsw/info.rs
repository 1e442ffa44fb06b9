//! Figures of a whole index.

use rag_pages::ReadPages;

use super::{
    Index, IndexError,
    cells::Cells,
    layout::{NONE, PageKind, SpecialSpace},
    meta::MetaPage,
    slots::SlotState,
    walk::each_slot,
};

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Info {
    /// Number of heap rows.
    pub vectors: u64,
    /// Number of slots of the base level that have rows.
    pub nodes: u64,
    pub tombstones: u64,
    pub free_slots: u64,
    pub levels: u32,
    /// Mean number of links of a node of the base level.
    pub average_degree: f64,
    pub slots_per_page: u32,
    pub code_dimensions: u32,
    /// True if codes are of differences to the mean of the data. They are, unless the table was
    /// empty at the build.
    pub centred: bool,
}

/// The numbers of nodes and tombstones at the last build, [`remove`](super::remove) or
/// [`repair`](super::repair).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub nodes: u64,
    pub tombstones: u64,
    /// True if rows were removed since a repair was last completed.
    pub repair_due: bool,
    /// True if the first vector has determined the dimensions, and no vector is there (any more).
    pub lacks_vectors: bool,
}

/// Reads the meta page.
///
/// # Errors
/// It is corrupted.
pub fn counts(store: &impl ReadPages) -> Result<Counts, IndexError> {
    let meta = MetaPage::read(store)?;
    Ok(Counts {
        nodes: meta.nodes,
        tombstones: meta.tombstones,
        repair_due: meta.repair_due,
        lacks_vectors: meta.dimensions > 0 && meta.centroid == NONE && meta.entry == NONE,
    })
}

/// Reads the whole index.
///
/// # Errors
/// A page is corrupted.
pub fn info(index: &Index, store: &impl ReadPages) -> Result<Info, IndexError> {
    let Some(body) = index.body() else {
        return Ok(Info::default());
    };
    let meta = MetaPage::read(store)?;
    let geometry = body.base();
    let mut info = Info {
        levels: if meta.entry == NONE {
            0
        } else {
            meta.top_level + 1
        },
        slots_per_page: geometry.slots as u32,
        code_dimensions: meta.code_dimensions,
        centred: meta.centroid != NONE,
        ..Info::default()
    };
    let mut links = 0;
    for block in 1..store.block_count() {
        info.vectors += store.read(block, |page| match SpecialSpace::read(page, block)?.kind {
            PageKind::Cells => Ok(Cells::open(page, block)?
                .used()
                .map(|(_, cell)| cell.rows().len() as u64)
                .sum()),
            _ => Ok(0),
        })?;
        each_slot(store, geometry, block, |_, slot| {
            match slot.state()? {
                SlotState::Free => info.free_slots += 1,
                SlotState::Tombstone => info.tombstones += 1,
                SlotState::Overflow => info.vectors += slot.rows()?.len() as u64,
                SlotState::Node => {
                    info.nodes += 1;
                    info.vectors += u64::from(!slot.has_overflow());
                    links += slot.links()?.len() as u64;
                }
            }
            Ok(())
        })?;
    }
    info.average_degree = if info.nodes == 0 {
        0.0
    } else {
        links as f64 / info.nodes as f64
    };
    Ok(info)
}
