//! Documents that a transaction has inserted, and not written yet: many become a segment, few are
//! added to the pending list. So a bulk load writes large segments at once, and leaves no pages
//! behind that the same transaction could not use again.

use std::rc::Rc;

use rag_bm25::{Collected, Terms};
use rag_pages::{IndexError, Tid};

use super::{
    cache::{self, OpenedIndex},
    index_error,
    tokens::{self, ManyTexts},
};
use crate::{
    error::Error,
    index::am::{
        NewRow,
        collected::{self, CollectedRows, Inserters},
        relation::{Index, LockedIndex, Relation, Value},
    },
};

/// The documents of an index.
struct Documents {
    opened: Rc<OpenedIndex>,
    collected: Collected,
    inserters: Inserters,
    /// The words of the documents, but of the first.
    words: Option<ManyTexts>,
}

impl Documents {
    fn has_contents(&self, opened: &OpenedIndex) -> bool {
        self.opened.description.identity == opened.description.identity
    }

    fn add(&mut self, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
        let noted = self.inserters.note(self.collected.position());
        noted.map_err(IndexError::of_memory)?;
        self.collected.add(tid, terms)
    }

    /// Returns the documents of rows that this transaction has inserted, and forgets all.
    fn take_inserted(&mut self, table: Relation<'_>) -> Result<Collected, IndexError> {
        let mut documents = std::mem::take(&mut self.collected);
        let inserters = std::mem::take(&mut self.inserters);
        documents.retain(inserters.present_rows(table))?;
        Ok(documents)
    }
}

/// Adds the text of a row to those that this transaction writes later.
pub fn add(
    index: Index<'_>,
    opened: &Rc<OpenedIndex>,
    value: Value<'_>,
    row: NewRow,
) -> Result<(), Error> {
    let analyzer = opened.analyzer()?;
    let is_present = |documents: &Documents| documents.has_contents(opened);
    // An ERROR of a dictionary leaps over what is here. The documents must not be among that.
    let words = collected::with(index, is_present, |documents| documents.words.take());
    let is_first = words.is_none();
    let mut words = words.flatten().unwrap_or_else(|| ManyTexts::new(analyzer));
    let terms = value.with_text(|text| match is_first {
        true => tokens::terms(analyzer, text),
        false => words.terms(text),
    })?;
    let new = || Documents {
        opened: Rc::clone(opened),
        collected: Collected::default(),
        inserters: Inserters::default(),
        words: None,
    };
    collected::add(index, is_present, new, |documents| {
        documents.words = Some(words);
        match terms.is_empty() {
            true => Ok(()),
            false => documents.add(row.tid, &terms),
        }
        .map_err(|e| index_error(*index, e))
    })
}

impl CollectedRows for Documents {
    fn are_of(&self, index: Index<'_>) -> Result<bool, Error> {
        Ok(self.has_contents(&*cache::open_to_insert(index)?))
    }

    fn is_empty(&self) -> bool {
        self.collected.is_empty()
    }

    fn bytes(&self) -> usize {
        self.collected.bytes() + self.inserters.bytes()
    }

    fn write(&mut self, relations: &LockedIndex, has_written: bool) -> Result<(), Error> {
        let index = relations.index();
        self.take_inserted(relations.table())
            .and_then(|documents| documents.write(&self.opened.pages(index), has_written))
            .map_err(|e| index_error(*index, e))
    }
}
