//! One line of a text that shows why it was found.

use rag_words::{Analysis, Purpose, Splitter};
use unicode_width::UnicodeWidthChar;

/// Stands where text was left out.
const LEFT_OUT: char = '…';
/// Maximum number of characters of a text that are looked at.
const MAX_CHARS: usize = 20_000;
/// A word of a text is one of the query if they share all but this many letters at the end.
const INFLECTION: usize = 2;
/// The shortest part that words share.
const MIN_SHARED: usize = 3;

/// Returns the columns of a text around most words of the query, as one line of at most `width`
/// columns of a terminal. It is the beginning of a text that has none of the words.
pub fn snippet(text: &str, query: &str, width: usize) -> String {
    let line: String = one_line(text).chars().take(MAX_CHARS).collect();
    let wanted = words(query, Purpose::Query);
    let found: Vec<(usize, usize)> = words(&line, Purpose::Text)
        .iter()
        .filter_map(|(at, word)| Some((*at, wanted.iter().position(|(_, w)| is_same(w, word))?)))
        .collect();
    let line: Vec<char> = line.chars().collect();
    let start = best_start(&line, &found, width);
    let mut shown = String::new();
    if start > 0 {
        shown.push(LEFT_OUT);
    }
    shown.extend(&line[start..]);
    fitted(&shown, width)
}

/// Returns the beginning of a text, as one line that fits into a number of columns of a terminal.
pub fn fitted(text: &str, width: usize) -> String {
    let text = &one_line(text);
    if columns(text.chars()) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect();
    kept.truncate(kept.trim_end().len());
    kept.push(LEFT_OUT);
    kept
}

/// Returns the end of a text, as one line that fits into a number of columns of a terminal.
pub fn fitted_end(text: &str, width: usize) -> String {
    let text = &one_line(text);
    if columns(text.chars()) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.chars().rev().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= width
    });
    let reversed: Vec<char> = kept.collect();
    std::iter::once(LEFT_OUT)
        .chain(reversed.into_iter().rev())
        .collect()
}

fn columns(chars: impl Iterator<Item = char>) -> usize {
    chars.map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns a text with single spaces for line ends, control characters and other white space.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the words of a text in lower case, parts of compounds as well, with the places where
/// they begin.
fn words(text: &str, purpose: Purpose) -> Vec<(usize, String)> {
    let mut splitter = Splitter::default();
    if splitter.split(text, Analysis::Words, purpose).is_err() {
        return vec![]; // there is no memory
    }
    // tokens are not quite in the order of their places
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let words = splitter.iter().map(|token| {
        let place = places.partition_point(|at| *at < token.at);
        (
            place.min(places.len().saturating_sub(1)),
            token.text.to_lowercase(),
        )
    });
    let mut words: Vec<(usize, String)> = words.collect();
    words.sort_by_key(|(place, _)| *place);
    words
}

/// Returns true if two words are equal, or differ in their endings. Numbers and codes are equal or
/// not.
fn is_same(a: &str, b: &str) -> bool {
    if a.contains(char::is_numeric) || b.contains(char::is_numeric) {
        return a == b;
    }
    let shared = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let (a, b) = (a.chars().count(), b.chars().count());
    let least = a.min(b).saturating_sub(INFLECTION).max(MIN_SHARED);
    (shared == a && shared == b) || (shared >= least && a.max(b) - shared <= INFLECTION + 1)
}

/// Returns where a line begins that has most different words of the query. `found` has the place of
/// each word, and the number of the word.
fn best_start(line: &[char], found: &[(usize, usize)], width: usize) -> usize {
    let reach = |first: usize| {
        let mut numbers: Vec<usize> = found[first..]
            .iter()
            .take_while(|(at, _)| at - found[first].0 < width * 2 / 3)
            .map(|(_, number)| *number)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    let best = (0..found.len()).max_by_key(|first| (reach(*first), usize::MAX - first));
    let Some((at, _)) = best.map(|first| found[first]) else {
        return 0;
    };
    // a few words before it, if the line does not fit from the beginning
    if columns(line.iter().copied()) <= width {
        return 0;
    }
    // the line is full at the end of the text, too
    let last = (line.len() + 1).saturating_sub(width);
    let earliest = at.saturating_sub(width / 4).min(last);
    if earliest == 0 {
        return 0;
    }
    let before = line[earliest..at].iter().position(|c| *c == ' ');
    before.map_or(at, |space| earliest + space + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The canteen opens at noon.\n\nTokens are signed with a key that is replaced \
        every 90 days. The\tkey is rotated by the security team, which keeps the former one.";

    #[test]
    fn a_snippet_is_around_most_words_of_the_query() {
        let shown = snippet(TEXT, "who rotates the keys?", 40);
        assert_eq!(shown, "…90 days. The key is rotated by the sec…");
        assert_eq!(columns(shown.chars()), 40);
    }

    #[test]
    fn a_snippet_at_the_end_of_a_text_fills_the_line() {
        let shown = snippet(TEXT, "former", 40);
        assert_eq!(shown, "…team, which keeps the former one.");
    }

    #[test]
    fn codes_and_words_without_blanks_are_found() {
        let long = "x ".repeat(40) + "E-117 means that the pump leaks. " + &"y ".repeat(40);
        assert!(snippet(&long, "e117", 40).contains("E-117"));
        let japanese = "あ".repeat(100) + "水漏れがあります" + &"い".repeat(100);
        assert!(snippet(&japanese, "水漏れ", 40).contains("水漏れ"));
    }

    #[test]
    fn a_text_without_the_words_begins_at_its_beginning() {
        assert_eq!(snippet(TEXT, "bicycle", 20), "The canteen opens a…");
        assert_eq!(snippet("  short \n text ", "bicycle", 20), "short text");
        assert_eq!(snippet("", "", 20), "");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(fitted("数据库检索", 10), "数据库检索");
        assert_eq!(fitted("数据库检索", 9), "数据库检…");
        assert_eq!(fitted_end("docs/guide/keys.md:12-30", 14), "…keys.md:12-30");
    }

    #[test]
    fn inflected_words_are_the_same_and_others_are_not() {
        assert!(is_same("rotates", "rotated") && is_same("key", "keys") && is_same("a", "a"));
        assert!(is_same("e117", "e117") && !is_same("e117", "e118"));
        assert!(!is_same("the", "team") && !is_same("key", "kernel") && !is_same("a", "an"));
    }
}
