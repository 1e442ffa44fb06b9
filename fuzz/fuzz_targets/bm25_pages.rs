//! Pages of a keyword index with some bytes overwritten: whatever they say, nothing may panic, hang
//! or read out of bounds.
//!
//! The input is a list of changes of four bytes each: page, place on the page (two bytes), new
//! value.
#![no_main]

#[path = "../../crates/bm25/tests/support/mod.rs"]
mod support;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rag_pages::{HEADER_BYTES, MemoryPages, PAGE_BYTES, ReadPages};

fuzz_target!(|changes: &[u8]| {
    static ORIGINAL: OnceLock<MemoryPages> = OnceLock::new();
    let pages = ORIGINAL.get_or_init(support::small_index).copy();
    for change in changes.as_chunks::<4>().0.iter().take(200) {
        let block = u32::from(change[0]) % pages.block_count();
        let place = usize::from(u16::from_le_bytes([change[1], change[2]]));
        let place = HEADER_BYTES + place % (PAGE_BYTES - HEADER_BYTES);
        pages.damage(block, |page| page.0[place] = change[3]);
    }
    support::use_damaged(&pages);
});
