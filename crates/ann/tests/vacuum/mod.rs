//! Vacuum over a store in memory: what it costs in pages, what it leaves, and what happens where it
//! is stopped. Work is judged by pages that are touched, never by time.
#![allow(clippy::unwrap_used)] // all is test

mod beside;
mod regions;
mod rounds;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::support::{Data, Fixture, Random, limits, tid};
use crate::watched::{Watched, unless_stopped};
use rag_ann::{
    code::Metric,
    hnsw::{self, Index, Inserter, Scan},
};
use rag_pages::{MemoryPages, ReadPages, Tid};

/// Share of tombstones from which on the server lets all be repaired.
const MANY: f64 = 0.15;

/// Another version of a row.
fn version(i: usize, version: u16) -> Tid {
    Tid {
        block: i as u32,
        offset: version,
    }
}

fn problems(fixture: &Fixture) -> Vec<String> {
    let mut problems = vec![];
    hnsw::check(
        &fixture.index,
        &fixture.store,
        &mut |_| (),
        &mut |problem| problems.push(problem.problem),
    )
    .unwrap();
    problems
}

/// What VACUUM does.
fn vacuum(fixture: &Fixture, mut is_dead: impl FnMut(Tid) -> bool) {
    hnsw::remove(&fixture.index, &fixture.store, &fixture.store, &mut is_dead).unwrap();
    hnsw::repair(&fixture.index, &fixture.store, &fixture.store, MANY).unwrap();
}

fn insert(fixture: &Fixture, vector: &[f32], tid: Tid, level: usize) {
    assert!(
        Inserter::default()
            .insert(&fixture.index, &fixture.store, vector, tid, level)
            .unwrap()
    );
}

/// Inserts another version of each row, as an UPDATE does that is not HOT.
fn update_all(fixture: &Fixture, number: u16) {
    let mut inserter = Inserter::default();
    for i in 0..fixture.data.len() {
        let vector = fixture.data.vector(i);
        inserter
            .insert(
                &fixture.index,
                &fixture.store,
                vector,
                version(i, number),
                0,
            )
            .unwrap();
    }
}

/// Pages that searches for the nearest ten of some vectors read.
fn pages_of_queries<'a>(fixture: &Fixture, queries: impl Iterator<Item = &'a [f32]>) -> u64 {
    let before = fixture.store.reads();
    for query in queries {
        // opened again: a copy of the upper levels would spare reads that other queries paid for
        let index = Index::open(&fixture.store).unwrap();
        let mut scan = Scan::default();
        scan.begin(&index, &fixture.store, query, limits(40, true, 100_000))
            .unwrap();
        let mut rows = 0;
        while rows < 10 && scan.next(&index, &fixture.store).unwrap().is_some() {
            rows += scan.tids().len();
        }
        assert!(rows >= 10);
    }
    fixture.store.reads() - before
}

#[test]
fn node_with_one_row_left_has_no_chain() {
    let data = Data::clustered(500, 16, 1);
    let fixture = Fixture::built(Metric::L2, data.slice(0..500), 16);
    let vector = data.vector(7).to_vec();
    let pages_of_one = |fixture: &Fixture| {
        let index = Index::open(&fixture.store).unwrap();
        let before = fixture.store.reads();
        let mut scan = Scan::default();
        scan.begin(&index, &fixture.store, &vector, limits(40, false, 0))
            .unwrap();
        assert!(scan.next(&index, &fixture.store).unwrap().is_some());
        assert_eq!(scan.tids(), [tid(7)]);
        fixture.store.reads() - before
    };
    let before = pages_of_one(&fixture);
    let mut pages = vec![];
    for _ in 0..10 {
        for i in 0..600 {
            insert(&fixture, &vector, version(1000 + i, 1), 0);
        }
        vacuum(&fixture, |row| row.block >= 1000);
        assert_eq!(problems(&fixture), [""; 0]);
        pages.push(fixture.store.block_count());
        assert_eq!(pages_of_one(&fixture), before);
    }
    assert_eq!(pages[1], pages[9], "pages after each round: {pages:?}");
    let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
    assert_eq!((info.vectors, info.nodes), (500, 500));
}

#[test]
fn chains_are_written_anew_where_most_of_them_is_empty() {
    for dimensions in [1, 384] {
        let fixture = Fixture::empty(Metric::L2, dimensions, 4);
        for i in 0..1000 {
            insert(&fixture, &vec![0.5; dimensions], version(i, 1), 0);
        }
        let mut left = 1000;
        for keep in [900, 400, 100, 40, 12, 11, 3, 2, 1] {
            vacuum(&fixture, |row| row.block >= keep);
            assert_eq!(problems(&fixture), [""; 0]);
            left = left.min(keep);
            let found = fixture.scan(&vec![0.5; dimensions], 10, true, 1000);
            let rows: HashSet<u32> = found.iter().map(|(_, row)| row.block).collect();
            assert_eq!((found.len(), rows), (left as usize, (0..left).collect()));
            // new rows come to what is left
            insert(&fixture, &vec![0.5; dimensions], version(5000, 1), 0);
            assert_eq!(
                fixture.scan(&vec![0.5; dimensions], 10, true, 1000).len(),
                left as usize + 1
            );
        }
        vacuum(&fixture, |_| true);
        assert_eq!(fixture.scan(&vec![0.5; dimensions], 10, true, 1000), []);
        let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
        assert_eq!((info.vectors, info.nodes, info.tombstones), (0, 0, 0));
    }
}

#[test]
fn updates_of_all_rows_leave_an_index_like_a_new_one() {
    for (dimensions, m) in [(16, 8), (64, 16), (384, 16)] {
        let data = Data::clustered(1500, dimensions, 2);
        let fixture = Fixture::built(Metric::L2, data.clone(), m);
        let size = fixture.store.block_count();
        let reads = pages_of_queries(&fixture, (0..50).map(|i| data.vector(i * 30)));
        update_all(&fixture, 2);
        vacuum(&fixture, |row| row.offset == 1);
        update_all(&fixture, 3);
        update_all(&fixture, 4);
        vacuum(&fixture, |row| row.offset < 4);
        assert_eq!(problems(&fixture), [""; 0]);
        let now = pages_of_queries(&fixture, (0..50).map(|i| data.vector(i * 30)));
        assert_eq!(now, reads, "{dimensions} dimensions");
        let grown = f64::from(fixture.store.block_count()) / f64::from(size);
        assert!(
            grown <= 1.2,
            "{dimensions} dimensions, m = {m}: {grown} times as large"
        );
    }
}

#[test]
fn work_of_vacuum_is_never_long_between_two_looks_at_interrupts() {
    let mut data = Data::clustered(3000, 8, 3);
    for i in 0..1000 {
        data.set(i, &[0.25; 8]);
    }
    let fixture = Fixture::built(Metric::L2, data, 8);
    update_all(&fixture, 2);
    let store = Watched::new(&fixture.store);
    let mut is_dead = |row: Tid| row.offset == 1 || row.block.is_multiple_of(3);
    hnsw::remove(&fixture.index, &store, &store, &mut is_dead).unwrap();
    let longest = store.longest.replace(0);
    assert!(
        longest < 2000,
        "{longest} pages touched in one go while rows were removed"
    );
    hnsw::repair(&fixture.index, &store, &store, MANY).unwrap();
    // a beam of 200 candidates and the codes of all that it finds
    assert!(
        store.longest.get() < 2000,
        "{} pages touched in one go by the repair",
        store.longest.get()
    );
}

#[test]
fn cancelled_vacuum_loses_nothing() {
    let data = Data::clustered(600, 8, 4);
    let original = Fixture::built(Metric::L2, data, 4);
    update_all(&original, 2);
    let is_dead = |row: Tid| !row.block.is_multiple_of(10) || row.offset == 1;
    // all looks at interrupts of a vacuum that is not cancelled
    let watched = original.store.copy();
    let counted = Watched::new(&watched);
    hnsw::remove(&original.index, &counted, &counted, &mut { is_dead }).unwrap();
    hnsw::repair(&original.index, &counted, &counted, 0.0).unwrap();
    let looks = counted.interrupts.get();
    for at in (1..=looks).step_by((looks / 150).max(1) as usize) {
        let stopped = original.store.copy();
        let store = Watched::new(&stopped);
        store.cancelled_at.set(at);
        let end = unless_stopped(|| {
            hnsw::remove(&original.index, &store, &store, &mut { is_dead }).unwrap();
            hnsw::repair(&original.index, &store, &store, 0.0).unwrap();
        });
        assert!(end.is_none());
        // locks are given back by the server
        let store = stopped.copy();
        let lost = lost_links(&original.index, &store);
        assert_eq!(lost, 0, "cancelled at look {at} of {looks}");
        finish(&original.index, &store, is_dead);
    }
}

#[test]
fn links_that_a_crash_loses_are_reported_and_found_again() {
    let data = Data::clustered(300, 8, 5);
    let original = Fixture::built(Metric::L2, data, 4);
    update_all(&original, 2);
    for i in 0..40 {
        insert(&original, original.data.vector(3), version(1000 + i, 1), 0);
    }
    let is_dead = |row: Tid| !row.block.is_multiple_of(2) && row.block != 3 && row.block < 1020;
    let counted = original.store.copy();
    let counted = Watched::new(&counted);
    hnsw::remove(&original.index, &counted, &counted, &mut { is_dead }).unwrap();
    hnsw::repair(&original.index, &counted, &counted, 0.0).unwrap();
    let mut losses = 0;
    for at in 1..=counted.writes.get() {
        let stopped = original.store.copy();
        let store = Watched::new(&stopped);
        store.crashes_at.set(at);
        let end = unless_stopped(|| {
            hnsw::remove(&original.index, &store, &store, &mut { is_dead }).unwrap();
            hnsw::repair(&original.index, &store, &store, 0.0).unwrap();
        });
        assert!(end.is_none());
        let store = stopped.copy();
        losses += usize::from(lost_links(&original.index, &store) > 0);
        finish(&original.index, &store, is_dead);
    }
    assert!(losses > 0);
    // an insert leaves one, too: the first takes the third place of a cell, the second writes
    // another cell
    let stopped = original.store.copy();
    let store = Watched::new(&stopped);
    store.crashes_at.set(2);
    let vector = original.data.vector(10);
    for row in 0..3 {
        let _ = unless_stopped(|| {
            Inserter::default()
                .insert(&original.index, &store, vector, version(2000 + row, 1), 0)
                .unwrap()
        });
    }
    assert_eq!(lost_links(&original.index, &stopped), 1);
    finish(&original.index, &stopped.copy(), is_dead);
}

fn lost_links(index: &Index, store: &MemoryPages) -> usize {
    let mut lost = 0;
    hnsw::check(index, store, &mut |_| (), &mut |problem| {
        lost += usize::from(problem.problem.contains("no node leads to it"));
        assert!(
            problem.problem.contains("leads to it") || problem.problem.contains("reached"),
            "{problem:?}"
        );
    })
    .unwrap();
    lost
}

/// Runs a vacuum to its end, after which nothing is lost and nothing is left to do.
fn finish(index: &Index, store: &MemoryPages, is_dead: impl Fn(Tid) -> bool) {
    hnsw::remove(index, store, store, &mut |row| is_dead(row)).unwrap();
    hnsw::repair(index, store, store, 0.0).unwrap();
    let mut rows = 0;
    let mut problems = vec![];
    hnsw::check(
        index,
        store,
        &mut |row| rows += usize::from(!is_dead(row)),
        &mut |problem| problems.push(problem),
    )
    .unwrap();
    problems.retain(|problem| !problem.problem.contains("reached"));
    assert_eq!(problems, []);
    let info = hnsw::info(index, store).unwrap();
    assert_eq!((info.vectors as usize, info.tombstones), (rows, 0));
    assert!(!hnsw::counts(store).unwrap().repair_due);
}

#[test]
fn dimensions_are_forgotten_with_the_last_row() {
    let mut fixture = Fixture::empty(Metric::L2, 3, 4);
    for i in 0..200 {
        insert(&fixture, &[i as f32, 1.0, 0.5], version(i, 1), i % 3);
    }
    vacuum(&fixture, |row| row.block > 0);
    assert_eq!(Index::open(&fixture.store).unwrap().dimensions(), Some(3));
    vacuum(&fixture, |_| true);
    assert_eq!(Index::open(&fixture.store).unwrap().dimensions(), None);
    // who has opened it before sees that
    let inserted = Inserter::default().insert(&fixture.index, &fixture.store, &[1.0; 3], tid(1), 0);
    assert_eq!(inserted, Ok(false));
    let pages = fixture.store.block_count();
    fixture.index = Index::set_dimensions(&fixture.store, 7).unwrap();
    for i in 0..100 {
        insert(&fixture, &[i as f32; 7], version(i, 1), i % 3);
    }
    assert_eq!(problems(&fixture), [""; 0]);
    assert_eq!(fixture.scan(&[3.0; 7], 10, true, 1000).len(), 100);
    assert!(
        fixture.store.block_count() <= pages + 2,
        "the pages serve again"
    );
}

#[test]
fn dimensions_of_a_build_stay() {
    let fixture = Fixture::built(Metric::L2, Data::clustered(100, 8, 11), 4);
    vacuum(&fixture, |_| true);
    assert_eq!(Index::open(&fixture.store).unwrap().dimensions(), Some(8));
}

#[test]
fn scans_see_each_row_once_while_chains_are_written_anew() {
    let fixture = Fixture::empty(Metric::L2, 4, 4);
    let vectors = [[0.0_f32; 4], [1.0; 4], [2.0; 4]];
    // one row stays with the first vector, two with the second, forty with the third
    let stay = [1, 2, 40];
    for (v, vector) in vectors.iter().enumerate() {
        for i in 0..stay[v] {
            insert(&fixture, vector, version(100 * v + i, 1), 0);
        }
    }
    let (index, store) = (&fixture.index, &fixture.store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut inserter = Inserter::default();
            for round in 0..150 {
                for i in 0..60 {
                    let vector = &vectors[i % 3];
                    inserter
                        .insert(index, store, vector, version(1000 + i, 1), 0)
                        .unwrap();
                }
                let mut is_dead = |row: Tid| row.block >= 1000;
                hnsw::remove(index, store, store, &mut is_dead).unwrap();
                if round % 5 == 0 {
                    hnsw::repair(index, store, store, MANY).unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        for thread in 0..2 {
            let done = &done;
            scope.spawn(move || {
                let mut scan = Scan::default();
                while !done.load(Ordering::Acquire) {
                    let v = thread + 1;
                    scan.begin(index, store, &vectors[v], limits(10, true, 10_000))
                        .unwrap();
                    assert!(scan.next(index, store).unwrap().is_some());
                    let mut tids = scan.tids().to_vec();
                    let mut rest = scan.rest();
                    while let Some(mut others) = rest.take() {
                        let more = scan.read_rest(index, store, &mut others, false).unwrap();
                        tids.extend(scan.tids());
                        rest = more.then_some(others);
                    }
                    let mut rows: Vec<u32> =
                        tids.iter().map(|t| t.block).filter(|b| *b < 1000).collect();
                    rows.sort_unstable();
                    let first = 100 * v as u32;
                    assert_eq!(rows, (first..first + stay[v] as u32).collect::<Vec<u32>>());
                }
            });
        }
    });
    assert_eq!(problems(&fixture), [""; 0]);
    let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
    assert_eq!((info.vectors, info.nodes), (43, 3));
}
