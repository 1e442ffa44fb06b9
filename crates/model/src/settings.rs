//! The settings of a sentence-transformers folder, beyond the graph.
//!
//! | file | setting | default |
//! |---|---|---|
//! | `config.json` | dimensions, words, positions | an error |
//! | `sentence_bert_config.json` | `max_seq_length` | the next line |
//! | `tokenizer_config.json` | `model_max_length` | the positions, at most 8192; 512 if unknown |
//! | `1_Pooling/config.json` | how token vectors are combined | the mean |
//! | `modules.json` | the folder of the pooling, and steps after it: see [`crate::modules`] | length 1 |
//! | `2_Dense/` | a layer after pooling: see [`crate::steps`] | none |
//! | `config_sentence_transformers.json` | [`crate::prompts`], `truncate_dim` | none |

use std::{io, path::Path};

use rag_protocol::{EngineError, ErrorKind, embed::Prompts};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    config::{Fields, MOST_TOKENS},
    invalid,
    modules::Modules,
    prompts::SentenceConfig,
    steps::{DenseStep, MOST_DIMENSIONS, dense_steps},
    unreadable,
};

/// Maximum number of tokens of a text if nothing says otherwise: the one of BERT.
const DEFAULT_MAX_TOKENS: usize = 512;

/// How the vectors of a text's tokens are combined to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean, without padding.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The largest value of each dimension.
    Max,
    /// The vector of the last token.
    Last,
}

impl Pooling {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Max => "max",
            Self::Last => "lasttoken",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Mean, Self::Cls, Self::Max, Self::Last];
        all.into_iter().find(|pooling| pooling.name() == name)
    }
}

/// The settings of a model's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Length of a token's vector.
    pub hidden_size: usize,
    /// Length of an embedding.
    pub dimensions: usize,
    /// Number of words that have a vector, if it is known.
    pub words: Option<usize>,
    /// Maximum number of tokens of a text, special tokens included.
    pub max_tokens: usize,
    /// The number of tokens that have a position.
    pub max_positions: usize,
    /// The position of the first token, for graphs with the input `position_ids`.
    pub first_position: usize,
    pub pooling: Pooling,
    /// Folder of the pooling's settings.
    pub pooling_folder: String,
    /// Layers after pooling.
    pub steps: Vec<DenseStep>,
    /// Further steps after pooling, which a graph must include.
    pub further_steps: Vec<String>,
    /// True if vectors have length 1.
    pub normalizes: bool,
    /// Number of the first elements of a vector that are kept, if the folder says so.
    pub truncated: Option<usize>,
    /// What is read before queries and passages.
    pub prompts: Prompts,
}

impl Settings {
    /// Reads the folder's configuration.
    ///
    /// # Errors
    /// `FileNotFound` without a `config.json`; `InvalidModel`, with the file, for invalid content
    /// and for a pooling that is not supported.
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        let fields = Fields::read(dir)?;
        let hidden_size = fields.hidden()?;
        if hidden_size > MOST_DIMENSIONS {
            return Err(fields.invalid(format!("hidden_size is {hidden_size}")));
        }
        let modules = Modules::read(dir)?;
        let pooling = pooling(dir, &modules.pooling)?;
        let sentence = SentenceConfig::read(dir)?;
        sentence.check_pooling(dir, &modules.pooling)?;
        let steps = dense_steps(dir, &modules.dense, hidden_size)?;
        let dimensions = steps.last().map_or(hidden_size, |step| step.outputs);
        Ok(Self {
            hidden_size,
            dimensions,
            words: fields.words(),
            max_tokens: max_tokens(dir, &fields)?,
            max_positions: fields.most_tokens().unwrap_or(MOST_TOKENS).min(MOST_TOKENS),
            first_position: fields.first_position(),
            pooling,
            pooling_folder: modules.pooling,
            steps,
            further_steps: modules.further,
            normalizes: modules.normalizes,
            truncated: sentence.truncated(dimensions)?,
            prompts: sentence.prompts()?,
        })
    }
}

/// Returns the maximum number of tokens of a text.
fn max_tokens(dir: &Path, fields: &Fields) -> Result<usize, EngineError> {
    #[derive(Deserialize)]
    struct Sentence {
        max_seq_length: Option<usize>,
    }
    #[derive(Deserialize)]
    struct TokenizerConfig {
        // a float such as 1e30 stands for "no limit"
        model_max_length: Option<f64>,
    }
    let path = dir.join("sentence_bert_config.json");
    let limit = fields.most_tokens();
    let positions = limit.unwrap_or(usize::MAX);
    let sentence = optional::<Sentence>(&path)?.and_then(|sentence| sentence.max_seq_length);
    if let Some(given) = sentence {
        // some models give the number of rows of the table of positions
        let rows = positions.saturating_add(fields.first_position());
        if !(3..=rows).contains(&given) {
            return Err(invalid(
                &path,
                format!("max_seq_length is {given}, outside 3 to {positions}"),
            ));
        }
        return Ok(given.min(positions).min(MOST_TOKENS));
    }
    let default = limit.map_or(DEFAULT_MAX_TOKENS, |limit| limit.min(MOST_TOKENS));
    let config = optional::<TokenizerConfig>(&dir.join("tokenizer_config.json"))?;
    let given = config
        .and_then(|config| config.model_max_length)
        .filter(|length| *length >= 3.0 && *length < default as f64)
        .map(|length| length as usize);
    let tokens = given.unwrap_or(default);
    // Two special tokens and at least one other; and no position without an embedding.
    match tokens {
        0..=2 => Err(fields.invalid(format!("it has {tokens} positions"))),
        _ => Ok(tokens),
    }
}

fn pooling(dir: &Path, folder: &str) -> Result<Pooling, EngineError> {
    const MODES: [(Pooling, &str); 4] = [
        (Pooling::Mean, "pooling_mode_mean_tokens"),
        (Pooling::Cls, "pooling_mode_cls_token"),
        (Pooling::Max, "pooling_mode_max_tokens"),
        (Pooling::Last, "pooling_mode_lasttoken"),
    ];
    let path = dir.join(folder).join("config.json");
    let Some(config) = optional::<Map<String, Value>>(&path)? else {
        return Ok(Pooling::Mean);
    };
    if let Some(name) = config.get("pooling_mode").and_then(Value::as_str) {
        return Pooling::parse(name).ok_or_else(|| {
            invalid(&path, format!("its pooling is not supported: {name}"))
                .hint("Supported are mean, cls, max and lasttoken.")
        });
    }
    let modes: Vec<&str> = config
        .iter()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true))
        .map(|(key, _)| key.as_str())
        .collect();
    let known = match modes[..] {
        [] => return Err(invalid(&path, "it enables no pooling mode")),
        [mode] => MODES.iter().find(|(_, key)| *key == mode),
        _ => None,
    };
    known.map(|(pooling, _)| *pooling).ok_or_else(|| {
        invalid(
            &path,
            format!("its pooling is not supported: {}", modes.join(", ")),
        )
        .hint(format!(
            "Supported are {}, one at a time.",
            MODES.map(|(_, key)| key).join(", ")
        ))
    })
}

/// Reads a required JSON file.
pub fn required<T: DeserializeOwned>(path: &Path) -> Result<T, EngineError> {
    let bytes = rag_protocol::file::read(path).map_err(|e| {
        unreadable(path, &e).hint(
            "The folder of a model must contain config.json, tokenizer.json, and model.onnx or \
             model_int8.onnx. The setting rag.model_dir names the folder.",
        )
    })?;
    parse(path, &bytes)
}

/// Reads an optional JSON file.
pub(crate) fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, EngineError> {
    match rag_protocol::file::read(path) {
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
    use std::fs;

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
        let alone = read(&[CONFIG]).unwrap();
        assert_eq!((alone.hidden_size, alone.dimensions), (8, 8));
        assert_eq!((alone.max_tokens, alone.pooling), (514, Pooling::Mean));
        let tokenizer = |length: &str| {
            let config = format!(r#"{{"model_max_length": {length}}}"#);
            let files = [CONFIG, ("tokenizer_config.json", config.as_str())];
            read(&files).unwrap().max_tokens
        };
        assert_eq!(tokenizer("384"), 384);
        assert_eq!(tokenizer("1000000000000000019884624838656"), 514);
    }

    #[test]
    fn positions_of_roberta_begin_after_padding() {
        let config = |rest: &str| {
            let config = format!(r#"{{"hidden_size": 8, {rest}}}"#);
            read(&[("config.json", config.as_str())]).unwrap()
        };
        let roberta = config(r#""model_type": "xlm-roberta", "max_position_embeddings": 514"#);
        assert_eq!((roberta.max_tokens, roberta.first_position), (512, 2));
        let long = config(r#""model_type": "modernbert", "max_position_embeddings": 9000"#);
        assert_eq!((long.max_tokens, long.first_position), (8192, 0));
        assert_eq!(config(r#""model_type": "else""#).max_tokens, 512);
    }

    #[test]
    fn steps_after_pooling_are_named() {
        let modules = ["Transformer", "Pooling", "LSTM", "Normalize"].map(|class| {
            format!(r#"{{"idx": 0, "name": "0", "path": "1_Pooling", "type": "sentence_transformers.models.{class}"}}"#)
        });
        let modules = format!("[{}]", modules.join(","));
        assert_eq!(
            read(&[CONFIG, ("modules.json", &modules)])
                .unwrap()
                .further_steps,
            ["LSTM"]
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
        let other = [
            (r#"{"pooling_mode_max_tokens": true}"#, Pooling::Max),
            (r#"{"pooling_mode_lasttoken": true}"#, Pooling::Last),
            (r#"{"pooling_mode": "cls"}"#, Pooling::Cls),
        ];
        for (config, pooling) in other {
            let settings = read(&[CONFIG, ("1_Pooling/config.json", config)]).unwrap();
            assert_eq!(settings.pooling, pooling);
        }
        let weighted = r#"{"pooling_mode_weightedmean_tokens": true}"#;
        let error = read(&[CONFIG, ("1_Pooling/config.json", weighted)]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidModel);
        assert_eq!(
            error.detail.unwrap(),
            "its pooling is not supported: pooling_mode_weightedmean_tokens"
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
