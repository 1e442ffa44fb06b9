//! The keys that values are encrypted under, and their form as text.
//!
//! ```text
//! # comment
//! rag-secret-key-1 281eecfbd5dd9f5b 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
//! rag-secret-key-1 <id>             <key, 32 bytes as hex>
//! ```
//!
//! The last key encrypts, all of them decrypt. A key's id is a hash of it, so that a damaged line
//! is noticed, and so that the lines of two files can be put together in one, whoever made them.

use std::fmt;

use zeroize::Zeroizing;

const LINE: &str = "rag-secret-key-1";
const HEADER: &str = "\
# Keys of the secrets of rag, the PostgreSQL extension, a line each. The last one encrypts, all of them decrypt.
# Without its key a secret is lost: keep a copy of this file, apart from dumps of the database.
";
const ID_CONTEXT: &str = "rag 2026-11-22 id of a secret key";

/// Names a key without giving it away: the first 8 bytes of a BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 8]);

impl KeyId {
    /// Reads 16 hexadecimal digits.
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

/// 256 bits, erased from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; 32]>);

/// The operating system has no random numbers to give.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random numbers: {0}")]
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

/// One or more keys, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing {
    current: Key,
    /// In the order of the file.
    older: Vec<Key>,
}

/// What is wrong with the text of a key ring, without any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeyRing {
    #[error("it holds no key")]
    Empty,
    #[error("line {0} is not a key")]
    Line(usize),
    #[error("the key in line {0} is damaged")]
    Damaged(usize),
}

impl KeyRing {
    pub fn new(key: Key) -> Self {
        Self {
            current: key,
            older: vec![],
        }
    }

    /// Reads the text form. A key that is there twice counts where it is last.
    ///
    /// # Errors
    /// A line is no key, or there is none.
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
            let id = KeyId::parse(id).ok_or(InvalidKeyRing::Damaged(number))?;
            hex::decode_to_slice(digits, key.0.as_mut_slice())
                .map_err(|_| InvalidKeyRing::Damaged(number))?;
            if key.id() != id {
                return Err(InvalidKeyRing::Damaged(number));
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
        // as large as it gets, so that no copy stays behind where the string grew
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

    /// The key that encrypts.
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// All keys, the current one last.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.older.iter().chain([&self.current])
    }

    pub fn get(&self, id: KeyId) -> Option<&Key> {
        self.keys().find(|key| key.id() == id)
    }

    /// Makes `key` the current one and keeps the others.
    #[must_use]
    pub fn with(mut self, key: Key) -> Self {
        self.older.retain(|other| *other != key);
        if self.current != key {
            let previous = std::mem::replace(&mut self.current, key);
            self.older.push(previous);
        }
        self
    }

    /// Without an older key. The current one stays.
    #[must_use]
    pub fn without(mut self, id: KeyId) -> Self {
        self.older.retain(|key| key.id() != id);
        self
    }
}
