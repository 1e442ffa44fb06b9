//! MPNet's bias by distance: a number for each head and each pair of tokens, added to the scores of
//! attention.
//!
//! Distances share a row of the table if they are far: half of the rows are for tokens before,
//! half for tokens after. Of each half, one half is for single distances, and the other one for
//! ranges that grow by a constant factor up to [`FARTHEST`]. Source: `transformers`, class
//! `MPNetEncoder`.

use rag_protocol::EngineError;

use crate::{
    config::Config,
    onnx::{Attribute::Int, ElementType},
    writer::Writer,
};

/// The name of the bias in the graph.
pub(crate) const BIAS: &str = "relative.bias";

/// The distance from which on all share a row.
const FARTHEST: f32 = 128.0;

/// Writes `BIAS`, of shape `[1, heads, tokens, tokens]`.
pub(crate) fn bias(writer: &mut Writer) -> Result<(), EngineError> {
    let (heads, rows) = (writer.config.heads, writer.config.distances);
    let table = writer.weight("encoder.relative_attention_bias.weight", &[rows, heads])?;
    let most = most_tokens(writer.config);
    // by head and by distance, from -(most - 1) to most - 1
    let distances = 2 * most - 1;
    let mut by_distance = vec![0.0; heads * distances];
    for at in 0..distances {
        let row = bucket(at as i64 - (most as i64 - 1), rows);
        for head in 0..heads {
            by_distance[head * distances + at] = table[row * heads + head];
        }
    }
    let graph = &mut writer.graph;
    graph.floats("relative.table", &[heads, distances], &by_distance);
    graph.integers("relative.first", &[], &[0]);
    graph.integers("relative.step", &[], &[1]);
    graph.integers("relative.middle", &[], &[most as i64 - 1]);
    graph.integers("relative.axis0", &[1], &[0]);
    graph.integers("relative.axis1", &[1], &[1]);
    let last = [Int("start", 1), Int("end", 2)];
    graph.node("Shape", &["input_ids"], &["relative.shape"], &last);
    graph.node(
        "Squeeze",
        &["relative.shape", "relative.axis0"],
        &["relative.tokens"],
        &[],
    );
    graph.node(
        "Range",
        &["relative.first", "relative.tokens", "relative.step"],
        &["relative.places"],
        &[],
    );
    graph.node(
        "Unsqueeze",
        &["relative.places", "relative.axis0"],
        &["relative.keys"],
        &[],
    );
    graph.node(
        "Unsqueeze",
        &["relative.places", "relative.axis1"],
        &["relative.queries"],
        &[],
    );
    graph.node(
        "Sub",
        &["relative.keys", "relative.queries"],
        &["relative.distance"],
        &[],
    );
    graph.node(
        "Add",
        &["relative.distance", "relative.middle"],
        &["relative.index.long"],
        &[],
    );
    graph.node(
        "Cast",
        &["relative.index.long"],
        &["relative.index"],
        &[Int("to", ElementType::Int32 as i64)],
    );
    graph.node(
        "Gather",
        &["relative.table", "relative.index"],
        &["relative.heads"],
        &[Int("axis", 1)],
    );
    graph.node(
        "Unsqueeze",
        &["relative.heads", "relative.axis0"],
        &[BIAS],
        &[],
    );
    Ok(())
}

fn most_tokens(config: &Config) -> usize {
    config.positions - config.first_position
}

/// Returns the row for the distance of a key from a query.
fn bucket(distance: i64, rows: usize) -> usize {
    let half = rows / 2;
    let side = if distance > 0 { half } else { 0 };
    let away = distance.unsigned_abs() as usize;
    let single = half / 2;
    let row = if away < single {
        away
    } else {
        let share = (away as f32 / single as f32).ln() / (FARTHEST / single as f32).ln();
        single + (share * (half - single) as f32) as usize
    };
    side + row.min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `MPNetEncoder.relative_position_bucket` of transformers 5.24 returns.
    #[test]
    fn far_distances_share_a_row() {
        let rows = |distances: &[i64]| -> Vec<usize> {
            distances.iter().map(|d| bucket(*d, 32)).collect()
        };
        assert_eq!(rows(&[0, 1, 7, 8, 9, 11, 12]), [0, 17, 23, 24, 24, 24, 25]);
        assert_eq!(rows(&[-1, -7, -8, -15, -16]), [1, 7, 8, 9, 10]);
        assert_eq!(rows(&[-90, -91, -127, -128, -500]), [14, 15, 15, 15, 15]);
        assert_eq!(
            rows(&[16, 22, 23, 31, 32, 45, 46]),
            [26, 26, 27, 27, 28, 28, 29]
        );
        assert_eq!(rows(&[63, 64, 90, 91, 500]), [29, 30, 30, 31, 31]);
    }
}
