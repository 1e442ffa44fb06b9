//! Reads the instructions of a content stream, as far as it takes to see damage to them.

use std::collections::BTreeSet;

/// What a content stream says.
#[derive(Debug, Default, PartialEq)]
pub struct Instructions<'a> {
    /// Names of the forms and pictures that are drawn.
    pub drawn: BTreeSet<&'a [u8]>,
    /// Names of the fonts that are chosen.
    pub fonts: BTreeSet<&'a [u8]>,
    pub is_damaged: bool,
}

/// Reads the instructions.
pub fn read(content: &[u8]) -> Instructions<'_> {
    let mut found = Instructions::default();
    let mut name: &[u8] = b"";
    let mut at = 0;
    while let Some(&byte) = content.get(at) {
        let rest = content.get(at..).unwrap_or_default();
        let length = match byte {
            b'%' => Some(line(rest)),
            b'(' => string(rest),
            b'<' if rest.get(1) == Some(&b'<') => Some(2),
            b'<' => rest.iter().position(|b| *b == b'>').map(|end| end + 1),
            b'/' => {
                let length = 1 + regular(rest.get(1..).unwrap_or_default());
                name = rest.get(1..length).unwrap_or_default();
                Some(length)
            }
            byte if is_space(byte) || is_delimiter(byte) => Some(1),
            _ => {
                let word = rest.get(..regular(rest)).unwrap_or_default();
                match word {
                    b"Do" => drop(found.drawn.insert(name)),
                    b"Tf" => drop(found.fonts.insert(name)),
                    word if !word.iter().all(u8::is_ascii_graphic) => found.is_damaged = true,
                    _ => {}
                }
                if word == b"ID" {
                    picture(rest)
                } else {
                    Some(word.len())
                }
            }
        };
        match length {
            Some(length) => at += length.max(1),
            None => {
                found.is_damaged = true;
                break;
            }
        }
    }
    found
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\0' | b'\t' | b'\n' | b'\x0C' | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(
        byte,
        b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%'
    )
}

/// Bytes up to the next space or delimiter.
fn regular(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|b| is_space(*b) || is_delimiter(*b));
    end.unwrap_or(bytes.len())
}

fn line(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|b| matches!(b, b'\r' | b'\n'));
    end.unwrap_or(bytes.len())
}

/// Bytes of the string in parentheses at the start. Returns `None` where it has no end.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

/// Bytes of the picture whose data begin here with `ID`. They end with a word `EI` that text
/// follows. Returns `None` where there is no such end.
fn picture(bytes: &[u8]) -> Option<usize> {
    /// Bytes after the end that must be text: data may contain the word.
    const AFTER: usize = 8;
    let is_end = |at: usize| {
        let after = bytes.get(at + 3..).unwrap_or_default();
        let is_text = |b: &u8| is_space(*b) || b.is_ascii_graphic();
        bytes.get(at).is_some_and(|b| is_space(*b))
            && after.first().is_none_or(|b| is_space(*b))
            && after.iter().take(AFTER).all(is_text)
    };
    let ends = bytes.windows(3).enumerate().skip(2);
    let mut ends = ends.filter(|(_, word)| word.ends_with(b"EI"));
    ends.find(|(at, _)| is_end(*at)).map(|(at, _)| at + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_damaged(content: &[u8]) -> bool {
        read(content).is_damaged
    }

    #[test]
    fn forms_and_fonts_that_are_used_are_found() {
        let content = b"q /GS0 gs /Fm0 Do Q /Im#20 1 Do (/No Do) Tj % /No Do\n/F1 -.5 Tf[/A(x)]TJ";
        let found = read(content);
        assert!(found.drawn.iter().eq(&[&b"Fm0"[..], b"Im#20"]));
        assert!(found.fonts.iter().eq(&[b"F1"]));
        assert!(!found.is_damaged);
    }

    #[test]
    fn whole_instructions_are_not_reported() {
        for content in [
            &b""[..],
            b"BT /F1 12 Tf 1 0 0 1 -.5 +7 Tm (a \\) \\( (nested) \xE9\xFF) Tj T* <0Aff> ' ET",
            b"/P <</MCID 0 /ActualText (\xFE\xFF\0a)>> BDC EMC % \xE9\nf*",
            b"BI /W 2 /H 2 ID \x80 EI\xFF\x90( EI Q (more) Tj",
            b"/\xE9t\xE9 gs",
        ] {
            assert!(!is_damaged(content), "{}", content.escape_ascii());
        }
    }

    #[test]
    fn damage_is_found() {
        for content in [
            &b"BT (no end Tj ET"[..],
            b"BT <0A0B Tj ET",
            b"BI /W 2 ID \x80\x81\x82",
            b"BT /F1 12 Tf \x95\x02d (text) Tj ET",
        ] {
            assert!(is_damaged(content), "{}", content.escape_ascii());
        }
    }
}
