//! What documents must have, and what they must not have, to match a query.

use crate::phrase::Phrase;

/// What documents of a query must satisfy, besides having a term that counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// All of these.
    pub required: Vec<Match>,
    /// None of these.
    pub excluded: Vec<Match>,
}

/// What a document may have. Terms and patterns are numbers of [`super::Query`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Term(u32),
    Any(Vec<Match>),
    All(Vec<Match>),
    Phrase(NumberedPhrase),
}

/// A phrase of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedPhrase {
    pub phrase: Phrase,
    /// The numbers that the terms of the phrase have in the query.
    pub numbers: Vec<u32>,
}

impl NumberedPhrase {
    /// Returns the numbers of the terms that may be at each place.
    pub fn places(&self) -> impl Iterator<Item = impl Iterator<Item = u32> + '_> {
        let number = |term: usize| self.numbers.get(term).copied().unwrap_or(u32::MAX);
        self.phrase.places().iter().map(move |place| {
            let terms = place.alternatives.iter();
            terms.map(move |alternative| number(alternative.term))
        })
    }

    /// Returns true if a document has a word of each place, wherever it is.
    pub fn has_words(&self, has: &dyn Fn(u32) -> bool) -> bool {
        self.places().all(|mut place| place.any(has))
    }
}

impl Match {
    /// Returns true if a document has this. `has` tells which terms it has, and `has_phrase` which
    /// phrases.
    pub fn holds(
        &self,
        has: &dyn Fn(u32) -> bool,
        has_phrase: &dyn Fn(&NumberedPhrase) -> bool,
    ) -> bool {
        let holds = |part: &Self| part.holds(has, has_phrase);
        match self {
            Self::Term(term) => has(*term),
            Self::Any(parts) => parts.iter().any(holds),
            Self::All(parts) => parts.iter().all(holds),
            Self::Phrase(phrase) => has_phrase(phrase),
        }
    }

    /// Estimates the fraction of documents that have this. `with` are those that have each term.
    fn estimate(&self, with: &[f64]) -> f64 {
        let none = |parts: &mut dyn Iterator<Item = f64>| parts.map(|part| 1.0 - part).product();
        let of = |term: u32| with.get(term as usize).copied().unwrap_or(0.0);
        match self {
            Self::Term(term) => of(*term),
            Self::Any(parts) => {
                let without: f64 = none(&mut parts.iter().map(|part| part.estimate(with)));
                1.0 - without
            }
            Self::All(parts) => parts.iter().map(|part| part.estimate(with)).product(),
            Self::Phrase(phrase) => {
                let places = phrase.places().map(|place| {
                    let without: f64 = none(&mut place.map(of));
                    1.0 - without
                });
                places.product()
            }
        }
    }

    fn has_phrase(&self) -> bool {
        match self {
            Self::Term(_) => false,
            Self::Any(parts) | Self::All(parts) => parts.iter().any(Self::has_phrase),
            Self::Phrase(_) => true,
        }
    }
}

impl Condition {
    /// Returns true if a document satisfies the condition. See [`Match::holds`].
    pub fn holds(
        &self,
        has: &dyn Fn(u32) -> bool,
        has_phrase: &dyn Fn(&NumberedPhrase) -> bool,
    ) -> bool {
        self.required.iter().all(|part| part.holds(has, has_phrase))
            && !self.excluded.iter().any(|part| part.holds(has, has_phrase))
    }

    /// Returns false if a document does not satisfy the condition, wherever its words are.
    pub fn may_hold(&self, has: &dyn Fn(u32) -> bool) -> bool {
        let has_words = |phrase: &NumberedPhrase| phrase.has_words(has);
        self.required.iter().all(|part| part.holds(has, &has_words))
            && !self.excluded.iter().any(|part| part.holds(has, &|_| false))
    }

    /// Estimates the fraction of documents that satisfy the condition, as if each term was in a
    /// document independently of the others. `with` are the fractions that have each term.
    pub fn estimate(&self, with: &[f64]) -> f64 {
        let required: f64 = self
            .required
            .iter()
            .map(|part| part.estimate(with))
            .product();
        let excluded = self.excluded.iter();
        let without: f64 = excluded.map(|part| 1.0 - part.estimate(with)).product();
        required * without
    }

    /// Returns true if the condition has phrases: where words are is not known from the terms of a
    /// document.
    pub fn has_phrase(&self) -> bool {
        self.required
            .iter()
            .chain(&self.excluded)
            .any(Match::has_phrase)
    }

    /// Returns true if a phrase is required.
    pub fn requires_phrase(&self) -> bool {
        self.required.iter().any(Match::has_phrase)
    }
}
