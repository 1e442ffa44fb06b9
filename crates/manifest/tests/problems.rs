//! All problems of a manifest are reported at once, with the paths of their fields.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::support::problems;
use rag_definition::name::NameForm;
use rag_manifest::{MAX_DOCUMENTS, Manifest, parse};
use serde_json::{Value, json};

fn source() -> Value {
    json!({
        "apiVersion": "kaito.ai/v1alpha1",
        "kind": "AutoIndexer",
        "metadata": {"name": "a"},
        "spec": {
            "ragEngineRef": {"name": "r"},
            "indexName": "c",
            "dataSource": {"type": "Git", "git": {"repositoryURL": "https://example.org/a.git"}}
        }
    })
}

/// Puts values at JSON pointers.
fn with(mut manifest: Value, changes: &[(&str, Value)]) -> String {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        manifest.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    manifest.to_string()
}

#[test]
fn every_wrong_field_is_reported() {
    const NAME: &str = NameForm::Collection.hint();
    const SUBDOMAIN: &str = NameForm::Subdomain.hint();
    const NAMESPACE: &str = NameForm::Namespace.hint();
    const DURATION: &str = "Write a duration such as 1h30m, or a number of seconds.";
    const TYPES: &str = "Values: Git, Static, Website, Folder, Markdown, Table, S3, AzBlob, GCS.";
    const NUMBER: &str = "Put the value in quotes. Without quotes it is read as a number.";
    const GIT: &str = "Fields: repositoryURL, branch, commit, hostKeys, paths, excludePaths, lfs, \
                       submodules, category, tags.";
    let long = "x".repeat(254);
    assert_eq!(
        problems(&source().to_string().replace("AutoIndexer", "Autoindexr")),
        [
            "kind: \"Autoindexr\" is not a kind of manifest | Did you mean \"AutoIndexer\"? \
                Kinds: AutoIndexer, \
             Retriever."
        ]
    );
    for (pointer, value, expected) in [
        (
            "/apiVersion",
            json!("v1"),
            "apiVersion: \"v1\" is not an API version of AutoIndexer | \
             Write apiVersion: kaito.ai/v1alpha1 for kind AutoIndexer (accepted: kaito.ai/..., autoindexer.kaito.sh/..., rag/...)."
                .into(),
        ),
        (
            "/apiVersion",
            json!("kaito.ai/"),
            "apiVersion: \"kaito.ai/\" is not an API version of AutoIndexer | \
             Write apiVersion: kaito.ai/v1alpha1 for kind AutoIndexer (accepted: kaito.ai/..., autoindexer.kaito.sh/..., rag/...)."
                .into(),
        ),
        (
            "/apiVersion",
            Value::Null,
            "apiVersion: is missing | \
             Write apiVersion: kaito.ai/v1alpha1 for kind AutoIndexer (accepted: kaito.ai/..., autoindexer.kaito.sh/..., rag/...)."
                .into(),
        ),
        (
            "/kind",
            json!("CronJob"),
            "kind: \"CronJob\" is not a kind of manifest | Kinds: AutoIndexer, Retriever.".into(),
        ),
        (
            "/kind",
            json!("RAGEngine"),
            "kind: \"RAGEngine\" is not a kind of manifest | Kinds: AutoIndexer, Retriever.".into(),
        ),
        ("/metadata", Value::Null, "metadata: is missing | Write metadata: {name: ...}.".into()),
        ("/metadata/name", Value::Null, "metadata.name: is missing".into()),
        ("/metadata/name", json!("A"), format!("metadata.name: \"A\" is not a valid name | \
            {SUBDOMAIN}")),
        ("/metadata/name", json!("a-"), format!("metadata.name: \"a-\" is not a valid name | \
            {SUBDOMAIN}")),
        ("/metadata/name", json!("b/a"), format!("metadata.name: \"b/a\" is not a valid name | \
            {SUBDOMAIN}")),
        ("/metadata/namespace", json!("b.c"), format!("metadata.namespace: \"b.c\" is not a valid \
            name | {NAMESPACE}")),
        ("/metadata/labels", json!("b"), "metadata.labels: must be an object, not a string".into()),
        ("/metadata/labels", json!({"b": 1}), format!("metadata.labels.b: must be a string, not a \
            number | {NUMBER}")),
        ("/metadata/annotations", json!({"b": {}}), "metadata.annotations.b: must be a string, \
            not an object".into()),
        ("/metadata/name", json!(""), "metadata.name: must not be empty".into()),
        ("/metadata/name", json!(7), format!("metadata.name: must be a string, not a number | \
            {NUMBER}")),
        ("/metadata/name", json!(long), "metadata.name: must have at most 253 characters, not \
            254".into()),
        (
            "/spec/shedule",
            json!("@daily"),
            "spec.shedule: is not a known field | Did you mean \"schedule\"? Fields: \
                ragEngineRef, ragEngine, indexName, \
             dataSource, credentials, schedule, retryPolicy, suspend, driftRemediationPolicy, timeout, quota."
                .into(),
        ),
        ("/spec/ragEngineRef", Value::Null, "spec.ragEngineRef: is missing | Fields: name, \
            namespace.".into()),
        (
            "/spec/ragEngineRef",
            json!("r"),
            "spec.ragEngineRef: must be an object, not a string | Fields: name, namespace.".into(),
        ),
        ("/spec/ragEngineRef/name", Value::Null, "spec.ragEngineRef.name: is missing".into()),
        ("/spec/indexName", Value::Null, "spec.indexName: is missing".into()),
        ("/spec/indexName", json!("a_"), format!("spec.indexName: \"a_\" is not a valid name | \
            {NAME}")),
        (
            "/spec/indexName",
            json!(true),
            "spec.indexName: must be a string, not a boolean | Put the value in quotes. Without \
                quotes it is read as a boolean."
                .into(),
        ),
        (
            "/spec/dataSource",
            Value::Null,
            "spec.dataSource: is missing | Fields: type, git, static, website, folder, markdown, \
                table, s3, azblob, gcs.".into(),
        ),
        (
            "/spec/dataSource/type",
            json!("Gti"),
            format!("spec.dataSource.type: \"Gti\" is not a type of data source | Did you mean \
                \"Git\"? {TYPES}"),
        ),
        (
            "/spec/dataSource/type",
            json!("FTP"),
            format!("spec.dataSource.type: \"FTP\" is not a type of data source | {TYPES}"),
        ),
        ("/spec/dataSource/type", Value::Null, "spec.dataSource.type: is missing | Write type: \
            Git.".into()),
        (
            "/spec/dataSource/git",
            Value::Null,
            "spec.dataSource.git: is missing | The type is Git. Fields: repositoryURL, branch, \
             commit, hostKeys, paths, excludePaths, lfs, submodules, category, tags."
                .into(),
        ),
        ("/spec/dataSource/git", json!(["a"]), "spec.dataSource.git: must be an object, not an \
                array".into()),
        (
            "/spec/dataSource/static",
            json!({"endpoints": 3}),
            "spec.dataSource.static: is a second data source: the type is Git | \
             Leave it out, or write type: Static."
                .into(),
        ),
        ("/spec/dataSource/git/repositoryURL", Value::Null, "spec.dataSource.git.repositoryURL: \
            is missing".into()),
        (
            "/spec/dataSource/git/brnch",
            json!("main"),
            format!("spec.dataSource.git.brnch: is not a known field | Did you mean \
                \"branch\"? {GIT}"),
        ),
        (
            "/spec/dataSource/git/branch",
            json!(1.0),
            format!("spec.dataSource.git.branch: must be a string, not a number | {NUMBER}"),
        ),
        (
            "/spec/dataSource/git/commit",
            json!(123456),
            format!("spec.dataSource.git.commit: must be a string, not a number | {NUMBER}"),
        ),
        (
            "/spec/dataSource/git/paths",
            json!(["a", "b", 2]),
            format!("spec.dataSource.git.paths[2]: must be a string, not a number | {NUMBER}"),
        ),
        ("/spec/credentials", json!({}), "spec.credentials.type: is missing | Write type: \
            SecretRef.".into()),
        (
            "/spec/retryPolicy",
            json!({"maxRetries": -1}),
            "spec.retryPolicy.maxRetries: must be an integer from 0 to 100, not -1".into(),
        ),
        (
            "/spec/retryPolicy",
            json!({"maxRetries": 101}),
            "spec.retryPolicy.maxRetries: must be an integer from 0 to 100, not 101".into(),
        ),
        (
            "/spec/retryPolicy",
            json!({"maxRetries": 1.5}),
            "spec.retryPolicy.maxRetries: must be an integer from 0 to 100, not 1.5".into(),
        ),
        (
            "/spec/retryPolicy",
            json!({"maxRetries": "3"}),
            "spec.retryPolicy.maxRetries: must be an integer from 0 to 100, not a string | Write the number without quotes.".into(),
        ),
        (
            "/spec/suspend",
            json!("true"),
            "spec.suspend: must be a boolean, not a string | Write true or false, without \
                quotes.".into(),
        ),
        ("/spec/schedule", json!(" "), "spec.schedule: must not be empty".into()),
        (
            "/spec/driftRemediationPolicy",
            json!("always"),
            "spec.driftRemediationPolicy: must be an object, not a string | Fields: strategy.".into(),
        ),
        (
            "/spec/driftRemediationPolicy",
            json!({"strategy": "manul"}),
            "spec.driftRemediationPolicy.strategy: \"manul\" is not a drift policy | Did you mean \
                \"Manual\"? \
             Values: Auto, Manual, Ignore."
                .into(),
        ),
        (
            "/spec/driftRemediationPolicy",
            json!({"policy": "Auto"}),
            "spec.driftRemediationPolicy.policy: is not a known field | Fields: strategy.".into(),
        ),
        ("/spec/timeout", json!("90"), format!("spec.timeout: is not a duration | {DURATION}")),
        ("/spec/timeout", json!(-1), format!("spec.timeout: is not a duration | {DURATION}")),
        ("/spec/timeout", json!("999ms"), format!("spec.timeout: must be from 1s to 576h, not \
            0.999s | {DURATION}")),
        ("/spec/timeout", json!(0), format!("spec.timeout: must be from 1s to 576h, not 0s | \
            {DURATION}")),
        ("/spec/timeout", json!("576h1s"), format!("spec.timeout: must be from 1s to 576h, not \
            576h1s | {DURATION}")),
        ("/spec/quota", json!(5), "spec.quota: must be an object, not a number | Fields: maxDocuments, maxBytes.".into()),
        ("/spec/quota", json!({"maxDocuments": 0}), "spec.quota.maxDocuments: must be a positive \
            integer, not 0".into()),
        ("/spec/timeout", json!([]), "spec.timeout: must be a string, not an array".into()),
    ] {
        let found = problems(&with(source(), &[(pointer, value.clone())]));
        let mut expected = vec![expected];
        if pointer == "/spec/credentials" {
            expected.push("spec.credentials.secretRef: is missing | Fields: name, key.".into());
        }
        assert_eq!(found, expected, "{pointer} {value}");
    }
}

#[test]
fn exactly_one_data_source() {
    let no_type = json!({"git": {"repositoryURL": "https://example.org/a.git"}, "static": {"endpoints": ["/a"]}});
    assert_eq!(
        problems(&with(source(), &[("/spec/dataSource", no_type)])),
        [
            "spec.dataSource.type: is missing | Types: Git, Static, Website, Folder, Markdown, \
                Table, S3, AzBlob, GCS.",
            "spec.dataSource: has 2 data sources: git, static | Keep one, and write its type."
        ]
    );
    assert_eq!(
        problems(&with(source(), &[("/spec/dataSource", json!({}))])),
        [
            "spec.dataSource.type: is missing | Types: Git, Static, Website, Folder, Markdown, \
                Table, S3, AzBlob, GCS.",
            "spec.dataSource: has no data source | Write one of git, static, website, folder, \
                markdown, table, s3, azblob, gcs."
        ]
    );
    let other = json!({"type": "Static", "git": {"repositoryURL": "https://example.org/a.git"}});
    assert_eq!(
        problems(&with(source(), &[("/spec/dataSource", other)])),
        [
            "spec.dataSource.static: is missing | The type is Static. Fields: endpoints, \
                category, tags.",
            "spec.dataSource.git: is a second data source: the type is Static | Leave it out, or \
                write type: Git."
        ]
    );
    let unnamed = json!({"git": {"branch": 1}});
    assert_eq!(
        problems(&with(source(), &[("/spec/dataSource", unnamed)])),
        [
            "spec.dataSource.type: is missing | Write type: Git.",
            "spec.dataSource.git.repositoryURL: is missing",
            "spec.dataSource.git.branch: must be a string, not a number | \
         Put the value in quotes. Without quotes it is read as a number.",
        ]
    );
}

#[test]
fn all_problems_of_a_source_are_reported_at_once() {
    let text = with(
        source(),
        &[
            ("/colour", json!(1)),
            ("/metadata/name", json!("A b")),
            ("/metadata/lables", json!({})),
            ("/spec/indexName", json!(7)),
            ("/spec/dataSource/git/branch", json!("a b")),
            ("/spec/dataSource/git/commit", json!("HEAD")),
            (
                "/spec/credentials",
                json!({"type": "Password", "secretRef": {"name": "s", "password": "p"}}),
            ),
            ("/spec/retryPolicy", json!({"retries": 3})),
            ("/spec/suspend", json!(1)),
            ("/spec/timeout", json!("soon")),
        ],
    );
    let fields: Vec<_> = parse(&text)
        .unwrap_err()
        .into_iter()
        .map(|problem| problem.field)
        .collect();
    assert_eq!(
        fields,
        [
            "colour",
            "metadata.lables",
            "metadata.name",
            "spec.indexName",
            "spec.dataSource.git.branch",
            "spec.dataSource.git.commit",
            "spec.credentials.type",
            "spec.credentials.secretRef.password",
            "spec.credentials.secretRef.key",
            "spec.retryPolicy.retries",
            "spec.suspend",
            "spec.timeout",
        ]
    );
}

#[test]
fn the_hint_for_an_unquoted_number_is_to_quote_it() {
    let yaml =
        include_str!("data/git.yaml").replace("branch: main", "branch: 1.0\n\t\t\tcommit: 123456");
    let hint = "Put the value in quotes. Without quotes it is read as a number.";
    assert_eq!(
        problems(&yaml),
        [
            format!("spec.dataSource.git.branch: must be a string, not a number | {hint}"),
            format!("spec.dataSource.git.commit: must be a string, not a number | {hint}"),
        ]
    );
    assert!(
        parse(
            &yaml
                .replace("1.0", "\"1.0\"")
                .replace("123456", "'1234567'")
        )
        .is_ok()
    );
}

#[test]
fn problems_of_several_documents_name_the_document() {
    let good = include_str!("data/static.yaml");
    let text = format!(
        "{good}---\n{}---\n\n# nothing here\n---\nkind: Secret\n---\n- a\n---\n\tb: [\n---\n{good}",
        good.replace("name: static-files-indexer", "name: B")
            .replace("type: Static", "type: Git")
    );
    let line = text.lines().position(|line| line == "\tb: [").unwrap() + 1;
    let found: Vec<_> = parse(&text)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "document 2: metadata.name: \"B\" is not a valid name",
            "document 2: spec.dataSource.git: is missing",
            "document 2: spec.dataSource.static: is a second data source: the type is Git",
            "document 3: kind: \"Secret\" is not a kind of manifest",
            "document 4: must be an object, not an array",
            &format!("document 5: line {line}, column 5: unclosed bracket '['"),
            "document 6: metadata.name: is the same as in document 1, of the same kind",
        ]
    );
}

#[test]
fn a_syntax_error_has_its_line_and_column() {
    for (text, expected) in [
        (
            "a: b: c",
            "line 1, column 5: mapping values are not allowed in this context",
        ),
        (
            "a:\r\n\tb: 1\r\n\t\tc: 2",
            "line 3, column 4: mapping values are not allowed in this context",
        ),
        ("a:\n\t- 'x", "line 2, column 4: "),
        (
            "a: \"\\q\"",
            "line 1, column 4: while parsing a quoted scalar, found unknown escape character",
        ),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: duplicate key \"a\""),
        (
            "{\"a\": 1,\n \"a\": 2}",
            "line 2, column 4: duplicate key \"a\"",
        ),
        (
            "---\n\n{\"a\": \"\\x\"}",
            "line 3, column 9: invalid escape",
        ),
        (
            "--- {\"a\": \"b\" \"c\"}",
            "line 1, column 15: expected `,` or `}`",
        ),
        ("{\"a\": 1} x", "line 1, column 10: trailing characters"),
        ("  a: 1\nb: 2\n", "line 2, column 1: "),
        ("a: .inf", "line 1, column 4: a number is not finite"),
        ("a: !thing b", "line 1, column 11: unsupported tag `!thing`"),
        ("a: *b", "line 1, column 4: alias references unknown anchor"),
        (
            "a: \"\\0\"",
            "line 1, column 4: a string contains a NUL character, which PostgreSQL cannot store",
        ),
    ] {
        let problems = parse(text).unwrap_err();
        let found = problems[0].to_string();
        let expected = format!("manifest: {expected}");
        assert!(found.starts_with(&expected), "{text:?}: {found}");
    }
}

#[test]
fn a_text_without_documents_is_a_problem() {
    for text in [
        "",
        " \n",
        "---",
        "---\n---\n...\n",
        "# only this",
        "null",
        "\u{FEFF}",
        "---\n~\n---\n",
        "\t\n\t",
    ] {
        assert_eq!(
            problems(text),
            ["manifest: contains no document"],
            "{text:?}"
        );
    }
}

#[test]
fn items_of_lists_are_documents() {
    let retriever = |name: &str| {
        format!(
            "{{apiVersion: agent.wecode.io/v1, kind: Retriever, metadata: {{name: {name}}}, spec: {{}}}}"
        )
    };
    let list =
        |items: &[String]| format!("apiVersion: v1\nkind: List\nitems: [{}]", items.join(", "));
    let parsed = parse(&list(&[retriever("a"), "null".into(), retriever("b")])).unwrap();
    assert_eq!(
        parsed.iter().map(Manifest::name).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert!(parse(&list(&[])).unwrap().is_empty());
    let twice = format!(
        "{}\n---\n{}",
        retriever("a"),
        list(&[retriever("b"), retriever("a"), "1".into()])
    );
    assert_eq!(
        problems(&twice),
        [
            "document 2: items[1]: metadata.name: is the same as in document 1, of the same kind \
             | Remove one of the two documents.",
            "document 2: items[2]: must be an object, not a number | Fields: apiVersion, kind, \
             metadata, spec, status.",
        ]
    );
    let many = list(&vec![retriever("a"); MAX_DOCUMENTS + 1]);
    assert!(
        parse(&many).unwrap_err()[0]
            .message
            .contains("more than the limit of 1000")
    );
}
