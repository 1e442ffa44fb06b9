//! This process: its id, its database, its clock.
#![allow(unsafe_code)] // variables of the process

use pgrx::pg_sys;

/// Returns the OID of the database that the process is connected to.
pub fn database() -> pg_sys::Oid {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns the process id.
pub fn my_pid() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }
}

/// Returns the server's clock, in microseconds since 2000-01-01.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Sends a signal to a process of this server; id 0 means none.
pub fn signal(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: a signal to a process of this server.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Shows in pg_stat_activity what the worker does.
#[allow(unsafe_code)]
pub fn activity(text: &str) {
    if let Ok(text) = std::ffi::CString::new(text) {
        // SAFETY: the text is copied.
        unsafe {
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr())
        };
    }
}

/// Returns whether the server is in recovery, as a standby is.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads the server's state.
    unsafe { pg_sys::RecoveryInProgress() }
}
