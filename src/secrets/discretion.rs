//! Keeping the text of a statement to itself that has a secret in it.
//!
//! While the statement is being parsed and planned its text is where Postgres puts every statement's:
//! `pg_stat_activity.query`, and `debug_query_string`, which becomes the STATEMENT of a log message. From the moment
//! that its function runs, [`discreetly`] replaces both; Postgres sets them anew with the next statement. An error of the
//! function carries no CONTEXT, in which PL/pgSQL quotes the expression that it evaluates.
//!
//! What is logged before or after the statement runs (`log_statement`, `log_min_duration_statement`) is out of reach, as
//! it is for `ALTER ROLE ... PASSWORD`.
#![allow(unsafe_code)] // variables and functions of the server's logging

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::error::Error;

/// Runs `f` with `shown` in the place of the text of the present statement, where it stays until the next one.
///
/// # Errors
/// Those of `f`, which must be raised without running anything else: they will have no CONTEXT.
pub fn discreetly<R>(shown: &'static CStr, f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: Postgres only reads the text, which lives forever. The context callbacks are those of the callers, who are
    // still there; where an ERROR leaves them out, whoever catches it puts back his own (PG_CATCH, the main loops).
    unsafe {
        // a background worker may have no text, and nothing that resets it
        if !pg_sys::debug_query_string.is_null() {
            pg_sys::debug_query_string = shown.as_ptr();
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, shown.as_ptr());
        }
        let callbacks = pg_sys::error_context_stack;
        pg_sys::error_context_stack = std::ptr::null_mut();
        let result = f();
        if result.is_ok() {
            pg_sys::error_context_stack = callbacks;
        }
        result
    }
}
