//! Finds everything in an index that is not as it should be.

use rag_pages::{
    Block, IndexError, Page, ReusePages, Tid,
    memory::{self, push},
};

use crate::{
    format::{PageKind, SegmentEntry, expect},
    locks::{MERGE, SPILL, exclusively},
    meta::{Meta, PageList},
    owner::{self, Extent},
    pending::{is_closed, records},
    segment::SegmentReader,
    vacuum::each_row,
};

/// Reads the whole index. Calls `report` with each problem and its block, and `on_row` with the
/// heap row of each document that is not deleted.
///
/// No session merges large segments meanwhile, but inserts go on, and spill: the caller's snapshot
/// keeps what they drop. On a standby nothing can be prevented, so that it may report what is being
/// replayed.
///
/// # Errors
/// There is too little memory.
pub fn check(
    pages: &impl ReusePages,
    on_row: &mut dyn FnMut(Tid),
    report: &mut dyn FnMut(Block, String),
) -> Result<(), IndexError> {
    if pages.is_in_recovery() {
        let check = Check::structure(pages, on_row, report)?;
        return check.map_or(Ok(()), |mut check| check.contents());
    }
    exclusively(pages, MERGE, || {
        let check = exclusively(pages, SPILL, || Check::structure(pages, on_row, report))?;
        check.map_or(Ok(()), |mut check| check.contents())
    })
}

/// A set of blocks.
struct Blocks(Vec<u64>);

impl Blocks {
    fn new(count: usize) -> Result<Self, IndexError> {
        let words = memory::filled(count.div_ceil(64), 0);
        words.map(Self).map_err(IndexError::of_memory)
    }

    fn has(&self, block: Block) -> bool {
        let word = self.0.get(block as usize / 64).copied().unwrap_or(0);
        word & 1 << (block % 64) != 0
    }

    /// Adds a block below the high-water mark. Returns false if the set has it.
    fn add(&mut self, block: Block) -> bool {
        let is_new = !self.has(block);
        if let Some(word) = self.0.get_mut(block as usize / 64) {
            *word |= 1 << (block % 64);
        }
        is_new
    }
}

/// What is on the pages of a list of pending documents. It is reported when no page is locked.
#[derive(Default)]
struct PendingPages {
    is_spilled: bool,
    tail: Block,
    blocks: Vec<Block>,
    rows: Vec<Tid>,
    problems: Vec<(Block, &'static str)>,
    /// Documents of which more records follow.
    unfinished: Vec<Tid>,
}

impl PendingPages {
    fn add(&mut self, block: Block, page: &Page) -> Result<(), IndexError> {
        push(&mut self.blocks, block).map_err(IndexError::of_memory)?;
        if is_closed(page) != (self.is_spilled && block == self.tail) {
            self.problem(block, "pending page is closed, or should be")?;
        }
        for record in records(page, block) {
            let (_, record) = record?;
            if let Some(problem) = record.problem() {
                self.problem(block, problem)?;
            }
            if record.is_dead() {
                continue;
            }
            let row = record.tid();
            if !record.is_continuation() || !self.unfinished.contains(&row) {
                push(&mut self.rows, row).map_err(IndexError::of_memory)?;
            }
            self.unfinished.retain(|tid| *tid != row);
            if record.continues() {
                push(&mut self.unfinished, row).map_err(IndexError::of_memory)?;
            }
        }
        Ok(())
    }

    fn problem(&mut self, block: Block, problem: &'static str) -> Result<(), IndexError> {
        push(&mut self.problems, (block, problem)).map_err(IndexError::of_memory)
    }
}

struct Check<'a, P> {
    pages: &'a P,
    meta: Meta,
    /// Blocks that have an owner.
    owned: Blocks,
    /// Segments, with the blocks that they own beside their owner pages.
    segments: Vec<(SegmentEntry, Vec<Extent>)>,
    /// Pages that segments use.
    used: Blocks,
    on_row: &'a mut dyn FnMut(Tid),
    report: &'a mut dyn FnMut(Block, String),
}

impl<'a, P: ReusePages> Check<'a, P> {
    /// Checks who owns which block, and the pending documents. Returns `None` if nothing else can
    /// be checked.
    fn structure(
        pages: &'a P,
        on_row: &'a mut dyn FnMut(Tid),
        report: &'a mut dyn FnMut(Block, String),
    ) -> Result<Option<Self>, IndexError> {
        let meta = match Meta::read(pages) {
            Ok(meta) => meta,
            Err(error) => {
                let (block, problem) = error.into_problem()?;
                report(block, problem);
                return Ok(None);
            }
        };
        let blocks = meta.high_water as usize;
        let mut check = Self {
            pages,
            meta: meta.clone(),
            owned: Blocks::new(blocks)?,
            segments: vec![],
            used: Blocks::new(blocks)?,
            on_row,
            report,
        };
        check.own(0);
        for block in &meta.spare {
            check.own(*block);
        }
        for list in meta.lists() {
            let result = check.list(list);
            check.note(result)?;
        }
        for list in &meta.in_flight {
            let result = check.in_flight(list);
            check.note(result)?;
        }
        for chain in &meta.dropped {
            let result = check.chain(chain.head, chain.tail, &mut |_, _| Ok(()));
            check.note(result)?;
        }
        for entry in &meta.segments {
            let result = check.owned_by_segment(entry);
            check.note(result)?;
        }
        check.ids();
        check.unowned();
        Ok(Some(check))
    }

    /// Checks what is in the segments.
    fn contents(&mut self) -> Result<(), IndexError> {
        for (entry, extents) in std::mem::take(&mut self.segments) {
            let result = self.segment(&entry, &extents);
            self.note(result)?;
        }
        Ok(())
    }

    /// Reports an error that is about a page, and returns any other.
    fn note(&mut self, result: Result<(), IndexError>) -> Result<(), IndexError> {
        if let Err(error) = result {
            let (block, problem) = error.into_problem()?;
            (self.report)(block, problem);
        }
        Ok(())
    }

    fn own(&mut self, block: Block) {
        if block >= self.meta.high_water {
            (self.report)(block, "block is beyond the high-water mark".to_string());
        } else if !self.owned.add(block) {
            (self.report)(block, "block has two owners".to_string());
        }
    }

    /// Checks a list of pending documents up to the page that was its last.
    fn list(&mut self, list: &PageList) -> Result<(), IndexError> {
        let pages = self.pages;
        let mut found = PendingPages {
            is_spilled: *list == self.meta.spilled,
            tail: list.tail,
            ..PendingPages::default()
        };
        let walked = owner::each_page(pages, list.head, list.tail, &mut |block, page| {
            expect(pages, page, block, list.id, PageKind::Pending)?;
            found.add(block, page)
        });
        for block in &found.blocks {
            self.own(*block);
        }
        for (block, problem) in found.problems {
            (self.report)(block, problem.to_string());
        }
        found.rows.into_iter().for_each(&mut *self.on_row);
        walked?;
        if found.blocks.len() != list.blocks as usize {
            let (count, expected) = (found.blocks.len(), list.blocks);
            let problem = format!("the list has {count} pages instead of {expected}");
            (self.report)(list.head, problem);
        }
        Ok(())
    }

    /// Checks a chain of pages and the extents on them. Calls `f` with each page. Returns the
    /// number of blocks.
    fn owned_by(
        &mut self,
        head: Block,
        tail: Block,
        f: &mut dyn FnMut(Block, &Page) -> Result<(), IndexError>,
        extents: &mut Vec<Extent>,
    ) -> Result<u64, IndexError> {
        let (high_water, pages) = (self.meta.high_water, self.pages);
        let mut chain: Vec<Block> = vec![];
        let walked = owner::each_page(pages, head, tail, &mut |block, page| {
            f(block, page)?;
            push(&mut chain, block).map_err(IndexError::of_memory)?;
            if !owner::is_owner(page, block)? {
                return Ok(());
            }
            owner::each_extent(page, block, high_water, &mut |extent| {
                push(extents, extent).map_err(IndexError::of_memory)
            })
        });
        let mut count = chain.len() as u64;
        for block in chain {
            self.own(block);
        }
        for extent in &*extents {
            count += u64::from(extent.blocks);
            if count > u64::from(high_water) {
                // Each block is owned once, so that there cannot be more.
                return Err(IndexError::corrupted(
                    head,
                    "owner pages have too many blocks",
                ));
            }
            for block in extent.first..extent.first + extent.blocks {
                self.own(block);
            }
        }
        walked.map(|()| count)
    }

    fn chain(
        &mut self,
        head: Block,
        tail: Block,
        f: &mut dyn FnMut(Block, &Page) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.owned_by(head, tail, f, &mut vec![]).map(|_| ())
    }

    fn in_flight(&mut self, list: &PageList) -> Result<(), IndexError> {
        let pages = self.pages;
        if list.is_empty() {
            return Ok(());
        }
        let is_ours =
            &mut |block: Block, page: &Page| expect(pages, page, block, list.id, PageKind::Owner);
        let count = self.owned_by(list.head, list.tail, is_ours, &mut vec![])?;
        if count != u64::from(list.blocks) {
            let problem = format!("{count} blocks are in flight instead of {}", list.blocks);
            (self.report)(list.head, problem);
        }
        Ok(())
    }

    fn owned_by_segment(&mut self, entry: &SegmentEntry) -> Result<(), IndexError> {
        let pages = self.pages;
        let mut extents = vec![];
        let is_ours =
            &mut |block: Block, page: &Page| expect(pages, page, block, entry.id, PageKind::Owner);
        let count = self.owned_by(entry.owner, entry.owner_tail, is_ours, &mut extents)?;
        if count != u64::from(entry.pages) {
            let problem = format!("a segment owns {count} blocks instead of {}", entry.pages);
            (self.report)(entry.owner, problem);
        }
        extents.sort_unstable_by_key(|extent| extent.first);
        push(&mut self.segments, (*entry, extents)).map_err(IndexError::of_memory)
    }

    fn segment(&mut self, entry: &SegmentEntry, extents: &[Extent]) -> Result<(), IndexError> {
        let pages = self.pages;
        let reader = SegmentReader::open(pages, entry)?;
        let mut foreign: Vec<Block> = vec![];
        let used = &mut self.used;
        let mut own = |block: Block| {
            let after = extents.partition_point(|extent| extent.first <= block);
            let extent = after.checked_sub(1).map(|place| extents[place]);
            let is_owned = extent.is_some_and(|extent| block - extent.first < extent.blocks);
            if (!is_owned || !used.add(block)) && foreign.len() < 100 {
                foreign.push(block);
            }
        };
        let checked = reader.check(pages, &mut own, &mut *self.report);
        for block in foreign {
            let problem = "block does not belong to the segment, or has two uses in it";
            (self.report)(block, problem.to_string());
        }
        checked?;
        let mut dead = 0;
        let on_row = &mut *self.on_row;
        each_row(pages, &reader, &mut |_, row, is_dead| {
            dead += u32::from(is_dead);
            if !is_dead {
                on_row(row);
            }
            Ok(())
        })?;
        // A crash may have kept vacuum from counting those that it marked.
        if dead < entry.dead {
            let problem = format!("{dead} documents are deleted instead of {}", entry.dead);
            (self.report)(entry.header, problem);
        }
        Ok(())
    }

    /// Reports numbers that two owners have.
    fn ids(&mut self) {
        let mut ids: Vec<u64> = self.meta.ids().filter(|id| *id != 0).collect();
        ids.sort_unstable();
        for pair in ids.windows(2).filter(|pair| pair[0] == pair[1]) {
            (self.report)(0, format!("number {} has two owners", pair[0]));
        }
    }

    /// Reports blocks without an owner, those that follow each other together.
    fn unowned(&mut self) {
        let mut block = 0;
        while block < self.meta.high_water {
            let first = block;
            while block < self.meta.high_water && !self.owned.has(block) {
                block += 1;
            }
            if block > first {
                let problem = format!("{} blocks from here on have no owner", block - first);
                (self.report)(first, problem);
            }
            block += 1;
        }
    }
}
