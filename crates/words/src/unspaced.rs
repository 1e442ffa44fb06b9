//! Scripts without blanks between words.
//!
//! Chinese, Japanese and Korean words are found by pairs of neighbouring characters. A dictionary
//! may divide a word in a query otherwise than in a text, and it lacks new words and names. Then a
//! word that is there is not found. A pair is the same in both.
//!
//! Thai, Lao, Burmese and Khmer have alphabets, in which pairs of letters say little. So words are
//! found by the models that ICU has for them. They, too, divide a word otherwise in a query than
//! in a text. So pairs of letters with their marks are parts.

use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed, options::WordBreakInvariantOptions};
use rag_pages::memory::OutOfMemory;

use crate::{
    Purpose,
    class::{Class, class_at, is_mark_at},
    tokens::{Kind, Token, Tokens, Weight},
};

/// Longer pieces are cut. The model needs memory for each letter.
const MAX_PIECE_BYTES: usize = 3000;

/// Adds the pairs of characters of a run, which begins at a place of the text. A character alone is
/// a word itself.
///
/// A text also has its Chinese characters one by one, and the first syllable of each Korean word,
/// which particles follow. They count as parts. A query of one character finds them. Queries of
/// more leave out pairs of hiragana, which are mostly grammar, if there are other pairs.
pub fn pairs(
    run: &str,
    at: usize,
    class: Class,
    purpose: Purpose,
    tokens: &mut Tokens,
) -> Result<(), OutOfMemory> {
    let drops_grammar =
        purpose == Purpose::Query && characters(run).any(|(_, _, class)| class != Class::Hiragana);
    let mut before: Option<(usize, Class)> = None;
    let mut pairs = 0;
    for (start, end, own) in characters(run) {
        let position = tokens.take_positions(1);
        let mut push = |start: usize, weight, places: u32| {
            tokens.push(Token {
                text: &run[start..end],
                kind: Kind::Term,
                weight,
                is_compound: true,
                is_stem: false,
                is_needed: weight == Weight::Whole,
                at: at + start,
                end: at + end,
                position: position + 1 - places,
                places,
            })
        };
        if let Some((first, of_first)) = before {
            let is_grammar = (of_first, own) == (Class::Hiragana, Class::Hiragana);
            if !(drops_grammar && is_grammar) {
                push(first, Weight::Whole, 2)?;
            }
            pairs += 1;
        }
        let is_whole = start == 0 && end == run.len();
        if is_whole {
            push(start, Weight::Whole, 1)?;
        } else if purpose == Purpose::Text
            && (own == Class::Han || (class == Class::Hangul && pairs == 0))
        {
            push(start, Weight::Part, 1)?;
        }
        before = Some((start, own));
    }
    Ok(())
}

/// Returns the characters of a run with their marks: where each begins and ends, and its class.
fn characters(run: &str) -> impl Iterator<Item = (usize, usize, Class)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (class, bytes) = class_at(run, at);
        if bytes == 0 {
            return None;
        }
        let start = at;
        at += bytes;
        while is_mark_at(run, at) {
            at += class_at(run, at).1;
        }
        Some((start, at, class))
    })
}

/// Finds words of Thai, Lao, Burmese and Khmer. The models are loaded when they are needed first.
#[derive(Default)]
pub struct Southeast(Option<WordSegmenterBorrowed<'static>>);

impl Southeast {
    /// Adds the words of a run, which begins at a place of the text.
    pub fn words(&mut self, run: &str, at: usize, tokens: &mut Tokens) -> Result<(), OutOfMemory> {
        let segmenter = self
            .0
            .get_or_insert_with(|| WordSegmenter::new_lstm(WordBreakInvariantOptions::default()));
        let (mut rest, mut at) = (run, at);
        while !rest.is_empty() {
            let mut end = rest.len().min(MAX_PIECE_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, others) = rest.split_at(end);
            let count = characters(piece).count() as u32;
            let first = tokens.take_positions(count);
            let mut push = |(start, end): (usize, usize), kind, weight, position, places| {
                tokens.push(Token {
                    text: &piece[start..end],
                    kind,
                    weight,
                    is_compound: true,
                    is_stem: false,
                    // a model divides a word otherwise in another sentence
                    is_needed: kind == Kind::Term || count == 1,
                    at: at + start,
                    end: at + end,
                    position,
                    places,
                })
            };
            let mut start = (0, first);
            let mut ends = characters(piece).map(|(_, end, _)| end).peekable();
            for end in segmenter.segment_str(piece).filter(|end| *end > 0) {
                let mut position = start.1;
                while ends.next_if(|known| *known <= end).is_some() {
                    position += 1;
                }
                let places = (position - start.1).max(1);
                push(
                    (start.0, end),
                    Kind::Letters,
                    Weight::Whole,
                    start.1,
                    places,
                )?;
                start = (end, position);
            }
            let mut before = None;
            for (position, (start, end, _)) in (first..).zip(characters(piece)) {
                if let Some(first) = before.replace(start) {
                    push((first, end), Kind::Term, Weight::Part, position - 1, 2)?;
                }
            }
            at += piece.len();
            rest = others;
        }
        Ok(())
    }
}
