//! The language that most documents around a short text have.

use std::{cell::RefCell, collections::HashMap};

use rag_language::{UNDETERMINED, most_usual};

use crate::{
    catalog::{collections::Collection, documents},
    error::Error,
    pg::spi::as_owner,
};

/// Counts the languages of the documents that an indexer has seen, after those that were stored
/// before.
#[derive(Debug, Default)]
pub struct UsualLanguage {
    seen: RefCell<HashMap<String, u64>>,
    /// The counts of stored documents. None: not read yet.
    stored: RefCell<Option<HashMap<String, u64>>>,
}

impl UsualLanguage {
    /// Notes the language of a document that is long enough to tell it.
    pub fn saw(&self, language: &str) {
        if language != UNDETERMINED {
            *self.seen.borrow_mut().entry(language.into()).or_default() += 1;
        }
    }

    /// Returns the language that most documents of the source have, or else those of the
    /// collection. `None` if there are few, or no language has more than half of them.
    ///
    /// # Errors
    /// A statement fails.
    pub fn get(
        &self,
        collection: &Collection,
        source: Option<&str>,
    ) -> Result<Option<String>, Error> {
        if self.stored.borrow().is_none() {
            let name = collection.name.as_str();
            let stored = as_owner(|owner| documents::languages(owner, name, source))?;
            *self.stored.borrow_mut() = Some(stored);
        }
        let mut counts = self.seen.borrow().clone();
        for (language, count) in self.stored.borrow().iter().flatten() {
            *counts.entry(language.clone()).or_default() += count;
        }
        Ok(most_usual(counts))
    }
}
