//! Keeping the text of a statement to itself that has a secret in it.
//!
//! Postgres shows the text of a statement in `pg_stat_activity.query`, and logs it: before it runs
//! (`log_statement`), after it has run (`log_min_duration_statement`), as the STATEMENT of what is
//! logged meanwhile, and, from within PL/pgSQL, as CONTEXT. Errors quote parts of it. So there are
//! two measures:
//!
//! * [`on_log`] replaces the whole text of each statement that names the function, wherever it is
//!   about to be logged, from the moment that the library is loaded; and the errors of such
//!   statements, which may quote a value;
//! * [`discreetly`], around the function itself, replaces the text in `pg_stat_activity` and
//!   `debug_query_string` until the next statement sets them again, and gives errors no CONTEXT, so
//!   that the client's copy has none either. From then on the statement is known, also where it
//!   called the function by way of another one.
//!
//! Until the function runs, the text is in `pg_stat_activity`. A statement that does not name the
//! function, because another function calls it, is logged by `log_statement` before anything can be
//! known of it. What other extensions store of statements is theirs: pg_stat_statements takes
//! constants out of all but utility statements (DO, CALL, PREPARE).
#![allow(unsafe_code)] // variables and functions of the server's logging

use std::{
    ffi::{CStr, c_char},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use pgrx::{pg_guard, pg_sys};

use crate::{error::Error, pg::worker};

/// What is shown of a statement that has a secret in it.
const SHOWN: &CStr = c"SELECT rag_create_secret(...)";
/// What is shown of its parameters, plan and context.
const ELLIPSIS: &CStr = c"(...)";
/// A text that names it is hidden, whatever its case.
const FUNCTION: &[u8] = b"rag_create_secret";

/// Errors of this library say that they come from a function of this name ([`Error`]).
const OUR_ERRORS: &CStr = c"rag";

/// Whether the function itself is at work.
static IS_AT_WORK: AtomicBool = AtomicBool::new(false);
/// Whether the next error is the function's own, which quotes no value.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Runs `f` with [`SHOWN`] in the place of the text of the present statement, where it stays until
/// the next one.
///
/// # Errors
/// Those of `f`, which must be raised without running anything else: they will have no CONTEXT.
pub fn discreetly<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: Postgres only reads the text, which lives forever. The context callbacks are those of
    // the callers, who are still there; where an ERROR leaves them out, whoever catches it puts
    // back his own (PG_CATCH, the main loops).
    unsafe {
        // a background worker may have no text, and nothing that resets it
        if !pg_sys::debug_query_string.is_null() {
            pg_sys::debug_query_string = SHOWN.as_ptr();
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, SHOWN.as_ptr());
        }
        let callbacks = pg_sys::error_context_stack;
        pg_sys::error_context_stack = std::ptr::null_mut();
        let result = at_work(f);
        HAS_FAILED.store(result.is_err(), Relaxed);
        if result.is_ok() {
            pg_sys::error_context_stack = callbacks;
        }
        result
    }
}

fn at_work<R>(f: impl FnOnce() -> R) -> R {
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            IS_AT_WORK.store(false, Relaxed);
        }
    }
    IS_AT_WORK.store(true, Relaxed);
    let _done = Done;
    f()
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

/// Takes the text of statements that call the function out of what is about to be logged. It
/// changes texts in place, as an error that is being reported is no time to allocate memory.
#[pg_guard]
unsafe extern "C-unwind" fn on_log(error: *mut pg_sys::ErrorData) {
    // SAFETY: Postgres passes the error that it is about to log, whose texts are its own and can be
    // written to.
    unsafe {
        let statement = pg_sys::debug_query_string;
        let in_statement = statement == SHOWN.as_ptr() || names(statement);
        if in_statement {
            pg_sys::debug_query_string = SHOWN.as_ptr();
        }
        if let Some(error) = error.as_mut() {
            let is_kept_back = in_statement && may_quote(error);
            hide_texts(error, in_statement, is_kept_back);
            if is_kept_back {
                error.output_to_server = false;
                if error.elevel >= pgrx::PgLogLevel::ERROR as i32 {
                    let state = crate::pg::sqlstate::sqlstate(error.sqlerrcode.into());
                    pgrx::log!(
                        "rag: a statement with a secret failed with SQLSTATE {state}; the error may quote it"
                    );
                }
            }
        }
        if let Some(error) = error.as_mut() {
            worker::keep_end_quiet(error);
        }
        if let Some(Some(next)) = NEXT_HOOK.get() {
            next(error);
        }
    }
}

/// Replaces the texts of statements. An error that `is_kept_back` goes to the client alone.
///
/// # Safety
/// The texts are null, or end with NUL and are nobody else's.
unsafe fn hide_texts(error: &mut pg_sys::ErrorData, in_statement: bool, is_kept_back: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        // messages for people name functions for good reason, and quote no whole statement
        if error.elevel < pgrx::PgLogLevel::INFO as i32 {
            // what EXECUTE executes is the detail: a statement that was PREPAREd
            if in_statement || names(error.message) || names(error.detail) {
                if let Some(start) = statement_in(error.message) {
                    hide(error.message, start, SHOWN);
                }
                // parameters, parse trees
                hide(error.detail, 0, ELLIPSIS);
            }
        }
        // statements of others, of a deadlock
        if names(error.detail_log) {
            hide(error.detail_log, 0, ELLIPSIS);
        }
        // of what is not logged, it is the client's
        if names(error.context) || in_statement && !is_kept_back {
            hide(error.context, 0, ELLIPSIS);
        }
        if names(error.internalquery) {
            hide(error.internalquery, 0, SHOWN);
            error.internalpos = 0;
        }
    }
}

/// Whether a message may quote what is in a statement with a secret: all that is not the function's
/// own, and not of a kind that is about the server and its rights.
fn may_quote(error: &pg_sys::ErrorData) -> bool {
    let levels = pgrx::PgLogLevel::INFO as i32..=pgrx::PgLogLevel::ERROR as i32;
    if !levels.contains(&error.elevel) || IS_AT_WORK.load(Relaxed) {
        return false;
    }
    // SAFETY: null, or a text that the error's reporter gave.
    let is_ours =
        !error.funcname.is_null() && unsafe { CStr::from_ptr(error.funcname) } == OUR_ERRORS;
    if is_ours && HAS_FAILED.swap(false, Relaxed) {
        return false;
    }
    let state = crate::pg::sqlstate::sqlstate(error.sqlerrcode.into());
    !(matches!(&state[..2], "08" | "25" | "40" | "53" | "57" | "58")
        || matches!(&*state, "42501" | "42883"))
}

/// Where a statement begins in a message that logs it; `None` where the message is about something
/// else.
///
/// # Safety
/// `text` is NULL, or a text that ends with NUL.
unsafe fn statement_in(text: *const c_char) -> Option<usize> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let after =
        |at: usize, what: &[u8]| position(&text[at..], what).map(|found| at + found + what.len());
    // "duration: 0.1 ms  statement: ...", "execute name: ..."
    let start = if text.starts_with(b"duration: ") {
        after(0, b" ms  ")?
    } else {
        0
    };
    let rest = &text[start..];
    if rest.starts_with(b"statement: ") {
        return Some(start + b"statement: ".len());
    }
    if rest.starts_with(b"plan:\n") {
        return Some(start + b"plan:\n".len());
    }
    if [&b"execute "[..], b"parse ", b"bind "]
        .iter()
        .any(|word| rest.starts_with(word))
    {
        return after(start, b": ");
    }
    // of an extension
    contains_name(rest).then_some(start)
}

/// Writes `shown` in the place of a text from `start` on, or as much of it as there is room for.
///
/// # Safety
/// `text` is NULL, or a text that ends with NUL, has `start` bytes, and that nobody else uses.
unsafe fn hide(text: *mut c_char, start: usize, shown: &CStr) {
    if text.is_null() {
        return;
    }
    // SAFETY: what is written ends where the text did, or before.
    unsafe {
        let rest = text.add(start);
        let shown = shown.to_bytes();
        let length = shown.len().min(CStr::from_ptr(rest).count_bytes());
        std::ptr::copy_nonoverlapping(shown.as_ptr().cast(), rest, length);
        *rest.add(length) = 0;
    }
}

/// Whether a text names the function.
///
/// # Safety
/// `text` is NULL, or a text that ends with NUL.
unsafe fn names(text: *const c_char) -> bool {
    // SAFETY: as promised by the caller.
    !text.is_null() && contains_name(unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn contains_name(text: &[u8]) -> bool {
    const ESCAPED: &[u8] = b"U&\"";
    if position(text, FUNCTION).is_some() {
        return true;
    }
    let mut rest = text;
    while let Some(at) = position(rest, ESCAPED) {
        rest = &rest[at + ESCAPED.len()..];
        if is_escaped_name(rest) {
            return true;
        }
    }
    false
}

fn position(text: &[u8], phrase: &[u8]) -> Option<usize> {
    text.windows(phrase.len())
        .position(|window| window.eq_ignore_ascii_case(phrase))
}

/// Whether what follows `U&"` is the function's name, with whatever escape character:
/// `rag\005fcreate_secret"`.
fn is_escaped_name(mut text: &[u8]) -> bool {
    let is_code = |digits: &[u8], expected: u8| {
        std::str::from_utf8(digits)
            .is_ok_and(|digits| u32::from_str_radix(digits, 16) == Ok(expected.into()))
    };
    for expected in FUNCTION {
        let length = match text {
            [first, ..] if first == expected => 1,
            [_, b'+', code @ ..] if code.len() >= 6 && is_code(&code[..6], *expected) => 8,
            [_, code @ ..] if code.len() >= 4 && is_code(&code[..4], *expected) => 5,
            _ => return false,
        };
        text = &text[length..];
    }
    text.first() == Some(&b'"')
}
