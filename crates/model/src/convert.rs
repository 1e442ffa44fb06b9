//! Converts a folder with weights to a folder with graphs.
//!
//! Every file is written under a temporary name beside its place and renamed, so that a reader
//! never sees a part of it. A failed conversion leaves nothing behind.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use rag_definition::model::Precision;
use rag_protocol::{EngineError, ErrorKind};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    config::{Config, Purpose},
    graph::graph,
    invalid,
    safetensors::Weights,
    settings::{Pooling, Settings},
    unreadable,
};

/// One conversion.
#[derive(Debug)]
pub struct Conversion<'a> {
    /// Folder with `model.safetensors`, `config.json` and `tokenizer.json`.
    pub from: &'a Path,
    /// Folder that is created or completed; may be the same one.
    pub to: &'a Path,
    pub precisions: &'a [Precision],
    /// SHA-256 hex that `model.safetensors` must have.
    pub sha256: Option<&'a str>,
}

/// Files that describe a model besides its weights; copied if they exist.
const COMPANIONS: [&str; 4] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "config_sentence_transformers.json",
];
/// Files that are written if they do not exist, for an embedding model.
const DESCRIPTIONS: [&str; 2] = ["sentence_bert_config.json", "modules.json"];

/// Converts, and returns the graphs that were written.
///
/// # Errors
/// `FileNotFound`, `PermissionDenied` or `Io` for a file that cannot be read or written;
/// `InvalidModel` if weights or configuration are invalid or have another checksum; `Unsupported`
/// if the model is of no family that can be converted.
pub fn convert(conversion: &Conversion) -> Result<Vec<PathBuf>, EngineError> {
    let config = Config::read(conversion.from)?;
    let settings = Settings::read(conversion.from)?;
    if !settings.further_steps.is_empty() {
        let message = format!(
            "the model's steps after pooling cannot be converted: {}",
            settings.further_steps.join(", ")
        );
        return Err(EngineError::new(ErrorKind::Unsupported, message));
    }
    let tokenizer = conversion.from.join("tokenizer.json");
    fs::metadata(&tokenizer).map_err(|e| unreadable(&tokenizer, &e))?;

    let path = conversion.from.join("model.safetensors");
    let bytes = fs::read(&path).map_err(|e| missing_weights(conversion.from, &path, &e))?;
    if let Some(expected) = conversion.sha256 {
        let actual = hex::encode(Sha256::digest(&bytes));
        if !actual.eq_ignore_ascii_case(expected) {
            return Err(
                invalid(&path, format!("its SHA-256 is {actual}, not {expected}"))
                    .hint("The file was damaged in transit or is another version; fetch it again."),
            );
        }
    }
    let weights = Weights::parse(&path, &bytes)?;

    let mut written = vec![];
    for precision in conversion.precisions {
        let graph = graph(&config, &weights, &settings, *precision)?;
        let target = conversion.to.join(precision.file_name());
        write(&target, &graph.encode("sentence-encoder"))?;
        written.push(target);
    }
    companions(conversion, &config, &settings)?;
    Ok(written)
}

/// Returns the error for weights that cannot be read, with what else is in the folder.
fn missing_weights(dir: &Path, path: &Path, error: &io::Error) -> EngineError {
    let exists = |name: &str| dir.join(name).exists();
    let unreadable = unreadable(path, error);
    if error.kind() != io::ErrorKind::NotFound {
        return unreadable;
    }
    if exists("model.safetensors.index.json") {
        return unreadable.hint("Weights that are split over several files cannot be converted.");
    }
    if exists("pytorch_model.bin") {
        return unreadable.hint(
            "Weights in pytorch_model.bin cannot be read, because such a file can contain \
             programs. Save the model as safetensors with its own tools.",
        );
    }
    unreadable
}

/// Copies the files beside the weights, and writes missing ones from the known settings.
fn companions(
    conversion: &Conversion,
    config: &Config,
    settings: &Settings,
) -> Result<(), EngineError> {
    let same = fs::canonicalize(conversion.from).ok() == fs::canonicalize(conversion.to).ok();
    let pooling = format!("{}/config.json", settings.pooling_folder);
    let mut files: Vec<(String, bool)> = COMPANIONS.map(|name| (name.to_owned(), false)).to_vec();
    if config.purpose == Purpose::Embedding {
        files.extend(DESCRIPTIONS.map(|name| (name.to_owned(), true)));
        files.push((pooling.clone(), true));
    }
    for step in &settings.steps {
        for name in ["config.json", "model.safetensors"] {
            files.push((format!("{}/{name}", step.folder), false));
        }
    }
    for (name, is_written) in &files {
        let (from, to) = (conversion.from.join(name), conversion.to.join(name));
        match fs::read(&from) {
            Ok(_) if same => {}
            Ok(bytes) => write(&to, &bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if *is_written {
                    write(&to, &description(name, settings))?;
                }
            }
            Err(e) => return Err(unreadable(&from, &e)),
        }
    }
    Ok(())
}

/// Returns the content of a companion file that is missing.
fn description(name: &str, settings: &Settings) -> Vec<u8> {
    let value = match name {
        "sentence_bert_config.json" => {
            json!({ "max_seq_length": settings.max_tokens, "do_lower_case": false })
        }
        name if name.ends_with("/config.json") => json!({
            "word_embedding_dimension": settings.hidden_size,
            "pooling_mode_cls_token": settings.pooling == Pooling::Cls,
            "pooling_mode_mean_tokens": settings.pooling == Pooling::Mean,
            "pooling_mode_max_tokens": false,
            "pooling_mode_mean_sqrt_len_tokens": false,
        }),
        _ => {
            let modules = [
                ("", "Transformer"),
                ("1_Pooling", "Pooling"),
                ("2_Normalize", "Normalize"),
            ];
            let module = |(idx, (path, class)): (usize, &(&str, &str))| {
                json!({"idx": idx,
                "name": idx.to_string(), "path": path,
                    "type": format!("sentence_transformers.models.{class}")})
            };
            modules.iter().enumerate().map(module).collect()
        }
    };
    format!("{value:#}\n").into_bytes()
}

/// Writes a file atomically, readable by everyone.
fn write(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    let unwritable = |e: &io::Error| {
        let kind = if e.kind() == io::ErrorKind::PermissionDenied {
            ErrorKind::PermissionDenied
        } else {
            ErrorKind::Io
        };
        EngineError::new(kind, format!("could not write \"{}\"", path.display()))
            .detail(e.to_string())
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|e| unwritable(&e))?;
    let written = tempfile::Builder::new()
        .prefix(".rag-model-")
        .tempfile_in(dir)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            file.as_file().set_permissions(readable)?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|e| e.error)
        });
    written.map(drop).map_err(|e| unwritable(&e))
}
