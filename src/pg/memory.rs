//! What happens where Rust gets no memory.
//!
//! The standard library aborts the process then, and the postmaster takes an aborted backend for a
//! crash and restarts the cluster: every session would end because of one. So:
//!
//! * What grows with the data is asked for by [`rag_ann::memory`], whose refusal is an ERROR like
//!   that of `palloc`.
//! * Before a text is worked on,
//!   [`unless_there_is_memory`](crate::error::Error::unless_there_is_memory) asks for room.
//! * Any other allocation that fails ends this session alone, with a FATAL error: the [`Allocator`]
//!   can neither return nothing, as that aborts, nor raise an ERROR, as it must not unwind. FATAL
//!   does neither: Postgres cleans up and exits.
#![allow(unsafe_code)] // an allocator

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::{c_char, c_int},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_ann::memory::may_be_refused;

/// The system's allocator.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The thread that Postgres runs on, as `pthread_self` names it; 0 before [`watch`]. Processes that
/// this one forks go on on the same.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread of a build waits for the end of the process.
static EXHAUSTED: AtomicBool = AtomicBool::new(false);

// SAFETY: all is left to the system's allocator. Where that returns null, so does this, or it does
// not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has it.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has it.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller has it.
        checked(unsafe { System.realloc(pointer, layout, size) })
    }
}

#[inline]
fn checked(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() && !may_be_refused() {
        refused();
    }
    pointer
}

/// Notes which thread is Postgres's. Called while the library is being loaded.
pub fn watch() {
    MAIN.store(this_thread(), Ordering::Relaxed);
}

fn this_thread() -> usize {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as usize }
}

/// Ends the session if a thread that it waits for cannot go on for want of memory.
pub fn check_threads() {
    if EXHAUSTED.load(Ordering::Relaxed) {
        end_session();
    }
}

#[cold]
fn refused() {
    match MAIN.load(Ordering::Relaxed) {
        0 => {} // not in a server
        main if main == this_thread() => end_session(),
        _ => {
            // Only Postgres's own thread can end the process: it looks after this one
            // (`check_threads`).
            EXHAUSTED.store(true, Ordering::Relaxed);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

/// Raises a FATAL error, for which Postgres has memory set aside, and allocates nothing itself.
fn end_session() -> ! {
    unsafe extern "C-unwind" {
        fn errstart(level: c_int, domain: *const c_char) -> bool;
        fn errcode(code: c_int) -> c_int;
        fn errmsg(format: *const c_char, ...) -> c_int;
        fn errdetail(format: *const c_char, ...) -> c_int;
        fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
    }
    // SAFETY: Postgres's thread. A FATAL error neither returns nor jumps back: the process exits.
    unsafe {
        if errstart(pg_sys::FATAL as c_int, std::ptr::null()) {
            errcode(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int);
            errmsg(c"out of memory".as_ptr());
            errdetail(c"The session ends, as what it was doing cannot be undone. Others are not affected.".as_ptr());
            errfinish(
                c"memory.rs".as_ptr(),
                line!() as c_int,
                c"end_session".as_ptr(),
            );
        }
    }
    std::process::abort()
}
