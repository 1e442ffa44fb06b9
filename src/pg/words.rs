//! The words of many texts: what the dictionaries make of a word is remembered.
//!
//! Words are those of [`rag_words`]. For the analysis `exact`, and for configurations with another
//! parser than PostgreSQL's, they are those of the parser.
#![allow(unsafe_code)] // the text search functions of the server

#[path = "words_parsed.rs"]
mod parsed;

use std::{
    collections::HashMap,
    ffi::{c_char, c_int},
    ops::Range,
};

use pgrx::pg_sys;
use rag_pages::memory::{OutOfMemory, Reserve, append, push, with_room};
use rag_words::{Purpose, Splitter, Token, Weight, fold_accents};

use super::{
    dictionaries::{Stop, ask, raw, token_type},
    headline,
    memory::{OwnedContext, guarded_in},
    text_search::each_piece,
};

pub use super::analyzer::{Analyzer, Occurrence};

/// Longer words are left out (MAXSTRLEN of `parsetext`).
const MAX_WORD_BYTES: usize = 2047;
/// Bytes that the words and their lexemes may take. Frequent words come early, so nothing is
/// forgotten for a new one.
const KNOWN_BYTES: usize = 8 << 20;
/// What an entry takes besides its word and its lexemes, about.
const ENTRY_BYTES: usize = 96;

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
    /// Number of bytes of the pieces before.
    bytes: usize,
    tells_places: bool,
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
    /// Where it is in the piece, if that is wanted.
    place: Range<usize>,
}

/// What is known of a word.
#[derive(Clone, Copy)]
enum Found {
    /// What the dictionaries made of it.
    Lexemes(Lexemes),
    /// The number of a token that is a term itself.
    Token(usize),
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
            bytes: 0,
            tells_places: false,
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
        self.each(text, |words, piece, memory| {
            match words.read(piece, purpose, memory)? {
                true => words.found(&mut f),
                false => words.parsed(piece, purpose, &mut f),
            }
        })
    }

    /// Calls `f` with each term of a text that is wanted, and perhaps with others, and tells where
    /// it is.
    ///
    /// # Errors
    /// Those of `f`, or memory runs out.
    pub fn each_place(
        &mut self,
        text: &[u8],
        is_wanted: &mut dyn FnMut(&[u8]) -> bool,
        mut f: impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.tells_places = true;
        let purpose = Purpose::Text;
        self.each(text, |words, piece, memory| {
            match words.read(piece, purpose, memory)? {
                true => words.found(&mut f),
                false => words.parsed_places(piece, memory, is_wanted, &mut f),
            }
        })
    }

    /// Calls `f` with each piece of a text.
    fn each(
        &mut self,
        text: &[u8],
        mut f: impl FnMut(&mut Self, &[u8], &OwnedContext) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        (self.positions, self.bytes) = ((0, 0), 0);
        each_piece(text, |piece, memory| {
            self.positions = (self.positions.0 + self.positions.1, 0);
            f(self, piece, memory)?;
            self.bytes += piece.len();
            Ok(())
        })
    }

    fn found(
        &self,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.found.iter().try_for_each(|word| {
            let mut f = |term: &[u8]| {
                f(Occurrence {
                    start: self.bytes + word.place.start,
                    end: self.bytes + word.place.end,
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

    fn is_split(&self) -> bool {
        self.analyzer.is_split()
    }

    fn split(&mut self, text: &str, purpose: Purpose) -> Result<(), OutOfMemory> {
        let analysis = self.analyzer.analysis;
        match self.tells_places {
            true => self.splitter.split_aligned(text, analysis, purpose),
            false => self.splitter.split(text, analysis, purpose),
        }
    }

    /// Returns where a token is in the text that was split, if that is wanted.
    fn place(&self, splitter: &Splitter, text: &str, token: &Token<'_>) -> Range<usize> {
        match self.tells_places {
            true => splitter.place(text, token),
            false => 0..0,
        }
    }

    /// Finds the words of a piece of a text. Returns false if a dictionary wants several words at
    /// once. Allocates in `memory`.
    fn read(
        &mut self,
        piece: &[u8],
        purpose: Purpose,
        memory: &OwnedContext,
    ) -> Result<bool, OutOfMemory> {
        if self.has_phrases {
            return Ok(false);
        }
        match self.read_words(piece, purpose, memory) {
            Ok(()) => Ok(true),
            Err(Stop::OutOfMemory) => Err(OutOfMemory),
            Err(Stop::Phrases) => {
                // Which words a text has must not depend on the texts before it. The words of the
                // parser are the same either way.
                self.has_phrases = !self.is_split();
                Ok(false)
            }
        }
    }

    fn read_words(
        &mut self,
        piece: &[u8],
        purpose: Purpose,
        memory: &OwnedContext,
    ) -> Result<(), Stop> {
        self.found.clear();
        self.lexemes.truncate(self.known_lexemes);
        if !self.is_split() {
            // SAFETY: what `parse` owns is in `self`, which an ERROR leaves whole.
            return unsafe { guarded_in(memory, || self.parse(piece)) };
        }
        let text = String::from_utf8_lossy(piece);
        self.split(&text, purpose)?;
        let splitter = std::mem::take(&mut self.splitter);
        // SAFETY: as above.
        let done = unsafe { guarded_in(memory, || self.look_up(&splitter, &text)) };
        self.positions.1 = splitter.positions();
        self.splitter = splitter;
        done
    }

    /// Asks the dictionaries for each token of the splitter.
    ///
    /// # Safety
    /// See [`guarded_in`].
    unsafe fn look_up(&mut self, splitter: &Splitter, text: &str) -> Result<(), Stop> {
        // SAFETY: the entry of the cache lives as long as the session.
        let config = unsafe { &*raw::lookup_ts_config_cache(self.analyzer.config) };
        for (number, token) in splitter.iter().enumerate() {
            let found = match token_type(token.kind) {
                None => Some(Found::Token(number)),
                // SAFETY: the caller's promise.
                Some(kind) => unsafe { self.look_up_token(config, kind, token)? },
            };
            if let Some(found) = found {
                let word = FoundWord {
                    found,
                    weight: token.weight,
                    position: token.position,
                    places: token.places,
                    is_needed: token.is_needed,
                    place: self.place(splitter, text, &token),
                };
                push(&mut self.found, word)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// See [`guarded_in`].
    unsafe fn look_up_token(
        &mut self,
        config: &pg_sys::TSConfigCacheEntry,
        kind: c_int,
        token: Token<'_>,
    ) -> Result<Option<Found>, Stop> {
        let mut lexemes = Lexemes::default();
        if kind < config.lenmap {
            // SAFETY: the map has `lenmap` entries.
            let dictionaries = unsafe { &*config.map.add(kind as usize) };
            // SAFETY: the caller's promise.
            lexemes = unsafe { self.lexemes_of(kind, token.text.as_bytes(), dictionaries)? };
        }
        let found = &self.lexemes[lexemes.start..lexemes.end];
        let is_same = found.strip_suffix(&[0]) == Some(token.text.as_bytes());
        let is_left_out = token.is_stem && (is_same || found.is_empty());
        Ok((!is_left_out).then_some(Found::Lexemes(lexemes)))
    }

    /// Does what `parsetext` does.
    ///
    /// # Safety
    /// See [`guarded_in`].
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
            let mut at = 0;
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
                    let found = FoundWord {
                        found: Found::Lexemes(lexemes),
                        weight: Weight::Whole,
                        position: self.positions.1,
                        places: 1,
                        is_needed: true,
                        place: headline::place_in(piece, word, &mut at),
                    };
                    push(&mut self.found, found)?;
                    self.positions.1 += 1;
                }
            }
            raw::FunctionCall1Coll(&raw mut (*parser).prsend, none, state);
        }
        Ok(())
    }

    /// # Safety
    /// See [`guarded_in`].
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
        let is_unknown = !unsafe { ask(word, dictionaries, &mut self.lexemes)? };
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
}
