//! Source code: keeps the text as written, and finds where functions, types and statements begin
//! and what encloses what.
//!
//! `tree-sitter` parses two dozen languages, even if the file is incomplete or incorrect. Its tree
//! is reduced to [`Boundary`]s and [`Symbol`]s. A boundary is the start of a line at which a
//! syntactic element begins, with the depth of that element. A comment, an attribute or a decorator
//! belongs to the element after it, so the boundary is before the first of them. The head of a
//! function or a type belongs to the first lines of its body, so there is no boundary between them.
//! There is none before a closing line either. Symbols are the names of functions and types, which
//! a chunk from the middle of one does not contain.
//!
//! The parser is C code with its own stack, so source code is read in a separate process, like
//! PDFs. Its time is limited in steps, not in seconds, so that a file gives the same chunks on
//! every machine. A file is split at lines if it is larger than [`MAX_PARSED`], takes too many
//! steps, or is in a language without a grammar.

mod symbol;

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Map;
use tree_sitter::{Node, ParseOptions, Parser, Tree};

pub use self::symbol::Symbol;
use crate::{ExtractedDocument, Structure, language, title};

/// Maximum size of a file that is parsed, in bytes.
const MAX_PARSED: usize = 1 << 20;
/// Maximum nesting that boundaries distinguish.
const MAX_DEPTH: u8 = 20;
/// Maximum number of calls of the parser's progress callback for a KiB of source. Each call stands
/// for some hundred steps.
const STEPS_PER_KIB: usize = 2_000;

/// Number of lines of a body that are not separated from the head of the function or type.
const FIRST_LINES: usize = 3;

/// A place in source code where it may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Byte at which the element begins.
    pub at: usize,
    /// Number of elements around it.
    pub depth: u8,
}

/// The syntax of a file, as far as it matters for splitting, each in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syntax {
    pub boundaries: Vec<Boundary>,
    pub symbols: Vec<Symbol>,
}

pub fn extract(file: &str, name: &str) -> ExtractedDocument {
    let language = language::of(crate::kind::path(name));
    let syntax = language
        .map(|language| syntax(file, language))
        .unwrap_or_default();
    let mut metadata = Map::new();
    if let Some(language) = language {
        metadata.insert("language".into(), language.into());
    }
    let extracted = ExtractedDocument::new(
        file.to_owned(),
        title::file_name(name),
        Structure::Code(syntax),
    );
    ExtractedDocument {
        metadata,
        place: place(name),
        ..extracted
    }
}

/// Returns the end of a file's path, which tells where in a project the file is.
fn place(name: &str) -> String {
    const PARTS: usize = 4;
    const MAX_BYTES: usize = 120;
    let path = crate::kind::path(name);
    let mut start = path.len();
    for (at, _) in path.rmatch_indices('/').chain([(0, "")]).take(PARTS) {
        if path.len() - at > MAX_BYTES {
            break;
        }
        start = at;
    }
    path[start..]
        .trim_matches('/')
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

/// Returns an empty syntax if the file is not parsed.
fn syntax(file: &str, language: &str) -> Syntax {
    if file.len() > MAX_PARSED {
        return Syntax::default();
    }
    match parse(file, language) {
        Some(tree) => collect(file, &tree),
        None => Syntax::default(),
    }
}

fn parse(file: &str, language: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language::grammar(language)?).ok()?;
    let mut steps = STEPS_PER_KIB * (file.len() / 1024 + 1);
    let mut progress = |_: &_| match steps.checked_sub(1) {
        Some(left) => {
            steps = left;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(
        &mut |at, _| &file.as_bytes()[at.min(file.len())..],
        None,
        Some(options),
    )
}

/// One level of the tree during the walk.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Where the comments and attributes begin that belong to the next element.
    lead: Option<usize>,
    /// Where the element above begins, with its comments, and its line.
    above: Option<(usize, usize)>,
}

/// Walks the tree without recursion. Of elements that begin at one place the outermost counts.
fn collect(file: &str, tree: &Tree) -> Syntax {
    let mut found = Syntax::default();
    let mut cursor = tree.walk();
    let mut levels = vec![Level::default()];
    // The first line after which there may be a boundary again.
    let mut head_end = 0;
    loop {
        let node = cursor.node();
        let (at, row, depth) = (
            node.start_byte(),
            node.start_position().row,
            levels.len() - 1,
        );
        let begins_line = begins_line(file, at);
        let level = levels.last_mut();
        let (lead, above) = level
            .as_ref()
            .map_or((None, None), |level| (level.lead, level.above));
        if depth > 0
            && begins_line
            && lead.is_none()
            && node.is_named()
            && row >= head_end
            && found.boundaries.last().is_none_or(|last| last.at < at)
        {
            found.boundaries.push(Boundary {
                at,
                depth: depth as u8,
            });
        }
        let begin = lead.unwrap_or(match above {
            // `export function f`, and elements after a decorator.
            Some((begin, line)) if depth > 1 && line == row => begin,
            _ => at,
        });
        if begins_line && let Some(level) = level {
            level.lead = is_lead(file, &node).then_some(begin);
        }
        // Elements on one line have no boundary inside.
        let is_open = node.end_position().row > row && depth < usize::from(MAX_DEPTH);
        if is_open && depth > 0 {
            let name = symbol::name(file, &node);
            let (body, first_lines) = match name {
                Some(_) => (symbol::body(&node), FIRST_LINES),
                // A condition is not separated from the code that depends on it.
                None => (symbol::body_field(&node), 1),
            };
            found.symbols.extend(name.map(|name| Symbol {
                at: begin,
                end: node.end_byte(),
                name,
            }));
            if let Some(body) = body.map(|body| body.start_position().row) {
                head_end = head_end.max(body + first_lines);
            }
        }
        if is_open && cursor.goto_first_child() {
            let above = if depth > 0 { Some((begin, row)) } else { None };
            levels.push(Level { lead: None, above });
            continue;
        }
        loop {
            if cursor.goto_next_sibling() {
                break;
            }
            if !cursor.goto_parent() {
                return found;
            }
            levels.pop();
        }
    }
}

/// Returns true if only white space is before `at` on its line.
fn begins_line(file: &str, at: usize) -> bool {
    let before = &file.as_bytes()[..at.min(file.len())];
    before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Returns true if an element belongs to the next one: a comment, attribute or decorator with no
/// empty line after it.
fn is_lead(file: &str, node: &Node) -> bool {
    let kind = node.kind();
    // A type signature of Haskell is a line of its own. An `attribute` of HCL is a statement.
    if !(kind.contains("comment")
        || kind == "signature"
        || (kind.contains("attribute") && kind != "attribute")
        || kind.contains("decorator")
        || kind.contains("annotation"))
    {
        return false;
    }
    // Some grammars include the line end in a comment, others do not.
    let Some((before, after)) = file.split_at_checked(node.end_byte()) else {
        return false;
    };
    let lines = |space: &str| space.bytes().filter(|byte| *byte == b'\n').count();
    let (inside, outside) = (
        &before[before.trim_end().len()..],
        &after[..after.len() - after.trim_start().len()],
    );
    lines(inside) + lines(outside) < 2
}

#[cfg(test)]
mod tests;
