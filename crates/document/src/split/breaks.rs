//! The places where a text may be cut, found in one pass and ranked.

use unicode_segmentation::UnicodeSegmentation;

/// A position in the text, in bytes and in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub byte: usize,
    pub char: usize,
}

/// How good a place is to cut at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Word,
    Sentence,
    Line,
    Paragraph,
    /// A Markdown heading follows.
    Section,
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
}

/// The whitespace between two words, while it is read.
struct Gap {
    end: Place,
    lines: usize,
    paragraph: bool,
}

impl<'a> Breaks<'a> {
    pub fn of(text: &'a str) -> Self {
        let mut sentences = text.split_sentence_bound_indices().map(|(at, _)| at).peekable();
        let mut breaks = vec![];
        let mut begin = None;
        let mut gap: Option<Gap> = None;
        let mut place = Place { byte: 0, char: 0 };
        let mut end = place;
        let mut previous = '\0';
        for c in text.chars() {
            if c.is_whitespace() {
                let gap = gap.get_or_insert(Gap { end: place, lines: 0, paragraph: false });
                match c {
                    '\n' if previous == '\r' => {}
                    '\n' | '\r' | '\u{85}' | '\u{2028}' => gap.lines += 1,
                    '\u{C}' | '\u{2029}' => gap.paragraph = true,
                    _ => {}
                }
            } else {
                let mut sentence = false;
                while sentences.next_if(|at| *at <= place.byte).is_some() {
                    sentence = true;
                }
                let sentence = sentence && ends_sentence(&text[..end.byte]);
                match gap.take() {
                    Some(gap) if begin.is_some() => {
                        let rank = match gap {
                            Gap { lines: 2.., .. } | Gap { paragraph: true, .. } if is_heading(&text[place.byte..]) => {
                                Rank::Section
                            }
                            Gap { lines: 2.., .. } | Gap { paragraph: true, .. } => Rank::Paragraph,
                            Gap { lines: 1, .. } => Rank::Line,
                            _ if sentence => Rank::Sentence,
                            _ => Rank::Word,
                        };
                        breaks.push(Break { end: gap.end, start: place, rank });
                    }
                    None if sentence && begin.is_some() => {
                        breaks.push(Break { end: place, start: place, rank: Rank::Sentence });
                    }
                    _ => {}
                }
                begin = begin.or(Some(place));
                end = Place { byte: place.byte + c.len_utf8(), char: place.char + 1 };
            }
            previous = c;
            place = Place { byte: place.byte + c.len_utf8(), char: place.char + 1 };
        }
        Self { text, breaks, begin: begin.unwrap_or(end), end }
    }

    /// The first character that is not whitespace.
    pub fn begin(&self) -> Place {
        self.begin
    }

    /// The end of the last character that is not whitespace.
    pub fn end(&self) -> Place {
        self.end
    }

    pub fn slice(&self, start: Place, end: Place) -> &'a str {
        &self.text[start.byte..end.byte]
    }

    /// Where the text goes on after `end`.
    pub fn next_start(&self, end: Place) -> Place {
        self.break_at(end).map_or(end, |b| b.start)
    }

    fn break_at(&self, end: Place) -> Option<&Break> {
        self.breaks.binary_search_by_key(&end.byte, |b| b.end.byte).ok().map(|i| &self.breaks[i])
    }

    /// The best end of a chunk that begins at `start` and has at most `size` characters.
    pub fn best_end(&self, start: Place, size: usize) -> Place {
        let last = start.char.saturating_add(size);
        if self.end.char <= last {
            return self.end;
        }
        let from = self.breaks.partition_point(|b| b.end.byte <= start.byte);
        let to = from + self.breaks[from..].partition_point(|b| b.end.char <= last);
        let within = &self.breaks[from..to];
        let half = start.char + size / 2;
        let mut best: Option<&Break> = within.last();
        for b in within.iter().rev().take_while(|b| b.end.char >= half) {
            if best.is_none_or(|best| b.rank > best.rank) {
                best = Some(b);
            }
        }
        best.map_or_else(|| self.end_inside_word(start, size), |b| b.end)
    }

    /// Cuts a word that is longer than `size` characters.
    fn end_inside_word(&self, start: Place, size: usize) -> Place {
        /// Characters read beyond the limit, to see where the grapheme that reaches over it ends.
        const BEYOND: usize = 64;
        let rest = &self.text[start.byte..];
        let byte =
            |from: usize, chars: usize| rest[from..].char_indices().nth(chars).map_or(rest.len(), |(at, _)| from + at);
        let upper = byte(0, size - size / 4);
        let limit = byte(upper, size / 4);
        let window = &rest[..byte(limit, BEYOND)];
        let graphemes: Vec<usize> =
            window.grapheme_indices(true).map(|(at, _)| at).skip(1).take_while(|at| *at <= limit).collect();
        let word = window[upper..]
            .split_word_bound_indices()
            .map(|(at, _)| upper + at)
            .skip(1)
            .take_while(|at| *at <= limit)
            .filter(|at| graphemes.binary_search(at).is_ok())
            .last();
        let end = word.or(graphemes.last().copied()).unwrap_or(limit);
        Place { byte: start.byte + end, char: start.char + rest[..end].chars().count() }
    }

    /// The best place in `start..end`, not before character `earliest`, for another chunk to begin.
    pub fn best_start(&self, start: Place, end: Place, earliest: usize) -> Option<Place> {
        let from = self.breaks.partition_point(|b| b.start.char < earliest);
        let within = self.breaks[from..].iter().take_while(|b| b.start.byte < end.byte);
        let mut best: Option<&Break> = None;
        for b in within {
            if best.is_none_or(|best| b.rank > best.rank) {
                best = Some(b);
            }
        }
        best.map(|b| b.start).or_else(|| self.start_inside_word(start, end, earliest))
    }

    /// A place between Unicode's words; between graphemes only where a word was cut anyway.
    fn start_inside_word(&self, start: Place, end: Place, earliest: usize) -> Option<Place> {
        let chunk = self.slice(start, end);
        let (first, _) = chunk.char_indices().nth(earliest - start.char)?;
        let graphemes: Vec<usize> =
            chunk.grapheme_indices(true).map(|(at, _)| at).skip_while(|at| *at < first).collect();
        let word = chunk
            .split_word_bound_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= first && graphemes.binary_search(at).is_ok());
        let is_cut = end != self.end && self.break_at(end).is_none();
        let at = word.or(graphemes.first().copied().filter(|_| is_cut))?;
        Some(Place { byte: start.byte + at, char: start.char + chunk[..at].chars().count() })
    }
}

/// Whether the last word of `before` can end a sentence: not an initial, an abbreviation (`e.g.`) or a list's number.
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

/// Whether a Markdown heading begins here.
fn is_heading(text: &str) -> bool {
    let after = text.trim_start_matches('#');
    matches!(text.len() - after.len(), 1..=6) && after.starts_with([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(text: &str) -> Vec<(Rank, &str)> {
        Breaks::of(text).breaks.iter().map(|b| (b.rank, text[b.start.byte..].split(' ').next().unwrap())).collect()
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
                (Rank::Paragraph, "seven"),
            ]
        );
    }

    #[test]
    fn sentences_without_spaces_end_too() {
        assert_eq!(ranks("今日は。明日も"), [(Rank::Sentence, "明日も")]);
    }

    #[test]
    fn abbreviations_initials_and_numbers_end_no_sentence() {
        for text in ["e.g. This", "J. Smith", "1. Install", "U.S. Army", "2.3. Next"] {
            assert_eq!(ranks(text)[0].0, Rank::Word, "{text}");
        }
        assert_eq!(ranks("It ends here. Then")[2], (Rank::Sentence, "Then"));
    }
}
