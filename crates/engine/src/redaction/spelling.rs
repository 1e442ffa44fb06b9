//! The possible meanings of a place in a text, if it is unknown how the text is escaped.

/// Returns true if text that begins with this byte may be an escape.
pub fn is_special(byte: u8) -> bool {
    matches!(byte, b'+' | b'%' | b'\\' | b'&')
}

/// Maximum number of times that an escape may be escaped again. Without it, a text of nothing else
/// would take quadratic time.
const MAX_DEPTH: usize = 16;

/// Calls `f` with each possible meaning of the beginning of a text, and the number of its bytes.
pub fn each_reading(text: &[u8], mut f: impl FnMut(usize, &[u8])) {
    let Some(first) = text.first() else { return };
    f(1, &[*first]);
    match first {
        b'+' => f(1, b" "),
        b'%' => percent(&text[1..], |taken, byte| f(1 + taken, &[byte])),
        b'\\' => {
            // An escape may have been escaped again.
            let slashes = count_slashes(text);
            (2..=slashes).for_each(|taken| f(taken, b"\\"));
            if let Some((taken, character)) = escape(&text[slashes..]) {
                f(
                    slashes + taken,
                    character.encode_utf8(&mut [0; 4]).as_bytes(),
                );
            }
        }
        b'&' => {
            if let Some((taken, character)) = entity(&text[1..]) {
                f(1 + taken, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        _ => {}
    }
}

/// What may follow `%`: two digits; before them, if the text was encoded twice, those of `%`
/// itself.
fn percent(text: &[u8], mut f: impl FnMut(usize, u8)) {
    for (i, digits) in text.chunks_exact(2).take(MAX_DEPTH).enumerate() {
        let Some(byte) = hexadecimal(digits).and_then(|byte| u8::try_from(byte).ok()) else {
            return;
        };
        f(2 * (i + 1), byte);
        if byte != b'%' {
            return;
        }
    }
}

fn count_slashes(text: &[u8]) -> usize {
    text.iter()
        .take(MAX_DEPTH)
        .take_while(|b| **b == b'\\')
        .count()
}

/// What may follow `\` in JSON and in Rust.
fn escape(text: &[u8]) -> Option<(usize, char)> {
    let simple = |character| Some((1, character));
    match text.first()? {
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'0' => simple('\0'),
        other @ (b'"' | b'\'' | b'/') => simple(char::from(*other)),
        b'x' => Some((3, char::from_u32(hexadecimal(text.get(1..3)?)?)?)),
        b'u' if text.get(1) == Some(&b'{') => {
            let digits = text[2..].iter().take(7).position(|b| *b == b'}')?;
            Some((
                digits + 3,
                char::from_u32(hexadecimal(&text[2..2 + digits])?)?,
            ))
        }
        b'u' => {
            let first = u16::try_from(hexadecimal(text.get(1..5)?)?).ok()?;
            if let Some(character) = char::from_u32(first.into()) {
                return Some((5, character));
            }
            let second = text.get(5..)?;
            let slashes = count_slashes(second);
            let digits = second[slashes..].strip_prefix(b"u")?.get(..4)?;
            let second = u16::try_from(hexadecimal(digits)?).ok()?;
            let character = char::decode_utf16([first, second]).next()?.ok()?;
            Some((10 + slashes, character))
        }
        _ => None,
    }
}

/// What may follow `&` in HTML.
fn entity(text: &[u8]) -> Option<(usize, char)> {
    let length = text.iter().take(9).position(|b| *b == b';')?;
    let character = match &text[..length] {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(hexadecimal(digits)?)?,
        [b'#', digits @ ..] => char::from_u32(std::str::from_utf8(digits).ok()?.parse().ok()?)?,
        _ => return None,
    };
    Some((length + 1, character))
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    are_digits.then(|| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
}
