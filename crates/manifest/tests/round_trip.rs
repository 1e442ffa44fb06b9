//! Written manifests are read back, as JSON and as YAML.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*};
use rag_definition::{
    Notes, Quota, SecretRef, retriever::RetrieverDefinition, source::DriftPolicy,
};
use rag_manifest::{AutoIndexer, Manifest, Metadata, Retriever, parse};
use serde_json::{Value, json};

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,54}[a-z0-9])?"
}

/// `name` or `namespace/name`.
fn qualified() -> impl Strategy<Value = String> {
    "([a-z]{1,9}(-[0-9])?/)?[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z]{1,9})?"
        .prop_filter("default is not written", |name| {
            !name.starts_with("default/")
        })
}

fn texts() -> impl Strategy<Value = serde_json::Map<String, Value>> {
    vec((text(), text().prop_map(Value::from)), 0..3).prop_map(|texts| texts.into_iter().collect())
}

prop_compose! {
    fn metadata()(
        name in qualified(),
        display_name in option::of(text()),
        labels in texts(),
        annotations in texts(),
    ) -> Metadata {
        Metadata { name, notes: Notes { display_name, labels, annotations } }
    }
}

/// Texts that YAML could take for something else, and any other.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "(1\\.0|1e3|0x1F|007|true|null|~|on|- a|a: b|# \
            c|'|\"|\\||>|%|@|&a|\\*a|!!str|---|\\.\\.\\.|\\.nan)",
        "(\\[|\\{|a\tb|\ta|\t\na|\t\n\tb| a |a\nb\n|a\n\tb)",
        // The parser takes spaces of Unicode around a number for white space, and what writes YAML
        // does not know that.
        "[^\\x00\\p{White_Space}]([^\\x00]{0,18}[^\\x00\\p{White_Space}])?"
    ]
}

fn filter() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        ]
    })
}

/// Patterns of a .gitignore file.
fn pattern() -> impl Strategy<Value = String> {
    "(/?[a-z0-9_ -]{1,9}/?|\\*\\.[a-z]{1,3}|[a-z]{1,5}/\\*\\*|true|null|~|1e3)"
        .prop_filter("a pattern names something", |text| {
            !text.trim_matches(['/', ' ']).is_empty()
        })
}

fn data_source() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        (option::of("[a-z]{1,9}"), option::of("[0-9a-f]{7,40}"), vec(pattern(), 0..4)).prop_map(
            |(branch, commit, paths)| {
                let url = "https://example.org/a.git";
                ("git", json!({"repositoryURL": url, "branch": branch, "commit": commit, "paths": paths}))
            }
        ),
        (1..5_usize).prop_map(|n| {
            let endpoints: Vec<_> = (0..n).map(|i| format!("https://example.org/{i}?a=b#c: \
                d")).collect();
            ("static", json!({ "endpoints": endpoints }))
        }),
        vec(pattern(), 0..4).prop_map(|paths| ("folder", json!({"path": "/srv/docs", "excludePaths": paths}))),
        (0..100, any::<bool>())
            .prop_map(|(depth, all)| ("website", json!({"url": "https://a.example/", "depth": depth, "sitemap": all}))),
        (text(), filter()).prop_map(|(relation, filter)| ("table", json!({"relation": relation, "filter": filter}))),
        Just(("markdown", json!({"uri": "/srv/a.md"}))),
    ]
}

prop_compose! {
    fn source()(
        (metadata, retriever, collection) in (metadata(), qualified(), name()),
        (kind, spec) in data_source(),
        credentials in option::of((name(), "[-._a-zA-Z0-9]{1,9}")),
        schedule in option::of(text()),
        max_retries in 0..=100_u32,
        suspend in any::<bool>(),
        drift_policy in prop_oneof![Just(DriftPolicy::Auto), Just(DriftPolicy::Manual), Just(DriftPolicy::Ignore)],
        timeout in option::of(1_000_000..2_073_600_000_000_u64),
        max_documents in option::of(1..i64::MAX),
        max_bytes in option::of(1..i64::MAX),
    ) -> AutoIndexer {
        AutoIndexer {
            metadata, retriever, collection, kind, spec,
            credentials: credentials.map(|(name, key)| SecretRef { name, key: Some(key) }),
            schedule, max_retries, suspend, drift_policy,
            timeout: timeout.map(Duration::from_micros),
            quota: Quota { max_documents, max_bytes },
            renamed: vec![],
        }
    }
}

prop_compose! {
    fn retriever()(
        metadata in metadata(),
        storage in option::of(prop_oneof![Just("hnsw"), Just("flat")]),
        weight in option::of(0.0..=1.0_f64),
        model in option::of(text()),
        description in option::of(text()),
    ) -> Retriever {
        let mut spec = json!({});
        if let Some(storage) = storage {
            spec["storageConfig"] = json!({"type": storage, "indexStrategy": {"mode": "per_dataset"}});
        }
        if let Some(weight) = weight {
            spec["retrievalMethods"] = json!({"vector": {"enabled": true, "defaultWeight": weight}});
        }
        if let Some(model) = model {
            spec["embedding"] = json!({ "model": model });
        }
        if let Some(description) = description {
            spec["description"] = description.into();
        }
        let definition = RetrieverDefinition::parse(&spec).unwrap_or_default();
        Retriever { metadata, definition }
    }
}

fn manifest() -> impl Strategy<Value = Manifest> {
    prop_oneof![
        source().prop_map(Manifest::AutoIndexer),
        retriever().prop_map(Manifest::Retriever)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn written_json_is_read_back(manifest in manifest()) {
        let json = manifest.to_json();
        prop_assert_eq!(parse(&json.to_string()), Ok(vec![manifest.clone()]));
        let pretty = serde_json::to_string_pretty(&json).unwrap();
        prop_assert_eq!(parse(&pretty.replace("\n  ", "\n\t")), Ok(vec![manifest]), "with tabs");
    }

    #[test]
    fn written_yaml_is_read_back(manifest in manifest()) {
        let yaml = serde_saphyr::to_string(&manifest.to_json()).unwrap();
        prop_assert_eq!(parse(&yaml), Ok(vec![manifest]), "{}", yaml);
    }

    #[test]
    fn several_written_documents_are_read_back(manifests in vec(manifest(), 1..5)) {
        let names: std::collections::HashSet<_> = manifests.iter().map(|it| (it.kind(), it.name())).collect();
        prop_assume!(names.len() == manifests.len());
        let documents: Vec<_> = manifests.iter().map(|manifest| manifest.to_json().to_string()).collect();
        prop_assert_eq!(parse(&documents.join("\n---\n")), Ok(manifests));
    }
}
