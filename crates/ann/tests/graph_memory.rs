//! The graph's memory is what it says. The only test of its process, since it counts all that is
//! allocated.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use rag_ann::{
    code::{Metric, Quantizer},
    graph::{Graph, Parameters},
};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller has it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // large blocks are moved by mapping their pages elsewhere, not by copying
        if size > layout.size() {
            grow(size - layout.size())
        } else {
            _ = NOW.fetch_sub(layout.size() - size, Ordering::Relaxed)
        }
        // SAFETY: as the caller has it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn node_bytes_are_the_most_that_a_node_takes() {
    const NODES: usize = 30_000;
    for m in [4, 16, 100] {
        let quantizer = Quantizer::new(Metric::L2, 4, 128, 1, vec![]);
        let vectors: Vec<f32> = (0..NODES * 4)
            .map(|i| (i * i % 1009) as f32 + (i % 23) as f32)
            .collect();
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        {
            let mut graph = Graph::new(
                &quantizer,
                Parameters {
                    m,
                    ef_construction: 10,
                    seed: 1,
                },
                NODES,
            );
            vectors
                .chunks(4 * 1000)
                .for_each(|part| graph.encode(part, 2).unwrap());
            graph.build(2, |_| true).unwrap();
            graph.page_order(20, 2, &mut || true).unwrap();
        }
        let peak = PEAK.load(Ordering::Relaxed) - before;
        let said = NODES * Graph::node_bytes(quantizer.code_bytes(), m);
        println!(
            "m {m}: {} bytes a node, said {}",
            peak / NODES,
            said / NODES
        );
        assert!(peak < said + (1 << 20), "m {m}: {peak} bytes, said {said}");
        assert!(peak * 10 > said * 8, "m {m}: {peak} bytes, said {said}");
    }
}
