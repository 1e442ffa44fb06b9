//! The bootstrap: how much a mean over queries depends on which queries were asked.
//!
//! Queries are drawn with replacement, as many as there are, again and again. The means of these
//! resamples show how far the mean would be off with other queries of the same kind. To compare two
//! settings, the differences of each query are resampled, so that queries that are difficult for
//! both do not hide the difference: M. D. Smucker, J. Allan, B. Carterette, "A comparison of
//! statistical significance tests for information retrieval evaluation", CIKM 2007.
//!
//! The numbers are pseudorandom with a fixed seed: the same values give the same result.

/// The maximum number of resamples.
pub const MAX_RESAMPLES: usize = 1_000_000;
/// The part of the resampled means that an interval leaves out at each end.
const TAIL: f64 = 0.025;
const SEED: u64 = 0x7261_675f_6576_616c;

/// The mean of a measure over queries, and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// The mean difference between two settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    pub difference: Estimate,
    /// The probability of a mean difference at least as large, in either direction, if there were
    /// none.
    pub p_value: f64,
}

/// Resamples the values of queries.
#[derive(Debug, Clone, Copy)]
pub struct Resampling {
    /// The number of resamples, at least 1.
    pub resamples: usize,
}

impl Resampling {
    /// Returns the mean of the values, which must not be empty. `tick` is called once per resample.
    pub fn estimate(self, values: &[f64], tick: impl FnMut()) -> Estimate {
        let mut means = self.means(values, tick);
        interval(mean(values), &mut means)
    }

    /// Compares the values of two settings for the same queries: `values` minus `others`. The
    /// slices have the same length, and are not empty.
    pub fn compare(self, values: &[f64], others: &[f64], tick: impl FnMut()) -> Comparison {
        let differences: Vec<f64> = values.iter().zip(others).map(|(a, b)| a - b).collect();
        let observed = mean(&differences);
        let mut means = self.means(&differences, tick);
        // Without a difference, the means would lie around 0 as they do around the observed one.
        // Rounding must not decide about a resample that is equal to the sample.
        let threshold = observed.abs() - 1e-12;
        let as_large = means
            .iter()
            .filter(|mean| (*mean - observed).abs() >= threshold)
            .count();
        Comparison {
            difference: interval(observed, &mut means),
            // the sample itself is one of the possible resamples, so p is never 0
            p_value: (as_large + 1) as f64 / (self.resamples + 1) as f64,
        }
    }

    fn means(self, values: &[f64], mut tick: impl FnMut()) -> Vec<f64> {
        let mut random = SplitMix64(SEED);
        let mut one = || {
            tick();
            let drawn = (0..values.len()).map(|_| values[random.below(values.len())]);
            drawn.sum::<f64>() / values.len() as f64
        };
        (0..self.resamples).map(|_| one()).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the percentile interval.
fn interval(mean: f64, means: &mut [f64]) -> Estimate {
    means.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| means[(part * (means.len() - 1) as f64).round() as usize];
    Estimate {
        mean,
        low: at(TAIL),
        high: at(1.0 - TAIL),
    }
}

/// G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`. The bias of the multiplication is below `bound` / 2^64.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
