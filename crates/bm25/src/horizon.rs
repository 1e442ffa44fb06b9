//! Where new blocks come from: dropped chains that nobody reads any more, or the high-water mark.

use rag_pages::{Block, IndexError, ReusePages};

use crate::{
    meta::Meta,
    owner::{DroppedPage, Extent},
};

/// Where blocks come from.
pub enum Source {
    /// The first extent of a page of a dropped chain.
    Dropped {
        page: Block,
        extent: Extent,
    },
    /// The first page of a dropped chain, which has no extents.
    Page {
        page: Block,
        next: Block,
    },
    HighWater {
        first: Block,
    },
}

/// Which stamps are past. To ask the store takes time, so answers are remembered.
pub struct Horizon {
    /// Stamps up to this one are past.
    past: u64,
    /// Stamps from this one on were not.
    present: u64,
}

impl Default for Horizon {
    fn default() -> Self {
        Self {
            past: 0,
            present: u64::MAX,
        }
    }
}

impl Horizon {
    /// Returns true if all readers from before a stamp have ended.
    pub fn is_past(&mut self, pages: &impl ReusePages, stamp: u64) -> bool {
        if stamp > self.past && stamp < self.present {
            if pages.is_past(stamp) {
                self.past = stamp;
            } else {
                self.present = stamp;
            }
        }
        stamp <= self.past
    }

    /// Returns where the next blocks come from. It is a dropped chain, if nobody reads one.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn source(&mut self, pages: &impl ReusePages, meta: &Meta) -> Result<Source, IndexError> {
        let chain = meta.dropped.iter().find(|c| self.is_past(pages, c.stamp));
        let Some(chain) = chain else {
            return Ok(Source::HighWater {
                first: meta.high_water,
            });
        };
        let page = chain.head;
        let dropped = DroppedPage::read(pages, page, meta.high_water)?;
        Ok(match dropped.extent {
            Some(extent) => Source::Dropped { page, extent },
            None => Source::Page {
                page,
                next: dropped.next,
            },
        })
    }
}
