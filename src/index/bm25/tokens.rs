//! From texts to terms: the lexemes of a text search configuration, counted.
//!
//! There is no tsvector in between, so its limits do not apply: neither the size of a text nor the
//! number of positions of a lexeme is limited.

use pgrx::pg_sys;
use rag_bm25::Terms;
use rag_pages::memory::OutOfMemory;

use crate::{
    error::Error,
    pg::{text_search::each_lexeme, words::Words},
};

/// Returns the terms of a text.
///
/// # Errors
/// Memory runs out.
pub fn terms(config: pg_sys::Oid, text: &[u8]) -> Result<Terms, Error> {
    collect(|terms| each_lexeme(config, text, |lexeme| terms.add(lexeme)))
}

/// Returns the terms of one of many texts.
///
/// # Errors
/// Memory runs out.
pub fn terms_of_many(words: &mut Words, text: &[u8]) -> Result<Terms, Error> {
    collect(|terms| words.each_lexeme(text, |lexeme| terms.add(lexeme)))
}

fn collect(add_all: impl FnOnce(&mut Terms) -> Result<(), OutOfMemory>) -> Result<Terms, Error> {
    let mut terms = Terms::new();
    add_all(&mut terms).map_err(|_| {
        Error::out_of_memory("Memory ran out while the words of a text were being counted.")
    })?;
    terms.finish();
    Ok(terms)
}
