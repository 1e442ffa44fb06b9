//! The index on pages, over a store in memory.

mod removal;

use crate::support;
use std::collections::HashSet;

use crate::support::{Data, Fixture, METRICS, limits, tid, use_damaged};
use proptest::prelude::*;
use rag_ann::{
    code::Metric,
    hnsw::{self, Index, Inserter, Scan},
};
use rag_pages::{MemoryPages, PAGE_BYTES, ReadPages, WritePages};

#[test]
fn built_index_finds_what_exact_search_finds() {
    for metric in METRICS {
        for dimensions in [1, 3, 100, 384] {
            let fixture = Fixture::built(metric, Data::clustered(2000, dimensions, 1), 16);
            fixture.assert_sound();
            let recall = fixture.recall(100, 10);
            assert!(
                recall >= 0.95,
                "{metric:?}, {dimensions} dimensions: recall {recall}"
            );
        }
    }
}

#[test]
fn index_filled_by_inserts_finds_what_exact_search_finds() {
    for metric in METRICS {
        for dimensions in [3, 128] {
            let mut fixture = Fixture::empty(metric, dimensions, 16);
            fixture.insert_all(&Data::clustered(1500, dimensions, 2));
            fixture.assert_sound();
            let recall = fixture.recall(100, 10);
            assert!(
                recall >= 0.93,
                "{metric:?}, {dimensions} dimensions: recall {recall}"
            );
        }
    }
}

#[test]
fn scan_that_goes_on_returns_every_row_once() {
    let fixture = Fixture::built(Metric::Cosine, Data::clustered(3000, 32, 3), 8);
    for max_keys in [100_000, 1024] {
        let found = fixture.scan(fixture.data.vector(7), 10, true, max_keys);
        assert_eq!(found.len(), 3000);
        assert_eq!(
            found
                .iter()
                .map(|(_, tid)| *tid)
                .collect::<HashSet<_>>()
                .len(),
            3000
        );
    }
}

#[test]
fn scan_that_does_not_go_on_returns_the_first_candidates() {
    let fixture = Fixture::built(Metric::L2, Data::clustered(3000, 32, 3), 8);
    let found = fixture.scan(fixture.data.vector(7), 25, false, 100_000);
    assert_eq!(found.len(), 25);
    assert_eq!(found[0].1, tid(7));
}

#[test]
fn scan_stops_going_on_at_its_limit() {
    let fixture = Fixture::built(Metric::L2, Data::clustered(5000, 32, 3), 8);
    let mut scan = Scan::default();
    let limits = hnsw::ScanLimits {
        max_tuples: 400,
        ..limits(10, true, 100_000)
    };
    scan.begin(
        &fixture.index,
        &fixture.store,
        fixture.data.vector(0),
        limits,
    )
    .unwrap();
    let mut found = HashSet::new();
    while scan.next(&fixture.index, &fixture.store).unwrap().is_some() {
        found.extend(scan.tids().iter().copied());
    }
    assert!((400..500).contains(&scan.visited()), "{}", scan.visited());
    // whatever was visited on the base level is returned; above it, some are visited again
    assert!(
        found.len() as u64 > scan.visited() * 3 / 4,
        "{} of {}",
        found.len(),
        scan.visited()
    );
}

#[test]
fn nothing_is_found_in_an_empty_index() {
    let store = MemoryPages::new();
    let description = support::description(Metric::Cosine, 16);
    hnsw::create(&store, &description);
    let index = Index::open(&store).unwrap();
    assert_eq!(index.dimensions(), None);
    let mut scan = Scan::default();
    scan.begin(&index, &store, &[1.0, 2.0], limits(10, true, 1000))
        .unwrap();
    assert_eq!(scan.next(&index, &store).unwrap(), None);
    let index = Index::set_dimensions(&store, 2).unwrap();
    assert_eq!(index.dimensions(), Some(2));
    assert_eq!(
        Index::set_dimensions(&store, 3).unwrap().dimensions(),
        Some(2)
    );
    scan.begin(&index, &store, &[1.0, 2.0], limits(10, true, 1000))
        .unwrap();
    assert_eq!(scan.next(&index, &store).unwrap(), None);
}

#[test]
fn equal_vectors_share_a_node() {
    // built and inserted, with different ones among them
    for built in [0, 600, 1200] {
        let mut data = Data::clustered(1200, 16, 4);
        for i in 0..1000 {
            data.set(i, &[0.5; 16]);
        }
        let mut fixture = match built {
            0 => Fixture::empty(Metric::L2, 16, 16),
            _ => Fixture::built(Metric::L2, data.slice(0..built), 16),
        };
        fixture.insert_all(&data.slice(built..1200));
        fixture.assert_sound();
        let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
        assert_eq!(info.vectors, 1200);
        assert!(info.nodes <= 203, "{} nodes", info.nodes);
        let found = fixture.scan(&[0.5; 16], 10, true, 100_000);
        assert_eq!(found.len(), 1200);
        assert!(found[..1000].iter().all(|(_, row)| row.block < 1000));
    }
}

#[test]
fn rows_of_one_vector_are_read_as_they_are_asked_for() {
    let mut data = Data::clustered(10_100, 16, 4);
    for i in 0..10_000 {
        data.set(i, &[0.5; 16]);
    }
    let fixture = Fixture::built(Metric::L2, data, 16);
    let mut scan = Scan::default();
    let before = fixture.store.reads();
    scan.begin(
        &fixture.index,
        &fixture.store,
        &[0.5; 16],
        limits(10, true, 100_000),
    )
    .unwrap();
    scan.next(&fixture.index, &fixture.store).unwrap().unwrap();
    let first = fixture.store.reads() - before;
    assert!(first < 300, "{first} pages are read for the first row");
    // twice as many each time, none of them twice
    let mut found: HashSet<_> = scan.tids().iter().copied().collect();
    let mut rest = scan.rest().unwrap();
    let mut portions = 1;
    while scan
        .read_rest(&fixture.index, &fixture.store, &mut rest, false)
        .unwrap()
    {
        portions += 1;
        assert!(scan.tids().iter().all(|tid| found.insert(*tid)));
    }
    found.extend(scan.tids().iter().copied());
    assert_eq!((found.len(), portions), (10_000, 10));
    // or all that is left
    let mut scan = Scan::default();
    scan.begin(
        &fixture.index,
        &fixture.store,
        &[0.5; 16],
        limits(10, true, 100_000),
    )
    .unwrap();
    scan.next(&fixture.index, &fixture.store).unwrap().unwrap();
    let first = scan.tids().len();
    let mut rest = scan.rest().unwrap();
    assert!(
        !scan
            .read_rest(&fixture.index, &fixture.store, &mut rest, true)
            .unwrap()
    );
    assert_eq!(first + scan.tids().len(), 10_000);
}

#[test]
fn rest_of_a_vector_is_what_the_index_has_when_it_is_read() {
    let mut data = Data::clustered(300, 16, 4);
    for i in 0..200 {
        data.set(i, &[0.5; 16]);
    }
    let mut fixture = Fixture::built(Metric::L2, data, 16);
    let mut scan = Scan::default();
    scan.begin(
        &fixture.index,
        &fixture.store,
        &[0.5; 16],
        limits(10, true, 100_000),
    )
    .unwrap();
    scan.next(&fixture.index, &fixture.store).unwrap().unwrap();
    let mut found: HashSet<_> = scan.tids().iter().copied().collect();
    let mut rest = scan.rest().unwrap();
    // rows of before and after are removed, and others of the same vector come
    fixture.remove(|i| i % 2 == 0 && i < 200);
    let more = Data {
        dimensions: 16,
        elements: [0.5; 16].repeat(50),
    };
    fixture.insert_all(&more);
    while scan
        .read_rest(&fixture.index, &fixture.store, &mut rest, false)
        .unwrap()
    {
        assert!(scan.tids().iter().all(|tid| found.insert(*tid)));
    }
    assert!(scan.tids().iter().all(|tid| found.insert(*tid)));
    for i in (0..350).filter(|i| fixture.present[*i] && !(200..300).contains(i)) {
        assert!(found.contains(&tid(i)), "row {i}");
    }
    // or none is left
    let mut scan = Scan::default();
    scan.begin(
        &fixture.index,
        &fixture.store,
        &[0.5; 16],
        limits(10, true, 100_000),
    )
    .unwrap();
    scan.next(&fixture.index, &fixture.store).unwrap().unwrap();
    let mut rest = scan.rest().unwrap();
    fixture.remove(|_| true);
    assert!(
        !scan
            .read_rest(&fixture.index, &fixture.store, &mut rest, true)
            .unwrap()
    );
    assert_eq!(scan.tids(), []);
}

#[test]
fn searches_begin_well_after_the_upper_levels_have_changed() {
    let mut fixture = Fixture::built(Metric::L2, Data::clustered(3000, 16, 5), 8);
    // as many searches as make a copy of an upper level
    let recall = fixture.recall(50, 10);
    assert!(recall >= 0.95, "recall {recall}");
    // all that the copy leads to is freed, and filled with others
    fixture.remove(|_| true);
    hnsw::repair(&fixture.index, &fixture.store, &fixture.store, 0.0).unwrap();
    fixture.insert_all(&Data::clustered(2500, 16, 6));
    let recall = fixture.recall(50, 10);
    assert!(recall >= 0.93, "recall {recall}");
}

#[test]
fn largest_and_smallest_vectors_fit() {
    for (dimensions, m, code_dimensions) in [
        (1, 2, 128),
        (2000, 100, 2048),
        (16_000, 16, 15_872),
        (16_000, 100, 14_592),
    ] {
        let mut fixture = Fixture::built(Metric::Cosine, Data::clustered(60, dimensions, 8), m);
        fixture.insert_all(&Data::clustered(60, dimensions, 9).slice(30..60));
        fixture.assert_sound();
        let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
        assert_eq!(
            info.code_dimensions, code_dimensions,
            "{dimensions} dimensions, m = {m}"
        );
        let recall = fixture.recall(20, 5);
        assert!(
            dimensions == 1 || recall >= 0.9,
            "{dimensions} dimensions: recall {recall}"
        );
    }
}

#[test]
fn threads_insert_scan_and_remove_at_once() {
    let data = Data::clustered(4000, 32, 10);
    let fixture = Fixture::built(Metric::Cosine, data.slice(0..1000), 8);
    let (index, store) = (&fixture.index, &fixture.store);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let data = &data;
            scope.spawn(move || {
                let mut inserter = Inserter::default();
                for i in 1000 + thread * 1000..2000 + thread * 1000 {
                    let level = hnsw::random_level(8, ((i * 7919) % 1000) as f64 / 1000.0);
                    inserter
                        .insert(index, store, data.vector(i), tid(i), level)
                        .unwrap();
                }
            });
        }
        scope.spawn(|| {
            for round in 0..4 {
                // rows that no one inserts meanwhile
                hnsw::remove(index, store, store, &mut |row| {
                    row.block < 1000 && row.block % 4 == round
                })
                .unwrap();
                hnsw::repair(index, store, store, 0.0).unwrap();
            }
        });
        scope.spawn(|| {
            let mut scan = Scan::default();
            for i in 0..400 {
                scan.begin(index, store, data.vector(i), limits(20, true, 100_000))
                    .unwrap();
                for _ in 0..30 {
                    scan.next(index, store).unwrap();
                }
            }
        });
    });
    fixture.assert_sound_links();
    let found = fixture.scan(data.vector(1500), 10, true, 100_000);
    let rows: HashSet<u32> = found.iter().map(|(_, row)| row.block).collect();
    assert_eq!((found.len(), rows), (3000, (1000..4000).collect()));
}

#[test]
fn damaged_pages_are_reported_and_never_panic() {
    let original = Fixture::built(Metric::L2, Data::clustered(400, 8, 11), 4);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        ..ProptestConfig::default()
    });
    let blocks = original.store.block_count();
    let damage = proptest::collection::vec((0..blocks, 24..PAGE_BYTES, any::<u8>()), 1..40);
    runner
        .run(&damage, |damage| {
            let store = original.store.copy();
            for &(block, at, byte) in &damage {
                store.damage(block, |page| page.0[at] = byte);
            }
            use_damaged(&store, &original.data);
            Ok(())
        })
        .unwrap();
}

#[test]
fn page_that_a_crash_left_empty_is_no_harm() {
    let mut fixture = Fixture::built(Metric::L2, Data::clustered(500, 8, 14), 4);
    fixture.store.append(|_, _| ());
    fixture.assert_sound();
    fixture.remove(|i| i < 250);
    fixture.repair();
    fixture.insert_again(|i| i < 250);
    fixture.insert_all(&Data::clustered(300, 8, 15));
    fixture.assert_sound();
    assert_eq!(fixture.scan(&[0.5; 8], 10, true, 100_000).len(), 800);
}

#[test]
fn pages_of_noise_are_reported() {
    let original = Fixture::built(Metric::Cosine, Data::clustered(300, 8, 12), 4);
    for block in 0..original.store.block_count() {
        for fill in [0, 1, 0x55, 0xff] {
            let store = original.store.copy();
            store.damage(block, |page| page.0[24..].fill(fill));
            let index = Index::open(&store);
            if block == 0 {
                assert!(index.is_err());
                continue;
            }
            use_damaged(&store, &original.data);
            if let Ok(index) = index {
                let mut problems = 0;
                hnsw::check(&index, &store, &mut |_| (), &mut |_| problems += 1).unwrap();
                assert!(problems > 0, "block {block} filled with {fill}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// After any sequence of steps the index is sound and has exactly the rows that are there.
    #[test]
    fn rows_are_those_that_were_inserted_and_not_removed(
        steps in proptest::collection::vec((0u8..10, 0usize..100), 1..120),
        built in 0usize..60,
        m in 2u16..6,
    ) {
        let data = Data::clustered(200, 5, 13);
        let mut fixture = if built > 0 {
            Fixture::built(Metric::L2, data.slice(0..built), m)
        } else {
            Fixture::empty(Metric::L2, 5, m)
        };
        let mut inserter = Inserter::default();
        let mut present: HashSet<usize> = (0..built).collect();
        let mut next = 1000;
        for (step, which) in steps {
            match step {
                // vectors repeat, rows do not
                0..=6 => {
                    // a repair that found nothing left has forgotten the dimensions
                    let mut insert = |index: &Index| {
                        let (vector, level) = (data.vector(which), which % 4);
                        inserter.insert(index, &fixture.store, vector, tid(next), level).unwrap()
                    };
                    while fixture.index.dimensions().is_none() || !insert(&fixture.index) {
                        fixture.index = Index::set_dimensions(&fixture.store, 5).unwrap();
                    }
                    present.insert(next);
                    next += 1;
                }
                7 => {
                    let dead = present.iter().copied().filter(|row| row % 3 == which % 3);
                    let dead: HashSet<usize> = dead.collect();
                    present.retain(|row| !dead.contains(row));
                    let (index, store) = (&fixture.index, &fixture.store);
                    let mut is_dead = |row: rag_pages::Tid| dead.contains(&(row.block as usize));
                    hnsw::remove(index, store, store, &mut is_dead).unwrap();
                }
                8 => {
                    fixture.repair();
                }
                _ => fixture.index = Index::open(&fixture.store).unwrap(),
            }
        }
        fixture.assert_sound_links();
        let found = fixture.scan(data.vector(0), 5, true, 100_000);
        let rows: Vec<usize> = found.iter().map(|(_, row)| row.block as usize).collect();
        prop_assert_eq!(rows.len(), present.len());
        prop_assert_eq!(rows.into_iter().collect::<HashSet<_>>(), present);
    }
}
