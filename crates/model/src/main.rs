//! `rag-model`: writes the ONNX graphs of an encoder from its `model.safetensors`. See the library.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use rag_definition::model::Precision;
use rag_model::convert::{Conversion, convert};
use rag_protocol::{EngineError, ErrorKind};

/// Prepares embedding models for rag-engine.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a file could not be read or written, 2 wrong \
    usage, \
                          3 the model is damaged, has another checksum, or is of a kind that \
                          cannot be converted.";

#[derive(Subcommand)]
enum Command {
    /// Write model.onnx or model_int8.onnx, and the configuration beside it, from
    /// model.safetensors.
    #[command(after_help = EXIT_CODES)]
    Convert {
        /// fp32 (model.onnx) or int8 (model_int8.onnx, a quarter of the size, about four times as
        /// fast); can be repeated.
        #[arg(long, value_parser = precision, required = true)]
        precision: Vec<Precision>,
        /// Required SHA-256 of model.safetensors.
        #[arg(long, value_name = "HEX")]
        sha256: Option<String>,
        /// Folder with model.safetensors, config.json and tokenizer.json.
        safetensors_dir: PathBuf,
        /// Folder to write into; may be the same one.
        out_dir: PathBuf,
    },
}

fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "fp32" => Ok(Precision::Fp32),
        "int8" => Ok(Precision::Int8),
        _ => Err("must be fp32 or int8".into()),
    }
}

fn main() -> ExitCode {
    let Command::Convert {
        precision,
        sha256,
        safetensors_dir,
        out_dir,
    } = Arguments::parse().command;
    let conversion = Conversion {
        from: &safetensors_dir,
        to: &out_dir,
        precisions: &precision,
        sha256: sha256.as_deref(),
    };
    match convert(&conversion) {
        Ok(written) => {
            for path in written {
                println!("{}", path.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&error);
            match error.kind {
                ErrorKind::InvalidModel | ErrorKind::Unsupported => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn report(error: &EngineError) {
    eprintln!("rag-model: {error}");
    for (label, part) in [("detail", &error.detail), ("hint", &error.hint)] {
        if let Some(part) = part {
            eprintln!("  {label}: {part}");
        }
    }
}
