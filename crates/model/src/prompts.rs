//! `config_sentence_transformers.json`: what a model reads before a text, and how long its vectors
//! are.
//!
//! | key | meaning |
//! |---|---|
//! | `prompts` | texts by name; `query` is that of queries, and `document`, `passage` or `corpus` that of passages, the first one that exists |
//! | `default_prompt_name` | the prompt of a purpose that has none of its own |
//! | `truncate_dim` | number of the first elements of a vector that are kept |
//!
//! Source: `encode_query` and `encode_document` of `sentence-transformers`, as they are documented.
//! Version 6.2 fills in empty prompts `query` and `document` before it looks for the others.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use rag_protocol::{EngineError, embed::Prompts};
use serde::Deserialize;

use crate::{invalid, settings::optional};

/// Names of the prompt of passages; the first one that exists counts.
const PASSAGE: [&str; 3] = ["document", "passage", "corpus"];
/// Maximum length of a prompt, in bytes.
const MAX_PROMPT: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct SentenceConfig {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
struct Content {
    #[serde(default)]
    prompts: Option<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    default_prompt_name: Option<String>,
    #[serde(default)]
    truncate_dim: Option<usize>,
}

impl SentenceConfig {
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        let path = dir.join("config_sentence_transformers.json");
        let content = optional(&path)?.unwrap_or_default();
        Ok(Self { path, content })
    }

    fn named(&self, name: &str) -> Option<&str> {
        self.content.prompts.as_ref()?.get(name)?.as_deref()
    }

    /// Returns what is read before queries and passages.
    ///
    /// # Errors
    /// `InvalidModel` for a prompt that is too long, or a default that does not exist.
    pub fn prompts(&self) -> Result<Prompts, EngineError> {
        let default = match &self.content.default_prompt_name {
            None => None,
            Some(name) => Some(self.named(name).ok_or_else(|| {
                let detail = format!("default_prompt_name is \"{name}\", which prompts lacks");
                invalid(&self.path, detail)
            })?),
        };
        let passage = PASSAGE.iter().find_map(|name| self.named(name));
        let checked = |prompt: Option<&str>| match prompt.or(default).unwrap_or_default() {
            long if long.len() > MAX_PROMPT => Err(invalid(
                &self.path,
                format!(
                    "a prompt has {} bytes, and the limit is {MAX_PROMPT}",
                    long.len()
                ),
            )),
            prompt => Ok(prompt.to_owned()),
        };
        Ok(Prompts {
            query: checked(self.named("query"))?,
            passage: checked(passage)?,
        })
    }

    /// Returns the number of elements that are kept of a vector of so many.
    ///
    /// # Errors
    /// `InvalidModel` if it is none of them, or more.
    pub fn truncated(&self, dimensions: usize) -> Result<Option<usize>, EngineError> {
        match self.content.truncate_dim {
            Some(kept) if !(1..=dimensions).contains(&kept) => Err(invalid(
                &self.path,
                format!("truncate_dim is {kept}, outside 1 to {dimensions}"),
            )),
            kept => Ok(kept.filter(|kept| *kept < dimensions)),
        }
    }

    /// Checks that prompts count as a part of the text.
    ///
    /// # Errors
    /// `InvalidModel` if the pooling leaves them out.
    pub fn check_pooling(&self, dir: &Path, folder: &str) -> Result<(), EngineError> {
        #[derive(Deserialize)]
        struct Pooling {
            #[serde(default = "yes")]
            include_prompt: bool,
        }
        fn yes() -> bool {
            true
        }
        let path = dir.join(folder).join("config.json");
        let includes = optional::<Pooling>(&path)?.is_none_or(|pooling| pooling.include_prompt);
        if includes || self.prompts()?.is_empty() {
            return Ok(());
        }
        Err(invalid(
            &path,
            "include_prompt is false: a pooling without the tokens of the prompt is not supported",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(content: &str) -> Result<SentenceConfig, EngineError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("config_sentence_transformers.json"),
            content,
        )
        .unwrap();
        SentenceConfig::read(dir.path())
    }

    #[test]
    fn prompts_are_those_of_queries_and_documents() {
        let of = |content: &str| {
            let prompts = config(content).unwrap().prompts().unwrap();
            (prompts.query, prompts.passage)
        };
        let pair = |query: &str, passage: &str| (query.to_owned(), passage.to_owned());
        assert_eq!(of("{}"), pair("", ""));
        assert_eq!(of(r#"{"prompts": null}"#), pair("", ""));
        assert_eq!(
            of(r#"{"prompts": {"query": "q: ", "document": ""}}"#),
            pair("q: ", "")
        );
        assert_eq!(
            of(r#"{"prompts": {"query": "q: ", "passage": "p: ", "corpus": "c: "}}"#),
            pair("q: ", "p: ")
        );
        assert_eq!(
            of(r#"{"prompts": {"query": "q: ", "any": "a: "}, "default_prompt_name": "any"}"#),
            pair("q: ", "a: ")
        );
    }

    #[test]
    fn wrong_settings_name_the_file() {
        for (content, detail) in [
            (
                r#"{"default_prompt_name": "x"}"#,
                "default_prompt_name is \"x\", which prompts lacks",
            ),
            (
                &format!(r#"{{"prompts": {{"query": "{}"}}}}"#, "x".repeat(1001)),
                "a prompt has 1001 bytes, and the limit is 1000",
            ),
        ] {
            let error = config(content).unwrap().prompts().unwrap_err();
            assert!(error.message.contains("config_sentence_transformers.json"));
            assert_eq!(error.detail.as_deref(), Some(detail));
        }
        assert!(config(r#"{"prompts": ["query"]}"#).is_err());
        let config = config(r#"{"truncate_dim": 4}"#).unwrap();
        assert_eq!(config.truncated(8).unwrap(), Some(4));
        assert_eq!(config.truncated(4).unwrap(), None);
        assert_eq!(
            config.truncated(2).unwrap_err().detail.as_deref(),
            Some("truncate_dim is 4, outside 1 to 2")
        );
    }
}
