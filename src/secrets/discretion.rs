//! Hiding the text of statements that contain a secret.
//!
//! Postgres shows the text of a statement in `pg_stat_activity.query` and logs it: before it runs
//! (`log_statement`), after it has run (`log_min_duration_statement`), as the STATEMENT of other
//! log entries, and as CONTEXT within PL/pgSQL. Errors quote parts of it. So there are two
//! measures:
//!
//! * [`install_log_hook`] replaces the whole text of each statement that names the function,
//!   wherever it is about to be logged, from the moment that the library is loaded. It also hides
//!   the errors of such statements, which may quote a value.
//! * [`hiding_statement_text`], around the function itself, replaces the text in `pg_stat_activity`
//!   and `debug_query_string` until the next statement sets them. It gives errors no CONTEXT, so
//!   that the client's copy has none either. From then on the statement is also known if it called
//!   the function through another one.
//!
//! The text of a statement is also left out with an error about a definition, as a user may have
//! written a key or a password where a reference to a secret belongs.
//!
//! Until the function runs, the text is in `pg_stat_activity`. A statement that calls the function
//! through another one is logged by `log_statement` before it is known. Other extensions may store
//! the text too: pg_stat_statements removes constants from all but utility statements (DO, CALL,
//! PREPARE).

use std::{
    ffi::CStr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::{
    error::{Error, is_shown_in_log, sqlstate},
    pg::{
        hooks::{self, LogEntry, LogText},
        process,
    },
};

/// Shown instead of a statement with a secret.
const SHOWN: &CStr = c"SELECT rag_create_secret(...)";
/// Shown instead of its parameters, plan and context.
const ELLIPSIS: &CStr = c"(...)";
/// A text that names this function is hidden. Case is ignored.
const FUNCTION: &[u8] = b"rag_create_secret";
/// Errors of this library give this as the name of their function ([`Error`]).
const OUR_ERRORS: &CStr = c"rag";

/// True while the function itself runs.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
/// True if the next error is the function's own, which quotes no value.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Runs `f` with [`SHOWN`] as the text of the current statement. The text stays until the next
/// statement.
///
/// # Errors
/// Those of `f`. They must be raised without running anything else, as they will have no CONTEXT.
pub fn hiding_statement_text<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // a background worker may have no text, and nothing that resets it
    if process::statement_text_is(|_| true) {
        process::replace_statement_text(SHOWN);
        process::report_activity_text(SHOWN);
    }
    process::without_error_context(|| {
        let result = running(f);
        HAS_FAILED.store(result.is_err(), Relaxed);
        result
    })
}

fn running<R>(f: impl FnOnce() -> R) -> R {
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            IS_RUNNING.store(false, Relaxed);
        }
    }
    IS_RUNNING.store(true, Relaxed);
    let _done = Done;
    f()
}

/// Registers [`hide_secrets`] for everything that this process and its children log.
pub fn install_log_hook() {
    hooks::watch_log(hide_secrets);
}

/// Removes the text of statements that call the function from an entry that is about to be logged.
fn hide_secrets(entry: &mut LogEntry<'_>) {
    let in_statement = process::statement_text_is(|text| contains_name(text.to_bytes()));
    if in_statement {
        process::replace_statement_text(SHOWN);
    }
    let is_withheld = in_statement && may_quote(entry);
    hide_texts(entry, in_statement, is_withheld);
    if is_withheld {
        entry.keep_from_server();
        if entry.level() >= pgrx::PgLogLevel::ERROR as i32 {
            let state = sqlstate(entry.code().into());
            pgrx::log!(
                "rag: a statement with a secret failed with SQLSTATE {state}; its error may \
                 contain the secret"
            );
        }
    }
    if is_of_definition(entry) {
        hide_definition(entry);
    }
    entry.keep_worker_end_quiet();
}

/// Returns true for an error of a definition, which may have a key or a password where none may be.
fn is_of_definition(entry: &LogEntry<'_>) -> bool {
    let name = entry.function().map(CStr::to_bytes);
    name == Some(crate::error::DEFINITION.as_bytes())
}

/// Removes the statement that an error is about. Its message names the field, and not the value.
fn hide_definition(entry: &mut LogEntry<'_>) {
    entry.hide_statement();
    let quotes = |text: &[u8]| position(text, b"SQL statement \"").is_some();
    if entry.text(LogText::Context).is_some_and(quotes) {
        entry.overwrite(LogText::Context, 0, ELLIPSIS);
    }
}

/// Replaces the texts of statements. An entry that `is_withheld` goes to the client only.
fn hide_texts(entry: &mut LogEntry<'_>, in_statement: bool, is_withheld: bool) {
    use LogText::{Context, Detail, DetailLog, InternalQuery, Message};
    let names = |entry: &LogEntry<'_>, text: LogText| entry.text(text).is_some_and(contains_name);
    // messages for people may name functions, and quote no whole statement
    if entry.level() < pgrx::PgLogLevel::INFO as i32 {
        // the detail of EXECUTE is the statement that was PREPAREd
        if in_statement || names(entry, Message) || names(entry, Detail) {
            if let Some(start) = entry.text(Message).and_then(statement_in) {
                entry.overwrite(Message, start, SHOWN);
            }
            // parameters, parse trees
            entry.overwrite(Detail, 0, ELLIPSIS);
        }
    }
    // statements of other sessions, in a deadlock
    if names(entry, DetailLog) {
        entry.overwrite(DetailLog, 0, ELLIPSIS);
    }
    // the context of an entry that is not logged is for the client
    if names(entry, Context) || in_statement && !is_withheld {
        entry.overwrite(Context, 0, ELLIPSIS);
    }
    if names(entry, InternalQuery) {
        entry.overwrite(InternalQuery, 0, SHOWN);
    }
}

/// Returns true if a message may quote parts of a statement with a secret. Messages of the function
/// itself do not, and neither do those about the server and its privileges.
fn may_quote(entry: &LogEntry<'_>) -> bool {
    let levels = pgrx::PgLogLevel::INFO as i32..=pgrx::PgLogLevel::ERROR as i32;
    if !levels.contains(&entry.level()) || IS_RUNNING.load(Relaxed) {
        return false;
    }
    if entry.function() == Some(OUR_ERRORS) && HAS_FAILED.swap(false, Relaxed) {
        return false;
    }
    !is_shown_in_log(entry.code().into())
}

/// Returns where a statement begins in a message that logs it, or `None` if the message is about
/// something else.
fn statement_in(text: &[u8]) -> Option<usize> {
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
    // a message of another extension
    contains_name(rest).then_some(start)
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

/// Returns true if the text after `U&"` is the function's name, with any escape character:
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
