//! What characters are.

use unicode_normalization::char::is_combining_mark;

/// What a character is to the splitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No part of a word.
    Sign,
    /// A letter that is no capital.
    Lower,
    Upper,
    Digit,
    /// It belongs to the character before.
    Mark,
    Han,
    Hiragana,
    Katakana,
    Hangul,
    /// Thai, Lao, Burmese and Khmer, which have no blanks between words.
    Southeast,
}

impl Class {
    /// Returns true for the characters of words that have blanks between them.
    pub fn is_spaced(self) -> bool {
        matches!(self, Self::Lower | Self::Upper | Self::Digit)
    }

    /// Returns true if a run of characters in a script without blanks goes on with this one.
    pub fn continues(self, run: Self) -> bool {
        let is_cjk = |class| matches!(class, Self::Han | Self::Hiragana | Self::Katakana);
        self == Self::Mark || self == run || (is_cjk(self) && is_cjk(run))
    }
}

const ASCII: [Class; 128] = {
    let mut classes = [Class::Sign; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Sign,
        };
        byte += 1;
    }
    classes
};

/// Returns true if the character that begins at a place belongs to the one before, also where
/// [`class_at`] has a script for it.
pub fn is_mark_at(text: &str, at: usize) -> bool {
    text[at..].chars().next().is_some_and(is_combining_mark)
}

/// Returns the class of the character that begins at a place, and the number of its bytes. There is
/// none at the end of the text, which is like a sign.
#[inline]
pub fn class_at(text: &str, at: usize) -> (Class, usize) {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => (ASCII[usize::from(*byte)], 1),
        Some(_) => {
            let c = text[at..].chars().next().unwrap_or(' ');
            (class(c), c.len_utf8())
        }
        None => (Class::Sign, 0),
    }
}

fn class(c: char) -> Class {
    match c {
        '\u{3005}'..='\u{3007}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{323AF}' => Class::Han,
        '\u{3041}'..='\u{3096}' | '\u{309D}'..='\u{309F}' => Class::Hiragana,
        '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' => {
            Class::Katakana
        }
        '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97C}' | '\u{AC00}'..='\u{D7FB}' => {
            Class::Hangul
        }
        '\u{0E01}'..='\u{0E3A}'
        | '\u{0E40}'..='\u{0E4E}'
        | '\u{0E81}'..='\u{0ECE}'
        | '\u{0EDC}'..='\u{0EDF}'
        | '\u{1000}'..='\u{103F}'
        | '\u{1050}'..='\u{108F}'
        | '\u{1780}'..='\u{17D3}' => Class::Southeast,
        '\u{200C}' | '\u{200D}' => Class::Mark,
        c if c.is_uppercase() => Class::Upper,
        c if c.is_alphabetic() => Class::Lower,
        c if c.is_numeric() => Class::Digit,
        c if is_combining_mark(c) => Class::Mark,
        _ => Class::Sign,
    }
}
