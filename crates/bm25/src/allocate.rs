//! Blocks for new pages, and what happens to those that are no longer needed.
//!
//! Each step is one record, so that each block below the high-water mark has one owner at any time.
//! Only the session with the [blocks lock](BLOCKS) changes what is in flight and what is dropped.
//! Every session takes spare blocks, and raises the high-water mark.

use rag_pages::{Block, IndexError, Page, PageUse, ReusePages};

use crate::{
    format::{
        MAX_DROPPED, MAX_SEGMENTS, MAX_SPARE, PageKind, SegmentEntry, change, init, read, set_next,
    },
    horizon::{Horizon, Source},
    locks::{BLOCKS, exclusively},
    meta::{DroppedChain, Meta, PageList, Writer},
    owner::{self, Extent},
    segment::WrittenSegment,
};

/// Blocks that are reserved together: first, second, and so on. A small segment wastes few, and a
/// large one needs few records.
const RESERVED_TOGETHER: [u32; 5] = [8, 8, 16, 32, 64];

/// Spare blocks that maintenance provides.
const SPARE_WANTED: usize = 64;
const _: () = assert!(SPARE_WANTED <= MAX_SPARE);

/// Blocks for a segment that is being written. The session holds the lock of the writer.
pub struct Allocation<'a, P> {
    pages: &'a P,
    writer: Writer,
    id: u64,
    /// What is reserved and not handed out.
    first: Block,
    end: Block,
    reservations: usize,
    horizon: Horizon,
}

impl<'a, P: ReusePages> Allocation<'a, P> {
    /// Begins a segment. What a session left in flight before is dropped.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn begin(pages: &'a P, writer: Writer) -> Result<Self, IndexError> {
        reclaim(pages, writer)?;
        let id = Meta::update(pages, |meta| {
            meta.next_number += 1;
            Ok(meta.next_number - 1)
        })?;
        Ok(Self {
            pages,
            writer,
            id,
            first: 0,
            end: 0,
            reservations: 0,
            horizon: Horizon::default(),
        })
    }

    /// Returns the number of the segment, which is the owner of its pages.
    pub fn owner_id(&self) -> u64 {
        self.id
    }

    /// Returns a block that belongs to the segment. It may not exist yet, or hold an old page.
    ///
    /// # Errors
    /// A page is corrupted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Block, IndexError> {
        while self.first == self.end {
            self.pages.check_interrupts();
            exclusively(self.pages, BLOCKS, || self.reserve())?;
        }
        self.first += 1;
        Ok(self.first - 1)
    }

    /// Reserves an extent, and lists it on the last owner page. If there is no room, the first
    /// block of the extent becomes the next owner page.
    fn reserve(&mut self) -> Result<(), IndexError> {
        let pages = self.pages;
        let meta = Meta::read(pages)?;
        let wanted = RESERVED_TOGETHER[self.reservations.min(RESERVED_TOGETHER.len() - 1)];
        let source = self.horizon.source(pages, &meta)?;
        let extent = match source {
            Source::Dropped { extent, .. } => Extent {
                first: extent.first,
                blocks: extent.blocks.min(wanted),
            },
            Source::Page { page, .. } => Extent {
                first: page,
                blocks: 1,
            },
            Source::HighWater { first } => Extent {
                first,
                blocks: wanted,
            },
        };
        let list = meta.in_flight(self.writer);
        let tail = Some(list.tail).filter(|_| !list.is_empty());
        let has_room = match tail {
            Some(tail) => read(pages, tail, self.id, PageKind::Owner, |page| {
                owner::has_room(page, tail)
            })?,
            None => false,
        };
        let mut others: Vec<(Block, PageUse)> = vec![];
        if let Source::Dropped { page, .. } = source {
            others.push((page, PageUse::Change));
        }
        others.extend(tail.map(|tail| (tail, PageUse::Change)));
        if !has_room {
            pages.extend(extent.first);
            others.push((extent.first, PageUse::New));
        }
        let (id, writer) = (self.id, self.writer);
        let reserved = Meta::change(pages, &others, |meta, others| {
            let mut others = others.iter_mut();
            match source {
                Source::HighWater { first } if meta.high_water != first => return Ok(None),
                Source::HighWater { first } => meta.high_water = raised(first, extent.blocks)?,
                Source::Page { page, next } => take_head(meta, page, next)?,
                Source::Dropped { page, .. } => {
                    if let Some(dropped) = others.next() {
                        owner::take(dropped, page, extent)?;
                    }
                }
            }
            let last = tail.and_then(|tail| Some((tail, others.next()?)));
            let new = others.next();
            let listed = match (last, new) {
                (Some((tail, last)), None) => {
                    owner::push(last, tail, extent)?;
                    extent
                }
                (last, Some(new)) => {
                    init(new, id, PageKind::Owner);
                    let rest = Extent {
                        first: extent.first + 1,
                        blocks: extent.blocks - 1,
                    };
                    if rest.blocks > 0 {
                        owner::push(new, extent.first, rest)?;
                    }
                    match last {
                        Some((_, last)) => set_next(last, extent.first),
                        None => meta.in_flight_mut(writer).head = extent.first,
                    }
                    meta.in_flight_mut(writer).tail = extent.first;
                    rest
                }
                (None, None) => return Ok(None),
            };
            let list = meta.in_flight_mut(writer);
            list.id = id;
            list.blocks = list.blocks.saturating_add(extent.blocks);
            Ok(Some(listed))
        })?;
        // Without a result, an insert has raised the high-water mark meanwhile.
        if let Some(listed) = reserved {
            (self.first, self.end) = (listed.first, listed.first + listed.blocks);
            self.reservations += 1;
        }
        Ok(())
    }

    /// Makes the segment part of the index, in place of `replaced` and, if `from_spill`, of the
    /// spilled list. Without `written` there is nothing to take their place.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn publish(
        self,
        written: Option<WrittenSegment>,
        replaced: &[SegmentEntry],
        from_spill: bool,
    ) -> Result<(), IndexError> {
        let pages = self.pages;
        exclusively(pages, BLOCKS, || {
            self.publish_at(&|| pages.now(), written, replaced, from_spill)
        })
    }

    /// Makes the segment part of an index that no other session sees, in place of `replaced`.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn publish_unseen(
        self,
        written: Option<WrittenSegment>,
        replaced: &[SegmentEntry],
    ) -> Result<(), IndexError> {
        self.publish_at(&|| 0, written, replaced, false)
    }

    fn publish_at(
        self,
        stamp: &dyn Fn() -> u64,
        written: Option<WrittenSegment>,
        replaced: &[SegmentEntry],
        from_spill: bool,
    ) -> Result<(), IndexError> {
        let pages = self.pages;
        let meta = Meta::read(pages)?;
        let spilled = Some(&meta.spilled).filter(|list| from_spill && !list.is_empty());
        let chains = replaced.iter().map(|entry| (entry.owner, entry.owner_tail));
        let chains = chains.chain(spilled.map(|list| (list.head, list.tail)));
        let dropped = link(pages, chains)?;
        make_room(pages, 2)?;
        let unused = Extent {
            first: self.first,
            blocks: self.end - self.first,
        };
        let writer = self.writer;
        let tail = (meta.in_flight(writer).tail, PageUse::Change);
        let is_trimmed = written.is_some() && unused.blocks > 0;
        let others = if is_trimmed { &[tail][..] } else { &[] };
        let published = Meta::change(pages, others, |meta, others| {
            for entry in replaced {
                let place = meta.segment(entry.id)?;
                meta.segments.remove(place);
            }
            if from_spill {
                meta.spilled = PageList::default();
            }
            if let Some((head, tail)) = dropped {
                // The stamp must not be older than the last reader of the old meta page. Nobody
                // reads it now.
                let stamp = stamp();
                meta.drop_chain(DroppedChain { stamp, head, tail })?;
            }
            if let Some(tail) = others.first_mut() {
                give_back(meta, writer, tail, unused)?;
            }
            let in_flight = std::mem::take(meta.in_flight_mut(writer));
            match written {
                Some(written) => add_segment(meta, self.id, written, in_flight)?,
                None if in_flight.is_empty() => {}
                None => meta.drop_chain(unread(in_flight))?,
            }
            Ok(Some(()))
        })?;
        published.ok_or_else(|| IndexError::corrupted(0, "the segment cannot be published"))
    }
}

fn add_segment(
    meta: &mut Meta,
    id: u64,
    written: WrittenSegment,
    in_flight: PageList,
) -> Result<(), IndexError> {
    if in_flight.is_empty() || in_flight.id != id {
        return Err(IndexError::corrupted(
            0,
            "the blocks in flight belong to another segment",
        ));
    }
    if meta.segments.len() >= MAX_SEGMENTS {
        return Err(IndexError::corrupted(
            0,
            "the meta page has no room for a segment",
        ));
    }
    meta.segments.push(SegmentEntry {
        id,
        header: written.header,
        owner: in_flight.head,
        owner_tail: in_flight.tail,
        documents: written.documents,
        dead: 0,
        total_length: written.total_length,
        pages: in_flight.blocks,
        positions: written.positions,
    });
    Ok(())
}

/// Gives back what was reserved and not used: the high-water mark returns, if no insert has raised
/// it since. Otherwise the blocks become spare. If there are too many spare blocks, the segment
/// keeps the rest.
fn give_back(
    meta: &mut Meta,
    writer: Writer,
    owner_page: &mut Page,
    unused: Extent,
) -> Result<(), IndexError> {
    let end = unused.first + unused.blocks;
    let returned = if meta.high_water == end {
        meta.high_water = unused.first;
        unused
    } else {
        let room = (MAX_SPARE - meta.spare.len().min(MAX_SPARE)) as u32;
        let blocks = unused.blocks.min(room);
        meta.spare.extend((end - blocks..end).rev());
        Extent {
            first: end - blocks,
            blocks,
        }
    };
    let list = meta.in_flight_mut(writer);
    list.blocks = list.blocks.saturating_sub(returned.blocks);
    if returned.blocks > 0 {
        owner::cut(owner_page, list.tail, returned)?;
    }
    Ok(())
}

/// Drops what a session left in flight. No reader has seen these blocks.
///
/// # Errors
/// A page is corrupted.
pub fn reclaim(pages: &impl ReusePages, writer: Writer) -> Result<(), IndexError> {
    if Meta::read(pages)?.in_flight(writer).is_empty() {
        return Ok(());
    }
    exclusively(pages, BLOCKS, || {
        make_room(pages, 1)?;
        Meta::update(pages, |meta| {
            let in_flight = std::mem::take(meta.in_flight_mut(writer));
            meta.drop_chain(unread(in_flight))
        })
    })
}

/// Returns the chain of a list that no reader has seen.
fn unread(list: PageList) -> DroppedChain {
    DroppedChain {
        stamp: 0,
        head: list.head,
        tail: list.tail,
    }
}

/// Moves blocks that may be used again to the spare ones. Inserts take them without a lock.
///
/// # Errors
/// A page is corrupted.
pub fn provide_spare(pages: &impl ReusePages) -> Result<(), IndexError> {
    let mut horizon = Horizon::default();
    while exclusively(pages, BLOCKS, || provide_some(pages, &mut horizon))? {
        pages.check_interrupts();
    }
    Ok(())
}

/// Moves one extent to the spare blocks. Returns false if there are enough of them, or if no
/// dropped block may be used again.
fn provide_some(pages: &impl ReusePages, horizon: &mut Horizon) -> Result<bool, IndexError> {
    let meta = Meta::read(pages)?;
    let room = SPARE_WANTED.saturating_sub(meta.spare.len()) as u32;
    if room == 0 {
        return Ok(false);
    }
    // Inserts take spare blocks meanwhile, but nobody adds any. So there is room.
    match horizon.source(pages, &meta)? {
        Source::HighWater { .. } => return Ok(false),
        Source::Page { page, next } => Meta::update(pages, |meta| {
            meta.spare.push(page);
            take_head(meta, page, next)
        })?,
        Source::Dropped { page, extent } => {
            let taken = Extent {
                first: extent.first,
                blocks: extent.blocks.min(room),
            };
            Meta::change(pages, &[(page, PageUse::Change)], |meta, others| {
                if let Some(dropped) = others.first_mut() {
                    owner::take(dropped, page, taken)?;
                }
                let end = taken.first + taken.blocks;
                meta.spare.extend((taken.first..end).rev());
                Ok(Some(()))
            })?;
        }
    }
    Ok(true)
}

/// Returns a block for a new pending page. It exists, but is not reserved: the change of the meta
/// page that uses it must call [`claim`].
pub fn candidate(pages: &impl ReusePages, meta: &Meta) -> Block {
    let block = meta.spare.last().copied().unwrap_or(meta.high_water);
    pages.extend(block);
    block
}

/// Takes a block that [`candidate`] returned. Returns false if another session has it.
///
/// # Errors
/// The file has as many blocks as possible.
pub fn claim(meta: &mut Meta, block: Block) -> Result<bool, IndexError> {
    if meta.spare.last() == Some(&block) {
        meta.spare.pop();
        return Ok(true);
    }
    let is_new = meta.spare.is_empty() && meta.high_water == block;
    if is_new {
        meta.high_water = raised(block, 1)?;
    }
    Ok(is_new)
}

fn raised(high_water: Block, blocks: u32) -> Result<Block, IndexError> {
    let raised = high_water.checked_add(blocks);
    raised.ok_or_else(|| IndexError::corrupted(0, "the index has too many blocks"))
}

/// Removes the first page of a dropped chain from it.
fn take_head(meta: &mut Meta, page: Block, next: Block) -> Result<(), IndexError> {
    let place = meta.dropped.iter().position(|chain| chain.head == page);
    let place = place.ok_or_else(|| IndexError::corrupted(page, "dropped page has disappeared"))?;
    let chain = &mut meta.dropped[place];
    if chain.tail == page {
        meta.dropped.remove(place);
    } else if (1..meta.high_water).contains(&next) {
        chain.head = next;
    } else {
        return Err(IndexError::corrupted(
            page,
            "invalid next page of a dropped chain",
        ));
    }
    Ok(())
}

/// Links chains to one, and returns its first and last page. A chain ends at its tail, so the links
/// have no meaning until the meta page has the long chain.
fn link(
    pages: &impl ReusePages,
    chains: impl Iterator<Item = (Block, Block)>,
) -> Result<Option<(Block, Block)>, IndexError> {
    let mut linked: Option<(Block, Block)> = None;
    for (head, tail) in chains {
        linked = Some(match linked {
            None => (head, tail),
            Some((first, last)) => {
                lead_to(pages, last, head)?;
                (first, tail)
            }
        });
    }
    Ok(linked)
}

fn lead_to(pages: &impl ReusePages, tail: Block, head: Block) -> Result<(), IndexError> {
    change(pages, tail, |page| {
        owner::is_owner(page, tail)?;
        set_next(page, head);
        Ok(Some(()))
    })?;
    Ok(())
}

/// Makes room for dropped chains in the meta page, by linking the latest.
fn make_room(pages: &impl ReusePages, chains: usize) -> Result<(), IndexError> {
    loop {
        let meta = Meta::read(pages)?;
        let [.., a, b] = meta.dropped[..] else {
            return Ok(());
        };
        if meta.dropped.len() + chains <= MAX_DROPPED {
            return Ok(());
        }
        lead_to(pages, a.tail, b.head)?;
        Meta::update(pages, |meta| {
            meta.dropped.truncate(meta.dropped.len().saturating_sub(2));
            meta.dropped.push(DroppedChain {
                stamp: a.stamp.max(b.stamp),
                head: a.head,
                tail: b.tail,
            });
            Ok(())
        })?;
    }
}

#[cfg(test)]
#[path = "allocate_tests.rs"]
mod tests;
