//! The runs of characters that a text has.

use rag_words::normalized;

/// The number of characters of a shingle: a word or two.
pub const SHINGLE: usize = 8;

/// The shingles of a text, as hashes in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shingles(Vec<u32>);

impl Shingles {
    /// A text with fewer characters than a shingle is one.
    pub fn of(text: &str) -> Self {
        let mut hashes = vec![];
        each_shingle(text, |hash| hashes.push(hash));
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes)
    }

    pub(super) fn hashes(&self) -> &[u32] {
        &self.0
    }

    /// Returns the similarity to another text, 0 to 1.
    pub fn similarity(&self, other: &Self) -> f64 {
        let (mut one, mut two) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0_usize;
        while let (Some(a), Some(b)) = (one.peek(), two.peek()) {
            let order = a.cmp(b);
            shared += usize::from(order.is_eq());
            if order.is_le() {
                one.next();
            }
            if order.is_ge() {
                two.next();
            }
        }
        shared as f64 / (self.0.len() + other.0.len() - shared) as f64
    }
}

/// Calls `f` with the hash of each shingle of a text. Some come several times.
pub(super) fn each_shingle(text: &str, f: impl FnMut(u32)) {
    let characters = characters(text);
    if characters.len() < SHINGLE {
        Some(hash(&characters)).into_iter().for_each(f);
    } else {
        characters.windows(SHINGLE).map(hash).for_each(f);
    }
}

/// Returns the letters and digits of a text in lower case, with one blank between words.
fn characters(text: &str) -> Vec<char> {
    let normal = normalized(text);
    let text = normal.as_deref().unwrap_or(text); // there is no memory
    let mut characters = Vec::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if !word.is_empty() {
            if !characters.is_empty() {
                characters.push(' ');
            }
            characters.extend(word.chars().flat_map(char::to_lowercase));
        }
    }
    characters
}

/// The hash function of rustc's tables, with a step that mixes the bits (Evensen's moremur).
fn hash(characters: &[char]) -> u32 {
    let mut hash = characters.iter().fold(0_u64, |hash, c| {
        (hash.rotate_left(5) ^ u64::from(*c)).wrapping_mul(0x517C_C1B7_2722_0A95)
    });
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x3C79_AC49_2BA7_B653);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0x1C69_B3F7_4AC4_AE35);
    (hash ^ (hash >> 27)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(one: &str, other: &str) -> f64 {
        Shingles::of(one).similarity(&Shingles::of(other))
    }

    #[test]
    fn blanks_signs_and_capitals_do_not_count() {
        assert_eq!(similarity("The Pump\n leaks!", "the pump -- LEAKS"), 1.0);
        assert_eq!(similarity("水漏れがあります。", "水漏れ が あります"), 0.0);
        assert_eq!(similarity("", "?!"), 1.0);
        assert_eq!(similarity("ab", "ab."), 1.0);
    }

    #[test]
    fn a_changed_word_changes_little() {
        let text = "Tokens are signed with a key that is replaced every 90 days. The security team \
            rotates the key and keeps the former one for a week, so that old tokens stay valid.";
        let found = similarity(text, &text.replace("90", "30"));
        assert!((0.85..0.95).contains(&found), "{found}");
        assert!(
            similarity(
                text,
                "Backups are encrypted with a key of the security team."
            ) < 0.2
        );
    }
}
