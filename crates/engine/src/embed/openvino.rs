//! OpenVINO, a second runtime of graphs. It computes 32-bit graphs in bfloat16, with hardly any
//! loss. Processors with instructions for that are faster so.
//!
//! The library is large, and so it is installed on request only. Each of its graphs is compared
//! with ONNX Runtime's before it is used (`Model::try_openvino`).

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use openvino::{
    CompiledModel, Core, DeviceType, ElementType, InferRequest, RwPropertyKey, Shape, Tensor,
};
use rag_model::invalid;
use rag_protocol::{EngineError, ErrorKind};

use super::graph::{Graph, GraphInputs, GraphValues};

const HINT: &str = "`make install WITH_OPENVINO=1` installs OpenVINO. Or set \
    rag.inference_runtime to onnxruntime.";

/// The library, and how graphs use it.
#[derive(Debug)]
pub struct OpenVino {
    library: PathBuf,
    threads: usize,
    core: OnceLock<Mutex<Loaded>>,
    loading: Mutex<()>,
}

struct Loaded(Core);

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loaded")
    }
}

impl OpenVino {
    /// Loads nothing yet. `library` is the path of `libopenvino_c.so`.
    pub fn new(library: PathBuf, threads: usize) -> Self {
        Self {
            library,
            threads,
            core: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }

    pub fn is_installed(&self) -> bool {
        self.library.is_file()
    }

    /// Loads a 32-bit graph.
    ///
    /// # Errors
    /// `FileNotFound` or `Unsupported` for the library, `InvalidModel` for the graph.
    pub fn open(&self, graph: &Path) -> Result<Box<dyn Graph>, EngineError> {
        let core = self.core()?;
        let Loaded(core) = &mut *core.lock().unwrap_or_else(PoisonError::into_inner);
        let path = graph
            .to_str()
            .ok_or_else(|| invalid(graph, "its path is not UTF-8"))?;
        let mut compile = || {
            let model = core.read_model_from_file(path, "")?;
            let mut compiled = core.compile_model(&model, DeviceType::CPU)?;
            let request = compiled.create_infer_request()?;
            Ok(OpenVinoGraph {
                request,
                _compiled: compiled,
            })
        };
        // the file is good: ONNX Runtime has loaded it
        let graph = compile().map_err(|e: openvino::InferenceError| {
            let message = format!("OpenVINO could not load \"{}\"", graph.display());
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(e.to_string())
                .hint(HINT)
        })?;
        Ok(Box::new(graph))
    }

    fn core(&self) -> Result<&Mutex<Loaded>, EngineError> {
        if let Some(core) = self.core.get() {
            return Ok(core);
        }
        let _only_one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.core.get().is_none() {
            let core = self.load()?;
            let _ = self.core.set(Mutex::new(Loaded(core)));
        }
        self.core
            .get()
            .ok_or_else(|| EngineError::new(ErrorKind::Internal, "OpenVINO is no longer loaded"))
    }

    fn load(&self) -> Result<Core, EngineError> {
        let library = std::fs::canonicalize(&self.library).map_err(|e| {
            let message = format!("could not find OpenVINO at \"{}\"", self.library.display());
            EngineError::new(ErrorKind::FileNotFound, message)
                .detail(e.to_string())
                .hint(HINT)
        })?;
        let failed = |detail: String| {
            let message = format!("could not load OpenVINO from \"{}\"", library.display());
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(detail)
                .hint(HINT)
        };
        let precision = if has_bf16() { "bf16" } else { "f32" };
        let threads = self.threads.to_string();
        let properties = [
            (RwPropertyKey::InferenceNumThreads, threads.as_str()),
            (RwPropertyKey::NumStreams, "1"),
            (RwPropertyKey::HintPerformanceMode, "LATENCY"),
            // Postgres needs all processors, and other processes of the engine do
            (RwPropertyKey::HintEnableCpuPinning, "NO"),
            (RwPropertyKey::HintInferencePrecision, precision),
        ];
        let create = || {
            openvino_sys::library::load_from(library.clone())?;
            let mut core = Core::new().map_err(|e| e.to_string())?;
            core.set_properties(&DeviceType::CPU, properties)
                .map_err(|e| e.to_string())?;
            Ok(core)
        };
        // the crate panics if the library lacks a function
        let core = catch_unwind(AssertUnwindSafe(create))
            .unwrap_or_else(|_| Err("It is not a library of OpenVINO.".into()))
            .map_err(failed)?;
        tracing::info!(library = %library.display(), threads = self.threads, precision,
            "loaded OpenVINO");
        Ok(core)
    }
}

/// Returns true if the processor computes in bfloat16. Those with AMX do, too.
pub fn has_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

struct OpenVinoGraph {
    request: InferRequest,
    /// What the request belongs to.
    _compiled: CompiledModel,
}

impl fmt::Debug for OpenVinoGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenVinoGraph")
    }
}

impl Graph for OpenVinoGraph {
    fn run(
        &mut self,
        inputs: GraphInputs,
        shape: [usize; 2],
        output: &str,
    ) -> Result<GraphValues, String> {
        let text = |e: openvino::InferenceError| e.to_string();
        let dimensions = Shape::new(&shape.map(|n| n as i64)).map_err(text)?;
        for (name, values) in inputs {
            let mut tensor = Tensor::new(ElementType::I64, &dimensions).map_err(text)?;
            tensor
                .get_data_mut::<i64>()
                .map_err(text)?
                .copy_from_slice(&values);
            self.request.set_tensor(name, &tensor).map_err(text)?;
        }
        self.request.infer().map_err(text)?;
        let tensor = self.request.get_tensor(output).map_err(text)?;
        let shape = tensor.get_shape().map_err(text)?;
        Ok(GraphValues {
            shape: shape.get_dimensions().to_vec(),
            values: tensor.get_data::<f32>().map_err(text)?.to_vec(),
        })
    }
}
