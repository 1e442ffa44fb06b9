//! Finds words and compounds in a text.

use std::ops::Range;

use rag_pages::memory::OutOfMemory;

use crate::{
    Analysis, Purpose,
    alignment::{Alignment, aligned},
    class::{Class, class_at},
    compound::Compound,
    normal::normalized,
    tokens::{Kind, Token, Tokens, Weight},
    unspaced::{self, Southeast},
};

/// Maximum number of bytes of a character entity, as in `&nbsp;`, without the `&`.
const MAX_ENTITY: usize = 9;

/// Splits texts into tokens. Keeps its memory from one text to the next.
#[derive(Default)]
pub struct Splitter {
    tokens: Tokens,
    compound: Compound,
    southeast: Southeast,
    alignment: Alignment,
}

impl Splitter {
    /// Splits a text. [`len`](Self::len) and [`token`](Self::token) then tell what was found.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn split(
        &mut self,
        text: &str,
        analysis: Analysis,
        purpose: Purpose,
    ) -> Result<(), OutOfMemory> {
        self.split_normalized(&normalized(text)?, analysis, purpose)
    }

    /// Does what [`split`](Self::split) does. [`place`](Self::place) then tells where tokens are.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn split_aligned(
        &mut self,
        text: &str,
        analysis: Analysis,
        purpose: Purpose,
    ) -> Result<(), OutOfMemory> {
        let (normal, alignment) = aligned(text)?;
        self.alignment = alignment;
        self.split_normalized(&normal, analysis, purpose)
    }

    fn split_normalized(
        &mut self,
        text: &str,
        analysis: Analysis,
        purpose: Purpose,
    ) -> Result<(), OutOfMemory> {
        self.tokens.clear();
        let mut at = 0;
        while at < text.len() {
            let (class, bytes) = class_at(text, at);
            at = match class {
                Class::Lower | Class::Upper | Class::Digit => {
                    self.spaced(text, at, analysis, purpose)?
                }
                Class::Sign if text.as_bytes()[at] == b'&' => {
                    entity_end(text, at).unwrap_or(at + bytes)
                }
                Class::Sign | Class::Mark => at + bytes,
                _ => self.unspaced(text, at, class, purpose)?,
            };
        }
        Ok(())
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of words that [`Token::position`] counts. It is the same for texts and
    /// queries.
    pub fn positions(&self) -> u32 {
        self.tokens.positions()
    }

    /// Returns a token, by its number from 0.
    pub fn token(&self, number: usize) -> Token<'_> {
        self.tokens.get(number)
    }

    /// Returns where a token is in the text that was split with [`split_aligned`], with marks that
    /// belong to its last letter.
    ///
    /// [`split_aligned`]: Self::split_aligned
    pub fn place(&self, text: &str, token: &Token<'_>) -> Range<usize> {
        self.alignment.place(text, token.at..token.end)
    }

    pub fn iter(&self) -> impl Iterator<Item = Token<'_>> {
        (0..self.len()).map(|number| self.token(number))
    }

    /// Reads a word or a compound. Returns where it ends.
    fn spaced(
        &mut self,
        text: &str,
        at: usize,
        analysis: Analysis,
        purpose: Purpose,
    ) -> Result<usize, OutOfMemory> {
        // most words of most texts
        let bytes = &text.as_bytes()[at..];
        let word = bytes.iter().position(|byte| !byte.is_ascii_alphabetic());
        let word = word.unwrap_or(bytes.len());
        let is_alone = bytes.get(word).is_none_or(|next| b" \n,".contains(next));
        let is_plain = is_alone && word > 0 && !bytes[1..word].iter().any(u8::is_ascii_uppercase);
        if is_plain && analysis == Analysis::Words {
            let position = self.tokens.take_positions(1);
            self.tokens.push(Token {
                text: &text[at..at + word],
                kind: Kind::Ascii,
                weight: Weight::Whole,
                is_compound: false,
                is_stem: false,
                is_needed: true,
                at,
                end: at + word,
                position,
                places: 1,
            })?;
            return Ok(at + word);
        }
        let end = self.compound.read(text, at)?;
        self.compound
            .write(text, analysis, purpose, &mut self.tokens)?;
        Ok(end)
    }

    /// Reads a run of characters of a script without blanks. Returns where it ends.
    fn unspaced(
        &mut self,
        text: &str,
        at: usize,
        class: Class,
        purpose: Purpose,
    ) -> Result<usize, OutOfMemory> {
        let mut end = at;
        loop {
            let (next, bytes) = class_at(text, end);
            if bytes == 0 || !next.continues(class) {
                break;
            }
            end += bytes;
        }
        let run = &text[at..end];
        if class == Class::Southeast {
            self.southeast.words(run, at, &mut self.tokens)?;
        } else {
            unspaced::pairs(run, at, class, purpose, &mut self.tokens)?;
        }
        Ok(end)
    }
}

/// Returns where a character entity of HTML ends that begins with `&` at a place.
pub fn entity_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at + 1..];
    let name = rest
        .iter()
        .take(MAX_ENTITY)
        .position(|byte| *byte == b';')?;
    let is_name = |name: &[u8]| name.len() > 1 && name.iter().all(u8::is_ascii_alphanumeric);
    let is_number = |name: &[u8]| name.len() > 1 && name[0] == b'#';
    (is_name(&rest[..name]) || is_number(&rest[..name])).then_some(at + 1 + name + 1)
}
