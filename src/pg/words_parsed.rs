//! The words of a piece of a text in which a dictionary reads several words at once: those of
//! PostgreSQL's parser, and the compounds that it divides otherwise.

use std::{borrow::Cow, collections::BTreeSet};

use rag_pages::memory::OutOfMemory;
use rag_words::{Purpose, fold_accents};

use super::{
    super::{headline, memory::OwnedContext, text_search::each_lexeme},
    Analyzer, Occurrence, Words,
};

impl Words {
    /// Calls `f` with the lexemes that PostgreSQL's parser and dictionaries make of a piece, and
    /// those of the compounds in it.
    pub(super) fn parsed(
        &mut self,
        piece: &[u8],
        purpose: Purpose,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let before = self.positions.0;
        self.positions.1 = self.lexemes_in(piece, |term, position| {
            f(Occurrence::of_parser(term, before + position, 0..0))
        })?;
        self.compounds_in(piece, purpose, f)
    }

    /// Does what [`parsed`](Self::parsed) does for the lexemes that are wanted, and tells where
    /// they are.
    pub(super) fn parsed_places(
        &mut self,
        piece: &[u8],
        memory: &OwnedContext,
        is_wanted: &mut dyn FnMut(&[u8]) -> bool,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let Analyzer { config, .. } = self.analyzer;
        let mut wanted = BTreeSet::new();
        self.positions.1 = each_lexeme(config, piece, |lexeme, _| {
            if is_wanted(&self.folded(lexeme)) && !wanted.contains(lexeme) {
                wanted.insert(lexeme.to_vec());
            }
            Ok(())
        })?;
        let (positions, bytes) = (self.positions.0, self.bytes);
        headline::each_lexeme(config, piece, memory, &wanted, |lexeme, position, place| {
            let place = bytes + place.start..bytes + place.end;
            let term = self.folded(lexeme);
            f(Occurrence::of_parser(&term, positions + position, place))
        })?;
        self.compounds_in(piece, Purpose::Text, f)
    }

    /// Calls `f` with the lexemes of the compounds in a piece. The parser counts them otherwise.
    fn compounds_in(
        &mut self,
        piece: &[u8],
        purpose: Purpose,
        f: &mut impl FnMut(Occurrence<'_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        if !self.is_split() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(piece);
        self.split(&text, purpose)?;
        let compounds = self.splitter.iter().filter(|token| token.is_compound);
        compounds
            .filter(|token| !token.is_stem)
            .try_for_each(|token| {
                let place = self.place(&self.splitter, &text, &token);
                self.lexemes_in(token.text.as_bytes(), |term, _| {
                    f(Occurrence {
                        term,
                        weight: token.weight,
                        position: None,
                        places: 1,
                        is_needed: false,
                        start: self.bytes + place.start,
                        end: self.bytes + place.end,
                    })
                })
                .map(drop)
            })
    }

    /// Calls `f` with each lexeme that PostgreSQL's parser and dictionaries make of a text, and its
    /// position. Returns the number of positions.
    fn lexemes_in(
        &self,
        text: &[u8],
        mut f: impl FnMut(&[u8], u32) -> Result<(), OutOfMemory>,
    ) -> Result<u32, OutOfMemory> {
        each_lexeme(self.analyzer.config, text, |lexeme, position| {
            f(&self.folded(lexeme), position)
        })
    }

    /// Returns a lexeme as it is in the index.
    fn folded<'l>(&self, lexeme: &'l [u8]) -> Cow<'l, [u8]> {
        match std::str::from_utf8(lexeme) {
            Ok(text) if self.analyzer.folds_accents && !text.is_ascii() => {
                Cow::Owned(fold_accents(text).into_owned().into_bytes())
            }
            _ => Cow::Borrowed(lexeme),
        }
    }
}
