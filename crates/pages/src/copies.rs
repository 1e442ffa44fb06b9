//! Copies of pages, for work that reads the same pages many times.

use std::cell::RefCell;

use crate::{
    Block, IndexLock, LockMode, PAGE_BYTES, Page, ReadPages, WritePages,
    memory::{OutOfMemory, Reserve},
    prefetch,
};

/// Room for copies of pages.
#[derive(Default)]
pub struct PageCopies {
    /// At the place of a block, the block that has a copy, and where the copy is.
    places: Vec<(Block, usize)>,
    pages: Vec<Page>,
}

/// A page that is read from the store each time: it is small work, and others change it often.
const UNCOPIED: Block = 0;
const NONE: Block = Block::MAX;
/// The copy at a place is not valid any more.
const REMOVED: Block = NONE - 1;
/// The maximum number of copies: 32 MB.
const MOST: usize = 4096;

impl PageCopies {
    /// Removes all copies, and makes room for those of a store of `blocks` pages.
    ///
    /// # Errors
    /// The allocation failed.
    fn reset(&mut self, blocks: Block) -> Result<(), OutOfMemory> {
        let places = (blocks as usize).next_power_of_two().min(MOST);
        self.places.clear();
        self.pages.clear();
        // memory that no page is copied into is not touched
        self.pages.make_exact_room(places)?;
        self.places.make_exact_room(places)?;
        self.places.resize(places, (NONE, 0));
        Ok(())
    }

    #[inline]
    fn place(&self, block: Block) -> usize {
        block as usize & (self.places.len() - 1)
    }

    #[inline]
    fn get(&self, block: Block) -> Option<&Page> {
        let (copied, at) = self.places[self.place(block)];
        (copied == block).then(|| &self.pages[at])
    }

    fn set(&mut self, block: Block, page: &[u8; PAGE_BYTES]) {
        let place = self.place(block);
        let (copied, at) = &mut self.places[place];
        if *copied == NONE {
            *at = self.pages.len();
            self.pages.push(Page(*page));
        } else {
            self.pages[*at].0 = *page;
        }
        *copied = block;
    }

    fn remove(&mut self, block: Block) {
        let place = self.place(block);
        self.places[place].0 = REMOVED;
    }
}

/// The pages of a store, of which those that were read are copied. Reading one again takes no lock.
///
/// A copy shows what the page was when it was made, or when it was last written through this. The
/// caller must hold a lock of the index as long as it uses this, so that nothing is freed which
/// copies lead to.
pub struct CopiedPages<'a, S> {
    store: &'a S,
    copies: RefCell<&'a mut PageCopies>,
}

impl<'a, S: ReadPages> CopiedPages<'a, S> {
    /// # Errors
    /// There is no memory for copies.
    pub fn new(store: &'a S, copies: &'a mut PageCopies) -> Result<Self, OutOfMemory> {
        copies.reset(store.block_count())?;
        Ok(Self {
            store,
            copies: RefCell::new(copies),
        })
    }
}

impl<S: ReadPages> ReadPages for CopiedPages<'_, S> {
    fn block_count(&self) -> Block {
        self.store.block_count()
    }

    #[inline]
    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        if block == UNCOPIED {
            return self.store.read(block, f);
        }
        let mut copies = self.copies.borrow_mut();
        if copies.get(block).is_none() {
            self.store.read(block, |page| copies.set(block, &page.0));
        }
        let (_, at) = copies.places[copies.place(block)];
        f(&copies.pages[at])
    }

    #[inline]
    fn prefetch<const N: usize>(&self, block: Block, parts: [(usize, usize); N]) {
        let copies = self.copies.borrow();
        let Some(page) = copies.get(block) else {
            return self.store.prefetch(block, parts);
        };
        let page = page.0.as_ptr();
        for (offset, bytes) in parts {
            prefetch(page.wrapping_add(offset), bytes);
        }
    }

    fn check_interrupts(&self) {
        self.store.check_interrupts();
    }

    fn is_in_recovery(&self) -> bool {
        self.store.is_in_recovery()
    }
}

impl<S: WritePages> WritePages for CopiedPages<'_, S> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        let mut copies = self.copies.borrow_mut();
        let is_copied = copies.get(block).is_some();
        let result = self.store.write(block, |page| {
            let result = f(page);
            if result.is_some() && is_copied {
                copies.set(block, &page.0);
            }
            result
        });
        if result.is_none() && is_copied {
            copies.remove(block); // the page is not what it was
        }
        result
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        self.store.append(f)
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.store.lock(lock, mode);
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.store.unlock(lock, mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADER_BYTES, MemoryPages};

    fn first(pages: &impl ReadPages, block: Block) -> u8 {
        pages.read(block, |page| page.0[HEADER_BYTES])
    }

    fn set(pages: &impl WritePages, block: Block, byte: u8) {
        pages.write(block, |page| {
            page.0[HEADER_BYTES] = byte;
            Some(())
        });
    }

    #[test]
    fn a_copy_is_what_was_read_or_written() {
        let store = MemoryPages::new();
        for _ in 0..5 {
            store.append(|block, page| page.0[HEADER_BYTES] = block as u8);
        }
        let mut room = PageCopies::default();
        let pages = CopiedPages::new(&store, &mut room).expect("memory");
        assert_eq!(first(&pages, 3), 3);
        let reads = store.reads();
        assert_eq!(first(&pages, 3), 3);
        assert_eq!(store.reads(), reads, "the copy");
        set(&pages, 3, 30);
        assert_eq!((first(&pages, 3), first(&store, 3)), (30, 30));
        set(&store, 3, 33);
        assert_eq!(first(&pages, 3), 30, "changed by another session");
        set(&pages, 3, 34);
        assert_eq!(first(&pages, 3), 34);
        let dropped = pages.write(3, |page| {
            page.0[HEADER_BYTES] = 99;
            None::<()>
        });
        assert_eq!((dropped, first(&pages, 3)), (None, 34));
        for byte in [1, 2] {
            set(&store, 0, byte);
            assert_eq!(first(&pages, 0), byte, "the first page is never a copy");
        }
    }

    #[test]
    fn a_place_serves_several_blocks() {
        let store = MemoryPages::new();
        for _ in 0..=2 * MOST {
            store.append(|block, page| page.0[HEADER_BYTES] = (block % 251) as u8);
        }
        let mut room = PageCopies::default();
        let pages = CopiedPages::new(&store, &mut room).expect("memory");
        for block in (0..=2 * MOST as Block).chain([1, 1 + MOST as Block, 1]) {
            assert_eq!(first(&pages, block), (block % 251) as u8);
        }
    }

    #[test]
    fn room_is_used_again_without_what_it_had() {
        let (one, other) = (MemoryPages::new(), MemoryPages::new());
        for byte in 0..3 {
            one.append(|_, page| page.0[HEADER_BYTES] = byte);
            other.append(|_, page| page.0[HEADER_BYTES] = 10 + byte);
        }
        let mut room = PageCopies::default();
        for (store, byte) in [(&one, 2), (&other, 12)] {
            let pages = CopiedPages::new(store, &mut room).expect("memory");
            assert_eq!(first(&pages, 2), byte);
        }
    }
}
