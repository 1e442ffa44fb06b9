//! Waits that end at Ctrl-C, `statement_timeout`, `pg_terminate_backend` and a dead postmaster.

use std::{os::fd::RawFd, time::Duration};

use super::compat::WaitSet;

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    Readable,
    Writable,
    ReadableOrWritable,
}

/// Waits until one of `descriptors` is ready, the process's latch is set, or `timeout` has passed.
///
/// Raises a pending interrupt as an ERROR, which unwinds: descriptors are closed when their owners
/// are dropped.
pub fn wait(descriptors: &[(RawFd, Until)], timeout: Option<Duration>) {
    let mut set = WaitSet::new(descriptors.len());
    for (fd, until) in descriptors {
        set.add(*fd, *until);
    }
    set.wait(timeout);
    drop(set);
    pgrx::check_for_interrupts!();
}

/// Raises a pending interrupt as an ERROR.
pub fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}

/// Waits for the latch or `timeout` alone.
pub fn sleep(timeout: Duration) {
    wait(&[], Some(timeout));
}
