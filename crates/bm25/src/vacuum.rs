//! Removes deleted documents: first marks them, then rewrites what has many of them.

use rag_pages::{Block, IndexError, ReadPages, ReusePages, Tid, memory::push};

use crate::{
    format::{PageKind, SegmentEntry, change, expect, read},
    free,
    locks::{MERGE, SPILL, exclusively},
    maintain::{SPILL_PAGES_BY_VACUUM, freeze, merge_due, spill},
    meta::{Meta, PageList},
    pending::{next_page, records, set_dead},
    segment::{SegmentReader, layout::DOCUMENTS_PER_PAGE, reader::DocumentWindow},
};

/// The result of [`remove`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// Documents that were removed.
    pub removed: u64,
    /// Documents that remain.
    pub remaining: u64,
}

/// Removes the documents for whose heap rows `is_dead` returns true. It is called once for each
/// document that was not removed before. No page is locked meanwhile.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn remove(
    pages: &impl ReusePages,
    is_dead: &mut dyn FnMut(Tid) -> bool,
) -> Result<Removal, IndexError> {
    // The documents that there are now move into no other segment meanwhile: those that are pending
    // are marked before a spill can come, and segments are frozen. Later ones are of younger rows.
    exclusively(pages, MERGE, || {
        let mut vacuum = Vacuum {
            pages,
            is_dead,
            removal: Removal::default(),
        };
        let frozen = exclusively(pages, SPILL, || {
            spill(pages, SPILL_PAGES_BY_VACUUM)?;
            for list in Meta::read(pages)?.lists() {
                vacuum.remove_from_list(list)?;
            }
            freeze(pages)
        })?;
        let mut segments = Meta::read(pages)?.segments;
        segments.retain(|entry| entry.id < frozen);
        for entry in &segments {
            vacuum.remove_from_segment(entry)?;
        }
        Ok(vacuum.removal)
    })
}

/// Spills a pending list that is not short, merges segments, and rewrites those with many deleted
/// documents. Free blocks at the end of the file are given up.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn cleanup(pages: &impl ReusePages) -> Result<(), IndexError> {
    exclusively(pages, MERGE, || {
        free::tidy(pages)?;
        exclusively(pages, SPILL, || spill(pages, SPILL_PAGES_BY_VACUUM))?;
        merge_due(pages)
    })?;
    free::cut(pages)
}

/// Calls `f` with the number and the row of each document of a segment, and true if it is deleted.
///
/// # Errors
/// A page is corrupted, or `f` fails.
pub fn each_row(
    pages: &impl ReadPages,
    reader: &SegmentReader,
    f: &mut dyn FnMut(u32, Tid, bool) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut window = Box::new(DocumentWindow::default());
    let mut current = None;
    reader.each_rows(pages, &mut |first, rows| {
        for (document, &row) in (first..).zip(rows) {
            let number = document as usize / DOCUMENTS_PER_PAGE;
            if current != Some(number) {
                reader.read_window(pages, number, &mut window)?;
                current = Some(number);
            }
            let is_dead = window.is_dead(document as usize % DOCUMENTS_PER_PAGE);
            f(document, row, is_dead)?;
        }
        Ok(())
    })
}

struct Vacuum<'a, P> {
    pages: &'a P,
    is_dead: &'a mut dyn FnMut(Tid) -> bool,
    removal: Removal,
}

/// A record of a document that was not removed before.
struct PendingRow {
    place: usize,
    tid: Tid,
    continues: bool,
    is_continuation: bool,
}

impl<P: ReusePages> Vacuum<'_, P> {
    fn remove_from_list(&mut self, list: &PageList) -> Result<(), IndexError> {
        let pages = self.pages;
        // What was decided for documents of which more records follow.
        let mut unfinished: Vec<(Tid, bool)> = vec![];
        let (mut block, mut seen) = (list.head, 0);
        while block != 0 {
            pages.check_interrupts();
            seen += 1;
            if seen > pages.block_count() {
                let problem = "the chain of pending pages has no end";
                return Err(IndexError::corrupted(list.head, problem));
            }
            let (mut rows, next) = self.read_rows(list, block)?;
            let mut failure = Ok(());
            rows.retain(|row| {
                let is_dead = self.decide(row, &mut unfinished);
                is_dead.unwrap_or_else(|error| {
                    failure = Err(error);
                    false
                })
            });
            failure?;
            if !rows.is_empty() {
                change(pages, block, |page| {
                    expect(pages, page, block, list.id, PageKind::Pending)?;
                    rows.iter().for_each(|row| set_dead(page, row.place));
                    Ok(Some(()))
                })?;
            }
            block = next;
        }
        Ok(())
    }

    fn read_rows(
        &self,
        list: &PageList,
        block: Block,
    ) -> Result<(Vec<PendingRow>, Block), IndexError> {
        read(self.pages, block, list.id, PageKind::Pending, |page| {
            let mut rows = vec![];
            for record in records(page, block) {
                let (place, record) = record?;
                if record.is_dead() {
                    continue;
                }
                let row = PendingRow {
                    place,
                    tid: record.tid(),
                    continues: record.continues(),
                    is_continuation: record.is_continuation(),
                };
                push(&mut rows, row).map_err(IndexError::of_memory)?;
            }
            Ok((rows, next_page(page)))
        })
    }

    /// Returns true if the document of a record is to be removed. Asks once for each document.
    fn decide(
        &mut self,
        row: &PendingRow,
        unfinished: &mut Vec<(Tid, bool)>,
    ) -> Result<bool, IndexError> {
        let begun = unfinished.iter().rposition(|(tid, _)| *tid == row.tid);
        if let Some(place) = begun.filter(|_| row.is_continuation) {
            let (_, is_dead) = unfinished[place];
            if !row.continues {
                unfinished.swap_remove(place);
            }
            return Ok(is_dead);
        }
        let is_dead = (self.is_dead)(row.tid);
        if row.continues {
            push(unfinished, (row.tid, is_dead)).map_err(IndexError::of_memory)?;
        }
        self.count(is_dead);
        Ok(is_dead)
    }

    fn count(&mut self, is_dead: bool) {
        if is_dead {
            self.removal.removed += 1;
        } else {
            self.removal.remaining += 1;
        }
    }

    fn remove_from_segment(&mut self, entry: &SegmentEntry) -> Result<(), IndexError> {
        let pages = self.pages;
        let reader = SegmentReader::open(pages, entry)?;
        // Documents to be marked on one page.
        let mut marked: Vec<u32> = vec![];
        let mut dead = 0;
        each_row(pages, &reader, &mut |document, row, was_dead| {
            let page = |document: u32| document as usize / DOCUMENTS_PER_PAGE;
            if marked
                .last()
                .is_some_and(|last| page(*last) != page(document))
            {
                reader.mark_dead(pages, &marked)?;
                marked.clear();
            }
            let is_dead = !was_dead && (self.is_dead)(row);
            if is_dead {
                push(&mut marked, document).map_err(IndexError::of_memory)?;
            }
            if !was_dead {
                self.count(is_dead);
            }
            dead += u32::from(was_dead || is_dead);
            Ok(())
        })?;
        reader.mark_dead(pages, &marked)?;
        if dead != entry.dead {
            Meta::update(pages, |meta| {
                let place = meta.segment(entry.id)?;
                meta.segments[place].dead = dead;
                Ok(())
            })?;
        }
        Ok(())
    }
}
