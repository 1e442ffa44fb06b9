//! What holds for every kind. The tests of a kind are in its file.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the problems of a wrong spec as they are shown.
pub fn messages(kind: &str, spec: Value) -> Vec<String> {
    SourceSpec::parse(kind, &spec)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Asserts that a spec has exactly one problem.
#[track_caller]
pub fn refuses(kind: &str, spec: Value, expected: &str) {
    assert_eq!(messages(kind, spec), [expected]);
}

/// A valid spec of each kind. A kind that is missing here fails [`every_kind_has_an_example`].
fn examples() -> Vec<(&'static str, Value)> {
    vec![
        ("folder", json!({"path": "/srv"})),
        ("git", json!({"repositoryURL": "https://example.org/a.git"})),
        ("markdown", json!({"uri": "/srv/a.md"})),
        ("static", json!({"endpoints": ["/srv/a.md"]})),
        ("website", json!({"url": "https://example.org"})),
        ("table", json!({"relation": "a"})),
        ("s3", json!({"bucket": "docs"})),
        ("azblob", json!({"account": "company", "container": "docs"})),
        ("gcs", json!({"bucket": "docs"})),
    ]
}

#[test]
fn every_kind_has_an_example() {
    let examples: HashSet<_> = examples().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(examples, kind_names().into_iter().collect());
}

#[test]
fn every_kind_of_the_registry_is_complete() {
    let (mut names, mut types) = (HashSet::new(), HashSet::new());
    for kind in KINDS {
        assert!(names.insert(kind.name), "{} is there twice", kind.name);
        assert!(
            types.insert(kind.manifest_type),
            "the manifest type {} is there twice",
            kind.manifest_type
        );
        assert_eq!(kind.manifest_type.to_lowercase(), kind.name);
        assert!(
            !kind.comment.is_empty() && !kind.comment.ends_with('.'),
            "{}",
            kind.name
        );
        assert!(!kind.keys.is_empty(), "{}", kind.name);
        let keys = kind.all_keys();
        let distinct: HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{}", kind.name);
        for (released, key) in kind.released_names {
            assert!(keys.contains(key) && !keys.contains(released), "{released}");
        }
    }
}

#[test]
fn the_parser_of_a_kind_reads_the_keys_that_it_lists() {
    for (kind, spec) in examples() {
        let keys = kind_named(kind).unwrap().all_keys();
        for key in keys.into_iter().filter(|key| *key != "filter") {
            let mut wrong = spec.clone();
            wrong[key] = json!([[]]);
            let found = messages(kind, wrong);
            let path = format!("spec.{key}");
            assert!(
                found.iter().any(|it| it.starts_with(&path)),
                "{path}: {found:?}"
            );
        }
    }
}

#[test]
fn the_tag_of_a_message_is_the_name_of_the_kind() {
    for (kind, spec) in examples() {
        let spec = SourceSpec::parse(kind, &spec).unwrap();
        assert_eq!(spec.kind(), kind);
        let message = serde_json::to_value(&spec).unwrap();
        assert_eq!(message["kind"], kind);
        assert_eq!(serde_json::from_value::<SourceSpec>(message).unwrap(), spec);
    }
}

#[test]
fn every_kind_has_the_key_that_says_what_is_read() {
    for (kind, spec) in examples() {
        let key = SourceSpec::parse(kind, &spec).unwrap().location_key();
        let key = key.split('[').next().unwrap_or_default();
        assert!(kind_named(kind).unwrap().keys.contains(&key), "{key}");
    }
}

#[test]
fn paths_of_the_server_need_a_right() {
    let others = [
        ("git", json!({"repositoryURL": "/srv/a.git"})),
        ("git", json!({"repositoryURL": "http://wiki.local/a.git"})),
        ("markdown", json!({"uri": "https://example.org/a.md"})),
    ];
    for (kind, spec) in examples().into_iter().chain(others) {
        let spec = SourceSpec::parse(kind, &spec).unwrap();
        let right = spec.required_right();
        let reads_files = matches!(
            right,
            RequiredRight::ServerFiles | RequiredRight::Superuser(_)
        );
        assert_eq!(!spec.server_paths().is_empty(), reads_files, "{spec:?}");
    }
}

#[test]
fn credentials_are_for_servers() {
    for (kind, spec, expected) in [
        (
            "git",
            json!({"repositoryURL": "https://example.org/a.git"}),
            true,
        ),
        ("git", json!({"repositoryURL": "/srv/a.git"}), false),
        ("folder", json!({"path": "/srv"}), false),
        ("markdown", json!({"uri": "/srv/a.md"}), false),
        ("markdown", json!({"uri": "https://example.org/a.md"}), true),
        ("static", json!({"endpoints": ["/srv/a.md"]}), false),
        (
            "static",
            json!({"endpoints": ["/srv/a.md", "https://example.org/a.md"]}),
            true,
        ),
        ("website", json!({"url": "https://example.org"}), true),
        ("table", json!({"relation": "a"}), false),
        ("s3", json!({"bucket": "docs"}), true),
        ("gcs", json!({"bucket": "docs"}), true),
    ] {
        let spec = SourceSpec::parse(kind, &spec).unwrap();
        assert_eq!(spec.takes_credentials(), expected, "{spec:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let spec = json!({"paths": ["*.md", 3], "excludePaths": "x", "pth": "/srv", "colour": 1});
    assert_eq!(
        messages("folder", spec),
        [
            "spec.pth: is not a known field",
            "spec.colour: is not a known field",
            "spec.path: is missing",
            "spec.paths[1]: must be a string, not a number",
            "spec.excludePaths: must be an array of strings, not a string",
        ]
    );
}

#[test]
fn a_spec_is_an_object_of_a_known_kind() {
    refuses("folder", json!([]), "spec: must be an object, not an array");
    refuses("ftp", json!({}), "kind: \"ftp\" is not a kind of source");
}

#[test]
fn every_kind_takes_category_and_tags() {
    for (kind, mut spec) in examples() {
        spec["category"] = " ops ".into();
        spec["tags"] = json!(["a", " a ", "b"]);
        assert!(SourceSpec::parse(kind, &spec).is_ok(), "{kind}");
        let labels = crate::labels::Labels::of_spec(&spec);
        assert_eq!(labels.category.as_deref(), Some("ops"));
        assert_eq!(labels.tags, Some(vec!["a".to_owned(), "b".to_owned()]));
    }
    let wrong = json!({"path": "/srv", "category": 7, "tags": ["x".repeat(201), ""]});
    let expected = [
        "spec.category: must be a string, not a number",
        "spec.tags[1]: must not be empty",
        "spec.tags: must have at most 200 characters",
    ];
    assert_eq!(messages("folder", wrong), expected);
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(
        kind in "folder|git|markdown|static|website|table|s3|azblob|gcs|.{0,5}",
        key in "path|uri|url|repositoryURL|branch|bucket|endpoint|prefix|region|.{0,5}",
        value in ".{0,40}",
    ) {
        if let Err(problems) = SourceSpec::parse(&kind, &json!({ key: value })) {
            prop_assert!(!problems.is_empty());
        }
    }
}
