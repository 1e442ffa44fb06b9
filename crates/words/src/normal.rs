//! One form of texts that look the same.

use std::{borrow::Cow, ops::Range};

use rag_pages::memory::{OutOfMemory, append, with_room};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfkc_quick,
};

/// Returns a text in normalization form NFKC, without soft hyphens and other marks that only say
/// where lines may end.
///
/// # Errors
/// Memory runs out.
pub fn normalized(text: &str) -> Result<Cow<'_, str>, OutOfMemory> {
    if text.is_ascii() || is_normal(text) {
        return Ok(Cow::Borrowed(text));
    }
    let mut normal: Vec<u8> = with_room(text.len())?;
    let mut bytes = [0; 4];
    for c in separated(text).map(|(_, c)| c).nfkc() {
        append(&mut normal, c.encode_utf8(&mut bytes).as_bytes())?;
    }
    let normal = String::from_utf8(normal);
    Ok(normal.map_or(Cow::Borrowed(text), Cow::Owned))
}

pub fn is_normal(text: &str) -> bool {
    is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.contains(is_invisible)
}

/// Soft hyphen, word joiner, byte order mark.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{2060}' | '\u{FEFF}')
}

/// Returns the characters and where they are, with a blank before those that would become digits of
/// the number before them: 10⁶ is not 106, and 1½ is not 11/2.
pub fn separated(text: &str) -> impl Iterator<Item = (Range<usize>, char)> {
    let mut before = ' ';
    text.char_indices()
        .filter(|(_, c)| !is_invisible(*c))
        .flat_map(move |(at, c)| {
            let is_raised = before.is_ascii_digit() && is_small_digit(c);
            before = c;
            let place = at..at + c.len_utf8();
            let c = if matches!(c, '™' | '℠') { ' ' } else { c };
            let blank = is_raised.then(|| (place.clone(), ' '));
            blank.into_iter().chain([(place, c)])
        })
}

fn is_small_digit(c: char) -> bool {
    matches!(c,
        '\u{B2}' | '\u{B3}' | '\u{B9}' | '\u{BC}'..='\u{BE}' | '\u{2070}'..='\u{2089}'
        | '\u{2150}'..='\u{215F}' | '\u{2189}' | '\u{2460}'..='\u{249B}')
}

/// Returns a word without accents on its letters. Letters of scripts in which marks are no accents
/// keep them: й is not и, and ガ is not カ.
pub fn fold_accents(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return Cow::Borrowed(word);
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.nfc() {
        match plain(c) {
            Some(letters) => folded.push_str(letters),
            None => {
                let base = c.nfd().next().unwrap_or(c);
                let is_accented = matches!(base, '\u{0}'..='\u{24F}' | '\u{370}'..='\u{3FF}');
                let is_accent = is_combining_mark(c) && matches!(c, '\u{300}'..='\u{36F}');
                match (is_accent, is_accented) {
                    (true, _) => {}
                    (false, true) => folded.push(base),
                    (false, false) => folded.push(c),
                }
            }
        }
    }
    Cow::Owned(folded)
}

/// Letters that do not consist of another letter and a mark, or are Cyrillic.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'ı' => "i",
        'þ' => "th",
        'ё' => "е",
        'ς' => "σ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_the_same_are_the_same() {
        for (text, normal) in [
            ("plain", "plain"),
            ("Gro\u{308}ße", "Größe"),
            ("Rück\u{AD}gabe", "Rückgabe"),
            ("ＡＢＣ１２", "ABC12"),
            ("10⁶ m² 1½", "10 6 m2 1 1⁄2"),
            ("ﬁnd", "find"),
            ("ﾊﾟｿｺﾝ", "パソコン"),
        ] {
            assert_eq!(normalized(text).unwrap(), normal);
            assert_eq!(normalized(normal).unwrap(), normal);
        }
    }

    #[test]
    fn accents_are_folded() {
        for (word, folded) in [
            ("café", "cafe"),
            ("größe", "grosse"),
            ("łódź", "lodz"),
            ("ё", "е"),
            ("й", "й"),
            ("ガ", "ガ"),
            ("ά", "α"),
            ("việt", "viet"),
        ] {
            assert_eq!(fold_accents(word), folded);
        }
    }
}
