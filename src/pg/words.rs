//! The words of many texts: what the dictionaries make of a word is remembered.
//!
//! Words are those of [`rag_words`]. For the analysis `exact`, and for configurations with another
//! parser than PostgreSQL's, they are those of the parser.
#![allow(unsafe_code)] // the text search functions of the server

use std::{
    collections::HashMap,
    ffi::{CStr, c_char, c_int},
};

use pgrx::pg_sys;
use rag_pages::memory::{OutOfMemory, Reserve, append, push, with_room};
use rag_words::{Kind, Purpose, Splitter, Token, Weight, fold_accents};

use super::{
    memory::{OwnedContext, with_error_reserve},
    text_search::{each_lexeme, each_piece},
};

pub use super::analyzer::{Analyzer, Occurrence};

/// Longer words are left out (MAXSTRLEN of `parsetext`).
const MAX_WORD_BYTES: usize = 2047;
/// Bytes that the words and their lexemes may take. Frequent words come early, so nothing is
/// forgotten for a new one.
const KNOWN_BYTES: usize = 8 << 20;
/// What an entry takes besides its word and its lexemes, about.
const ENTRY_BYTES: usize = 96;

/// `pg_catalog.default`, whose types of words [`token_type`] knows.
const DEFAULT_PARSER: u32 = 3722;

/// Does what [`Analyzer::each_occurrence`] does, for a configuration that does not change
/// meanwhile. Dictionaries are asked once for each word.
///
/// Some dictionaries read several words at once, as a thesaurus does. A piece of a text with such
/// words has those that PostgreSQL's parser finds, together with compounds and their parts.
pub struct Words {
    analyzer: Analyzer,
    splitter: Splitter,
    known: HashMap<Vec<u8>, Lexemes>,
    /// Lexemes, each with a zero at its end: the known ones, then those of the piece at hand.
    lexemes: Vec<u8>,
    known_lexemes: usize,
    known_bytes: usize,
    /// The words of the piece at hand.
    found: Vec<FoundWord>,
    /// Number of positions of the pieces before, and of the piece at hand.
    positions: (u32, u32),
    /// Key of a word: its type, and its bytes.
    key: Vec<u8>,
    /// A dictionary wants several words at once.
    has_phrases: bool,
}

/// Where the lexemes of a word are.
#[derive(Clone, Copy, Default)]
struct Lexemes {
    start: usize,
    end: usize,
    /// No dictionary knows the word, so that `to_tsvector` does not count it.
    is_unknown: bool,
}

/// A word of the piece at hand, and where in it.
struct FoundWord {
    found: Found,
    weight: Weight,
    position: u32,
    places: u32,
    is_needed: bool,
}

/// What is known of a word.
#[derive(Clone, Copy)]
enum Found {
    /// What the dictionaries made of it.
    Lexemes(Lexemes),
    /// The number of a token that is a term itself.
    Token(usize),
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
    pub fn new(analyzer: Analyzer) -> Self {
        Self {
            analyzer,
            splitter: Splitter::default(),
            known: HashMap::new(),
            lexemes: vec![],
            known_lexemes: 0,
            known_bytes: 0,
            found: vec![],
            positions: (0, 0),
            key: vec![],
            has_phrases: false,
        }
    }

    /// Calls `f` with each term of a text. See [`Analyzer::each_occurrence`].
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn each_occurrence(
        &mut self,
        text: &[u8],
        purpose: Purpose,
        mut f: impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.positions = (0, 0);
        each_piece(text, |piece, memory| {
            self.positions = (self.positions.0 + self.positions.1, 0);
            if !self.has_phrases {
                match self.read(piece, purpose, memory) {
                    Ok(()) => return self.found(&mut f),
                    Err(Stop::OutOfMemory) => return Err(OutOfMemory),
                    // Which words a text has must not depend on the texts before it. The words
                    // of the parser are the same either way.
                    Err(Stop::Phrases) => self.has_phrases = !self.is_split(),
                }
            }
            self.parsed(piece, purpose, &mut f)
        })
    }

    fn found(
        &self,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.found.iter().try_for_each(|word| {
            let mut f = |term: &[u8]| {
                f(Occurrence {
                    term,
                    weight: word.weight,
                    position: Some(self.positions.0 + word.position),
                    places: word.places,
                    is_needed: word.is_needed,
                })
            };
            let of = match word.found {
                Found::Lexemes(of) => of,
                Found::Token(number) => return f(self.splitter.token(number).text.as_bytes()),
            };
            let lexemes = &self.lexemes[of.start..of.end];
            if lexemes.is_empty() && word.places == 1 {
                return f(&[]);
            }
            let mut each = lexemes.split_inclusive(|byte| *byte == 0);
            each.try_for_each(|lexeme| f(&lexeme[..lexeme.len() - 1]))
        })
    }

    /// Calls `f` with the lexemes that PostgreSQL's parser and dictionaries make of a piece, and
    /// those of the compounds in it.
    fn parsed(
        &mut self,
        piece: &[u8],
        purpose: Purpose,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let (config, folds) = (self.analyzer.config, self.analyzer.folds_accents);
        let before = self.positions.0;
        let mut lexemes_of = |text: &[u8], weight, is_counted: bool| {
            each_lexeme(config, text, |lexeme, position| {
                let folded = match std::str::from_utf8(lexeme) {
                    Ok(lexeme) if folds => Some(fold_accents(lexeme)),
                    _ => None,
                };
                f(Occurrence {
                    term: folded.as_deref().map_or(lexeme, str::as_bytes),
                    weight,
                    position: is_counted.then_some(before + position),
                    places: 1,
                    is_needed: is_counted,
                })
            })
        };
        self.positions.1 = lexemes_of(piece, Weight::Whole, true)?;
        if !self.is_split() {
            return Ok(());
        }
        self.split(piece, purpose)?;
        let compounds = self.splitter.iter().filter(|token| token.is_compound);
        compounds
            .filter(|token| !token.is_stem)
            .try_for_each(|token| {
                // the parser counts compounds otherwise
                lexemes_of(token.text.as_bytes(), token.weight, false).map(drop)
            })
    }

    fn is_split(&self) -> bool {
        self.analyzer.is_split()
    }

    fn split(&mut self, piece: &[u8], purpose: Purpose) -> Result<(), OutOfMemory> {
        let text = String::from_utf8_lossy(piece);
        self.splitter.split(&text, self.analyzer.analysis, purpose)
    }

    /// Finds the words of a piece of a text. Allocates in `memory`.
    fn read(&mut self, piece: &[u8], purpose: Purpose, memory: &OwnedContext) -> Result<(), Stop> {
        self.found.clear();
        self.lexemes.truncate(self.known_lexemes);
        if !self.is_split() {
            // SAFETY: what `parse` owns is in `self`, which an ERROR leaves whole.
            return unsafe { with_error_reserve(memory, || self.parse(piece)) };
        }
        self.split(piece, purpose)?;
        let splitter = std::mem::take(&mut self.splitter);
        // SAFETY: as above.
        let done = unsafe { with_error_reserve(memory, || self.look_up(&splitter)) };
        self.positions.1 = splitter.positions();
        self.splitter = splitter;
        done
    }

    /// Asks the dictionaries for each token of the splitter.
    ///
    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn look_up(&mut self, splitter: &Splitter) -> Result<(), Stop> {
        // SAFETY: the entry of the cache lives as long as the session.
        let config = unsafe { &*raw::lookup_ts_config_cache(self.analyzer.config) };
        for (number, token) in splitter.iter().enumerate() {
            match token_type(token.kind) {
                None => self.add(Found::Token(number), token)?,
                // SAFETY: the caller's promise.
                Some(kind) => unsafe { self.look_up_token(config, kind, token)? },
            }
        }
        Ok(())
    }

    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn look_up_token(
        &mut self,
        config: &pg_sys::TSConfigCacheEntry,
        kind: c_int,
        token: Token<'_>,
    ) -> Result<(), Stop> {
        let mut lexemes = Lexemes::default();
        if kind < config.lenmap {
            // SAFETY: the map has `lenmap` entries.
            let dictionaries = unsafe { &*config.map.add(kind as usize) };
            // SAFETY: the caller's promise.
            lexemes = unsafe { self.lexemes_of(kind, token.text.as_bytes(), dictionaries)? };
        }
        let found = &self.lexemes[lexemes.start..lexemes.end];
        let is_same = found.strip_suffix(&[0]) == Some(token.text.as_bytes());
        if !token.is_stem || !(is_same || found.is_empty()) {
            self.add(Found::Lexemes(lexemes), token)?;
        }
        Ok(())
    }

    fn add(&mut self, found: Found, token: Token<'_>) -> Result<(), OutOfMemory> {
        let word = FoundWord {
            found,
            weight: token.weight,
            position: token.position,
            places: token.places,
            is_needed: token.is_needed,
        };
        push(&mut self.found, word)
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
            let config = &*raw::lookup_ts_config_cache(self.analyzer.config);
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
                    if lexemes.is_unknown {
                        continue;
                    }
                    let word = FoundWord {
                        found: Found::Lexemes(lexemes),
                        weight: Weight::Whole,
                        position: self.positions.1,
                        places: 1,
                        is_needed: true,
                    };
                    push(&mut self.found, word)?;
                    self.positions.1 += 1;
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
        let is_unknown = !unsafe { self.ask(word, dictionaries)? };
        if self.analyzer.folds_accents {
            self.fold(start)?;
        }
        let end = self.lexemes.len();
        let lexemes = Lexemes {
            start,
            end,
            is_unknown,
        };
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

    /// Folds the accents of the lexemes that begin at a place.
    fn fold(&mut self, start: usize) -> Result<(), OutOfMemory> {
        if self.lexemes[start..].is_ascii() {
            return Ok(());
        }
        let lexemes = String::from_utf8_lossy(&self.lexemes[start..]);
        let folded = fold_accents(&lexemes).into_owned();
        self.lexemes.truncate(start);
        append(&mut self.lexemes, folded.as_bytes())
    }

    /// Appends the lexemes that the dictionaries make of a word. Returns false if none knows it.
    ///
    /// # Safety
    /// See [`with_error_reserve`].
    unsafe fn ask(
        &mut self,
        word: &[u8],
        dictionaries: &pg_sys::ListDictionary,
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
                    append(&mut self.lexemes, text.to_bytes_with_nul())?;
                    lexeme = lexeme.add(1);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the number that PostgreSQL's default parser has for words of a kind, or `None` for those
/// that no dictionary is asked for.
fn token_type(kind: Kind) -> Option<c_int> {
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
