//! Scores of rows that come one after the other, in any order.
//!
//! A statement on a shard asks a function for the score of each row. Opening a query takes longer
//! than the score of one row, so it is opened once.

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{OutOfMemory, push},
};

use super::{
    checked::SegmentCondition,
    lengths::Lengths,
    opened::{OpenedQuery, OpenedSegment, SegmentCache},
    window::SegmentSearch,
};
use crate::{
    query::QueryRef,
    score::{Scorer, Statistics},
    segment::{
        layout::DOCUMENTS_PER_PAGE,
        postings::PostingsBlock,
        reader::{ListBlocks, PostingsList},
    },
};

/// What a query says of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowScore {
    /// 0 for a row that does not match, or is not in the index.
    pub score: f64,
    /// It may have what the query requires, and nothing that it excludes. It need not have its
    /// words.
    pub may_hold: bool,
}

/// A query that is opened once, and asked for rows. It reads the index as it was when it was
/// opened.
pub struct RowScores {
    opened: OpenedQuery,
    scorer: Scorer,
    /// Of each segment.
    found: Vec<SegmentPostings>,
    /// The pending rows that have a term, in ascending order.
    pending: Vec<(Tid, RowScore)>,
    /// Of a row that is not in the index.
    without_words: RowScore,
}

impl RowScores {
    /// Opens a query. `statistics` are those of all partitions.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn open<'q>(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: impl Into<QueryRef<'q>>,
        statistics: &Statistics,
    ) -> Result<Self, IndexError> {
        let query = query.into();
        let opened = OpenedQuery::read(pages, cache, query)?;
        let scorer = Scorer::new(opened.parameters, statistics, query);
        let mut pending = vec![];
        for (row, units) in opened
            .pending
            .rows()
            .zip(opened.pending.units(pages, &scorer)?)
        {
            let score = RowScore {
                score: scorer.score_of(units),
                may_hold: true,
            };
            push(&mut pending, (row, score)).map_err(IndexError::of_memory)?;
        }
        if let Some(condition) = query.condition {
            let holds = opened.pending.holds(pages, condition)?;
            for ((_, score), may_hold) in pending.iter_mut().zip(holds) {
                score.may_hold = may_hold;
            }
        }
        pending.sort_unstable_by_key(|(row, _)| *row);
        let condition = query.condition;
        Ok(Self {
            found: opened.segments.iter().map(SegmentPostings::of).collect(),
            pending,
            without_words: RowScore {
                score: 0.0,
                may_hold: condition.is_none_or(|condition| condition.may_hold(&|_| false)),
            },
            opened,
            scorer,
        })
    }

    /// Returns the score of a row.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn of_row(&mut self, pages: &impl ReadPages, row: Tid) -> Result<RowScore, IndexError> {
        if let Ok(place) = self.pending.binary_search_by_key(&row, |(row, _)| *row) {
            return Ok(self.pending[place].1);
        }
        for (segment, found) in self.opened.segments.iter().zip(&mut self.found) {
            let mut document = None;
            let rows = std::iter::once((row.key(), row.key(), ()));
            segment.reader.each_within(pages, rows, |found, ()| {
                document = Some(found);
                Ok::<_, OutOfMemory>(())
            })?;
            let Some(document) = document else { continue };
            let search = segment.search(pages, 0);
            if found.lengths.is_dead(&search, document)? {
                continue; // another segment may have a new row at its place
            }
            let may_hold = match self.scorer.condition() {
                None => true,
                Some(condition) if condition.has_phrase() => {
                    let has_positions = self.opened.has_positions;
                    SegmentCondition::new(condition, segment, &self.scorer, has_positions)?
                        .holds(&search, document)?
                }
                Some(condition) => {
                    let has = found.terms(&search, segment, document)?;
                    condition.holds(&|term| has.contains(&(term as usize)), &|_| false)
                }
            };
            let units = match may_hold {
                true => found.units(&search, segment, &self.scorer, document)?,
                false => 0,
            };
            return Ok(RowScore {
                score: self.scorer.score_of(units),
                may_hold,
            });
        }
        Ok(self.without_words)
    }
}

/// What was read last of a segment.
struct SegmentPostings {
    /// Of each list.
    lists: Vec<ListBlock>,
    lengths: Lengths,
}

/// The block of postings that was read last.
#[derive(Default)]
struct ListBlock {
    number: Option<usize>,
    block: Box<PostingsBlock>,
}

impl SegmentPostings {
    fn of(segment: &OpenedSegment) -> Self {
        let lists = segment.lists.iter();
        Self {
            lists: lists.map(|_| ListBlock::default()).collect(),
            lengths: Lengths::default(),
        }
    }

    /// Returns the numbers of the terms and patterns that a document has.
    fn terms<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        segment: &OpenedSegment,
        document: u32,
    ) -> Result<Vec<usize>, IndexError> {
        let mut found = vec![];
        for ((term, list), block) in segment.lists.iter().zip(&mut self.lists) {
            if block.frequency(search, list, document)? > 0 {
                push(&mut found, *term).map_err(IndexError::of_memory)?;
            }
        }
        Ok(found)
    }

    /// Returns the units of a document.
    fn units<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        segment: &OpenedSegment,
        scorer: &Scorer,
        document: u32,
    ) -> Result<u32, IndexError> {
        let (page, place) = (
            document as usize / DOCUMENTS_PER_PAGE,
            document as usize % DOCUMENTS_PER_PAGE,
        );
        let norm = self.lengths.of_page(search, page)?[place];
        let mut units = 0_u32;
        for ((term, list), block) in segment.lists.iter().zip(&mut self.lists) {
            if !scorer.counts(*term) {
                continue;
            }
            let frequency = block.frequency(search, list, document)?;
            if frequency > 0 {
                units = units.saturating_add(scorer.term(*term).units(frequency, norm));
            }
        }
        Ok(units)
    }
}

impl ListBlock {
    /// Returns the frequency of the list's term in a document, or 0.
    fn frequency<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        list: &PostingsList,
        document: u32,
    ) -> Result<u32, IndexError> {
        let block = match &list.blocks {
            ListBlocks::Short(block, ..) => block,
            ListBlocks::Union(union) => {
                let at = union.documents.binary_search(&document);
                return Ok(at.map_or(0, |at| union.frequencies[at]));
            }
            ListBlocks::Long(skips) => {
                let number = skips.partition_point(|skip| skip.last < document);
                if number == skips.len() {
                    return Ok(0);
                }
                if self.number != Some(number) {
                    self.number = None; // if the block is not readable
                    search.segment.read_block(
                        search.pages,
                        skips,
                        list.documents,
                        number,
                        &mut self.block,
                    )?;
                    self.number = Some(number);
                }
                &self.block
            }
        };
        let documents = &block.documents[..block.len];
        let at = documents.binary_search(&document);
        Ok(at.map_or(0, |at| block.frequencies[at]))
    }
}
