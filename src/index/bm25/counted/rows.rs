//! The rows that are counted.
#![allow(unsafe_code)] // the visibility map

use pgrx::pg_sys;
use rag_bm25::{RowCount, TableRows};
use rag_pages::Tid;

use crate::{
    error::Error,
    index::{
        am::{
            heap::{HeapRows, Snapshot},
            relation::{Index, Relation},
        },
        bm25::{
            cache, index_error,
            query::Bm25Query,
            ranking::{Ranking, ScoreRules},
            scan::ranking_for,
        },
    },
};

/// Counts the rows of a table that match a query of an index and that a snapshot sees.
///
/// # Errors
/// The index is corrupted, or of other rules than the query's. The role may not query it.
pub fn count(
    table: Relation<'_>,
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    query: &Bm25Query,
) -> Result<RowCount, Error> {
    let opened = cache::open(index)?;
    let known = ranking_for(index, &ScoreRules::of(&opened)?, query)?;
    if known.query.is_empty() {
        return Ok(RowCount::default());
    }
    let mut rows = CountedRows {
        table,
        heap: HeapRows::open(table, index, snapshot),
        checked: known.needs_recheck(&opened).then_some(&*known),
        map: pg_sys::InvalidBuffer as pg_sys::Buffer,
    };
    let (pages, segments) = (opened.pages(index), &opened.segments);
    let count = rag_bm25::count_rows(&pages, segments, &known.query, &mut rows);
    rows.close();
    count.map_err(|e| index_error(*index, e))
}

struct CountedRows<'a> {
    table: Relation<'a>,
    heap: HeapRows<'a>,
    /// The query, if only the texts tell which rows match.
    checked: Option<&'a Ranking>,
    /// The page of the visibility map that was read last.
    map: pg_sys::Buffer,
}

impl CountedRows<'_> {
    /// Releases what it holds. An ERROR does as well.
    fn close(self) {
        if self.map != pg_sys::InvalidBuffer as pg_sys::Buffer {
            // SAFETY: a pin of this.
            unsafe { pg_sys::ReleaseBuffer(self.map) };
        }
        self.heap.close();
    }
}

impl TableRows for CountedRows<'_> {
    fn are_all_visible(&mut self, block: u32) -> bool {
        if self.checked.is_some() || !self.table.is_heap() {
            return false;
        }
        // SAFETY: an open heap. The buffer is of its map, or none.
        let status =
            unsafe { pg_sys::visibilitymap_get_status(self.table.as_raw(), block, &mut self.map) };
        u32::from(status) & pg_sys::VISIBILITYMAP_ALL_VISIBLE != 0
    }

    fn is_counted(&mut self, row: Tid) -> bool {
        if !self.heap.is_in_table(row) {
            return false;
        }
        match self.checked {
            None => self.heap.visible_version(row).is_some(),
            Some(known) => {
                let matches = |text: &[u8]| known.matches(text).unwrap_or_else(|e| e.raise());
                self.heap.with_text(row, matches) == Some(true)
            }
        }
    }
}
