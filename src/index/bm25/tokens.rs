//! From texts to terms: the lexemes of a text search configuration, counted.
//!
//! There is no tsvector in between, so its limits do not apply: neither the size of a text nor the
//! number of positions of a lexeme is limited.

use pgrx::pg_sys;
use rag_bm25::Terms;

use crate::{error::Error, pg::text_search::each_lexeme};

/// Returns the terms of a text.
///
/// # Errors
/// Memory runs out.
pub fn terms(config: pg_sys::Oid, text: &[u8]) -> Result<Terms, Error> {
    let mut terms = Terms::new();
    each_lexeme(config, text, |lexeme| terms.add(lexeme)).map_err(|_| {
        Error::out_of_memory("Memory ran out while the words of a text were being counted.")
    })?;
    terms.finish();
    Ok(terms)
}
