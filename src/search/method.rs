//! How candidates get their scores: the method, its weights, and the cosine that counts as 0.

use rag_definition::retriever::{Fusion, Metric, RetrievalMode, Weights};
use rag_retrieval::fusion::{FoundWords, Method, weights};

use super::{find::Query, statements::FoundRow, trace::Event};
use crate::{catalog::chunks::as_reader, error::Error};

/// The cosines of a model with a baseline below this begin near 0.
const MIN_BASELINE: f64 = 0.2;
/// The maximum of a baseline. Above it, rounding would decide.
const MAX_BASELINE: f64 = 0.98;

impl Query<'_> {
    /// Returns the cosine similarity that counts as 0 in a weighted sum.
    pub fn baseline(&self) -> f64 {
        if self.request.collection.storage().metric() != Metric::Cosine {
            return 0.0;
        }
        let model = self.request.collection.model.as_ref();
        let baseline = model.map_or(0.0, |model| f64::from(model.baseline));
        if baseline >= MIN_BASELINE {
            baseline.min(MAX_BASELINE)
        } else {
            0.0
        }
    }

    /// Returns how candidates get their scores. `best_by_words` is the best keyword hit.
    pub fn method(&self, best_by_words: Option<FoundRow>) -> Result<Method, Error> {
        Ok(match (self.mode, self.request.fusion) {
            (RetrievalMode::Vector, _) => Method::Vector,
            (RetrievalMode::Keyword, _) => Method::Keyword,
            (RetrievalMode::Hybrid, Fusion::ReciprocalRank) => Method::ReciprocalRank,
            (RetrievalMode::Hybrid, Fusion::Weighted) => {
                Method::Weighted(match self.request.weights {
                    Some(given) => given,
                    None => self.weights(best_by_words)?,
                })
            }
        })
    }

    /// Returns the weights by what the words of the query have found.
    fn weights(&self, best_by_words: Option<FoundRow>) -> Result<Weights, Error> {
        let collection = &self.request.collection;
        let words = match (self.words, best_by_words) {
            (Some(words), Some(best)) => {
                as_reader(collection, |_| words.found_in(collection, &best))?
            }
            _ => FoundWords::default(),
        };
        self.trace.note(|| Event::Weighed(words));
        Ok(weights(words))
    }
}
