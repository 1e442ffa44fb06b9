//! The life of an index: inserts, spills, merges, vacuum, crashes, and other sessions.
#![allow(clippy::unwrap_used)] // all is test

mod corruption;
mod crash;
mod interleaved;
mod support;
mod threads;

use std::collections::BTreeSet;

use rag_bm25::{
    Builder, Creation, Scan, SegmentCache, cleanup, create, describe, info, insert, merge_all,
    remove,
};
use rag_pages::{MemoryPages, ReadPages};

use support::*;

#[test]
fn an_empty_index_has_nothing() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    verify(&pages, &Model::default(), "empty");
    cleanup(&pages).unwrap();
    merge_all(&pages).unwrap();
    assert_eq!(remove(&pages, &mut |_| true), Ok(Default::default()));
    let info = info(&pages).unwrap();
    assert_eq!((info.documents, info.segments, info.high_water), (0, 0, 1));
    assert_eq!(describe(&pages).unwrap().label, b"test");
    assert_eq!(pages.block_count(), 1);
}

#[test]
fn a_document_without_terms_is_not_stored() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    insert(&pages, tid(1), &terms(&[])).unwrap();
    assert_eq!(pages.block_count(), 1);
}

#[test]
fn documents_pass_through_all_stages() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let (mut model, mut random) = (Model::default(), Random(1));
    let mut most = 0;
    for _ in 0..3000 {
        insert_into(&pages, &mut model).unwrap();
        most = most.max(info(&pages).unwrap().pending_pages);
        pages.end_readers();
    }
    assert!((60..64).contains(&most), "{most}");
    verify(&pages, &model, "inserted");
    verify_search(&pages, &model, &mut random);
    let before = info(&pages).unwrap();
    assert_eq!(before.documents, 3000);
    assert!((2..16).contains(&before.segments), "{before:?}");
    let dead: BTreeSet<_> = model
        .live
        .keys()
        .copied()
        .filter(|row| row.block % 3 == 0)
        .collect();
    remove_from(&pages, &mut model, &dead).unwrap();
    verify(&pages, &model, "removed");
    verify_search(&pages, &model, &mut random);
    let removed = info(&pages).unwrap();
    assert_eq!(
        (removed.documents, removed.dead),
        (3000 - dead.len() as u64, dead.len() as u64)
    );
    cleanup(&pages).unwrap();
    let cleaned = info(&pages).unwrap();
    assert_eq!(
        (cleaned.documents, cleaned.dead),
        (removed.documents, 0),
        "{cleaned:?}"
    );
    verify(&pages, &model, "cleaned up");
    merge_all(&pages).unwrap();
    pages.end_readers();
    let merged = info(&pages).unwrap();
    assert_eq!((merged.segments, merged.pending_documents), (1, 0));
    assert_eq!(merged.documents, model.live.len() as u64);
    verify(&pages, &model, "merged");
    verify_search(&pages, &model, &mut random);
    let all = model.live.keys().copied().collect();
    remove_from(&pages, &mut model, &all).unwrap();
    cleanup(&pages).unwrap();
    let nothing = info(&pages).unwrap();
    assert_eq!(
        (nothing.documents, nothing.dead, nothing.segments),
        (0, 0, 0)
    );
    verify(&pages, &model, "all removed");
}

#[test]
fn blocks_are_used_again() {
    let sizes = sizes_of_rounds(false, 8);
    assert!(
        sizes[7] <= sizes[1] + sizes[1] / 4,
        "the index grows: {sizes:?}"
    );
}

#[test]
fn blocks_of_positions_are_used_again() {
    // what a merge needs at once depends on the documents that are merged
    let sizes = sizes_of_rounds(true, 16);
    let most = |sizes: &[u32]| sizes.iter().copied().max().unwrap_or(0);
    let (first, last) = (most(&sizes[..8]), most(&sizes[8..]));
    assert!(last <= first + first / 4, "the index grows: {sizes:?}");
}

/// Returns the blocks of an index that is filled and emptied several times.
fn sizes_of_rounds(has_positions: bool, rounds: usize) -> Vec<u32> {
    let pages = MemoryPages::new();
    create(
        &pages,
        &Creation {
            has_positions,
            ..creation()
        },
    );
    let mut model = Model::default();
    let mut sizes = vec![];
    for _ in 0..rounds {
        for _ in 0..1500 {
            insert_into(&pages, &mut model).unwrap();
            pages.end_readers();
        }
        let all = model.live.keys().copied().collect();
        remove_from(&pages, &mut model, &all).unwrap();
        cleanup(&pages).unwrap();
        pages.end_readers();
        verify(&pages, &model, "emptied");
        sizes.push(info(&pages).unwrap().high_water);
    }
    sizes
}

#[test]
fn dropped_chains_wait_for_readers() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let mut model = Model::default();
    for _ in 0..400 {
        insert_into(&pages, &mut model).unwrap();
    }
    pages.end_readers();
    let query = terms(&["all".to_string()]);
    let scan = Scan::begin(&pages, &SegmentCache::default(), &query, None, 1 << 10).unwrap();
    let rows: BTreeSet<_> = model.live.keys().copied().collect();
    // More chains are dropped than the meta page has room for.
    for i in 0..90 {
        for _ in 0..3 {
            insert_into(&pages, &mut model).unwrap();
        }
        merge_all(&pages).unwrap();
        if i % 30 == 0 {
            verify(&pages, &model, "chains are dropped");
        }
    }
    let before = info(&pages).unwrap();
    assert!(before.free_blocks > before.segment_pages * 50, "{before:?}");
    assert_eq!(drain(&pages, scan), rows);
    pages.end_readers();
    for _ in 0..2000 {
        insert_into(&pages, &mut model).unwrap();
    }
    let after = info(&pages).unwrap();
    assert!(
        after.high_water < before.high_water + 200,
        "{before:?} {after:?}"
    );
    verify(&pages, &model, "chains are used again");
}

#[test]
fn large_documents_are_found_by_each_word() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let words: Vec<String> = (0..20_000).map(|i| format!("w{i}")).collect();
    let mut text = words.clone();
    // Frequencies and lengths that take more than a byte.
    text.extend((0..700).map(|_| "often".to_string()));
    text.push("x".repeat(2047));
    text.push("y".repeat(255));
    insert(&pages, tid(5), &terms(&text)).unwrap();
    for stage in ["pending", "segment"] {
        let found = |word: &str| {
            let query = terms(&[word.to_string()]);
            rag_bm25::top(&pages, &SegmentCache::default(), &query, None, 2).unwrap()
        };
        for word in words.iter().step_by(97) {
            assert_eq!(found(word).len(), 1, "{stage} {word}");
        }
        for word in ["often", &"x".repeat(2047), &"y".repeat(255)] {
            assert_eq!(found(word).len(), 1, "{stage} {word}");
        }
        assert_eq!(info(&pages).unwrap().documents, 1);
        let mut rows = vec![];
        remove(&pages, &mut |row| {
            rows.push(row);
            false
        })
        .unwrap();
        assert_eq!(rows, [tid(5)]);
        merge_all(&pages).unwrap();
    }
    remove(&pages, &mut |_| true).unwrap();
    merge_all(&pages).unwrap();
    verify(&pages, &Model::default(), "removed");
}

#[test]
fn a_build_writes_one_segment_or_several() {
    for (memory, segments) in [
        (MEMORY, 1..=1),
        (1 << 20, 2..=20),
        (200_000, 2..=20),
        (0, 1..=20),
    ] {
        let pages = MemoryPages::new();
        let mut builder = Builder::new(&pages, &creation(), memory);
        let mut model = Model::default();
        for _ in 0..if memory == 0 { 300 } else { 1000 } {
            let (row, id) = model.new_document();
            builder.add(row, &terms(&words(id))).unwrap();
            model.live.insert(row, id);
        }
        builder.add(tid(5000), &terms(&[])).unwrap();
        assert_eq!(builder.finish(), Ok(model.live.len() as u64));
        verify(&pages, &model, "built");
        verify_search(&pages, &model, &mut Random(3));
        let info = info(&pages).unwrap();
        assert!(segments.contains(&info.segments), "{memory} {info:?}");
        insert_into(&pages, &mut model).unwrap();
        verify(&pages, &model, "inserted");
    }
}
