//! From texts to terms: the lexemes of a text search configuration, counted.
//!
//! There is no tsvector in between, so its limits do not apply: neither the size of a text nor the
//! number of positions of a lexeme is limited.

use pgrx::pg_sys;
use rag_bm25::Terms;
use rag_pages::memory::OutOfMemory;

use super::languages::{self, ManyLanguages};
use crate::{
    error::Error,
    pg::{text_search::each_lexeme, words::Words},
};

/// Returns the terms of a text.
///
/// # Errors
/// Memory runs out.
pub fn terms(config: pg_sys::Oid, text: &[u8]) -> Result<Terms, Error> {
    collect(|terms| {
        if languages::is_auto(config) {
            languages::add_terms(terms, text)
        } else {
            Ok(each_lexeme(config, text, |lexeme| terms.add(lexeme)))
        }
    })
}

/// Returns the terms of a query. `used` are the configurations of the index's texts if each text
/// has one of its own.
///
/// # Errors
/// Memory runs out.
pub fn query_terms(
    config: pg_sys::Oid,
    text: &[u8],
    used: Option<&[pg_sys::Oid]>,
) -> Result<Terms, Error> {
    match used {
        Some(used) => collect(|terms| languages::add_query_terms(terms, text, used)),
        None => terms(config, text),
    }
}

/// The words of many texts.
pub enum ManyTexts {
    OneLanguage(Words),
    ManyLanguages(ManyLanguages),
}

impl ManyTexts {
    pub fn new(config: pg_sys::Oid) -> Self {
        if languages::is_auto(config) {
            Self::ManyLanguages(ManyLanguages::default())
        } else {
            Self::OneLanguage(Words::new(config))
        }
    }

    /// Returns the terms of one of the texts.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn terms(&mut self, text: &[u8]) -> Result<Terms, Error> {
        collect(|terms| match self {
            Self::OneLanguage(words) => Ok(words.each_lexeme(text, |lexeme| terms.add(lexeme))),
            Self::ManyLanguages(words) => words.add_terms(terms, text),
        })
    }
}

fn collect(
    add_all: impl FnOnce(&mut Terms) -> Result<Result<(), OutOfMemory>, Error>,
) -> Result<Terms, Error> {
    let mut terms = Terms::new();
    add_all(&mut terms)?.map_err(|_| {
        Error::out_of_memory("Memory ran out while the words of a text were being counted.")
    })?;
    terms.finish();
    Ok(terms)
}
