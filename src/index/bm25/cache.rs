//! What a backend keeps of indexes from one statement to the next: opened segments, and hints where
//! their pages are.

use std::{cell::RefCell, rc::Rc};

use rag_bm25::{Description, SegmentCache};
use rag_pages::IndexError;

use super::{index_error, rules::TextRules};
use crate::{
    error::Error,
    index::{
        am::{
            collected,
            relation::{FileId, Index},
        },
        pages::{BufferHints, RelationPages},
    },
    pg::words::Analyzer,
};

/// Maximum number of indexes that a backend remembers: as many as a query over partitions may read
/// in turn.
const MAX_INDEXES: usize = 64;
/// Maximum size of all their hints, which take 4 bytes a page.
const MAX_HINT_BYTES: usize = 32 << 20;

/// An opened index. It is of use as long as the index has the same file.
pub struct OpenedIndex {
    pub description: Description,
    pub segments: SegmentCache,
    hints: BufferHints,
}

impl OpenedIndex {
    pub fn pages<'a>(&'a self, index: Index<'a>) -> RelationPages<'a> {
        RelationPages::new(*index, &self.hints)
    }

    /// Returns the pages for a vacuum.
    pub fn vacuum_pages<'a>(&'a self, index: Index<'a>) -> RelationPages<'a> {
        RelationPages::for_vacuum(*index, &self.hints)
    }

    /// Returns how the terms were made that the file was filled with.
    ///
    /// # Errors
    /// The text search configuration was dropped or renamed.
    pub fn analyzer(&self) -> Result<Analyzer, Error> {
        let analyzer = self.rules()?.analyzer()?;
        Ok(analyzer.with_positions(self.description.has_positions))
    }

    /// Returns the same by name.
    pub fn rules(&self) -> Result<TextRules, Error> {
        let rules = TextRules::of_file(&self.description);
        rules.ok_or_else(|| Error::internal("the index has no text search configuration"))
    }
}

thread_local! {
    /// The most recently used index is the last.
    static OPENED: RefCell<Vec<(FileId, Rc<OpenedIndex>)>> = const { RefCell::new(vec![]) };
}

/// Opens an index, or returns it if it is open. What this transaction has inserted is in it.
///
/// # Errors
/// The index is corrupted. What was inserted cannot be written.
pub fn open(index: Index<'_>) -> Result<Rc<OpenedIndex>, Error> {
    collected::write(index.id())?;
    open_to_insert(index)
}

/// [`open`] without what this transaction has inserted and not written yet.
///
/// # Errors
/// The index is corrupted.
pub fn open_to_insert(index: Index<'_>) -> Result<Rc<OpenedIndex>, Error> {
    try_open(index).map_err(|e| index_error(*index, e))
}

/// [`open_to_insert`] for callers that handle corruption.
pub fn try_open(index: Index<'_>) -> Result<Rc<OpenedIndex>, IndexError> {
    let file = index.file_id();
    let known = OPENED.with_borrow_mut(|opened| {
        let at = opened.iter().position(|(known, _)| *known == file)?;
        opened[at..].rotate_left(1);
        opened.last().map(|(_, known)| Rc::clone(known))
    });
    if let Some(known) = known {
        // the file may have been filled again
        if rag_bm25::describe(&known.pages(index))?.identity == known.description.identity {
            return Ok(known);
        }
    }
    let hints = BufferHints::default();
    let description = rag_bm25::describe(&RelationPages::new(*index, &hints))?;
    if TextRules::of_file(&description).is_none() {
        return Err(IndexError::corrupted(
            0,
            "the index names no text search configuration or an analysis that is not known",
        ));
    }
    let new = Rc::new(OpenedIndex {
        description,
        segments: SegmentCache::default(),
        hints,
    });
    OPENED.with_borrow_mut(|opened| {
        opened.retain(|(known, _)| *known != file);
        let mut bytes: usize = opened.iter().map(|(_, known)| known.hints.bytes()).sum();
        while !opened.is_empty() && (opened.len() >= MAX_INDEXES || bytes > MAX_HINT_BYTES) {
            bytes -= opened.remove(0).1.hints.bytes();
        }
        opened.push((file, Rc::clone(&new)));
    });
    Ok(new)
}
