//! One loaded model: a checked folder, a tokenizer and a graph.

use std::{
    fs, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ort::session::Session;
use rag_model::{graph_file, invalid, settings::Settings, steps::DenseLayer, unreadable};
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{ModelInfo, ModelRef},
};

use super::{
    baseline::baseline,
    comparison,
    computation::{Computation, Stop, UNTIL_DONE},
    fingerprint::{Stamp, fingerprint, identity},
    graph::{self, Graph, GraphInputs, GraphValues, Inputs, Output},
    openvino::OpenVino,
    options, pooling,
    runtime::Runtime,
    scheduler::SLICE,
    token_vectors::TokenVectors,
    tokens::{ModelTokenizer, Tokens},
};

/// Maximum number of tokens, with padding, of several texts in one run.
const RUN_TOKENS: usize = 4096;

/// Returns the number of texts of a length that are run together.
pub fn run_texts(tokens: usize) -> usize {
    (RUN_TOKENS / tokens.max(1)).clamp(1, SLICE)
}

/// A model that passed all checks, including a first run.
#[derive(Debug)]
pub struct Model {
    pub info: ModelInfo,
    /// The state of its files.
    pub stamp: Stamp,
    pub tokenizer: Arc<ModelTokenizer>,
    settings: Settings,
    /// False leaves vectors as long as the graph returns them.
    normalizes: bool,
    /// Layers after pooling that the graph does not include.
    layers: Vec<DenseLayer>,
    inputs: Inputs,
    output: Output,
    /// Number of copies that there is room for.
    copies: usize,
    /// True if they are open, or being opened.
    has_copies: AtomicBool,
    pub computation: Computation,
}

impl Model {
    /// Loads a model and runs it once. There is room for so many copies of it.
    ///
    /// # Errors
    /// `FileNotFound`, `InvalidModel` or `PermissionDenied`, with the file.
    pub fn load(
        reference: &ModelRef,
        runtime: &Runtime,
        copies: usize,
    ) -> Result<Self, EngineError> {
        let stamp = Stamp::of(reference);
        let dir = reference.dir.as_path();
        check_folder(dir)?;
        let graph = graph_file(dir, reference.precision);
        fs::metadata(&graph).map_err(|e| unreadable(&graph, &e).hint(graph_hint(reference)))?;
        let mut settings = Settings::read(dir)?;
        options::apply(&reference.options, dir, &mut settings)?;
        let tokenizer_path = dir.join("tokenizer.json");
        let tokenizer_json = ModelTokenizer::read_file(&tokenizer_path)?;
        let tokenizer = ModelTokenizer::parse(&tokenizer_path, &tokenizer_json, &settings)?;
        if let Some(words) = settings.words {
            tokenizer.check_words(&tokenizer_path, words)?;
        }
        let fingerprint = fingerprint(dir, &graph, &tokenizer_json, &settings, &reference.options)?;

        let compares_tokens = reference.options.compares_tokens;
        let session = graph::open(&graph, runtime, runtime.threads, &settings, compares_tokens)?;
        let inputs = graph::check_inputs(&graph, &session)?;
        let output = graph::find_output(&graph, &session, &settings, compares_tokens)?;
        let layers = match output {
            Output::Hidden(_) => settings.steps.iter().map(|step| step.load(dir)).collect(),
            _ => Ok(vec![]),
        }?;
        let name = dir.file_name().map_or_else(
            || dir.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        let info = ModelInfo {
            name,
            dimensions: options::dimensions(&reference.options, &settings),
            max_tokens: settings.max_tokens,
            precision: Some(reference.precision),
            identity: identity(
                dir,
                &graph,
                &fingerprint,
                &tokenizer_json,
                &settings,
                &reference.options,
            )?,
            fingerprint,
            baseline: 0.0,
            prompts: settings.prompts.clone(),
        };
        // A graph without a mask cannot read texts of several lengths. Comparisons of tokens use
        // each number of a run.
        let is_batched =
            runtime.takes_batches(reference.precision) && inputs.has_mask && !compares_tokens;
        let batch = if is_batched { SLICE } else { 1 };
        let normalizes = options::normalizes(&reference.options, &settings);
        let mut model = Self {
            info,
            stamp,
            tokenizer: Arc::new(tokenizer),
            settings,
            normalizes,
            layers,
            inputs,
            output,
            copies,
            has_copies: AtomicBool::new(false),
            computation: Computation::by_onnxruntime(session, batch),
        };
        model.try_out(&graph)?;
        if !model.is_scorer() {
            // a graph may work with the words of some texts only
            model.info.baseline = baseline(&model).unwrap_or_default();
            if let Some(openvino) = runtime.openvino(reference)
                && inputs.has_mask
            {
                model.use_openvino(&graph, openvino, runtime.requires_openvino())?;
            }
        }
        Ok(model)
    }

    /// Starts opening copies of the graph, so that several texts are computed side by side. Does
    /// nothing if this was done before.
    pub fn open_copies(self: &Arc<Self>, reference: &ModelRef, runtime: &Arc<Runtime>) {
        if self.copies == 0 || self.has_copies.swap(true, Ordering::Relaxed) {
            return;
        }
        let (model, reference) = (Arc::clone(self), reference.clone());
        let runtime = Arc::clone(runtime);
        let thread = thread::Builder::new().name("copies".into());
        let started = thread.spawn(move || match model.copies(&reference, &runtime) {
            // the files may have been exchanged; then the next request loads what is there now
            Ok(copies) if Stamp::of(&reference) == model.stamp => {
                let dir = reference.dir.display();
                tracing::info!(model = %dir, copies = copies.len(), "opened copies of a model");
                model.computation.use_copies(copies)
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(detail = error.detail.as_deref(), "{error}"),
        });
        if let Err(error) = started {
            tracing::warn!("could not start a thread: {error}");
        }
    }

    fn copies(&self, reference: &ModelRef, runtime: &Runtime) -> Result<Vec<Session>, EngineError> {
        let graph = graph_file(&reference.dir, reference.precision);
        let open = |_| graph::open(&graph, runtime, 1, &self.settings, self.compares_tokens());
        (0..self.copies).map(open).collect()
    }

    /// Returns true for a model that scores documents.
    pub fn is_scorer(&self) -> bool {
        matches!(self.output, Output::Scores(_) | Output::Tokens(_))
    }

    /// Returns true for a model whose vectors of tokens score documents.
    pub fn compares_tokens(&self) -> bool {
        matches!(self.output, Output::Tokens(_))
    }

    /// Number of values per text or pair.
    pub fn width(&self) -> usize {
        match self.output {
            Output::Scores(_) | Output::Tokens(_) => 1,
            _ => self.info.dimensions,
        }
    }

    /// Checks what the model is for.
    ///
    /// # Errors
    /// `InvalidModel` if it embeds and is to score pairs, or the other way round.
    pub fn require(&self, scores: bool) -> Result<(), EngineError> {
        let (does, is_asked, kind) = match (self.is_scorer(), scores) {
            (true, false) => ("scores pairs of texts", "to embed", "rerank"),
            (false, true) => ("embeds texts", "to score pairs", "embedding"),
            _ => return Ok(()),
        };
        Err(EngineError::new(
            ErrorKind::InvalidModel,
            format!("model \"{}\" cannot be used {is_asked}", self.info.name),
        )
        .detail(format!("The graph of the model {does}."))
        .hint(format!("Create the model with the kind \"{kind}\".")))
    }

    /// A graph can load and still belong to another model than the tokenizer. The first run shows
    /// that.
    fn try_out(&self, graph: &Path) -> Result<(), EngineError> {
        const TEXT: &str = "a text to try the model with";
        let tokens = if matches!(self.output, Output::Scores(_)) {
            let pair = self
                .tokenizer
                .tokenize_pairs(TEXT, &[TEXT.into()], &|| false)?;
            pair.and_then(|mut pairs| pairs.pop())
        } else {
            self.tokenizer.tokenize(TEXT, &|| false)?
        };
        let texts: Vec<&Tokens> = tokens.iter().collect();
        let result = if self.compares_tokens() {
            texts
                .iter()
                .try_for_each(|text| self.token_vectors(text).map(drop))
        } else {
            self.run(&texts).map(drop)
        };
        result.map_err(|e| {
            invalid(graph, e.detail.unwrap_or(e.message))
                .hint("The graph, tokenizer.json and config.json may be of different models.")
        })
    }

    /// Lets OpenVINO compute the graph, if it gives the same embeddings as ONNX Runtime. For some
    /// families it does not.
    ///
    /// # Errors
    /// OpenVINO cannot be used, and the settings require it. Otherwise ONNX Runtime stays.
    fn use_openvino(
        &mut self,
        graph: &Path,
        openvino: &OpenVino,
        is_required: bool,
    ) -> Result<(), EngineError> {
        match self.try_openvino(graph, openvino) {
            Err(error) if is_required => Err(error),
            Err(error) => {
                tracing::warn!(detail = error.detail.as_deref(), graph = %graph.display(),
                    "ONNX Runtime computes the model: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn try_openvino(&mut self, graph: &Path, openvino: &OpenVino) -> Result<(), EngineError> {
        let texts = comparison::samples(&self.tokenizer)?;
        let expected = self.run_each(&texts)?;
        let computation = Computation::by_openvino(openvino.open(graph)?);
        let before = mem::replace(&mut self.computation, computation);
        let same = self
            .run_each(&texts)
            .and_then(|found| comparison::check_same(&self.info, &expected, &found));
        if same.is_err() {
            self.computation = before;
        }
        same
    }

    fn run_each(&self, texts: &[Tokens]) -> Result<Vec<f32>, EngineError> {
        let mut vectors = vec![];
        for text in texts {
            vectors.extend(self.run(&[text])?);
        }
        Ok(vectors)
    }

    /// Embeds texts, or scores pairs. Returns one vector of length 1 for each text, or one number
    /// for each pair, one after another.
    ///
    /// # Errors
    /// `Internal` if the runtime fails, a vector has no direction, or a score is not finite.
    pub fn run(&self, texts: &[&Tokens]) -> Result<Vec<f32>, EngineError> {
        self.run_until(texts, UNTIL_DONE)
    }

    /// Runs the model until all texts are done, or `stop` returns true for the number of those
    /// done.
    ///
    /// # Errors
    /// See [`Model::run`].
    pub fn run_until(&self, texts: &[&Tokens], stop: Stop<'_>) -> Result<Vec<f32>, EngineError> {
        let longest = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0);
        let batch = self.computation.batch.min(run_texts(longest));
        let batches: Vec<&[&Tokens]> = texts.chunks(batch).collect();
        let run = |graph: &mut dyn Graph, texts: &&[&Tokens]| self.run_batch(graph, texts);
        let stop = |batches| stop(batches * batch);
        let values = self.computation.each(&batches, &stop, run).into_iter();
        Ok(values.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns the vectors of the tokens of a text, each of length 1.
    ///
    /// # Errors
    /// See [`Model::run`].
    pub fn token_vectors(&self, text: &Tokens) -> Result<TokenVectors, EngineError> {
        self.computation
            .alone(|graph| self.vectors_of_tokens(graph, text))
    }

    /// Returns the vectors of the tokens of each text, as [`Model::token_vectors`], until all texts
    /// are done, or `stop` returns true for the number of those done.
    ///
    /// # Errors
    /// See [`Model::run`].
    pub fn token_vectors_until(
        &self,
        texts: &[&Tokens],
        stop: Stop<'_>,
    ) -> Result<Vec<TokenVectors>, EngineError> {
        let run = |graph: &mut dyn Graph, text: &&Tokens| self.vectors_of_tokens(graph, text);
        let vectors = self.computation.each(texts, stop, run);
        vectors.into_iter().collect()
    }

    fn vectors_of_tokens(
        &self,
        graph: &mut dyn Graph,
        text: &Tokens,
    ) -> Result<TokenVectors, EngineError> {
        TokenVectors::of(self.run_batch(graph, &[text])?, self.settings.hidden_size)
    }

    fn run_batch(&self, graph: &mut dyn Graph, texts: &[&Tokens]) -> Result<Vec<f32>, EngineError> {
        let rows = texts.len();
        let longest = texts.iter().map(|t| t.ids.len()).max().unwrap_or(0);
        let width = self.computation.width(longest, self.settings.max_tokens);
        let inputs = self.inputs(texts, width);
        let dimensions = self.settings.hidden_size;
        let (name, expected) = match &self.output {
            Output::Pooled(name) => (name, vec![rows, self.settings.dimensions]),
            Output::Hidden(name) | Output::Tokens(name) => (name, vec![rows, width, dimensions]),
            Output::Scores(name) => (name, vec![rows, 1]),
        };
        let GraphValues { shape, values } =
            graph.run(inputs, [rows, width], name).map_err(failed)?;
        if !shape
            .iter()
            .map(|n| usize::try_from(*n).ok())
            .eq(expected.iter().map(|n| Some(*n)))
        {
            return Err(failed(format!(
                "output \"{name}\" has shape {shape:?}, not {expected:?}"
            )));
        }
        let mut vectors = match &self.output {
            Output::Scores(_) if values.iter().all(|score| score.is_finite()) => return Ok(values),
            Output::Scores(_) => return Err(failed("a score is not finite".into())),
            Output::Tokens(_) => return Ok(values),
            Output::Pooled(_) => values,
            Output::Hidden(_) => values
                .chunks_exact(width * dimensions)
                .zip(texts)
                .flat_map(|(hidden, text)| self.finish(hidden, text.ids.len()))
                .collect(),
        };
        if self.info.dimensions < self.settings.dimensions {
            let whole = vectors.chunks_exact(self.settings.dimensions);
            let kept = whole.flat_map(|vector| &vector[..self.info.dimensions]);
            vectors = kept.copied().collect();
        }
        for vector in vectors.chunks_exact_mut(self.info.dimensions) {
            if self.normalizes {
                pooling::normalise(vector)?
            } else {
                pooling::check_direction(vector).map(drop)?
            }
        }
        Ok(vectors)
    }

    /// Returns the inputs of the graph, padded to `width` tokens.
    fn inputs(&self, texts: &[&Tokens], width: usize) -> GraphInputs {
        let size = texts.len() * width;
        let mut ids = vec![0i64; size];
        let (mut mask, mut segments, mut positions) =
            (vec![0i64; size], vec![0i64; size], vec![0i64; size]);
        for (row, text) in texts.iter().enumerate() {
            for (column, id) in text.ids.iter().enumerate() {
                let at = row * width + column;
                ids[at] = i64::from(*id);
                mask[at] = 1;
                segments[at] = text.segments.get(column).copied().map_or(0, i64::from);
            }
            for column in 0..width {
                positions[row * width + column] = (self.settings.first_position + column) as i64;
            }
        }
        let mut named = vec![("input_ids", ids)];
        let others = [
            (self.inputs.has_mask, "attention_mask", mask),
            (self.inputs.has_segments, "token_type_ids", segments),
            (self.inputs.has_positions, "position_ids", positions),
        ];
        named.extend(
            others
                .into_iter()
                .filter(|(is_used, ..)| *is_used)
                .map(|(_, name, values)| (name, values)),
        );
        named
    }

    /// Does what follows the graph: pooling, and layers.
    fn finish(&self, hidden: &[f32], tokens: usize) -> Vec<f32> {
        let Settings {
            pooling,
            hidden_size,
            ..
        } = self.settings;
        let mut vector = pooling::pool(pooling, hidden, tokens, hidden_size);
        for layer in &self.layers {
            vector = layer.apply(&vector);
        }
        vector
    }
}

fn failed(detail: String) -> EngineError {
    EngineError::new(ErrorKind::Internal, "the embedding model failed").detail(detail)
}

/// Returns the HINT for a folder without the graph that is asked for.
fn graph_hint(reference: &ModelRef) -> String {
    let (dir, precision) = (reference.dir.display(), reference.precision.name());
    format!(
        "The setting rag.model_dir names the folder, and rag.model_precision selects the graph {}. \
         Create it with \"rag-model convert --precision {precision} {dir} {dir}\", or select the \
         other precision.",
        reference.precision.file_name()
    )
}

fn check_folder(dir: &Path) -> Result<(), EngineError> {
    let metadata = fs::metadata(dir).map_err(|e| {
        unreadable(dir, &e).hint(
            "A model is a folder with model.onnx, tokenizer.json and config.json. The package \
                 rag-model-minilm, or `make install`, installs all-MiniLM-L6-v2.",
        )
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
