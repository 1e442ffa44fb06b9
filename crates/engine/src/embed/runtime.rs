//! ONNX Runtime: one shared library and one environment per process. OpenVINO beside it.

use std::{path::PathBuf, sync::Arc};

use ort::{environment::Environment, logging::LogLevel};
use rag_definition::model::Precision;
use rag_protocol::{EngineError, embed::ModelRef};

use super::{
    library::Library,
    openvino::{OpenVino, has_bf16},
    provider::Provider,
};

const HINT: &str = "The package rag-engine, or `make install`, installs ONNX Runtime's library. \
    Or set rag.onnxruntime_library.";

/// The libraries, and how graphs use them.
#[derive(Debug)]
pub struct Runtime {
    onnxruntime: Library<Environment>,
    /// Number of threads that work on one slice of texts.
    pub threads: usize,
    pub provider: Provider,
    /// Maximum size of the memory that a session takes of a graphics processor, in bytes.
    pub device_memory: Option<u64>,
    openvino: OpenVino,
}

impl Runtime {
    /// Loads nothing yet.
    pub fn new(
        libraries: Libraries,
        threads: usize,
        provider: Provider,
        device_memory: Option<u64>,
    ) -> Self {
        Self {
            onnxruntime: Library::new("ONNX Runtime", HINT, libraries.onnxruntime),
            threads,
            provider,
            device_memory,
            openvino: OpenVino::new(libraries.openvino, threads),
        }
    }

    /// Returns OpenVINO if it is to compute the graph of a model that embeds. It cannot compute
    /// 8-bit ones.
    pub fn openvino(&self, model: &ModelRef) -> Option<&OpenVino> {
        let is_chosen = match self.provider {
            Provider::Cpu | Provider::Cuda => false,
            Provider::Openvino => true,
            Provider::Auto => has_bf16() && self.openvino.is_installed(),
        };
        let embeds = !model.options.compares_tokens;
        (is_chosen && embeds && model.precision == Precision::Fp32).then_some(&self.openvino)
    }

    /// Returns true if several texts may be in one run of a graph. On a processor they are not
    /// faster than one after the other, and a text alone is always the same. 8-bit graphs scale
    /// activations by the largest value of a whole run.
    pub fn takes_batches(&self, precision: Precision) -> bool {
        self.provider == Provider::Cuda && precision == Precision::Fp32
    }

    /// Returns true if the settings do not leave a choice.
    pub fn requires_openvino(&self) -> bool {
        self.provider == Provider::Openvino
    }

    /// # Errors
    /// Those of [`Library::get`].
    pub fn environment(&self) -> Result<&Environment, EngineError> {
        self.onnxruntime.get(|library| {
            let environment = ort::init_from(library)
                .map_err(|e| e.to_string())?
                .with_telemetry(false)
                .with_name("rag-engine")
                .with_logger(Arc::new(log))
                .build()
                .map_err(|e| e.to_string())?;
            environment.set_log_level(LogLevel::Warning);
            Ok(environment)
        })
    }
}

/// The libraries that compute graphs.
#[derive(Debug)]
pub struct Libraries {
    pub onnxruntime: PathBuf,
    pub openvino: PathBuf,
}

fn log(level: LogLevel, _category: &str, _id: &str, place: &str, message: &str) {
    match level {
        LogLevel::Verbose | LogLevel::Info => tracing::debug!(place, "ONNX Runtime: {message}"),
        LogLevel::Warning => tracing::warn!(place, "ONNX Runtime: {message}"),
        // The reply to the request has the error, too.
        LogLevel::Error | LogLevel::Fatal => tracing::error!(place, "ONNX Runtime: {message}"),
    }
}
