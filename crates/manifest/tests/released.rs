//! Manifests as KAITO's releases have them: `autoindexer.kaito.sh`, `ragEngine`, `repository`,
//! `urls`.

use rag_manifest::{AutoIndexer, Manifest, parse};
use serde_json::json;

fn manifest(spec: &str) -> String {
    format!(
        "apiVersion: autoindexer.kaito.sh/v1alpha1\nkind: AutoIndexer\nmetadata:\n  name: \
            guide\nspec:\n{spec}"
    )
}

#[track_caller]
fn source(spec: &str) -> AutoIndexer {
    match parse(&manifest(spec)).as_deref() {
        Ok([Manifest::AutoIndexer(source)]) => source.clone(),
        other => panic!("not one source: {other:?}"),
    }
}

#[track_caller]
fn problems(spec: &str) -> Vec<String> {
    let found = parse(&manifest(spec)).err().unwrap_or_default();
    found
        .iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

const GIT: &str = "  ragEngine: engine\n  indexName: code\n  schedule: \"0 * * * * \" # every \
    hour\n  dataSource:\n    \
                   type: Git\n    git:\n      repository: \"https://example.org/guide.git\"\n      branch: \"main\"\n      \
                   paths:\n        - \"*.go\"\n        - \"docs/\"\n";
const STATIC: &str = "  ragEngine: engine\n  indexName: papers\n  dataSource:\n    type: Static\n    static:\n      urls:\n        \
                      - \"https://example.org/a.pdf\"\n";

#[test]
fn a_released_manifest_is_that_of_the_proposal_under_other_names() {
    let git = source(GIT);
    assert_eq!(
        (git.retriever.as_str(), git.collection.as_str(), git.kind),
        ("engine", "code", "git")
    );
    let spec = json!({"branch": "main", "paths": ["*.go", "docs/"], "repositoryURL": "https://example.org/guide.git"});
    assert_eq!(git.spec, spec);
    assert_eq!(
        source(STATIC).spec,
        json!({"endpoints": ["https://example.org/a.pdf"]})
    );
    let written = git.to_json();
    assert_eq!(written["apiVersion"], "kaito.ai/v1alpha1");
    assert_eq!(
        written["spec"]["ragEngineRef"],
        json!({"name": "engine", "namespace": "default"})
    );
    match parse(&written.to_string()).as_deref() {
        Ok([Manifest::AutoIndexer(again)]) => assert_eq!(
            *again,
            AutoIndexer {
                renamed: vec![],
                ..git
            }
        ),
        other => panic!("{written}: {other:?}"),
    }
}

#[test]
fn problems_have_the_names_of_fields_as_written() {
    assert_eq!(
        problems(&GIT.replace("https://example", "ftp://example")),
        ["spec.dataSource.git.repository: must start with https:// or ssh://"]
    );
    assert_eq!(
        problems(&STATIC.replace("https://example.org/a.pdf", "a.pdf")),
        ["spec.dataSource.static.urls[0]: is not a URL"]
    );
    let source = source(STATIC);
    assert_eq!(
        source.as_written("spec.ragEngineRef.name"),
        "spec.ragEngine"
    );
    assert_eq!(
        source.as_written("spec.dataSource.static.endpoints[3]"),
        "spec.dataSource.static.urls[3]"
    );
    assert_eq!(source.as_written("spec.indexName"), "spec.indexName");
}

#[test]
fn a_field_by_both_names_is_refused() {
    assert_eq!(
        problems(&format!("{STATIC}  ragEngineRef: {{name: engine}}\n")),
        ["spec.ragEngine: means the same as \"ragEngineRef\""]
    );
    assert_eq!(
        problems(&GIT.replace(
            "      branch",
            "      repositoryURL: https://example.org/a.git\n      branch"
        )),
        ["spec.dataSource.git.repository: is not a known field"]
    );
}

/// The two of six shipped examples that cannot apply: they are for Azure's identities and for
/// Kusto.
#[test]
fn identities_of_a_cloud_and_its_databases_are_refused_by_name() {
    let identity =
        "  credentials:\n    type: WorkloadIdentity\n    workloadIdentityRef:\n      clientID: x\n";
    let found = problems(&format!("{GIT}{identity}"));
    assert!(
        found.iter().any(
            |p| p == "spec.credentials.type: \"WorkloadIdentity\" is not a type of credentials"
        ),
        "{found:?}"
    );
    let database = "  ragEngine: engine\n  indexName: a\n  dataSource:\n    type: Database\n    \
        database:\n      language: Kusto\n";
    let found = problems(database);
    assert!(
        found
            .iter()
            .any(|p| p == "spec.dataSource.type: \"Database\" is not a type of data source"),
        "{found:?}"
    );
}
