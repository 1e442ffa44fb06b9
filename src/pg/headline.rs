//! Where in a text its lexemes are, for configurations whose dictionaries read several words at
//! once: what `ts_headline` does.
#![allow(unsafe_code)] // the text search functions of the server

use std::{collections::BTreeSet, ffi::c_char, ops::Range};

use pgrx::{direct_function_call, pg_sys};

use super::{
    memory::{OwnedContext, guarded_in},
    text_search::{MAX_POSITION, QuietNotices},
};

/// Number of words that there is room for at first.
const WORDS: usize = 256;
/// Of more lexemes than these, the others are not looked for: each word is compared with each.
const MAX_LEXEMES: usize = 1000;
/// How far behind the last word the next one begins at most.
const MAX_GAP: usize = 4096;

/// Calls `f` with each lexeme of a text that is one of some, its position as
/// [`each_lexeme`](super::text_search::each_lexeme) counts, and its place in bytes. Allocates in
/// `memory`.
///
/// # Errors
/// Those of `f`.
pub fn each_lexeme<E>(
    config: pg_sys::Oid,
    text: &[u8],
    memory: &OwnedContext,
    wanted: &BTreeSet<Vec<u8>>,
    mut f: impl FnMut(&[u8], u32, Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    if wanted.is_empty() {
        return Ok(());
    }
    let query = query_of(wanted);
    let parsed = parse(config, text, memory, query);
    let (mut at, mut place, mut next) = (0, 0..0, 0);
    for i in 0..parsed.curwords as usize {
        // SAFETY: as many words are in `memory`, with their bytes and operands of the query.
        let (word, is_repeated, position, lexeme) = unsafe {
            let entry = &*parsed.words.add(i);
            let word = std::slice::from_raw_parts(entry.word.cast::<u8>(), entry.len() as usize);
            let lexeme = (!entry.item.is_null()).then(|| operand(query, entry.item));
            (word, entry.repeated() != 0, u32::from(entry.pos), lexeme)
        };
        if !is_repeated {
            place = place_in(text, word, &mut at);
        }
        if let Some(lexeme) = lexeme {
            let position = match position {
                MAX_POSITION.. => next,
                position => position.saturating_sub(1),
            };
            next = next.max(position + 1);
            f(lexeme, position, place.clone())?;
        }
    }
    Ok(())
}

/// Returns where a word of a text is that the parser has found after the words before `at`. Parts
/// of a compound follow it, so `at` is where the last word begins.
pub fn place_in(text: &[u8], word: &[u8], at: &mut usize) -> Range<usize> {
    // most parsers return words where they are
    let own = (word.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let start = if own <= text.len() && own + word.len() <= text.len() {
        Some(own)
    } else {
        find(&text[*at..], word).map(|found| *at + found)
    };
    let Some(start) = start else {
        return 0..0; // the parser has made it up
    };
    *at = start;
    start..start + word.len()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    let mut places = text.windows(word.len().max(1)).take(MAX_GAP);
    places.position(|place| place == word)
}

/// Returns a `tsquery` of some lexemes.
fn query_of(wanted: &BTreeSet<Vec<u8>>) -> pg_sys::TSQuery {
    let quoted = wanted.iter().take(MAX_LEXEMES).map(|lexeme| {
        let lexeme = String::from_utf8_lossy(lexeme);
        format!("'{}'", lexeme.replace('\\', "\\\\").replace('\'', "''"))
    });
    let text = quoted.collect::<Vec<_>>().join(" | ");
    let text = std::ffi::CString::new(text).unwrap_or_default();
    let text = pg_sys::Datum::from(text.as_ptr());
    // SAFETY: the input function of tsquery, with a text that ends with NUL.
    let query = unsafe { direct_function_call::<pg_sys::Datum>(pg_sys::tsqueryin, &[Some(text)]) };
    query.map_or(std::ptr::null_mut(), |query| query.cast_mut_ptr())
}

/// Returns the text of an operand of a query.
///
/// # Safety
/// The operand is one of the query.
unsafe fn operand<'q>(query: pg_sys::TSQuery, operand: *mut pg_sys::QueryOperand) -> &'q [u8] {
    // SAFETY: the operands' texts follow the items (GETOPERAND).
    unsafe {
        let items = size_of::<pg_sys::TSQueryData>()
            + (*query).size as usize * size_of::<pg_sys::QueryItem>();
        let texts = query.cast::<u8>().add(items);
        let start = texts.add((*operand).distance() as usize);
        std::slice::from_raw_parts(start, (*operand).length() as usize)
    }
}

/// Functions that are called without pgrx's guard, within [`guarded_in`].
mod raw {
    use super::{c_char, pg_sys};

    unsafe extern "C-unwind" {
        pub fn palloc(bytes: usize) -> *mut std::ffi::c_void;
        pub fn hlparsetext(
            config: pg_sys::Oid,
            parsed: *mut pg_sys::HeadlineParsedText,
            query: pg_sys::TSQuery,
            text: *mut c_char,
            bytes: i32,
        );
    }
}

/// Parses a text. The words are in `memory`.
fn parse(
    config: pg_sys::Oid,
    text: &[u8],
    memory: &OwnedContext,
    query: pg_sys::TSQuery,
) -> pg_sys::HeadlineParsedText {
    let mut parsed = pg_sys::HeadlineParsedText {
        lenwords: WORDS as i32,
        ..Default::default()
    };
    let bytes = text.as_ptr().cast::<c_char>().cast_mut();
    let _quiet = QuietNotices::begin();
    // SAFETY: `hlparsetext` reads as many bytes, and writes neither to them nor beyond its own
    // words.
    unsafe {
        guarded_in(memory, || {
            let room = WORDS * size_of::<pg_sys::HeadlineWordEntry>();
            parsed.words = raw::palloc(room).cast();
            raw::hlparsetext(config, &mut parsed, query, bytes, text.len() as i32);
        });
    }
    parsed
}
