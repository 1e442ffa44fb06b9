//! How to search: mode, weights, number of results, minimum score.

use std::collections::HashMap;

use rag_definition::{
    Fields,
    retriever::{Fusion, MAX_NEIGHBOURS, MAX_TOP_K, RetrievalMode, Weights},
};
use serde_json::{Value, json};

use crate::{
    FoundChunk, HighlightSettings,
    request::{Result, parse},
};

/// What a request says of the search. None means the setting of the retriever.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetrievalSettings {
    pub mode: Option<RetrievalMode>,
    pub weights: Option<Weights>,
    pub top_k: Option<i32>,
    /// The number of best results that are left out.
    pub offset: Option<i32>,
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
    /// Chunks whose texts are at least this similar are one result, 0 to 1. None means equal texts.
    pub distinct_similarity: Option<f64>,
    /// The minimum cosine similarity, 0 to 1, whatever the score is.
    pub min_similarity: Option<f64>,
    /// The model that sorts what is found.
    pub rerank: Option<String>,
    /// How words of the query are marked in the results.
    pub highlight: HighlightSettings,
}

impl RetrievalSettings {
    /// Reads the field `retrieval_setting` with all its fields.
    pub(crate) fn read(request: &Fields<'_>) -> Self {
        let fields = request.object_or_empty(
            "retrieval_setting",
            &[
                "top_k",
                "score_threshold",
                "retrieval_mode",
                "vector_weight",
                "keyword_weight",
            ],
        );
        Self {
            mode: mode(&fields, "retrieval_mode"),
            weights: weights(&fields),
            ..Self::without_mode(&fields)
        }
    }

    /// Reads the argument `settings` of `rag_search` and of the functions beside it.
    ///
    /// # Errors
    /// A field is unknown, of another type, or out of range.
    pub fn parse(settings: &Value) -> Result<Self> {
        const FIELDS: [&str; 14] = [
            "mode",
            "top_k",
            "offset",
            "score_threshold",
            "vector_weight",
            "keyword_weight",
            "fusion",
            "per_document",
            "neighbours",
            "mmr_lambda",
            "distinct_text",
            "distinct_similarity",
            "rerank",
            "highlight",
        ];
        parse(settings, &FIELDS, |fields| {
            let fusion = fields.word("fusion", &Fusion::ALL.map(Fusion::name), "a fusion");
            let highlight = fields.object_or_empty("highlight", &HighlightSettings::FIELDS);
            Some(Self {
                highlight: HighlightSettings::read(&highlight),
                mode: mode(fields, "mode"),
                offset: up_to(fields, "offset", MAX_TOP_K),
                weights: weights(fields),
                fusion: fusion.and_then(Fusion::parse),
                per_document: count(fields, "per_document", MAX_TOP_K),
                neighbours: up_to(fields, "neighbours", MAX_NEIGHBOURS),
                mmr_lambda: fields.fraction("mmr_lambda"),
                distinct_text: fields.boolean("distinct_text"),
                distinct_similarity: fields.fraction("distinct_similarity"),
                rerank: fields.text("rerank").map(str::to_owned),
                ..Self::without_mode(fields)
            })
        })
    }

    /// Reads the field `retrieval_setting` of contracts that know no modes.
    pub(crate) fn read_without_mode(request: &Fields<'_>) -> Self {
        let known = ["top_k", "score_threshold"];
        Self::without_mode(&request.object_or_empty("retrieval_setting", &known))
    }

    fn without_mode(fields: &Fields<'_>) -> Self {
        Self {
            top_k: count(fields, "top_k", MAX_TOP_K),
            threshold: fields.fraction("score_threshold"),
            ..Self::default()
        }
    }
}

/// Reads a number from 1 to `most`.
pub(crate) fn count(fields: &Fields<'_>, name: &str, most: i32) -> Option<i32> {
    let count = fields.integer(name, 1..=i64::from(most))?;
    i32::try_from(count).ok()
}

/// Reads a number from 0 to `most`.
fn up_to(fields: &Fields<'_>, name: &str, most: i32) -> Option<i32> {
    let count = fields.integer(name, 0..=i64::from(most))?;
    i32::try_from(count).ok()
}

fn weights(fields: &Fields<'_>) -> Option<Weights> {
    let (vector, keyword) = ("vector_weight", "keyword_weight");
    match Weights::new(fields.fraction(vector), fields.fraction(keyword)) {
        Ok(weights) => weights,
        Err(sum) => {
            let problem = format!("{vector} and {keyword} must sum to 1, not {:.3}", sum.0);
            let hint = "Leave one of them out: it is then 1 minus the other.";
            fields.problem_with(vector, problem, hint);
            None
        }
    }
}

pub(crate) fn mode(fields: &Fields<'_>, name: &str) -> Option<RetrievalMode> {
    let names = RetrievalMode::ALL.map(RetrievalMode::name);
    RetrievalMode::parse(fields.word(name, &names, "a mode")?)
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
