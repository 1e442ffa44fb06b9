//! Waiting for descriptors such that Ctrl-C, `statement_timeout`, `pg_terminate_backend` and a dead
//! postmaster end it.
#![allow(unsafe_code)] // the wait-event calls

use std::{os::fd::RawFd, time::Duration};

use pgrx::pg_sys;

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    Readable,
    Writable,
}

/// Waits until one of `descriptors` is ready, the process's latch is set, or `timeout` has passed.
///
/// Raises a pending interrupt as an ERROR, which unwinds; whoever holds the descriptors closes them
/// on drop.
pub fn wait(descriptors: &[(RawFd, Until)], timeout: Option<Duration>) {
    let timeout = timeout.map_or(-1, |t| t.as_millis().try_into().unwrap_or(i64::MAX));
    // SAFETY: the set lives for this block only, and no call in it keeps a pointer beyond it.
    unsafe {
        let set = new_set(descriptors.len() as i32 + 2);
        let add = |events: u32, fd: RawFd, latch| {
            pg_sys::AddWaitEventToSet(set, events, fd, latch, std::ptr::null_mut());
        };
        add(
            pg_sys::WL_LATCH_SET,
            pg_sys::PGINVALID_SOCKET,
            pg_sys::MyLatch,
        );
        add(
            pg_sys::WL_EXIT_ON_PM_DEATH,
            pg_sys::PGINVALID_SOCKET,
            std::ptr::null_mut(),
        );
        for (fd, until) in descriptors {
            let event = match until {
                Until::Readable => pg_sys::WL_SOCKET_READABLE,
                Until::Writable => pg_sys::WL_SOCKET_WRITEABLE,
            };
            add(event, *fd, std::ptr::null_mut());
        }
        let mut event: pg_sys::WaitEvent = std::mem::zeroed();
        pg_sys::WaitEventSetWait(set, timeout as _, &mut event, 1, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::FreeWaitEventSet(set);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    pgrx::check_for_interrupts!();
}

/// Waits for the latch or `timeout` alone.
pub fn sleep(timeout: Duration) {
    wait(&[], Some(timeout));
}

unsafe fn new_set(events: i32) -> *mut pg_sys::WaitEventSet {
    // SAFETY: the caller's; the first argument became a resource owner (none here) in PostgreSQL
    // 17.
    unsafe {
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        return pg_sys::CreateWaitEventSet(std::ptr::null_mut(), events);
        #[cfg(not(any(feature = "pg17", feature = "pg18")))]
        return pg_sys::CreateWaitEventSet(pg_sys::CurrentMemoryContext, events);
    }
}
