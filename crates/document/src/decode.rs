//! Bytes to text, whatever the encoding.
//!
//! The first of these that fits all of the bytes is taken:
//!
//! 1. the byte order mark: UTF-8, UTF-16, UTF-32;
//! 2. the charset that the file was declared to have, by the HTTP header, else by HTML's `<meta>`;
//! 3. UTF-16 without a mark, which every other byte being zero gives away;
//! 4. ISO-2022-JP, which is all ASCII bytes and which its escape sequences give away;
//! 5. UTF-8;
//! 6. what `chardetng` takes it for, if there are enough characters to judge by;
//! 7. windows-1252, if each byte is a character there (ISO-8859-1 is a part of it);
//! 8. UTF-8 with U+FFFD in place of what is not.
//!
//! Text that is UTF-8 but for a few bytes is damaged UTF-8 and goes straight to the last: read as
//! windows-1252 all its other letters would be wrong. Charsets are those of the [Encoding
//! Standard](https://encoding.spec.whatwg.org), under all names it knows.
//!
//! A text with more control characters than any text has is a binary file, and a [`Problem`].

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use rag_protocol::ingest::Stage;

use crate::{Nature, Problem};

/// A file's text, and how it was read.
#[derive(Debug, PartialEq)]
pub struct Decoded<'a> {
    /// Without byte order mark and NUL characters.
    pub text: Cow<'a, str>,
    /// `UTF-8`, `windows-1251`: the Encoding Standard's name, and `UTF-32LE`, `UTF-32BE`.
    pub encoding: &'static str,
    /// What may have been lost or misread, a sentence each.
    pub warnings: Vec<String>,
}

/// How much of a file `chardetng` is shown.
const SAMPLE: usize = 256 << 10;
/// Fewest bytes beyond ASCII that a guess is made from.
const EVIDENCE: usize = 6;

/// Reads `bytes`, which were declared to be in the charset of the label `declared`.
pub fn text<'a>(bytes: &'a [u8], declared: Option<&str>) -> Result<Decoded<'a>, Problem> {
    let mut warnings = vec![];
    let (text, encoding, is_guess) = ladder(bytes, declared, &mut warnings);
    refuse_binary(&text, is_guess)?;
    let mut text = text;
    if let Some(without) = without_nul(&text) {
        warnings.push(nul_warning(text.len() - without.len()));
        text = Cow::Owned(without);
    }
    Ok(Decoded {
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

/// `None` where there are none.
pub fn without_nul(text: &str) -> Option<String> {
    text.contains('\0').then(|| text.replace('\0', ""))
}

/// Gives the text, the encoding's name, and whether that is no more than likely.
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
            "the byte order mark says {}, which the bytes are not",
            marked.encoding
        ));
        rest = marked.rest;
    }
    match declared.map(|label| (label, Encoding::for_label(label.as_bytes()))) {
        Some((_, Some(encoding))) => match strictly(encoding, rest) {
            Some(text) => return (text, encoding.name(), false),
            None => warnings.push(format!(
                "declared to be {}, which the bytes are not",
                encoding.name()
            )),
        },
        Some((label, None)) => {
            let label: String = label.chars().filter(|c| !c.is_control()).take(40).collect();
            warnings.push(format!("declared to be in the unknown charset \"{label}\""));
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
        "1 place that was"
    } else {
        &format!("{damaged} places that were")
    };
    warnings.push(format!(
        "{places} not UTF-8 became U+FFFD, the first at byte offset {at}"
    ));
    (text, UTF_8.name(), true)
}

/// What a byte order mark says.
struct Marked<'a> {
    encoding: &'static str,
    /// `None` where the bytes are not that.
    text: Option<Cow<'a, str>>,
    /// What follows the mark.
    rest: &'a [u8],
}

fn by_mark(bytes: &[u8]) -> Option<Marked<'_>> {
    // UTF-32LE begins as UTF-16LE does.
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
            return Some(Marked {
                encoding: name,
                text: Some(Cow::Owned(text)),
                rest,
            });
        }
    }
    let (encoding, length) = Encoding::for_bom(bytes)?;
    let rest = &bytes[length..];
    Some(Marked {
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

/// `None` unless all of the bytes are text in the encoding.
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

/// Whether there are escape sequences that lead to the two-byte characters of ISO-2022-JP and back
/// to ASCII or JIS X 0201.
fn has_japanese_escapes(bytes: &[u8]) -> bool {
    const TO_JAPANESE: [&[u8]; 2] = [b"\x1B$B", b"\x1B$@"];
    const TO_LATIN: [&[u8]; 2] = [b"\x1B(B", b"\x1B(J"];
    let has = |sequences: [&[u8]; 2]| bytes.windows(3).any(|window| sequences.contains(&window));
    // most files have no escape character at all
    bytes.contains(&0x1B) && has(TO_JAPANESE) && has(TO_LATIN)
}

/// Whether nearly all bytes beyond ASCII are UTF-8, or nothing is wrong but that the end is
/// missing.
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
    if bytes.iter().filter(|byte| !byte.is_ascii()).count() < EVIDENCE {
        return None;
    }
    // What is beyond ASCII may all be far from the beginning.
    let from = Encoding::ascii_valid_up_to(bytes).saturating_sub(SAMPLE / 4);
    let sample = &bytes[from..bytes.len().min(from + SAMPLE)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, from + sample.len() == bytes.len());
    Some(detector.guess(None, Utf8Detection::Deny))
}

/// Control characters that no encoding of text has, and that bytes become which are unassigned
/// there.
fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{84}' | '\u{86}'..='\u{9F}')
}

fn refuse_binary(text: &str, is_guess: bool) -> Result<(), Problem> {
    let controls = text
        .bytes()
        .filter(|byte| matches!(byte, 0..=7 | 11 | 14..=26 | 28..=31 | 127))
        .count();
    // Checked only for guesses: counting characters takes as long as everything else together.
    let replaced = if is_guess {
        text.matches('\u{FFFD}').count()
    } else {
        0
    };
    let most = text.len() / if is_guess { 50 } else { 10 };
    if controls <= most.max(2) && replaced * 10 <= text.len() {
        return Ok(());
    }
    let problem = Problem::new(
        Stage::Decode,
        "the file is binary: it is not text in any known encoding",
    )
    .hint("Exclude the file; or, if it is text, convert it to UTF-8.");
    Err(Problem {
        nature: Nature::Binary,
        ..problem
    })
}

/// The charset in a media type: `text/html; charset=windows-1251`.
pub fn charset(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']).trim();
        (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then_some(value)
    })
}

/// The charset that HTML declares in its first KiB: `<meta charset=...>`, or the same in
/// `http-equiv`'s `content`.
pub fn html_charset(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    let mut rest = head.as_str();
    while let Some(at) = rest.find("<meta") {
        rest = &rest[at + "<meta".len()..];
        let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
        if let Some(label) = tag.split("charset").skip(1).find_map(meta_value) {
            // A page that can say so in ASCII is not in UTF-16, whatever it says.
            return Some(if label.starts_with("utf-16") {
                "utf-8".into()
            } else {
                label.to_owned()
            });
        }
    }
    None
}

/// The label in `="utf-8"`.
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
mod tests {
    use super::*;

    #[track_caller]
    fn decoded(bytes: &[u8], declared: Option<&str>) -> (String, &'static str, usize) {
        let Decoded {
            text,
            encoding,
            warnings,
        } = text(bytes, declared).unwrap();
        (text.into_owned(), encoding, warnings.len())
    }

    #[test]
    fn the_byte_order_mark_comes_first_and_is_no_part_of_the_text() {
        let naive = |name| ("naïve".to_owned(), name, 0);
        assert_eq!(
            decoded(b"\xEF\xBB\xBFna\xC3\xAFve", Some("windows-1251")),
            naive("UTF-8")
        );
        assert_eq!(
            decoded(b"\xFF\xFEn\0a\0\xEF\0v\0e\0", None),
            naive("UTF-16LE")
        );
        assert_eq!(
            decoded(b"\xFE\xFF\0n\0a\0\xEF\0v\0e", None),
            naive("UTF-16BE")
        );
        assert_eq!(
            decoded(b"\xFF\xFE\0\0n\0\0\0a\0\0\0\xEF\0\0\0v\0\0\0e\0\0\0", None),
            naive("UTF-32LE")
        );
        assert_eq!(
            decoded(b"\0\0\xFE\xFF\0\0\0n\0\0\0a\0\0\0\xEF\0\0\0v\0\0\0e", None),
            naive("UTF-32BE")
        );
        assert_eq!(decoded("na\u{FEFF}ive".as_bytes(), None).0, "na\u{FEFF}ive");
    }

    #[test]
    fn a_declared_charset_comes_before_utf8() {
        assert_eq!(
            decoded(b"\xC3\xA9t\xC3\xA9", Some("ISO-8859-1")),
            ("Ã©tÃ©".into(), "windows-1252", 0)
        );
        assert_eq!(
            decoded(b"\xEC\xE8\xF0", Some("cp1251")),
            ("мир".into(), "windows-1251", 0)
        );
        assert_eq!(
            decoded(b"\x93\xFA\x96\x7B", Some("shift_jis")),
            ("日本".into(), "Shift_JIS", 0)
        );
    }

    #[test]
    fn a_declared_charset_that_the_bytes_contradict_is_passed_over() {
        assert_eq!(
            decoded(b"caf\xE9", Some("utf-8")),
            ("café".into(), "windows-1252", 1)
        );
        assert_eq!(
            decoded("日本語".as_bytes(), Some("euc-jp")),
            ("日本語".into(), "UTF-8", 1)
        );
        assert_eq!(
            decoded(b"text", Some("klingon-8")),
            ("text".into(), "UTF-8", 1)
        );
        assert_eq!(
            decoded(b"\xEF\xBB\xBFcaf\xE9", None),
            ("café".into(), "windows-1252", 1)
        );
    }

    #[test]
    fn undeclared_encodings_are_told_by_their_letters() {
        let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю.";
        let japanese = "日本語の文章をここに書きます。漢字とかなが混ざっています。";
        for (encoding, text) in [
            (encoding_rs::WINDOWS_1251, russian),
            // KOI8-R but for four letters and their capitals.
            (encoding_rs::KOI8_U, russian),
            (encoding_rs::SHIFT_JIS, japanese),
            (encoding_rs::EUC_JP, japanese),
            (
                encoding_rs::GBK,
                "我们在这里写一些中文的句子，用来检查编码。",
            ),
        ] {
            let (bytes, _, _) = encoding.encode(text);
            assert_eq!(decoded(&bytes, None), (text.into(), encoding.name(), 0));
        }
        assert_eq!(
            decoded(b"d\xE9j\xE0 \x96 vu", None),
            ("déjà – vu".into(), "windows-1252", 0)
        );
        assert_eq!(
            decoded(b"n\0a\0\xEF\0v\0e\0", None),
            ("naïve".into(), "UTF-16LE", 0)
        );
        assert_eq!(
            decoded(b"\0n\0a\0\xEF\0v\0e", None),
            ("naïve".into(), "UTF-16BE", 0)
        );
    }

    #[test]
    fn iso_2022_jp_is_told_by_its_escape_sequences() {
        let decoded = |bytes: &[u8]| decoded(bytes, None);
        assert_eq!(
            decoded(b"\x1B$B%F%9%H\x1B(B\n"),
            ("テスト\n".into(), "ISO-2022-JP", 0)
        );
        let (mixed, ..) = encoding_rs::ISO_2022_JP.encode("Keys: 署名の鍵。\nrotated 毎晩\n");
        assert_eq!(
            decoded(&mixed),
            ("Keys: 署名の鍵。\nrotated 毎晩\n".into(), "ISO-2022-JP", 0)
        );
        // colours of a terminal, UTF-8 with such a sequence in it, and one that leads nowhere
        for text in [
            "\u{1B}[31mred\u{1B}[0m and more",
            "日本 \u{1B}$B%F\u{1B}(B",
            "\u{1B}$B is one, \u{1B}(B another",
        ] {
            assert_eq!(decoded(text.as_bytes()).1, "UTF-8", "{text}");
        }
    }

    #[test]
    fn damaged_utf8_is_read_with_a_warning() {
        let (text, encoding, _) =
            decoded("Größe \u{20AC}".as_bytes().split_last().unwrap().1, None);
        assert_eq!((text.as_str(), encoding), ("Größe \u{FFFD}", "UTF-8"));
        let bytes = [
            "Übergrößenträger ÄÖÜ äöü ".as_bytes(),
            b"\xFF\xFE",
            " ende".as_bytes(),
        ]
        .concat();
        let Decoded { text, warnings, .. } = super::text(&bytes, None).unwrap();
        assert_eq!(text, "Übergrößenträger ÄÖÜ äöü \u{FFFD}\u{FFFD} ende");
        let at = bytes.iter().position(|byte| *byte == 0xFF).unwrap();
        assert_eq!(
            warnings,
            [format!(
                "2 places that were not UTF-8 became U+FFFD, the first at byte offset {at}"
            )]
        );
    }

    #[test]
    fn nul_characters_are_removed_with_a_warning() {
        let Decoded { text, warnings, .. } = super::text(b"abc\0def\0", None).unwrap();
        assert_eq!(
            (text.as_ref(), warnings),
            ("abcdef", vec!["2 NUL characters were removed".to_owned()])
        );
    }

    #[test]
    fn binary_files_are_refused() {
        let noise: Vec<u8> = (0u32..4000)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for bytes in [
            &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x20\0\0\0\x20"[..],
            &[0; 100],
            &noise,
            b"\x7fELF\x02\x01\x01\0\0\0\0\0",
        ] {
            let problem = text(bytes, None).unwrap_err();
            assert_eq!(
                (problem.stage, problem.hint.is_some()),
                (Stage::Decode, true)
            );
        }
    }

    #[test]
    fn charsets_are_found_where_they_are_declared() {
        assert_eq!(charset("text/html; Charset=\"UTF-8\""), Some("UTF-8"));
        assert_eq!(charset("text/html;a=b;charset=koi8-r "), Some("koi8-r"));
        assert_eq!(charset("text/html"), None);
        assert_eq!(charset("charset=x"), None);
        let meta = |html: &str| html_charset(html.as_bytes());
        assert_eq!(
            meta("<html><META CHARSET=Windows-1251>").as_deref(),
            Some("windows-1251")
        );
        assert_eq!(
            meta("<meta name=x><meta charset = 'koi8-r'/>").as_deref(),
            Some("koi8-r")
        );
        assert_eq!(
            meta("<meta http-equiv=content-type content=\"text/html; charset=euc-jp\">").as_deref(),
            Some("euc-jp")
        );
        assert_eq!(meta("<meta charset=utf-16le>").as_deref(), Some("utf-8"));
        assert_eq!(meta("<p>charset=x</p>"), None);
        assert_eq!(
            meta(&format!("{}<meta charset=koi8-r>", " ".repeat(1024))),
            None
        );
    }
}
