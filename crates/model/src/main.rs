//! `rag-model`: fetches models, and writes the ONNX graphs of an encoder from its
//! `model.safetensors`. See the library.

mod fetch;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use rag_definition::model::Precision;
use rag_model::convert::{Conversion, convert};
use rag_protocol::{EngineError, ErrorKind, ingest::Network};

use crate::fetch::{DEFAULT_ENDPOINT, Fetch, fetch};

/// Prepares embedding models for rag-engine.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a file could not be fetched, read or \
                          written, 2 wrong usage, \
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
    /// Fetch the files of a published model that convert needs. Files that are there are kept, and
    /// a file that was broken off is continued.
    #[command(after_help = EXIT_CODES)]
    Fetch {
        /// Branch, tag or commit. The commit is printed; with it the same files are fetched.
        #[arg(long, default_value = "main")]
        revision: String,
        /// Address of the hub.
        #[arg(long, value_name = "URL", default_value = DEFAULT_ENDPOINT)]
        endpoint: String,
        /// Host that is allowed although its address is not public; can be repeated.
        #[arg(long, value_name = "HOST")]
        allow_private_host: Vec<String>,
        /// http://host:port of a proxy.
        #[arg(long, value_name = "URL")]
        proxy: Option<String>,
        /// The model, as owner/name.
        repository: String,
        /// Folder to write into.
        dir: PathBuf,
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
    let result = match Arguments::parse().command {
        Command::Convert {
            precision,
            sha256,
            safetensors_dir,
            out_dir,
        } => print_written(&Conversion {
            from: &safetensors_dir,
            to: &out_dir,
            precisions: &precision,
            sha256: sha256.as_deref(),
        }),
        Command::Fetch {
            revision,
            endpoint,
            allow_private_host,
            proxy,
            repository,
            dir,
        } => print_fetched(&Fetch {
            repository: &repository,
            revision: &revision,
            endpoint: &endpoint,
            to: &dir,
            network: &Network {
                allowed_private_hosts: allow_private_host,
                proxy,
                silence_seconds: None,
            },
        }),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    report(&error);
    match error.kind {
        ErrorKind::InvalidModel | ErrorKind::Unsupported => ExitCode::from(3),
        ErrorKind::InvalidRequest => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

fn print_written(conversion: &Conversion) -> Result<(), EngineError> {
    for path in convert(conversion)? {
        println!("{}", path.display());
    }
    Ok(())
}

fn print_fetched(model: &Fetch) -> Result<(), EngineError> {
    let fetched = fetch(model)?;
    println!("commit {}", fetched.commit);
    for (file, is_new) in fetched.files {
        println!("{} {file}", if is_new { "fetched" } else { "kept" });
    }
    Ok(())
}

fn report(error: &EngineError) {
    eprintln!("rag-model: {error}");
    for (label, part) in [("detail", &error.detail), ("hint", &error.hint)] {
        if let Some(part) = part {
            eprintln!("  {label}: {part}");
        }
    }
}
