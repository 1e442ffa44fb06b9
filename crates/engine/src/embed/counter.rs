//! Counts the tokens of chunks by a [`TokenRule`], for the splitter.
//!
//! A model on another server has no tokenizer here, unless its owner names a folder. Without one
//! the tokens are estimated: a word of letters and digits of ASCII has a token for each
//! [`LETTERS`], and every other character but white space is one. That is more than the usual
//! tokenizers need for most texts.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError},
};

use rag_document::{CountedWord, TokenCounter};
use rag_model::settings::Settings;
use rag_protocol::{EngineError, ErrorKind, embed::TokenRule};

use super::{models::out_of_reach, tokens::ModelTokenizer};
use crate::sandbox;

/// The number of letters of a token.
const LETTERS: usize = 3;
/// The special tokens that an estimate adds to each text.
const SPECIAL_TOKENS: usize = 2;
/// The limit of a rule that names none.
const DEFAULT_LIMIT: usize = 512;
/// The tokens that a prefix must leave for a text.
const LEAST_ROOM: usize = 8;

/// A tokenizer or an estimate, and the tokens that a text may have beside its prefix.
#[derive(Debug, Clone)]
pub struct ChunkCounter {
    tokenizer: Option<Arc<ModelTokenizer>>,
    limit: usize,
}

impl ChunkCounter {
    /// Reads the tokenizer that a rule names.
    ///
    /// # Errors
    /// `FileNotFound`, `InvalidModel`, or `InvalidRequest` for a prefix that is too long.
    pub fn read(rule: &TokenRule) -> Result<Self, EngineError> {
        let Some(dir) = &rule.tokenizer else {
            let limit = rule.max_tokens.unwrap_or(DEFAULT_LIMIT);
            return Self::estimate(limit).beside(rule.prefix.as_deref().unwrap_or_default());
        };
        let (limit, prefix) = match (rule.max_tokens, rule.prefix.clone()) {
            (Some(limit), Some(prefix)) => (limit, prefix),
            (limit, prefix) => {
                let settings = Settings::read(dir)?;
                let prefix = prefix.unwrap_or(settings.prompts.passage);
                (limit.unwrap_or(settings.max_tokens), prefix)
            }
        };
        let tokenizer = ModelTokenizer::read_with_limit(dir, limit)?;
        Self::of(Arc::new(tokenizer)).beside(&prefix)
    }

    pub fn of(tokenizer: Arc<ModelTokenizer>) -> Self {
        Self {
            limit: tokenizer.limit(),
            tokenizer: Some(tokenizer),
        }
    }

    fn estimate(limit: usize) -> Self {
        Self {
            tokenizer: None,
            limit,
        }
    }

    /// Leaves room for a prefix.
    ///
    /// # Errors
    /// `InvalidRequest` if no text has room beside it.
    pub fn beside(mut self, prefix: &str) -> Result<Self, EngineError> {
        if prefix.is_empty() {
            return Ok(self);
        }
        let special = self.count("");
        let tokens = self.count(prefix) - special;
        let room = self.limit.saturating_sub(tokens);
        if room < special + LEAST_ROOM {
            return Err(EngineError::new(
                ErrorKind::InvalidRequest,
                "the passage prefix of the model is too long",
            )
            .detail(format!(
                "It has {tokens} tokens, and the model reads {}.",
                self.limit
            )));
        }
        self.limit = room;
        Ok(self)
    }

    /// Returns the content of `tokenizer.json`, which is empty for an estimate, and the limit.
    pub fn recipe(&self) -> (Arc<[u8]>, usize) {
        match &self.tokenizer {
            Some(tokenizer) => (tokenizer.recipe().0, self.limit),
            None => (Arc::new([]), self.limit),
        }
    }

    /// Builds the same counter in another process.
    ///
    /// # Errors
    /// See [`ModelTokenizer::parse`].
    pub fn rebuilt(json: &[u8], limit: usize) -> Result<Self, EngineError> {
        match json {
            [] => Ok(Self::estimate(limit)),
            json => ModelTokenizer::rebuilt(json, limit).map(|own| Self::of(Arc::new(own))),
        }
    }

    /// Returns the number of tokens of a text, without special tokens.
    pub fn count_alone(&self, text: &str) -> usize {
        match &self.tokenizer {
            Some(tokenizer) => tokenizer.count_alone(text),
            None => estimated(text),
        }
    }
}

impl TokenCounter for ChunkCounter {
    fn count(&self, text: &str) -> usize {
        match &self.tokenizer {
            Some(tokenizer) => tokenizer.count(text),
            None => estimated(text) + SPECIAL_TOKENS,
        }
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn words(&self, text: &str) -> Option<Vec<CountedWord>> {
        self.tokenizer.as_ref()?.words(text)
    }
}

/// The number of counters that `embed` keeps.
const KEPT: usize = 8;

/// The counters that were used last, so that not each request reads a tokenizer.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Vec<KeptCounter>>);

#[derive(Debug)]
struct KeptCounter {
    rule: TokenRule,
    stamp: [Option<Stamp>; 2],
    counter: ChunkCounter,
}

/// Identifies a state of a file without reading it.
type Stamp = (u64, u64, i64, i64);

impl Counters {
    /// # Errors
    /// The rule cannot be read ([`ChunkCounter::read`]), or its folder is outside of the sandbox.
    pub fn get(&self, rule: &TokenRule) -> Result<ChunkCounter, EngineError> {
        if rule.tokenizer.is_none() {
            return ChunkCounter::read(rule);
        }
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(rule);
        let is_same = |kept: &&KeptCounter| kept.rule == *rule && kept.stamp == stamp;
        if let Some(found) = kept().iter().find(is_same) {
            return Ok(found.counter.clone());
        }
        let counter = ChunkCounter::read(rule).map_err(|error| {
            let is_refused = error.kind == ErrorKind::PermissionDenied && sandbox::is_entered();
            if is_refused {
                out_of_reach(error)
            } else {
                error
            }
        })?;
        let mut kept = kept();
        kept.retain(|kept| kept.rule != *rule);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(KeptCounter {
            rule: rule.clone(),
            stamp,
            counter: counter.clone(),
        });
        Ok(counter)
    }
}

fn stamp(rule: &TokenRule) -> [Option<Stamp>; 2] {
    ["tokenizer.json", "config_sentence_transformers.json"].map(|name| {
        let path = rule.tokenizer.as_ref()?.join(name);
        let file = fs::metadata(path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    })
}

fn estimated(text: &str) -> usize {
    let (mut tokens, mut letters) = (0usize, 0usize);
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            tokens += usize::from(letters % LETTERS == 0);
            letters += 1;
        } else {
            letters = 0;
            tokens += usize::from(!c.is_whitespace());
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(max_tokens: usize, prefix: &str) -> TokenRule {
        TokenRule {
            tokenizer: None,
            max_tokens: Some(max_tokens),
            prefix: Some(prefix.into()),
        }
    }

    #[test]
    fn an_estimate_counts_letters_and_marks() {
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("the cats", 3),
            ("a-b", 3),
            ("don't", 3),
            ("\u{6771}\u{4eac}", 2),
            (" \n\t", 0),
        ] {
            assert_eq!(estimated(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_prefix_takes_room() {
        let counter = ChunkCounter::read(&rule(100, "passage: ")).unwrap();
        assert_eq!(counter.limit(), 96);
        let error = ChunkCounter::read(&rule(16, "a very long passage prefix: ")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
    }

    #[test]
    fn an_estimate_is_the_same_in_another_process() {
        let counter = ChunkCounter::read(&rule(100, "passage: ")).unwrap();
        let (json, limit) = counter.recipe();
        let other = ChunkCounter::rebuilt(&json, limit).unwrap();
        assert_eq!(other.limit(), counter.limit());
        assert_eq!(other.count("two words"), counter.count("two words"));
    }
}
