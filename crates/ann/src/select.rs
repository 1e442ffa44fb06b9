//! Chooses neighbours among the candidates near a node.

use crate::code::Metric;

/// A candidate is left out if it is nearer to a chosen neighbour than to the node, by this factor
/// of the squared distance (the `alpha` of DiskANN's pruning). A factor above 1 leaves out fewer
/// and makes longer lists. A search then reaches the same recall on fewer nodes.
const ALPHA: f32 = 1.1;

/// Chooses neighbours for a node: diverse ones ([`diverse`]), and if these are less than half of
/// `limit`, the nearest of the others up to that number ([`fill`]). Returns their places in
/// `distances`, the diverse ones first. The first of these is the nearest of all.
///
/// `distances` are those of the candidates to the node, in ascending order. `between(candidate,
/// chosen)` measures the distance of two candidates, given by their places. It is called with each
/// `chosen` in the order in which these were chosen.
pub fn select_diverse(
    distances: &[f32],
    limit: usize,
    metric: Metric,
    between: impl FnMut(usize, usize) -> f32,
) -> Vec<usize> {
    let mut chosen = diverse(distances, limit, metric, between);
    fill(&mut chosen, distances.len(), limit);
    chosen
}

/// Takes the candidates from near to far, except those that are clearly nearer to a chosen one than
/// to the node: a search reaches them through that one. This keeps links in all directions where
/// the nearest candidates alone would all lie in one cluster (algorithm 4 of Malkov and Yashunin).
///
/// **Inner product.** Its distances are often negative. Multiplying those by more than 1 would make
/// a candidate *nearer* to the chosen one. They also have no natural zero to take a ratio from:
/// adding a constant to all of them does not change which is nearer. So the comparison has no
/// factor.
pub(crate) fn diverse(
    distances: &[f32],
    limit: usize,
    metric: Metric,
    mut between: impl FnMut(usize, usize) -> f32,
) -> Vec<usize> {
    let alpha = match metric {
        Metric::L2 | Metric::L1 | Metric::Cosine => ALPHA,
        Metric::InnerProduct => 1.0,
    };
    let mut chosen = Vec::with_capacity(limit.min(distances.len()));
    for (candidate, &distance) in distances.iter().enumerate() {
        if chosen.len() >= limit {
            break;
        }
        if chosen
            .iter()
            .all(|&other| between(candidate, other) * alpha >= distance)
        {
            chosen.push(candidate);
        }
    }
    chosen
}

/// If less than half of `limit` were chosen, adds the nearest of the others up to that number. Few
/// candidates are diverse if one is near to all, as the shortest vectors are if lengths differ
/// greatly. Without other links, searches end there. (With 20,000 such vectors of 256 dimensions,
/// recall at ef 80 rose from .93 to 1.)
pub(crate) fn fill(chosen: &mut Vec<usize>, candidates: usize, limit: usize) {
    let (diverse, least) = (chosen.len(), limit / 2);
    for candidate in 0..candidates {
        if chosen.len() >= least {
            break;
        }
        if chosen[..diverse].binary_search(&candidate).is_err() {
            chosen.push(candidate);
        }
    }
}

/// A candidate is far if its squared distance is more than this many times that of the candidate
/// in the middle of the list.
const FAR: f32 = 2.0;
/// One in this many links may be far, and yet be kept.
const FAR_SHARE: usize = 8;

/// Adds the nearest of the far candidates that were not chosen, so that up to one in [`FAR_SHARE`]
/// of `limit` links are far. In a dense region, the neighbours on all sides are nearer to a node
/// outside than the node is, by chance. The links that lead out of the region would be given up one
/// after another.
///
/// Inner products have no ratio, see [`diverse`]: nothing is added.
pub(crate) fn keep_far(chosen: &mut Vec<usize>, distances: &[f32], limit: usize, metric: Metric) {
    let Some(typical) = distances.get(distances.len() / 2) else {
        return;
    };
    if metric == Metric::InnerProduct {
        return;
    }
    let begin = distances.partition_point(|distance| *distance <= FAR * typical);
    let mut far = chosen.iter().filter(|place| **place >= begin).count();
    for candidate in begin..distances.len() {
        if far >= limit / FAR_SHARE || chosen.len() >= limit {
            break;
        }
        if !chosen.contains(&candidate) {
            chosen.push(candidate);
            far += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses for a node at 0 on a line.
    fn select(points: &[f32], limit: usize) -> Vec<usize> {
        let distances: Vec<f32> = points.iter().map(|x| x * x).collect();
        select_diverse(&distances, limit, Metric::L2, |a, b| {
            (points[a] - points[b]).powi(2)
        })
    }

    #[test]
    fn one_neighbour_a_direction() {
        assert_eq!(select(&[1.0, 1.1, -1.2, 1.3, -3.0, 4.0], 4), [0, 2]);
    }

    #[test]
    fn nearest_fill_half_of_the_list() {
        assert_eq!(select(&[1.0, 1.1, -1.2, 1.3, -3.0, 4.0], 8), [0, 2, 1, 3]);
        assert_eq!(select(&[1.0, 1.1, 1.2], 100), [0, 1, 2]);
    }

    #[test]
    fn far_candidates_stay() {
        let distances = [1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.5, 9.0, 10.0];
        let kept = |mut chosen: Vec<usize>, limit, metric| {
            keep_far(&mut chosen, &distances, limit, metric);
            chosen
        };
        assert_eq!(kept(vec![0, 2], 8, Metric::L2), [0, 2, 8]);
        assert_eq!(kept(vec![0, 2], 16, Metric::L2), [0, 2, 8, 9]);
        assert_eq!(
            kept(vec![0, 9], 8, Metric::L2),
            [0, 9],
            "one is there already"
        );
        assert_eq!(kept(vec![0, 2], 7, Metric::L2), [0, 2], "few links");
        assert_eq!(kept(vec![0, 2], 16, Metric::InnerProduct), [0, 2]);
        assert_eq!(kept((0..8).collect(), 8, Metric::L2).len(), 8, "no room");
    }

    #[test]
    fn limit_holds() {
        assert_eq!(select(&[1.0, -1.0], 1), [0]);
        assert_eq!(select(&[1.0, -1.0], 0), [0; 0]);
        assert_eq!(select(&[], 3), [0; 0]);
    }

    #[test]
    fn one_that_is_only_a_little_nearer_to_a_neighbour_stays() {
        let choose = |metric| select_diverse(&[1.0, 2.0], 2, metric, |_, _| 1.9);
        assert_eq!(choose(Metric::L2), [0, 1]);
        assert_eq!(choose(Metric::InnerProduct), [0]);
    }

    #[test]
    fn negative_distances_compare_plainly() {
        let choose =
            |between: f32| select_diverse(&[-2.0, -1.0], 2, Metric::InnerProduct, |_, _| between);
        assert_eq!(choose(-0.95), [0, 1]);
        assert_eq!(choose(-1.05), [0]);
    }
}
