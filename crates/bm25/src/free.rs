//! Puts free blocks in order: those at the end of the file are given up, and the others are used
//! again in the order of the file. So an index that has shrunk also becomes a shorter file.

use rag_pages::{
    Block, IndexError, ReusePages,
    memory::{self, push},
};

use crate::{
    format::{MAX_EXTENTS, PageKind, init, set_next},
    horizon::Horizon,
    locks::{BLOCKS, exclusively},
    meta::{DroppedChain, Meta},
    owner::{self, Extent},
};

/// The file is cut if at least so many blocks, or such a part of it, are beyond the high-water
/// mark.
const CUT_BLOCKS: Block = 128;
const CUT_PART: Block = 16;

/// Blocks that nobody reads any more, and where they are listed.
struct FreeBlocks {
    /// Ascending. No two adjoin.
    extents: Vec<Extent>,
    /// Those of them that are not written before the meta page has changed, ascending: pages of
    /// dropped chains, and spare blocks, which inserts take at any time.
    kept: Vec<Block>,
}

/// Makes one chain of all dropped chains that nobody reads any more, in the order of the file, and
/// lowers the high-water mark to where the free blocks at the end begin.
///
/// # Errors
/// A page is corrupted. Memory runs out.
pub fn tidy(pages: &impl ReusePages) -> Result<(), IndexError> {
    exclusively(pages, BLOCKS, || tidy_locked(pages))
}

fn tidy_locked(pages: &impl ReusePages) -> Result<(), IndexError> {
    let before = Meta::read(pages)?;
    let mut horizon = Horizon::default();
    let mut past = vec![];
    let mut present = vec![];
    for chain in &before.dropped {
        let is_past = horizon.is_past(pages, chain.stamp);
        if is_past { &mut past } else { &mut present }.push(*chain);
    }
    let mut free = FreeBlocks::read(pages, &before, &past)?;
    let high_water = free.cut_end(before.high_water);
    if high_water == before.high_water && past.len() < 2 {
        return Ok(());
    }
    let chain = match free.take_pages()? {
        Some(owner_pages) if !owner_pages.is_empty() => {
            Some(write_chain(pages, &owner_pages, &free.extents)?)
        }
        Some(_) => None,
        None => return Ok(()),
    };
    // Inserts take spare blocks and raise the high-water mark meanwhile. Then it is left to the
    // next time: the pages that were written are free.
    Meta::change(pages, &[], |meta, _| {
        if meta.spare != before.spare || meta.high_water != before.high_water {
            return Ok(None);
        }
        meta.spare.clear();
        meta.high_water = high_water;
        meta.dropped = present;
        chain
            .map_or(Ok(()), |chain| meta.drop_chain(chain))
            .map(Some)
    })?;
    Ok(())
}

impl FreeBlocks {
    fn read(
        pages: &impl ReusePages,
        meta: &Meta,
        chains: &[DroppedChain],
    ) -> Result<Self, IndexError> {
        let mut all = vec![];
        let mut kept =
            memory::collect(meta.spare.iter().copied()).map_err(IndexError::of_memory)?;
        let mut add = |extent| push(&mut all, extent).map_err(IndexError::of_memory);
        let single = |first| Extent { first, blocks: 1 };
        for block in &meta.spare {
            add(single(*block))?;
        }
        for chain in chains {
            owner::each_page(pages, chain.head, chain.tail, &mut |block, page| {
                push(&mut kept, block).map_err(IndexError::of_memory)?;
                add(single(block))?;
                if owner::is_owner(page, block)? {
                    owner::each_extent(page, block, meta.high_water, &mut add)?;
                }
                Ok(())
            })?;
        }
        all.sort_unstable_by_key(|extent: &Extent| extent.first);
        kept.sort_unstable();
        let mut extents: Vec<Extent> = vec![];
        for extent in all {
            match extents.last_mut() {
                Some(last) if extent.first < last.first + last.blocks => {
                    return Err(IndexError::corrupted(extent.first, "block is free twice"));
                }
                Some(last) if extent.first == last.first + last.blocks => {
                    last.blocks += extent.blocks;
                }
                _ => push(&mut extents, extent).map_err(IndexError::of_memory)?,
            }
        }
        Ok(Self { extents, kept })
    }

    /// Removes the blocks before the high-water mark. Returns where the others end.
    fn cut_end(&mut self, high_water: Block) -> Block {
        match self.extents.last() {
            Some(last) if last.first + last.blocks == high_water => {
                let end = last.first;
                self.extents.pop();
                end
            }
            _ => high_water,
        }
    }

    /// Takes the pages that list the other blocks, from the end of the file. Returns `None` if
    /// there are too few.
    fn take_pages(&mut self) -> Result<Option<Vec<Block>>, IndexError> {
        let wanted = self.extents.len().div_ceil(MAX_EXTENTS);
        let mut taken = memory::with_room(wanted).map_err(IndexError::of_memory)?;
        for extent in self.extents.iter_mut().rev() {
            while taken.len() < wanted && extent.blocks > 0 {
                let last = extent.first + extent.blocks - 1;
                if self.kept.binary_search(&last).is_ok() {
                    break;
                }
                extent.blocks -= 1;
                taken.push(last);
            }
        }
        self.extents.retain(|extent| extent.blocks > 0);
        Ok((taken.len() == wanted).then_some(taken))
    }
}

/// Writes a chain of owner pages.
fn write_chain(
    pages: &impl ReusePages,
    owner_pages: &[Block],
    extents: &[Extent],
) -> Result<DroppedChain, IndexError> {
    let id = Meta::update(pages, |meta| {
        meta.next_number += 1;
        Ok(meta.next_number - 1)
    })?;
    let (first, others) = (owner_pages[0], &owner_pages[1..]);
    let mut parts = extents.chunks(MAX_EXTENTS);
    let mut failure = Ok(());
    for (i, &block) in owner_pages.iter().enumerate() {
        let part = parts.next().unwrap_or_default();
        pages.overwrite(block, |page| {
            init(page, id, PageKind::Owner);
            set_next(page, others.get(i).copied().unwrap_or(0));
            let listed = part
                .iter()
                .try_for_each(|extent| owner::push(page, block, *extent));
            failure = std::mem::replace(&mut failure, Ok(())).and(listed);
        });
    }
    failure?;
    Ok(DroppedChain {
        stamp: 0,
        head: first,
        tail: others.last().copied().unwrap_or(first),
    })
}

/// Cuts the blocks beyond the high-water mark from the file, if they are many and no other session
/// uses the index. Blocks that were dropped just now can be used again as soon as no reader is
/// left, even if no other transaction writes.
///
/// # Errors
/// The meta page is corrupted.
pub fn cut(pages: &impl ReusePages) -> Result<(), IndexError> {
    let Meta {
        high_water,
        dropped,
        ..
    } = Meta::read(pages)?;
    if dropped.last().is_some_and(|last| last.stamp == pages.now()) {
        pages.end_present();
    }
    let file = pages.block_count();
    let beyond = file.saturating_sub(high_water);
    if beyond == 0 || beyond < CUT_BLOCKS.min(file / CUT_PART) {
        return Ok(());
    }
    let mut result = Ok(());
    pages.truncate(|| match Meta::read(pages) {
        Ok(meta) => Some(meta.high_water),
        Err(error) => {
            result = Err(error);
            None
        }
    });
    result
}
