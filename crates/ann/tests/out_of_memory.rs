//! Whichever allocation is refused, of those that grow with the data: it is an error. The only test
//! of its process, as it has an allocator that refuses.
#![allow(unsafe_code)]

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use rag_ann::{
    code::Metric,
    graph::{BuildError, Graph, Parameters},
    hnsw::{self, Index, IndexParameters, Inserter, Scan},
};
use rag_pages::{IndexError, MemoryPages, Tid, memory::may_be_refused};
use support::{Data, limits};

struct Refusing;

/// How many allocations that may be refused are granted before one is not.
static GRANTED: AtomicUsize = AtomicUsize::new(usize::MAX);

fn is_refused() -> bool {
    may_be_refused() && GRANTED.fetch_sub(1, Ordering::Relaxed) == 0
}

// SAFETY: all is left to the system's allocator, or refused.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has it.
        if is_refused() {
            std::ptr::null_mut()
        } else {
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller has it.
        if is_refused() {
            std::ptr::null_mut()
        } else {
            unsafe { System.realloc(pointer, layout, size) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Does something again and again, each time with one more allocation granted, until it succeeds;
/// returns how often it failed. `is_memory` tells whether it failed for want of memory.
fn until_done<E: std::fmt::Debug>(
    what: impl Fn() -> Result<(), E>,
    is_memory: impl Fn(&E) -> bool,
) -> usize {
    const MOST: usize = 10_000;
    for granted in 0..MOST {
        GRANTED.store(granted, Ordering::Relaxed);
        let result = what();
        GRANTED.store(usize::MAX, Ordering::Relaxed);
        match result {
            Ok(()) => return granted,
            Err(error) => assert!(is_memory(&error), "after {granted}: {error:?}"),
        }
    }
    panic!("it never succeeds")
}

#[test]
fn memory_that_is_refused_is_an_error() {
    const ROWS: usize = 1500;
    let mut data = Data::clustered(ROWS, 4, 1);
    // rows of equal vectors
    for i in ROWS / 2..ROWS {
        let same = data.vector(i % 300).to_vec();
        data.set(i, &same);
    }
    let description = IndexParameters {
        metric: Metric::L2,
        m: 4,
        ef_construction: 10,
        seed: 1,
    };
    let quantizer = hnsw::quantizer(&description, 4, vec![]);
    let tids: Vec<Tid> = (0..ROWS).map(support::tid).collect();
    let parameters = Parameters {
        m: 4,
        ef_construction: 10,
        seed: 1,
    };
    let mut failures = BTreeMap::new();

    let build = |store: &MemoryPages| {
        let mut graph = Graph::new(&quantizer, parameters, ROWS);
        graph.encode(&data.elements, 2)?;
        graph.build(2, |_| true)?;
        hnsw::place(
            store,
            &description,
            &quantizer,
            &graph,
            &tids,
            2,
            &mut || true,
        )
    };
    let of_threads = |failure: &BuildError| *failure == BuildError::OutOfMemory;
    failures.insert(
        "build",
        until_done(|| build(&MemoryPages::default()), of_threads),
    );

    let store = MemoryPages::default();
    build(&store).unwrap();
    let index = Index::open(&store).unwrap();
    let of_pages = IndexError::is_out_of_memory;
    let all = |max_keys| {
        let mut scan = Scan::default();
        scan.begin(&index, &store, data.vector(7), limits(20, true, max_keys))?;
        let mut found = 0;
        while scan.next(&index, &store)?.is_some() {
            found += scan.tids().len();
        }
        assert_eq!(found, ROWS);
        Ok(())
    };
    failures.insert("scan", until_done(|| all(100_000), of_pages));
    let check = || {
        hnsw::check(&index, &store, &mut |_| (), &mut |problem| {
            panic!("{problem:?}")
        })
    };
    failures.insert("check", until_done(check, |_| true));
    let remove = || hnsw::remove(&index, &store, &store, &mut |tid| tid.block % 3 == 0).map(|_| ());
    failures.insert("remove", until_done(remove, of_pages));
    failures.insert(
        "repair",
        until_done(
            || hnsw::repair(&index, &store, &store, 0.15).map(|_| ()),
            of_pages,
        ),
    );
    let insert = || {
        Inserter::default()
            .insert(&index, &store, data.vector(0), support::tid(ROWS), 0)
            .map(|_| ())
    };
    failures.insert("insert", until_done(insert, of_pages));

    check().unwrap();
    println!("{failures:?}");
    assert!(
        failures["build"] > 30 && failures.values().all(|count| *count > 0),
        "{failures:?}"
    );
}
