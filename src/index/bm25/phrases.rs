//! Phrases: from their texts to words at their places, in texts and in an index with positions.

use pgrx::PgSqlErrorCode;
use rag_bm25::{MAX_PLACES, Phrase, rows_with_phrase};
use rag_pages::Tid;
use rag_words::Purpose;

use super::{
    cache, index_error,
    info::require_method,
    ranking::{hides_rows, require_privilege},
    tokens,
};
use crate::{
    error::Error,
    index::am::open::OpenIndex,
    pg::{wait::check_for_interrupts, words::Analyzer},
};

/// Returns the phrase that a text is. All words of the text count, also the parts of compounds.
///
/// # Errors
/// It has too many words. Memory runs out.
pub fn phrase(analyzer: Analyzer, text: &[u8], slop: u32) -> Result<Phrase, Error> {
    let phrase = phrase_of(analyzer, text, slop)?;
    if phrase.places().len() > MAX_PLACES {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("a phrase must not have more than {MAX_PLACES} words"),
        ));
    }
    Ok(phrase)
}

/// Does what [`phrase`] does, for any number of words.
///
/// # Errors
/// Memory runs out.
pub fn phrase_of(analyzer: Analyzer, text: &[u8], slop: u32) -> Result<Phrase, Error> {
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

/// Returns true if a text has a phrase, by the rules of an index.
///
/// # Errors
/// It is no index of `rag_bm25`, or the phrase is too long.
pub fn has_phrase(open: &OpenIndex, text: &[u8], words: &[u8], slop: u32) -> Result<bool, Error> {
    require_method(open)?;
    let analyzer = cache::open(open.index())?.analyzer()?;
    let phrase = phrase(analyzer, words, slop)?;
    let document = tokens::terms(analyzer.with_positions(true), text)?;
    phrase
        .matches(&document, check_for_interrupts)
        .map_err(|e| index_error(*open.index(), e))
}

/// Returns the rows whose texts have a phrase, also those that no snapshot sees any more.
///
/// # Errors
/// It is no index of `rag_bm25` with positions, the current role may not see all rows, or the
/// phrase is too long.
pub fn rows(open: &OpenIndex, words: &[u8], slop: u32) -> Result<Vec<Tid>, Error> {
    require_method(open)?;
    let index = open.index();
    require_privilege(index.id())?;
    if hides_rows(index.id())? {
        let message = format!("permission denied for index \"{}\"", index.name());
        return Err(Error::permission_denied(message));
    }
    let opened = cache::open(index)?;
    if !opened.description.has_positions {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{}\" has no positions", index.name()),
        )
        .hint("Set its option positions to on, and REINDEX it."));
    }
    let phrase = phrase(opened.analyzer()?, words, slop)?;
    rows_with_phrase(&opened.pages(index), &opened.segments, &phrase)
        .map_err(|e| index_error(*index, e))
}
