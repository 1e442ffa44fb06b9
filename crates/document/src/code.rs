//! Source code: the text as written, where its functions, types and statements begin, and what
//! encloses what.
//!
//! `tree-sitter` parses two dozen languages, whether the file is complete and correct or not. What
//! it finds is boiled down to [`Boundary`]s and [`Symbol`]s. A boundary is the start of a line at
//! which a syntactic element begins, with the depth of that element. A comment, an attribute or a
//! decorator belongs to what follows it, so the boundary is before the first of them. The head of a
//! function or a type belongs to the first lines of its body, so there is no boundary between them,
//! nor is there one before what only ends something. Symbols are what functions and types are
//! called, which a piece from the middle of one does not say.
//!
//! The parser is C code with a stack of its own; so source code is read in a process of its own,
//! like PDFs. How long it may take is bounded in steps, not in seconds, so that a file gives the
//! same chunks on every machine. A file that is larger than [`MAX_PARSED`], takes too many steps,
//! or is in a language without a grammar is split by lines.

mod symbol;

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Map;
use tree_sitter::{Node, ParseOptions, Parser, Tree};

pub use self::symbol::Symbol;
use crate::{Extracted, Structure, language, title};

/// Largest file that is parsed, in bytes.
const MAX_PARSED: usize = 1 << 20;
/// Deepest nesting that boundaries are told apart by.
const MAX_DEPTH: u8 = 20;
/// Most calls of the parser's progress callback (each stands for some hundred steps) for a KiB of
/// source.
const STEPS_PER_KIB: usize = 2_000;

/// Lines of the body of a function or a type that its head is not parted from.
const FIRST_LINES: usize = 3;

/// A place in source code before which it may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Byte at which the element begins.
    pub at: usize,
    /// How many elements it is inside of.
    pub depth: u8,
}

/// What the syntax says of a file, each in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syntax {
    pub boundaries: Vec<Boundary>,
    pub symbols: Vec<Symbol>,
}

pub fn extract(file: &str, name: &str) -> Extracted {
    let language = language::of(crate::kind::path(name));
    let syntax = language
        .map(|language| syntax(file, language))
        .unwrap_or_default();
    let mut metadata = Map::new();
    if let Some(language) = language {
        metadata.insert("language".into(), language.into());
    }
    let extracted = Extracted::new(
        file.to_owned(),
        title::file_name(name),
        Structure::Code(syntax),
    );
    Extracted {
        metadata,
        place: place(name),
        ..extracted
    }
}

/// The end of a file's path, as far as it tells where in a project the file is.
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

/// Nothing where the file is not parsed.
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

/// One level of the tree while it is walked.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Where the elements before begin that belong to the one that follows.
    lead: Option<usize>,
    /// Where the element above begins, with what belongs to it, and its line.
    above: Option<(usize, usize)>,
}

/// Walks the tree without recursion. Of the elements that begin at one place the outermost counts.
fn collect(file: &str, tree: &Tree) -> Syntax {
    let mut found = Syntax::default();
    let mut cursor = tree.walk();
    let mut levels = vec![Level::default()];
    // the first line after which there may be a boundary again
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
            // `export function f`, and what is after a decorator
            Some((begin, line)) if depth > 1 && line == row => begin,
            _ => at,
        });
        if begins_line && let Some(level) = level {
            level.lead = is_lead(file, &node).then_some(begin);
        }
        // What is on one line has no boundary inside.
        let is_open = node.end_position().row > row && depth < usize::from(MAX_DEPTH);
        if is_open && depth > 0 {
            let name = symbol::name(file, &node);
            let (body, first_lines) = match name {
                Some(_) => (symbol::body(&node), FIRST_LINES),
                // a condition, which is not parted from what depends on it
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

/// Whether nothing but white space is before `at` on its line.
fn begins_line(file: &str, at: usize) -> bool {
    let before = &file.as_bytes()[..at.min(file.len())];
    before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Whether an element belongs to the next: a comment, attribute or decorator with no empty line
/// after it.
fn is_lead(file: &str, node: &Node) -> bool {
    let kind = node.kind();
    // A type signature of Haskell is a line of its own; what HCL calls an attribute is a statement.
    if !(kind.contains("comment")
        || kind == "signature"
        || (kind.contains("attribute") && kind != "attribute")
        || kind.contains("decorator")
        || kind.contains("annotation"))
    {
        return false;
    }
    // Some grammars take the end of the line into a comment, others do not.
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
mod tests {
    use super::*;

    fn starts(file: &str, language: &str) -> Vec<(u8, String)> {
        syntax(file, language)
            .boundaries
            .iter()
            .map(|b| {
                (
                    b.depth,
                    file[b.at..].lines().next().unwrap_or_default().to_owned(),
                )
            })
            .collect()
    }

    fn has(file: &str, language: &str, depth: u8, line: &str) {
        let starts = starts(file, language);
        assert!(
            starts.contains(&(depth, line.to_owned())),
            "{language}: {starts:#?}"
        );
    }

    #[test]
    fn functions_begin_with_their_comments_and_attributes() {
        let rust = "use std::io;\n\n/// Adds.\n#[inline]\nfn add(a: i32) -> i32 {\n    let b = a;\n    b + a\n}\n\n// loose\n\nfn z() {}\n";
        let at_top: Vec<String> = starts(rust, "rust")
            .into_iter()
            .filter(|(depth, _)| *depth == 1)
            .map(|(_, line)| line)
            .collect();
        assert_eq!(
            at_top,
            ["use std::io;", "/// Adds.", "// loose", "fn z() {}"]
        );
    }

    #[test]
    fn every_grammar_finds_its_functions() {
        for (language, file, line) in [
            ("bash", "a=1\nf() {\n  echo\n}\n", "f() {"),
            (
                "c",
                "int a;\nint f(void) {\n  return 1;\n}\n",
                "int f(void) {",
            ),
            ("cpp", "int a;\nclass F {\n  int b;\n};\n", "class F {"),
            (
                "csharp",
                "using A;\nclass F {\n  int B() {\n    return 1;\n  }\n}\n",
                "class F {",
            ),
            ("go", "package a\n\nfunc f() {\n\treturn\n}\n", "func f() {"),
            (
                "java",
                "import a.B;\nclass F {\n  int b() {\n    return 1;\n  }\n}\n",
                "class F {",
            ),
            (
                "javascript",
                "let a;\nfunction f() {\n  return 1;\n}\n",
                "function f() {",
            ),
            (
                "php",
                "<?php\n$a = 1;\nfunction f() {\n  return 1;\n}\n",
                "function f() {",
            ),
            ("python", "import a\n\ndef f():\n    return 1\n", "def f():"),
            ("ruby", "require 'a'\ndef f\n  1\nend\n", "def f"),
            ("rust", "use a;\nfn f() {\n    g();\n}\n", "fn f() {"),
            (
                "tsx",
                "let a;\nfunction F() {\n  return <p>\n  </p>;\n}\n",
                "function F() {",
            ),
            (
                "typescript",
                "let a;\nfunction f(): number {\n  return 1;\n}\n",
                "function f(): number {",
            ),
            (
                "elixir",
                "x = 1\ndefmodule A do\n  def f do\n    1\n  end\nend\n",
                "defmodule A do",
            ),
            ("haskell", "import A\n\nf :: Int\nf =\n  1\n", "f :: Int"),
            (
                "kotlin",
                "val a = 1\nfun f(): Int {\n  return 1\n}\n",
                "fun f(): Int {",
            ),
            (
                "lua",
                "local a = 1\nfunction f()\n  return 1\nend\n",
                "function f()",
            ),
            (
                "scala",
                "import a\nclass F {\n  def b = 1\n}\n",
                "class F {",
            ),
            (
                "sql",
                "SELECT 1;\nCREATE TABLE t (\n  a int\n);\n",
                "CREATE TABLE t (",
            ),
            (
                "swift",
                "let a = 1\nfunc f() -> Int {\n  return 1\n}\n",
                "func f() -> Int {",
            ),
        ] {
            has(file, language, 1, line);
        }
        // all of it is an element of its own
        has(
            "a = 1\nresource \"x\" \"y\" {\n  b = 1\n}\n",
            "hcl",
            2,
            "resource \"x\" \"y\" {",
        );
        has("a: 1\njobs:\n  b: 1\n  c: 2\n", "yaml", 4, "jobs:");
    }

    /// The names of what encloses a line.
    fn path(file: &str, language: &str, line: &str) -> Vec<String> {
        let at = file.find(line).unwrap();
        let inside = |symbol: &&Symbol| symbol.at <= at && at < symbol.end;
        syntax(file, language)
            .symbols
            .iter()
            .filter(inside)
            .map(|symbol| symbol.name.clone())
            .collect()
    }

    #[test]
    fn symbols_enclose_their_code() {
        for (language, file, expected) in [
            ("bash", "f() {\n  HERE\n}\n", &["f"][..]),
            ("c", "static int *\nf(int a)\n{\n  HERE;\n}\n", &["f"]),
            ("c", "typedef struct {\n  int HERE;\n} point;\n", &["point"]),
            (
                "cpp",
                "namespace a {\nclass F {\n  int g() {\n    HERE;\n  }\n};\n}\n",
                &["a", "F", "g"],
            ),
            ("cpp", "int F::g() {\n  HERE;\n}\n", &["F::g"]),
            (
                "csharp",
                "class F {\n  int B() {\n    HERE();\n  }\n}\n",
                &["F", "B"],
            ),
            (
                "elixir",
                "defmodule A.B do\n  def f(x) do\n    HERE\n  end\nend\n",
                &["A.B", "f"],
            ),
            (
                "go",
                "package a\n\nfunc (s *Server) F() {\n\tHERE()\n}\n",
                &["Server.F"],
            ),
            (
                "go",
                "package a\n\ntype T struct {\n\tHERE int\n}\n",
                &["T"],
            ),
            ("haskell", "f :: Int\nf =\n  HERE\n", &["f"]),
            (
                "hcl",
                "resource \"aws\" \"web\" {\n  HERE = 1\n}\n",
                &["resource aws web"],
            ),
            (
                "java",
                "class F {\n  int b() {\n    HERE();\n  }\n}\n",
                &["F", "b"],
            ),
            (
                "javascript",
                "export const f = async () => {\n  HERE();\n};\n",
                &["f"],
            ),
            (
                "javascript",
                "class A {\n  b() {\n    HERE();\n  }\n}\n",
                &["A", "b"],
            ),
            (
                "kotlin",
                "class A {\n  fun f() {\n    HERE()\n  }\n}\n",
                &["A", "f"],
            ),
            ("lua", "function M.f()\n  HERE()\nend\n", &["M.f"]),
            (
                "php",
                "<?php\nclass A {\n  function f() {\n    HERE();\n  }\n}\n",
                &["A", "f"],
            ),
            (
                "python",
                "class A:\n    @b\n    def f(self):\n        HERE()\n",
                &["A", "f"],
            ),
            (
                "ruby",
                "module M\n  class A\n    def f\n      HERE\n    end\n  end\nend\n",
                &["M", "A", "f"],
            ),
            (
                "rust",
                "impl A for B {\n    fn f() {\n        HERE();\n    }\n}\n",
                &["A for B", "f"],
            ),
            (
                "scala",
                "object A {\n  def f(x: Int) = {\n    HERE\n  }\n}\n",
                &["A", "f"],
            ),
            ("sql", "CREATE TABLE s.t (\n  HERE int\n);\n", &["s.t"]),
            (
                "sql",
                "CREATE FUNCTION f() RETURNS int AS $$\n  SELECT HERE\n$$ LANGUAGE sql;\n",
                &["f"],
            ),
            (
                "swift",
                "class A {\n  func f() {\n    HERE()\n  }\n}\n",
                &["A", "f"],
            ),
            (
                "tsx",
                "function F() {\n  return <p>\n    HERE</p>;\n}\n",
                &["F"],
            ),
            ("typescript", "interface A {\n  HERE: number;\n}\n", &["A"]),
            (
                "yaml",
                "jobs:\n  build:\n    steps: HERE\n    a: 1\n",
                &["jobs", "build"],
            ),
        ] {
            assert_eq!(path(file, language, "HERE"), expected, "{language}: {file}");
        }
    }

    #[test]
    fn a_symbol_begins_with_its_comments_and_decorators() {
        let python = "import a\n\n# HERE\n@b\ndef f():\n    return 1\n";
        assert_eq!(path(python, "python", "HERE"), ["f"]);
        let javascript = "let a;\n\n// HERE\nexport function f() {\n  return 1;\n}\n";
        assert_eq!(path(javascript, "javascript", "export"), ["f"]);
        assert_eq!(path(javascript, "javascript", "let a"), [""; 0]);
    }

    #[test]
    fn a_head_is_not_parted_from_the_first_lines_of_its_body() {
        let c = "int a;\n\n/* Adds. */\nstatic int\nadd(int a,\n    int b)\n{\n    one();\n    two();\n    three();\n\n    four();\n}\n";
        let at: Vec<String> = starts(c, "c").into_iter().map(|(_, line)| line).collect();
        assert_eq!(at, ["int a;", "/* Adds. */", "three();", "four();"]);
        let python = "def f(\n    a,\n):\n    if a:\n        b()\n    c()\n    d()\n";
        let at: Vec<String> = starts(python, "python")
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        assert_eq!(at, ["def f(", "d()"]);
    }

    #[test]
    fn nothing_begins_with_what_only_ends_something() {
        let rust = "fn f() {\n    a();\n    b();\n    c();\n    if d {\n        e();\n    } else {\n        g();\n    }\n    h();\n}\n";
        assert!(
            starts(rust, "rust")
                .iter()
                .all(|(_, line)| !line.starts_with('}')),
            "{:?}",
            starts(rust, "rust")
        );
    }

    #[test]
    fn the_place_of_a_file_is_the_end_of_its_path() {
        for (name, expected) in [
            ("src/hnsw.c", "src/hnsw.c"),
            ("hnsw.c", "hnsw.c"),
            ("file:///srv/code/a/b/c/d/hnsw.c", "b/c/d/hnsw.c"),
            ("https://example.org/x/hnsw.c?raw=1", "x/hnsw.c"),
        ] {
            assert_eq!(place(name), expected);
        }
        assert_eq!(place(&format!("{}/a.c", "x".repeat(200))), "a.c");
        assert_eq!(place(&format!("{}.c", "x".repeat(200))), "");
    }

    #[test]
    fn deep_and_damaged_sources_are_read() {
        for file in [
            &"(".repeat(200_000),
            &"{[<\"'\n".repeat(20_000),
            &"if a:\n ".repeat(20_000),
            "\u{FFFD}\u{0}\n\\",
        ] {
            for language in [
                "rust",
                "python",
                "cpp",
                "bash",
                "php",
                "ruby",
                "javascript",
                "sql",
                "yaml",
                "haskell",
                "swift",
            ] {
                syntax(file, language);
            }
        }
    }

    #[test]
    fn a_huge_file_is_not_parsed() {
        assert_eq!(
            syntax(&"fn f() {}\n".repeat(200_000), "rust"),
            Syntax::default()
        );
    }
}
