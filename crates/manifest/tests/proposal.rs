//! The examples of the proposals, as they are there (indented with tabs), and the forms that are
//! accepted beside them.

use std::time::Duration;

use rag_definition::{
    Notes, Quota, SecretRef, retriever::RetrieverDefinition, source::DriftPolicy,
};
use rag_manifest::{AutoIndexer, Manifest, Metadata, Retriever, parse};
use serde_json::{Value, json};

const STATIC: &str = include_str!("data/static.yaml");
const GIT: &str = include_str!("data/git.yaml");
const SINGLE_COMMIT: &str = include_str!("data/single-commit.yaml");
const CREDENTIALS: &str = include_str!("data/credentials.yaml");
const RETRIEVER: &str = include_str!("data/retriever.json");

#[track_caller]
fn source(text: &str) -> AutoIndexer {
    match parse(text).as_deref() {
        Ok([Manifest::AutoIndexer(source)]) => source.clone(),
        other => panic!("not one source: {other:?}"),
    }
}

#[track_caller]
fn retriever(text: &str) -> Retriever {
    match parse(text).as_deref() {
        Ok([Manifest::Retriever(retriever)]) => retriever.clone(),
        other => panic!("not one retriever: {other:?}"),
    }
}

fn static_source() -> AutoIndexer {
    AutoIndexer {
        metadata: named("static-files-indexer"),
        retriever: "my-ragengine".into(),
        collection: "my-static-index".into(),
        kind: "static",
        spec: json!({"endpoints": ["https://example.com/docs/file1.pdf", "https://example.com/docs/file2.txt"]}),
        credentials: None,
        schedule: Some("@daily".into()),
        max_retries: 3,
        suspend: false,
        drift_policy: DriftPolicy::Auto,
        timeout: None,
        quota: Quota::default(),
        renamed: vec![],
    }
}

fn git_source() -> AutoIndexer {
    AutoIndexer {
        metadata: named("github-indexer"),
        collection: "my-git-index".into(),
        kind: "git",
        spec: json!({
            "repositoryURL": "https://github.com/org/repo.git",
            "branch": "main",
            "paths": ["docs/", "src/"],
            "excludePaths": ["test/"]
        }),
        schedule: Some("0 2 * * *".into()),
        ..static_source()
    }
}

#[test]
fn the_examples_have_tabs() {
    for text in [STATIC, GIT, SINGLE_COMMIT, CREDENTIALS] {
        assert!(text.contains("\n\t\t") && !text.contains("\n "));
    }
}

#[test]
fn the_examples_are_sources() {
    assert_eq!(source(STATIC), static_source());
    assert_eq!(source(GIT), git_source());
    assert_eq!(
        source(SINGLE_COMMIT),
        AutoIndexer {
            metadata: named("github-single-commit-indexer"),
            spec: json!({
                "repositoryURL": "https://github.com/org/repo.git",
                "branch": "main",
                "commit": "abc123def456",
                "paths": ["docs/"]
            }),
            schedule: None,
            ..git_source()
        }
    );
    let credentials = Some(SecretRef {
        name: "github-token".into(),
        key: Some("token".into()),
    });
    assert_eq!(
        source(CREDENTIALS),
        AutoIndexer {
            credentials,
            ..git_source()
        }
    );
}

#[test]
fn documents_keep_their_order() {
    let text = format!(
        "# all of them\n---\n{STATIC}---\n{GIT}\n--- # \
            next\n{RETRIEVER_HERE}\n---\n\n---\n{SINGLE_COMMIT}"
    );
    let manifests = parse(&text).unwrap();
    let names: Vec<_> = manifests
        .iter()
        .map(|manifest| (manifest.kind(), manifest.name()))
        .collect();
    assert_eq!(
        names,
        [
            ("AutoIndexer", "static-files-indexer"),
            ("AutoIndexer", "github-indexer"),
            ("Retriever", "here"),
            ("AutoIndexer", "github-single-commit-indexer"),
        ]
    );
}

/// A name in the namespace `default`, and nothing else.
fn named(name: &str) -> Metadata {
    Metadata {
        name: name.into(),
        notes: Notes::default(),
    }
}

const RETRIEVER_HERE: &str = r#"{
	"apiVersion": "agent.wecode.io/v1",
	"kind": "Retriever",
	"metadata": {"name": "here", "namespace": "default", "displayName": "Here"},
	"spec": {
		"storageConfig": {"type": "flat", "url": null, "indexStrategy": {"mode": "per_dataset", "prefix": "rag"}},
		"retrievalMethods": {
			"vector": {"enabled": true, "defaultWeight": 0.7},
			"keyword": {"enabled": true, "defaultWeight": 0.3},
			"hybrid": {"enabled": true}
		},
		"embedding": {"model": "a-model"},
		"description": "in this database"
	}
}"#;

fn definition(spec: &Value) -> RetrieverDefinition {
    RetrieverDefinition::parse(spec).unwrap_or_default()
}

#[test]
fn a_retriever_keeps_what_was_given_and_no_more() {
    let expected = json!({
        "storageConfig": {"type": "flat", "indexStrategy": {"mode": "per_dataset", "prefix": "rag"}},
        "retrievalMethods": {
            "vector": {"enabled": true, "defaultWeight": 0.7},
            "keyword": {"enabled": true, "defaultWeight": 0.3},
            "hybrid": {"enabled": true}
        },
        "embedding": {"model": "a-model"},
        "description": "in this database"
    });
    let here = named("here");
    let notes = Notes {
        display_name: Some("Here".into()),
        ..here.notes
    };
    let metadata = Metadata { notes, ..here };
    assert_eq!(retriever(RETRIEVER_HERE).definition.to_json(), expected);
    assert_eq!(
        retriever(RETRIEVER_HERE),
        Retriever {
            metadata,
            definition: definition(&expected)
        }
    );
    let empty = "apiVersion: agent.wecode.io/v1\nkind: Retriever\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(
        retriever(empty),
        Retriever {
            metadata: named("a"),
            definition: RetrieverDefinition::default()
        }
    );
}

#[test]
fn the_retriever_of_the_proposal_needs_references_to_secrets() {
    let problems = parse(RETRIEVER).unwrap_err();
    let named: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            "spec.storageConfig.username: is not stored in settings, which others can read",
            "spec.storageConfig.password: is not stored in settings, which others can read",
        ]
    );
}

#[test]
fn the_built_in_retriever_passes() {
    let catalog = include_str!("../../../sql/catalog.sql");
    let (_, insert) = catalog
        .split_once("INSERT INTO rag_internal.retriever (name, spec) VALUES ('default', '")
        .unwrap();
    let (spec, _) = insert.split_once("')").unwrap();
    let spec: Value = serde_json::from_str(spec).unwrap();
    let default = Retriever {
        metadata: named("default"),
        definition: definition(&spec),
    };
    assert_eq!(retriever(&default.to_json().to_string()), default);
}

#[test]
fn what_kubernetes_and_rag_get_add_is_ignored() {
    let mut manifest = static_source().to_json();
    manifest["metadata"] = json!({
        "name": "static-files-indexer", "namespace": "default", "uid": "6e1d", "resourceVersion": "81", "generation": 4,
        "creationTimestamp": "2025-09-05T10:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:dataSource": {"f:git": {"f:paths": {}}}}}}],
        "finalizers": [], "ownerReferences": []
    });
    manifest["status"] =
        json!({"phase": "Running", "conditions": [{"type": "ResourceReady"}], "errors": null});
    assert_eq!(source(&manifest.to_string()), static_source());
}

#[test]
fn a_name_has_a_namespace_and_notes() {
    let mut manifest = static_source().to_json();
    manifest["metadata"] = json!({
        "name": "docs.v2", "namespace": "team-a", "displayName": "The docs",
        "labels": {"app.kubernetes.io/name": "x", "gone": null}, "annotations": {"a/b": "c"}
    });
    let read = source(&manifest.to_string());
    assert_eq!(read.metadata.name, "team-a/docs.v2");
    let without_namespace = read.retriever.clone();
    assert_eq!(
        without_namespace, "my-ragengine",
        "the manifest that was written names the namespace"
    );
    manifest["spec"]["ragEngineRef"] = json!({"name": "r"});
    assert_eq!(source(&manifest.to_string()).retriever, "team-a/r");
    manifest["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("gone");
    assert_eq!(read.to_json()["metadata"], manifest["metadata"]);

    let two = format!("{}\n---\n{}", read.to_json(), static_source().to_json());
    assert_eq!(parse(&two).unwrap().len(), 2);
}

#[test]
fn every_other_kind_of_source_is_a_data_source() {
    for (kind, name, spec) in [
        (
            "folder",
            "Folder",
            json!({"path": "/srv/docs", "paths": ["*.md"]}),
        ),
        (
            "website",
            "website",
            json!({"url": "https://example.org/", "depth": 1, "delay": 0.5}),
        ),
        (
            "table",
            "TABLE",
            json!({"relation": "blog.posts", "idColumns": ["id"], "filter": {"n": 12.5}}),
        ),
        (
            "markdown",
            "Markdown",
            json!({"uri": "https://example.org/a.md"}),
        ),
    ] {
        let mut manifest = static_source().to_json();
        manifest["spec"]["dataSource"] = json!({"type": name, kind: spec, "git": null});
        assert_eq!(
            source(&manifest.to_string()),
            AutoIndexer {
                kind,
                spec,
                ..static_source()
            }
        );
    }
}

#[test]
fn the_extensions_are_read() {
    for (given, expected) in [
        (json!({"strategy": "Manual"}), DriftPolicy::Manual),
        (json!({"strategy": "Auto"}), DriftPolicy::Auto),
        (json!({"strategy": "ignore"}), DriftPolicy::Ignore),
        (json!({}), DriftPolicy::Auto),
        (Value::Null, DriftPolicy::Auto),
    ] {
        let mut manifest = static_source().to_json();
        manifest["spec"]["driftRemediationPolicy"] = given;
        assert_eq!(source(&manifest.to_string()).drift_policy, expected);
    }
    for (given, expected) in [
        (json!("1h30m"), Some(5_400_000_000)),
        (json!("1.0005s"), Some(1_000_500)),
        (json!("2s1ns"), Some(2_000_000)),
        (json!("576h"), Some(2_073_600_000_000)),
        (json!(90), Some(90_000_000)),
        (json!(1.000_001), Some(1_000_001)),
        (Value::Null, None),
    ] {
        let mut manifest = static_source().to_json();
        manifest["spec"]["timeout"] = given;
        assert_eq!(
            source(&manifest.to_string()).timeout,
            expected.map(Duration::from_micros)
        );
    }
    for (given, expected) in [
        (json!({"maxRetries": 0}), 0),
        (json!({"maxRetries": 100}), 100),
        (json!({}), 3),
    ] {
        let mut manifest = static_source().to_json();
        manifest["spec"]["retryPolicy"] = given;
        assert_eq!(source(&manifest.to_string()).max_retries, expected);
    }
}

#[test]
fn yaml_may_be_written_in_other_ways() {
    let crlf = format!("\u{FEFF}{}", GIT.replace('\n', "\r\n"));
    assert_eq!(source(&crlf), git_source());
    assert_eq!(source(&GIT.replace('\t', "  ")), git_source());
    assert_eq!(source(&GIT.replace('\t', "    ")), git_source());
    assert_eq!(source(&format!("%YAML 1.2\n---\n{GIT}...\n")), git_source());
    let anchored = GIT
        .replace("- docs/", "- &docs docs/")
        .replace("- src/", "- *docs")
        .replace("- test/", "- !!str 1");
    let spec = json!({
        "repositoryURL": "https://github.com/org/repo.git",
        "branch": "main",
        "paths": ["docs/", "docs/"],
        "excludePaths": ["1"]
    });
    assert_eq!(
        source(&anchored),
        AutoIndexer {
            spec,
            ..git_source()
        }
    );
    // In YAML 1.2 these are texts.
    for branch in ["on", "no", "2025-09-05"] {
        assert_eq!(
            source(&GIT.replace("branch: main", &format!("branch: {branch}"))).spec["branch"],
            branch
        );
    }
}

#[test]
fn defaults_are_written_out() {
    assert_eq!(
        static_source().to_json(),
        json!({
            "apiVersion": "kaito.ai/v1alpha1",
            "kind": "AutoIndexer",
            "metadata": {"name": "static-files-indexer", "namespace": "default"},
            "spec": {
                "ragEngineRef": {"name": "my-ragengine", "namespace": "default"},
                "indexName": "my-static-index",
                "dataSource": {
                    "type": "Static",
                    "static": {"endpoints": [
                        "https://example.com/docs/file1.pdf",
                        "https://example.com/docs/file2.txt"
                    ]}
                },
                "schedule": "@daily",
                "retryPolicy": {"maxRetries": 3},
                "suspend": false,
                "driftRemediationPolicy": {"strategy": "Auto"}
            }
        })
    );
}
