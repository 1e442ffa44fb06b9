//! The ONNX file format: a graph of operators over named tensors, written as a Protocol Buffers
//! message.
//!
//! Field numbers are those of `onnx.proto` (IR version 8). Operators are those of opset 17 and of
//! ONNX Runtime's own domain `com.microsoft`, which has the fused operators of transformers.

use std::collections::HashSet;

use crate::protobuf::Message;

const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
const MICROSOFT: &str = "com.microsoft";
/// The producer's name in the files.
pub(crate) const PRODUCER: &str = "rag-model";

/// Type of a tensor's elements; the numbers are those of `TensorProto.DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    Float = 1,
    Int8 = 3,
    Int32 = 6,
    Int64 = 7,
}

/// A named constant of an operator.
#[derive(Debug, Clone, Copy)]
pub enum Attribute<'a> {
    Int(&'a str, i64),
    Float(&'a str, f32),
    Ints(&'a str, &'a [i64]),
}

/// Length of one axis of an input or output.
#[derive(Debug, Clone, Copy)]
pub enum Dimension<'a> {
    Fixed(usize),
    /// Known only when the graph runs.
    Named(&'a str),
}

/// A graph under construction. Tensors have names; a node may only use tensors that were added
/// before it.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Message,
    initializers: Message,
    inputs: Message,
    outputs: Message,
    constants: HashSet<String>,
}

impl Graph {
    /// Adds an operator of the ONNX standard.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute],
    ) {
        self.add_node("", operator, inputs, outputs, attributes);
    }

    /// Adds an operator of ONNX Runtime's own domain.
    pub fn fused_node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute],
    ) {
        self.add_node(MICROSOFT, operator, inputs, outputs, attributes);
    }

    fn add_node(
        &mut self,
        domain: &str,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node = node.string(1, input);
        }
        for output in outputs {
            node = node.string(2, output);
        }
        node = node
            .string(3, &format!("make {}", outputs.first().unwrap_or(&operator)))
            .string(4, operator);
        for attribute in attributes {
            let attribute = match attribute {
                Attribute::Int(name, value) => {
                    Message::default().string(1, name).int(3, *value).int(20, 2)
                }
                Attribute::Float(name, value) => Message::default()
                    .string(1, name)
                    .float(2, *value)
                    .int(20, 1),
                Attribute::Ints(name, values) => values
                    .iter()
                    .fold(Message::default().string(1, name), |message, value| {
                        message.int(8, *value)
                    })
                    .int(20, 7),
            };
            node = node.message(5, &attribute);
        }
        if !domain.is_empty() {
            node = node.string(7, domain);
        }
        self.nodes = std::mem::take(&mut self.nodes).message(1, &node);
    }

    /// Adds a constant tensor of 32-bit floats.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(name, ElementType::Float, shape, &bytes);
    }

    /// Adds a constant tensor of signed bytes.
    pub fn bytes(&mut self, name: &str, shape: &[usize], values: &[i8]) {
        let bytes: Vec<u8> = values.iter().map(|v| *v as u8).collect();
        self.constant(name, ElementType::Int8, shape, &bytes);
    }

    /// Adds a constant tensor of 64-bit integers: axes and shapes.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(name, ElementType::Int64, shape, &bytes);
    }

    /// Returns true if there is a constant of this name.
    pub fn has(&self, name: &str) -> bool {
        self.constants.contains(name)
    }

    fn constant(
        &mut self,
        name: &str,
        element: ElementType,
        shape: &[usize],
        little_endian: &[u8],
    ) {
        self.constants.insert(name.into());
        let mut tensor = Message::default();
        for length in shape {
            tensor = tensor.int(1, *length as i64);
        }
        tensor = tensor
            .int(2, element as i64)
            .string(8, name)
            .bytes(9, little_endian);
        self.initializers = std::mem::take(&mut self.initializers).message(5, &tensor);
    }

    pub fn input(&mut self, name: &str, element: ElementType, shape: &[Dimension]) {
        self.inputs =
            std::mem::take(&mut self.inputs).message(11, &value_info(name, element, shape));
    }

    pub fn output(&mut self, name: &str, element: ElementType, shape: &[Dimension]) {
        self.outputs =
            std::mem::take(&mut self.outputs).message(12, &value_info(name, element, shape));
    }

    /// Returns what can be appended to a file, so that its graph has these nodes and outputs, too.
    pub fn extension(&self) -> Vec<u8> {
        let graph = self.nodes.clone().merge(&self.outputs);
        Message::default().message(7, &graph).as_bytes().to_vec()
    }

    /// Returns the whole file.
    pub fn encode(&self, name: &str) -> Vec<u8> {
        let graph = self
            .nodes
            .clone()
            .string(2, name)
            .merge(&self.initializers)
            .merge(&self.inputs)
            .merge(&self.outputs);
        let opset =
            |domain: &str, version: i64| Message::default().string(1, domain).int(2, version);
        Message::default()
            .int(1, IR_VERSION)
            .string(2, PRODUCER)
            .message(7, &graph)
            .message(8, &opset("", OPSET))
            .message(8, &opset(MICROSOFT, 1))
            .as_bytes()
            .to_vec()
    }
}

fn value_info(name: &str, element: ElementType, shape: &[Dimension]) -> Message {
    let mut dimensions = Message::default();
    for dimension in shape {
        let dimension = match dimension {
            Dimension::Fixed(length) => Message::default().int(1, *length as i64),
            Dimension::Named(name) => Message::default().string(2, name),
        };
        dimensions = dimensions.message(1, &dimension);
    }
    let tensor = Message::default()
        .int(1, element as i64)
        .message(2, &dimensions);
    Message::default()
        .string(1, name)
        .message(2, &Message::default().message(1, &tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `y = x + c`, written by hand from `onnx.proto`.
    #[test]
    fn a_graph_of_one_node() {
        let mut graph = Graph::default();
        graph.floats("c", &[1], &[1.0]);
        graph.node("Add", &["x", "c"], &["y"], &[]);
        graph.input("x", ElementType::Float, &[Dimension::Named("n")]);
        graph.output("y", ElementType::Float, &[Dimension::Fixed(3)]);
        let parts: [&[u8]; 5] = [
            b"\x0a\x16\x0a\x01x\x0a\x01c\x12\x01y\x1a\x06make y\x22\x03Add", // node
            b"\x12\x01g",                                                    // the graph's name
            b"\x2a\x0d\x08\x01\x10\x01\x42\x01c\x4a\x04\x00\x00\x80\x3f",    // initializer
            b"\x5a\x10\x0a\x01x\x12\x0b\x0a\x09\x08\x01\x12\x05\x0a\x03\x12\x01n", // input
            b"\x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x03", // output
        ];
        let graph_bytes = parts.concat();
        let expected = [
            b"\x08\x08\x12\x09rag-model\x3a".as_slice(),
            &[graph_bytes.len() as u8],
            &graph_bytes,
            b"\x42\x04\x0a\x00\x10\x11\x42\x11\x0a\x0dcom.microsoft\x10\x01",
        ];
        assert_eq!(graph.encode("g"), expected.concat());
    }
}
