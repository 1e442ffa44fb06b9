//! How to search: mode, weights, number of results, minimum score.

use std::{collections::HashMap, fmt};

use serde_json::{Value, json};

use crate::{
    FoundChunk, Fusion,
    error::{RequestError, Result},
    fields::Fields,
};

/// The maximum number of results of a search.
pub const MAX_TOP_K: i32 = 10_000;

/// The sum of two weights may differ from 1 by this much.
const WEIGHT_TOLERANCE: f64 = 0.01;

/// How chunks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrievalMode {
    Vector,
    Keyword,
    Hybrid,
}

impl RetrievalMode {
    pub const ALL: [Self; 3] = [Self::Vector, Self::Keyword, Self::Hybrid];

    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Keyword => "keyword",
            Self::Hybrid => "hybrid",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for RetrievalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of the two scores in the score of mode `hybrid`. Their sum is about 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    pub vector: f64,
    pub keyword: f64,
}

impl Weights {
    /// Returns the weights for what a user gave. If one is given, the other is 1 minus it. `path`
    /// is the place of the first one.
    ///
    /// # Errors
    /// A weight is not between 0 and 1, or their sum is not 1.
    pub fn new(vector: Option<f64>, keyword: Option<f64>, path: &str) -> Result<Option<Self>> {
        let (vector, keyword) = match (vector, keyword) {
            (None, None) => return Ok(None),
            (Some(vector), None) => (vector, 1.0 - vector),
            (None, Some(keyword)) => (1.0 - keyword, keyword),
            (Some(vector), Some(keyword)) => (vector, keyword),
        };
        let sum = vector + keyword;
        // the sum of two decimal fractions is not exact
        if (sum - 1.0).abs() > WEIGHT_TOLERANCE + f64::EPSILON {
            return Err(RequestError::new(
                path,
                format!("vector_weight and keyword_weight must sum to 1, not {sum:.3}"),
                "Leave one of them out: it is then 1 minus the other.",
            ));
        }
        Ok(Some(Self { vector, keyword }))
    }
}

/// What a request says of the search. None means the setting of the retriever.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetrievalSettings {
    pub mode: Option<RetrievalMode>,
    pub weights: Option<Weights>,
    pub top_k: Option<i32>,
    /// The minimum score, 0 to 1.
    pub threshold: Option<f64>,
    /// How mode `hybrid` combines the lists of both searches.
    pub fusion: Option<Fusion>,
    /// The maximum number of chunks of one document.
    pub per_document: Option<i32>,
    /// The number of chunks before and after each result that are joined to it.
    pub neighbours: Option<i32>,
    /// For diversity: 1 counts scores alone, 0 only how different the results are.
    pub mmr_lambda: Option<f64>,
    /// False: chunks with the same text are results of their own. None means true.
    pub distinct_text: Option<bool>,
    /// The minimum cosine similarity, 0 to 1, whatever the score is.
    pub min_similarity: Option<f64>,
}

impl RetrievalSettings {
    /// Reads the field `retrieval_setting` with all its fields.
    pub(crate) fn read(request: &Fields<'_>) -> Result<Self> {
        let fields = request.object(
            "retrieval_setting",
            &[
                "top_k",
                "score_threshold",
                "retrieval_mode",
                "vector_weight",
                "keyword_weight",
            ],
        )?;
        Ok(Self {
            mode: mode(&fields, "retrieval_mode")?,
            weights: Weights::new(
                fields.fraction("vector_weight")?,
                fields.fraction("keyword_weight")?,
                &fields.path_of("vector_weight"),
            )?,
            ..Self::without_mode(&fields)?
        })
    }

    /// Reads all settings of a search, with the names of the arguments of `rag_search`.
    ///
    /// # Errors
    /// A field is unknown, of another type, or out of range.
    pub fn parse(settings: &Value) -> Result<Self> {
        let fields = Fields::of_request(
            settings,
            &[
                "mode",
                "top_k",
                "score_threshold",
                "vector_weight",
                "keyword_weight",
                "fusion",
                "per_document",
                "mmr_lambda",
                "distinct_text",
            ],
        )?;
        Ok(Self {
            mode: mode(&fields, "mode")?,
            weights: Weights::new(
                fields.fraction("vector_weight")?,
                fields.fraction("keyword_weight")?,
                "vector_weight",
            )?,
            fusion: fusion(&fields)?,
            per_document: fields.integer("per_document", 1..=MAX_TOP_K)?,
            mmr_lambda: fields.fraction("mmr_lambda")?,
            distinct_text: fields.boolean("distinct_text")?,
            ..Self::without_mode(&fields)?
        })
    }

    /// Reads the field `retrieval_setting` of contracts that know no modes.
    pub(crate) fn read_without_mode(request: &Fields<'_>) -> Result<Self> {
        let fields = request.object("retrieval_setting", &["top_k", "score_threshold"])?;
        Self::without_mode(&fields)
    }

    fn without_mode(fields: &Fields<'_>) -> Result<Self> {
        Ok(Self {
            top_k: fields.integer("top_k", 1..=MAX_TOP_K)?,
            threshold: fields.fraction("score_threshold")?,
            ..Self::default()
        })
    }
}

fn fusion(fields: &Fields<'_>) -> Result<Option<Fusion>> {
    let Some(name) = fields.text("fusion")? else {
        return Ok(None);
    };
    match Fusion::parse(name) {
        Some(fusion) => Ok(Some(fusion)),
        None => Err(RequestError::new(
            &fields.path_of("fusion"),
            format!("there is no fusion {name:?}"),
            format!("Fusions: {}.", Fusion::ALL.map(Fusion::name).join(", ")),
        )),
    }
}

pub(crate) fn mode(fields: &Fields<'_>, field: &str) -> Result<Option<RetrievalMode>> {
    let Some(name) = fields.text(field)? else {
        return Ok(None);
    };
    match RetrievalMode::parse(name) {
        Some(mode) => Ok(Some(mode)),
        None => Err(RequestError::new(
            &fields.path_of(field),
            format!("there is no mode {name:?}"),
            format!(
                "Modes: {}.",
                RetrievalMode::ALL.map(RetrievalMode::name).join(", ")
            ),
        )),
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The mode that was used.
    pub mode: RetrievalMode,
    /// Why it is not the mode that was asked for.
    pub degraded: Option<String>,
    /// What the caller should know, as sentences.
    pub warnings: Vec<String>,
    /// The best chunk first.
    pub chunks: Vec<FoundChunk>,
}

impl SearchOutcome {
    /// Adds what an answer says besides the chunks: the member `warnings`, if there are any.
    pub(crate) fn add_warnings(&self, answer: &mut Value) {
        if !self.warnings.is_empty() {
            answer["warnings"] = json!(self.warnings);
        }
    }

    /// Returns the outcome of one search in several collections, the best `limit` chunks of all.
    /// Chunks with the same score stay in the order of the collections. A text that several of them
    /// have is there once.
    pub fn merged(outcomes: Vec<Self>, limit: usize) -> Option<Self> {
        let mut all = outcomes.into_iter().reduce(|mut all, next| {
            all.chunks.extend(next.chunks);
            all.degraded = all.degraded.or(next.degraded);
            all.warnings.extend(next.warnings);
            all
        })?;
        all.chunks.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut kept: Vec<FoundChunk> = vec![];
        for chunk in all.chunks {
            match places.get(&chunk.content) {
                Some(place) => kept[*place].also_at.push(chunk.uri),
                None => {
                    places.insert(chunk.content.clone(), kept.len());
                    kept.push(chunk);
                }
            }
        }
        kept.truncate(limit);
        Some(Self {
            chunks: kept,
            ..all
        })
    }
}
