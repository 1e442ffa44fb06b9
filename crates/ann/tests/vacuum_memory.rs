//! What vacuum allocates grows with the rows, not with their square. The only test of its process,
//! since it counts all that is allocated.
#![allow(unsafe_code, clippy::unwrap_used)]

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use rag_ann::{
    code::Metric,
    hnsw::{self},
};
use rag_pages::Tid;
use support::{Data, Fixture, Random};

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

/// Counts the bytes that are asked for.
struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes that a vacuum without dead rows allocates, for an index of `pairs` vectors
/// with two rows each.
fn bytes_of_vacuum(pairs: usize) -> u64 {
    let mut random = Random(1);
    let mut elements: Vec<f32> = (0..pairs).map(|_| random.uniform() as f32).collect();
    elements.extend_from_within(..);
    let fixture = Fixture::built(
        Metric::L2,
        Data {
            dimensions: 1,
            elements,
        },
        2,
    );
    let before = ALLOCATED.load(Ordering::Relaxed);
    let removal = hnsw::remove(
        &fixture.index,
        &fixture.store,
        &fixture.store,
        &mut |_: Tid| false,
    )
    .unwrap();
    assert_eq!(removal.remaining as usize, 2 * pairs);
    ALLOCATED.load(Ordering::Relaxed) - before
}

#[test]
fn memory_of_vacuum_is_linear_in_chains() {
    let (few, many) = (bytes_of_vacuum(4000), bytes_of_vacuum(16_000));
    assert!(
        many < 6 * few,
        "{few} bytes for 4,000 chains, {many} for 16,000"
    );
}
