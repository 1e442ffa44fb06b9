//! The words of a query as they are written: which of them are codes.

/// Further words of a query are not looked at. A query of so many words is a text.
pub const MAX_WORDS: usize = 64;
/// Numbers with fewer digits are amounts or years. So are numbers with commas; colons are of times.
const MIN_DIGITS: usize = 5;

/// A word of a query, without the punctuation around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenWord<'a> {
    pub text: &'a str,
    /// It is written as no word of a language is, or quoted: see [`written_words`].
    pub is_code: bool,
}

/// Returns the words of a text of a query, at most 64. All words of a quoted text are codes.
///
/// Another word is a code if it has
/// * digits and letters (`E-117`, `x200`), at least five digits (`20417`), or three numbers
///   (`2.11.3`);
/// * a sign before a letter that is no hyphen (`auth.token.ttl`, `ERR_DISK`, `/etc`, `a::b`), or
///   `()` at its end;
/// * a capital after a small letter (`sessionMaker`).
pub fn written_words(text: &str, is_quoted: bool) -> impl Iterator<Item = WrittenWord<'_>> {
    let words = text.split_whitespace().map(trimmed);
    let words = words.filter(|word| !word.is_empty()).take(MAX_WORDS);
    words.map(move |text| WrittenWord {
        text,
        is_code: is_quoted || is_code(text),
    })
}

/// Returns a word without punctuation of sentences around it.
fn trimmed(word: &str) -> &str {
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_'));
    let is_end = |c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '(' | ')');
    let word = word.trim_end_matches(is_end);
    // brackets stay at the end of a call only
    match word.strip_suffix("()") {
        Some(name) if !name.is_empty() => word,
        _ => word.trim_end_matches(|c: char| is_end(c) || matches!(c, '(' | ')')),
    }
}

fn is_code(word: &str) -> bool {
    let digits = word.chars().filter(|c| c.is_numeric()).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    if letters == 0 {
        return digits >= MIN_DIGITS && !word.contains([',', ':']) || is_version(word);
    }
    digits > 0 || has_sign(word) || has_inner_capital(word)
}

/// Returns true for three numbers or more, with dots between them.
fn is_version(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(char::is_numeric);
    word.split('.').count() >= 3 && word.split('.').all(is_number)
}

/// Returns true if a sign that no word of a language has is before a letter, or the word ends with
/// `()`. Dots after single letters are those of abbreviations: `e.g`.
fn has_sign(word: &str) -> bool {
    let is_sign = |(at, c): &(usize, char)| match c {
        '_' | '/' | '\\' | ':' | '#' | '@' => true,
        '.' => {
            word[..*at]
                .chars()
                .rev()
                .take_while(|c| c.is_alphanumeric())
                .count()
                > 1
        }
        _ => false,
    };
    let mut signs = word.char_indices().filter(is_sign);
    signs.any(|(at, c)| word[at + c.len_utf8()..].starts_with(char::is_alphabetic))
        || word.ends_with("()")
}

fn has_inner_capital(word: &str) -> bool {
    let mut before = None;
    word.chars().any(|c| {
        let is_inner = c.is_uppercase() && before.is_some_and(char::is_lowercase);
        before = Some(c);
        is_inner
    })
}
