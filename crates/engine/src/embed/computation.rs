//! What computes the graph of a model, and how texts are given to it.
//!
//! All threads work on a text that comes alone, so that a search is answered soon. Each of several
//! texts is computed by one thread, on a copy of the graph: threads that work on one text wait for
//! each other after every operator. Copies take memory, and are opened when several texts come for
//! the first time. Until then all threads work on one text after the other.

use std::{
    panic::resume_unwind,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ort::session::Session;

use super::graph::Graph;

type LockedGraph = Mutex<Box<dyn Graph>>;

/// Returns true if no more work is to be begun after so many items.
pub type Stop<'a> = &'a (dyn Fn(usize) -> bool + Sync);

/// Never stops.
pub const UNTIL_DONE: Stop<'static> = &|_| false;

/// A graph, loaded by one of the runtimes.
#[derive(Debug)]
pub struct Computation {
    graph: LockedGraph,
    /// Graphs of one thread each.
    copies: OnceLock<Vec<LockedGraph>>,
    /// Maximum number of texts in one run of the graph.
    pub batch: usize,
    /// Texts of a run have one of few lengths.
    rounds_length: bool,
    /// The name of the runtime.
    pub runtime: &'static str,
}

impl Computation {
    pub fn by_onnxruntime(session: Session, batch: usize) -> Self {
        Self {
            graph: Mutex::new(Box::new(session)),
            copies: OnceLock::new(),
            batch,
            rounds_length: false,
            runtime: "onnxruntime",
        }
    }

    /// Several texts at once are hardly faster, and each is the same alone. OpenVINO compiles the
    /// graph for each length.
    pub fn by_openvino(graph: Box<dyn Graph>) -> Self {
        Self {
            graph: Mutex::new(graph),
            copies: OnceLock::new(),
            batch: 1,
            rounds_length: true,
            runtime: "openvino",
        }
    }

    /// Uses copies from now on, unless there are some already.
    pub fn use_copies(&self, copies: Vec<Session>) {
        let copies = copies.into_iter();
        let copies = copies.map(|copy| Mutex::new(Box::new(copy) as _)).collect();
        drop(self.copies.set(copies));
    }

    fn copies(&self) -> &[LockedGraph] {
        self.copies.get().map_or(&[], Vec::as_slice)
    }

    /// Calls `f` with the graph that all threads compute.
    pub fn alone<R>(&self, f: impl FnOnce(&mut dyn Graph) -> R) -> R {
        f(&mut **lock(&self.graph))
    }

    /// Calls `f` with items and a graph to run, until `stop` returns true for the number of items
    /// that were taken. At least one is. Returns the results of the first items, in order.
    pub fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        stop: Stop<'_>,
        f: impl Fn(&mut dyn Graph, &T) -> R + Sync,
    ) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let work = &|graph: &LockedGraph| {
            let mut graph = lock(graph);
            let mut done = vec![];
            loop {
                let taken = next.load(Ordering::Relaxed);
                if taken > 0 && stop(taken) {
                    return done;
                }
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else {
                    return done;
                };
                done.push((at, f(&mut **graph, item)));
            }
        };
        let (own, others) = match self.copies().split_first() {
            Some((own, others)) if items.len() > 1 => (own, others),
            _ => (&self.graph, &[][..]),
        };
        let mut done = thread::scope(|scope| {
            // if no thread can be started, this one does all of the work
            let start = |copy| {
                let thread = thread::Builder::new().name("inference".into());
                thread.spawn_scoped(scope, move || work(copy)).ok()
            };
            let others = others.iter().take(items.len().saturating_sub(1));
            let others: Vec<_> = others.filter_map(start).collect();
            let mut done = work(own);
            for other in others {
                done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            done
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns the number of tokens that texts are padded to, of which the longest has `longest`.
    /// A graph has no positions beyond `limit`.
    pub fn width(&self, longest: usize, limit: usize) -> usize {
        if self.rounds_length {
            rounded(longest).min(limit.max(longest))
        } else {
            longest
        }
    }
}

fn lock(graph: &LockedGraph) -> MutexGuard<'_, Box<dyn Graph>> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a number of tokens that is at most a sixteenth of the next power of two above another.
/// Up to 8,192 tokens there are 56 such numbers.
fn rounded(tokens: usize) -> usize {
    tokens.next_multiple_of((tokens.next_power_of_two() / 16).max(16))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::embed::graph::{GraphInputs, GraphValues};

    /// A graph that is never run.
    #[derive(Debug)]
    struct Idle;

    impl Graph for Idle {
        fn run(
            &mut self,
            _inputs: GraphInputs,
            _shape: [usize; 2],
            _output: &str,
        ) -> Result<GraphValues, String> {
            Err("it is idle".into())
        }
    }

    #[test]
    fn the_first_items_are_done_in_order() {
        let items: Vec<usize> = (0..100).collect();
        for copies in [0, 2, 5] {
            let mut computation = Computation::by_openvino(Box::new(Idle));
            let graphs = (0..copies).map(|_| Mutex::new(Box::new(Idle) as _));
            computation.copies = OnceLock::from(graphs.collect::<Vec<LockedGraph>>());
            let each = |items: &[usize], stop: Stop<'_>| {
                computation.each(items, stop, |_, item| {
                    thread::yield_now();
                    *item
                })
            };
            assert_eq!(each(&items, UNTIL_DONE), items, "{copies}");
            assert_eq!(each(&items[..1], &|_| true), [0], "{copies}");
            assert_eq!(each(&[], UNTIL_DONE), [0; 0], "{copies}");
            let some = each(&items, &|taken| taken >= 10);
            assert_eq!(some, items[..some.len()], "{copies}");
            assert!(
                (10..10 + copies.max(1)).contains(&some.len()),
                "{some:?}, {copies}"
            );
        }
    }

    #[test]
    fn lengths_are_rounded_to_few() {
        let all: BTreeSet<usize> = (1..=8192).map(rounded).collect();
        assert_eq!(
            (all.len(), all.first(), all.last()),
            (56, Some(&16), Some(&8192))
        );
        assert_eq!(
            [1, 16, 17, 250, 257, 600].map(rounded),
            [16, 16, 32, 256, 288, 640]
        );
    }
}
