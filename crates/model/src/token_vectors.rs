//! A graph that returns the vector of each token of a text, beside the text's own.
//!
//! The graphs that [`convert`](crate::convert) writes compute these vectors, and return only their
//! mean. A Protocol Buffers message can be extended by appending to it: a parser merges what is
//! repeated. So a node and an output of a few bytes behind the file make a second output, and no
//! second file with the same weights is necessary. The graph in the file stays as it is, to the
//! byte, because the fingerprint of embeddings is its hash.

use std::{
    io::{self, Read},
    path::Path,
};

use rag_protocol::EngineError;

use crate::{
    invalid,
    onnx::{
        Dimension::{Fixed, Named},
        ElementType, Graph, PRODUCER,
    },
    unreadable,
    wire::{Field, field_bytes},
};

/// Names of outputs with the vectors of tokens, in order of preference.
pub const TOKEN_VECTORS: [&str; 2] = ["last_hidden_state", "token_embeddings"];
const POOLED: &str = "sentence_embedding";

/// Returns the content of a graph with the output `last_hidden_state`, or `None` if the graph in
/// the file has such an output already.
///
/// # Errors
/// `InvalidModel` if the graph has no such output, and was not written by
/// [`convert`](crate::convert) for embeddings; the file's errors.
pub fn with_token_vectors(path: &Path, hidden_size: usize) -> Result<Option<Vec<u8>>, EngineError> {
    let mut bytes = rag_protocol::file::read(path).map_err(|e| unreadable(path, &e))?;
    let outline = Outline::read(&mut bytes.as_slice()).map_err(|_| {
        invalid(path, "it is no ONNX graph")
            .hint("The file may be truncated; fetch or convert it again.")
    })?;
    if outline.has_output(&TOKEN_VECTORS) {
        return Ok(None);
    }
    let Some(hidden) = outline.pooled_vectors() else {
        let outputs = outline.outputs.join(", ");
        return Err(invalid(
            path,
            format!("it does not return the vectors of tokens, only {outputs}"),
        )
        .hint(format!(
            "Use an embedding model that rag-model has converted, or export it with the \
                     output {}.",
            TOKEN_VECTORS[0]
        )));
    };
    let mut more = Graph::default();
    let output = TOKEN_VECTORS[0];
    more.node("Identity", &[hidden], &[output], &[]);
    let shape = [Named("texts"), Named("tokens"), Fixed(hidden_size)];
    more.output(output, ElementType::Float, &shape);
    let extension = more.extension();
    let no_room = |e: std::collections::TryReserveError| unreadable(path, &io::Error::other(e));
    bytes.try_reserve_exact(extension.len()).map_err(no_room)?;
    bytes.extend(extension);
    Ok(Some(bytes))
}

/// What is in a graph besides its weights.
#[derive(Debug, Default)]
struct Outline {
    is_ours: bool,
    /// Names of the inputs and the outputs of each node.
    nodes: Vec<(Vec<String>, Vec<String>)>,
    outputs: Vec<String>,
}

impl Outline {
    fn read(model: &mut impl Read) -> io::Result<Self> {
        let mut outline = Self::default();
        while let Some(field) = Field::next(model)? {
            match field {
                Field::Bytes(2, length) => {
                    outline.is_ours = field_bytes(model, length)? == PRODUCER.as_bytes();
                }
                Field::Bytes(7, length) => {
                    let mut graph = model.by_ref().take(length);
                    outline.read_graph(&mut graph)?;
                    if graph.limit() > 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                other => other.skip(model)?,
            }
        }
        Ok(outline)
    }

    fn read_graph(&mut self, graph: &mut impl Read) -> io::Result<()> {
        while let Some(field) = Field::next(graph)? {
            match field {
                Field::Bytes(1, length) => {
                    let node = field_bytes(graph, length)?;
                    let inputs = texts(&node, 1)?;
                    self.nodes.push((inputs, texts(&node, 2)?));
                }
                Field::Bytes(12, length) => {
                    self.outputs.extend(texts(&field_bytes(graph, length)?, 1)?);
                }
                other => other.skip(graph)?,
            }
        }
        Ok(())
    }

    fn has_output(&self, names: &[&str]) -> bool {
        self.outputs
            .iter()
            .any(|output| names.contains(&output.as_str()))
    }

    /// Returns the name of the vectors that one of our graphs pools. See `head::pool`.
    fn pooled_vectors(&self) -> Option<&str> {
        if !self.is_ours || !self.has_output(&[POOLED]) {
            return None;
        }
        let input_of = |name: &str, at: usize| {
            let mut nodes = self.nodes.iter();
            let node = nodes.find(|(_, outputs)| outputs.iter().any(|output| output == name))?;
            node.0.get(at).map(String::as_str)
        };
        // the sum of a mean multiplies the mask with them; otherwise they are what is reduced
        input_of("total.row", 1).or_else(|| input_of("pooled", 0))
    }
}

/// Returns the texts of a field of a message.
fn texts(mut message: &[u8], number: u64) -> io::Result<Vec<String>> {
    let mut texts = vec![];
    while let Some(field) = Field::next(&mut message)? {
        match field {
            Field::Bytes(found, length) if found == number => {
                let bytes = field_bytes(&mut message, length)?;
                texts.push(String::from_utf8_lossy(&bytes).into_owned());
            }
            other => other.skip(&mut message)?,
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use rag_protocol::ErrorKind;

    use super::*;

    fn file(graph: &Graph) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), graph.encode("g")).unwrap();
        file
    }

    fn graph(nodes: &[(&str, &[&str], &str)], output: &str) -> Graph {
        let mut graph = Graph::default();
        for (operator, inputs, output) in nodes {
            graph.node(operator, inputs, &[output], &[]);
        }
        graph.output(output, ElementType::Float, &[Named("texts"), Fixed(2)]);
        graph
    }

    #[test]
    fn what_is_pooled_becomes_an_output() {
        let mean = graph(
            &[
                ("Add", &["a", "b"], "layer1.output"),
                ("MatMul", &["weights.row", "layer1.output"], "total.row"),
                ("Div", &["total", "tokens"], "pooled"),
            ],
            POOLED,
        );
        let first = graph(&[("Gather", &["layer1.output", "first"], "pooled")], POOLED);
        for graph in [mean, first] {
            let file = file(&graph);
            let bytes = with_token_vectors(file.path(), 2).unwrap().unwrap();
            assert!(bytes.starts_with(&graph.encode("g")), "the file is a part");
            let outline = Outline::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(outline.outputs, [POOLED, "last_hidden_state"]);
            let last = outline.nodes.last().unwrap();
            assert_eq!(last.0, ["layer1.output"]);
            assert_eq!(last.1, ["last_hidden_state"]);
        }
    }

    #[test]
    fn a_graph_that_returns_them_stays() {
        let file = file(&graph(&[], "token_embeddings"));
        assert_eq!(with_token_vectors(file.path(), 2).unwrap(), None);
    }

    #[test]
    fn other_graphs_are_refused() {
        let error = |graph: &Graph| {
            let file = file(graph);
            with_token_vectors(file.path(), 2).unwrap_err()
        };
        let scorer = graph(&[("Gather", &["hidden", "first"], "pooled")], "logits");
        assert_eq!(error(&scorer).kind, ErrorKind::InvalidModel);
        let empty = error(&graph(&[], POOLED));
        assert_eq!(
            empty.detail.unwrap(),
            "it does not return the vectors of tokens, only sentence_embedding"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no graph").unwrap();
        let error = with_token_vectors(file.path(), 2).unwrap_err();
        assert_eq!(error.detail.unwrap(), "it is no ONNX graph");
    }
}
