//! Names of collections, sources, retrievers and secrets.

/// Most characters. With its prefix `rag_kb_` a partition's name just fits the 63 bytes of an identifier.
pub const MAX_LENGTH: usize = 56;
/// What a name is made of.
pub const PATTERN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
pub const HINT: &str = "Use lower-case letters, digits and hyphens, with a letter or digit at both ends.";

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAName {
    /// It does not match [`PATTERN`].
    Form,
    /// It would, but is longer than [`MAX_LENGTH`].
    TooLong,
}

/// # Errors
/// `text` is no name.
pub fn check(text: &str) -> Result<(), NotAName> {
    let letter = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let is_name = bytes.first().is_some_and(letter)
        && bytes.last().is_some_and(letter)
        && bytes.iter().all(|b| letter(b) || *b == b'-');
    match (is_name, bytes.len() <= MAX_LENGTH) {
        (false, _) => Err(NotAName::Form),
        (true, false) => Err(NotAName::TooLong),
        (true, true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_letters_digits_and_inner_hyphens() {
        for name in ["a", "0", "a-b", "a--b", "2024-q1", &"a".repeat(56)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for text in ["", "-", "-a", "a-", "A", "a_b", "a b", "a\n", "\u{e4}", "a\0", &"-".repeat(57)] {
            assert_eq!(check(text), Err(NotAName::Form), "{text}");
        }
        assert_eq!(check(&"a".repeat(57)), Err(NotAName::TooLong));
    }
}
