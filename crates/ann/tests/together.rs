//! Vectors that are inserted together, in groups.
#![allow(clippy::expect_used)] // all is test

use std::collections::HashSet;

use crate::support::{Data, Fixture, METRICS, tid};
use rag_ann::{
    code::Metric,
    hnsw::{self, Inserter, NewVector},
    near::near_order,
};

/// Inserts the vectors of some rows of a fixture together.
fn insert_together(fixture: &mut Fixture, data: &Data, group: usize) {
    let first = fixture.data.len();
    fixture.data.extend(data);
    fixture.present.resize(fixture.data.len(), true);
    let vectors: Vec<&[f32]> = (0..data.len()).map(|i| data.vector(i)).collect();
    let order = near_order(&vectors).expect("memory");
    let mut levels = crate::support::Random(5);
    let new: Vec<NewVector<'_>> = order
        .into_iter()
        .map(|i| NewVector {
            vector: vectors[i],
            tid: tid(first + i),
            level: hnsw::random_level(fixture.index.description().m, levels.uniform()),
        })
        .collect();
    let mut inserter = Inserter::default();
    for new in new.chunks(group) {
        let mut rest = new;
        while !rest.is_empty() {
            let inserted = inserter
                .insert_some(&fixture.index, &fixture.store, rest)
                .expect("a sound index");
            assert!(inserted > 0, "the index need not be opened again");
            rest = &rest[inserted..];
        }
    }
}

#[test]
fn an_index_filled_together_finds_what_exact_search_finds() {
    for metric in METRICS {
        for (dimensions, group) in [(3, 1000), (128, 1000), (48, 5), (48, 50)] {
            let mut fixture = Fixture::empty(metric, dimensions, 16);
            insert_together(&mut fixture, &Data::clustered(1500, dimensions, 2), group);
            fixture.assert_sound();
            let recall = fixture.recall(100, 10);
            assert!(
                recall >= 0.93,
                "{metric:?}, {dimensions} dimensions, {group}: recall {recall}"
            );
        }
    }
}

/// The new vectors lie where there is none yet, so that their neighbours are of their own group.
#[test]
fn a_region_that_one_statement_fills_is_found() {
    let mut fixture = Fixture::built(Metric::L2, Data::clustered(2000, 32, 1), 16);
    let mut far = Data::clustered(600, 32, 9);
    far.elements.iter_mut().for_each(|x| *x += 8.0);
    insert_together(&mut fixture, &far, 600);
    fixture.assert_sound();
    for i in (2000..2600).step_by(7) {
        let found = fixture.scan(fixture.data.vector(i), 100, false, 100_000);
        let near: HashSet<_> = found.iter().map(|(_, tid)| *tid).collect();
        assert!(near.contains(&tid(i)), "row {i}");
    }
    assert!(fixture.recall(100, 10) >= 0.95);
}

#[test]
fn rows_of_equal_vectors_share_a_node() {
    let mut fixture = Fixture::built(Metric::Cosine, Data::clustered(500, 16, 1), 16);
    let mut same = Data::clustered(1, 16, 4);
    for _ in 0..5 {
        let copy = same.clone();
        same.extend(&copy);
    }
    insert_together(&mut fixture, &same, 100);
    fixture.assert_sound();
    let info = hnsw::info(&fixture.index, &fixture.store).expect("a sound index");
    assert_eq!((info.vectors, info.nodes), (532, 501));
}

#[test]
fn groups_are_as_good_as_one_after_another() {
    let (base, more) = (Data::clustered(3000, 64, 1), Data::clustered(3000, 64, 7));
    let recall = |together: bool| {
        let mut fixture = Fixture::built(Metric::L2, base.clone(), 16);
        match together {
            true => insert_together(&mut fixture, &more, 3000),
            false => fixture.insert_all(&more),
        }
        fixture.recall(30, 10)
    };
    let (one_by_one, together) = (recall(false), recall(true));
    assert!(together > one_by_one - 0.01, "{together} and {one_by_one}");
}
