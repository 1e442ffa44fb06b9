//! What a document has beside its body, and what of it is not in the text.

use std::collections::HashMap;

use super::{notes::Notes, numbering::Numbering, styles::Styles};
use crate::blocks::Block;

/// What the parts of a document beside its body say.
#[derive(Default)]
pub struct Parts {
    pub styles: Styles,
    pub numbering: Numbering,
    pub notes: Notes,
    /// Charts, diagrams and imported files, by the id of the reference to them.
    pub inserted: HashMap<String, Vec<Block>>,
}

/// What is not in the text.
#[derive(Debug, Default)]
pub struct Losses {
    /// Number of texts that are formatted as hidden.
    pub hidden: usize,
    /// Number of signs of a symbol font that are not known.
    pub signs: usize,
    /// Number of files inside of the document.
    pub objects: usize,
    /// Number of imported files that could not be read.
    pub imports: usize,
}
