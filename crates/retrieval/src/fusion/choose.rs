use std::collections::HashMap;

use super::Ranked;

/// Which of the ranked chunks are results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The maximum number of results.
    pub top_k: usize,
    /// The minimum score.
    pub threshold: Option<f64>,
    /// The maximum number of chunks of one document.
    pub per_document: Option<usize>,
    /// For diversity: 1 counts scores alone, 0 only how different the results are.
    pub mmr_lambda: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The results, the best first. Those of a search for diversity are in the order in which they
    /// were chosen.
    pub results: Vec<Ranked>,
    /// True if `per_document` has left out chunks, so that there are fewer results than `top_k`:
    /// chunks that no search has returned may be results.
    pub needs_more: bool,
}

/// Chooses results from ranked chunks, the best first. `similarity` returns how similar two chunks
/// are, 0 to 1, given their places in `ranked`. It is called for a search for diversity only, which
/// calls it at most `top_k` times for each chunk (maximal marginal relevance, Carbonell and
/// Goldstein 1998).
pub fn choose(
    ranked: &[Ranked],
    limits: Limits,
    mut similarity: impl FnMut(usize, usize) -> f64,
) -> Chosen {
    let passed = match limits.threshold {
        Some(threshold) => ranked.partition_point(|chunk| chunk.score >= threshold),
        None => ranked.len(),
    };
    let mut room = DocumentRoom::new(limits.per_document);
    let mut results = vec![];
    match limits.mmr_lambda {
        None => {
            for chunk in &ranked[..passed] {
                if results.len() == limits.top_k {
                    break;
                }
                if room.take(chunk) {
                    results.push(*chunk);
                }
            }
        }
        Some(lambda) => {
            // the similarity of each chunk to the nearest result
            let mut nearest = vec![0.0_f64; passed];
            let mut waiting: Vec<usize> = (0..passed).collect();
            while results.len() < limits.top_k {
                waiting.retain(|place| room.has(&ranked[*place]));
                let value = |place: &usize| {
                    lambda * ranked[*place].score - (1.0 - lambda) * nearest[*place]
                };
                // of equal ones the first, which has the higher score
                let best = (0..waiting.len()).reduce(|best, other| {
                    if value(&waiting[other]) > value(&waiting[best]) {
                        other
                    } else {
                        best
                    }
                });
                let Some(best) = best else { break };
                let chosen = waiting.remove(best);
                room.take(&ranked[chosen]);
                results.push(ranked[chosen]);
                for place in &waiting {
                    nearest[*place] = nearest[*place].max(similarity(chosen, *place));
                }
            }
        }
    }
    Chosen {
        needs_more: room.was_full && results.len() < limits.top_k,
        results,
    }
}

/// How many chunks each document may still have among the results.
struct DocumentRoom {
    limit: Option<usize>,
    taken: HashMap<[u8; 16], usize>,
    /// True if a chunk was refused.
    was_full: bool,
}

impl DocumentRoom {
    fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            taken: HashMap::new(),
            was_full: false,
        }
    }

    fn has(&mut self, chunk: &Ranked) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let has = self
            .taken
            .get(&chunk.key.document)
            .is_none_or(|taken| *taken < limit);
        self.was_full |= !has;
        has
    }

    /// Returns false if there is no room.
    fn take(&mut self, chunk: &Ranked) -> bool {
        if self.limit.is_none() {
            return true;
        }
        let has = self.has(chunk);
        if has {
            *self.taken.entry(chunk.key.document).or_default() += 1;
        }
        has
    }
}
