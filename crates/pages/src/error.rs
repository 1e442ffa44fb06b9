//! Why an operation on an index fails.

use crate::{Block, memory::OutOfMemory};

/// Why an index cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexError {
    /// A page contains something that this format does not allow.
    Corrupted { block: Block, problem: String },
    /// On a standby: a page was used again while a search was about to read it. The search can be
    /// repeated.
    Recycled { block: Block },
    /// The pages have a format that this version does not know.
    OtherVersion { found: u32, known: u32 },
    /// Nothing is wrong with the index, but there is too little memory.
    OutOfMemory,
}

impl IndexError {
    pub fn corrupted(block: Block, problem: impl Into<String>) -> Self {
        Self::Corrupted {
            block,
            problem: problem.into(),
        }
    }

    /// Converts a failed allocation. This is not a `From`: with a second conversion, closures would
    /// have to name the type of their errors.
    pub fn of_memory(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }

    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory)
    }

    /// Returns the block and what is wrong with it. An error that is not about a page is returned
    /// as it is.
    pub fn into_problem(self) -> Result<(Block, String), Self> {
        match self {
            Self::Corrupted { block, problem } => Ok((block, problem)),
            Self::OtherVersion { .. } => Ok((0, self.to_string())),
            Self::Recycled { block } => Ok((block, self.to_string())),
            Self::OutOfMemory => Err(self),
        }
    }
}

impl std::fmt::Display for IndexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Corrupted { block, problem } => write!(f, "block {block}: {problem}"),
            Self::Recycled { block } => write!(f, "block {block} was recycled"),
            Self::OtherVersion { found, known } => {
                write!(f, "format version {found} instead of {known}")
            }
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl std::error::Error for IndexError {}
