//! Texts in several languages in one index: the text search configuration `rag.auto`
//! ([`rag_language::AUTO`]).
//!
//! A text of such an index begins with a mark, which names its language. The configuration of that
//! language makes words of the rest, and a text without a mark has `simple`. Each text also gets a
//! term that names its configuration. So the statistics of the index tell which languages it has,
//! and how many texts of each.
//!
//! A query is read by each of these configurations. Its terms are those of all of them together: a
//! word finds texts with its inflections, each in the text's own language. The stop words of the
//! query's language are left out. They are rare in the other languages, and so they would count
//! much. The language of a short query is not known. Then a word is left out if it is a stop word
//! of all languages.

use std::collections::{BTreeMap, HashMap};

use pgrx::pg_sys;
use rag_bm25::Terms;
use rag_language::{SIMPLE, config_name, config_names, detect};
use rag_pages::memory::OutOfMemory;
use rag_words::{Purpose, Weight};

use super::tokens::Counted;
use crate::{
    error::Error,
    pg::{
        text_search,
        words::{Analyzer, Words},
    },
};

/// Encloses the language at the beginning of a text. The parser takes it for white space, so it is
/// in no word.
const MARK: u8 = 1;
/// The maximum length of the name of a language, in bytes.
const MAX_LANGUAGE: usize = 64;
/// Number of configurations whose words are remembered in a build.
const REMEMBERED: usize = 4;

/// Returns true if each text has a configuration of its own.
pub fn is_auto(analyzer: Analyzer) -> bool {
    text_search::config(c"rag", c"auto") == Some(analyzer.config)
}

/// Returns the name of a text's configuration, and the text without its mark.
fn split_mark(text: &[u8]) -> (&'static str, &[u8]) {
    let language = text.strip_prefix(&[MARK]).and_then(|rest| {
        let end = rest
            .iter()
            .take(MAX_LANGUAGE + 1)
            .position(|b| *b == MARK)?;
        let name = std::str::from_utf8(&rest[..end]).ok()?;
        Some((config_name(name), &rest[end + 1..]))
    });
    language.unwrap_or((SIMPLE, text))
}

/// Returns true if a text begins with a mark.
pub fn has_mark(text: &str) -> bool {
    split_mark(text.as_bytes()).1.len() < text.len()
}

/// Returns the OID of a configuration in `pg_catalog`, or that of `simple` if this version of
/// PostgreSQL lacks it; and its name.
fn config_of(name: &'static str) -> Result<(&'static str, pg_sys::Oid), Error> {
    let find = |name: &str| {
        let name = std::ffi::CString::new(name).ok()?;
        text_search::config(c"pg_catalog", &name)
    };
    match (find(name), find(SIMPLE)) {
        (Some(config), _) => Ok((name, config)),
        (None, Some(simple)) => Ok((SIMPLE, simple)),
        (None, None) => Err(Error::undefined(
            "text search configuration pg_catalog.simple does not exist",
        )),
    }
}

/// Returns what makes words of a text, and the text without its mark.
///
/// # Errors
/// The configuration `simple` was dropped.
pub fn analyzer_of(analyzer: Analyzer, text: &[u8]) -> Result<(Analyzer, &[u8]), Error> {
    if !is_auto(analyzer) {
        return Ok((analyzer, text));
    }
    let (name, text) = split_mark(text);
    let (_, config) = config_of(name)?;
    Ok((analyzer.with_config(config), text))
}

/// Returns what makes words of a text in a language, if each text has a configuration of its own.
///
/// # Errors
/// The configuration `simple` was dropped.
pub fn in_language(analyzer: Analyzer, language: &str) -> Result<Analyzer, Error> {
    let (_, config) = config_of(config_name(language))?;
    Ok(analyzer.with_config(config))
}

/// Returns all configurations that texts may have.
///
/// # Errors
/// The configuration `simple` was dropped.
pub fn all() -> Result<Vec<pg_sys::Oid>, Error> {
    let markers = markers()?;
    used(&markers, &vec![1; markers.len()])
}

/// Returns the configuration of the language that a query is in.
///
/// # Errors
/// The configuration `simple` was dropped.
pub fn own_config(query: &[u8]) -> Result<pg_sys::Oid, Error> {
    let own = config_name(detect(&String::from_utf8_lossy(query)));
    Ok(config_of(own)?.1)
}

/// Returns the term that tells that a text has a configuration.
fn marker(name: &str) -> Vec<u8> {
    let mut marker = vec![MARK];
    marker.extend(name.as_bytes());
    marker
}

/// Adds the terms of a text.
pub fn add_terms(
    terms: &mut Counted,
    analyzer: Analyzer,
    text: &[u8],
) -> Result<Result<(), OutOfMemory>, Error> {
    let (name, text) = split_mark(text);
    let (name, config) = config_of(name)?;
    let analyzer = analyzer.with_config(config);
    Ok(terms.add(&marker(name), Weight::Whole).and_then(|()| {
        analyzer.each_occurrence(text, Purpose::Text, |found| terms.add_occurrence(found))
    }))
}

/// The words of many texts in several languages.
#[derive(Default)]
pub struct ManyLanguages(HashMap<&'static str, Words>);

impl ManyLanguages {
    /// Does what [`add_terms`] does.
    pub fn add_terms(
        &mut self,
        terms: &mut Counted,
        analyzer: Analyzer,
        text: &[u8],
    ) -> Result<Result<(), OutOfMemory>, Error> {
        let (name, rest) = split_mark(text);
        let (name, config) = config_of(name)?;
        if !self.0.contains_key(name) && self.0.len() >= REMEMBERED {
            return add_terms(terms, analyzer, text);
        }
        let words = self
            .0
            .entry(name)
            .or_insert_with(|| Words::new(analyzer.with_config(config)));
        Ok(terms.add(&marker(name), Weight::Whole).and_then(|()| {
            words.each_occurrence(rest, Purpose::Text, |found| terms.add_occurrence(found))
        }))
    }
}

/// Returns the terms whose frequencies tell which languages an index has.
///
/// # Errors
/// Memory runs out.
pub fn markers() -> Result<Terms, Error> {
    let mut terms = Terms::new();
    for name in config_names() {
        terms
            .add(&marker(name))
            .map_err(|_| Error::out_of_memory("Memory ran out while a query was being read."))?;
    }
    terms.finish();
    Ok(terms)
}

/// Returns the configurations that have texts. `frequencies` are those of [`markers`].
pub fn used(markers: &Terms, frequencies: &[u64]) -> Result<Vec<pg_sys::Oid>, Error> {
    let mut used = vec![];
    for ((marker, _), texts) in markers.iter().zip(frequencies) {
        let name = config_names().find(|name| name.as_bytes() == &marker[1..]);
        if let (Some(name), 1..) = (name, *texts) {
            used.push(config_of(name)?.1);
        }
    }
    Ok(used)
}

/// Returns the names of the configurations that have texts. `frequencies` are those of
/// [`markers`].
pub fn used_names(markers: &Terms, frequencies: &[u64]) -> Vec<&'static str> {
    let with_texts = markers
        .iter()
        .zip(frequencies)
        .filter(|(_, texts)| **texts > 0);
    with_texts
        .filter_map(|((marker, _), _)| config_names().find(|name| name.as_bytes() == &marker[1..]))
        .collect()
}

/// Returns the configurations with some names.
///
/// # Errors
/// The configuration `simple` was dropped.
pub fn configs(names: &[String]) -> Result<Vec<pg_sys::Oid>, Error> {
    let known = config_names().filter(|name| names.iter().any(|it| it == name));
    known.map(|name| Ok(config_of(name)?.1)).collect()
}

/// Adds the terms of a query of an index with some configurations. `own` is that of the query's
/// language.
pub fn add_query_terms(
    terms: &mut Counted,
    analyzer: Analyzer,
    query: &[u8],
    used: &[pg_sys::Oid],
    own: pg_sys::Oid,
) -> Result<Result<(), OutOfMemory>, Error> {
    if let [only] = used {
        let analyzer = analyzer.with_config(*only);
        return Ok(analyzer.each_term(query, Purpose::Query, |term, weight| {
            terms.add(term, weight)
        }));
    }
    let mut add = |word: &[u8]| -> Result<(), OutOfMemory> {
        // a term counts as much as in the configuration in which it counts most
        let mut found: BTreeMap<Vec<u8>, Weight> = BTreeMap::new();
        for config in used {
            let mut has_terms = false;
            let analyzer = analyzer.with_config(*config);
            analyzer.each_term(word, Purpose::Query, |term, weight| {
                has_terms = true;
                let known = found.entry(term.to_vec()).or_insert(weight);
                *known = weight.max(*known);
                Ok(())
            })?;
            if !has_terms && *config == own {
                return Ok(()); // a stop word
            }
        }
        found
            .iter()
            .try_for_each(|(term, weight)| terms.add(term, *weight))
    };
    let words = query.split(u8::is_ascii_whitespace);
    Ok(words.filter(|word| !word.is_empty()).try_for_each(&mut add))
}
