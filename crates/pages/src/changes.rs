//! Where two versions of a page differ.

use std::ops::Range;

use crate::{HEADER_BYTES, PAGE_BYTES, Page};

/// Bytes that are compared at once.
const CHUNK: usize = 64;
const WORD: usize = 8;

/// Calls `f` with the ranges of bytes in which two versions of a page differ, in ascending order,
/// the store's header left out. Ranges with at most `gap` bytes between them are one.
pub fn each_change(
    before: &[u8; PAGE_BYTES],
    after: &Page,
    gap: usize,
    mut f: impl FnMut(Range<usize>),
) {
    let (before, after) = (
        before.as_chunks::<CHUNK>().0,
        after.0.as_chunks::<CHUNK>().0,
    );
    let mut open: Option<Range<usize>> = None;
    for (number, (before, after)) in before.iter().zip(after).enumerate() {
        let differences = differences(before, after);
        if differences.iter().fold(0, |all, some| all | some) == 0 {
            continue;
        }
        for (place, differs) in differences.into_iter().enumerate() {
            let start = number * CHUNK + place * WORD;
            if differs == 0 || start < HEADER_BYTES {
                continue;
            }
            let first = start + differs.trailing_zeros() as usize / 8;
            let end = start + WORD - differs.leading_zeros() as usize / 8;
            match &mut open {
                Some(range) if first <= range.end + gap => range.end = end,
                _ => {
                    if let Some(range) = open.replace(first..end) {
                        f(range);
                    }
                }
            }
        }
    }
    if let Some(range) = open {
        f(range);
    }
}

/// Returns the bits in which the words of two chunks differ.
#[inline]
fn differences(before: &[u8; CHUNK], after: &[u8; CHUNK]) -> [u64; CHUNK / WORD] {
    let word = |bytes: &[u8; CHUNK], i| u64::from_le_bytes(bytes.as_chunks::<WORD>().0[i]);
    std::array::from_fn(|i| word(before, i) ^ word(after, i))
}
const _: () = assert!(PAGE_BYTES.is_multiple_of(CHUNK) && HEADER_BYTES.is_multiple_of(WORD));

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changes(before: &Page, after: &Page, gap: usize) -> Vec<Range<usize>> {
        let mut found = vec![];
        each_change(&before.0, after, gap, |range| found.push(range));
        found
    }

    #[test]
    fn the_header_belongs_to_the_store() {
        let mut after = Page::ZERO;
        after.0[..HEADER_BYTES].fill(1);
        assert_eq!(changes(&Page::ZERO, &after, 4), []);
        after.0[HEADER_BYTES] = 1;
        assert_eq!(changes(&Page::ZERO, &after, 4).first(), Some(&(24..25)));
        after.0[PAGE_BYTES - 1] = 1;
        assert_eq!(changes(&Page::ZERO, &after, 4), [24..25, 8191..8192]);
    }

    proptest! {
        #[test]
        fn the_ranges_have_all_that_differs(
            places in prop::collection::vec((HEADER_BYTES..PAGE_BYTES, any::<u8>(), 1..40_usize), 0..30),
            gap in 0..20_usize,
        ) {
            let mut before = Page::ZERO;
            for (i, byte) in before.0.iter_mut().enumerate() {
                *byte = (i * 7) as u8;
            }
            let mut after = Page(before.0);
            for (start, byte, bytes) in places {
                after.0[start..(start + bytes).min(PAGE_BYTES)].fill(byte);
            }
            let found = changes(&before, &after, gap);
            let mut replayed = Page(before.0);
            for range in &found {
                prop_assert!(before.0[range.start] != after.0[range.start]);
                prop_assert!(before.0[range.end - 1] != after.0[range.end - 1]);
                replayed.0[range.clone()].copy_from_slice(&after.0[range.clone()]);
            }
            prop_assert!(replayed.0 == after.0);
            prop_assert!(found.windows(2).all(|pair| pair[0].end + gap < pair[1].start));
        }
    }
}
