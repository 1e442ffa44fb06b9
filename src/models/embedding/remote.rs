//! Embedding models on other servers: what is known of them, and calls of them.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use rag_definition::model::{ModelSpec, Precision};
use rag_protocol::{
    baseline::{TEXTS, mean_similarity},
    call::{CallRequest, Purpose},
    embed::{ModelInfo, ModelRef, TokenRule},
    identity::remote_fingerprint,
};

use crate::{
    catalog::models::Model,
    engine::{
        client::{Embeddings, TokenSource},
        unexpected,
    },
    error::Error,
    models::call::{MAX_REQUEST, ModelCall, ModelEvent},
    pg::wait::sleep,
};

/// Keeps vectors that have arrived, given the place of the first one.
pub type KeepArrived<'a> = dyn FnMut(usize, &[Vec<f32>]) -> Result<(), Error> + 'a;

/// The number of tokens that a model reads whose settings do not tell.
const DEFAULT_MAX_TOKENS: usize = 512;
/// The number of rounds of requests of a call.
const ROUNDS: usize = 4;
/// The longest wait for a limit of requests or tokens a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

pub struct RemoteModel {
    model: Model,
    spec: ModelSpec,
    pub fingerprint: String,
    /// The dimensions of the collection's embeddings, which are of this model.
    pub stored_dimensions: Option<usize>,
    /// Those that the server has told.
    described_dimensions: Cell<Option<usize>>,
    /// Waits for limits of requests and tokens a minute.
    pub waits: bool,
}

/// Texts whose calls have begun, or wait for the one before.
pub struct RemoteCall {
    purpose: Purpose,
    call: Option<ModelCall>,
    /// The number of texts that were handed to calls.
    begun: usize,
    texts: Vec<String>,
}

impl RemoteModel {
    pub fn new(model: Model, spec: ModelSpec) -> Self {
        let number = |n: Option<usize>| n.map(|n| n.to_string()).unwrap_or_default();
        let embedding = &spec.embedding;
        let fingerprint = remote_fingerprint(&[
            model.provider.name(),
            spec.base_url.trim_end_matches('/'),
            spec.model.as_deref().unwrap_or_default(),
            &serde_json::Value::Object(spec.parameters.clone()).to_string(),
            &number(embedding.dimensions),
            embedding.passage_prefix.as_deref().unwrap_or_default(),
            &embedding.normalize.unwrap_or(true).to_string(),
            &number(embedding.max_tokens),
        ]);
        Self {
            stored_dimensions: None,
            described_dimensions: Cell::default(),
            model,
            spec,
            fingerprint,
            waits: false,
        }
    }

    fn max_tokens(&self) -> usize {
        self.spec.embedding.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS)
    }

    /// Returns what counts the tokens of chunks: the named tokenizer, or an estimate.
    pub fn token_source(&self, prefix: String) -> TokenSource {
        let tokenizer = self.spec.embedding.tokenizer.clone();
        TokenSource {
            // no request with a rule needs a model
            model: ModelRef {
                dir: tokenizer.clone().unwrap_or_default(),
                precision: Precision::Fp32,
                options: Default::default(),
            },
            rule: Some(TokenRule {
                tokenizer,
                max_tokens: Some(self.max_tokens()),
                prefix: Some(prefix),
            }),
        }
    }

    /// Returns the properties of the model. A collection that has embeddings knows the dimensions.
    /// For others the model embeds a few texts, which also shows how similar it finds unrelated
    /// ones.
    pub fn describe(&self, query_prefix: &str, passage_prefix: &str) -> Result<ModelInfo, Error> {
        if let Some(dimensions) = self.stored_dimensions {
            return Ok(self.info(dimensions, 0.0));
        }
        let questions = TEXTS.map(|(question, _)| format!("{query_prefix}{question}"));
        let texts = TEXTS.map(|(_, text)| format!("{passage_prefix}{text}"));
        let questions = self.embed(Purpose::Query, questions.to_vec())?.vectors;
        // the passages, and all that follow, have as many dimensions
        let dimensions = questions.first().map_or(0, Vec::len);
        self.described_dimensions.set(Some(dimensions));
        let texts = self.embed(Purpose::Passage, texts.to_vec())?.vectors;
        Ok(self.info(dimensions, mean_similarity(&questions, &texts)))
    }

    pub fn info(&self, dimensions: usize, baseline: f32) -> ModelInfo {
        ModelInfo {
            name: self.model.name.clone(),
            dimensions,
            max_tokens: self.max_tokens(),
            precision: None,
            fingerprint: self.fingerprint.clone(),
            identity: self.fingerprint.clone(),
            baseline,
            prompts: Default::default(),
        }
    }

    /// Begins to embed texts, which have their prefixes.
    pub fn start(&self, purpose: Purpose, texts: Vec<String>) -> Result<RemoteCall, Error> {
        let mut call = RemoteCall {
            purpose,
            call: None,
            begun: 0,
            texts,
        };
        call.call = self.begin(&mut call)?;
        Ok(call)
    }

    /// Begins the next call, with as many texts as it may have. None if there is no text left.
    fn begin(&self, call: &mut RemoteCall) -> Result<Option<ModelCall>, Error> {
        let embedding = &self.spec.embedding;
        let most = embedding.batch * embedding.concurrency * ROUNDS;
        let (mut bytes, mut count) = (0, 0);
        for text in &call.texts {
            bytes += text.len();
            if count == most || (count > 0 && bytes > MAX_REQUEST) {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let rest = call.texts.split_off(count);
        let texts = std::mem::replace(&mut call.texts, rest);
        call.begun += count;
        let rounds = count
            .div_ceil(embedding.batch)
            .div_ceil(embedding.concurrency);
        let request = CallRequest::Embed {
            purpose: call.purpose,
            dimensions: embedding.dimensions,
            normalize: embedding.normalize.unwrap_or(true),
            batch: embedding.batch,
            concurrency: embedding.concurrency,
            request_timeout_ms: u64::try_from(self.spec.timeout.as_millis()).unwrap_or(u64::MAX),
            texts,
        };
        let timeout = self.spec.timeout * u32::try_from(rounds).unwrap_or(1);
        let since = Instant::now();
        loop {
            match ModelCall::begin(&self.model, &self.spec, request.clone(), timeout) {
                Err(error) if self.waits && since.elapsed() < LONGEST_WAIT => {
                    match error.retry_after().filter(|wait| *wait <= LONGEST_WAIT) {
                        Some(wait) => sleep(wait),
                        None => return Err(error),
                    }
                }
                begun => {
                    let mut begun = begun?;
                    begun.send_all();
                    return Ok(Some(begun));
                }
            }
        }
    }

    /// Embeds texts, which have their prefixes.
    pub fn embed(&self, purpose: Purpose, texts: Vec<String>) -> Result<Embeddings, Error> {
        let vectors = self.finish(self.start(purpose, texts)?, &mut |_, _| Ok(()))?;
        let vectors: Vec<Vec<f32>> = vectors.into_iter().collect::<Result<_, Error>>()?;
        Ok(Embeddings {
            model: self.info(vectors.first().map_or(0, Vec::len), 0.0),
            // the server reads as much as it can
            tokens: vec![0; vectors.len()],
            vectors,
        })
    }

    /// Waits for the vectors, or for the reasons why the server refuses texts. Hands vectors that
    /// arrive to `keep`, with the place of the first one: also if the call fails later.
    pub fn finish(
        &self,
        mut call: RemoteCall,
        keep: &mut KeepArrived<'_>,
    ) -> Result<Vec<Result<Vec<f32>, Error>>, Error> {
        let mut answers: Vec<Option<Result<Vec<f32>, Error>>> = vec![];
        let mut dimensions = self.known_dimensions();
        while let Some(current) = call.call.take() {
            let offset = answers.len();
            answers.resize_with(call.begun, || None);
            let mut take = |place: usize, answer| {
                let place = answers.get_mut(offset + place).ok_or_else(unexpected)?;
                *place = Some(answer);
                Ok(())
            };
            self.receive(current, &mut dimensions, &mut |event| match event {
                ModelEvent::Embedded { first, arrived } => {
                    keep(offset + first, &arrived)?;
                    let mut places = (first..).zip(arrived);
                    places.try_for_each(|(place, vector)| take(place, Ok(vector)))
                }
                ModelEvent::Refused { place, error } => take(place, Err(error)),
                _ => Err(unexpected()),
            })?;
            call.call = self.begin(&mut call)?;
        }
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        answers.ok_or_else(unexpected)
    }

    fn known_dimensions(&self) -> Option<usize> {
        let known = self.stored_dimensions.or(self.described_dimensions.get());
        known.or(self.spec.embedding.dimensions)
    }

    /// Waits for the events of a call before the last one, and hands them to `take`.
    fn receive(
        &self,
        mut call: ModelCall,
        dimensions: &mut Option<usize>,
        take: &mut dyn FnMut(ModelEvent) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let event = call.next()?;
            match &event {
                ModelEvent::Embedded { arrived, .. } => {
                    for vector in arrived {
                        let expected = *dimensions.get_or_insert(vector.len());
                        if vector.len() != expected {
                            return Err(self.wrong_dimensions(vector.len(), expected));
                        }
                    }
                }
                ModelEvent::Answered { .. } => return Ok(()),
                _ => {}
            }
            take(event)?;
        }
    }

    /// Waits for the vectors of the texts whose calls have begun. A failure does not matter: what
    /// they are for has failed already.
    pub fn collect(&self, mut call: RemoteCall, keep: &mut dyn FnMut(usize, &[Vec<f32>])) {
        let Some(current) = call.call.take() else {
            return;
        };
        let mut take = |event| {
            if let ModelEvent::Embedded { first, arrived } = event {
                keep(first, &arrived);
            }
            Ok(())
        };
        let mut dimensions = self.known_dimensions();
        if let Err(error) = self.receive(current, &mut dimensions, &mut take) {
            pgrx::debug1!("{}", error.message);
        }
    }

    fn wrong_dimensions(&self, found: usize, expected: usize) -> Error {
        let name = &self.model.name;
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_PROTOCOL_VIOLATION,
            format!("model \"{name}\" has changed its number of dimensions"),
        )
        .detail(format!(
            "The server sent a vector of {found} dimensions, not {expected}."
        ))
        .hint(
            "The server may have another model than before. Create another model, and rebuild the \
             collection with it.",
        )
    }
}
