//! Removes dead rows.
//!
//! A node whose rows are all dead becomes a tombstone. It is no longer an answer, but still leads
//! to others, until [`repair`](super::repair) frees it. A chain of rows is rewritten if many of its
//! links are empty.

use rag_pages::{Block, IndexLock, LockMode, Page, ReadPages, WritePages};

use super::{
    Index, IndexError, STRUCTURE, Tid,
    allocate::change,
    index::Body,
    meta::MetaPage,
    overflow,
    slots::{SlotState, Target},
    walk::{each_slot, read_slot},
};
use crate::memory::{self, push};

/// Number of links of chains that are rewritten before the structure lock is released.
const LINKS_TOGETHER: usize = 256;

/// The result of [`remove`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// Removed heap rows.
    pub removed: u64,
    /// Remaining heap rows.
    pub remaining: u64,
    pub tombstones: u64,
    /// Number of slots of the base level that have rows.
    pub nodes: u64,
}

/// Removes the heap rows for which `is_dead` returns true.
///
/// `ordered` and `store` are the same pages. `ordered` is used to read them in the order of the
/// file, `store` in any order.
///
/// # Errors
/// A page is corrupted.
pub fn remove<S: WritePages>(
    index: &Index,
    ordered: &S,
    store: &S,
    is_dead: &mut dyn FnMut(Tid) -> bool,
) -> Result<Removal, IndexError> {
    let Some(body) = index.body() else {
        return Ok(Removal::default());
    };
    let remove = Remove {
        body,
        store,
        removal: Removal::default(),
        sparse: vec![],
        links: 0,
        is_noted: false,
        is_dead,
    };
    remove.run(ordered)
}

struct Remove<'a, S> {
    body: &'a Body,
    store: &'a S,
    removal: Removal,
    /// Nodes whose chains are to be rewritten, in the order of their pages.
    sparse: Vec<u32>,
    /// Number of links of these chains.
    links: usize,
    /// True if the meta page records that a repair is due.
    is_noted: bool,
    is_dead: &'a mut dyn FnMut(Tid) -> bool,
}

/// A chain as it was read.
struct Chain {
    first: u32,
    /// Its links with their rows.
    links: Vec<(u32, Vec<Tid>)>,
}

impl<S: WritePages> Remove<'_, S> {
    fn run(mut self, ordered: &S) -> Result<Removal, IndexError> {
        for block in 1..ordered.block_count() {
            let chained = self.remove_from_page(ordered, block)?;
            for node in chained {
                self.store.check_interrupts();
                self.remove_from_chain(node)?;
                if self.links >= LINKS_TOGETHER {
                    self.shrink()?;
                }
            }
        }
        self.shrink()?;
        let removal = self.removal;
        MetaPage::update(self.store, |meta| {
            let same = meta.nodes == removal.nodes && meta.tombstones == removal.tombstones;
            (meta.nodes, meta.tombstones) = (removal.nodes, removal.tombstones);
            !same
        })?;
        Ok(removal)
    }

    /// Makes nodes of a page with a dead row tombstones. Returns the nodes that have chains.
    fn remove_from_page(&mut self, ordered: &S, block: Block) -> Result<Vec<u32>, IndexError> {
        let geometry = self.body.base();
        let mut chained: Vec<u32> = vec![];
        let mut rows: Vec<(usize, Tid)> = vec![];
        let mut tombstones = 0;
        each_slot(ordered, geometry, block, |id, slot| {
            match slot.state()? {
                SlotState::Node if slot.has_overflow() => {
                    push(&mut chained, id).map_err(IndexError::of_memory)?
                }
                SlotState::Node => rows.push((geometry.slot(id), slot.tid())),
                SlotState::Tombstone => tombstones += 1,
                SlotState::Free | SlotState::Overflow => {}
            }
            Ok(())
        })?;
        let all = rows.len() as u64;
        rows.retain(|(_, tid)| (self.is_dead)(*tid));
        self.removal.tombstones += tombstones;
        self.removal.nodes += all - rows.len() as u64;
        self.removal.remaining += all - rows.len() as u64;
        if rows.is_empty() {
            return Ok(chained);
        }
        self.note()?;
        let removed = change(ordered, geometry, block, |slots| {
            let mut removed = 0;
            for &(i, tid) in &rows {
                let slot = slots.slot(i)?;
                if slot.has_overflow() {
                    // An insert has added a row meanwhile, and this one moved into the chain.
                    push(&mut chained, geometry.id(block, i)).map_err(IndexError::of_memory)?;
                } else if slot.state()? == SlotState::Node && slot.tid() == tid {
                    slots.set_tombstone(i);
                    removed += 1;
                }
            }
            Ok((removed > 0).then_some(removed))
        })?;
        self.removal.removed += removed.unwrap_or(0);
        self.removal.tombstones += removed.unwrap_or(0);
        Ok(chained)
    }

    /// Records in the meta page that rows are being removed. If vacuum is cancelled, the next one
    /// repairs nevertheless.
    fn note(&mut self) -> Result<(), IndexError> {
        if std::mem::replace(&mut self.is_noted, true) {
            return Ok(());
        }
        MetaPage::update(self.store, |meta| {
            !std::mem::replace(&mut meta.repair_due, true)
        })
    }

    /// Returns the chain of a node, or `None` if it has none.
    fn chain(&self, store: &impl ReadPages, node: u32) -> Result<Option<Chain>, IndexError> {
        let geometry = self.body.base();
        let first = read_slot(store, geometry, geometry.block(node), node, |slot| {
            Ok((slot.state()? == SlotState::Node && slot.has_overflow()).then(|| slot.down()))
        })?;
        let Some(first) = first else { return Ok(None) };
        let mut links = vec![];
        overflow::walk(store, geometry, first, |id, rows| {
            push(&mut links, (id, memory::collect(rows)?))
        })?;
        Ok(Some(Chain { first, links }))
    }

    /// Removes dead rows of a node that has several, or remembers its chain as one to be rewritten.
    fn remove_from_chain(&mut self, node: u32) -> Result<(), IndexError> {
        let Some(chain) = self.chain(self.store, node)? else {
            return Ok(());
        };
        let mut dead: Vec<(u32, Vec<Tid>)> = vec![];
        let mut left = 0;
        let links = chain.links.len();
        for (id, mut rows) in chain.links {
            let all = rows.len();
            rows.retain(|tid| (self.is_dead)(*tid));
            left += all - rows.len();
            if !rows.is_empty() {
                push(&mut dead, (id, rows)).map_err(IndexError::of_memory)?;
            }
        }
        if overflow::is_sparse(self.body.base(), links, left) {
            push(&mut self.sparse, node).map_err(IndexError::of_memory)?;
            self.links += links.max(1);
            return Ok(());
        }
        for (id, dead) in dead {
            self.note()?;
            overflow::keep(self.body, self.store, id, |tid| !dead.contains(&tid))?;
            self.removal.removed += dead.len() as u64;
        }
        self.removal.remaining += left as u64;
        self.removal.nodes += 1;
        Ok(())
    }

    /// Rewrites the chains of `sparse` without their dead rows. A node with one row left gets no
    /// chain. A node without rows becomes a tombstone.
    ///
    /// Meanwhile no insert may know any of their links, and scans must see that the node has
    /// another first link. Interrupts are not checked: a cancelled vacuum would lose the links that
    /// are freed last. With chains of usual length this takes milliseconds.
    fn shrink(&mut self) -> Result<(), IndexError> {
        if self.sparse.is_empty() {
            return Ok(());
        }
        self.note()?;
        let store = Uninterrupted(self.store);
        store.lock(STRUCTURE, LockMode::Exclusive);
        let taken = self.take_chains(&store);
        store.unlock(STRUCTURE, LockMode::Exclusive);
        overflow::free(self.body, &store, taken?)?;
        self.sparse.clear();
        self.links = 0;
        Ok(())
    }

    /// Gives the nodes of `sparse` other chains. Returns the links that they had.
    fn take_chains(&mut self, store: &Uninterrupted<'_, S>) -> Result<Vec<u32>, IndexError> {
        let geometry = self.body.base();
        let sparse = std::mem::take(&mut self.sparse);
        let mut taken = vec![];
        for here in sparse.chunk_by(|a, b| geometry.block(*a) == geometry.block(*b)) {
            let mut targets: Vec<(usize, u32, Option<Target>)> = vec![];
            for &node in here {
                let Some(chain) = self.chain(store, node)? else {
                    continue;
                };
                let mut rows: Vec<Tid> = vec![];
                let mut all = 0;
                for (id, found) in chain.links {
                    all += found.len();
                    for tid in found.into_iter().filter(|tid| !(self.is_dead)(*tid)) {
                        push(&mut rows, tid).map_err(IndexError::of_memory)?;
                    }
                    push(&mut taken, id).map_err(IndexError::of_memory)?;
                }
                self.removal.removed += (all - rows.len()) as u64;
                self.removal.remaining += rows.len() as u64;
                let target = match rows[..] {
                    [] => None,
                    [row] => Some(Target::Row(row)),
                    _ => Some(Target::Overflow(overflow::put_chain(
                        self.body, store, &rows,
                    )?)),
                };
                match target {
                    Some(_) => self.removal.nodes += 1,
                    None => self.removal.tombstones += 1,
                }
                targets.push((geometry.slot(node), chain.first, target));
            }
            change(store, geometry, geometry.block(here[0]), |slots| {
                for &(i, first, target) in &targets {
                    let slot = slots.slot(i)?;
                    if slot.state()? != SlotState::Node
                        || !slot.has_overflow()
                        || slot.down() != first
                    {
                        let block = geometry.block(here[0]);
                        return Err(IndexError::corrupted(
                            block,
                            "a node changed while the structure was locked",
                        ));
                    }
                    slots.set_target(i, target.unwrap_or(Target::Slot(0)));
                    if target.is_none() {
                        slots.set_tombstone(i);
                    }
                }
                Ok(Some(()))
            })?;
        }
        Ok(taken)
    }
}

/// A store for a step that must not be interrupted.
pub(super) struct Uninterrupted<'a, S>(pub &'a S);

impl<S: ReadPages> ReadPages for Uninterrupted<'_, S> {
    fn block_count(&self) -> Block {
        self.0.block_count()
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.0.read(block, f)
    }
}

impl<S: WritePages> WritePages for Uninterrupted<'_, S> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        self.0.write(block, f)
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        self.0.append(f)
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.0.lock(lock, mode);
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.0.unlock(lock, mode);
    }
}
