//! The settings of a sentence-transformers folder, beyond the graph.
//!
//! | file | setting | default |
//! |---|---|---|
//! | `config.json` | `hidden_size`, `max_position_embeddings` | an error |
//! | `sentence_bert_config.json` | `max_seq_length` | `max_position_embeddings`, at most 512 |
//! | `1_Pooling/config.json` | how token vectors are combined | the mean |
//! | `modules.json` | steps after pooling besides normalisation | none |

use std::{fs, io, path::Path};

use rag_protocol::{EngineError, ErrorKind};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{invalid, unreadable};

/// Default maximum number of tokens of a text: the one that BERT was trained with.
const DEFAULT_MAX_TOKENS: usize = 512;

/// How the vectors of a text's tokens are combined to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean, without padding.
    Mean,
    /// The vector of the first token.
    Cls,
}

impl Pooling {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        }
    }
}

/// The settings of a model's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Length of a token's vector, and of an embedding.
    pub hidden_size: usize,
    /// Maximum number of tokens of a text, special tokens included.
    pub max_tokens: usize,
    pub pooling: Pooling,
    /// Steps besides transformer, pooling and normalisation, such as `Dense`. A graph must include
    /// them.
    pub further_steps: Vec<String>,
}

impl Settings {
    /// Reads the folder's configuration.
    ///
    /// # Errors
    /// `FileNotFound` without a `config.json`; `InvalidModel`, with the file, for invalid content
    /// and for a pooling other than mean and cls.
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        #[derive(Deserialize)]
        struct Config {
            #[serde(alias = "dim")] // DistilBERT's word for it
            hidden_size: usize,
            max_position_embeddings: Option<usize>,
        }
        #[derive(Deserialize)]
        struct Sentence {
            max_seq_length: Option<usize>,
        }

        let path = dir.join("config.json");
        let config: Config = required(&path)?;
        if config.hidden_size == 0 {
            return Err(invalid(&path, "hidden_size is 0"));
        }
        let positions = config.max_position_embeddings.unwrap_or(usize::MAX);
        let path = dir.join("sentence_bert_config.json");
        let max_tokens = optional::<Sentence>(&path)?
            .and_then(|sentence| sentence.max_seq_length)
            .unwrap_or(positions.min(DEFAULT_MAX_TOKENS));
        // Two special tokens and at least one other; and no position without an embedding.
        if !(3..=positions).contains(&max_tokens) {
            return Err(invalid(
                &path,
                format!("max_seq_length is {max_tokens}, outside 3 to {positions}"),
            ));
        }
        let further_steps = further_steps(dir)?;
        Ok(Self {
            hidden_size: config.hidden_size,
            max_tokens,
            pooling: pooling(dir)?,
            further_steps,
        })
    }
}

fn further_steps(dir: &Path) -> Result<Vec<String>, EngineError> {
    #[derive(Deserialize)]
    struct Module {
        r#type: String,
    }
    let modules = optional::<Vec<Module>>(&dir.join("modules.json"))?.unwrap_or_default();
    let step = |module: Module| {
        module
            .r#type
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    Ok(modules
        .into_iter()
        .map(step)
        .filter(|step| !["Transformer", "Pooling", "Normalize"].contains(&&**step))
        .collect())
}

fn pooling(dir: &Path) -> Result<Pooling, EngineError> {
    let path = dir.join("1_Pooling").join("config.json");
    let Some(config) = optional::<Map<String, Value>>(&path)? else {
        return Ok(Pooling::Mean);
    };
    let modes: Vec<&str> = config
        .iter()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true))
        .map(|(key, _)| key.as_str())
        .collect();
    match modes[..] {
        ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        ["pooling_mode_cls_token"] => Ok(Pooling::Cls),
        [] => Err(invalid(&path, "it enables no pooling mode")),
        _ => Err(invalid(
            &path,
            format!("its pooling is not supported: {}", modes.join(", ")),
        )
        .hint("Supported are pooling_mode_mean_tokens and pooling_mode_cls_token, one at a time.")),
    }
}

/// Reads a required JSON file.
pub fn required<T: DeserializeOwned>(path: &Path) -> Result<T, EngineError> {
    let bytes = fs::read(path).map_err(|e| {
        unreadable(path, &e).hint(
            "The folder of a model must contain config.json, tokenizer.json, and model.onnx or \
             model_int8.onnx. The setting rag.model_dir names the folder.",
        )
    })?;
    parse(path, &bytes)
}

/// Reads an optional JSON file.
fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, EngineError> {
    match fs::read(path) {
        Ok(bytes) => parse(path, &bytes).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unreadable(path, &e)),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(bytes).map_err(|e| {
        EngineError::new(
            ErrorKind::InvalidModel,
            format!("\"{}\" is not valid", path.display()),
        )
        .detail(e.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("1_Pooling")).unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    fn read(files: &[(&str, &str)]) -> Result<Settings, EngineError> {
        Settings::read(folder(files).path())
    }

    const CONFIG: (&str, &str) = (
        "config.json",
        r#"{"hidden_size": 8, "max_position_embeddings": 514}"#,
    );

    #[test]
    fn the_sentence_configuration_overrides_the_models() {
        let sentence = (
            "sentence_bert_config.json",
            r#"{"max_seq_length": 256, "do_lower_case": false}"#,
        );
        assert_eq!(read(&[CONFIG, sentence]).unwrap().max_tokens, 256);
        let alone = Settings {
            hidden_size: 8,
            max_tokens: 512,
            pooling: Pooling::Mean,
            further_steps: vec![],
        };
        assert_eq!(read(&[CONFIG]).unwrap(), alone);
    }

    #[test]
    fn steps_after_pooling_are_named() {
        let modules = ["Transformer", "Pooling", "Dense", "Normalize"].map(|class| {
            format!(r#"{{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.{class}"}}"#)
        });
        let modules = format!("[{}]", modules.join(","));
        assert_eq!(
            read(&[CONFIG, ("modules.json", &modules)])
                .unwrap()
                .further_steps,
            ["Dense"]
        );
    }

    #[test]
    fn pooling_is_read_from_the_folder() {
        let cls = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
        assert_eq!(
            read(&[CONFIG, ("1_Pooling/config.json", cls)])
                .unwrap()
                .pooling,
            Pooling::Cls
        );
        let max = r#"{"pooling_mode_max_tokens": true}"#;
        let error = read(&[CONFIG, ("1_Pooling/config.json", max)]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidModel);
        assert_eq!(
            error.detail.unwrap(),
            "its pooling is not supported: pooling_mode_max_tokens"
        );
    }

    #[test]
    fn errors_name_the_file() {
        assert_eq!(read(&[]).unwrap_err().kind, ErrorKind::FileNotFound);
        for (files, file, detail) in [
            (
                &[("config.json", "{")][..],
                "config.json",
                "EOF while parsing an object at line 1 column 1",
            ),
            (
                &[
                    CONFIG,
                    ("sentence_bert_config.json", r#"{"max_seq_length": 9000}"#),
                ],
                "sentence_bert_config.json",
                "max_seq_length is 9000, outside 3 to 514",
            ),
            (
                &[CONFIG, ("1_Pooling/config.json", "{}")],
                "1_Pooling/config.json",
                "it enables no pooling mode",
            ),
        ] {
            let error = read(files).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidModel);
            assert!(error.message.contains(file), "{}", error.message);
            assert_eq!(error.detail.unwrap(), detail);
        }
    }
}
