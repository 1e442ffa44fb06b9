//! From texts to words: what PostgreSQL's dictionaries are asked for, and how much it counts.
//!
//! One analysis reads texts and queries, so that what somebody types finds what somebody wrote:
//!
//! | text | words | parts |
//! |---|---|---|
//! | `E-117`, `e117` | `e117` | `e`, `117` |
//! | `db.sessionMaker` | `dbsessionmaker` | `db`, `sessionmaker`, `session`, `maker` |
//! | `lib/lock.py` | `liblockpy` | `lib`, `lockpy`, `lock`, `py` |
//! | `v2.11.3` | `v2.11.3` | `2.11.3`, `2.11`, `2`, `11`, `3` |
//! | `水漏れ` | `水漏`, `漏れ` | `水`, `漏` |
//!
//! The whole of a compound is one word, written without its signs. So the whole is the same for all
//! ways to write it. A sign between two numbers becomes a dot, because `2.11` is not `21.1`. Parts
//! count half: see [`Weight`].
//!
//! | file | contents |
//! |---|---|
//! | [`normal`] | one form of texts that look the same (NFKC), and accents |
//! | [`alignment`] | where the characters of a normalized text are in the text |
//! | [`class`] | what characters are |
//! | [`splitter`] | finds words and compounds in a text |
//! | [`compound`] | a compound and its parts |
//! | [`unspaced`] | scripts that have no blanks between words |
//! | [`tokens`] | what was found |
//! | [`query`] | the query language |

mod alignment;
mod class;
mod compound;
mod normal;
pub mod query;
mod splitter;
mod tokens;
mod unspaced;

#[cfg(test)]
mod tests;

pub use normal::{fold_accents, normalized};
pub use splitter::Splitter;
pub use tokens::{Kind, Token, Weight};

/// Longer words are left out. PostgreSQL's parser has the same limit (MAXSTRLEN).
pub const MAX_WORD_BYTES: usize = 2046;

/// How texts become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Analysis {
    /// Prose with names and codes in it: the parts of a compound count half.
    #[default]
    Words,
    /// Source code: identifiers between dots and slashes count in full, and no word is left out.
    Code,
    /// The words that PostgreSQL's parser finds. This crate is not asked for them.
    Exact,
}

impl Analysis {
    pub const ALL: [Self; 3] = [Self::Words, Self::Code, Self::Exact];

    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Code => "code",
            Self::Exact => "exact",
        }
    }

    /// Reads a name of [`name`](Self::name).
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// What words are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Text,
    /// Fewer parts: those that would find much and mean little are left out. All words of a query
    /// are words of a text that is equal to it.
    Query,
}
