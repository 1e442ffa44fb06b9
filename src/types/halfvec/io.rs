//! Text form, binary form (dimensions i16, zero i16, 16 bits each; network byte order), and the
//! typmod.

use std::ffi::{CStr, CString};

use pgrx::{pg_extern, pg_sys, pg_sys::panic::ErrorReport};
use rag_ann::half::Half;

use super::{Halfvec, OwnedHalfvec};
use crate::types::vector::{
    Message,
    io::{read_text, read_typmod, receive, send, to_text, with_typmod},
};

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_in(text: &CStr, _type: pg_sys::Oid, typmod: i32) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(read_text(text, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_out(vector: Halfvec<'_>) -> CString {
    to_text(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_recv(
    mut message: Message<'_>,
    _type: pg_sys::Oid,
    typmod: i32,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(receive(&mut message, typmod)?)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_send(vector: Halfvec<'_>) -> Vec<u8> {
    send(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_typmod_in(modifiers: pgrx::Array<'_, &CStr>) -> Result<i32, ErrorReport> {
    Ok(read_typmod::<Half>(modifiers)?)
}

/// The cast that enforces the typmod on assignment.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_typmod_cast(
    vector: Halfvec<'_>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedHalfvec, ErrorReport> {
    Ok(with_typmod(vector, typmod)?)
}
