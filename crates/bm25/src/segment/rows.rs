//! The heap rows of a segment's documents.

use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    layout::ROWS_PER_PAGE,
    reader::{SegmentReader, VisitRows},
};
use crate::format::{self, PageKind};

impl SegmentReader {
    /// Calls `f` with the rows of each page of rows, and the number of the first of its documents.
    pub fn each_rows(&self, pages: &impl ReadPages, f: VisitRows<'_>) -> Result<(), IndexError> {
        let mut rows = vec![];
        for number in 0..self.row_blocks.len() {
            pages.check_interrupts();
            self.read_rows(pages, number, &mut rows)?;
            f((number * ROWS_PER_PAGE) as u32, &rows)?;
        }
        Ok(())
    }

    /// Reads a page of rows.
    pub fn read_rows(
        &self,
        pages: &impl ReadPages,
        number: usize,
        rows: &mut Vec<Tid>,
    ) -> Result<(), IndexError> {
        let block = self.page_of(&self.row_blocks, number)?;
        let count = (self.documents as usize - number * ROWS_PER_PAGE).min(ROWS_PER_PAGE);
        rows.clear();
        self.owned.read_page(pages, block, PageKind::Rows, |page| {
            let content = format::content(page).as_chunks::<{ Tid::BYTES }>().0;
            for bytes in &content[..count] {
                push(rows, Tid::read(bytes)).map_err(IndexError::of_memory)?;
            }
            Ok(())
        })
    }

    /// Returns the row of a document.
    pub fn row(&self, pages: &impl ReadPages, document: u32) -> Result<Tid, IndexError> {
        let block = self.page_of(&self.row_blocks, document as usize / ROWS_PER_PAGE)?;
        let offset = document as usize % ROWS_PER_PAGE * Tid::BYTES;
        self.owned.read_page(pages, block, PageKind::Rows, |page| {
            Ok(Tid::read(&format::content(page)[offset..]))
        })
    }

    /// Returns the documents of those rows that are in this segment, with what comes with each row.
    /// The rows are in ascending order, and so are the documents.
    pub fn documents_of<T: Copy>(
        &self,
        pages: &impl ReadPages,
        rows: &[(Tid, T)],
    ) -> Result<Vec<(u32, T)>, IndexError> {
        let mut found = vec![];
        let mut rest = if self.documents > 0 { rows } else { &[] };
        let mut page = 0;
        while let Some((row, _)) = rest.first() {
            pages.check_interrupts();
            // the last page that begins with this row or an earlier one
            let mut after = self.row_blocks.len();
            while page + 1 < after {
                let middle = usize::midpoint(page, after);
                if self.row(pages, (middle * ROWS_PER_PAGE) as u32)? <= *row {
                    page = middle;
                } else {
                    after = middle;
                }
            }
            let first = page * ROWS_PER_PAGE;
            let count = (self.documents as usize)
                .saturating_sub(first)
                .min(ROWS_PER_PAGE);
            let block = self.page_of(&self.row_blocks, page)?;
            let passed = self.owned.read_page(pages, block, PageKind::Rows, |page| {
                let content = format::content(page);
                let stored = |place: usize| Tid::read(&content[place * Tid::BYTES..]);
                let mut from = 0;
                for (passed, (row, with)) in rest.iter().enumerate() {
                    let mut end = count;
                    while from < end {
                        let middle = usize::midpoint(from, end);
                        if stored(middle) < *row {
                            from = middle + 1;
                        } else {
                            end = middle;
                        }
                    }
                    if from == count {
                        return Ok(passed);
                    }
                    if stored(from) == *row {
                        push(&mut found, ((first + from) as u32, *with))
                            .map_err(IndexError::of_memory)?;
                    }
                }
                Ok(rest.len())
            })?;
            // a row between two pages is in none
            rest = &rest[passed.max(1)..];
        }
        Ok(found)
    }

    /// Returns the documents whose rows are in ranges of rows, which are in ascending order. The
    /// documents are, too. A range is its first and its last row, as [`Tid::key`] numbers them.
    pub fn documents_within(
        &self,
        pages: &impl ReadPages,
        ranges: impl Iterator<Item = (u64, u64)>,
    ) -> Result<Vec<u32>, IndexError> {
        let mut found = vec![];
        let mut ranges = ranges.peekable();
        let mut number = 0;
        while let Some((next, _)) = ranges.peek()
            && number < self.row_blocks.len()
        {
            pages.check_interrupts();
            number = self.row_page_of(pages, number, *next)?;
            let first = number * ROWS_PER_PAGE;
            let count = (self.documents as usize)
                .saturating_sub(first)
                .min(ROWS_PER_PAGE);
            let block = self.page_of(&self.row_blocks, number)?;
            self.owned.read_page(pages, block, PageKind::Rows, |page| {
                let rows = &format::content(page).as_chunks::<{ Tid::BYTES }>().0[..count];
                let mut place = 0;
                while let Some((from, to)) = ranges.peek() {
                    place = first_from(rows, place, *from);
                    while let Some(row) = rows.get(place)
                        && Tid::read_key(row) <= *to
                    {
                        push(&mut found, (first + place) as u32).map_err(IndexError::of_memory)?;
                        place += 1;
                    }
                    if place == count {
                        break; // the range may go on in the next page
                    }
                    ranges.next();
                }
                Ok(())
            })?;
            number += 1;
        }
        Ok(found)
    }

    /// Returns the last page of rows, from page `number` on, that begins with `row` or before it.
    /// Returns `number` if there is none.
    fn row_page_of(
        &self,
        pages: &impl ReadPages,
        number: usize,
        row: u64,
    ) -> Result<usize, IndexError> {
        let begins_before = |page: usize| {
            let first = self.row(pages, (page * ROWS_PER_PAGE) as u32)?;
            Ok::<bool, IndexError>(first.key() <= row)
        };
        let (mut from, mut step) = (number, 1);
        while from + step < self.row_blocks.len() && begins_before(from + step)? {
            from += step;
            step *= 2;
        }
        let mut after = (from + step).min(self.row_blocks.len());
        while from + 1 < after {
            let middle = usize::midpoint(from, after);
            if begins_before(middle)? {
                from = middle;
            } else {
                after = middle;
            }
        }
        Ok(from)
    }
}

/// Returns the first place from `from` on whose row does not come before `row`, or the number of
/// rows. It is mostly near.
#[inline]
fn first_from(rows: &[[u8; Tid::BYTES]], mut from: usize, row: u64) -> usize {
    let comes_before = |place: usize| {
        rows.get(place)
            .is_some_and(|known| Tid::read_key(known) < row)
    };
    let mut step = 1;
    while comes_before(from + step) {
        from += step;
        step *= 2;
    }
    let mut after = (from + step).min(rows.len());
    while from < after {
        let middle = usize::midpoint(from, after);
        if comes_before(middle) {
            from = middle + 1;
        } else {
            after = middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use rag_pages::Tid;

    use super::first_from;

    #[test]
    fn the_first_place_is_found_from_anywhere() {
        for end in 0..20 {
            let tid = |block| Tid { block, offset: 7 };
            let rows: Vec<_> = (0..end as u32).map(|block| tid(block).to_bytes()).collect();
            for from in 0..=end {
                for sought in from..=end {
                    let row = tid(sought as u32).key();
                    assert_eq!(first_from(&rows, from, row), sought);
                    assert_eq!(first_from(&rows, from, row - 7), sought);
                }
            }
        }
    }
}
