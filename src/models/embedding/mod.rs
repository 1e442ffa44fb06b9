//! Embedding models: which one a collection or a caller names, and how texts become vectors.
//!
//! ```text
//! collection, or name ──▶ EmbeddingModel ─┬─ local ───▶ rag-engine embed ─┐
//!                                         └─ remote ──▶ rag-engine call ──┴▶ vectors
//! ```
//!
//! A name is that of a model in `rag_internal.model`, or else of an installed folder. A role that
//! may read or write a collection needs no right to use its model. Roles that name a model
//! themselves do.

pub mod cache;
mod folders;
pub mod nodes;
mod pending;
mod remote;

use rag_definition::model::{ModelKind, Precision, Provider};
use rag_protocol::{
    call::Purpose,
    embed::{ModelInfo, ModelRef, Priority, TokenRule},
    identity::{prefixed_fingerprint, remote_fingerprint},
};

pub use self::folders::check_folders;
pub use self::pending::{FinishedEmbeddings, PendingEmbeddings};
use self::{cache::CachePlaces, folders::local_ref, nodes::EmbeddingNodes, remote::RemoteModel};
use crate::{
    catalog::{
        collections::{Collection, given_dimensions, given_vectors},
        models::{self, Model},
    },
    engine::{
        client::{Client, Embeddings, TokenSource, with_client},
        unexpected,
    },
    error::Error,
    models::rights,
    settings,
    types::vector::OwnedVector,
};

/// A model that embeds texts.
pub struct EmbeddingModel {
    /// The name in `rag_internal.model`. None: a folder that is installed or set.
    name: Option<String>,
    /// Marks what is cached of it.
    tag: u64,
    place: Place,
    /// What is read before texts. None: as the folder says.
    query_prefix: Option<String>,
    passage_prefix: Option<String>,
}

enum Place {
    Local(ModelRef),
    Remote(Box<RemoteModel>),
    /// None: chunks and queries bring their vectors, with so many dimensions.
    Given(usize),
}

impl EmbeddingModel {
    /// Returns the model of collections that name none.
    ///
    /// # Errors
    /// `rag.model_dir` names no folder.
    pub fn default_model() -> Result<Self, Error> {
        Ok(Self::of_folder(settings::model(None)?))
    }

    /// Returns the model that a collection names, or the default one.
    ///
    /// # Errors
    /// It does not exist.
    pub fn of_collection(collection: &Collection) -> Result<Self, Error> {
        let Some(name) = collection.wanted_model() else {
            return Self::default_model();
        };
        let mut model = Self::named(name)?;
        if let (Place::Remote(remote), Some(stored)) = (&mut model.place, &collection.model)
            && stored.fingerprint == remote.fingerprint
        {
            remote.stored_dimensions = Some(stored.dimensions);
        }
        Ok(model)
    }

    /// Returns a model that the current role may use, or the default one.
    ///
    /// # Errors
    /// It does not exist, or the role may not use it.
    pub fn usable(name: Option<&str>) -> Result<Self, Error> {
        let Some(name) = name else {
            return Self::default_model();
        };
        if let Some(dimensions) = given_dimensions(name) {
            return Ok(Self::of_given(dimensions));
        }
        match models::find(name)? {
            None => Ok(Self::of_folder(settings::model(Some(name))?)),
            Some(model) => {
                rights::require_use(&model)?;
                Self::of_model(model)
            }
        }
    }

    /// Returns a model, and does not check who may use it.
    ///
    /// # Errors
    /// It does not exist, or is of another kind.
    pub fn named(name: &str) -> Result<Self, Error> {
        if let Some(dimensions) = given_dimensions(name) {
            return Ok(Self::of_given(dimensions));
        }
        match models::find(name)? {
            None => Ok(Self::of_folder(settings::model(Some(name))?)),
            Some(model) => Self::of_model(model),
        }
    }

    /// Returns a model of the registry.
    ///
    /// # Errors
    /// It is of another kind, its settings are invalid, or its owner may no longer read its folder.
    pub fn of_model(model: Model) -> Result<Self, Error> {
        rights::require_kind(&model, ModelKind::Embedding)?;
        let spec = model.settings()?;
        check_folders(&spec, model.owner.id)?;
        let embedding = &spec.embedding;
        let (query_prefix, passage_prefix) = (
            embedding.query_prefix.clone(),
            embedding.passage_prefix.clone(),
        );
        let name = Some(model.name.clone());
        let tag = cache::tag(Some(model.uid));
        let place = match model.provider {
            Provider::Local => Place::Local(local_ref(&spec)),
            _ => Place::Remote(Box::new(RemoteModel::new(model, spec))),
        };
        Ok(Self {
            name,
            tag,
            place,
            query_prefix,
            passage_prefix,
        })
    }

    fn of_folder(folder: ModelRef) -> Self {
        Self::of_place(Place::Local(folder))
    }

    fn of_given(dimensions: usize) -> Self {
        Self::of_place(Place::Given(dimensions))
    }

    fn of_place(place: Place) -> Self {
        Self {
            name: None,
            tag: cache::tag(None),
            place,
            query_prefix: None,
            passage_prefix: None,
        }
    }

    /// Makes a model on another server wait for limits of requests and tokens a minute.
    pub fn waiting(mut self) -> Self {
        if let Place::Remote(remote) = &mut self.place {
            remote.waits = true;
        }
        self
    }

    /// Returns what counts the tokens of chunks.
    pub fn token_source(&self) -> TokenSource {
        let prefix = self.passage_prefix.clone();
        match &self.place {
            Place::Local(model) => TokenSource {
                rule: prefix.is_some().then(|| TokenRule {
                    tokenizer: Some(model.dir.clone()),
                    max_tokens: model.options.max_tokens,
                    prefix,
                }),
                model: model.clone(),
            },
            Place::Remote(remote) => remote.token_source(prefix.unwrap_or_default()),
            Place::Given(_) => TokenSource {
                // no request with a rule needs a model
                model: ModelRef {
                    dir: Default::default(),
                    precision: Precision::Fp32,
                    options: Default::default(),
                },
                rule: Some(TokenRule {
                    tokenizer: None,
                    max_tokens: Some(GIVEN_MAX_TOKENS),
                    prefix,
                }),
            },
        }
    }

    /// Returns the rule by which `rag-engine ingest` counts the tokens of chunks.
    pub fn token_rule(&self) -> TokenRule {
        let TokenSource { model, rule } = self.token_source();
        rule.unwrap_or(TokenRule {
            tokenizer: Some(model.dir),
            max_tokens: model.options.max_tokens,
            prefix: None,
        })
    }

    /// Returns the properties of the model. One on another server is asked for vectors, unless the
    /// collection has told their number of dimensions.
    ///
    /// # Errors
    /// The model is unavailable.
    pub fn describe(&self, client: &mut Client) -> Result<ModelInfo, Error> {
        match &self.place {
            Place::Local(model) => Ok(self.info(client.describe(model)?)),
            Place::Remote(remote) => self.describe_remote(remote),
            Place::Given(dimensions) => Ok(given_info(*dimensions)),
        }
    }

    /// Returns the properties of the model, without a client of the engine.
    ///
    /// # Errors
    /// See [`Self::describe`].
    pub fn info_now(&self) -> Result<ModelInfo, Error> {
        match &self.place {
            Place::Local(_) => with_client(|client| self.describe(client)),
            Place::Remote(remote) => self.describe_remote(remote),
            Place::Given(dimensions) => Ok(given_info(*dimensions)),
        }
    }

    /// Returns true for the folder of `rag.model_dir`, with what it says of itself.
    fn is_default_folder(&self) -> bool {
        let has_settings = self.name.is_some() || self.passage_prefix.is_some();
        matches!(self.place, Place::Local(_)) && !has_settings
    }

    /// Returns the fingerprint, if it is known without the model.
    pub fn known_fingerprint(&self) -> Option<&str> {
        match &self.place {
            Place::Local(_) | Place::Given(_) => None,
            Place::Remote(remote) => Some(&remote.fingerprint),
        }
    }

    /// Replaces what the folder says by what the settings say.
    fn info(&self, info: ModelInfo) -> ModelInfo {
        let prefix = self.passage_prefix.as_ref();
        let prefix = prefix.unwrap_or(&info.prompts.passage);
        ModelInfo {
            name: self.name.clone().unwrap_or(info.name),
            fingerprint: prefixed_fingerprint(&info.fingerprint, prefix),
            identity: prefixed_fingerprint(&info.identity, prefix),
            ..info
        }
    }

    fn describe_remote(&self, remote: &RemoteModel) -> Result<ModelInfo, Error> {
        let prefix = |purpose| self.prefix(purpose).unwrap_or_default();
        remote.describe(prefix(Purpose::Query), prefix(Purpose::Passage))
    }

    /// Returns the prefix that the settings name, or `None` for the one of the folder.
    fn prefix(&self, purpose: Purpose) -> Option<&str> {
        match purpose {
            Purpose::Query => self.query_prefix.as_deref(),
            Purpose::Passage => self.passage_prefix.as_deref(),
        }
    }

    /// Returns texts as they are sent, and the purpose whose prompt the engine adds.
    fn with_prefix(&self, purpose: Purpose, texts: Vec<String>) -> (Vec<String>, Option<Purpose>) {
        let Some(prefix) = self.prefix(purpose) else {
            return (texts, Some(purpose));
        };
        let texts = texts.into_iter().map(|text| format!("{prefix}{text}"));
        (texts.collect(), None)
    }

    /// Begins to embed passages. Other requests to `client` may follow before [`Self::finish`].
    /// Parts of them are for `nodes`.
    ///
    /// # Errors
    /// The model is unavailable.
    pub fn start(
        &self,
        client: &mut Client,
        mut texts: Vec<String>,
        places: CachePlaces,
        nodes: &EmbeddingNodes,
    ) -> Result<PendingEmbeddings, Error> {
        let (priority, purpose) = (Priority::Bulk, Purpose::Passage);
        let mut pending = PendingEmbeddings {
            texts: texts.len(),
            places,
            request: None,
            shares: nodes.split(&mut texts),
        };
        let (texts, prompt) = self.with_prefix(purpose, texts);
        if !texts.is_empty() {
            pending.request = Some(match &self.place {
                Place::Local(model) => {
                    let ticket = client.start_embedding(model, priority, prompt, texts)?;
                    pending::Request::Local(Box::new(ticket))
                }
                Place::Remote(remote) => {
                    pending::Request::Remote(Box::new(remote.start(purpose, texts)?))
                }
                Place::Given(_) => return Err(no_model()),
            });
        }
        Ok(pending)
    }

    /// Waits for the embeddings of [`Self::start`]. They are cached as they arrive. Calls `tick`
    /// each time when some have come.
    ///
    /// # Errors
    /// The model is unavailable, or answers with something else, or `tick` fails. A server that
    /// refuses some texts is no error.
    pub fn finish(
        &self,
        client: &mut Client,
        mut pending: PendingEmbeddings,
        nodes: &mut EmbeddingNodes,
        tick: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<FinishedEmbeddings, Error> {
        let places = &pending.places;
        // the engine of this server embeds its part meanwhile
        let elsewhere = match pending.shares.is_empty() {
            true => vec![],
            false => nodes.embed(&pending.shares),
        };
        let mut finished = match (pending.request.take(), &self.place) {
            (None, _) => FinishedEmbeddings::default(),
            (Some(pending::Request::Local(ticket)), _) => {
                let answer = client.finish_embedding(*ticket, tick)?;
                let fingerprint = self.info(answer.model).fingerprint;
                places.keep(self.tag, &fingerprint, 0, &answer.vectors);
                FinishedEmbeddings {
                    fingerprint: Some(fingerprint),
                    vectors: answer.vectors.into_iter().map(Ok).collect(),
                }
            }
            (Some(pending::Request::Remote(call)), Place::Remote(remote)) => {
                let mut keep = |first, vectors: &[Vec<f32>]| {
                    places.keep(self.tag, &remote.fingerprint, first, vectors);
                    tick()
                };
                FinishedEmbeddings {
                    vectors: remote.finish(*call, &mut keep)?,
                    fingerprint: Some(remote.fingerprint.clone()),
                }
            }
            (Some(pending::Request::Remote(_)), _) => return Err(unexpected()),
        };
        for (share, vectors) in pending.shares.into_iter().zip(elsewhere) {
            let vectors = match (vectors, &self.place) {
                (Some(vectors), _) => vectors,
                (None, Place::Local(model)) => {
                    let prompt = Some(Purpose::Passage);
                    client
                        .embed(model, Priority::Bulk, prompt, share.texts)?
                        .vectors
                }
                (None, _) => return Err(unexpected()),
            };
            if let Some(fingerprint) = &finished.fingerprint {
                places.keep(self.tag, fingerprint, finished.vectors.len(), &vectors);
            }
            finished.vectors.extend(vectors.into_iter().map(Ok));
            tick()?;
        }
        if finished.vectors.len() == pending.texts {
            Ok(finished)
        } else {
            Err(unexpected())
        }
    }

    /// Caches what a server still sends for [`Self::start`]: it may have to be paid for. Does not
    /// ask for more.
    pub fn collect(&self, mut pending: PendingEmbeddings) {
        if let (Some(pending::Request::Remote(call)), Place::Remote(remote)) =
            (pending.request.take(), &self.place)
        {
            let places = &pending.places;
            remote.collect(*call, &mut |first, vectors| {
                places.keep(self.tag, &remote.fingerprint, first, vectors);
            });
        }
    }

    /// Embeds passages.
    ///
    /// # Errors
    /// The call fails ([`Self::finish`]), or a server refuses a text.
    pub fn embed(
        &self,
        client: &mut Client,
        texts: Vec<String>,
        places: CachePlaces,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let mut nodes = EmbeddingNodes::default();
        let pending = self.start(client, texts, places, &nodes)?;
        let finished = self.finish(client, pending, &mut nodes, &mut || Ok(()))?;
        finished.vectors.into_iter().collect()
    }

    /// Embeds texts of a session.
    ///
    /// # Errors
    /// See [`Self::embed`].
    pub fn embed_now(
        &self,
        priority: Priority,
        purpose: Purpose,
        texts: Vec<String>,
    ) -> Result<Embeddings, Error> {
        let (texts, prompt) = self.with_prefix(purpose, texts);
        match &self.place {
            Place::Local(model) => {
                let answer = with_client(|client| client.embed(model, priority, prompt, texts))?;
                Ok(Embeddings {
                    model: self.info(answer.model),
                    ..answer
                })
            }
            Place::Remote(remote) => remote.embed(purpose, texts),
            Place::Given(_) => Err(no_model()),
        }
    }
}

/// Returns the embeddings of texts by a model that the current role may use.
///
/// # Errors
/// There is no such model, or it cannot embed the texts.
pub fn embed_texts(
    model: Option<&str>,
    purpose: Purpose,
    texts: Vec<String>,
) -> Result<Vec<OwnedVector>, Error> {
    let model = EmbeddingModel::usable(model)?;
    if texts.is_empty() {
        return Ok(vec![]);
    }
    let answer = model.embed_now(Priority::Bulk, purpose, texts)?;
    answer.vectors.into_iter().map(OwnedVector::new).collect()
}

/// The maximum number of tokens of a chunk whose vector is given.
const GIVEN_MAX_TOKENS: usize = 1_000_000;

/// Stands for the properties of a model: all vectors of so many dimensions can be compared.
fn given_info(dimensions: usize) -> ModelInfo {
    let name = given_vectors(dimensions);
    let fingerprint = remote_fingerprint(&[&name]);
    ModelInfo {
        dimensions,
        max_tokens: GIVEN_MAX_TOKENS,
        precision: None,
        fingerprint: fingerprint.clone(),
        identity: fingerprint,
        baseline: 0.0,
        prompts: Default::default(),
        name,
    }
}

fn no_model() -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "the collection has no embedding model",
    )
    .detail("It was created with a number of dimensions: its vectors are given.")
    .hint("Give chunks an embedding, and queries a query_embedding, or search by words.")
}
