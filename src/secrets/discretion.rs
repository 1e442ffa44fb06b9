//! Keeping the text of a statement to itself that has a secret in it.
//!
//! Postgres shows the text of a statement in `pg_stat_activity.query`, and logs it: before it runs (`log_statement`), after
//! it has run (`log_min_duration_statement`), as the STATEMENT of what is logged meanwhile, and, from within PL/pgSQL, as
//! CONTEXT. So there are two measures:
//!
//! * [`on_log`] cuts off what follows the function's name wherever that is about to be logged, from the moment that the
//!   library is loaded;
//! * [`discreetly`], around the function itself, replaces the text in `pg_stat_activity` and `debug_query_string` until the
//!   next statement sets them anew, and gives errors no CONTEXT, so that the client's copy has none either.
//!
//! Until the function runs, the text is in `pg_stat_activity`. What other extensions store of statements is theirs:
//! pg_stat_statements takes constants out of all but utility statements (DO, CALL, PREPARE).
#![allow(unsafe_code)] // variables and functions of the server's logging

use std::{
    ffi::{CStr, c_char},
    sync::OnceLock,
};

use pgrx::{pg_guard, pg_sys};

use crate::error::Error;

/// What is shown of a statement that has a secret in it.
const SHOWN: &CStr = c"SELECT rag_create_secret(...)";
/// Texts are cut off after it, whatever its case.
const FUNCTION: &[u8] = b"rag_create_secret";

/// Runs `f` with [`SHOWN`] in the place of the text of the present statement, where it stays until the next one.
///
/// # Errors
/// Those of `f`, which must be raised without running anything else: they will have no CONTEXT.
pub fn discreetly<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: Postgres only reads the text, which lives forever. The context callbacks are those of the callers, who are
    // still there; where an ERROR leaves them out, whoever catches it puts back his own (PG_CATCH, the main loops).
    unsafe {
        // a background worker may have no text, and nothing that resets it
        if !pg_sys::debug_query_string.is_null() {
            pg_sys::debug_query_string = SHOWN.as_ptr();
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, SHOWN.as_ptr());
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

static NEXT_HOOK: OnceLock<pg_sys::emit_log_hook_type> = OnceLock::new();

/// Has [`on_log`] called for everything that is logged by this process and its children.
pub fn watch_log() {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if NEXT_HOOK.set(pg_sys::emit_log_hook).is_ok() {
            pg_sys::emit_log_hook = Some(on_log);
        }
    }
}

/// Takes the text of statements that call the function out of what is about to be logged. It changes texts in place, as an
/// error that is being reported is no time to allocate memory.
#[pg_guard]
unsafe extern "C-unwind" fn on_log(error: *mut pg_sys::ErrorData) {
    // SAFETY: Postgres passes the error that it is about to log, whose texts are its own and can be written to.
    unsafe {
        // or it is what is SHOWN
        let in_statement = find(pg_sys::debug_query_string, FUNCTION).is_some();
        if in_statement {
            pg_sys::debug_query_string = SHOWN.as_ptr();
        }
        if let Some(error) = error.as_mut() {
            // messages for people name functions for good reason, and quote no whole statement
            let is_log = error.elevel < pgrx::PgLogLevel::INFO as i32;
            if is_log && (cut(error.message, FUNCTION) || in_statement) {
                // parameters, parse trees
                cut(error.detail, b"");
            }
            // EXECUTE of a statement that was PREPAREd, which is the detail
            if is_log && cut(error.detail, FUNCTION) {
                cut(error.message, b"EXECUTE");
            }
            // statements of others, of a deadlock
            cut(error.detail_log, FUNCTION);
            cut(error.context, FUNCTION);
            if in_statement {
                cut(error.context, b"parameter");
            }
            if cut(error.internalquery, FUNCTION) {
                error.internalpos = 0;
            }
        }
        if let Some(Some(next)) = NEXT_HOOK.get() {
            next(error);
        }
    }
}

/// Cuts a text off after a phrase; whether it has the phrase.
///
/// # Safety
/// `text` is NULL, or a text that ends with NUL and that nobody else uses.
unsafe fn cut(text: *mut c_char, phrase: &[u8]) -> bool {
    const ELLIPSIS: &[u8] = b"(...)";
    // SAFETY: what is written ends where the text did, or before.
    unsafe {
        let Some(start) = find(text, phrase) else { return false };
        let rest = text.add(start + phrase.len());
        let room = CStr::from_ptr(rest).count_bytes();
        if room > ELLIPSIS.len() {
            std::ptr::copy_nonoverlapping(ELLIPSIS.as_ptr().cast(), rest, ELLIPSIS.len());
            *rest.add(ELLIPSIS.len()) = 0;
        } else {
            *rest = 0;
        }
        true
    }
}

/// # Safety
/// `text` is NULL, or a text that ends with NUL.
unsafe fn find(text: *const c_char, phrase: &[u8]) -> Option<usize> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    if phrase.is_empty() {
        return Some(0);
    }
    bytes.windows(phrase.len()).position(|window| window.eq_ignore_ascii_case(phrase))
}
