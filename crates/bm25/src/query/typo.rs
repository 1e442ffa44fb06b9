//! Terms that are spelled almost like a word.
//!
//! The distance is the number of edits: letters that are added, left out, replaced, or swapped with
//! their neighbour (optimal string alignment). It is computed row by row, a row for each letter of
//! the term, and only near the diagonal. Terms that begin alike share the rows of what they share.

/// Longer words are not compared.
const MAX_TYPO_CHARACTERS: usize = 64;
/// The highest number of edits.
const MAX_EDITS: usize = 2;
/// Columns of a row near the diagonal.
const BAND: usize = 2 * MAX_EDITS + 1;
/// Terms that begin with a lower byte are no words.
const FIRST_OF_WORD: u8 = b' ';

/// A word that may be misspelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typo {
    word: Vec<char>,
    edits: u8,
}

impl Typo {
    /// Returns `None` for a word that is too long. `edits` is 2 at most.
    pub fn new(word: &str, edits: u8) -> Option<Self> {
        let word: Vec<char> = word.chars().collect();
        let edits = edits.min(MAX_EDITS as u8);
        (word.len() <= MAX_TYPO_CHARACTERS).then_some(Self { word, edits })
    }

    pub fn word(&self) -> String {
        self.word.iter().collect()
    }
}

/// Returns how many edits suit the length of a word: none of 2 letters, 1 of 5, and else 2. These
/// are Elasticsearch's (`AUTO`).
pub fn auto_edits(word: &str) -> u8 {
    match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    }
}

/// A letter of the term before, and where it ends.
#[derive(Debug, Clone, Copy)]
struct Letter {
    letter: char,
    end: usize,
    /// Costs of the columns from the diagonal less [`MAX_EDITS`] on.
    row: [u8; BAND],
}

/// Compares terms with a word.
pub struct TypoMatcher<'w> {
    word: &'w [char],
    edits: u8,
    letters: Vec<Letter>,
    /// No term that begins with so many bytes of the term before is near enough.
    dead_end: Option<usize>,
}

impl<'w> TypoMatcher<'w> {
    pub fn new(typo: &'w Typo) -> Self {
        Self {
            word: &typo.word,
            edits: typo.edits,
            letters: vec![],
            dead_end: None,
        }
    }

    /// Returns the number of edits from the word to a term, or `None` if they are too many. The
    /// term has `shared` bytes in common with the term before.
    #[inline]
    pub fn edits(&mut self, term: &[u8], shared: usize) -> Option<u8> {
        if self.dead_end.is_some_and(|end| shared >= end) {
            return None;
        }
        self.compare(term, shared)
    }

    fn compare(&mut self, term: &[u8], shared: usize) -> Option<u8> {
        self.dead_end = None;
        if term.first().is_none_or(|first| *first < FIRST_OF_WORD) {
            self.letters.clear();
            return None;
        }
        while self
            .letters
            .last()
            // what was no character may be the beginning of one
            .is_some_and(|last| last.end > shared || last.letter == char::REPLACEMENT_CHARACTER)
        {
            self.letters.pop();
        }
        let mut at = self.letters.last().map_or(0, |last| last.end);
        while at < term.len() {
            let (letter, bytes) = first_letter(&term[at..]);
            at += bytes;
            let row = self.row(letter);
            self.letters.push(Letter {
                letter,
                end: at,
                row,
            });
            if row.iter().all(|cost| *cost > self.edits) {
                // see above: more bytes may make another letter of the last
                self.dead_end = (letter != char::REPLACEMENT_CHARACTER).then_some(at);
                return None;
            }
        }
        let last = self.letters.last()?;
        let column = self.word.len() + MAX_EDITS;
        let place = column.checked_sub(self.letters.len())?;
        let cost = last.row.get(place).copied()?;
        (cost <= self.edits).then_some(cost)
    }

    /// Returns the row of the next letter.
    fn row(&self, letter: char) -> [u8; BAND] {
        // the number of this row; the first letter has 1
        let number = self.letters.len() + 1;
        let before = match self.letters.last() {
            Some(last) => last.row,
            None => std::array::from_fn(|place| match place.checked_sub(MAX_EDITS) {
                Some(column) => column as u8,
                None => u8::MAX,
            }),
        };
        let swapped = self.letters.len().checked_sub(1).map(|last| {
            let earlier = match last.checked_sub(1) {
                Some(earlier) => self.letters[earlier].row,
                None => std::array::from_fn(|place| match place.checked_sub(MAX_EDITS) {
                    Some(column) => column as u8,
                    None => u8::MAX,
                }),
            };
            (self.letters[last].letter, earlier)
        });
        let mut row = [u8::MAX; BAND];
        for place in 0..BAND {
            let Some(column) = (number + place).checked_sub(MAX_EDITS) else {
                continue;
            };
            if column > self.word.len() {
                break;
            }
            if column == 0 {
                row[place] = u8::try_from(number).unwrap_or(u8::MAX);
                continue;
            }
            let wanted = self.word[column - 1];
            let mut cost = before[place].saturating_add(u8::from(wanted != letter));
            if let Some(above) = before.get(place + 1) {
                cost = cost.min(above.saturating_add(1));
            }
            if place > 0 {
                cost = cost.min(row[place - 1].saturating_add(1));
            }
            if let Some((other, earlier)) = swapped
                && column > 1
                && self.word[column - 2] == letter
                && wanted == other
            {
                cost = cost.min(earlier[place].saturating_add(1));
            }
            row[place] = cost;
        }
        row
    }
}

/// Returns the character that some bytes begin with, and the number of its bytes.
#[inline]
fn first_letter(bytes: &[u8]) -> (char, usize) {
    if bytes[0].is_ascii() {
        return (char::from(bytes[0]), 1);
    }
    let most = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(most) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&most[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(letter) => (letter, letter.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The distance by its definition.
    fn distance(a: &[char], b: &[char]) -> usize {
        let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                rows[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        least = least.min(rows[i - 2][j - 2] + 1);
                    }
                    least
                };
            }
        }
        rows[a.len()][b.len()]
    }

    #[test]
    fn words_that_are_almost_equal_are_found() {
        for (word, term, edits) in [
            ("databse", "database", Some(1)),
            ("recieve", "receive", Some(1)),
            ("log", "log", Some(0)),
            ("log", "lgo", Some(1)),
            ("größe", "grösse", Some(2)),
            ("write", "rite", Some(1)),
            ("archive", "archivist", None),
            ("cat", "dog", None),
            ("simple", "\u{1}simple", None),
        ] {
            let typo = Typo::new(word, 2).unwrap();
            let found = TypoMatcher::new(&typo).edits(term.as_bytes(), 0);
            assert_eq!(found, edits, "{word} {term}");
        }
        assert_eq!(
            ["ab", "abc", "abcde", "abcdef"].map(auto_edits),
            [0, 1, 1, 2]
        );
    }

    #[test]
    fn half_a_character_ends_no_search() {
        let typo = Typo::new("ä", 0).unwrap();
        let mut matcher = TypoMatcher::new(&typo);
        assert_eq!(matcher.edits(&[0xC3], 0), None);
        assert_eq!(matcher.edits("ä".as_bytes(), 1), Some(0));
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_definition(
            word in "[abcä]{0,7}",
            mut terms in prop::collection::vec(
                prop_oneof!["[abcä]{1,8}".prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 1..6)], 1..40),
            edits in 0..=2_u8,
        ) {
            let typo = Typo::new(&word, edits).unwrap();
            let word: Vec<char> = word.chars().collect();
            terms.sort();
            let mut matcher = TypoMatcher::new(&typo);
            let mut before: Vec<u8> = vec![];
            for term in terms {
                let shared = before.iter().zip(&term).take_while(|(a, b)| a == b).count();
                let found = matcher.edits(&term, shared);
                // alone, and after another one
                prop_assert_eq!(TypoMatcher::new(&typo).edits(&term, 0), found);
                if let Ok(text) = std::str::from_utf8(&term)
                    && term[0] >= FIRST_OF_WORD
                {
                    let letters: Vec<char> = text.chars().collect();
                    let expected = distance(&word, &letters);
                    prop_assert_eq!(found, u8::try_from(expected).ok().filter(|d| *d <= edits));
                }
                before = term;
            }
        }
    }
}
