//! The keys that values are encrypted with, and their text form.
//!
//! ```text
//! # comment
//! rag-secret-key-1 281eecfbd5dd9f5b 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
//! rag-secret-key-1 <id>             <key, 32 bytes as hex>
//! ```
//!
//! The last key encrypts, and all keys decrypt. The id of a key is a hash of it. So a corrupted
//! line is detected, and the lines of two files can be combined in one.

use std::fmt;

use zeroize::Zeroizing;

const LINE: &str = "rag-secret-key-1";
const HEADER: &str = "\
# Keys of the secrets of the PostgreSQL extension rag, one per line. The last key encrypts, all keys
# decrypt. Without its key a secret is lost. Keep a copy of this file, apart from database dumps.
";
const ID_CONTEXT: &str = "rag 2026-11-22 id of a secret key";

/// Identifies a key without revealing it: the first 8 bytes of a BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 8]);

impl KeyId {
    /// Parses 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut id = [0; 8];
        hex::decode_to_slice(text, &mut id).ok().map(|()| Self(id))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A key of 256 bits. Erased from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; 32]>);

/// The operating system could not provide random numbers.
#[derive(Debug, thiserror::Error)]
#[error("could not generate random numbers: {0}")]
pub struct NoRandomness(#[from] getrandom::Error);

impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub fn generate() -> Result<Self, NoRandomness> {
        let mut key = Self::new([0; 32]);
        getrandom::fill(key.0.as_mut_slice())?;
        Ok(key)
    }

    pub fn id(&self) -> KeyId {
        let hash = Zeroizing::new(blake3::derive_key(ID_CONTEXT, self.0.as_slice()));
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        KeyId(id)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// One or more distinct keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing {
    current: Key,
    /// In the order of the file.
    older: Vec<Key>,
}

/// Why the text of a key ring is invalid. Contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeyRing {
    #[error("it contains no key")]
    Empty,
    #[error("line {0} is not a key")]
    Line(usize),
    #[error("the key in line {0} is corrupted")]
    Corrupted(usize),
}

impl KeyRing {
    pub fn new(key: Key) -> Self {
        Self {
            current: key,
            older: vec![],
        }
    }

    /// Parses the text form. Of duplicate keys the last one counts.
    ///
    /// # Errors
    /// A line is not a key, or there is no key.
    pub fn parse(text: &str) -> Result<Self, InvalidKeyRing> {
        let mut keys: Vec<Key> = vec![];
        for (number, line) in text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
        {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let (Some(LINE), Some(id), Some(digits), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(InvalidKeyRing::Line(number));
            };
            let mut key = Key::new([0; 32]);
            let id = KeyId::parse(id).ok_or(InvalidKeyRing::Corrupted(number))?;
            hex::decode_to_slice(digits, key.0.as_mut_slice())
                .map_err(|_| InvalidKeyRing::Corrupted(number))?;
            if key.id() != id {
                return Err(InvalidKeyRing::Corrupted(number));
            }
            keys.retain(|other| *other != key);
            keys.push(key);
        }
        let current = keys.pop().ok_or(InvalidKeyRing::Empty)?;
        Ok(Self {
            current,
            older: keys,
        })
    }

    pub fn to_text(&self) -> Zeroizing<String> {
        // with enough capacity: a string that grows would leave a copy in memory
        let mut text = Zeroizing::new(String::with_capacity(
            HEADER.len() + 100 * (self.older.len() + 1),
        ));
        text.push_str(HEADER);
        for key in self.keys() {
            let digits = Zeroizing::new(hex::encode(key.0.as_slice()));
            for word in [LINE, " ", &key.id().to_string(), " ", &digits, "\n"] {
                text.push_str(word);
            }
        }
        text
    }

    /// Returns the key that encrypts.
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// Returns all keys, the current one last.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.older.iter().chain([&self.current])
    }

    pub fn get(&self, id: KeyId) -> Option<&Key> {
        self.keys().find(|key| key.id() == id)
    }

    /// Adds `key` as the current one.
    #[must_use]
    pub fn with(mut self, key: Key) -> Self {
        self.older.retain(|other| *other != key);
        if self.current != key {
            let previous = std::mem::replace(&mut self.current, key);
            self.older.push(previous);
        }
        self
    }

    /// Removes an older key. The current one is kept.
    #[must_use]
    pub fn without(mut self, id: KeyId) -> Self {
        self.older.retain(|key| key.id() != id);
        self
    }
}
