//! Finds and ranks the places where a text may be cut, in one pass.

use unicode_segmentation::UnicodeSegmentation;

use super::sentences::Sentences;
use crate::{Boundary, Structure, Syntax};

/// A position in the text, in bytes and in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub byte: usize,
    pub char: usize,
}

/// The rank of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Word,
    Sentence,
    Line,
    Paragraph,
    /// An element of source code begins. The outermost elements are best, and of equals those after
    /// an empty line.
    Element(u8),
    /// A Markdown heading follows.
    Section,
    /// A record follows.
    Record,
}

impl Rank {
    fn of_element(boundary: &Boundary, after_empty_line: bool) -> Self {
        Self::Element((100 - boundary.depth.min(100)) * 2 + u8::from(after_empty_line))
    }
}

/// A place between two words. The whitespace from `end` to `start` belongs to neither side.
#[derive(Debug, Clone, Copy)]
struct Break {
    end: Place,
    start: Place,
    rank: Rank,
}

/// A text and its breaks, in order.
pub struct Breaks<'a> {
    text: &'a str,
    breaks: Vec<Break>,
    begin: Place,
    end: Place,
    window: Window,
}

/// The part of the room, from its end, in which the rank of a place counts for more than its
/// distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Window {
    Half,
    /// For sections and source code: an element that begins here should not be cut, and a heading
    /// should not be separated from its text.
    ThreeQuarters,
    /// For records: a record that fits into a chunk is never cut.
    All,
}

impl Window {
    /// Returns the number of characters, of `size`, that are before it.
    fn before(self, size: usize) -> usize {
        match self {
            Self::Half => size / 2,
            Self::ThreeQuarters => size / 4,
            Self::All => 0,
        }
    }
}

/// The structure that ranks breaks besides whitespace and punctuation, read along with the text.
struct Marks<'a> {
    structure: &'a Structure,
    /// Headings, boundaries or code blocks that have been passed.
    passed: usize,
    passed_code: usize,
}

impl Marks<'_> {
    /// Returns the rank of a break with line ends from byte `end` to byte `at`. Call it in order.
    fn rank(&mut self, end: usize, at: usize, paragraph: bool) -> Rank {
        let plain = if paragraph {
            Rank::Paragraph
        } else {
            Rank::Line
        };
        match self.structure {
            Structure::Prose | Structure::Pages => plain,
            Structure::Records if paragraph => Rank::Record,
            Structure::Records => Rank::Line,
            Structure::Sections { headings, code } => {
                self.passed += headings[self.passed..]
                    .iter()
                    .take_while(|heading| heading.at < at)
                    .count();
                self.passed_code += code[self.passed_code..]
                    .iter()
                    .take_while(|(_, end)| *end <= at)
                    .count();
                if headings
                    .get(self.passed)
                    .is_some_and(|heading| heading.at == at)
                {
                    Rank::Section
                } else if self
                    .passed
                    .checked_sub(1)
                    .is_some_and(|last| end <= headings[last].end)
                {
                    Rank::Word
                } else if code
                    .get(self.passed_code)
                    .is_some_and(|(start, _)| *start < at)
                {
                    Rank::Line
                } else {
                    plain
                }
            }
            Structure::Code(Syntax { boundaries, .. }) => {
                self.passed += boundaries[self.passed..]
                    .iter()
                    .take_while(|boundary| boundary.at < at)
                    .count();
                match boundaries
                    .get(self.passed)
                    .filter(|boundary| boundary.at == at)
                {
                    Some(boundary) => Rank::of_element(boundary, paragraph),
                    // Empty lines are the only structure of source code that is not parsed.
                    None if boundaries.is_empty() => plain,
                    None => Rank::Line,
                }
            }
        }
    }
}

/// The whitespace between two words, during reading.
struct Gap {
    end: Place,
    lines: usize,
    paragraph: bool,
}

impl<'a> Breaks<'a> {
    pub fn of(text: &'a str, structure: &Structure) -> Self {
        let mut marks = Marks {
            structure,
            passed: 0,
            passed_code: 0,
        };
        // Code and records have no sentences.
        let has_sentences = !matches!(structure, Structure::Code(_) | Structure::Records);
        let mut sentences = Sentences::of(if has_sentences { text } else { "" });
        let mut breaks = vec![];
        let mut begin = None;
        let mut gap: Option<Gap> = None;
        let mut place = Place { byte: 0, char: 0 };
        let mut end = place;
        let mut previous = '\0';
        for c in text.chars() {
            if c.is_whitespace() {
                let gap = gap.get_or_insert(Gap {
                    end: place,
                    lines: 0,
                    paragraph: false,
                });
                match c {
                    '\n' if previous == '\r' => {}
                    '\n' | '\r' | '\u{85}' | '\u{2028}' => gap.lines += 1,
                    '\u{C}' | '\u{2029}' => gap.paragraph = true,
                    _ => {}
                }
            } else {
                let sentence =
                    sentences.begins_up_to(place.byte) && ends_sentence(&text[..end.byte]);
                match gap.take() {
                    Some(gap) if begin.is_some() => {
                        let rank = match &gap {
                            Gap { lines: 2.., .. }
                            | Gap {
                                paragraph: true, ..
                            } => marks.rank(gap.end.byte, place.byte, true),
                            Gap { lines: 1, .. } => marks.rank(gap.end.byte, place.byte, false),
                            _ if sentence => Rank::Sentence,
                            _ => Rank::Word,
                        };
                        breaks.push(Break {
                            end: gap.end,
                            start: place,
                            rank,
                        });
                    }
                    None if sentence && begin.is_some() => {
                        breaks.push(Break {
                            end: place,
                            start: place,
                            rank: Rank::Sentence,
                        });
                    }
                    _ => {}
                }
                begin = begin.or(Some(place));
                end = Place {
                    byte: place.byte + c.len_utf8(),
                    char: place.char + 1,
                };
            }
            previous = c;
            place = Place {
                byte: place.byte + c.len_utf8(),
                char: place.char + 1,
            };
        }
        let window = match structure {
            Structure::Prose | Structure::Pages => Window::Half,
            Structure::Sections { .. } | Structure::Code(_) => Window::ThreeQuarters,
            Structure::Records => Window::All,
        };
        Self {
            text,
            breaks,
            begin: begin.unwrap_or(end),
            end,
            window,
        }
    }

    /// Returns the first character that is not whitespace.
    pub fn begin(&self) -> Place {
        self.begin
    }

    /// Returns the end of the last character that is not whitespace.
    pub fn end(&self) -> Place {
        self.end
    }

    pub fn slice(&self, start: Place, end: Place) -> &'a str {
        &self.text[start.byte..end.byte]
    }

    /// Returns where the text continues after `end`.
    pub fn next_start(&self, end: Place) -> Place {
        self.break_at(end).map_or(end, |b| b.start)
    }

    fn break_at(&self, end: Place) -> Option<&Break> {
        self.breaks
            .binary_search_by_key(&end.byte, |b| b.end.byte)
            .ok()
            .map(|i| &self.breaks[i])
    }

    /// Returns the best end of a chunk that begins at `start` and has at most `size` characters.
    pub fn best_end(&self, start: Place, size: usize) -> Place {
        let last = start.char.saturating_add(size);
        if self.end.char <= last {
            return self.end;
        }
        let from = self.breaks.partition_point(|b| b.end.byte <= start.byte);
        let to = from + self.breaks[from..].partition_point(|b| b.end.char <= last);
        let within = &self.breaks[from..to];
        let half = start.char + Window::Half.before(size);
        let window = start.char + self.window.before(size);
        let mut best: Option<&Break> = within.last();
        for b in within.iter().rev().take_while(|b| b.end.char >= window) {
            // Lines and sentences do not justify losing half of the room.
            if b.end.char < half && b.rank <= Rank::Paragraph {
                continue;
            }
            if best.is_none_or(|best| b.rank > best.rank) {
                best = Some(b);
            }
        }
        best.map_or_else(|| self.end_inside_word(start, size), |b| b.end)
    }

    /// Cuts a word that is longer than `size` characters.
    fn end_inside_word(&self, start: Place, size: usize) -> Place {
        /// Number of characters to read beyond the limit, to find the end of the grapheme there.
        const LOOKAHEAD: usize = 64;
        let rest = &self.text[start.byte..];
        let byte = |from: usize, chars: usize| {
            rest[from..]
                .char_indices()
                .nth(chars)
                .map_or(rest.len(), |(at, _)| from + at)
        };
        let upper = byte(0, size - size / 4);
        let limit = byte(upper, size / 4);
        let window = &rest[..byte(limit, LOOKAHEAD)];
        let graphemes: Vec<usize> = window
            .grapheme_indices(true)
            .map(|(at, _)| at)
            .skip(1)
            .take_while(|at| *at <= limit)
            .collect();
        let word = window[upper..]
            .split_word_bound_indices()
            .map(|(at, _)| upper + at)
            .skip(1)
            .take_while(|at| *at <= limit)
            .filter(|at| graphemes.binary_search(at).is_ok())
            .last();
        let end = word.or(graphemes.last().copied()).unwrap_or(limit);
        Place {
            byte: start.byte + end,
            char: start.char + rest[..end].chars().count(),
        }
    }

    /// Returns the best place in `start..end`, not before character `earliest`, where another chunk
    /// may begin.
    pub fn best_start(&self, start: Place, end: Place, earliest: usize) -> Option<Place> {
        let from = self.breaks.partition_point(|b| b.start.char < earliest);
        // After a whole record or element only whole ones are repeated.
        let worst = match self.break_at(end) {
            Some(Break {
                rank: rank @ (Rank::Record | Rank::Element(_)),
                ..
            }) => *rank,
            _ => Rank::Word,
        };
        let within = self.breaks[from..]
            .iter()
            .take_while(|b| b.start.byte < end.byte)
            .filter(|b| b.rank >= worst);
        let mut best: Option<&Break> = None;
        for b in within {
            if best.is_none_or(|best| b.rank > best.rank) {
                best = Some(b);
            }
        }
        match best {
            Some(best) => Some(best.start),
            None if worst > Rank::Word => None,
            None => self.start_inside_word(start, end, earliest),
        }
    }

    /// Returns a place between Unicode words, or between graphemes if a word was cut anyway.
    fn start_inside_word(&self, start: Place, end: Place, earliest: usize) -> Option<Place> {
        let chunk = self.slice(start, end);
        let (first, _) = chunk.char_indices().nth(earliest - start.char)?;
        let graphemes: Vec<usize> = chunk
            .grapheme_indices(true)
            .map(|(at, _)| at)
            .skip_while(|at| *at < first)
            .collect();
        let word = chunk
            .split_word_bound_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= first && graphemes.binary_search(at).is_ok());
        let is_cut = end != self.end && self.break_at(end).is_none();
        let at = word.or(graphemes.first().copied().filter(|_| is_cut))?;
        Some(Place {
            byte: start.byte + at,
            char: start.char + chunk[..at].chars().count(),
        })
    }
}

/// Returns true if the last word of `before` can end a sentence: not an initial, an abbreviation
/// (`e.g.`) or a list's number.
fn ends_sentence(before: &str) -> bool {
    let mut letters = 0;
    let mut is_full_stop = false;
    for (i, c) in before.chars().rev().enumerate() {
        match c {
            '.' if i == 0 => is_full_stop = true,
            _ if !is_full_stop || c.is_whitespace() || letters > 3 => break,
            '.' => return false,
            _ if c.is_alphabetic() => letters += 1,
            _ => {}
        }
    }
    !is_full_stop || letters > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(text: &str) -> Vec<(Rank, &str)> {
        Breaks::of(text, &Structure::of_markdown(text))
            .breaks
            .iter()
            .map(|b| (b.rank, text[b.start.byte..].split(' ').next().unwrap()))
            .collect()
    }

    #[test]
    fn whitespace_and_punctuation_rank_the_breaks() {
        assert_eq!(
            ranks("  One two.  Three\nfour\r\n\r\nfive\n \n# six\u{C}seven "),
            [
                (Rank::Word, "two."),
                (Rank::Sentence, "Three\nfour\r\n\r\nfive\n"),
                (Rank::Line, "four\r\n\r\nfive\n"),
                (Rank::Paragraph, "five\n"),
                (Rank::Section, "#"),
                (Rank::Word, "six\u{C}seven"),
                (Rank::Word, "seven"),
            ]
        );
    }

    #[test]
    fn sentences_without_spaces_end_too() {
        assert_eq!(ranks("今日は。明日も"), [(Rank::Sentence, "明日も")]);
    }

    #[test]
    fn abbreviations_initials_and_numbers_do_not_end_a_sentence() {
        for text in [
            "e.g. This",
            "J. Smith",
            "1. Install",
            "U.S. Army",
            "2.3. Next",
        ] {
            assert_eq!(ranks(text)[0].0, Rank::Word, "{text}");
        }
        assert_eq!(ranks("It ends here. Then")[2], (Rank::Sentence, "Then"));
    }
}
