//! What a process does when it ends, however it ends.
#![allow(unsafe_code)] // exit callbacks

use std::cell::RefCell;

use pgrx::{pg_guard, pg_sys};

thread_local! {
    static ACTIONS: RefCell<Vec<fn()>> = const { RefCell::new(vec![]) };
}

/// Runs `action` when the process ends, before it leaves shared memory. A second registration of
/// the same action has no effect.
pub fn before_exit(action: fn()) {
    ACTIONS.with_borrow_mut(|actions| {
        if actions.is_empty() {
            // SAFETY: the callback stays valid as long as the library, which is never unloaded.
            unsafe { pg_sys::before_shmem_exit(Some(run), pg_sys::Datum::null()) };
        }
        if !actions
            .iter()
            .any(|known| std::ptr::fn_addr_eq(*known, action))
        {
            actions.push(action);
        }
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn run(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    for action in ACTIONS.take() {
        action();
    }
}
