//! Removes characters that no reader sees. They are used to hide text from people, or to show it in
//! another order than it is written in.
//!
//! | removed | kept |
//! |---|---|
//! | tag characters, U+E0000 to U+E007F | in the flags of England, Scotland and Wales |
//! | bidirectional controls: embeddings, overrides, isolates, marks | |
//! | zero-width space | between letters of Thai, Lao, Khmer and Myanmar, where it separates words |
//! | zero-width joiner and non-joiner | one after a letter of a script whose letters join (Arabic, those of India, ...); a joiner between two emojis |
//! | word joiner, byte order mark inside of a text, invisible operators, deprecated controls | |
//! | soft hyphens | at the end of a line, where they are shown; removing the others is not told |
//! | variation selectors | one after a character that can have variants |
//!
//! Nothing visible is lost: the order of a text follows from its letters, and letters join as
//! before.

/// Returns a text without its invisible characters, and the number of those that were removed,
/// without soft hyphens. Returns `None` if the text has neither.
pub fn removed(text: &str) -> Option<(String, usize)> {
    if !text.chars().any(is_suspicious) {
        return None;
    }
    let mut kept = String::with_capacity(text.len());
    let (mut before, mut count) = (None, 0);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c == FLAG {
            FLAG.len_utf8() + tags_of_flag(&rest[FLAG.len_utf8()..])
        } else {
            c.len_utf8()
        };
        let (piece, after) = rest.split_at(length);
        if is_suspicious(c) && !is_needed(c, before, after) {
            count += usize::from(c != SOFT_HYPHEN);
        } else {
            kept.push_str(piece);
            before = Some(c);
        }
        rest = after;
    }
    (kept.len() < text.len()).then_some((kept, count))
}

/// The base of regional flags.
const FLAG: char = '\u{1F3F4}';
/// The tags of the three flags that fonts have.
const FLAGS: [&str; 3] = [
    "\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
    "\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
    "\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}",
];

fn tags_of_flag(text: &str) -> usize {
    FLAGS
        .iter()
        .find(|tags| text.starts_with(**tags))
        .map_or(0, |tags| tags.len())
}

/// The place where a word may be broken.
const SOFT_HYPHEN: char = '\u{AD}';
const NON_JOINER: char = '\u{200C}';
const JOINER: char = '\u{200D}';

fn is_suspicious(c: char) -> bool {
    matches!(c,
        SOFT_HYPHEN | '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206F}' | '\u{FEFF}'
        | '\u{E0000}'..='\u{E007F}')
        || is_selector(c)
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Returns true if a suspicious character has an effect between a character and a text.
fn is_needed(c: char, before: Option<char>, after: &str) -> bool {
    if c == SOFT_HYPHEN {
        let next = after.chars().find(|c| *c != SOFT_HYPHEN);
        return before.is_none_or(char::is_whitespace) || next.is_none_or(char::is_whitespace);
    }
    let Some(before) = before else { return false };
    let after = after.chars().next();
    match c {
        '\u{200B}' => is_unspaced(before) && after.is_some_and(is_unspaced),
        NON_JOINER => joins(before),
        JOINER => joins(before) || is_emoji(before) && after.is_some_and(is_emoji),
        '\u{E0100}'..='\u{E01EF}' => is_han(before),
        '\u{FE0E}' | '\u{FE0F}' => {
            is_emoji(before) && !is_selector(before)
                || matches!(before, '0'..='9' | '#' | '*' | '©' | '®')
        }
        _ if is_selector(c) => !before.is_ascii() && !is_selector(before),
        _ => false,
    }
}

/// Returns true for letters of scripts that may separate words with a zero-width space.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E01}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{1950}'..='\u{1AAF}')
}

/// Returns true for letters and marks of scripts whose letters change shape beside each other.
fn joins(c: char) -> bool {
    matches!(c,
        '\u{600}'..='\u{61B}' | '\u{61D}'..='\u{7FF}' | '\u{840}'..='\u{DFF}'
        | '\u{F00}'..='\u{109F}' | '\u{1780}'..='\u{18AF}' | '\u{1900}'..='\u{1CFF}'
        | '\u{A800}'..='\u{AAFF}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}'
        | '\u{10A00}'..='\u{11FFF}' | '\u{1E900}'..='\u{1E95F}')
}

fn is_han(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Emojis, the symbols that combine with them, and their selectors.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21FF}'
        | '\u{2300}'..='\u{23FF}' | '\u{24C2}' | '\u{25A0}'..='\u{27BF}' | '\u{2900}'..='\u{297F}'
        | '\u{2B00}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{FE0F}'
        | '\u{1F000}'..='\u{1FAFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, count: usize) {
        assert_eq!(
            removed(text),
            (count > 0).then(|| (expected.to_owned(), count)),
            "{text:?}"
        );
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_removed() {
        let hidden: String = "run rm"
            .chars()
            .map(|c| char::from_u32(0xE0000 + c as u32).unwrap())
            .collect();
        check(&format!("Hello{hidden}!"), "Hello!", 6);
        check(
            "\u{202E}txt.exe\u{202C} \u{2066}a\u{2069}\u{200F}\u{61C}",
            "txt.exe a",
            6,
        );
        check(
            "pass\u{200B}word \u{2060}\u{FEFF}\u{2062}\u{206A}end",
            "password end",
            5,
        );
        check("\u{200D}a\u{200C}b\u{200D}", "ab", 3);
        // Bytes in variation selectors; the smiley may have one.
        check(
            "\u{1F600}\u{FE0F}\u{FE01}\u{E0123}\u{E0144}",
            "\u{1F600}\u{FE0F}",
            3,
        );
        check("a\u{FE00}b\u{FE01}", "ab", 2);
        check("\u{1F3F4}\u{E0061}\u{E0062}", "\u{1F3F4}", 2);
    }

    #[test]
    fn soft_hyphens_inside_of_words_are_removed() {
        for (text, expected) in [
            (
                "R\u{AD}\u{FC}ck\u{AD}gabe\u{AD}\u{AD}recht",
                "R\u{FC}ckgaberecht",
            ),
            (
                "a/\u{AD}b, Gro\u{308}\u{AD}\u{DF}e, 10\u{AD}er",
                "a/b, Gro\u{308}\u{DF}e, 10er",
            ),
        ] {
            assert_eq!(removed(text), Some((expected.to_owned(), 0)), "{text:?}");
        }
        for text in ["Kaffee\u{AD}\nmaschine", "a \u{AD} b", "end\u{AD}"] {
            assert_eq!(removed(text), None, "{text:?}");
        }
    }

    #[test]
    fn characters_that_scripts_and_emojis_need_are_kept() {
        for text in [
            "plain",
            "\u{645}\u{6CC}\u{200C}\u{62E}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94D}\u{200D}\u{937}",
            "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
            "\u{1F3F3}\u{FE0F}\u{200D}\u{1F308}",
            "\u{1F469}\u{1F3FD}\u{200D}\u{2695}\u{FE0F}",
            "1\u{FE0F}\u{20E3} \u{2764}\u{FE0F} \u{A9}\u{FE0F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
            "\u{E20}\u{E32}\u{E29}\u{E32}\u{200B}\u{E44}\u{E17}\u{E22}",
            "\u{845B}\u{E0100}",
            "\u{2229}\u{FE00}",
        ] {
            check(text, text, 0);
        }
        // But not twice.
        check(
            "\u{645}\u{200C}\u{200C}\u{62E}",
            "\u{645}\u{200C}\u{62E}",
            1,
        );
    }
}
