//! Pages of an index with some bytes overwritten: whatever they say, nothing may panic, hang or
//! read out of bounds.
//!
//! The input is a list of changes of four bytes each: page, place on the page (two bytes), new
//! value.
#![no_main]

#[path = "../../crates/ann/tests/support/mod.rs"]
mod support;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rag_ann::code::Metric;
use rag_pages::{HEADER_BYTES, PAGE_BYTES, ReadPages};
use support::{Data, Fixture};

fuzz_target!(|changes: &[u8]| {
    static ORIGINAL: OnceLock<Fixture> = OnceLock::new();
    let original = ORIGINAL.get_or_init(|| Fixture::built(Metric::L2, Data::clustered(300, 8, 1), 4));
    let store = original.store.copy();
    for change in changes.as_chunks::<4>().0.iter().take(200) {
        let block = u32::from(change[0]) % store.block_count();
        let place = HEADER_BYTES + usize::from(u16::from_le_bytes([change[1], change[2]])) % (PAGE_BYTES - HEADER_BYTES);
        store.damage(block, |page| page.0[place] = change[3]);
    }
    support::use_damaged(&store, &original.data);
});
