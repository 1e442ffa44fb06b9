//! Collections without a model: chunks and queries bring their vectors.

use super::StoredModel;

/// The start of the name that stands for given vectors, instead of that of a model. No name of a
/// model has a colon.
const GIVEN: &str = "given:";

/// Returns the name that stands for given vectors of so many dimensions.
pub fn given_vectors(dimensions: usize) -> String {
    format!("{GIVEN}{dimensions}")
}

/// Returns the number of dimensions, if the name stands for given vectors.
pub fn given_dimensions(name: &str) -> Option<usize> {
    name.strip_prefix(GIVEN)?.parse().ok()
}

impl StoredModel {
    /// Returns true if the vectors are given: there is no model.
    pub fn is_given(&self) -> bool {
        given_dimensions(&self.name).is_some()
    }
}
