//! An index that was made empty learns its centroid from the first vectors.
#![allow(clippy::unwrap_used, clippy::type_complexity)] // all is test

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{Data, Fixture, Random, limits, tid};
use rag_ann::{
    code::Metric,
    hnsw::{self, Index, Inserter, Scan},
};
use rag_pages::Tid;

const DIMENSIONS: usize = 64;

/// Vectors with a common direction, as embeddings have it: the cosine of two of them is some .95.
fn alike(count: usize, seed: u64) -> Data {
    let mut data = Data::clustered(count, DIMENSIONS, seed);
    data.elements.iter_mut().for_each(|x| *x += 6.0);
    data
}

/// Inserts all rows from `first` as the server does, but learns only if `vector_of` is given.
fn insert(
    fixture: &mut Fixture,
    data: &Data,
    vector_of: Option<&dyn Fn(&Data, Tid) -> Option<Vec<f32>>>,
) {
    let first = fixture.data.len();
    fixture.data.extend(data);
    let mut inserter = Inserter::default();
    let mut random = Random(first as u64);
    for i in first..fixture.data.len() {
        let level = hnsw::random_level(fixture.index.description().m, random.uniform());
        let vector = fixture.data.vector(i).to_vec();
        while !inserter
            .insert(&fixture.index, &fixture.store, &vector, tid(i), level)
            .unwrap()
        {
            fixture.index = Index::open(&fixture.store).unwrap();
        }
        fixture.present.push(true);
        if let Some(vector_of) = vector_of
            && hnsw::learning_is_due(&fixture.index, &fixture.store)
        {
            learn(fixture, vector_of);
        }
    }
}

fn learn(fixture: &mut Fixture, vector_of: &dyn Fn(&Data, Tid) -> Option<Vec<f32>>) {
    let data = &fixture.data;
    let mut fill = |tid, vector: &mut Vec<f32>| {
        let found = vector_of(data, tid);
        found.is_some_and(|found| {
            *vector = found;
            true
        })
    };
    hnsw::learn(&fixture.index, &fixture.store, &mut fill).unwrap();
    fixture.index = Index::open(&fixture.store).unwrap();
}

fn all(data: &Data, tid: Tid) -> Option<Vec<f32>> {
    Some(data.vector(tid.block as usize).to_vec())
}

/// Nodes that 50 searches visit, and how far off their estimated distances are on average.
fn work(fixture: &Fixture) -> (u64, f64) {
    let (mut visited, mut error, mut count) = (0, 0.0, 0);
    for i in 0..50 {
        let query = fixture.data.vector(i * 37);
        let mut scan = Scan::default();
        scan.begin(&fixture.index, &fixture.store, query, limits(40, false, 0))
            .unwrap();
        visited += scan.visited();
        while let Some(estimate) = scan.next(&fixture.index, &fixture.store).unwrap() {
            let exact = rag_ann::distance::cosine_distance(
                query,
                fixture.data.vector(scan.tids()[0].block as usize),
            );
            error += (f64::from(estimate) - exact).abs();
            count += 1;
        }
    }
    (visited, error / f64::from(count))
}

#[test]
fn centroid_is_learned_while_rows_are_inserted() {
    let data = alike(4000, 1);
    let mut plain = Fixture::empty(Metric::Cosine, DIMENSIONS, 8);
    insert(&mut plain, &data, None);
    let mut learned = Fixture::empty(Metric::Cosine, DIMENSIONS, 8);
    insert(&mut learned, &data, Some(&all));
    let built = Fixture::built(Metric::Cosine, data, 8);

    let is_centred =
        |fixture: &Fixture| hnsw::info(&fixture.index, &fixture.store).unwrap().centred;
    assert_eq!(
        [&plain, &learned, &built].map(is_centred),
        [false, true, true]
    );
    learned.assert_sound();
    let [without, with, best] =
        [&plain, &learned, &built].map(|fixture| (fixture.recall(60, 10), work(fixture)));
    println!("recall, (visits, error): {without:?} without, {with:?} learned, {best:?} built");
    assert!(with.0 > 0.97 && with.0 >= without.0, "recall");
    assert!(
        with.1.1 < best.1.1 * 1.5 && with.1.1 < without.1.1 / 2.0,
        "errors of the estimates"
    );
}

#[test]
fn rows_that_cannot_be_seen_keep_what_their_codes_say() {
    let data = alike(3000, 2);
    let mut fixture = Fixture::empty(Metric::Cosine, DIMENSIONS, 8);
    insert(
        &mut fixture,
        &data,
        Some(&|data, tid| {
            if tid.block % 2 == 0 {
                all(data, tid)
            } else {
                None
            }
        }),
    );
    fixture.assert_sound();
    assert!(fixture.recall(60, 10) > 0.97);
}

#[test]
fn equal_vectors_and_dead_ones_are_no_obstacle() {
    let mut data = alike(900, 3);
    let few = data.slice(0..40);
    let mut fixture = Fixture::empty(Metric::L2, DIMENSIONS, 8);
    for _ in 0..20 {
        data.extend(&few);
    }
    insert(&mut fixture, &data.slice(0..800), Some(&all));
    fixture.remove(|i| i % 7 == 0);
    insert(&mut fixture, &data.slice(800..data.len()), Some(&all));
    insert(&mut fixture, &alike(600, 4), Some(&all));
    assert!(hnsw::info(&fixture.index, &fixture.store).unwrap().centred);
    fixture.assert_sound();
    let found = fixture.scan(fixture.data.vector(3), 40, true, 100_000);
    assert_eq!(
        found.len(),
        fixture.present.iter().filter(|present| **present).count()
    );
}

#[test]
fn what_was_begun_is_ended_by_the_next_insert() {
    let data = alike(1500, 5);
    let mut asked = 0;
    // while the mean is being taken, and while nodes are encoded again: each asks for every vector
    for stop in [0.01, 0.5, 1.1, 1.9] {
        let mut fixture = Fixture::empty(Metric::Cosine, DIMENSIONS, 8);
        let before = Index::open(&fixture.store).unwrap();
        for (i, row) in (0..data.len()).map(|i| (i, data.slice(i..i + 1))) {
            insert(&mut fixture, &row, None);
            if hnsw::learning_is_due(&fixture.index, &fixture.store) {
                asked = i;
                break;
            }
        }
        let stop = (stop * asked as f64) as usize;
        let mut calls = 0;
        let interrupted = catch_unwind(AssertUnwindSafe(|| {
            hnsw::learn(&fixture.index, &fixture.store, &mut |tid, vector| {
                calls += 1;
                assert!(calls < stop, "enough");
                *vector = all(&fixture.data, tid).unwrap();
                true
            })
        }));
        assert!(interrupted.is_err());
        // the server gives back the lock of a transaction that ends
        fixture.store = fixture.store.copy();
        fixture.index = Index::open(&fixture.store).unwrap();

        // every row is found, and where codes are mixed, without an estimate of its distance
        for ef in [1, 40] {
            let found = fixture.scan(fixture.data.vector(3), ef, true, 100_000);
            assert_eq!(found.len(), fixture.data.len());
            assert!(
                !fixture.index.is_mixed()
                    || found
                        .iter()
                        .all(|(distance, _)| *distance == f32::NEG_INFINITY)
            );
        }
        assert_eq!(
            fixture.index.is_mixed(),
            stop > asked + 1,
            "{stop} of {asked}"
        );

        if fixture.index.is_mixed() {
            let next = data.vector(asked + 1);
            let inserted = Inserter::default()
                .insert(&before, &fixture.store, next, tid(asked + 1), 0)
                .unwrap();
            assert!(!inserted, "by one who opened the index before");
        }
        learn(&mut fixture, &all);
        assert!(
            !fixture.index.is_mixed()
                && hnsw::info(&fixture.index, &fixture.store).unwrap().centred
        );
        let rest = data.slice(asked + 1..data.len());
        insert(&mut fixture, &rest, Some(&all));
        fixture.assert_sound_links();
        assert!(fixture.recall(40, 10) > 0.97);
    }
}
