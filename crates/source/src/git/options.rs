//! The settings of libgit2 that hold for the whole process.

// They are C globals that libgit2 reads without synchronization, and are written once, here, before any repository is
// opened. Nothing else in the process uses libgit2.
#![allow(unsafe_code)]

use std::sync::Once;

use git2::{ConfigLevel, opts};

/// Longest wait for a connection.
const CONNECT_MILLISECONDS: i32 = 10_000;
/// Longest wait for the next bytes of a connection.
const SILENCE_MILLISECONDS: i32 = 60_000;

/// Bounds network waits, ignores the configuration of the user and the machine, and opens repositories whoever owns
/// their files: an ordinary one on a database server does not belong to `postgres`, and nothing in it is executed.
pub fn set_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let levels = [ConfigLevel::System, ConfigLevel::Global, ConfigLevel::XDG, ConfigLevel::ProgramData];
        // SAFETY: `call_once` makes this the only thread that is here, and everything that uses libgit2 comes after.
        let set = unsafe {
            levels
                .into_iter()
                .try_for_each(|level| opts::set_search_path(level, ""))
                .and_then(|()| opts::set_verify_owner_validation(false))
                .and_then(|()| opts::set_server_connect_timeout_in_milliseconds(CONNECT_MILLISECONDS))
                .and_then(|()| opts::set_server_timeout_in_milliseconds(SILENCE_MILLISECONDS))
        };
        // They fail for unknown options only, and with the vendored library there are none.
        debug_assert!(set.is_ok());
    });
}
