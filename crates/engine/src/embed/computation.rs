//! What computes the graph of a model, and how texts are given to it.

use std::sync::{Mutex, PoisonError};

use ort::session::Session;

use super::graph::{Graph, GraphInputs, GraphValues};

/// A graph, loaded by one of the runtimes.
#[derive(Debug)]
pub struct Computation {
    graph: Mutex<Box<dyn Graph>>,
    /// Maximum number of texts in one run of the graph.
    pub batch: usize,
    /// Texts of a run have one of few lengths.
    rounds_length: bool,
    /// The name of the runtime.
    pub runtime: &'static str,
}

impl Computation {
    pub fn by_onnxruntime(session: Session, batch: usize) -> Self {
        Self {
            graph: Mutex::new(Box::new(session)),
            batch,
            rounds_length: false,
            runtime: "onnxruntime",
        }
    }

    /// Several texts at once are hardly faster, and each is the same alone. OpenVINO compiles the
    /// graph for each length.
    pub fn by_openvino(graph: Box<dyn Graph>) -> Self {
        Self {
            graph: Mutex::new(graph),
            batch: 1,
            rounds_length: true,
            runtime: "openvino",
        }
    }

    /// Returns the number of tokens that texts are padded to, of which the longest has `longest`.
    /// A graph has no positions beyond `limit`.
    pub fn width(&self, longest: usize, limit: usize) -> usize {
        match self.rounds_length {
            true => rounded(longest).min(limit.max(longest)),
            false => longest,
        }
    }

    /// Returns the output of that name. `shape` is that of all inputs.
    ///
    /// # Errors
    /// What the runtime says.
    pub fn run(
        &self,
        inputs: GraphInputs,
        shape: [usize; 2],
        output: &str,
    ) -> Result<GraphValues, String> {
        let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        graph.run(inputs, shape, output)
    }
}

/// Returns a number of tokens that is at most a sixteenth of the next power of two above another.
/// Up to 8,192 tokens there are 56 such numbers.
fn rounded(tokens: usize) -> usize {
    tokens.next_multiple_of((tokens.next_power_of_two() / 16).max(16))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lengths_are_rounded_to_few() {
        let all: BTreeSet<usize> = (1..=8192).map(rounded).collect();
        assert_eq!(
            (all.len(), all.first(), all.last()),
            (56, Some(&16), Some(&8192))
        );
        assert_eq!(
            [1, 16, 17, 250, 257, 600].map(rounded),
            [16, 16, 32, 256, 288, 640]
        );
    }
}
