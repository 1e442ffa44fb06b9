//! Places of heap rows: PostgreSQL's form of them and the crates'.

use pgrx::{
    itemptr::{item_pointer_get_both, item_pointer_set_all},
    pg_sys::ItemPointerData,
};
use rag_pages::Tid;

#[inline]
pub fn from_pointer(pointer: ItemPointerData) -> Tid {
    let (block, offset) = item_pointer_get_both(pointer);
    Tid { block, offset }
}

#[inline]
pub fn to_pointer(tid: Tid) -> ItemPointerData {
    let mut pointer = ItemPointerData::default();
    item_pointer_set_all(&mut pointer, tid.block, tid.offset);
    pointer
}
