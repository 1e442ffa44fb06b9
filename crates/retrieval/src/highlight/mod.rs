//! Words that are marked in a text, and the part of a text that shows most of them.
//!
//! ```text
//! words and their places ── fragment ──▶ a part of the text ── marked ──▶ the part, with marks
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`fragment`] | chooses the part |
//! | [`sentences`] | where sentences begin and end |
//! | [`marks`] | writes marks and escapes the text |
//!
//! Places are ranges of bytes. What finds the words is not known here.

mod fragment;
mod marks;
mod sentences;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use fragment::{fragment, fragment_at};
pub use marks::{MarkStyle, character_places, marked, marked_bytes};
pub use sentences::sentences;

/// A word of a text that is one of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkedWord {
    pub place: Range<usize>,
    /// Which word of the query it is.
    pub number: u32,
    /// How much it counts.
    pub weight: f32,
}

/// Returns the places of the words that are in a part of their text, in ascending order. Words that
/// overlap or touch are one place.
pub fn places(words: &[MarkedWord], part: &Range<usize>) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = vec![];
    let is_within = |place: &Range<usize>| part.start <= place.start && place.end <= part.end;
    let mut sorted: Vec<&Range<usize>> = words.iter().map(|word| &word.place).collect();
    sorted.sort_unstable_by_key(|place| (place.start, place.end));
    for place in sorted.into_iter().filter(|place| is_within(place)) {
        match places.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => places.push(place.clone()),
        }
    }
    places
}
