//! What an index answers, compared with the scores of each document by itself.
#![allow(clippy::unwrap_used)] // all is test

mod conditions;
mod phrases;

use std::collections::BTreeSet;

use crate::support::{CREATION, Model, Random, random_terms, row, terms_of};
use rag_bm25::{
    Builder, Collected, Creation, GivenRows, Listing, Scan, SegmentCache, Statistics, Terms,
    create, insert, merge_all, remove, score_rows, statistics, top,
};
use rag_pages::{MemoryPages, Tid};

/// Builds an index of documents with up to `length` words.
fn built(random: &mut Random, documents: u32, length: usize, words: usize) -> (MemoryPages, Model) {
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    let mut builder = Builder::new(&pages, &CREATION, 1 << 30);
    for number in 0..documents {
        let length = 1 + random.below(length);
        let terms = random_terms(random, length, words);
        builder.add(row(number), &terms).unwrap();
        model.documents.insert(row(number), terms);
    }
    builder.finish().unwrap();
    (pages, model)
}

fn no_problem(pages: &MemoryPages) {
    let mut problems = vec![];
    rag_bm25::check(pages, &mut |_| {}, &mut |block, problem| {
        problems.push((block, problem));
    })
    .unwrap();
    assert_eq!(problems, []);
}

#[test]
fn built_indexes_answer_exactly() {
    let mut random = Random(1);
    for (documents, length, words) in [(1, 1, 1), (5, 20, 10), (300, 40, 200), (20_000, 30, 3000)] {
        let (pages, model) = built(&mut random, documents, length, words);
        no_problem(&pages);
        let cache = SegmentCache::default();
        for query_length in [1, 2, 3, 7, 12, 100] {
            let query = random_terms(&mut random, query_length, words);
            model.verify(&pages, &cache, &query);
            model.verify_statistics(&pages, &query);
        }
    }
}

/// The postings of a word that every document has take no bytes.
#[test]
fn documents_that_are_alike_are_found() {
    for (documents, words) in [(127, 1), (128, 1), (256, 2), (300, 900), (1000, 3)] {
        let words: String = (0..words).map(|word| format!("w{word} ")).collect();
        let terms = terms_of(&words);
        let mut model = Model::default();
        let (built, filled) = (MemoryPages::new(), MemoryPages::new());
        let mut builder = Builder::new(&built, &CREATION, 1 << 30);
        create(&filled, &CREATION);
        for number in 0..documents {
            builder.add(row(number), &terms).unwrap();
            insert(&filled, row(number), &terms).unwrap();
            model.documents.insert(row(number), terms.clone());
        }
        builder.finish().unwrap();
        merge_all(&filled).unwrap();
        for pages in [&built, &filled] {
            no_problem(pages);
            model.verify(pages, &SegmentCache::default(), &terms_of("w0 missing"));
        }
    }
}

#[test]
fn the_best_rows_are_the_first_of_all() {
    let mut random = Random(2);
    let (pages, _) = built(&mut random, 30_000, 60, 5000);
    let cache = SegmentCache::default();
    for _ in 0..40 {
        let length = 1 + random.below(8);
        let query = random_terms(&mut random, length, 5000);
        let all = top(&pages, &cache, &query, None, usize::MAX >> 8).unwrap();
        for k in [1, 10, 64, 1000] {
            let best = top(&pages, &cache, &query, None, k).unwrap();
            assert_eq!(best, all[..k.min(all.len())]);
        }
        let rows: Vec<Tid> = all.iter().map(|(tid, _)| *tid).step_by(37).collect();
        let scores: Vec<f64> = all.iter().map(|(_, score)| *score).step_by(37).collect();
        assert_eq!(
            score_rows(&pages, &cache, &query, None, &rows).unwrap(),
            scores
        );
        // also rows that are asked for several times
        assert_eq!(
            score_rows(&pages, &cache, &query, None, &rows.repeat(3)).unwrap(),
            scores.repeat(3)
        );
    }
}

#[test]
fn documents_that_are_written_together_are_found() {
    let mut random = Random(9);
    // fewer and more than a segment needs, and documents that are several records
    for (batches, documents, length) in [(40, 20, 30), (6, 900, 60), (2, 4000, 60), (5, 20, 2500)] {
        let (pages, mut model) = (MemoryPages::new(), Model::default());
        create(&pages, &CREATION);
        let cache = SegmentCache::default();
        let mut number = 0;
        for batch in 0..batches {
            let (mut collected, mut rolled_back) = (Collected::default(), BTreeSet::new());
            for _ in 0..documents {
                // some places are given away, and some of these to rows of the same transaction
                if random.below(9) > 0 {
                    number += 1;
                }
                let terms = random_terms(&mut random, 1 + number as usize % length, 3000);
                collected.add(row(number), &terms).unwrap();
                model.documents.insert(row(number), terms);
                if random.below(9) == 0 {
                    rolled_back.insert(row(number));
                    model.documents.remove(&row(number));
                    number += 1;
                }
            }
            collected
                .retain(|tid, _| !rolled_back.contains(&tid))
                .unwrap();
            collected.write(&pages, batch % 2 == 1).unwrap();
            number += 1;
        }
        no_problem(&pages);
        for query_length in [1, 3, 12] {
            let query = random_terms(&mut random, query_length, 3000);
            model.verify(&pages, &cache, &query);
            model.verify_statistics(&pages, &query);
        }
    }
}

#[test]
fn rows_of_a_segment_are_listed_in_their_order() {
    let mut random = Random(8);
    let (pages, mut model) = built(&mut random, 60_000, 20, 2000);
    let cache = SegmentCache::default();
    remove(&pages, &mut |tid| tid.offset % 4 == 1).unwrap();
    model.documents.retain(|tid, _| tid.offset % 4 != 1);
    for words in [
        "w0",
        "w3",
        "w0 w1 w2",
        "w1500",
        "w1900 w7",
        "w9 missing",
        "missing",
    ] {
        let query = terms_of(words);
        let statistics = statistics(&pages, &cache, &query).unwrap();
        let scorer = rag_bm25::Scorer::new(CREATION.parameters, &statistics, &query);
        let documents = model.documents.iter();
        let expected: Vec<(Tid, f64)> = documents
            .map(|(tid, terms)| (*tid, scorer.score(terms)))
            .filter(|(_, score)| *score > 0.0)
            .collect();
        let mut listing = Listing::begin(&pages, &cache, &query, None).unwrap();
        let mut listed = vec![];
        while let Some(row) = listing.next(&pages).unwrap() {
            listed.push(row);
        }
        assert_eq!(listed, expected, "{words}");
        assert_eq!(listing.next(&pages).unwrap(), None);
    }
}

#[test]
fn rows_at_places_of_deleted_ones_are_found_once() {
    let mut random = Random(9);
    let (pages, mut model) = built(&mut random, 3000, 20, 60);
    let is_deleted = |tid: Tid| tid.offset % 4 == 1;
    remove(&pages, &mut |tid| is_deleted(tid)).unwrap();
    let places: Vec<Tid> = model.documents.keys().copied().collect();
    for (number, place) in places
        .into_iter()
        .filter(|tid| is_deleted(*tid))
        .enumerate()
    {
        model.documents.remove(&place);
        if number % 3 > 0 {
            let terms = random_terms(&mut random, 20, 60);
            model.insert(&pages, place, terms);
        }
    }
    let cache = SegmentCache::default();
    for query_length in [1, 2, 5] {
        let query = random_terms(&mut random, query_length, 60);
        model.verify(&pages, &cache, &query);
    }
}

#[test]
fn given_rows_are_found_exactly() {
    let mut random = Random(6);
    for (documents, length, words) in [(1, 1, 1), (5, 20, 10), (2000, 40, 20), (40_000, 30, 3000)] {
        let (pages, mut model) = built(&mut random, documents, length, words);
        let cache = SegmentCache::default();
        for round in 0..2 {
            for query_length in [1, 2, 5, 12] {
                let query = random_terms(&mut random, query_length, words);
                for share in [0.0, 0.0005, 0.01, 0.2, 1.0] {
                    model.verify_given(&pages, &cache, &query, &mut random, share);
                }
            }
            if round == 0 {
                let kept = |tid: &Tid| tid.block % 3 != 1 && tid.offset % 5 != 2;
                model.documents.retain(|tid, _| kept(tid));
                remove(&pages, &mut |tid| !kept(&tid)).unwrap();
            }
        }
    }
}

#[test]
fn given_rows_of_an_index_without_documents_are_not_found() {
    let pages = MemoryPages::new();
    create(&pages, &CREATION);
    let cache = SegmentCache::default();
    let mut given = GivenRows::default();
    given.add_block(0).unwrap();
    given.add_rows(7, &[1, 2]).unwrap();
    let query = terms_of("a");
    for inserted in [false, true] {
        let mut scan = Scan::begin(&pages, &cache, &query, None, 1 << 20).unwrap();
        scan.restrict(&pages, &given).unwrap();
        let found = scan.next(&pages).unwrap();
        assert_eq!(found.map(|(tid, _)| tid), inserted.then_some(row(351)));
        assert_eq!(scan.next(&pages).unwrap(), None);
        for number in [349, 351, 352] {
            rag_bm25::insert(&pages, row(number), &terms_of("a")).unwrap();
        }
    }
}

#[test]
fn the_best_rows_may_be_deleted() {
    let mut random = Random(5);
    let (pages, _) = built(&mut random, 30_000, 60, 5000);
    let cache = SegmentCache::default();
    let mut deleted = BTreeSet::new();
    for _ in 0..30 {
        let length = 1 + random.below(6);
        let query = random_terms(&mut random, length, 5000);
        let all = top(&pages, &cache, &query, None, usize::MAX >> 8).unwrap();
        assert!(all.iter().all(|(tid, _)| !deleted.contains(tid)));
        let gone: BTreeSet<Tid> = all.iter().take(7).map(|(tid, _)| *tid).collect();
        remove(&pages, &mut |tid| gone.contains(&tid)).unwrap();
        for k in [1, 10, 100] {
            let best = top(&pages, &cache, &query, None, k).unwrap();
            assert_eq!(best, all[gone.len()..][..k.min(all.len() - gone.len())]);
        }
        deleted.extend(gone);
    }
}

#[test]
fn rows_that_are_deleted_during_a_search_hide_no_others() {
    // a term in one document of each window, so that the best of them are known before
    const WINDOW: u32 = 1792;
    const WINDOWS: u32 = 40;
    let pages = MemoryPages::new();
    let mut builder = Builder::new(&pages, &CREATION, 1 << 30);
    for number in 0..WINDOWS * WINDOW {
        let mut terms = Terms::new();
        terms.push_counted(b"common", 1).unwrap();
        if number % WINDOW == 0 {
            let repeated = 1 + number / WINDOW;
            terms.push_counted(b"rare", repeated).unwrap();
        }
        terms.finish();
        builder.add(row(number), &terms).unwrap();
    }
    builder.finish().unwrap();
    let cache = SegmentCache::default();
    let query = terms_of("rare");
    let all = top(&pages, &cache, &query, None, WINDOWS as usize).unwrap();
    let delete = |rows: &[(Tid, f64)]| {
        let gone: BTreeSet<Tid> = rows.iter().map(|(tid, _)| *tid).collect();
        remove(&pages, &mut |tid| gone.contains(&tid)).unwrap();
    };
    // the first makes searches read which documents are deleted
    delete(&all[..1]);
    let mut scan = Scan::begin(&pages, &cache, &query, None, 1 << 20).unwrap();
    delete(&all[1..8]);
    let mut found = vec![];
    while let Some(hit) = scan.next(&pages).unwrap() {
        found.push(hit);
    }
    assert_eq!(found, all[8..]);
}

#[test]
fn lists_of_all_lengths_are_found() {
    // terms in 1, 127, 128, 129, 256, 257 and 10,000 documents, and repeated up to 70,000 times
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    let mut builder = Builder::new(&pages, &CREATION, 1 << 30);
    for number in 0..10_000_u32 {
        let mut terms = Terms::new();
        for limit in [1_u32, 127, 128, 129, 256, 257, 10_000] {
            if number * 7 % 10_000 < limit {
                let repeated = if number % 100 == 0 {
                    70_000
                } else {
                    1 + number % 300
                };
                terms
                    .push_counted(format!("in{limit}").as_bytes(), repeated)
                    .unwrap();
            }
        }
        terms.finish();
        builder.add(row(number), &terms).unwrap();
        model.documents.insert(row(number), terms);
    }
    builder.finish().unwrap();
    no_problem(&pages);
    let cache = SegmentCache::default();
    for limit in [1_u32, 127, 128, 129, 256, 257, 10_000] {
        let query = terms_of(&format!("in{limit}"));
        model.verify(&pages, &cache, &query);
        let frequency = statistics(&pages, &cache, &query).unwrap().frequencies;
        assert_eq!(frequency, [u64::from(limit)]);
    }
    model.verify(
        &pages,
        &cache,
        &terms_of("in1 in128 in257 in10000 in10000 missing"),
    );
}

#[test]
fn inserts_deletes_spills_and_merges_keep_answers_exact() {
    let mut random = Random(3);
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    create(&pages, &CREATION);
    let cache = SegmentCache::default();
    let mut number = 0;
    for round in 0..60 {
        for _ in 0..random.below(900) {
            let length = random.below(60);
            let terms = random_terms(&mut random, length, 2000);
            model.insert(&pages, row(number), terms);
            number += 1;
        }
        if round % 7 == 3 {
            let share = 1 + random.below(5);
            let mut dead: Vec<Tid> = vec![];
            for tid in model.documents.keys() {
                if random.below(share) == 0 {
                    dead.push(*tid);
                }
            }
            for tid in &dead {
                model.documents.remove(tid);
            }
            remove(&pages, &mut |tid| dead.binary_search(&tid).is_ok()).unwrap();
            rag_bm25::cleanup(&pages).unwrap();
        }
        if round % 11 == 5 {
            pages.end_readers();
        }
        if round % 20 == 19 {
            merge_all(&pages).unwrap();
        }
        no_problem(&pages);
        let length = 1 + random.below(10);
        let query = random_terms(&mut random, length, 2000);
        model.verify(&pages, &cache, &query);
        let share = [0.0, 0.001, 0.02, 0.3, 1.0][round % 5];
        model.verify_given(&pages, &cache, &query, &mut random, share);
        if round % 20 == 19 {
            model.verify_statistics(&pages, &query);
        }
    }
    let info = rag_bm25::info(&pages).unwrap();
    assert!(info.segments <= 1, "{info:?}");
}

#[test]
fn statistics_of_partitions_add_up() {
    let mut random = Random(4);
    let parts = [
        built(&mut random, 500, 30, 100),
        built(&mut random, 70, 90, 100),
    ];
    let query = random_terms(&mut random, 5, 100);
    let mut sum = Statistics::default();
    for (pages, _) in &parts {
        sum.add(&statistics(pages, &SegmentCache::default(), &query).unwrap());
    }
    assert_eq!(sum.documents, 570);
    for (pages, model) in &parts {
        let scorer = rag_bm25::Scorer::new(CREATION.parameters, &sum, &query);
        let cache = SegmentCache::default();
        let mut scan = Scan::begin(pages, &cache, &query, Some(&sum), 1 << 20).unwrap();
        while let Some((tid, score)) = scan.next(pages).unwrap() {
            assert_eq!(score, scorer.score(&model.documents[&tid]));
        }
    }
}

#[test]
fn a_cache_of_another_index_is_not_used() {
    let mut random = Random(5);
    let cache = SegmentCache::default();
    for identity in 0..3 {
        let (pages, mut model) = (MemoryPages::new(), Model::default());
        let creation = Creation {
            identity,
            ..CREATION
        };
        let mut builder = Builder::new(&pages, &creation, 1 << 30);
        for number in 0..50 {
            let terms = random_terms(&mut random, 10, 30);
            builder.add(row(number), &terms).unwrap();
            model.documents.insert(row(number), terms);
        }
        builder.finish().unwrap();
        model.verify(&pages, &cache, &random_terms(&mut random, 4, 30));
    }
}

#[test]
fn queries_without_terms_and_indexes_without_documents_find_nothing() {
    let pages = MemoryPages::new();
    create(&pages, &CREATION);
    let cache = SegmentCache::default();
    for query in [Terms::new(), terms_of("a b")] {
        assert_eq!(top(&pages, &cache, &query, None, 10).unwrap(), []);
    }
    rag_bm25::insert(&pages, row(1), &Terms::new()).unwrap();
    no_problem(&pages);
    assert_eq!(
        statistics(&pages, &cache, &terms_of("a"))
            .unwrap()
            .documents,
        0
    );
}
