//! Folders of models on this server.

use std::path::Path;

use rag_definition::model::{ModelSpec, Precision};
use rag_protocol::embed::{ModelOptions, ModelRef};

use crate::{error::Error, pg::roles, settings};

/// Checks that a role may name the folders of a model.
///
/// # Errors
/// It may not read files of the server.
pub fn check_folders(spec: &ModelSpec, owner: pgrx::pg_sys::Oid) -> Result<(), Error> {
    let has_folders = !spec.path.as_os_str().is_empty() || spec.embedding.tokenizer.is_some();
    if has_folders {
        roles::require_server_files(owner)
    } else {
        Ok(())
    }
}

/// Returns what the engine is told of the model in a folder.
pub(super) fn local_ref(spec: &ModelSpec) -> ModelRef {
    let embedding = &spec.embedding;
    ModelRef {
        precision: available_precision(&spec.path),
        dir: spec.path.clone(),
        options: ModelOptions {
            dimensions: embedding.dimensions,
            pooling: embedding.pooling,
            normalize: embedding.normalize,
            max_tokens: embedding.max_tokens,
            compares_tokens: false,
        },
    }
}

/// Returns `rag.model_precision`, or the other one if the folder has only its graph.
fn available_precision(dir: &Path) -> Precision {
    let wanted = settings::precision();
    let other = match wanted {
        Precision::Int8 => Precision::Fp32,
        Precision::Fp32 => Precision::Int8,
    };
    let has = |precision: Precision| {
        let mut names = precision.file_names().iter();
        names.any(|name| dir.join(name).exists())
    };
    if !has(wanted) && has(other) {
        other
    } else {
        wanted
    }
}
