//! The request of a search: what the caller gave, completed by the settings of the retriever, and
//! checked.

use std::ops::RangeInclusive;

use pgrx::PgSqlErrorCode;
use rag_contract::RetrievalSettings;
use rag_definition::retriever::{Fusion, MAX_NEIGHBOURS, MAX_TOP_K, RetrievalMode, Weights};
use rag_filter::Filter;

use super::fields;
use crate::{
    catalog::{collections::Collection, shards::require_coordinator},
    collection::rights,
    error::Error,
    types::vector::Vector,
};

/// The number of results where neither the request nor the retriever names one.
const DEFAULT_TOP_K: i32 = 5;
/// The maximum number of results of a search for diversity, which compares each result with all
/// candidates.
const MAX_DIVERSE: i32 = 1000;

/// Texts that are less similar have little in common.
const MIN_SIMILARITY: f64 = 0.5;

/// The checked request of a search.
#[derive(Clone)]
pub struct SearchRequest {
    pub collection: Collection,
    pub query: SearchQuery,
    pub mode: RetrievalMode,
    /// The maximum number of rows, 1 to [`MAX_TOP_K`].
    pub top_k: usize,
    /// The number of best results that are left out.
    pub offset: usize,
    /// The minimum score, 0 to 1.
    pub threshold: Option<f64>,
    /// The weights of the two scores in mode `hybrid`. None: the query decides.
    pub weights: Option<Weights>,
    pub fusion: Fusion,
    /// The maximum number of chunks of one document.
    pub per_document: Option<usize>,
    /// The number of chunks before and after each result that are joined to it.
    pub neighbours: i32,
    /// For diversity: 1 counts scores alone, 0 only how different the results are.
    pub mmr_lambda: Option<f64>,
    /// Chunks with the same text are one result.
    pub distinct_text: bool,
    /// Chunks whose texts are at least this similar are one result.
    pub distinct_similarity: Option<f64>,
    /// The minimum cosine similarity, 0 to 1, whatever the score is.
    pub min_similarity: Option<f64>,
    /// The model that sorts what is found.
    pub rerank: Option<String>,
    pub filter: Filter,
}

/// What to search for. At least one is given.
#[derive(Clone)]
pub struct SearchQuery {
    pub text: Option<String>,
    /// The vector to search by, instead of the text's.
    pub embedding: Option<Vec<f32>>,
    /// The words to search for, instead of the text's.
    pub hinted_words: Option<String>,
}

impl SearchQuery {
    /// # Errors
    /// Neither is given, the text is blank, or the vector is zero. This server only has chunks for
    /// another one.
    pub fn new(text: Option<&str>, embedding: Option<Vector<'_>>) -> Result<Self, Error> {
        // before the arguments, which a worker may read of its own shards
        require_coordinator()?;
        if let Some(vector) = &embedding
            && vector.as_slice().iter().all(|x| *x == 0.0)
        {
            return Err(
                Error::invalid_parameter("query_embedding must not be the zero vector")
                    .detail("The zero vector has no direction, and so no cosine similarity."),
            );
        }
        match text {
            None if embedding.is_none() => {
                return Err(Error::null_not_allowed(
                    "query and query_embedding must not both be NULL",
                ));
            }
            Some(text) if embedding.is_none() && text.trim().is_empty() => {
                return Err(Error::invalid_parameter("the query must not be empty"));
            }
            _ => {}
        }
        Ok(Self {
            text: text
                .filter(|text| !text.trim().is_empty())
                .map(str::to_owned),
            embedding: embedding.map(|vector| vector.as_slice().to_vec()),
            hinted_words: None,
        })
    }

    pub fn of_text(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            embedding: None,
            hinted_words: None,
        }
    }

    /// Returns the words to search for.
    pub fn words(&self) -> Option<&str> {
        self.hinted_words.as_deref().or(self.text.as_deref())
    }
}

impl SearchRequest {
    /// Returns the request with the collection as it is now.
    ///
    /// # Errors
    /// The collection does not exist any more.
    pub fn refreshed(&self) -> Result<Self, Error> {
        Ok(Self {
            collection: Collection::get(self.collection.name.as_str())?,
            ..self.clone()
        })
    }

    /// Completes `settings` by those of the collection's retriever.
    ///
    /// # Errors
    /// A setting is out of range, the retriever disables the mode, the caller may not read the
    /// collection, or its text search configuration does not exist any more.
    pub fn new(
        collection: Collection,
        query: SearchQuery,
        settings: &RetrievalSettings,
        filter: Filter,
    ) -> Result<Self, Error> {
        rights::require_read(&collection)?;
        let retriever = collection.methods();
        let mode = match settings.mode {
            Some(mode) => mode,
            // words are needed for the others
            None if query.text.is_none() => RetrievalMode::Vector,
            None => retriever.default_mode(),
        };
        if !retriever.enables(mode) {
            return Err(disabled(&collection, mode));
        }
        if mode != RetrievalMode::Vector && query.text.is_none() {
            return Err(Error::null_not_allowed(format!(
                "query must not be NULL for mode \"{mode}\""
            ))
            .hint("Use mode => 'vector' to search by query_embedding alone."));
        }
        let (query, filter) = fields::divide(&collection, mode, query, filter)?;
        let top_k = settings.top_k.or(retriever.top_k(mode));
        let top_k = top_k.unwrap_or(DEFAULT_TOP_K);
        within("top_k", top_k, 1..=MAX_TOP_K)?;
        let offset = settings.offset.unwrap_or(0);
        within("offset", offset, 0..=MAX_TOP_K - top_k)?;
        let threshold = settings.threshold.or(retriever.threshold(mode));
        for (name, value) in [
            ("score_threshold", threshold),
            ("mmr_lambda", settings.mmr_lambda),
        ] {
            if let Some(value) = value {
                within(name, value, 0.0..=1.0)?;
            }
        }
        if let Some(cap) = settings.per_document {
            within("per_document", cap, 1..=MAX_TOP_K)?;
        }
        let neighbours = settings.neighbours.unwrap_or(0);
        within("neighbours", neighbours, 0..=MAX_NEIGHBOURS)?;
        if settings.mmr_lambda.is_some() {
            let found = top_k + offset;
            within(
                "top_k and offset of a search with mmr_lambda",
                found,
                1..=MAX_DIVERSE,
            )?;
        }
        if let Some(least) = settings.distinct_similarity {
            within("distinct_similarity", least, MIN_SIMILARITY..=1.0)?;
            if settings.distinct_text == Some(false) {
                return Err(Error::invalid_parameter(
                    "distinct_similarity must not be given with distinct_text false",
                ));
            }
        }
        Ok(Self {
            mode,
            top_k: top_k as usize,
            offset: offset as usize,
            threshold,
            weights: settings.weights.or_else(|| retriever.weights()),
            fusion: settings.fusion.unwrap_or(retriever.fusion()),
            per_document: settings.per_document.map(|cap| cap as usize),
            neighbours,
            mmr_lambda: settings.mmr_lambda,
            distinct_text: settings.distinct_text.unwrap_or(true),
            distinct_similarity: settings.distinct_similarity,
            min_similarity: settings.min_similarity,
            rerank: settings.rerank.clone(),
            collection,
            query,
            filter,
        })
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(Error::invalid_parameter(format!(
        "{name} must be between {least} and {most}, not {value}"
    )))
}

/// Returns the error for a mode that the retriever disables.
fn disabled(collection: &Collection, mode: RetrievalMode) -> Error {
    let enabled: Vec<&str> = collection
        .methods()
        .enabled_modes()
        .into_iter()
        .map(RetrievalMode::name)
        .collect();
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "mode \"{mode}\" is disabled for collection \"{}\"",
            collection.name
        ),
    )
    .detail(format!(
        "Retriever \"{}\" enables: {}.",
        collection.definition.retriever,
        enabled.join(", ")
    ))
    .hint("Use one of these modes, or enable the mode in the retriever.")
}
