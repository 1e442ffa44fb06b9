//! BM25: what each term of a query adds to the score of a document.
//!
//! Scores are whole numbers while they are added up. What a term adds is computed in `f32`, and
//! rounded down to a multiple of a unit that is a power of two. So sums do not depend on the order
//! of the terms, and searches, operators and tests agree in every bit.

use crate::{
    norm,
    query::{Condition, NumberedPhrase, Query, QueryRef},
    terms::{PART, Terms},
};

/// The parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// How fast a term's repetitions lose weight, 0 to 10. Lucene's default is 1.2.
    pub k1: f32,
    /// How much long documents lose, 0 (nothing) to 1. Lucene's default is 0.75.
    pub b: f32,
    /// Documents have parts of compounds, which count half. Frequencies of documents are those of
    /// [`Terms::finish_halves`], and frequencies of queries are halves.
    pub has_parts: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            k1: 1.2,
            b: 0.75,
            has_parts: false,
        }
    }
}

/// What a score depends on beside the document and the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of documents.
    pub documents: u64,
    /// Sum of their lengths in terms, as [`norm`] stores them.
    pub length: u64,
    /// Number of documents with each term and pattern of the query, by their numbers.
    pub frequencies: Vec<u64>,
}

impl Statistics {
    /// Counts a document as an index does: one without terms does not count.
    pub fn count<'q>(&mut self, query: impl Into<QueryRef<'q>>, document: &Terms) {
        let query = query.into();
        self.frequencies.resize(query.count(), 0);
        if document.is_empty() {
            return;
        }
        self.documents += 1;
        self.length += u64::from(norm::decode(norm::encode(document.length())));
        let in_document = query.frequencies_in(document, false);
        for (found, frequency) in self.frequencies.iter_mut().zip(in_document) {
            *found += u64::from(frequency > 0);
        }
    }

    /// Adds the statistics of another part of the same documents, for the same query.
    pub fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.length += other.length;
        if self.frequencies.is_empty() {
            self.frequencies.clone_from(&other.frequencies);
        } else {
            for (sum, more) in self.frequencies.iter_mut().zip(&other.frequencies) {
                *sum += more;
            }
        }
    }
}

/// The units of a score, per 1, if no query could reach more than [`SUM_LIMIT`] of them.
const UNITS: f32 = (1_u32 << 20) as f32;
/// Sums of units fit into 32 bits.
const SUM_LIMIT: f32 = (1_u32 << 31) as f32;

/// What a term of the query adds to the scores of documents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermWeight {
    /// Units that a document approaches if the term is repeated without end.
    limit: f32,
    /// The stored frequency of a part, or infinity if there are no parts. Higher ones are stored as
    /// 1 more than they are.
    part: f32,
}

/// The frequency of a term that is only part of a compound in a document.
const PART_FREQUENCY: f32 = 0.5;

impl TermWeight {
    /// Returns the units that a document with this frequency of the term gets, at least 1.
    /// `damping` is that of its length, of [`Scorer::damping`].
    ///
    /// A shorter document never gives less, and a higher frequency neither, but for a part: each
    /// operation rounds monotonically. So the highest frequency and the shortest length of a block
    /// of postings [bound](TermScores::bound) what each of its documents gets.
    #[inline]
    pub fn units(self, frequency: u32, damping: f32) -> u32 {
        (self.exact(frequency, damping) as i32).max(1) as u32
    }

    /// Returns the units of four documents.
    #[inline]
    fn units_of_four(self, frequencies: [u32; 4], damping: [f32; 4]) -> [u32; 4] {
        let exact = std::array::from_fn(|i| self.exact(frequencies[i], damping[i]));
        truncated(exact).map(|units| units.max(1) as u32)
    }

    #[inline]
    fn exact(self, frequency: u32, damping: f32) -> f32 {
        // Numbers with a sign are converted by one instruction, and several at once. No document
        // has 2^31 terms.
        let frequency = (frequency & i32::MAX as u32) as i32 as f32;
        let excess = if frequency > self.part { 1.0 } else { 0.0 };
        let frequency = if frequency == self.part {
            PART_FREQUENCY
        } else {
            frequency - excess
        };
        self.limit / (1.0 + damping / frequency)
    }
}

/// Returns four numbers below 2^31 without their fractions. An `as` that is right for all numbers
/// is not one instruction on this processor.
#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)] // an instruction
fn truncated(numbers: [f32; 4]) -> [i32; 4] {
    use std::{
        arch::x86_64::{__m128, __m128i, _mm_cvttps_epi32},
        mem::transmute,
    };
    // SAFETY: each of these processors has the instruction. Registers and arrays have the same
    // size, and all bits are valid.
    unsafe {
        let numbers = transmute::<[f32; 4], __m128>(numbers);
        transmute::<__m128i, [i32; 4]>(_mm_cvttps_epi32(numbers))
    }
}

/// Returns four numbers below 2^31 without their fractions.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn truncated(numbers: [f32; 4]) -> [i32; 4] {
    numbers.map(|number| number as i32)
}

/// What a term of the query adds, for a search of many documents.
#[derive(Clone, Copy)]
pub struct TermScores<'s> {
    weight: TermWeight,
    /// That of [`Scorer`].
    damping: &'s [f32; 256],
}

impl TermScores<'_> {
    /// Returns the units that a document with this frequency and stored length gets.
    #[inline]
    pub fn units(&self, frequency: u32, norm: u8) -> u32 {
        self.weight
            .units(frequency, self.damping[usize::from(norm)])
    }

    /// Returns the most units that documents get whose stored frequencies and lengths are at most
    /// and at least these.
    pub fn bound(&self, max_frequency: u32, min_norm: u8) -> u32 {
        // a part has the higher stored frequency, and a word the higher score
        let least = self.units(max_frequency.min(1), min_norm);
        self.units(max_frequency, min_norm).max(least)
    }

    /// Writes the units of the first documents, as many as there are frequencies. `norm` returns
    /// the stored length of each.
    #[inline]
    pub fn units_of_all(&self, frequencies: &[u32], norm: impl Fn(usize) -> u8, units: &mut [u32]) {
        let (fours, rest) = frequencies.as_chunks::<4>();
        let (of_fours, of_rest) = units.split_at_mut(4 * fours.len());
        let mut first = 0;
        for (units, frequencies) in of_fours.as_chunks_mut::<4>().0.iter_mut().zip(fours) {
            let damping = |i: usize| self.damping[usize::from(norm(first + i))];
            let damping = std::array::from_fn(damping);
            *units = self.weight.units_of_four(*frequencies, damping);
            first += 4;
        }
        for (i, (units, frequency)) in of_rest.iter_mut().zip(rest).enumerate() {
            *units = self.units(*frequency, norm(first + i));
        }
    }
}

/// Computes scores for one query.
pub struct Scorer {
    weights: Vec<TermWeight>,
    /// `k1 * (1 - b + b * length / average)` of each stored length.
    damping: [f32; 256],
    /// Units per 1.
    scale: f64,
    has_parts: bool,
    query: Query,
}

impl Scorer {
    pub fn new<'q>(
        parameters: Parameters,
        statistics: &Statistics,
        query: impl Into<QueryRef<'q>>,
    ) -> Self {
        let query = query.into();
        let documents = statistics.documents as f64;
        let average = if statistics.length == 0 {
            1.0
        } else {
            statistics.length as f64 / documents.max(1.0)
        };
        let Parameters { k1, b, has_parts } = parameters;
        let per_word = if has_parts { 2.0 } else { 1.0 };
        let terms = query.terms.iter().map(|(_, repeated)| repeated);
        let patterns = query.patterns.iter().map(|counted| counted.weight);
        let limits: Vec<f64> = terms
            .chain(patterns)
            .enumerate()
            .map(|(term, repeated)| {
                let found = statistics.frequencies.get(term).copied().unwrap_or(0) as f64;
                let found = found.min(documents);
                let rarity = (1.0 + (documents - found + 0.5) / (found + 0.5)).ln();
                f64::from(repeated) / per_word * rarity * (f64::from(k1) + 1.0)
            })
            .collect();
        let most = limits.iter().sum::<f64>() as f32;
        let mut scale = UNITS;
        while most * scale >= SUM_LIMIT {
            scale /= 2.0;
        }
        let weight = |limit: &f64| TermWeight {
            limit: (limit * f64::from(scale)) as f32,
            part: if has_parts {
                PART as f32
            } else {
                f32::INFINITY
            },
        };
        let weights: Vec<TermWeight> = limits.iter().map(weight).collect();
        let damping = std::array::from_fn(|norm| {
            let length = f64::from(norm::decode(norm as u8));
            let b = f64::from(b);
            (f64::from(k1) * (1.0 - b + b * length / average)) as f32
        });
        Self {
            weights,
            damping,
            scale: f64::from(scale),
            has_parts,
            query: query.to_owned(),
        }
    }

    /// Returns what a term or a pattern of the query adds, by its number.
    pub fn term(&self, number: usize) -> TermScores<'_> {
        TermScores {
            weight: self.weights[number],
            damping: &self.damping,
        }
    }

    /// Returns true if a term or a pattern, by its number, counts.
    #[inline]
    pub fn counts(&self, number: usize) -> bool {
        self.query.as_ref().counts(number)
    }

    /// Returns what documents must satisfy.
    pub fn condition(&self) -> Option<&Condition> {
        self.query.condition.as_ref()
    }

    /// Returns the score of a number of units.
    pub fn score_of(&self, units: u32) -> f64 {
        f64::from(units) / self.scale
    }

    /// Returns the units of a document with these terms, 0 if it does not match. `has_phrase` tells
    /// which phrases it has; without it, all that are not certain to be there or not do not count.
    pub fn units_of(
        &self,
        document: &Terms,
        has_phrase: Option<&dyn Fn(&NumberedPhrase) -> bool>,
    ) -> u32 {
        let query = self.query.as_ref();
        let frequencies = query.frequencies_in(document, self.has_parts);
        if let Some(condition) = query.condition {
            let has = |term: u32| {
                frequencies
                    .get(term as usize)
                    .is_some_and(|found| *found > 0)
            };
            let holds = match has_phrase {
                Some(has_phrase) => condition.holds(&has, has_phrase),
                None => condition.may_hold(&has),
            };
            if !holds {
                return 0;
            }
        }
        let norm = norm::encode(document.length());
        frequencies
            .iter()
            .enumerate()
            .filter(|(number, frequency)| **frequency > 0 && query.counts(*number))
            .map(|(number, frequency)| self.term(number).units(*frequency, norm))
            .fold(0, u32::saturating_add)
    }

    /// Returns the score of a document with these terms: what [`crate::Scan`] returns for it.
    pub fn score(&self, document: &Terms) -> f64 {
        self.score_of(self.units_of(document, None))
    }

    /// Returns the score of a document of which more is known than its terms. See
    /// [`units_of`](Self::units_of).
    pub fn score_with(
        &self,
        document: &Terms,
        has_phrase: &dyn Fn(&NumberedPhrase) -> bool,
    ) -> f64 {
        self.score_of(self.units_of(document, Some(has_phrase)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Terms {
        let mut terms = Terms::new();
        for term in text.split_whitespace() {
            terms.add(term.as_bytes()).unwrap();
        }
        terms.finish();
        terms
    }

    /// The formula, in `f64` and without rounding.
    fn bm25(parameters: Parameters, n: f64, df: f64, tf: f64, relative_length: f64) -> f64 {
        let (k1, b) = (f64::from(parameters.k1), f64::from(parameters.b));
        let rarity = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
        rarity * tf * (k1 + 1.0) / (tf + k1 * (1.0 - b + b * relative_length))
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let statistics = Statistics {
            documents: 1000,
            length: 10_000,
            frequencies: vec![900, 10], // of common, of rare
        };
        let query = terms("common rare rare");
        let parameters = Parameters::default();
        let scorer = Scorer::new(parameters, &statistics, &query);
        let document = terms("rare common common x x x x");
        let expected = 2.0 * bm25(parameters, 1000.0, 10.0, 1.0, 0.7)
            + bm25(parameters, 1000.0, 900.0, 2.0, 0.7);
        let score = scorer.score(&document);
        assert!((score - expected).abs() < 1e-5, "{score} {expected}");
        assert_eq!(scorer.score(&terms("y")), 0.0);
    }

    #[test]
    fn a_part_counts_half_of_a_word() {
        let parameters = Parameters {
            has_parts: true,
            ..Parameters::default()
        };
        let mut query = Terms::new();
        query.add_halves(b"commit", 2).unwrap();
        query.add_halves(b"session", 1).unwrap();
        query.finish();
        let statistics = Statistics {
            documents: 1000,
            length: 10_000,
            frequencies: vec![900, 10],
        };
        let scorer = Scorer::new(parameters, &statistics, &query);
        let score = |halves: &[(&str, u32)]| {
            let mut document = Terms::new();
            for (term, halves) in halves {
                document.add_halves(term.as_bytes(), *halves).unwrap();
            }
            document.finish_halves();
            scorer.score(&document)
        };
        let expected = |n, df, tf| n * bm25(parameters, 1000.0, df, tf, 0.1);
        for (halves, tf) in [(1, 0.5), (2, 1.0), (3, 1.0), (4, 2.0)] {
            let found = score(&[("commit", halves), ("other", (2 - halves.min(4) / 2) * 2)]);
            let length = f64::from(halves / 2 + 2 - halves.min(4) / 2) / 10.0;
            let wanted = bm25(parameters, 1000.0, 900.0, tf, length);
            assert!((found - wanted).abs() < 1e-5, "{halves}: {found} {wanted}");
        }
        let found = score(&[("session", 2)]);
        assert!((found - expected(0.5, 10.0, 1.0)).abs() < 1e-5);
    }

    #[test]
    fn the_largest_sum_fits_into_32_bits() {
        let mut query = Terms::new();
        for i in 0..1000 {
            query
                .push_counted(format!("t{i}").as_bytes(), 50_000)
                .unwrap();
        }
        query.finish();
        let statistics = Statistics {
            documents: 1 << 40,
            length: 1 << 41,
            frequencies: vec![0; 1000],
        };
        let parameters = Parameters {
            k1: 10.0,
            b: 1.0,
            has_parts: false,
        };
        let scorer = Scorer::new(parameters, &statistics, &query);
        let most = scorer.weights.iter();
        let most: u64 = most.map(|w| u64::from(w.units(u32::MAX, 0.0))).sum();
        assert!(most < 1 << 32, "{most}");
    }

    #[test]
    fn units_are_the_same_for_one_and_for_many() {
        let statistics = Statistics {
            documents: 1000,
            length: 50_000,
            frequencies: vec![7],
        };
        let frequencies: Vec<u32> = (0..131).map(|i| [0, 1, 3, 250, u32::MAX][i % 5]).collect();
        let norm = |i: usize| (i * 7 % 256) as u8;
        for (k1, has_parts) in [(0.0, false), (1.2, false), (1.2, true), (10.0, false)] {
            let parameters = Parameters {
                k1,
                b: 0.75,
                has_parts,
            };
            let scorer = Scorer::new(parameters, &statistics, &terms("a"));
            let scores = scorer.term(0);
            for count in 0..frequencies.len() {
                let mut units = vec![0; count + count % 3];
                scores.units_of_all(&frequencies[..count], norm, &mut units);
                for (i, units) in units.iter().enumerate() {
                    let expected = if i < count {
                        scores.units(frequencies[i], norm(i))
                    } else {
                        0
                    };
                    assert_eq!(*units, expected, "{i} of {count}, {k1}");
                }
            }
        }
    }

    #[test]
    fn a_statistic_that_is_too_large_gives_no_negative_score() {
        let statistics = Statistics {
            documents: 1,
            length: 5,
            frequencies: vec![7],
        };
        let scorer = Scorer::new(Parameters::default(), &statistics, &terms("a"));
        assert!(scorer.score(&terms("a")) > 0.0);
    }
}
