//! What identifies a model: the content of its files.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rag_model::{graph_file, settings::Settings, unreadable};
use rag_protocol::{
    EngineError,
    embed::{ModelOptions, ModelRef},
    file,
};

use super::options;

/// Returns the BLAKE3 hash, in hex, of everything that determines a text's vector: the graph (with
/// weights stored beside it), the tokenizer, the pooling and the token limit.
pub fn fingerprint(
    dir: &Path,
    graph: &Path,
    tokenizer_json: &[u8],
    settings: &Settings,
    options: &ModelOptions,
) -> Result<String, EngineError> {
    let mut hasher = blake3::Hasher::new_derive_key("rag 2026 model fingerprint v1");
    for path in [
        graph.to_path_buf(),
        beside(graph, ".data"),
        beside(graph, "_data"),
    ] {
        let mut length = 0u64;
        match file::open(&path) {
            Ok(mut file) => {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let n = file.read(&mut buffer).map_err(|e| unreadable(&path, &e))?;
                    if n == 0 {
                        break;
                    }
                    hasher.update(&buffer[..n]);
                    length += n as u64;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && path != graph => {}
            Err(e) => return Err(unreadable(&path, &e)),
        }
        hasher.update(&length.to_le_bytes());
    }
    hasher.update(tokenizer_json);
    hasher.update(&(tokenizer_json.len() as u64).to_le_bytes());
    hasher.update(format!("{} {}", settings.pooling.name(), settings.max_tokens).as_bytes());
    hasher.update(&steps(dir, settings)?);
    hasher.update(options::of_vectors(options, settings).as_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the BLAKE3 hash, in hex, of a model's identity, whatever its precision and token limit:
/// the weights, the tokenizer and the pooling. If the weights cannot be separated from the graph,
/// the graph is hashed.
pub fn identity(
    dir: &Path,
    graph: &Path,
    fingerprint: &str,
    tokenizer_json: &[u8],
    settings: &Settings,
    options: &ModelOptions,
) -> Result<String, EngineError> {
    let Some(weights) = rag_model::identity::weights(graph)? else {
        return Ok(fingerprint.to_string());
    };
    let mut hasher = blake3::Hasher::new_derive_key("rag 2026 model identity v1");
    hasher.update(weights.as_bytes());
    hasher.update(&(tokenizer_json.len() as u64).to_le_bytes());
    hasher.update(tokenizer_json);
    hasher.update(settings.pooling.name().as_bytes());
    hasher.update(&steps(dir, settings)?);
    hasher.update(options::of_vectors(options, settings).as_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the content of the layers after pooling.
fn steps(dir: &Path, settings: &Settings) -> Result<Vec<u8>, EngineError> {
    let mut content = vec![];
    for step in &settings.steps {
        let path = dir.join(&step.folder).join("model.safetensors");
        match file::read(&path) {
            Ok(bytes) => content.extend(bytes),
            // a graph may include the layers
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(unreadable(&path, &e)),
        }
        content.extend(format!(" {:?} {}", step.activation, step.outputs).into_bytes());
        if step.is_normalized {
            content.extend(b" normalized");
        }
    }
    Ok(content)
}

/// Returns a file that can have weights beside a graph.
pub fn beside(graph: &Path, suffix: &str) -> PathBuf {
    let mut path = graph.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Identifies a state of a model's files without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamp {
    pub fn of(reference: &ModelRef) -> Self {
        let graph = graph_file(&reference.dir, reference.precision);
        let files = [
            "tokenizer.json",
            "config.json",
            "sentence_bert_config.json",
            "tokenizer_config.json",
            "modules.json",
            "config_sentence_transformers.json",
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
        ];
        let stamp = |path: PathBuf| {
            fs::metadata(path)
                .ok()
                .map(|file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
        };
        Self(
            [graph]
                .into_iter()
                .chain(files.map(|file| reference.dir.join(file)))
                .map(stamp)
                .collect(),
        )
    }
}
