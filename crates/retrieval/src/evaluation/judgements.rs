//! The judgements of one query: how relevant documents are.

use std::collections::HashMap;

/// Why a number is not a relevance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InvalidRelevance {
    Negative,
    /// NaN or infinite.
    NotFinite,
}

/// How relevant documents are for a query. `D` names a document.
#[derive(Debug, Clone, Default)]
pub struct Judgements<D> {
    /// Positive numbers only: a document that is not relevant counts like one that was not judged.
    relevance: HashMap<D, f64>,
}

impl<D: std::hash::Hash + Eq> Judgements<D> {
    pub fn new() -> Self {
        Self {
            relevance: HashMap::new(),
        }
    }

    /// Records the relevance of a document: 0 for none, more for more. If a document is judged
    /// twice, the greater relevance holds.
    ///
    /// # Errors
    /// The number is negative, infinite or NaN.
    pub fn add(&mut self, document: D, relevance: f64) -> Result<(), InvalidRelevance> {
        if !relevance.is_finite() {
            return Err(InvalidRelevance::NotFinite);
        }
        if relevance < 0.0 {
            return Err(InvalidRelevance::Negative);
        }
        if relevance > 0.0 {
            let known = self.relevance.entry(document).or_insert(0.0);
            *known = relevance.max(*known);
        }
        Ok(())
    }

    /// Returns the relevance of a document, 0 if it is not relevant.
    pub fn of(&self, document: &D) -> f64 {
        self.relevance.get(document).copied().unwrap_or(0.0)
    }

    /// Returns the number of relevant documents.
    pub fn relevant(&self) -> usize {
        self.relevance.len()
    }

    /// Returns the relevant documents, in no order.
    pub fn relevant_documents(&self) -> impl Iterator<Item = &D> {
        self.relevance.keys()
    }

    /// Returns the relevance of the relevant documents, the greatest first.
    pub(crate) fn ideal(&self) -> Vec<f64> {
        let mut ideal: Vec<f64> = self.relevance.values().copied().collect();
        ideal.sort_unstable_by(|a, b| b.total_cmp(a));
        ideal
    }
}
