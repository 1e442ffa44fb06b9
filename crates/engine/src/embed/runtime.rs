//! ONNX Runtime: one shared library and one environment per process. OpenVINO beside it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use ort::{
    environment::Environment,
    ep::{CUDA, ExecutionProviderDispatch, OpenVINO},
    logging::LogLevel,
};
use rag_protocol::{EngineError, ErrorKind, embed::Precision};

use super::openvino::{OpenVino, has_bf16};

/// The path of the library, and how sessions use it.
#[derive(Debug)]
pub struct Runtime {
    library: PathBuf,
    /// Number of threads that work on one slice of texts.
    pub threads: usize,
    pub provider: Provider,
    choice: InferenceRuntime,
    openvino: OpenVino,
    environment: OnceLock<Environment>,
    loading: Mutex<()>,
}

impl Runtime {
    /// Loads nothing yet. The first model loads the library, so that a wrong path is an error of a
    /// request and visible to its user.
    pub fn new(libraries: Libraries, threads: usize, provider: Provider) -> Self {
        Self {
            library: libraries.onnxruntime,
            threads,
            provider,
            choice: libraries.choice,
            openvino: OpenVino::new(libraries.openvino, threads),
            environment: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }

    /// Returns OpenVINO if it is to compute graphs of a precision. It cannot compute 8-bit ones.
    pub fn openvino(&self, precision: Precision) -> Option<&OpenVino> {
        let is_chosen = match self.choice {
            InferenceRuntime::Onnxruntime => false,
            InferenceRuntime::Openvino => true,
            InferenceRuntime::Auto => {
                has_bf16() && self.provider == Provider::Cpu && self.openvino.is_installed()
            }
        };
        (is_chosen && precision == Precision::Fp32).then_some(&self.openvino)
    }

    /// Returns true if the settings do not leave a choice.
    pub fn requires_openvino(&self) -> bool {
        self.choice == InferenceRuntime::Openvino
    }

    /// # Errors
    /// `FileNotFound`, or `Unsupported` if the library cannot be loaded or is too old. A later call
    /// tries again.
    pub fn environment(&self) -> Result<&Environment, EngineError> {
        if let Some(environment) = self.environment.get() {
            return Ok(environment);
        }
        let _only_one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.environment.get().is_none() {
            let environment = self.load()?;
            let _ = self.environment.set(environment);
        }
        self.environment.get().ok_or_else(|| {
            EngineError::new(ErrorKind::Internal, "ONNX Runtime is no longer loaded")
        })
    }

    fn load(&self) -> Result<Environment, EngineError> {
        const HINT: &str = "ONNX Runtime's shared library comes with the installation of rag; \
            `make install` puts it in place.";
        // A relative path would be searched for beside the executable first.
        let library = std::fs::canonicalize(&self.library).map_err(|e| {
            let message = format!(
                "could not find ONNX Runtime at \"{}\"",
                self.library.display()
            );
            EngineError::new(ErrorKind::FileNotFound, message)
                .detail(e.to_string())
                .hint(HINT)
        })?;
        let failed = |detail: String| {
            let message = format!("could not load ONNX Runtime from \"{}\"", library.display());
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(detail)
                .hint(HINT)
        };
        let environment = ort::init_from(&library)
            .map_err(|e| failed(e.to_string()))?
            .with_telemetry(false)
            .with_name("rag-engine")
            .with_logger(Arc::new(log))
            .build()
            .map_err(|e| failed(e.to_string()))?;
        environment.set_log_level(LogLevel::Warning);
        tracing::info!(library = %library.display(), threads = self.threads, "loaded ONNX Runtime");
        Ok(environment)
    }
}

/// The libraries that compute graphs, and which of them is chosen.
#[derive(Debug)]
pub struct Libraries {
    pub onnxruntime: PathBuf,
    pub openvino: PathBuf,
    pub choice: InferenceRuntime,
}

/// The value of `rag.inference_runtime`: what computes 32-bit graphs of models that embed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum InferenceRuntime {
    /// OpenVINO where it is installed and faster.
    Auto,
    Onnxruntime,
    Openvino,
}

/// The value of `rag.execution_provider`: what computes a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Provider {
    Cpu,
    Cuda,
    Openvino,
}

impl Provider {
    /// The providers of a session. One that is unavailable is an error, and none replaces it.
    pub fn dispatch(self) -> Vec<ExecutionProviderDispatch> {
        match self {
            Self::Cpu => vec![],
            Self::Cuda => vec![CUDA::default().build().error_on_failure()],
            Self::Openvino => vec![OpenVINO::default().build().error_on_failure()],
        }
    }

    /// Returns the error for a session that could not be created with this provider, if it is not
    /// the one that every library has.
    pub fn refusal(self, detail: &str) -> Option<EngineError> {
        let name = match self {
            Self::Cpu => return None,
            Self::Cuda => "cuda",
            Self::Openvino => "openvino",
        };
        let message = format!("the model could not be loaded by execution provider \"{name}\"");
        Some(
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(detail)
                .hint(
                    "Set rag.onnxruntime_library to a library that was built with it, or set \
                     rag.execution_provider to cpu.",
                ),
        )
    }
}

fn log(level: LogLevel, _category: &str, _id: &str, place: &str, message: &str) {
    match level {
        LogLevel::Verbose | LogLevel::Info => tracing::debug!(place, "ONNX Runtime: {message}"),
        LogLevel::Warning => tracing::warn!(place, "ONNX Runtime: {message}"),
        // The reply to the request has the error, too.
        LogLevel::Error | LogLevel::Fatal => tracing::error!(place, "ONNX Runtime: {message}"),
    }
}
