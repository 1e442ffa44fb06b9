//! One loaded model: a checked folder, a tokenizer and an ONNX Runtime session.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ort::{
    session::{Session, SessionInputValue, builder::GraphOptimizationLevel},
    value::{Tensor, TensorElementType, ValueType},
};
use rag_model::{invalid, settings::Settings, unreadable};
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{ModelInfo, ModelRef, Precision},
};

use super::{
    baseline::baseline, pooling, runtime::Runtime, scheduler::SLICE, tokens::ModelTokenizer,
};

/// A model that passed all checks, including a first run.
#[derive(Debug)]
pub struct Model {
    pub info: ModelInfo,
    pub tokenizer: ModelTokenizer,
    settings: Settings,
    output: Output,
    /// True if the graph has the input `token_type_ids`.
    has_segments: bool,
    /// Number of texts in one run of the graph.
    batch: usize,
    session: Mutex<Session>,
}

/// The output of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Output {
    /// One vector per text.
    Pooled(String),
    /// One vector per token.
    Hidden(String),
}

/// Names of outputs, in order of preference.
const POOLED: &str = "sentence_embedding";
const HIDDEN: [&str; 2] = ["last_hidden_state", "token_embeddings"];

impl Model {
    /// Loads a model and runs it once.
    ///
    /// # Errors
    /// `FileNotFound`, `InvalidModel` or `PermissionDenied`, with the file.
    pub fn load(reference: &ModelRef, runtime: &Runtime) -> Result<Self, EngineError> {
        let dir = reference.dir.as_path();
        check_folder(dir)?;
        let graph = dir.join(reference.precision.file_name());
        fs::metadata(&graph).map_err(|e| unreadable(&graph, &e).hint(graph_hint(reference)))?;
        let settings = Settings::read(dir)?;
        let tokenizer_path = dir.join("tokenizer.json");
        let tokenizer_json =
            fs::read(&tokenizer_path).map_err(|e| unreadable(&tokenizer_path, &e))?;
        let tokenizer = ModelTokenizer::parse(&tokenizer_path, &tokenizer_json, &settings)?;
        let fingerprint = fingerprint(&graph, &tokenizer_json, &settings)?;

        let session = open(&graph, runtime)?;
        let has_segments = check_inputs(&graph, &session)?;
        let output = find_output(&graph, &session, &settings)?;
        let name = dir.file_name().map_or_else(
            || dir.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        let info = ModelInfo {
            name,
            dimensions: settings.hidden_size,
            max_tokens: settings.max_tokens,
            identity: identity(&graph, &fingerprint, &tokenizer_json, &settings)?,
            fingerprint,
            baseline: 0.0,
        };
        let batch = match reference.precision {
            Precision::Fp32 => SLICE,
            // 8-bit graphs scale activations by the largest value of a whole run, so a text's
            // vector would depend on the other texts. Alone it is always the same, and texts as
            // long as chunks are embedded as fast.
            Precision::Int8 => 1,
        };
        let mut model = Self {
            info,
            tokenizer,
            settings,
            output,
            has_segments,
            batch,
            session: Mutex::new(session),
        };
        model.try_out(&graph)?;
        // a graph may work with the words of some texts only
        model.info.baseline = baseline(&model).unwrap_or_default();
        Ok(model)
    }

    /// A graph can load and still belong to another model than the tokenizer. The first run shows
    /// that.
    fn try_out(&self, graph: &Path) -> Result<(), EngineError> {
        let tokens = self
            .tokenizer
            .tokenize("a text to try the model with", &|| false)?;
        self.run(&[tokens.map(|tokens| tokens.ids).unwrap_or_default()])
            .map(drop)
            .map_err(|e| {
                invalid(graph, e.detail.unwrap_or(e.message))
                    .hint("The graph, tokenizer.json and config.json may be of different models.")
            })
    }

    /// Embeds a few texts. Returns one vector of length 1 for each, one after another.
    ///
    /// # Errors
    /// `Internal` if ONNX Runtime fails or a vector has no direction.
    pub fn run(&self, texts: &[impl AsRef<[u32]>]) -> Result<Vec<f32>, EngineError> {
        let mut vectors = Vec::with_capacity(texts.len() * self.info.dimensions);
        for batch in texts.chunks(self.batch) {
            vectors.extend(self.run_batch(batch)?);
        }
        Ok(vectors)
    }

    fn run_batch(&self, texts: &[impl AsRef<[u32]>]) -> Result<Vec<f32>, EngineError> {
        let failed = |e: ort::Error| {
            EngineError::new(ErrorKind::Internal, "the embedding model failed")
                .detail(e.to_string())
        };
        let rows = texts.len();
        let width = texts.iter().map(|t| t.as_ref().len()).max().unwrap_or(0);
        let mut ids = vec![0i64; rows * width];
        let mut mask = vec![0i64; rows * width];
        for (row, text) in texts.iter().enumerate() {
            for (column, id) in text.as_ref().iter().enumerate() {
                ids[row * width + column] = i64::from(*id);
                mask[row * width + column] = 1;
            }
        }
        let shape = [rows, width];
        let mut inputs: Vec<(&str, SessionInputValue)> = vec![
            (
                "input_ids",
                Tensor::from_array((shape, ids)).map_err(failed)?.into(),
            ),
            (
                "attention_mask",
                Tensor::from_array((shape, mask)).map_err(failed)?.into(),
            ),
        ];
        if self.has_segments {
            let segments = Tensor::from_array((shape, vec![0i64; rows * width])).map_err(failed)?;
            inputs.push(("token_type_ids", segments.into()));
        }

        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = session.run(inputs).map_err(failed)?;
        let dimensions = self.settings.hidden_size;
        let (name, expected) = match &self.output {
            Output::Pooled(name) => (name, vec![rows, dimensions]),
            Output::Hidden(name) => (name, vec![rows, width, dimensions]),
        };
        let (shape, values) = outputs[name.as_str()]
            .try_extract_tensor::<f32>()
            .map_err(failed)?;
        if !shape
            .iter()
            .map(|n| usize::try_from(*n).ok())
            .eq(expected.iter().map(|n| Some(*n)))
        {
            return Err(
                EngineError::new(ErrorKind::Internal, "the embedding model failed").detail(
                    format!("output \"{name}\" has shape {shape:?}, not {expected:?}"),
                ),
            );
        }
        let mut vectors = match &self.output {
            Output::Pooled(_) => values.to_vec(),
            Output::Hidden(_) => values
                .chunks_exact(width * dimensions)
                .zip(texts)
                .flat_map(|(hidden, text)| {
                    pooling::pool(
                        self.settings.pooling,
                        hidden,
                        text.as_ref().len(),
                        dimensions,
                    )
                })
                .collect(),
        };
        for vector in vectors.chunks_exact_mut(dimensions) {
            pooling::normalise(vector)?;
        }
        Ok(vectors)
    }
}

/// Returns the HINT for a folder without the graph that is asked for.
fn graph_hint(reference: &ModelRef) -> String {
    format!(
        "The setting rag.model_dir names the folder, and rag.model_precision selects the graph {}. \
         Create it with rag-model convert, or select the other precision.",
        reference.precision.file_name()
    )
}

fn check_folder(dir: &Path) -> Result<(), EngineError> {
    let metadata = fs::metadata(dir).map_err(|e| {
        unreadable(dir, &e)
            .hint("A model is a folder with model.onnx, tokenizer.json and config.json.")
    })?;
    if metadata.is_dir() {
        Ok(())
    } else {
        Err(EngineError::new(
            ErrorKind::WrongFileType,
            format!("\"{}\" is not a folder", dir.display()),
        ))
    }
}

fn open(graph: &Path, runtime: &Runtime) -> Result<Session, EngineError> {
    let environment = runtime.environment()?;
    let build = || -> Result<Session, String> {
        let text = |e: ort::Error<_>| e.to_string();
        Session::builder(environment)
            .map_err(|e| e.to_string())?
            .with_intra_threads(runtime.threads)
            .map_err(text)?
            // Threads that spin between requests would keep processors busy that Postgres needs.
            .with_intra_op_spinning(false)
            .map_err(text)?
            // Texts differ in length: memory plans for each shape would only accumulate.
            .with_memory_pattern(false)
            .map_err(text)?
            .with_config_entry(
                "session.x64quantprecision",
                if saturates() { "1" } else { "0" },
            )
            .map_err(text)?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(text)?
            .commit_from_file(graph)
            .map_err(|e| e.to_string())
    };
    build().map_err(|detail| {
        invalid(graph, detail).hint("The file may be truncated; fetch or convert it again.")
    })
}

/// Returns true if this processor saturates sums of 8-bit products, so that a quantized model would
/// give other vectors than elsewhere. ONNX Runtime then uses slower instructions. With VNNI these
/// are not needed and would cost a third more time.
fn saturates() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !(is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni"));
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Checks that the graph's inputs are available. Returns true if it has `token_type_ids`.
fn check_inputs(graph: &Path, session: &Session) -> Result<bool, EngineError> {
    const KNOWN: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];
    let names: Vec<&str> = session.inputs().iter().map(|input| input.name()).collect();
    for input in session.inputs() {
        let integers = matches!(
            input.dtype(),
            ValueType::Tensor {
                ty: TensorElementType::Int64,
                ..
            }
        );
        if !KNOWN.contains(&input.name()) || !integers {
            return Err(invalid(
                graph,
                format!(
                    "its input \"{}\" is \
                {}",
                    input.name(),
                    input.dtype()
                ),
            )
            .hint(
                "Supported are the 64-bit integer inputs input_ids, attention_mask and, \
                    optionally, token_type_ids.",
            ));
        }
    }
    for needed in &KNOWN[..2] {
        if !names.contains(needed) {
            return Err(invalid(
                graph,
                format!("it has no input \"{needed}\", only {}", names.join(", ")),
            ));
        }
    }
    Ok(names.contains(&KNOWN[2]))
}

fn find_output(
    graph: &Path,
    session: &Session,
    settings: &Settings,
) -> Result<Output, EngineError> {
    let find = |name: &str| {
        session
            .outputs()
            .iter()
            .find(|output| output.name() == name)
    };
    let (output, found) = if let Some(found) = find(POOLED) {
        (Output::Pooled(POOLED.into()), found)
    } else if let Some(found) = HIDDEN.iter().find_map(|name| find(name)) {
        if !settings.further_steps.is_empty() {
            return Err(invalid(
                graph,
                format!(
                    "modules.json has the further steps {}",
                    settings.further_steps.join(", ")
                ),
            )
            .hint(format!(
                "Export the model with these steps in the graph, and {POOLED} as its output."
            )));
        }
        (Output::Hidden(found.name().into()), found)
    } else {
        let names: Vec<&str> = session
            .outputs()
            .iter()
            .map(|output| output.name())
            .collect();
        return Err(
            invalid(graph, format!("its outputs are {}", names.join(", "))).hint(format!(
                "One of them must be called {POOLED}, {} or {}.",
                HIDDEN[0], HIDDEN[1]
            )),
        );
    };
    let ValueType::Tensor {
        ty: TensorElementType::Float32,
        shape,
        ..
    } = found.dtype()
    else {
        return Err(invalid(
            graph,
            format!("its output \"{}\" is {}", found.name(), found.dtype()),
        )
        .hint("32-bit floats are supported."));
    };
    // -1 stands for a length that is known only after a run.
    let wrong = |n: &i64| *n >= 0 && usize::try_from(*n) != Ok(settings.hidden_size);
    if let Some(dimensions) = shape.last().filter(|n| wrong(n)) {
        return Err(invalid(
            graph,
            format!(
                "its output \"{}\" has {dimensions} dimensions; hidden_size in config.json is {}",
                found.name(),
                settings.hidden_size
            ),
        )
        .hint("The graph and config.json may be of two different models."));
    }
    Ok(output)
}

/// Returns the BLAKE3 hash, in hex, of everything that determines a text's vector: the graph (with
/// weights stored beside it), the tokenizer, the pooling and the token limit.
fn fingerprint(
    graph: &Path,
    tokenizer_json: &[u8],
    settings: &Settings,
) -> Result<String, EngineError> {
    let mut hasher = blake3::Hasher::new_derive_key("rag 2026 model fingerprint v1");
    for path in [
        graph.to_path_buf(),
        beside(graph, ".data"),
        beside(graph, "_data"),
    ] {
        let mut length = 0u64;
        match fs::File::open(&path) {
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
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the BLAKE3 hash, in hex, of a model's identity, whatever its precision and token limit:
/// the weights, the tokenizer and the pooling. If the weights cannot be separated from the graph,
/// the graph is hashed.
fn identity(
    graph: &Path,
    fingerprint: &str,
    tokenizer_json: &[u8],
    settings: &Settings,
) -> Result<String, EngineError> {
    let Some(weights) = rag_model::identity::weights(graph)? else {
        return Ok(fingerprint.to_string());
    };
    let mut hasher = blake3::Hasher::new_derive_key("rag 2026 model identity v1");
    hasher.update(weights.as_bytes());
    hasher.update(&(tokenizer_json.len() as u64).to_le_bytes());
    hasher.update(tokenizer_json);
    hasher.update(settings.pooling.name().as_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}

fn beside(graph: &Path, suffix: &str) -> PathBuf {
    let mut path = graph.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Identifies a state of a model's files without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamp {
    pub fn of(reference: &ModelRef) -> Self {
        let graph = reference.dir.join(reference.precision.file_name());
        let files = [
            "tokenizer.json",
            "config.json",
            "sentence_bert_config.json",
            "1_Pooling/config.json",
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
