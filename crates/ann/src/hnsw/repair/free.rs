//! Freeing slots, and the chains of pages that have room.

use rag_pages::{Block, WritePages};

use super::Repair;
use crate::{
    hnsw::{
        IndexError,
        allocate::change,
        layout::{NONE, SpecialSpace},
        meta::MetaPage,
        overflow,
        slots::SlotState,
        vacuum::Uninterrupted,
        walk::each_slot,
    },
    memory::push,
};

impl<S: WritePages> Repair<'_, S> {
    /// Frees the chosen tombstones of a level. Returns the number of freed slots.
    pub(super) fn free_level(&self, level: usize) -> Result<u64, IndexError> {
        let geometry = self.body.level(level);
        let mut freed = 0;
        for &block in &self.blocks[level] {
            let mut dead: Vec<usize> = vec![];
            let mut chains: Vec<u32> = vec![];
            each_slot(self.ordered, geometry, block, |id, slot| {
                if self.dead[level].contains(id) && slot.state()? == SlotState::Tombstone {
                    dead.push(geometry.slot(id));
                    if slot.has_overflow() {
                        chains.push(slot.down()); // older versions left such chains
                    }
                }
                Ok(())
            })?;
            if dead.is_empty() {
                continue;
            }
            let mut links = vec![];
            for chain in chains {
                overflow::walk(self.store, geometry, chain, |id, _| push(&mut links, id))?;
            }
            change(self.ordered, geometry, block, |slots| {
                for &slot in &dead {
                    slots.set_free(slot);
                }
                Ok(Some(()))
            })?;
            overflow::free(self.body, &Uninterrupted(self.store), links)?;
            freed += dead.len() as u64;
        }
        Ok(freed)
    }

    /// Chains the pages that have room, among `blocks` and the pages that inserts have added since.
    pub(super) fn chain_pages(
        &self,
        blocks: &[Block],
        room: usize,
        head: impl Fn(&mut MetaPage) -> &mut u32,
    ) -> Result<(), IndexError> {
        let is_new = |block: u32| block != NONE && block >= self.pages_seen;
        let newest = Some(*head(&mut MetaPage::read(self.store)?)).filter(|block| is_new(*block));
        let mut next = newest.unwrap_or(NONE);
        let mut last = newest;
        for &block in blocks.iter().rev() {
            self.ordered.check_interrupts();
            let special = self
                .ordered
                .read(block, |page| SpecialSpace::read(page, block))?;
            if usize::from(special.used) >= room {
                continue;
            }
            if special.next != next {
                self.set_next(block, next)?;
            }
            last = last.or(Some(block));
            next = block;
        }
        let Some(last) = last else { return Ok(()) };
        let mut replaced = next;
        MetaPage::update(self.store, |meta| {
            replaced = std::mem::replace(head(meta), next);
            replaced != next
        })?;
        if is_new(replaced) && Some(replaced) != newest && replaced > last {
            // An insert has added this page since the head was read.
            self.set_next(last, replaced)?;
        }
        Ok(())
    }

    fn set_next(&self, block: Block, next: u32) -> Result<(), IndexError> {
        let mut result = Ok(());
        self.ordered
            .write(block, |page| match SpecialSpace::read(page, block) {
                Ok(special) => {
                    SpecialSpace { next, ..special }.write(page);
                    Some(())
                }
                Err(error) => {
                    result = Err(error);
                    None
                }
            });
        result
    }
}
