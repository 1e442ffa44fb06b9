//! Functions, types and similar symbols: the name of a syntactic element, and where its body is.
//!
//! Grammars name their elements alike, so most are recognized by a few words in their kind, by the
//! field `name` and by having a body. Exceptions are listed.

use serde::{Deserialize, Serialize};
use tree_sitter::Node;

/// A named element that contains code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// Byte at which it begins, including the comments, attributes and decorators before it.
    pub at: usize,
    /// Byte at which it ends.
    pub end: usize,
    /// One line, at most 80 characters.
    pub name: String,
}

const MAX_CHARS: usize = 80;
/// Parts of the kinds of elements that have a body.
const WITH_BODY: [&str; 19] = [
    "class",
    "constructor",
    "enum",
    "extension",
    "func",
    "impl",
    "init_declaration",
    "instance",
    "interface",
    "method",
    "mod_item",
    "module",
    "namespace",
    "object",
    "protocol",
    "record",
    "struct",
    "trait",
    "union",
];
/// Kinds of elements that are symbols even without a body.
const WITHOUT_BODY: [&str; 10] = [
    "bind",
    "block_mapping_pair",
    "data_type",
    "function",
    "macro_definition",
    "newtype",
    "preproc_function_def",
    "type_alias_declaration",
    "type_item",
    "type_spec",
];
/// Elixir's definitions are calls of these.
const ELIXIR: [&str; 8] = [
    "def",
    "defdelegate",
    "defimpl",
    "defmacro",
    "defmacrop",
    "defmodule",
    "defp",
    "defprotocol",
];

/// Returns the name of a symbol, or `None` if the element is not a symbol.
pub fn name(file: &str, node: &Node) -> Option<String> {
    let text = |node: Node| file.get(node.byte_range());
    let field = |name: &str| node.child_by_field_name(name);
    let name = match node.kind() {
        "impl_item" => {
            let name = text(field("type")?)?;
            field("trait")
                .and_then(text)
                .map_or_else(|| name.to_owned(), |of| format!("{of} for {name}"))
        }
        "method_declaration" if field("receiver").is_some() => {
            let receiver = text(field("receiver")?)?.trim_matches(['(', ')']);
            let of = receiver
                .split_whitespace()
                .next_back()?
                .trim_start_matches('*');
            format!("{of}.{}", text(field("name")?)?)
        }
        "call" => {
            let target = text(field("target")?)?;
            let arguments = child(node, |kind| kind == "arguments")?;
            child(node, |kind| kind == "do_block").filter(|_| ELIXIR.contains(&target))?;
            text(arguments)?.split('(').next()?.to_owned()
        }
        // HCL: resource "aws_instance" "web".
        "block" if child(node, |kind| kind == "block_start").is_some() => {
            let start = child(node, |kind| kind == "block_start")?;
            file.get(node.start_byte()..start.start_byte())?
                .replace('"', "")
        }
        "variable_declarator" | "pair" | "public_field_definition" | "field_definition" => {
            let value = field("value").filter(|value| value.kind().contains("function"))?;
            body(&value)?;
            text(
                field("name")
                    .or_else(|| field("key"))
                    .or_else(|| field("property"))?,
            )?
            .to_owned()
        }
        "type_definition" => {
            body(&field("type")?)?;
            text(field("declarator")?)?.to_owned()
        }
        kind if kind.starts_with("create_") => {
            text(child(node, |kind| kind == "object_reference")?)?.to_owned()
        }
        "block_mapping_pair" => text(field("key")?)?.to_owned(),
        kind if is_symbol(kind, node) => text(name_of(*node)?)?.to_owned(),
        _ => return None,
    };
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = name
        .char_indices()
        .nth(MAX_CHARS)
        .map_or(name.len(), |(end, _)| end);
    (!name.is_empty()).then(|| name[..end].to_owned())
}

fn is_symbol(kind: &str, node: &Node) -> bool {
    const NO_SYMBOL: [&str; 6] = [
        "call",
        "expression",
        "body",
        "type_parameter",
        "declarator",
        "specifiers",
    ];
    WITHOUT_BODY.contains(&kind)
        || (WITH_BODY.iter().any(|part| kind.contains(part))
            && !NO_SYMBOL.iter().any(|part| kind.contains(part))
            && body(node).is_some())
}

/// Returns the field `name`, that of the innermost declarator (C), or the first identifier.
fn name_of<'a>(node: Node<'a>) -> Option<Node<'a>> {
    const MAX_DEPTH: usize = 8;
    if let Some(name) = node.child_by_field_name("name") {
        return Some(name);
    }
    let mut inner = node;
    for _ in 0..MAX_DEPTH {
        match inner.child_by_field_name("declarator") {
            Some(declarator) => inner = declarator,
            None => break,
        }
    }
    if inner != node {
        Some(inner)
    } else {
        child(&node, |kind| kind.contains("identifier"))
    }
}

/// Returns the body of an element.
pub fn body<'a>(node: &Node<'a>) -> Option<Node<'a>> {
    body_field(node).or_else(|| {
        let is_body = |kind: &str| {
            ["body", "block", "declaration_list", "statement_block"]
                .iter()
                .any(|part| kind.ends_with(part))
        };
        child(node, is_body)
    })
}

/// Returns the body of an element whose grammar has a field for it.
pub fn body_field<'a>(node: &Node<'a>) -> Option<Node<'a>> {
    ["body", "consequence", "block", "declarations", "fields"]
        .iter()
        .find_map(|name| node.child_by_field_name(name))
}

fn child<'a>(node: &Node<'a>, is_it: impl Fn(&str) -> bool) -> Option<Node<'a>> {
    /// A list of data may have a million elements.
    const MOST: usize = 50;
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .take(MOST)
        .find(|child| is_it(child.kind()))
}
