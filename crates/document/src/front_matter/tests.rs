use serde_json::json;

use super::*;

fn metadata(yaml: &str) -> Value {
    Value::Object(separate(&format!("---\n{yaml}\n---\nText")).metadata)
}

#[track_caller]
fn is_not_front_matter(file: &str) {
    assert_eq!(
        separate(file),
        MarkdownFile {
            metadata: Map::new(),
            body: file
        }
    );
}

#[track_caller]
fn is_refused(file: &str, reason: &str) {
    let separated = separate(file);
    assert_eq!(separated.body, file);
    assert_eq!(separated.metadata.len(), 1);
    let error = separated.metadata["front_matter_error"].as_str().unwrap();
    assert!(
        error.contains(reason) && error.chars().count() <= 300,
        "{error}"
    );
}

#[test]
fn front_matter_becomes_metadata_and_leaves_the_text() {
    let file = separate("---\r\ntitle: Keys\r\ntags: [a, b]\r\n---  \r\n# Text\r\n");
    assert_eq!(
        Value::Object(file.metadata),
        json!({"title": "Keys", "tags": ["a", "b"]})
    );
    assert_eq!(file.body, "# Text\r\n");
    assert_eq!(separate("---\n---\nText").body, "Text");
    assert_eq!(separate("---\na: 1\n...\nText").body, "Text");
}

#[test]
fn values_are_kept_as_written() {
    assert_eq!(
        metadata(
            "date: 2024-03-01\nat: 2024-03-01T10:00:00Z\ncountry: no\ndraft: true\nn: 3\nx: \
                1.5\nnothing: ~\nid: '007'\n\
             big: 123456789012345678901234567890\nbad: .nan\nnested: {a: [1, {b: c}]}\ntext: |\n  \
             two\n  lines"
        ),
        json!({
            "date": "2024-03-01", "at": "2024-03-01T10:00:00Z", "country": "no", "draft": true,
                "n": 3, "x": 1.5,
            "nothing": null, "id": "007", "big": 123456789012345678901234567890f64, "bad": ".nan",
            "nested": {"a": [1, {"b": "c"}]}, "text": "two\nlines\n"
        })
    );
}

#[test]
fn keys_become_texts() {
    assert_eq!(
        metadata("2024: a\ntrue: b\n~: c\n1.50: d\n[x, 1]: e"),
        json!({"2024": "a", "true": "b", "null": "c", "1.5": "d", "[\"x\",1]": "e"})
    );
}

#[test]
fn the_last_of_equal_keys_counts() {
    assert_eq!(metadata("a: 1\nb: 2\na: 3"), json!({"a": 3, "b": 2}));
}

#[test]
fn aliases_are_expanded_and_nul_is_replaced() {
    assert_eq!(
        metadata("a: &x [1, 2]\nb: *x\nc: \"n\\0l\""),
        json!({"a": [1, 2], "b": [1, 2], "c": "n\u{FFFD}l"})
    );
}

#[test]
fn text_between_rules_is_not_front_matter() {
    is_not_front_matter("---\nJust a sentence.\n---\nText");
    is_not_front_matter("---\n- a list\n---\nText");
    is_not_front_matter("---\ntitle: never closed\n\nText");
    is_not_front_matter("Text\n---\ntitle: x\n---\n");
    is_not_front_matter("----\ntitle: x\n----\n");
    is_not_front_matter("---");
}

#[test]
fn malformed_front_matter_stays_in_the_text_and_is_named() {
    is_refused("---\ntitle: [unclosed\n---\nText", "line");
    is_refused("---\na: b: c\n---\nText", "line");
}

#[test]
fn aliases_that_expand_without_limit_are_refused() {
    let mut laughs =
        String::from("---\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..10 {
        let previous = i - 1;
        let alias = format!("*a{previous}, ").repeat(9);
        laughs += &format!("a{i}: &a{i} [{alias}*a{previous}]\n");
    }
    is_refused(&(laughs + "---\nText"), "budget");

    let long = format!(
        "---\na: &a {}\nb: [{}*a]\n---\nText",
        "x".repeat(100_000),
        "*a, ".repeat(100)
    );
    is_refused(&long, "bytes");
}

#[test]
fn deep_and_huge_blocks_are_refused() {
    for n in [40, 10_000, 100_000] {
        is_refused(
            &format!("---\na: {}{}\n---\nText", "[".repeat(n), "]".repeat(n)),
            "",
        );
    }
    let stairs: String = (0..400).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    is_refused(&format!("---\n{stairs}---\nText"), "");
    is_refused(
        &format!("---\na: {}\n---\nText", "x".repeat(300_000)),
        "bytes",
    );
}

#[test]
fn toml_between_plus_signs_is_front_matter() {
    let file = separate(
        "+++\r\ntitle = \"Keys\"\ndate = 2024-03-01T10:00:00Z\nn = 3\nx = 1.5\nc \
            = \"n\\u0000l\"\n\n[extra]\ntags = [\"a\", \"b\"]\n+++\r\n# Text",
    );
    assert_eq!(
        Value::Object(file.metadata),
        json!({"title": "Keys", "date": "2024-03-01T10:00:00Z", "n": 3, "x": 1.5, "c": "n\u{FFFD}l",
               "extra": {"tags": ["a", "b"]}})
    );
    assert_eq!(file.body, "# Text");
    is_not_front_matter("+++\ntitle = 1\n");
    let file = "+++\nJust a sentence.\n+++\nText";
    assert_eq!(separate(file).body, file);
    assert!(separate(file).metadata.contains_key("front_matter_error"));
}

#[test]
fn deep_toml_is_refused() {
    let dotted = vec!["a"; 78].join(".");
    for n in [1, 20, 78, 1_000] {
        is_refused(
            &format!(
                "+++\n{}1{}\n+++\nText",
                format!("{dotted} = {{").repeat(n).trim_end_matches('{'),
                "}".repeat(n - 1)
            ),
            "",
        );
    }
    is_refused(
        &format!(
            "+++\na = {}{}\n+++\nText",
            "[".repeat(100_000),
            "]".repeat(100_000)
        ),
        "",
    );
}

#[test]
fn values_that_are_not_yaml_are_read_as_written() {
    for (line, title) in [
        ("title: Backups: how and when", "Backups: how and when"),
        ("title: @home", "@home"),
        ("title: \"Pumps\" and tanks", "\"Pumps\" and tanks"),
        ("title: 'It's late'", "It's late"),
        ("title: [Draft] Pumps", "[Draft] Pumps"),
        ("title: 100% `pump`: a note", "100% `pump`: a note"),
        ("title: Pumps: one\n  and two", "Pumps: one and two"),
        ("title: \"C:\\pumps\"", "C:\\pumps"),
    ] {
        let file = format!("---\n# note\n{line}\ntags: [ops]\nnested:\n  a: 1\n---\nText\n");
        let MarkdownFile { metadata, body } = separate(&file);
        assert_eq!(body, "Text\n", "{line}");
        assert_eq!(metadata["title"], title, "{line}");
        assert_eq!(metadata["tags"], serde_json::json!(["ops"]), "{line}");
        assert_eq!(metadata["nested"], serde_json::json!({"a": 1}), "{line}");
    }
}

#[test]
fn a_block_that_cannot_be_read_is_no_heading() {
    for file in [
        "---\ntitle: a\n\tb: {c\n---\nText\n",
        "---\n# note\ntitle: a\n b\n- c: [\n---\nText\n",
        "+++\n# note\ntitle = a b\n+++\nText\n",
    ] {
        let extracted = crate::markdown::extract(file, "notes/a.md");
        assert_eq!(extracted.title.text, "a", "{file}");
        assert!(
            !extracted.title.own && !extracted.warnings.is_empty(),
            "{file}"
        );
    }
    let rules = "---\nA heading\n---\nText\n";
    assert_eq!(
        crate::markdown::extract(rules, "a.md").title.text,
        "A heading"
    );
}
