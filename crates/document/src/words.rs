//! Whether a text has spaces between its words. One without is stored and embedded, and nothing
//! finds it.

use rag_protocol::ingest::DocumentType;

/// Longest word, in letters and digits. The longest one of any dictionary has fewer than 200.
const LONGEST: usize = 200;

/// Returns a warning if words of a text are far too long. Only types for people are looked at: data
/// and code may have long names.
///
/// A PDF says where each glyph is and not where a word ends, so there one such word tells that
/// spaces are missing. In other documents it may be an encoded picture: there such words must be
/// more than half of the text.
pub fn warning(text: &str, document_type: DocumentType) -> Option<String> {
    let is_drawn = match document_type {
        DocumentType::Pdf => true,
        DocumentType::Docx | DocumentType::Html | DocumentType::Markdown | DocumentType::Text => {
            false
        }
        _ => return None,
    };
    let (mut count, mut longest, mut inside, mut all) = (0, 0, 0, 0);
    for word in text.split(|c: char| c.is_whitespace() || is_unspaced(c)) {
        let length = word.chars().filter(|c| c.is_alphanumeric()).count();
        all += length;
        if length > LONGEST && !word.contains("://") {
            count += 1;
            inside += length;
            longest = longest.max(length);
        }
    }
    let words = if count == 1 { "word has" } else { "words have" };
    (count > 0 && (is_drawn || inside * 2 > all)).then(|| {
        format!("{count} {words} more than {LONGEST} letters, up to {longest}: spaces between words may be missing")
    })
}

/// Letters of scripts that are written without spaces: each may be a word.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{1950}'..='\u{1AAF}' | '\u{2E80}'..='\u{A4CF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_far_too_long_are_told() {
        let glued = "Thenumberofvisitorsrose,bytenpercent.".repeat(20);
        let text = format!("Report {glued} end");
        let told = warning(&text, DocumentType::Pdf).unwrap();
        assert_eq!(
            told,
            "1 word has more than 200 letters, up to 700: spaces between words may be missing"
        );
        assert!(warning(&glued, DocumentType::Text).is_some());
        assert_eq!(warning(&glued, DocumentType::Code), None);
        let mostly = format!("{} {glued}", "These are words. ".repeat(100));
        assert_eq!(warning(&mostly, DocumentType::Markdown), None);
        assert!(warning(&mostly, DocumentType::Pdf).is_some());
    }

    #[test]
    fn addresses_lines_of_dots_and_scripts_without_spaces_are_no_such_words() {
        let texts = [
            format!("Contents {} 7", ".".repeat(500)),
            format!("https://example.org/{}", "path".repeat(100)),
            "日本語の文章をここに書きます".repeat(100),
            "ภาษาไทย".repeat(100),
        ];
        for text in texts {
            assert_eq!(warning(&text, DocumentType::Pdf), None, "{text}");
        }
    }
}
