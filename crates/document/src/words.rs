//! Detects texts without spaces between words. They would be stored and embedded, and no search
//! would find them.

use crate::Structure;

/// Maximum length of a word, in letters and digits. The longest dictionary words have fewer than
/// 200.
const MAX_WORD: usize = 200;

/// Returns a warning if words of a text are far too long. Only prose is checked: data and code may
/// have long names.
///
/// A PDF has the position of each glyph and not the ends of words, so one such word means that
/// spaces are missing. In other documents it may be encoded data: there such words must be more
/// than half of the text.
pub fn warning(text: &str, structure: &Structure) -> Option<String> {
    let is_drawn = match structure {
        Structure::Pages => true,
        Structure::Prose | Structure::Sections { .. } => false,
        Structure::Code(_) | Structure::Records => return None,
    };
    let (mut count, mut longest, mut inside, mut all) = (0, 0, 0, 0);
    for word in text.split(|c: char| c.is_whitespace() || is_unspaced(c)) {
        let length = word.chars().filter(|c| c.is_alphanumeric()).count();
        all += length;
        if length > MAX_WORD && !word.contains("://") {
            count += 1;
            inside += length;
            longest = longest.max(length);
        }
    }
    let words = if count == 1 { "word has" } else { "words have" };
    (count > 0 && (is_drawn || inside * 2 > all)).then(|| {
        format!(
            "{count} {words} more than {MAX_WORD} letters, up to {longest}: spaces between \
            words may be missing"
        )
    })
}

/// Returns true for letters of scripts that are written without spaces. Each may be a word.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{1950}'..='\u{1AAF}'
        | '\u{2E80}'..='\u{A4CF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_far_too_long_cause_a_warning() {
        let glued = "Thenumberofvisitorsrose,bytenpercent.".repeat(20);
        let text = format!("Report {glued} end");
        let told = warning(&text, &Structure::Pages).unwrap();
        assert_eq!(
            told,
            "1 word has more than 200 letters, up to 700: spaces between words may be missing"
        );
        assert!(warning(&glued, &Structure::Prose).is_some());
        assert_eq!(warning(&glued, &Structure::Records), None);
        let mostly = format!("{} {glued}", "These are words. ".repeat(100));
        assert_eq!(warning(&mostly, &Structure::Prose), None);
        assert!(warning(&mostly, &Structure::Pages).is_some());
    }

    #[test]
    fn addresses_lines_of_dots_and_scripts_without_spaces_cause_no_warning() {
        let texts = [
            format!("Contents {} 7", ".".repeat(500)),
            format!("https://example.org/{}", "path".repeat(100)),
            "日本語の文章をここに書きます".repeat(100),
            "ภาษาไทย".repeat(100),
        ];
        for text in texts {
            assert_eq!(warning(&text, &Structure::Pages), None, "{text}");
        }
    }
}
