//! Decodes bytes in any encoding to text.
//!
//! The first of these encodings that fits all of the bytes is used:
//!
//! 1. the byte order mark: UTF-8, UTF-16, UTF-32;
//! 2. the charset that the HTTP header declares, else the one that HTML's `<meta>` declares;
//! 3. UTF-16 without a mark, recognized by a zero in every other byte;
//! 4. ISO-2022-JP, which has ASCII bytes only and is recognized by its escape sequences;
//! 5. UTF-8;
//! 6. the guess of `chardetng`, if there are enough characters to judge by;
//! 7. windows-1252, if each byte is a character there (it includes ISO-8859-1);
//! 8. UTF-8 with U+FFFD in place of invalid bytes.
//!
//! Text that is UTF-8 except for a few bytes goes straight to the last: as windows-1252 all its
//! other letters would be wrong. Charsets are those of the [Encoding
//! Standard](https://encoding.spec.whatwg.org), under all names that it defines.
//!
//! A file with more control characters than any text has is binary, and a [`DocumentError`].

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use rag_protocol::ingest::Stage;

use crate::{DocumentError, DocumentErrorKind};

/// The text of a file, and how it was decoded.
#[derive(Debug, PartialEq)]
pub struct DecodedText<'a> {
    /// Without a byte order mark and NUL characters.
    pub text: Cow<'a, str>,
    /// `UTF-8`, `windows-1251`: the name in the Encoding Standard, and `UTF-32LE`, `UTF-32BE`.
    pub encoding: &'static str,
    /// What may have been lost or misread, one sentence each.
    pub warnings: Vec<String>,
}

/// Number of bytes of a file that `chardetng` reads.
const SAMPLE: usize = 256 << 10;
/// Minimum number of bytes beyond ASCII for a guess.
const MIN_FOREIGN_BYTES: usize = 6;

/// Decodes `bytes`, which were declared to be in the charset with the label `declared`.
pub fn text<'a>(bytes: &'a [u8], declared: Option<&str>) -> Result<DecodedText<'a>, DocumentError> {
    let mut warnings = vec![];
    let (text, encoding, is_guess) = ladder(bytes, declared, &mut warnings);
    refuse_binary(&text, is_guess)?;
    let mut text = text;
    if let Some(without) = without_nul(&text) {
        warnings.push(nul_warning(text.len() - without.len()));
        text = Cow::Owned(without);
    }
    Ok(DecodedText {
        text,
        encoding,
        warnings,
    })
}

pub fn nul_warning(removed: usize) -> String {
    let characters = if removed == 1 {
        "1 NUL character was".into()
    } else {
        format!("{removed} NUL characters were")
    };
    format!("{characters} removed")
}

/// Returns `None` if there are none.
pub fn without_nul(text: &str) -> Option<String> {
    text.contains('\0').then(|| text.replace('\0', ""))
}

/// Returns the text, the encoding's name, and whether it is only a guess.
fn ladder<'a>(
    bytes: &'a [u8],
    declared: Option<&str>,
    warnings: &mut Vec<String>,
) -> (Cow<'a, str>, &'static str, bool) {
    let mut rest = bytes;
    if let Some(marked) = by_mark(bytes) {
        if let Some(text) = marked.text {
            return (text, marked.encoding, false);
        }
        warnings.push(format!(
            "the byte order mark declares {0}, but the bytes are not valid {0}",
            marked.encoding
        ));
        rest = marked.rest;
    }
    match declared.map(|label| (label, Encoding::for_label(label.as_bytes()))) {
        // servers name a default; each byte is a character of it
        Some((_, Some(encoding))) if encoding.is_single_byte() && is_surely_utf8(rest) => {
            warnings.push(format!(
                "declared as {}, but the bytes are UTF-8",
                encoding.name()
            ));
        }
        Some((_, Some(encoding))) => match strictly(encoding, rest) {
            Some(text) => return (text, encoding.name(), false),
            None => warnings.push(format!(
                "declared as {0}, but the bytes are not valid {0}",
                encoding.name()
            )),
        },
        Some((label, None)) => {
            let label: String = label.chars().filter(|c| !c.is_control()).take(40).collect();
            warnings.push(format!("declared with the unknown charset \"{label}\""));
        }
        None => {}
    }
    if let Some(encoding) = unmarked_utf16(rest)
        && let Some(text) = strictly(encoding, rest)
    {
        return (text, encoding.name(), false);
    }
    if has_japanese_escapes(rest)
        && let Some(text) = strictly(ISO_2022_JP, rest)
    {
        return (text, ISO_2022_JP.name(), false);
    }
    if let Ok(text) = std::str::from_utf8(rest) {
        return (Cow::Borrowed(text), UTF_8.name(), false);
    }
    if !is_damaged_utf8(rest) {
        for encoding in detected(rest).into_iter().chain([WINDOWS_1252]) {
            if let Some(text) = strictly(encoding, rest).filter(|text| !text.contains(is_c1)) {
                return (text, encoding.name(), true);
            }
        }
    }
    let text = String::from_utf8_lossy(rest);
    let valid = rest
        .utf8_chunks()
        .next()
        .map_or(0, |chunk| chunk.valid().len());
    let at = bytes.len() - rest.len() + valid;
    let damaged = rest
        .utf8_chunks()
        .filter(|chunk| !chunk.invalid().is_empty())
        .count();
    let places = if damaged == 1 {
        "1 invalid UTF-8 sequence was"
    } else {
        &format!("{damaged} invalid UTF-8 sequences were")
    };
    warnings.push(format!(
        "{places} replaced with U+FFFD, the first at byte offset {at}"
    ));
    (text, UTF_8.name(), true)
}

/// The encoding that a byte order mark names.
struct MarkedText<'a> {
    encoding: &'static str,
    /// `None` if the bytes are not in that encoding.
    text: Option<Cow<'a, str>>,
    /// The bytes after the mark.
    rest: &'a [u8],
}

fn by_mark(bytes: &[u8]) -> Option<MarkedText<'_>> {
    // UTF-32LE begins like UTF-16LE.
    for (mark, name, from) in [
        (
            &b"\xFF\xFE\0\0"[..],
            "UTF-32LE",
            u32::from_le_bytes as fn([u8; 4]) -> u32,
        ),
        (b"\0\0\xFE\xFF", "UTF-32BE", u32::from_be_bytes),
    ] {
        if let Some(rest) = bytes.strip_prefix(mark)
            && let Some(text) = utf32(rest, from)
        {
            return Some(MarkedText {
                encoding: name,
                text: Some(Cow::Owned(text)),
                rest,
            });
        }
    }
    let (encoding, length) = Encoding::for_bom(bytes)?;
    let rest = &bytes[length..];
    Some(MarkedText {
        encoding: encoding.name(),
        text: strictly(encoding, rest),
        rest,
    })
}

fn utf32(bytes: &[u8], from: fn([u8; 4]) -> u32) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<4>();
    rest.is_empty()
        .then(|| {
            units
                .iter()
                .map(|unit| char::from_u32(from(*unit)))
                .collect()
        })
        .flatten()
}

/// Returns `None` unless all of the bytes are text in the encoding.
fn strictly<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    encoding.decode_without_bom_handling_and_without_replacement(bytes)
}

/// Text in Latin script has a zero in every other byte.
fn unmarked_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.len() < 4
        || !bytes.len().is_multiple_of(2)
        || !bytes[..bytes.len().min(64)].contains(&0)
    {
        return None;
    }
    let (pairs, _) = bytes.as_chunks::<2>();
    let first = pairs.iter().filter(|pair| pair[0] == 0).count();
    let second = pairs.iter().filter(|pair| pair[1] == 0).count();
    let (most, few) = (pairs.len() / 2, pairs.len() / 50);
    match (first, second) {
        (first, second) if second > most && first <= few => Some(UTF_16LE),
        (first, second) if first > most && second <= few => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns true if escape sequences switch to the two-byte characters of ISO-2022-JP and back to
/// ASCII or JIS X 0201.
fn has_japanese_escapes(bytes: &[u8]) -> bool {
    const TO_JAPANESE: [&[u8]; 2] = [b"\x1B$B", b"\x1B$@"];
    const TO_LATIN: [&[u8]; 2] = [b"\x1B(B", b"\x1B(J"];
    let has = |sequences: [&[u8]; 2]| bytes.windows(3).any(|window| sequences.contains(&window));
    // Most files have no escape character at all.
    bytes.contains(&0x1B) && has(TO_JAPANESE) && has(TO_LATIN)
}

/// Returns true if all bytes beyond ASCII are UTF-8, and there are more than could be so by chance.
fn is_surely_utf8(bytes: &[u8]) -> bool {
    const CHARACTERS: usize = 3;
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.chars()
        .filter(|c| !c.is_ascii())
        .nth(CHARACTERS - 1)
        .is_some()
}

/// Returns true if nearly all bytes beyond ASCII are UTF-8, or if only the end is missing.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut characters, mut invalid) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    let is_cut = std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none());
    characters >= 4 * invalid || (is_cut && characters > 0)
}

fn detected(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.iter().filter(|byte| !byte.is_ascii()).count() < MIN_FOREIGN_BYTES {
        return None;
    }
    // The bytes beyond ASCII may all be far from the beginning.
    let from = Encoding::ascii_valid_up_to(bytes).saturating_sub(SAMPLE / 4);
    let sample = &bytes[from..bytes.len().min(from + SAMPLE)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, from + sample.len() == bytes.len());
    Some(detector.guess(None, Utf8Detection::Deny))
}

/// Control characters that no encoding of text has. Bytes that are unassigned in an encoding become
/// these.
fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{84}' | '\u{86}'..='\u{9F}')
}

fn refuse_binary(text: &str, is_guess: bool) -> Result<(), DocumentError> {
    let controls = text
        .bytes()
        .filter(|byte| matches!(byte, 0..=7 | 11 | 14..=26 | 28..=31 | 127))
        .count();
    // Checked for guesses only: counting characters takes as long as everything else together.
    let replaced = if is_guess {
        text.matches('\u{FFFD}').count()
    } else {
        0
    };
    let most = text.len() / if is_guess { 50 } else { 10 };
    if controls <= most.max(2) && replaced * 10 <= text.len() {
        return Ok(());
    }
    let problem = DocumentError::new(
        Stage::Decode,
        "the file is binary: it is not text in any known encoding",
    )
    .hint("Exclude the file; or, if it is text, convert it to UTF-8.");
    Err(DocumentError {
        kind: DocumentErrorKind::Binary,
        ..problem
    })
}

/// Returns the charset of a media type: `text/html; charset=windows-1251`.
pub fn charset(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']).trim();
        (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then_some(value)
    })
}

/// Returns the charset that HTML declares in its first KiB: `<meta charset=...>`, or the `content`
/// of `http-equiv`.
pub fn html_charset(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    let mut rest = head.as_str();
    while let Some(at) = rest.find("<meta") {
        rest = &rest[at + "<meta".len()..];
        let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
        if let Some(label) = tag.split("charset").skip(1).find_map(meta_value) {
            // A page that declares it in ASCII is not in UTF-16.
            return Some(if label.starts_with("utf-16") {
                "utf-8".into()
            } else {
                label.to_owned()
            });
        }
    }
    None
}

/// Parses the label in `="utf-8"`.
fn meta_value(text: &str) -> Option<&str> {
    let value = text
        .trim_start()
        .strip_prefix('=')?
        .trim_start()
        .trim_start_matches(['"', '\''])
        .trim_start();
    let end = value
        .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/'))
        .unwrap_or(value.len());
    (end > 0).then_some(&value[..end])
}

#[cfg(test)]
mod tests;
