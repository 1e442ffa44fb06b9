//! What the owner of a model sets otherwise than its folder does.

use std::path::Path;

use rag_definition::model::PoolingMode;
use rag_model::settings::{Pooling, Settings};
use rag_protocol::{EngineError, ErrorKind, embed::ModelOptions, file};
use serde_json::Value;

/// Replaces settings of a folder.
///
/// # Errors
/// `InvalidRequest` for what the model does not allow.
pub fn apply(
    options: &ModelOptions,
    dir: &Path,
    settings: &mut Settings,
) -> Result<(), EngineError> {
    if let Some(mode) = options.pooling {
        settings.pooling = pooling(mode);
    }
    if let Some(limit) = options.max_tokens {
        if limit > settings.max_positions {
            return Err(refused(
                format!("maxTokens is {limit}"),
                format!("The model reads at most {} tokens.", settings.max_positions),
            ));
        }
        settings.max_tokens = limit;
    }
    match options.dimensions {
        Some(dimensions) => check_dimensions(dimensions, dir, settings.dimensions),
        None => Ok(()),
    }
}

/// Returns what changes vectors after the steps of the folder, for hashes.
pub fn of_vectors(options: &ModelOptions, settings: &Settings) -> String {
    let dimensions = options.dimensions.or(settings.truncated);
    let dimensions = dimensions.map(|n| format!(" dimensions {n}"));
    let raw = (!normalizes(options, settings)).then_some(" raw");
    dimensions.unwrap_or_default() + raw.unwrap_or_default()
}

/// Returns true if vectors have length 1.
pub fn normalizes(options: &ModelOptions, settings: &Settings) -> bool {
    options.normalize.unwrap_or(settings.normalizes)
}

/// Returns the number of elements of a vector.
pub fn dimensions(options: &ModelOptions, settings: &Settings) -> usize {
    let given = options.dimensions.or(settings.truncated);
    given.unwrap_or(settings.dimensions)
}

fn pooling(mode: PoolingMode) -> Pooling {
    match mode {
        PoolingMode::Mean => Pooling::Mean,
        PoolingMode::Cls => Pooling::Cls,
        PoolingMode::Last => Pooling::Last,
    }
}

/// Vectors can be cut where the model was trained for it, and its folder says so.
fn check_dimensions(dimensions: usize, dir: &Path, all: usize) -> Result<(), EngineError> {
    if dimensions == all {
        return Ok(());
    }
    let wrong = |detail: String| Err(refused(format!("dimensions is {dimensions}"), detail));
    if dimensions > all {
        return wrong(format!("The vectors of the model have {all} dimensions."));
    }
    let files = ["config.json", "config_sentence_transformers.json"];
    let mut allowed = vec![];
    for file in files {
        let Some(config) = file::read(&dir.join(file))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        else {
            continue;
        };
        if config["is_matryoshka"] == Value::Bool(true) {
            return Ok(());
        }
        let listed = config["matryoshka_dimensions"].as_array();
        allowed.extend(listed.into_iter().flatten().filter_map(Value::as_u64));
        allowed.extend(config["truncate_dim"].as_u64());
    }
    if allowed.contains(&(dimensions as u64)) {
        return Ok(());
    }
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    wrong(if allowed.is_empty() {
        "The model was not trained for shorter vectors, as far as its folder says \
                 (matryoshka_dimensions in config.json)."
            .into()
    } else {
        format!(
            "The model has vectors of {} dimensions, or {all}.",
            allowed.join(", ")
        )
    })
}

fn refused(what: String, detail: String) -> EngineError {
    EngineError::new(
        ErrorKind::InvalidRequest,
        format!("{what}, which the model does not allow"),
    )
    .detail(detail)
    .hint("Leave it out, or change it with rag_alter_model.")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings() -> Settings {
        Settings {
            hidden_size: 8,
            dimensions: 8,
            words: None,
            max_tokens: 256,
            max_positions: 512,
            first_position: 0,
            pooling: Pooling::Mean,
            pooling_folder: "1_Pooling".into(),
            steps: vec![],
            further_steps: vec![],
            normalizes: true,
            truncated: None,
            prompts: Default::default(),
        }
    }

    fn applied(options: ModelOptions, config: &str) -> Result<Settings, EngineError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), config).unwrap();
        let mut settings = settings();
        apply(&options, dir.path(), &mut settings).map(|()| settings)
    }

    #[test]
    fn vectors_are_cut_where_the_model_says_so() {
        let four = ModelOptions {
            dimensions: Some(4),
            ..ModelOptions::default()
        };
        for (config, is_allowed) in [
            ("{}", false),
            (r#"{"matryoshka_dimensions": [2, 4]}"#, true),
            (r#"{"matryoshka_dimensions": [2]}"#, false),
            (r#"{"is_matryoshka": true}"#, true),
            (r#"{"truncate_dim": 4}"#, true),
        ] {
            assert_eq!(
                applied(four.clone(), config).is_ok(),
                is_allowed,
                "{config}"
            );
        }
        let more = ModelOptions {
            dimensions: Some(9),
            ..ModelOptions::default()
        };
        assert!(applied(more, r#"{"is_matryoshka": true}"#).is_err());
    }

    #[test]
    fn the_folder_says_what_options_do_not() {
        let folder = Settings {
            normalizes: false,
            truncated: Some(4),
            ..settings()
        };
        let none = ModelOptions::default();
        assert_eq!(
            (dimensions(&none, &folder), normalizes(&none, &folder)),
            (4, false)
        );
        assert_eq!(of_vectors(&none, &folder), " dimensions 4 raw");
        assert_eq!(of_vectors(&none, &settings()), "");
        let all = ModelOptions {
            dimensions: Some(8),
            normalize: Some(true),
            ..ModelOptions::default()
        };
        assert_eq!(
            (dimensions(&all, &folder), normalizes(&all, &folder)),
            (8, true)
        );
    }

    #[test]
    fn options_replace_settings() {
        let options = ModelOptions {
            pooling: Some(PoolingMode::Cls),
            max_tokens: Some(512),
            ..ModelOptions::default()
        };
        let settings = applied(options, "{}").unwrap();
        assert_eq!((settings.pooling, settings.max_tokens), (Pooling::Cls, 512));
        let too_many = ModelOptions {
            max_tokens: Some(513),
            ..ModelOptions::default()
        };
        assert_eq!(
            applied(too_many, "{}").unwrap_err().kind,
            ErrorKind::InvalidRequest
        );
    }
}
