//! The lexemes of many texts: what the dictionaries make of a word is remembered.
#![allow(unsafe_code)] // the text search functions of the server

use std::{
    collections::HashMap,
    ffi::{CStr, c_char, c_int},
};

use pgrx::pg_sys;
use rag_pages::memory::{OutOfMemory, Reserve, append, push, with_room};

use super::{
    memory::{OwnedContext, with_error_reserve},
    text_search::{each_lexeme, each_piece},
};

/// Longer words are left out (MAXSTRLEN of `parsetext`).
const MAX_WORD_BYTES: usize = 2047;
/// Bytes that the words and their lexemes may take. Frequent words come early, so nothing is
/// forgotten for a new one.
const KNOWN_BYTES: usize = 8 << 20;
/// What an entry takes besides its word and its lexemes, about.
const ENTRY_BYTES: usize = 96;

/// Does what [`each_lexeme`] does, for a configuration that does not change meanwhile. Dictionaries
/// are asked once for each word.
///
/// Some dictionaries read several words at once, as a thesaurus does. With them nothing is
/// remembered.
pub struct Words {
    config: pg_sys::Oid,
    known: HashMap<Vec<u8>, Lexemes>,
    /// Lexemes, each with a zero at its end: the known ones, then those of the piece at hand.
    lexemes: Vec<u8>,
    known_lexemes: usize,
    known_bytes: usize,
    /// The words of the piece at hand.
    found: Vec<Lexemes>,
    /// Key of a word: its type, and its bytes.
    key: Vec<u8>,
    /// A dictionary wants several words at once.
    has_phrases: bool,
}

/// Where the lexemes of a word are.
#[derive(Clone, Copy)]
struct Lexemes {
    start: usize,
    end: usize,
}

/// Why a piece was not read to its end.
enum Stop {
    Phrases,
    OutOfMemory,
}

impl From<OutOfMemory> for Stop {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl Words {
    pub fn new(config: pg_sys::Oid) -> Self {
        Self {
            config,
            known: HashMap::new(),
            lexemes: vec![],
            known_lexemes: 0,
            known_bytes: 0,
            found: vec![],
            key: vec![],
            has_phrases: false,
        }
    }

    /// Calls `f` with each lexeme of a text. See [`each_lexeme`].
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn each_lexeme(
        &mut self,
        text: &[u8],
        mut f: impl FnMut(&[u8]) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        each_piece(text, |piece, memory| {
            if !self.has_phrases {
                match self.read(piece, memory) {
                    Ok(()) => return self.found(&mut f),
                    Err(Stop::OutOfMemory) => return Err(OutOfMemory),
                    Err(Stop::Phrases) => self.has_phrases = true,
                }
            }
            each_lexeme(self.config, piece, &mut f)
        })
    }

    fn found(
        &self,
        f: &mut impl FnMut(&[u8]) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.found.iter().try_for_each(|of| {
            let lexemes = &self.lexemes[of.start..of.end];
            let mut each = lexemes.split_inclusive(|byte| *byte == 0);
            each.try_for_each(|lexeme| f(&lexeme[..lexeme.len() - 1]))
        })
    }

    /// Finds the words of a piece of a text. Allocates in `memory`.
    fn read(&mut self, piece: &[u8], memory: &OwnedContext) -> Result<(), Stop> {
        self.found.clear();
        self.lexemes.truncate(self.known_lexemes);
        // SAFETY: what `parse` owns is in `self`, which an ERROR leaves whole.
        unsafe { with_error_reserve(memory, || self.parse(piece)) }
    }

    /// Does what `parsetext` does.
    ///
    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn parse(&mut self, piece: &[u8]) -> Result<(), Stop> {
        let none = pg_sys::InvalidOid;
        // SAFETY: the entries of the caches live as long as the session. The parser returns words
        // within the piece or in its own memory, which are valid until it is asked for the next.
        unsafe {
            let config = &*raw::lookup_ts_config_cache(self.config);
            let parser = raw::lookup_ts_parser_cache(config.prsId);
            let state = raw::FunctionCall2Coll(
                &raw mut (*parser).prsstart,
                none,
                piece.as_ptr().into(),
                (piece.len() as i32).into(),
            );
            loop {
                let mut word: *const c_char = std::ptr::null();
                let mut bytes: c_int = 0;
                let kind = raw::FunctionCall3Coll(
                    &raw mut (*parser).prstoken,
                    none,
                    state,
                    (&raw mut word).into(),
                    (&raw mut bytes).into(),
                );
                let kind = kind.value() as c_int;
                if kind <= 0 {
                    break;
                }
                if kind >= config.lenmap || bytes as usize >= MAX_WORD_BYTES {
                    continue;
                }
                let dictionaries = &*config.map.add(kind as usize);
                if dictionaries.len > 0 {
                    let word = std::slice::from_raw_parts(word.cast::<u8>(), bytes as usize);
                    let lexemes = self.lexemes_of(kind, word, dictionaries)?;
                    push(&mut self.found, lexemes)?;
                }
            }
            raw::FunctionCall1Coll(&raw mut (*parser).prsend, none, state);
        }
        Ok(())
    }

    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn lexemes_of(
        &mut self,
        kind: c_int,
        word: &[u8],
        dictionaries: &pg_sys::ListDictionary,
    ) -> Result<Lexemes, Stop> {
        self.key.clear();
        append(&mut self.key, &kind.to_le_bytes())?;
        append(&mut self.key, word)?;
        if let Some(known) = self.known.get(self.key.as_slice()) {
            return Ok(*known);
        }
        let start = self.lexemes.len();
        // SAFETY: the caller's promise.
        unsafe { self.ask(word, dictionaries)? };
        let end = self.lexemes.len();
        let lexemes = Lexemes { start, end };
        self.remember(lexemes)?;
        Ok(lexemes)
    }

    /// Remembers the lexemes of the word whose key is at hand, if there is room.
    fn remember(&mut self, lexemes: Lexemes) -> Result<(), OutOfMemory> {
        let bytes = self.key.len() + (lexemes.end - lexemes.start) + ENTRY_BYTES;
        self.known_bytes += bytes;
        // Once there is no room, nothing more is remembered: `known_lexemes` are the first ones.
        if self.known_bytes <= KNOWN_BYTES {
            let mut key = with_room(self.key.len())?;
            append(&mut key, &self.key)?;
            self.known.make_room(1)?;
            self.known.insert(key, lexemes);
            self.known_lexemes = lexemes.end;
        }
        Ok(())
    }

    /// Appends the lexemes that the dictionaries make of a word.
    ///
    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn ask(
        &mut self,
        word: &[u8],
        dictionaries: &pg_sys::ListDictionary,
    ) -> Result<(), Stop> {
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
                    append(&mut self.lexemes, text.to_bytes_with_nul())?;
                    lexeme = lexeme.add(1);
                }
                break;
            }
        }
        Ok(())
    }
}

/// Functions that are called without pgrx's guard, within [`with_error_reserve`].
mod raw {
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
