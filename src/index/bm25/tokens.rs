//! From texts to terms, counted: see [`Analyzer`].
//!
//! There is no tsvector in between, so its limits do not apply: neither the size of a text nor the
//! number of positions of a lexeme is limited.

use pgrx::pg_sys;
use rag_bm25::{Phrase, Terms};
use rag_pages::memory::OutOfMemory;
use rag_words::{Purpose, Weight};

use super::languages::{self, ManyLanguages};
use crate::{
    error::Error,
    pg::words::{Analyzer, Occurrence, Words},
};

/// What terms are added to, by the rules of an analyzer.
pub struct Counted {
    terms: Terms,
    has_parts: bool,
}

impl Counted {
    pub fn new(analyzer: Analyzer) -> Self {
        Self {
            terms: match analyzer.counts_positions {
                true => Terms::with_positions(),
                false => Terms::new(),
            },
            has_parts: analyzer.has_parts(),
        }
    }

    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, term: &[u8], weight: Weight) -> Result<(), OutOfMemory> {
        if self.has_parts {
            self.terms.add_halves(term, weight as u32)
        } else {
            self.terms.add(term)
        }
    }

    /// Adds a term at its position. A stop word is left out.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_occurrence(&mut self, occurrence: Occurrence<'_>) -> Result<(), OutOfMemory> {
        let Occurrence {
            term,
            weight,
            position,
            ..
        } = occurrence;
        if self.has_parts {
            self.terms.add_halves_at(term, weight as u32, position)
        } else {
            self.terms.add_at(term, position)
        }
    }

    /// Returns the terms of a document.
    pub fn document(mut self) -> Terms {
        if self.has_parts {
            self.terms.finish_halves();
        } else {
            self.terms.finish();
        }
        self.terms
    }

    /// Returns the terms of a query.
    pub fn query(mut self) -> Terms {
        self.terms.finish();
        self.terms
    }
}

/// Returns the terms of a text.
///
/// # Errors
/// Memory runs out.
pub fn terms(analyzer: Analyzer, text: &[u8]) -> Result<Terms, Error> {
    let collected = collect(analyzer, |terms| {
        if languages::is_auto(analyzer) {
            languages::add_terms(terms, analyzer, text)
        } else {
            Ok(analyzer.each_occurrence(text, Purpose::Text, |found| terms.add_occurrence(found)))
        }
    })?;
    Ok(collected.document())
}

/// Returns the terms of a query without clauses. `used` are the configurations of the index's texts
/// if each text has one of its own.
///
/// # Errors
/// Memory runs out.
pub fn query_terms(
    analyzer: Analyzer,
    text: &[u8],
    used: Option<&[pg_sys::Oid]>,
) -> Result<Terms, Error> {
    let collected = collect(analyzer, |terms| match used {
        Some(used) => {
            let own = languages::own_config(text)?;
            languages::add_query_terms(terms, analyzer, text, used, own)
        }
        None => {
            Ok(analyzer.each_term(text, Purpose::Query, |term, weight| terms.add(term, weight)))
        }
    })?;
    Ok(collected.query())
}

/// The words of many texts.
pub enum ManyTexts {
    OneLanguage(Analyzer, Box<Words>),
    ManyLanguages(Analyzer, ManyLanguages),
}

impl ManyTexts {
    pub fn new(analyzer: Analyzer) -> Self {
        if languages::is_auto(analyzer) {
            Self::ManyLanguages(analyzer, ManyLanguages::default())
        } else {
            Self::OneLanguage(analyzer, Box::new(Words::new(analyzer)))
        }
    }

    /// Returns the terms of one of the texts.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn terms(&mut self, text: &[u8]) -> Result<Terms, Error> {
        let (Self::OneLanguage(analyzer, _) | Self::ManyLanguages(analyzer, _)) = *self;
        let collected = collect(analyzer, |terms| match self {
            Self::OneLanguage(_, words) => {
                Ok(words.each_occurrence(text, Purpose::Text, |found| terms.add_occurrence(found)))
            }
            Self::ManyLanguages(analyzer, words) => words.add_terms(terms, *analyzer, text),
        })?;
        Ok(collected.document())
    }
}

fn collect(
    analyzer: Analyzer,
    add_all: impl FnOnce(&mut Counted) -> Result<Result<(), OutOfMemory>, Error>,
) -> Result<Counted, Error> {
    let mut terms = Counted::new(analyzer);
    add_all(&mut terms)?.map_err(|_| {
        Error::out_of_memory("Memory ran out while the words of a text were being counted.")
    })?;
    Ok(terms)
}

/// Returns the phrase that a text is. All words of the text count, also the parts of compounds.
///
/// # Errors
/// Memory runs out.
pub fn phrase(analyzer: Analyzer, text: &[u8], slop: u32) -> Result<Phrase, Error> {
    let mut phrase = Phrase::new(slop);
    let analyzer = analyzer.with_positions(true);
    let added = analyzer.each_occurrence(text, Purpose::Text, |found| match found.position {
        Some(position) => phrase.add(found.term, position, found.places),
        None => Ok(()),
    });
    added
        .and_then(|()| phrase.finish())
        .map_err(|_| Error::out_of_memory("Memory ran out while a phrase was being read."))?;
    Ok(phrase)
}
