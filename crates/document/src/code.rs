//! Source code: the text as written, and where its functions, types and statements begin.
//!
//! `tree-sitter` parses a dozen languages, whether the file is complete and correct or not. What it finds is boiled down
//! to [`Boundary`]s: the starts of lines at which a syntactic element begins, with the depth of that element. A comment, an
//! attribute or a decorator belongs to what follows it, so the boundary is before the first of them.
//!
//! The parser is C code with a stack of its own; so source code is read in a process of its own, like PDFs. How long it may
//! take is bounded in steps, not in seconds, so that a file gives the same chunks on every machine. A file that is larger
//! than [`MAX_PARSED`], takes too many steps, or is in a language without a grammar is split by lines.

use std::ops::ControlFlow;

use rag_protocol::ingest::Title;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use tree_sitter::{Node, ParseOptions, Parser, Tree};

use crate::{Extracted, Structure, language, title};

/// Largest file that is parsed, in bytes.
const MAX_PARSED: usize = 1 << 20;
/// Deepest nesting that boundaries are told apart by.
const MAX_DEPTH: u8 = 20;
/// Most calls of the parser's progress callback (each stands for some hundred steps) for a KiB of source.
const STEPS_PER_KIB: usize = 2_000;

/// A place in source code before which it may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Byte at which the element begins.
    pub at: usize,
    /// How many elements it is inside of.
    pub depth: u8,
}

pub fn extract(file: &str, name: &str) -> Extracted {
    let language = language::of(crate::kind::path(name));
    let boundaries = language.map(|language| boundaries(file, language)).unwrap_or_default();
    let mut metadata = Map::new();
    if let Some(language) = language {
        metadata.insert("language".into(), language.into());
    }
    let title: Title = title::from_name(name);
    Extracted { metadata, ..Extracted::new(file.to_owned(), title, Structure::Code(boundaries)) }
}

/// In order; none where the file is not parsed.
fn boundaries(file: &str, language: &str) -> Vec<Boundary> {
    if file.len() > MAX_PARSED {
        return vec![];
    }
    match parse(file, language) {
        Some(tree) => collect(file, &tree),
        None => vec![],
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
    parser.parse_with_options(&mut |at, _| &file.as_bytes()[at.min(file.len())..], None, Some(options))
}

/// Walks the tree without recursion. Of the elements that begin at one place the outermost counts.
fn collect(file: &str, tree: &Tree) -> Vec<Boundary> {
    let mut boundaries: Vec<Boundary> = vec![];
    let mut cursor = tree.walk();
    let mut depth = 0u8;
    // Whether the element before, on the same level, belongs to the one that follows.
    let mut leads = vec![false];
    loop {
        let node = cursor.node();
        let at = node.start_byte();
        let begins_line = begins_line(file, at);
        let after_lead = leads.last().copied().unwrap_or(false);
        if depth > 0 && begins_line && !after_lead && boundaries.last().is_none_or(|last| last.at < at) {
            boundaries.push(Boundary { at, depth });
        }
        if begins_line && let Some(last) = leads.last_mut() {
            *last = is_lead(file, &node);
        }
        // What is on one line has no boundary inside.
        let is_open = node.end_position().row > node.start_position().row && depth < MAX_DEPTH;
        if is_open && cursor.goto_first_child() {
            depth += 1;
            leads.push(false);
            continue;
        }
        loop {
            if cursor.goto_next_sibling() {
                break;
            }
            if !cursor.goto_parent() {
                return boundaries;
            }
            depth = depth.saturating_sub(1);
            leads.pop();
        }
    }
}

/// Whether nothing but white space is before `at` on its line.
fn begins_line(file: &str, at: usize) -> bool {
    let before = &file.as_bytes()[..at.min(file.len())];
    before.iter().rev().take_while(|byte| **byte != b'\n').all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Whether an element belongs to the next: a comment, attribute or decorator with no empty line after it.
fn is_lead(file: &str, node: &Node) -> bool {
    let kind = node.kind();
    if !(kind.contains("comment")
        || kind.contains("attribute")
        || kind.contains("decorator")
        || kind.contains("annotation"))
    {
        return false;
    }
    // Some grammars take the end of the line into a comment, others do not.
    let Some((before, after)) = file.split_at_checked(node.end_byte()) else { return false };
    let lines = |space: &str| space.bytes().filter(|byte| *byte == b'\n').count();
    let (inside, outside) = (&before[before.trim_end().len()..], &after[..after.len() - after.trim_start().len()]);
    lines(inside) + lines(outside) < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(file: &str, language: &str) -> Vec<(u8, String)> {
        boundaries(file, language)
            .iter()
            .map(|b| (b.depth, file[b.at..].lines().next().unwrap_or_default().to_owned()))
            .collect()
    }

    fn has(file: &str, language: &str, depth: u8, line: &str) {
        let starts = starts(file, language);
        assert!(starts.contains(&(depth, line.to_owned())), "{language}: {starts:#?}");
    }

    #[test]
    fn functions_begin_with_their_comments_and_attributes() {
        let rust = "use std::io;\n\n/// Adds.\n#[inline]\nfn add(a: i32) -> i32 {\n    let b = a;\n    b + a\n}\n\n// loose\n\nfn z() {}\n";
        let at_top: Vec<String> =
            starts(rust, "rust").into_iter().filter(|(depth, _)| *depth == 1).map(|(_, line)| line).collect();
        assert_eq!(at_top, ["use std::io;", "/// Adds.", "// loose", "fn z() {}"]);
    }

    #[test]
    fn every_grammar_finds_its_functions() {
        for (language, file, line) in [
            ("bash", "a=1\nf() {\n  echo\n}\n", "f() {"),
            ("c", "int a;\nint f(void) {\n  return 1;\n}\n", "int f(void) {"),
            ("cpp", "int a;\nclass F {\n  int b;\n};\n", "class F {"),
            ("csharp", "using A;\nclass F {\n  int B() {\n    return 1;\n  }\n}\n", "class F {"),
            ("go", "package a\n\nfunc f() {\n\treturn\n}\n", "func f() {"),
            ("java", "import a.B;\nclass F {\n  int b() {\n    return 1;\n  }\n}\n", "class F {"),
            ("javascript", "let a;\nfunction f() {\n  return 1;\n}\n", "function f() {"),
            ("php", "<?php\n$a = 1;\nfunction f() {\n  return 1;\n}\n", "function f() {"),
            ("python", "import a\n\ndef f():\n    return 1\n", "def f():"),
            ("ruby", "require 'a'\ndef f\n  1\nend\n", "def f"),
            ("rust", "use a;\nfn f() {\n    g();\n}\n", "fn f() {"),
            ("tsx", "let a;\nfunction F() {\n  return <p>\n  </p>;\n}\n", "function F() {"),
            ("typescript", "let a;\nfunction f(): number {\n  return 1;\n}\n", "function f(): number {"),
        ] {
            has(file, language, 1, line);
        }
    }

    #[test]
    fn deep_and_damaged_sources_are_read() {
        for file in [&"(".repeat(200_000), &"{[<\"'\n".repeat(20_000), &"if a:\n ".repeat(20_000), "\u{FFFD}\u{0}\n\\"]
        {
            for language in ["rust", "python", "cpp", "bash", "php", "ruby", "javascript"] {
                boundaries(file, language);
            }
        }
    }

    #[test]
    fn a_huge_file_is_not_parsed() {
        assert_eq!(boundaries(&"fn f() {}\n".repeat(200_000), "rust"), []);
    }
}
