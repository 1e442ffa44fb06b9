//! Attention to the tokens within a distance, for a text of any length.
//!
//! The text is cut into blocks as long as the distance. The queries of a block see the keys of
//! their block, of the one before, and of the one after:
//!
//! ```text
//!  queries        |  b-1  |   b   |  b+1  |
//!  keys of b      |<─────────────────────>|     where |query - key| <= distance
//! ```
//!
//! So time and memory grow with the length of the text, and not with its square. Two penalties
//! make a weight zero: [`FAR`] for keys that are too far, the other one for keys before the
//! beginning and after the end of the text. Both are the same in all layers, and are computed once.

use crate::{
    onnx::{
        Attribute::{Int, Ints},
        Graph,
    },
    writer::Writer,
};

/// What is added to the score of a key that is not seen. It is finite, so that a row without any
/// seen key, which only padding has, gives numbers.
const UNSEEN: f32 = -1e30;
const FAR: &str = "window.far";
/// The sum of both penalties, of shape `[blocks, 1, distance, 3 * distance]`.
const PENALTY: &str = "window.penalty";

/// Writes the attention of one layer. The inputs are queries, keys and values of shape `[1, tokens,
/// hidden]`.
pub(crate) fn attention(writer: &mut Writer, name: &str, inputs: [&str; 3], distance: usize) {
    let (hidden, heads) = (writer.config.hidden, writer.config.heads);
    let graph = &mut writer.graph;
    if !graph.has(FAR) {
        prepare(graph, distance, hidden, heads);
    }
    let part = |part: &str| format!("{name}.{part}");

    graph.node(
        "Pad",
        &[inputs[0], "window.pads.queries"],
        &[&part("q.padded")],
        &[],
    );
    graph.node(
        "Mul",
        &[&part("q.padded"), "window.factor"],
        &[&part("q.scaled")],
        &[],
    );
    graph.node(
        "Reshape",
        &[&part("q.scaled"), "window.shape.queries"],
        &[&part("q.blocks")],
        &[],
    );
    let by_head = [Ints("perm", &[0, 2, 1, 3])];
    graph.node("Transpose", &[&part("q.blocks")], &[&part("q")], &by_head);
    for (input, letter, perm) in [
        (inputs[1], "k", [0, 2, 3, 1]),
        (inputs[2], "v", [0, 2, 1, 3]),
    ] {
        let part = |name: &str| part(&format!("{letter}{name}"));
        graph.node(
            "Pad",
            &[input, "window.pads.keys"],
            &[&part(".padded")],
            &[],
        );
        neighbours(graph, &part(""), "window.one", "window.shape.block");
        graph.node(
            "Reshape",
            &[&part(".near"), "window.shape.keys"],
            &[&part(".blocks")],
            &[],
        );
        graph.node(
            "Transpose",
            &[&part(".blocks")],
            &[&part("")],
            &[Ints("perm", &perm)],
        );
    }
    graph.node("MatMul", &[&part("q"), &part("k")], &[&part("scores")], &[]);
    graph.node("Add", &[&part("scores"), PENALTY], &[&part("seen")], &[]);
    graph.node(
        "Softmax",
        &[&part("seen")],
        &[&part("shares")],
        &[Int("axis", -1)],
    );
    graph.node(
        "MatMul",
        &[&part("shares"), &part("v")],
        &[&part("mixed")],
        &[],
    );
    graph.node("Transpose", &[&part("mixed")], &[&part("tokens")], &by_head);
    graph.node(
        "Reshape",
        &[&part("tokens"), "window.shape.text"],
        &[&part("padded")],
        &[],
    );
    graph.node(
        "Slice",
        &[
            &part("padded"),
            "window.zero",
            "window.tokens",
            "window.one",
        ],
        &[name],
        &[],
    );
}

/// Cuts `NAME.padded` along an axis into blocks, and joins each block with its neighbours to
/// `NAME.near`, along axis 1.
fn neighbours(graph: &mut Graph, name: &str, axis: &str, shape: &str) {
    let part = |part: &str| format!("{name}.{part}");
    for (which, end) in [
        ("before", "window.end.before"),
        ("same", "window.end.same"),
        ("after", "window.end.after"),
    ] {
        let inputs = [
            part("padded"),
            format!("window.start.{which}"),
            end.into(),
            axis.into(),
        ];
        let cut = part(&format!("{which}.cut"));
        graph.node(
            "Slice",
            &inputs.each_ref().map(String::as_str),
            &[&cut],
            &[],
        );
        graph.node("Reshape", &[&cut, shape], &[&part(which)], &[]);
    }
    let parts = ["before", "same", "after"].map(part);
    graph.node(
        "Concat",
        &parts.each_ref().map(String::as_str),
        &[&part("near")],
        &[Int("axis", 1)],
    );
}

/// Writes the constants, the lengths of the text at hand, and the penalties.
fn prepare(graph: &mut Graph, distance: usize, hidden: usize, heads: usize) {
    let block = distance as i64;
    let size = (hidden / heads) as i64;
    let heads = heads as i64;
    let constants: [(&str, &[i64]); 14] = [
        ("window.zero", &[0]),
        ("window.one", &[1]),
        ("window.block", &[block]),
        ("window.zeros", &[0, 0, 0, 0]),
        ("window.zeros.block", &[0, block, 0, 0]),
        ("window.start.before", &[0]),
        ("window.start.same", &[block]),
        ("window.start.after", &[2 * block]),
        ("window.end.before", &[-2 * block]),
        ("window.end.same", &[-block]),
        ("window.end.after", &[i64::MAX]),
        ("window.shape.queries", &[-1, block, heads, size]),
        ("window.shape.keys", &[-1, 3 * block, heads, size]),
        ("window.shape.block", &[-1, block, hidden as i64]),
    ];
    for (name, values) in constants {
        graph.integers(name, &[values.len()], values);
    }
    graph.integers("window.shape.text", &[3], &[1, -1, hidden as i64]);
    graph.integers("window.shape.row", &[2], &[-1, block]);
    graph.integers("window.axes", &[2], &[1, 2]);
    graph.floats("window.factor", &[], &[1.0 / (size as f32).sqrt()]);
    graph.floats("window.unseen", &[], &[UNSEEN]);
    graph.floats("window.nothing", &[1], &[0.0]);
    // the query at a place of its block sees the key at the same place of the block in the middle
    let far = |query: usize, key: usize| (query + distance).abs_diff(key) > distance;
    let penalties: Vec<f32> = (0..distance)
        .flat_map(|query| {
            (0..3 * distance).map(move |key| if far(query, key) { UNSEEN } else { 0.0 })
        })
        .collect();
    graph.floats(FAR, &[distance, 3 * distance], &penalties);

    let last = [Int("start", 1), Int("end", 2)];
    graph.node("Shape", &["input_ids"], &["window.tokens"], &last);
    graph.node("Neg", &["window.tokens"], &["window.negative"], &[]);
    // the result of Mod has the sign of the divisor
    graph.node(
        "Mod",
        &["window.negative", "window.block"],
        &["window.missing"],
        &[],
    );
    graph.node(
        "Add",
        &["window.missing", "window.block"],
        &["window.after"],
        &[],
    );
    let join = [Int("axis", 0)];
    graph.node(
        "Concat",
        &["window.zeros", "window.missing", "window.zero"],
        &["window.pads.queries"],
        &join,
    );
    graph.node(
        "Concat",
        &["window.zeros.block", "window.after", "window.zero"],
        &["window.pads.keys"],
        &join,
    );
    graph.node(
        "Expand",
        &["window.nothing", "window.tokens"],
        &["window.text"],
        &[],
    );
    graph.node(
        "Concat",
        &["window.block", "window.after"],
        &["window.pads.text"],
        &join,
    );
    graph.node(
        "Pad",
        &["window.text", "window.pads.text", "window.unseen"],
        &["window.outside.padded"],
        &[],
    );
    neighbours(graph, "window.outside", "window.zero", "window.shape.row");
    graph.node(
        "Unsqueeze",
        &["window.outside.near", "window.axes"],
        &["window.outside"],
        &[],
    );
    graph.node("Add", &["window.outside", FAR], &[PENALTY], &[]);
}
