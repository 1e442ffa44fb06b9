//! Checks everything in a segment.

use rag_pages::{Block, IndexError, ReadPages, Tid, memory::append};

use super::{
    dictionary::TermPostings,
    layout::{BLOCK, DOCUMENTS_PER_PAGE},
    positions::TermPositions,
    postings::{PostingsBlock, PostingsPlace, block_len},
    reader::{DocumentWindow, ListBlocks, PostingsList, SegmentReader},
};
use crate::{
    format::{self, PageKind},
    norm,
};

/// What a check reports to: a block and what is wrong with it.
type Report<'a> = &'a mut dyn FnMut(Block, String);

impl SegmentReader {
    /// Checks everything in the segment. Calls `owned` once with each block in use.
    ///
    /// # Errors
    /// A page is not readable, so that the check cannot go on, or memory runs out.
    pub fn check(
        &self,
        pages: &impl ReadPages,
        owned: &mut dyn FnMut(Block),
        report: Report<'_>,
    ) -> Result<(), IndexError> {
        let blocks = [
            self.header_blocks(),
            self.document_blocks(),
            self.row_blocks(),
        ];
        for block in blocks.into_iter().flatten() {
            owned(*block);
        }
        self.check_rows(pages, report)?;
        let norms = self.check_norms(pages, report)?;
        if self.dictionary.root != 0 {
            let mut left = self.owned.limit;
            self.check_tree(pages, self.dictionary.root, &mut left, owned)?;
        }
        let mut lists = ListCheck {
            segment: self,
            norms,
            block: Box::default(),
            last_postings_block: None,
            first_skips: None,
            first_positions: None,
            positions: 0,
        };
        let (mut terms, mut postings) = (0, 0);
        let mut before: Vec<u8> = vec![];
        let mut walk = self.dictionary.terms(pages)?;
        while let Some((term, found)) = walk.next(pages)? {
            let (term, found) = (term.to_vec(), found);
            let leaf = walk.block();
            if terms > 0 && term <= before {
                report(leaf, "terms do not ascend".to_string());
            }
            if self.dictionary.find(pages, &term)? != Some(found) {
                report(leaf, "a term cannot be found".to_string());
            }
            postings += u64::from(lists.check(pages, leaf, &found, owned, report)?);
            terms += 1;
            before = term;
        }
        if let Some(first) = lists.first_skips {
            self.own_chain(pages, first, PageKind::Skips, owned)?;
        }
        if let Some(first) = lists.first_positions {
            self.own_chain(pages, first, PageKind::Positions, owned)?;
        }
        if lists.positions != self.positions().unwrap_or(0) {
            let (found, expected) = (lists.positions, self.positions().unwrap_or(0));
            let problem = format!("the terms have {found} positions instead of {expected}");
            report(self.header_blocks()[0], problem);
        }
        if (terms, postings) != (self.terms(), self.postings()) {
            let problem = format!(
                "the dictionary has {terms} terms and {postings} postings instead of {} and {}",
                self.terms(),
                self.postings()
            );
            report(self.header_blocks()[0], problem);
        }
        Ok(())
    }

    /// Checks that rows ascend.
    fn check_rows(&self, pages: &impl ReadPages, report: Report<'_>) -> Result<(), IndexError> {
        let mut before: Option<Tid> = None;
        let mut is_sorted = true;
        self.each_rows(pages, &mut |_, rows| {
            is_sorted &= rows.is_sorted_by(|a, b| a < b) && before < rows.first().copied();
            before = rows.last().copied();
            Ok(())
        })?;
        if !is_sorted {
            report(self.header_blocks()[0], "rows do not ascend".to_string());
        }
        Ok(())
    }

    /// Checks the sum of lengths. Returns the lengths.
    fn check_norms(
        &self,
        pages: &impl ReadPages,
        report: Report<'_>,
    ) -> Result<Vec<u8>, IndexError> {
        let mut norms = vec![];
        let mut window = DocumentWindow::default();
        for number in 0..self.document_blocks().len() {
            pages.check_interrupts();
            self.read_window(pages, number, &mut window)?;
            let left = self.documents() as usize - number * DOCUMENTS_PER_PAGE;
            append(&mut norms, &window.norms[..left.min(DOCUMENTS_PER_PAGE)])
                .map_err(IndexError::of_memory)?;
        }
        let sum: u64 = norms
            .iter()
            .map(|norm| u64::from(norm::decode(*norm)))
            .sum();
        if sum != self.total_length() {
            let problem = format!("lengths sum up to {sum} instead of {}", self.total_length());
            report(self.header_blocks()[0], problem);
        }
        Ok(norms)
    }

    /// Visits all pages of the dictionary from `block` on, `left` at most.
    fn check_tree(
        &self,
        pages: &impl ReadPages,
        block: Block,
        left: &mut Block,
        owned: &mut dyn FnMut(Block),
    ) -> Result<(), IndexError> {
        pages.check_interrupts();
        owned(block);
        let circle = || IndexError::corrupted(block, "the pages of a dictionary form a circle");
        *left = left.checked_sub(1).ok_or_else(circle)?;
        let Some(children) = self.dictionary.children(pages, block)? else {
            return Ok(());
        };
        for (_, child) in children {
            self.check_tree(pages, child, left, owned)?;
        }
        Ok(())
    }

    /// Visits the pages of a chain.
    fn own_chain(
        &self,
        pages: &impl ReadPages,
        first: Block,
        kind: PageKind,
        owned: &mut dyn FnMut(Block),
    ) -> Result<(), IndexError> {
        let (mut block, mut count) = (first, 0);
        while block != 0 {
            owned(block);
            count += 1;
            if count > self.owned.limit {
                return Err(IndexError::corrupted(
                    block,
                    "the pages of a segment form a circle",
                ));
            }
            block = self
                .owned
                .read_page(pages, block, kind, |page| Ok(format::next(page)))?;
        }
        Ok(())
    }
}

/// Checks the postings of one term after another.
struct ListCheck<'s> {
    segment: &'s SegmentReader,
    norms: Vec<u8>,
    block: Box<PostingsBlock>,
    /// Postings of one term after another lie on one page after another.
    last_postings_block: Option<Block>,
    first_skips: Option<Block>,
    first_positions: Option<Block>,
    /// Number of positions of the terms so far.
    positions: u64,
}

impl ListCheck<'_> {
    /// Checks the postings of a term. Returns their number.
    fn check(
        &mut self,
        pages: &impl ReadPages,
        leaf: Block,
        term: &TermPostings,
        owned: &mut dyn FnMut(Block),
        report: Report<'_>,
    ) -> Result<u32, IndexError> {
        match term.place {
            PostingsPlace::Inline { .. } => {}
            PostingsPlace::Short { place, .. } => self.visit(place.block, owned),
            PostingsPlace::Long { skips } => {
                self.first_skips.get_or_insert(skips.block);
            }
        }
        let list = self.segment.list(pages, term)?;
        let mut positions = TermPositions::open(pages, self.segment, &list)?;
        if let Some(place) = positions.place_of(0) {
            self.first_positions.get_or_insert(place.block);
        }
        let mut before = None;
        match &list.blocks {
            ListBlocks::Short(block, frequency, norm) => {
                self.block.clone_from(block);
                self.check_block(&mut before, *frequency, *norm, leaf, report);
                self.check_positions(pages, &mut positions, 0)?;
            }
            ListBlocks::Long(skips) => {
                for (number, skip) in skips.iter().enumerate() {
                    pages.check_interrupts();
                    self.visit(skip.place.block, owned);
                    self.read(pages, &list, number)?;
                    let expected = block_len(number, list.documents as usize);
                    if self.block.len != expected || (expected < BLOCK && number + 1 < skips.len())
                    {
                        report(leaf, "a block of postings has another length".to_string());
                    }
                    let bound = skip.frequency_bound();
                    self.check_block(&mut before, bound, skip.min_norm, leaf, report);
                    if before != Some(skip.last) {
                        report(leaf, "a skip names another last document".to_string());
                    }
                    self.check_positions(pages, &mut positions, number)?;
                }
            }
            ListBlocks::Union(_) => {} // a segment has none
        }
        Ok(list.documents)
    }

    fn read(
        &mut self,
        pages: &impl ReadPages,
        list: &PostingsList,
        number: usize,
    ) -> Result<(), IndexError> {
        let ListBlocks::Long(skips) = &list.blocks else {
            return Ok(());
        };
        self.segment
            .read_block(pages, skips, list.documents, number, &mut self.block)
    }

    /// Reads the positions of the block at hand. What can be read ascends.
    fn check_positions(
        &mut self,
        pages: &impl ReadPages,
        positions: &mut TermPositions,
        number: usize,
    ) -> Result<(), IndexError> {
        positions.read(pages, self.segment, number, &self.block)?;
        self.positions += positions.block.count();
        Ok(())
    }

    fn visit(&mut self, block: Block, owned: &mut dyn FnMut(Block)) {
        if self.last_postings_block != Some(block) {
            self.last_postings_block = Some(block);
            owned(block);
        }
    }

    /// Checks that documents ascend and that the bounds hold.
    fn check_block(
        &self,
        before: &mut Option<u32>,
        max_frequency: u32,
        min_norm: u8,
        leaf: Block,
        report: Report<'_>,
    ) {
        for (document, frequency) in self.block.iter() {
            if *before >= Some(document) {
                report(leaf, "the documents of a term do not ascend".to_string());
                return;
            }
            *before = Some(document);
            let Some(norm) = self.norms.get(document as usize) else {
                report(
                    leaf,
                    format!("a term has document {document}, which does not exist"),
                );
                return;
            };
            if frequency > max_frequency || *norm < min_norm || frequency == 0 {
                report(
                    leaf,
                    "a posting exceeds the bounds of its block".to_string(),
                );
                return;
            }
        }
    }
}
