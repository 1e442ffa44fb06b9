//! The scores of given rows.

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{self, push},
};

use super::{
    checked::SegmentCondition,
    cursor::TermCursor,
    opened::{OpenedQuery, OpenedSegment, SegmentCache},
};
use crate::{
    query::QueryRef,
    score::{Scorer, Statistics},
    segment::{SegmentReader, layout::DOCUMENTS_PER_PAGE, reader::DocumentWindow},
};

/// Returns the scores of rows: 0 for a row that does not match, or is not in the index.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn score_rows<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
    statistics: Option<&Statistics>,
    rows: &[Tid],
) -> Result<Vec<f64>, IndexError> {
    let query = query.into();
    let opened = OpenedQuery::read(pages, cache, query)?;
    let statistics = statistics.unwrap_or(&opened.statistics);
    let scorer = Scorer::new(opened.parameters, statistics, query);
    let mut scores = memory::filled(rows.len(), 0.0).map_err(IndexError::of_memory)?;
    let in_order = InOrder::of(rows)?;
    for (row, units) in opened.pending.scored(pages, &scorer)? {
        for number in in_order.numbers_of(row) {
            scores[number] = scorer.score_of(units);
        }
    }
    for segment in &opened.segments {
        let condition = scorer.condition();
        let condition = condition
            .map(|known| SegmentCondition::new(known, segment, &scorer, opened.has_positions))
            .transpose()?;
        score_documents(pages, segment, &scorer, condition, &in_order, &mut scores)?;
    }
    Ok(scores)
}

/// Returns which rows may satisfy the condition of a query, if they match its words or not. A row
/// that is not in the index has no words.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn rows_that_may_hold<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
    rows: &[Tid],
) -> Result<Vec<bool>, IndexError> {
    let query = query.into();
    let without_words = query
        .condition
        .is_none_or(|condition| condition.may_hold(&|_| false));
    let mut holds = memory::filled(rows.len(), without_words).map_err(IndexError::of_memory)?;
    let Some(condition) = query.condition else {
        return Ok(holds);
    };
    let opened = OpenedQuery::read(pages, cache, query)?;
    let scorer = Scorer::new(opened.parameters, &opened.statistics, query);
    let in_order = InOrder::of(rows)?;
    for (row, may_hold) in opened
        .pending
        .rows()
        .zip(opened.pending.holds(pages, condition)?)
    {
        for number in in_order.numbers_of(row) {
            holds[number] = may_hold;
        }
    }
    for segment in &opened.segments {
        let search = segment.search(pages, 0);
        let mut condition =
            SegmentCondition::new(condition, segment, &scorer, opened.has_positions)?;
        for (document, number) in in_order.documents(pages, segment)? {
            holds[number] = condition.holds(&search, document)?;
        }
    }
    Ok(holds)
}

/// Returns which terms and patterns of a query a row has, by their numbers: none if it is not in
/// the index.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn terms_in_row<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
    row: Tid,
) -> Result<Vec<bool>, IndexError> {
    let query = query.into();
    let opened = OpenedQuery::read(pages, cache, query)?;
    let scorer = Scorer::new(opened.parameters, &opened.statistics, query);
    let mut found = memory::filled(query.count(), false).map_err(IndexError::of_memory)?;
    for term in opened.pending.terms_of(row) {
        found[term as usize] = true;
    }
    let rows = InOrder::of(&[row])?;
    for segment in &opened.segments {
        let search = segment.search(pages, 0);
        let mut norms = Norms::default();
        for (document, _) in rows.documents(pages, segment)? {
            if norms.of_live(pages, &segment.reader, document)?.is_none() {
                continue;
            }
            for (term, list) in segment.lists.iter() {
                let cursor = TermCursor::new(list, scorer.term(*term));
                let mut cursor = cursor.map_err(IndexError::of_memory)?;
                found[*term] |= cursor.frequency(&search, document, 0)? > 0;
            }
        }
    }
    Ok(found)
}

/// Rows in ascending order, with their numbers.
struct InOrder(Vec<(Tid, usize)>);

impl InOrder {
    fn of(rows: &[Tid]) -> Result<Self, IndexError> {
        let mut in_order = vec![];
        for (number, row) in rows.iter().enumerate() {
            push(&mut in_order, (*row, number)).map_err(IndexError::of_memory)?;
        }
        in_order.sort_unstable();
        Ok(Self(in_order))
    }

    fn numbers_of(&self, row: Tid) -> impl Iterator<Item = usize> {
        let from = self.0.partition_point(|(known, _)| *known < row);
        let same = self.0[from..]
            .iter()
            .take_while(move |(known, _)| *known == row);
        same.map(|(_, number)| *number)
    }

    /// Returns the documents of the rows in a segment, in ascending order, and the numbers of the
    /// rows.
    fn documents(
        &self,
        pages: &impl ReadPages,
        segment: &OpenedSegment,
    ) -> Result<Vec<(u32, usize)>, IndexError> {
        let mut found = vec![];
        let rows = self.0.iter();
        segment.reader.each_within(
            pages,
            rows.map(|(row, number)| (row.key(), row.key(), *number)),
            |document, number| push(&mut found, (document, *number)),
        )?;
        Ok(found)
    }
}

/// Computes the scores of the rows that are in a segment.
fn score_documents(
    pages: &impl ReadPages,
    segment: &OpenedSegment,
    scorer: &Scorer,
    mut condition: Option<SegmentCondition<'_>>,
    rows: &InOrder,
    scores: &mut [f64],
) -> Result<(), IndexError> {
    let mut cursors = vec![];
    for (term, list) in segment.counted() {
        let cursor = TermCursor::new(list, scorer.term(*term));
        cursors.push(cursor.map_err(IndexError::of_memory)?);
    }
    let search = segment.search(pages, 0);
    let mut norms = Norms::default();
    for (document, number) in rows.documents(pages, segment)? {
        let Some(norm) = norms.of_live(pages, &segment.reader, document)? else {
            continue;
        };
        if let Some(condition) = &mut condition
            && !condition.holds(&search, document)?
        {
            continue;
        }
        let mut units = 0_u32;
        for cursor in &mut cursors {
            let frequency = cursor.frequency(&search, document, 0)?;
            if frequency > 0 {
                units = units.saturating_add(cursor.scores.units(frequency, norm));
            }
        }
        scores[number] = scorer.score_of(units);
    }
    Ok(())
}

/// Lengths of documents of a segment, which are requested in ascending order.
#[derive(Default)]
pub struct Norms {
    window: Box<DocumentWindow>,
    number: Option<usize>,
}

impl Norms {
    /// Returns the length of a document, or `None` if it is deleted.
    pub fn of_live(
        &mut self,
        pages: &impl ReadPages,
        segment: &SegmentReader,
        document: u32,
    ) -> Result<Option<u8>, IndexError> {
        let number = document as usize / DOCUMENTS_PER_PAGE;
        if self.number != Some(number) {
            pages.check_interrupts();
            segment.read_window(pages, number, &mut self.window)?;
            self.number = Some(number);
        }
        let place = document as usize % DOCUMENTS_PER_PAGE;
        Ok((!self.window.is_dead(place)).then(|| self.window.norms[place]))
    }
}
