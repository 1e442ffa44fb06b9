//! A graph: its session in ONNX Runtime, which of its inputs and outputs are used, and its runs.

use std::{fmt, path::Path};

use ort::{
    session::{Session, SessionInputValue, builder::GraphOptimizationLevel},
    value::{Tensor, TensorElementType, ValueType},
};
use rag_model::{
    invalid,
    settings::Settings,
    token_vectors::{TOKEN_VECTORS, with_token_vectors},
};
use rag_protocol::EngineError;

use super::runtime::Runtime;

/// The inputs of a graph besides `input_ids`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    pub has_mask: bool,
    pub has_segments: bool,
    pub has_positions: bool,
}

/// The output of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// One vector per text.
    Pooled(String),
    /// One vector per token.
    Hidden(String),
    /// One number per pair.
    Scores(String),
    /// One vector per token, to be compared with those of another text.
    Tokens(String),
}

/// Names and elements of inputs.
pub type GraphInputs = Vec<(&'static str, Vec<i64>)>;

/// An output of a run.
#[derive(Debug)]
pub struct GraphValues {
    pub shape: Vec<i64>,
    pub values: Vec<f32>,
}

/// A graph that a runtime has loaded.
pub trait Graph: fmt::Debug + Send {
    /// Returns the output of that name. `shape` is that of all inputs.
    ///
    /// # Errors
    /// What the runtime says.
    fn run(
        &mut self,
        inputs: GraphInputs,
        shape: [usize; 2],
        output: &str,
    ) -> Result<GraphValues, String>;
}

impl Graph for Session {
    fn run(
        &mut self,
        inputs: GraphInputs,
        shape: [usize; 2],
        output: &str,
    ) -> Result<GraphValues, String> {
        let tensors = inputs.into_iter().map(|(name, values)| {
            let tensor = Tensor::from_array((shape, values)).map_err(|e| e.to_string())?;
            Ok((name, tensor.into()))
        });
        let tensors: Vec<(&str, SessionInputValue<'_>)> = tensors.collect::<Result<_, String>>()?;
        let outputs = Session::run(self, tensors).map_err(|e| e.to_string())?;
        let (shape, values) = outputs[output]
            .try_extract_tensor::<f32>()
            .map_err(|e| e.to_string())?;
        Ok(GraphValues {
            shape: shape.to_vec(),
            values: values.to_vec(),
        })
    }
}

/// Names of outputs, in order of preference.
const POOLED: &str = "sentence_embedding";
const SCORES: &str = "logits";

/// Loads a graph that is computed by so many threads. One that compares tokens gets an output with
/// their vectors if it has none.
///
/// # Errors
/// `InvalidModel` if it cannot be loaded, or has no vectors of tokens; the errors of [`Runtime`].
pub fn open(
    graph: &Path,
    runtime: &Runtime,
    threads: usize,
    settings: &Settings,
    compares_tokens: bool,
) -> Result<Session, EngineError> {
    let extended = if compares_tokens {
        with_token_vectors(graph, settings.hidden_size)?
    } else {
        None
    };
    let environment = runtime.environment()?;
    let build = || -> Result<Session, String> {
        let text = |e: ort::Error<_>| e.to_string();
        let mut builder = Session::builder(environment)
            .map_err(|e| e.to_string())?
            .with_intra_threads(threads)
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
            .with_execution_providers(runtime.provider.dispatch(runtime.device_memory))
            .map_err(text)?;
        let session = match &extended {
            Some(bytes) => builder.commit_from_memory(bytes),
            None => builder.commit_from_file(graph),
        };
        session.map_err(|e| e.to_string())
    };
    build().map_err(|detail| {
        if let Some(error) = runtime.provider.refusal(&detail) {
            return error;
        }
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

/// Checks that the graph's inputs are available.
///
/// # Errors
/// `InvalidModel` for an input that is unknown or of another type.
pub fn check_inputs(graph: &Path, session: &Session) -> Result<Inputs, EngineError> {
    const KNOWN: [&str; 4] = [
        "input_ids",
        "attention_mask",
        "token_type_ids",
        "position_ids",
    ];
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
                format!("its input \"{}\" is {}", input.name(), input.dtype()),
            )
            .hint(format!(
                "Supported are the 64-bit integer inputs {}.",
                KNOWN.join(", ")
            )));
        }
    }
    if !names.contains(&KNOWN[0]) {
        return Err(invalid(
            graph,
            format!(
                "it has no input \"{}\", only {}",
                KNOWN[0],
                names.join(", ")
            ),
        ));
    }
    Ok(Inputs {
        has_mask: names.contains(&KNOWN[1]),
        has_segments: names.contains(&KNOWN[2]),
        has_positions: names.contains(&KNOWN[3]),
    })
}

/// Finds the output that is used.
///
/// # Errors
/// `InvalidModel` if there is none, or if it does not fit the settings.
pub fn find_output(
    graph: &Path,
    session: &Session,
    settings: &Settings,
    compares_tokens: bool,
) -> Result<Output, EngineError> {
    let find = |name: &str| {
        session
            .outputs()
            .iter()
            .find(|output| output.name() == name)
    };
    let hidden = TOKEN_VECTORS.iter().find_map(|name| find(name));
    let (output, found) = if let (true, Some(found)) = (compares_tokens, hidden) {
        (Output::Tokens(found.name().into()), found)
    } else if let Some(found) = find(POOLED) {
        (Output::Pooled(POOLED.into()), found)
    } else if let Some(found) = hidden {
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
    } else if let Some(found) = find(SCORES) {
        (Output::Scores(SCORES.into()), found)
    } else {
        let names: Vec<&str> = session
            .outputs()
            .iter()
            .map(|output| output.name())
            .collect();
        return Err(
            invalid(graph, format!("its outputs are {}", names.join(", "))).hint(format!(
                "One of them must be called {POOLED}, {}, {} or {SCORES}.",
                TOKEN_VECTORS[0], TOKEN_VECTORS[1]
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
    let (expected, what) = match &output {
        Output::Pooled(_) => (settings.dimensions, "the configuration says"),
        Output::Hidden(_) | Output::Tokens(_) => {
            (settings.hidden_size, "hidden_size in config.json is")
        }
        Output::Scores(_) => (1, "a model that scores pairs has"),
    };
    // -1 stands for a length that is known only after a run.
    let wrong = |n: &i64| *n >= 0 && usize::try_from(*n) != Ok(expected);
    if let Some(dimensions) = shape.last().filter(|n| wrong(n)) {
        return Err(invalid(
            graph,
            format!(
                "its output \"{}\" has {dimensions} dimensions; {what} {expected}",
                found.name()
            ),
        )
        .hint("The graph and config.json may be of two different models."));
    }
    Ok(output)
}
