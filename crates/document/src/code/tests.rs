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
    let rust = "use std::io;\n\n/// Adds.\n#[inline]\nfn add(a: i32) -> i32 {\n    let b = \
        a;\n    b + a\n}\n\n// loose\n\nfn z() {}\n";
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
    // The whole file is one element.
    has(
        "a = 1\nresource \"x\" \"y\" {\n  b = 1\n}\n",
        "hcl",
        2,
        "resource \"x\" \"y\" {",
    );
    has("a: 1\njobs:\n  b: 1\n  c: 2\n", "yaml", 4, "jobs:");
}

/// Returns the names of the symbols around a line.
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
fn a_head_stays_with_the_first_lines_of_its_body() {
    let c = "int a;\n\n/* Adds. */\nstatic int\nadd(int a,\n    int b)\n{\n    one();\n    \
        two();\n    three();\n\n    four();\n}\n";
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
fn closing_lines_begin_no_element() {
    let rust = "fn f() {\n    a();\n    b();\n    c();\n    if d {\n        e();\n    } else \
        {\n        g();\n    }\n    h();\n}\n";
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
