//! No text can crash the backend that parses it. Every text here is parsed on a stack of 512 kB.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::thread;

use proptest::prelude::*;
use rag_definition::FieldProblem;
use rag_manifest::{MAX_BYTES, MAX_DOCUMENTS, Manifest, parse};

const STACK: usize = 512 << 10;
/// Nesting of values that is allowed.
const DEPTH: usize = 32;

fn parse_on_little_stack(text: &str) -> Result<Vec<Manifest>, Vec<FieldProblem>> {
    thread::scope(|scope| {
        let parse = || {
            let parsed = parse(text);
            match &parsed {
                Ok(manifests) => manifests
                    .iter()
                    .for_each(|manifest| drop(manifest.to_json().to_string())),
                Err(problems) => assert!(!problems.is_empty() && problems.len() <= 1_001),
            }
            parsed
        };
        thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, parse)
            .unwrap()
            .join()
            .unwrap()
    })
}

/// Refused with one problem of the whole text, which begins with the place unless it is about the
/// size.
#[track_caller]
fn refused(text: &str, reason: &str) {
    let problems = parse_on_little_stack(text).unwrap_err();
    let shown: String = text.chars().take(80).collect();
    assert_eq!(problems.len(), 1, "{shown}");
    assert_eq!(problems[0].field, "manifest", "{shown}");
    let problem = &problems[0].message;
    assert!(
        problem.contains(reason) && problem.len() <= 1_000,
        "{shown}: {problem}"
    );
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn stairs(depth: usize) -> String {
    (0..depth)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect()
}

#[test]
fn nesting_is_limited_in_every_form() {
    const TOO_DEEP: &str = "the nesting of values exceeds 32 levels";
    for depth in [DEPTH + 1, 60, 200, 1_000, 100_000] {
        refused(&nested("[", "", "]", depth), TOO_DEEP);
        refused(&nested("[", "", "", depth), "");
        refused(&nested("{\"a\":", "1", "}", depth), TOO_DEEP);
        refused(&nested("{\"a\":[", "1", "]}", depth), TOO_DEEP);
        refused(&nested("{a: ", "1", "}", depth), TOO_DEEP);
        refused(&format!("a: {}", nested("[", "1", "]", depth)), TOO_DEEP);
        refused(
            &format!("a: {}", nested("{a: [", "1", "]}", depth)),
            TOO_DEEP,
        );
        refused(&nested("- ", "1", "", depth), TOO_DEEP);
        refused(&nested("-\t", "1", "", depth), TOO_DEEP);
        refused(&nested("? ", "1", "", depth), "");
        refused(&nested("? - ", "1", "", depth), "");
        refused(&nested("{? ", "1", "}", depth), "");
        refused(&nested("[? [", "1", "]]", depth), "");
        refused(&nested("&a [", "1", "]", depth), TOO_DEEP);
        refused(&nested("!!seq [", "1", "]", depth), TOO_DEEP);
    }
    for depth in [DEPTH + 1, 60, 200, 1_000] {
        refused(&stairs(depth), TOO_DEEP);
        refused(&stairs(depth).replace(' ', "\t"), TOO_DEEP);
    }
}

#[test]
fn the_deepest_nesting_fits_on_the_stack() {
    let not_a_mapping = "must be an object, not an array";
    refused(&nested("[", "", "]", DEPTH), not_a_mapping);
    refused(&nested("- ", "1", "", DEPTH), not_a_mapping);
    for text in [
        stairs(DEPTH),
        nested("{\"a\":", "1", "}", DEPTH),
        nested("{a: ", "1", "}", DEPTH),
        format!(
            "x: &x {}\ny: *x\nz: {{<<: *x}}\n",
            nested("{a: ", "1", "}", DEPTH - 2)
        ),
        format!("? {}\n: 1\n", nested("[", "1", "]", DEPTH - 1)),
    ] {
        let problems = parse_on_little_stack(&text).unwrap_err();
        assert!(
            !problems
                .iter()
                .any(|problem| problem.message.contains("nested")),
            "{problems:?}"
        );
    }
    // Aliases of what is nested, in what is nested.
    let first = format!("x0: &x0 {}\n", nested("[", "1", "]", 10));
    let rest = (1..9).map(|i| {
        format!(
            "x{i}: &x{i} {}\n",
            nested("[", &format!("*x{}", i - 1), "]", 10)
        )
    });
    refused(
        &(first + &rest.collect::<String>()),
        "the nesting of values exceeds 32 levels",
    );
}

#[test]
fn expansion_of_aliases_is_limited() {
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..10 {
        let alias = format!("*a{}, ", i - 1).repeat(10);
        laughs += &format!("a{i}: &a{i} [{alias}]\n");
    }
    refused(&laughs, "there are too many anchors or aliases");

    let long = "x".repeat(500_000);
    refused(
        &format!("a: &a {long}\nb: [{}*a]\n", "*a, ".repeat(100)),
        "the size of the values exceeds 4194304 bytes",
    );
    refused(
        &format!("a: &a {{k: {long}}}\nb: [{}*a]\n", "*a, ".repeat(100)),
        "the size of the values exceeds 4194304 bytes",
    );
    refused(
        &format!("a: &a [1]\nb: [{}*a]\n", "*a, ".repeat(300)),
        "there are too many anchors or aliases",
    );
    refused(
        &format!("a: [{}]\n", "&a 1, ".repeat(300)),
        "there are too many anchors or aliases",
    );
    let merges: String = (0..300).map(|i| format!("m{i}: {{<<: *a}}\n")).collect();
    refused(
        &format!("a: &a {{b: 1}}\n{merges}"),
        "there are too many anchors or aliases",
    );

    // The limits hold for the whole text, not for each document, also if it begins as JSON does.
    // Two of these documents fit.
    let (long, aliases) = ("x".repeat(20_000), "*a, ".repeat(100));
    for document in [
        format!("a: &a {long}\nb: [{aliases}*a]\n---\n"),
        format!("{{a: &a {long}, b: [{aliases}*a]}}\n---\n"),
        format!("[&a {long}, {aliases}*a]\n---\n"),
    ] {
        let problems = parse_on_little_stack(&document.repeat(20)).unwrap_err();
        let exceeded = |it: &&FieldProblem| {
            it.message.contains(
                "the size of the values exceeds 4194304 \
                bytes",
            )
        };
        let shown = &document[..20];
        assert_eq!(problems.iter().filter(exceeded).count(), 18, "{shown}");
    }
}

#[test]
fn size_is_limited() {
    refused(
        &"x".repeat(MAX_BYTES + 1),
        "has 1048577 bytes, more than the limit of 1048576 bytes",
    );
    refused(
        &"a: 1\n".repeat(2 << 20),
        "has 10485760 bytes, more than the limit of 1048576 bytes",
    );
    refused(
        &"---\na: 1\n".repeat(MAX_DOCUMENTS + 1),
        "has 1001 documents, more than the limit of 1000",
    );
    refused(
        &format!("[{}1]", "1,".repeat(300_000)),
        "the number of values exceeds 200000",
    );
    refused(
        &format!("a: [{}1]", "1,".repeat(300_000)),
        "the number of values exceeds 200000",
    );
    let many = parse_on_little_stack(&"---\na: 1\n".repeat(MAX_DOCUMENTS)).unwrap_err();
    assert_eq!(many.len(), 1_001);
    assert_eq!(many[1_000].to_string(), "manifest: has 3000 more problems");
    let broken = format!("a: [\n{}---\n", "\n".repeat(1_000)).repeat(MAX_DOCUMENTS);
    assert_eq!(
        parse_on_little_stack(&broken).unwrap_err().len(),
        MAX_DOCUMENTS
    );
}

#[test]
fn long_values_are_truncated_in_messages() {
    let long = "x".repeat(1_000_000);
    for text in [
        format!("kind: {long}"),
        format!("kind: Retriever\n? {long}\n: 1"),
        format!("kind: AutoIndexer\napiVersion: {long}\nmetadata: {{name: {long}}}\nspec: {{}}"),
        format!("kind: AutoIndexer\nspec: {{dataSource: {{git: {{? {long} : 1}}}}}}"),
        format!("{{\"{long}\": 1, \"{long}\": 2}}"),
        format!("a: !{long} b"),
    ] {
        let text: String = text.chars().take(MAX_BYTES).collect();
        for problem in parse_on_little_stack(&text).unwrap_err() {
            assert!(
                problem.field.len() + problem.message.len() <= 1_000,
                "{}",
                problem.field.len()
            );
            assert!(problem.hint.is_none_or(|hint| hint.len() <= 1_000));
        }
    }
}

#[test]
fn a_text_of_one_repeated_character_is_parsed_without_panic() {
    let pieces = [
        "[",
        "{",
        "{a: ",
        "[a,",
        "- ",
        "-\t",
        "? ",
        "? a\n: ",
        "[{\"a\":",
        "{\"a\":[",
        "&a ",
        "&a [*a, ",
        "*a ",
        "!!str ",
        "!",
        "'",
        "\"",
        "\\",
        "\"\\u",
        "\t",
        "\r",
        "\n",
        " ",
        "a: ",
        "a: b\n",
        "a:\n",
        ": ",
        "|\n",
        "a: |\n\t",
        ">",
        "%a\n",
        "%",
        "#",
        " #",
        "- - \n",
        "-\n",
        "a\n",
        "<<: ",
        "---\n",
        "...\n",
        "---a\n",
        "--- ",
        "- &a x\n",
        "- *a\n",
        "@",
        "`",
        "{a: 1}, ",
        "[]: ",
        "\u{FEFF}",
        "\n\u{FEFF}",
        "\u{85}",
        "\u{2028}",
        "\u{0}",
        "é",
        "]",
        "}",
        ",",
    ];
    for piece in pieces {
        for before in ["", "[", "a: ", "a:\n\t- ", "{\"", "\""] {
            let text = format!(
                "{before}{}",
                piece.repeat((MAX_BYTES - before.len()) / piece.len())
            );
            assert!(parse_on_little_stack(&text).is_err(), "{before}{piece}");
        }
    }
}

/// Texts of the pieces that manifests are made of, in any order.
fn confusion() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "(\t| |\n|\n\t|\n\t\t|: |- |\\? |, |\\[|\\]|\\{|\\}|\"|'|\\||>|#|%|\\\\|\r|\\x00)",
        "(&a |\\*a|!!|<<: |---|\\.\\.\\.|~|1e9|0x)",
        "(apiVersion: agent.wecode.io/v1|kind: AutoIndexer|kind: Retriever|metadata:|name: \
            a|spec:|dataSource:|type: Git|git:)",
        "\\PC{0,4}",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Examples in which a part was replaced.
fn damaged() -> impl Strategy<Value = String> {
    let examples = [
        include_str!("data/credentials.yaml"),
        include_str!("data/static.yaml"),
        include_str!("data/retriever.json"),
    ];
    (
        prop::sample::select(examples.to_vec()),
        any::<prop::sample::Index>(),
        0..40_usize,
        confusion(),
    )
        .prop_map(|(example, at, length, inserted)| {
            let at = at.index(example.len());
            let end = (at + length).min(example.len());
            format!("{}{inserted}{}", &example[..at], &example[end..])
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_text_is_answered(text in prop_oneof![".{0,200}", "(?s).{0,200}", confusion(), damaged()]) {
        match parse_on_little_stack(&text) {
            Ok(manifests) => {
                for manifest in manifests {
                    let written = manifest.to_json().to_string();
                    prop_assert_eq!(parse(&written), Ok(vec![manifest]));
                }
            }
            Err(problems) => prop_assert!(problems.iter().all(|it| !it.field.is_empty() && !it.message.is_empty())),
        }
    }
}
