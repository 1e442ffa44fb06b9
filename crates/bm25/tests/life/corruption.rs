//! Pages of wrong bytes give errors: no panic, no endless loop, no huge allocation.

use rag_bm25::{
    Scan, SegmentCache, check, cleanup, create, describe, info, insert, merge_all, remove, top,
};
use rag_pages::{HEADER_BYTES, MemoryPages, Page, ReadPages, ReusePages, SPECIAL_OFFSET};

use super::support::*;
use crate::support::rows_with_phrase;

/// Returns an index with everything that an index can have.
fn sample() -> MemoryPages {
    let pages = Watched::new(|_, _| {});
    for _ in 0..120 {
        pages.insert();
    }
    pages.merge_all();
    for _ in 0..100 {
        pages.insert();
    }
    pages.merge_all();
    pages.end_readers();
    for _ in 0..60 {
        pages.insert();
    }
    pages.remove(|row| row.offset % 10 == 0);
    // What an unfinished merge leaves.
    pages.cancel_after.set(40);
    pages.merge_all();
    for _ in 0..30 {
        pages.insert();
    }
    pages.pages.copy()
}

/// Does everything that can be done with an index. Returns true if it noticed a problem.
fn use_all(pages: &MemoryPages, random: &mut Random) -> bool {
    pages.end_readers();
    let mut is_noticed = false;
    let result = check(pages, &mut |_| {}, &mut |_, _| is_noticed = true);
    is_noticed |= result.is_err();
    let _ = describe(pages);
    is_noticed |= info(pages).is_err();
    let query = terms(&["all".to_string(), "word5".to_string()]);
    let _ = top(pages, &SegmentCache::default(), &query, None, 10);
    if let Ok(mut scan) = Scan::begin(pages, &SegmentCache::default(), &query, None, 1 << 12) {
        for _ in 0..100_000 {
            match scan.next(pages) {
                Ok(Some(_)) => {}
                _ => break,
            }
        }
    }
    for words in [["all", "word5"], ["word5", "word7"]] {
        let phrase = phrase(&words.map(str::to_string));
        let _ = rows_with_phrase(pages, &SegmentCache::default(), &phrase);
    }
    for i in 0..5 {
        let id = random.below(1000);
        is_noticed |= insert(pages, tid(1000 + i), &terms(&words(id))).is_err();
    }
    is_noticed |= remove(pages, &mut |row| row.offset % 4 == 0).is_err();
    is_noticed |= cleanup(pages).is_err();
    is_noticed |= merge_all(pages).is_err();
    let _ = check(pages, &mut |_| {}, &mut |_, _| is_noticed = true);
    is_noticed
}

#[test]
fn wrong_bytes_are_harmless() {
    let sample = sample();
    let mut random = Random(77);
    assert!(!use_all(&sample.copy(), &mut random));
    for round in 0..500 {
        let pages = sample.copy();
        let count = u64::from(pages.block_count());
        for _ in 0..1 + random.below(3) {
            // The meta page and owner pages are few. Prefer the first pages.
            let end = if random.below(3) == 0 { 1 } else { count };
            let block = random.below(end) as u32;
            let start = match random.below(3) {
                0 => HEADER_BYTES + random.below(300) as usize,
                1 => SPECIAL_OFFSET + random.below(16) as usize,
                _ => HEADER_BYTES + random.below((SPECIAL_OFFSET - HEADER_BYTES) as u64) as usize,
            };
            let (byte, len) = (random.next() as u8, 1 + random.below(8) as usize);
            let other = random.below(count) as u32;
            let kind = random.below(8);
            let copy = pages.read(other, |page| page.0);
            pages.damage(block, |page| match kind {
                0 => page.0 = Page::ZERO.0,
                1 => page.0 = copy,
                2 => page.0[start] ^= 1 << (byte % 8),
                3 => page.0[start] = page.0[start].wrapping_add(1),
                4 => {
                    // A number of a block or another one that may mean something.
                    let end = (start + 4).min(page.0.len());
                    page.0[start..end].copy_from_slice(&other.to_le_bytes()[..end - start]);
                }
                _ => {
                    let end = (start + len).min(page.0.len());
                    page.0[start..end].fill(if byte % 2 == 0 { 0xFF } else { byte });
                }
            });
        }
        let _ = use_all(&pages, &mut random);
        assert!(
            pages.block_count() < count as u32 + 5000,
            "round {round}: the file has {} blocks",
            pages.block_count()
        );
    }
}

#[test]
fn random_pages_are_harmless() {
    let mut random = Random(99);
    for _ in 0..200 {
        let pages = MemoryPages::new();
        create(&pages, &creation());
        pages.extend(20);
        for block in 0..20 {
            let kind = random.below(12) as u8;
            pages.damage(block, |page| {
                let start = if block == 0 { 300 } else { HEADER_BYTES };
                for byte in &mut page.0[start..SPECIAL_OFFSET] {
                    *byte = (random.next() % 23).min(random.next() % 256) as u8;
                }
                if block > 0 {
                    page.0[SPECIAL_OFFSET] = random.below(4) as u8;
                    page.0[SPECIAL_OFFSET + 8] = random.below(20) as u8;
                    page.0[SPECIAL_OFFSET + 12] = kind;
                    page.0[SPECIAL_OFFSET + 14..].copy_from_slice(&[0x92, 0xFF]);
                }
            });
        }
        let _ = use_all(&pages, &mut random);
    }
}

#[test]
fn an_empty_file_is_an_error() {
    let pages = MemoryPages::new();
    assert!(info(&pages).is_err());
    assert!(insert(&pages, tid(1), &terms(&["a".to_string()])).is_err());
    assert!(cleanup(&pages).is_err());
    let mut problems = 0;
    check(&pages, &mut |_| {}, &mut |_, _| problems += 1).unwrap();
    assert_eq!(problems, 1);
}
