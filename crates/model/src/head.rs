//! What follows the encoder: one vector of length 1 per text, or one score per pair.

use rag_protocol::EngineError;

use crate::{
    config::{Family, Purpose},
    onnx::{
        Attribute::Int,
        Dimension::{Fixed, Named},
        ElementType,
    },
    settings::{Pooling, Settings},
    writer::Writer,
};

/// Writes the output of the graph.
///
/// # Errors
/// See [`crate::graph::graph`].
pub(crate) fn output(
    writer: &mut Writer,
    hidden: &str,
    settings: &Settings,
) -> Result<(), EngineError> {
    let dimensions = writer.config.hidden;
    if writer.config.purpose == Purpose::Score {
        score(writer, hidden)?;
        writer
            .graph
            .output("logits", ElementType::Float, &[Named("texts"), Fixed(1)]);
        return Ok(());
    }
    // rag-engine does the rest
    if !settings.steps.is_empty()
        || !settings.normalizes
        || matches!(settings.pooling, Pooling::Last | Pooling::Max)
    {
        writer
            .graph
            .node("Identity", &[hidden], &["last_hidden_state"], &[]);
        writer.graph.output(
            "last_hidden_state",
            ElementType::Float,
            &[Named("texts"), Named("tokens"), Fixed(dimensions)],
        );
        return Ok(());
    }
    pool(writer, hidden, settings.pooling == Pooling::Cls);
    writer.graph.node(
        "LpNormalization",
        &["pooled"],
        &["sentence_embedding"],
        &[Int("axis", -1), Int("p", 2)],
    );
    writer.graph.output(
        "sentence_embedding",
        ElementType::Float,
        &[Named("texts"), Fixed(dimensions)],
    );
    Ok(())
}

/// Pools the tokens' vectors to `pooled`: that of the first token, or their mean.
fn pool(writer: &mut Writer, hidden: &str, is_first: bool) {
    let is_alone = writer.takes_texts_alone();
    let graph = &mut writer.graph;
    if is_first {
        graph.integers("first", &[], &[0]);
        graph.node("Gather", &[hidden, "first"], &["pooled"], &[Int("axis", 1)]);
        return;
    }
    if is_alone {
        let attributes = [
            crate::onnx::Attribute::Ints("axes", &[1]),
            Int("keepdims", 0),
        ];
        graph.node("ReduceMean", &[hidden], &["pooled"], &attributes);
        return;
    }
    // mask [texts, 1, tokens] x hidden [texts, tokens, h] is the sum over the tokens that count.
    graph.integers("axis1", &[1], &[1]);
    graph.node(
        "Cast",
        &["attention_mask"],
        &["weights"],
        &[Int("to", ElementType::Float as i64)],
    );
    graph.node("Unsqueeze", &["weights", "axis1"], &["weights.row"], &[]);
    graph.node("MatMul", &["weights.row", hidden], &["total.row"], &[]);
    graph.node("Squeeze", &["total.row", "axis1"], &["total"], &[]);
    graph.node(
        "ReduceSum",
        &["weights", "axis1"],
        &["tokens"],
        &[Int("keepdims", 1)],
    );
    graph.node("Div", &["total", "tokens"], &["pooled"], &[]);
}

/// Names of the layers of a head, beside the encoder.
struct HeadNames {
    dense: String,
    norm: Option<&'static str>,
    classifier: &'static str,
}

/// The head of a `*ForSequenceClassification` with one label. Its weights are floats in both
/// precisions: they are few.
fn score(writer: &mut Writer, hidden: &str) -> Result<(), EngineError> {
    let names = match writer.config.family {
        Family::Bert | Family::NomicBert => HeadNames {
            dense: format!("{}pooler.dense", writer.prefix),
            norm: None,
            classifier: "classifier",
        },
        Family::Roberta | Family::Mpnet => HeadNames {
            dense: "classifier.dense".into(),
            norm: None,
            classifier: "classifier.out_proj",
        },
        Family::DistilBert => HeadNames {
            dense: "pre_classifier".into(),
            norm: None,
            classifier: "classifier",
        },
        Family::ModernBert => HeadNames {
            dense: "head.dense".into(),
            norm: Some("head.norm"),
            classifier: "classifier",
        },
    };
    writer.prefix = "";
    let size = writer.config.hidden;
    pool(writer, hidden, !writer.config.head_reads_mean);
    let dense = affine(writer, "pooled", "head.dense", &names.dense, [size, size])?;
    writer.activate(writer.config.head_activation, &dense, "head.active");
    let mut active = "head.active";
    if let Some(norm) = names.norm {
        writer.normalise(active, norm, "head.normalised")?;
        active = "head.normalised";
    }
    let logits = affine(writer, active, "head.score", names.classifier, [1, size])?;
    writer.graph.node("Identity", &[&logits], &["logits"], &[]);
    Ok(())
}

/// A dense layer of floats. Returns the name of its output.
fn affine(
    writer: &mut Writer,
    input: &str,
    name: &str,
    layer: &str,
    shape: [usize; 2],
) -> Result<String, EngineError> {
    let matrix = writer.weight(&format!("{layer}.weight"), &shape)?;
    let constant = format!("{name}.matrix");
    writer.graph.floats(&constant, &shape, &matrix);
    let mut inputs = vec![input.to_owned(), constant];
    let bias = format!("{layer}.bias");
    if writer.has(&bias) {
        let constant = format!("{name}.bias");
        writer.vector(&bias, &constant, shape[0])?;
        inputs.push(constant);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    writer
        .graph
        .node("Gemm", &inputs, &[name], &[Int("transB", 1)]);
    Ok(name.into())
}
