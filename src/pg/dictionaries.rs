//! The dictionaries of a text search configuration, asked for one word after the other.
#![allow(unsafe_code)] // the text search functions of the server

use std::ffi::{CStr, c_int};

use pgrx::pg_sys;
use rag_pages::memory::{OutOfMemory, append};
use rag_words::Kind;

/// `pg_catalog.default`, whose types of words [`token_type`] knows.
const DEFAULT_PARSER: u32 = 3722;

/// Why a piece was not read to its end.
pub enum Stop {
    /// A dictionary wants several words at once.
    Phrases,
    OutOfMemory,
}

impl From<OutOfMemory> for Stop {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Appends the lexemes that the dictionaries make of a word, each with a zero at its end. Returns
/// false if none knows it.
///
/// # Safety
/// See [`guarded_in`](super::memory::guarded_in).
pub unsafe fn ask(
    word: &[u8],
    dictionaries: &pg_sys::ListDictionary,
    lexemes: &mut Vec<u8>,
) -> Result<bool, Stop> {
    let mut word = word;
    // SAFETY: dictionaries read the word, and return lexemes in the current memory context.
    unsafe {
        for i in 0..dictionaries.len as usize {
            let dictionary = raw::lookup_ts_dictionary_cache(*dictionaries.dictIds.add(i));
            let mut state = pg_sys::DictSubState::default();
            let answer = raw::FunctionCall4Coll(
                &raw mut (*dictionary).lexize,
                pg_sys::InvalidOid,
                (*dictionary).dictData.into(),
                word.as_ptr().into(),
                (word.len() as i32).into(),
                (&raw mut state).into(),
            );
            if state.getnext {
                return Err(Stop::Phrases);
            }
            let mut lexeme = answer.cast_mut_ptr::<pg_sys::TSLexeme>();
            if lexeme.is_null() {
                continue; // the dictionary does not know the word
            }
            if u32::from((*lexeme).flags) & pg_sys::TSL_FILTER != 0 {
                word = CStr::from_ptr((*lexeme).lexeme).to_bytes();
                continue;
            }
            while !(*lexeme).lexeme.is_null() {
                let text = CStr::from_ptr((*lexeme).lexeme);
                append(lexemes, text.to_bytes_with_nul())?;
                lexeme = lexeme.add(1);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the number that PostgreSQL's default parser has for words of a kind, or `None` for those
/// that no dictionary is asked for.
pub fn token_type(kind: Kind) -> Option<c_int> {
    match kind {
        Kind::Ascii => Some(1),    // asciiword
        Kind::Letters => Some(2),  // word
        Kind::Mixed => Some(3),    // numword
        Kind::Version => Some(8),  // version
        Kind::Decimal => Some(20), // float
        Kind::Integer => Some(22), // uint
        Kind::Term => None,
    }
}

pub fn has_default_parser(config: pg_sys::Oid) -> bool {
    // SAFETY: the entry of the cache lives as long as the session.
    let parser = unsafe { (*pg_sys::lookup_ts_config_cache(config)).prsId };
    parser.to_u32() == DEFAULT_PARSER
}

/// Functions that are called without pgrx's guard, within
/// [`guarded_in`](super::memory::guarded_in).
pub mod raw {
    use pgrx::pg_sys::{Datum, FmgrInfo, Oid};

    use super::pg_sys;

    unsafe extern "C-unwind" {
        pub fn lookup_ts_config_cache(config: Oid) -> *mut pg_sys::TSConfigCacheEntry;
        pub fn lookup_ts_parser_cache(parser: Oid) -> *mut pg_sys::TSParserCacheEntry;
        pub fn lookup_ts_dictionary_cache(dictionary: Oid) -> *mut pg_sys::TSDictionaryCacheEntry;
        pub fn FunctionCall1Coll(f: *mut FmgrInfo, collation: Oid, a: Datum) -> Datum;
        pub fn FunctionCall2Coll(f: *mut FmgrInfo, collation: Oid, a: Datum, b: Datum) -> Datum;
        pub fn FunctionCall3Coll(
            f: *mut FmgrInfo,
            collation: Oid,
            a: Datum,
            b: Datum,
            c: Datum,
        ) -> Datum;
        pub fn FunctionCall4Coll(
            f: *mut FmgrInfo,
            collation: Oid,
            a: Datum,
            b: Datum,
            c: Datum,
            d: Datum,
        ) -> Datum;
    }
}
