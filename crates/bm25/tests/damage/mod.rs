//! Pages with wrong bytes: whatever they say, nothing panics, hangs or allocates without limit.
//! `scripts/fuzz.sh bm25_pages` goes on where these tests end.

use crate::support::{Random, small_index, use_damaged};
use rag_bm25::{check, describe};
use rag_pages::{HEADER_BYTES, IndexError, MemoryPages, PAGE_BYTES, ReadPages, SPECIAL_OFFSET};

fn problems(pages: &MemoryPages) -> usize {
    let mut count = 0;
    match check(pages, &mut |_| {}, &mut |_, _| count += 1) {
        Ok(()) => count,
        Err(_) => count + 1,
    }
}

#[test]
fn the_undamaged_index_has_no_problem() {
    assert_eq!(problems(&small_index()), 0);
}

#[test]
fn pages_of_random_bytes_are_errors() {
    let original = small_index();
    let mut random = Random(1);
    for block in 0..original.block_count() {
        let pages = original.copy();
        pages.damage(block, |page| {
            for byte in &mut page.0[HEADER_BYTES..] {
                *byte = random.next() as u8;
            }
        });
        use_damaged(&pages);
    }
}

#[test]
fn pages_of_zeros_are_errors() {
    let original = small_index();
    for block in 0..original.block_count() {
        let pages = original.copy();
        pages.damage(block, |page| page.0[HEADER_BYTES..].fill(0));
        use_damaged(&pages);
    }
}

#[test]
fn random_bytes_in_valid_pages_are_harmless() {
    let original = small_index();
    let mut random = Random(2);
    for _ in 0..1500 {
        let pages = original.copy();
        for _ in 0..1 + random.below(30) {
            let block = random.below(pages.block_count() as usize) as u32;
            // most often near the start, where the counts are
            let range = if random.below(2) == 0 {
                64
            } else {
                PAGE_BYTES - HEADER_BYTES
            };
            let place = HEADER_BYTES + random.below(range);
            let value = [0, 1, 0x7F, 0x80, 0xFF, random.next() as u8][random.below(6)];
            pages.damage(block, |page| page.0[place] = value);
        }
        use_damaged(&pages);
    }
}

#[test]
fn pages_of_another_owner_are_noticed() {
    let original = small_index();
    for block in 1..original.block_count() {
        let pages = original.copy();
        pages.damage(block, |page| page.0[SPECIAL_OFFSET] ^= 1);
        let changed = problems(&pages);
        let is_unused = original.read(block, |page| page.0[HEADER_BYTES..].iter().all(|b| *b == 0));
        assert!(changed > 0 || is_unused, "block {block}");
    }
}

#[test]
fn another_version_is_told_from_corruption() {
    let pages = small_index();
    pages.damage(0, |page| page.0[HEADER_BYTES + 4] ^= 2);
    assert!(matches!(
        describe(&pages),
        Err(IndexError::OtherVersion { .. })
    ));
}
