//! Small models of each family, and what `transformers` computes with them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rag_definition::model::Precision;
use rag_model::convert::{Conversion, convert};
use serde::Deserialize;
use tempfile::TempDir;

/// Models that embed.
pub const EMBEDDING: [&str; 9] = [
    "bert",
    "bert-dense",
    "roberta",
    "xlm-roberta",
    "xlm-roberta-long",
    "mpnet",
    "distilbert",
    "nomic-bert",
    "modernbert",
];

/// Returns the folder of a model with its weights.
pub fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../model/tests/reference")
        .join(name)
}

/// Returns a folder with the graphs of a model.
pub fn converted(name: &str) -> TempDir {
    let to = super::model_folder();
    let from = reference(name);
    let conversion = Conversion {
        from: &from,
        to: to.path(),
        precisions: &[Precision::Fp32, Precision::Int8],
        sha256: None,
    };
    convert(&conversion).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    to
}

/// Returns what a model is expected to compute.
pub fn expected<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    read(name, "expected.json")
}

/// Returns the content of a file of a model's folder.
pub fn read<T: for<'a> Deserialize<'a>>(name: &str, file: &str) -> T {
    let json = fs::read(reference(name).join(file)).unwrap();
    serde_json::from_slice(&json).unwrap()
}
