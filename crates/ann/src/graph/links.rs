//! Lists of links that threads read while other threads change them.
//!
//! A list is an array of atomic words: a header and room for ids. All ids below the count are nodes
//! of the list's level at any time, so a reader takes no lock. While a list is being rewritten, a
//! reader may see a link twice or miss one, which a search tolerates. A writer takes the list's
//! lock, which is a bit of the header.
//!
//! | header bits | |
//! |---|---|
//! | 0..=11 | count |
//! | 12..=23 | number of ids, from the first, that are *settled*: diverse from each other |
//! | 31 | the lock |

use std::sync::atomic::{AtomicU32, Ordering};

use rag_pages::prefetch;

use super::Node;
use crate::memory::{self, OutOfMemory};

const COUNT_BITS: u32 = 12;
const COUNT: u32 = (1 << COUNT_BITS) - 1;
const LOCK: u32 = 1 << 31;

/// The places of each node's lists in their arrays.
#[derive(Default)]
pub(super) struct ListShape {
    m: usize,
    /// For each node, the number of upper lists of all nodes before it.
    upper: Vec<u32>,
}

impl ListShape {
    pub fn new(m: usize, levels: &[u8]) -> Result<Self, OutOfMemory> {
        let mut lists = 0;
        let upper = levels.iter().map(|level| {
            let before = lists;
            lists += u32::from(*level);
            before
        });
        Ok(Self {
            m,
            upper: memory::collect(upper)?,
        })
    }

    /// Bytes of a node's lists and of its place here, at most and on average.
    pub fn node_bytes(m: usize) -> usize {
        // A node has 1/m + 1/m² + ... = 1/(m - 1) upper lists.
        let upper = (4 * Self::upper_stride(m)).div_ceil(m - 1);
        4 + 4 * Self::base_stride(m) + upper
    }

    /// Maximum number of links that a list of level 0 has at the end.
    pub fn base_limit(&self) -> usize {
        2 * self.m
    }

    pub fn upper_limit(&self) -> usize {
        self.m
    }

    fn base_stride(m: usize) -> usize {
        1 + 3 * m
    }

    fn upper_stride(m: usize) -> usize {
        1 + m
    }

    fn base(&self, node: Node) -> usize {
        node as usize * Self::base_stride(self.m)
    }

    /// Returns the place of a node's list of level 0 without the slack.
    pub fn final_base(&self, node: Node) -> usize {
        node as usize * (1 + self.base_limit())
    }

    /// Returns the place of a node's list of a level above 0.
    pub fn upper(&self, node: Node, level: usize) -> usize {
        (self.upper[node as usize] as usize + level - 1) * Self::upper_stride(self.m)
    }
}

/// The lists of all nodes while the graph is built.
pub(super) struct Lists<'a> {
    shape: &'a ListShape,
    base: Vec<AtomicU32>,
    upper: Vec<AtomicU32>,
}

impl<'a> Lists<'a> {
    /// Returns empty lists.
    pub fn new(shape: &'a ListShape, levels: &[u8]) -> Result<Self, OutOfMemory> {
        let words = |count: usize| memory::collect((0..count).map(|_| AtomicU32::new(0)));
        let upper_lists: usize = levels.iter().map(|level| *level as usize).sum();
        Ok(Self {
            shape,
            base: words(levels.len() * ListShape::base_stride(shape.m))?,
            upper: words(upper_lists * ListShape::upper_stride(shape.m))?,
        })
    }

    /// Returns a node's list of a level that it is on.
    #[inline]
    pub fn of(&self, node: Node, level: usize) -> List<'_> {
        let words = match level {
            0 => &self.base[self.shape.base(node)..][..ListShape::base_stride(self.shape.m)],
            _ => {
                &self.upper[self.shape.upper(node, level)..]
                    [..ListShape::upper_stride(self.shape.m)]
            }
        };
        List { words }
    }

    /// Returns the plain words of base and upper lists. The lists of the base are moved together to
    /// their final length. The headers have counts only.
    pub fn finish(self) -> (Vec<u32>, Vec<u32>) {
        // The arrays stay at their place, and the end of the base is released.
        let plain = |words: Vec<AtomicU32>| {
            words
                .into_iter()
                .map(AtomicU32::into_inner)
                .collect::<Vec<u32>>()
        };
        let (mut base, mut upper) = (plain(self.base), plain(self.upper));
        let (from, to) = (
            ListShape::base_stride(self.shape.m),
            1 + self.shape.base_limit(),
        );
        let nodes = base.len() / from;
        for node in 0..nodes {
            base.copy_within(node * from..node * from + to, node * to);
            base[node * to] &= COUNT;
        }
        base.truncate(nodes * to);
        base.shrink_to_fit();
        for header in upper
            .iter_mut()
            .step_by(ListShape::upper_stride(self.shape.m))
        {
            *header &= COUNT;
        }
        (base, upper)
    }
}

/// A list of links.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    words: &'a [AtomicU32],
}

impl<'a> List<'a> {
    /// Returns the links.
    #[inline]
    pub fn ids(self) -> impl Iterator<Item = Node> + 'a {
        // Ordered after everything that was written before the header.
        let count = self.words[0].load(Ordering::Acquire) & COUNT;
        self.words[1..=count as usize]
            .iter()
            .map(|id| id.load(Ordering::Relaxed))
    }

    /// Prefetches the list.
    #[inline]
    pub fn prefetch(self) {
        prefetch(self.words.as_ptr().cast(), size_of_val(self.words));
    }

    /// Waits until no other thread changes the list.
    pub fn lock(self) -> LockedList<'a> {
        const SPINS: u32 = 100;
        let header = &self.words[0];
        let mut spins = 0;
        loop {
            let old = header.load(Ordering::Relaxed);
            if old & LOCK == 0
                && header
                    .compare_exchange_weak(old, old | LOCK, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return LockedList {
                    list: self,
                    header: old,
                };
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
    }
}

/// The chosen links of a node.
#[derive(Default)]
pub(super) struct ChosenLinks {
    pub links: Vec<Node>,
    /// Number of links, from the first, that are diverse.
    pub settled: usize,
}

/// A list that only this thread may change.
pub(super) struct LockedList<'a> {
    list: List<'a>,
    /// The header without the lock.
    header: u32,
}

impl LockedList<'_> {
    pub fn count(&self) -> usize {
        (self.header & COUNT) as usize
    }

    /// Returns the number of settled links.
    pub fn settled(&self) -> usize {
        (self.header >> COUNT_BITS & COUNT) as usize
    }

    pub fn is_full(&self) -> bool {
        self.count() + 1 == self.list.words.len()
    }

    pub fn get(&self, place: usize) -> Node {
        self.list.words[1 + place].load(Ordering::Relaxed)
    }

    /// Changes one link.
    pub fn set(&mut self, place: usize, id: Node) {
        self.list.words[1 + place].store(id, Ordering::Relaxed);
        let settled = self.settled().min(place);
        self.header = self.header & COUNT | (settled as u32) << COUNT_BITS;
    }

    /// Adds a link at the end. There must be room.
    pub fn push(&mut self, id: Node) {
        self.list.words[1 + self.count()].store(id, Ordering::Relaxed);
        self.header += 1;
    }

    /// Replaces all links.
    pub fn replace(&mut self, choice: &ChosenLinks) {
        let words = &self.list.words[1..];
        for (word, id) in words.iter().zip(&choice.links) {
            word.store(*id, Ordering::Relaxed);
        }
        let count = choice.links.len().min(words.len());
        self.header = count as u32 | (choice.settled.min(count) as u32) << COUNT_BITS;
    }
}

impl Drop for LockedList<'_> {
    fn drop(&mut self) {
        self.list.words[0].store(self.header, Ordering::Release);
    }
}
