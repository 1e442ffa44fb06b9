//! OpenVINO, a second runtime of graphs. It computes 32-bit graphs in bfloat16, with hardly any
//! loss. Processors with instructions for that are faster so.
//!
//! The library is large, and so it is installed on request only. Each of its graphs is compared
//! with ONNX Runtime's before it is used ([`comparison`](super::comparison)).

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use openvino::{
    CompiledModel, Core, DeviceType, ElementType, InferRequest, RwPropertyKey, Shape, Tensor,
};
use rag_model::invalid;
use rag_protocol::{EngineError, ErrorKind};

use super::{
    graph::{Graph, GraphInputs, GraphValues},
    library::Library,
};

const HINT: &str = "`make install WITH_OPENVINO=1` installs OpenVINO. Or set \
    rag.execution_provider to cpu.";

/// The library, and how graphs use it.
#[derive(Debug)]
pub struct OpenVino {
    library: Library<Mutex<LoadedCore>>,
    threads: usize,
}

struct LoadedCore(Core);

impl fmt::Debug for LoadedCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadedCore")
    }
}

impl OpenVino {
    /// Loads nothing yet. `library` is the path of `libopenvino_c.so`.
    pub fn new(library: PathBuf, threads: usize) -> Self {
        Self {
            library: Library::new("OpenVINO", HINT, library),
            threads,
        }
    }

    pub fn is_installed(&self) -> bool {
        self.library.is_installed()
    }

    /// Loads a 32-bit graph.
    ///
    /// # Errors
    /// Those of [`Library::get`]; `Unsupported` if OpenVINO cannot load the graph.
    pub fn open(&self, graph: &Path) -> Result<Box<dyn Graph>, EngineError> {
        let core = self.library.get(|library| self.load(library))?;
        let LoadedCore(core) = &mut *core.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn load(&self, library: &Path) -> Result<Mutex<LoadedCore>, String> {
        let precision = if has_bf16() { "bf16" } else { "f32" };
        let threads = self.threads.to_string();
        tracing::info!(precision, threads, "OpenVINO computes graphs");
        let properties = [
            (RwPropertyKey::InferenceNumThreads, threads.as_str()),
            (RwPropertyKey::NumStreams, "1"),
            (RwPropertyKey::HintPerformanceMode, "LATENCY"),
            // Postgres needs all processors, and other processes of the engine do
            (RwPropertyKey::HintEnableCpuPinning, "NO"),
            (RwPropertyKey::HintInferencePrecision, precision),
        ];
        let create = || {
            openvino_sys::library::load_from(library.to_path_buf())?;
            let mut core = Core::new().map_err(|e| e.to_string())?;
            core.set_properties(&DeviceType::CPU, properties)
                .map_err(|e| e.to_string())?;
            Ok(Mutex::new(LoadedCore(core)))
        };
        // the crate panics if the library lacks a function
        catch_unwind(AssertUnwindSafe(create))
            .unwrap_or_else(|_| Err("It is not a library of OpenVINO.".into()))
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
