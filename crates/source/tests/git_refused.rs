//! Repositories, branches and commits that are refused.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{fs, path::PathBuf};

use crate::repository::Made;
use crate::support;
use git2::Signature;
use rag_definition::source::{GitSpec, PathFilter, Repository as Named, SourceSpec};
use rag_protocol::{EngineError, ErrorKind};

fn failed(spec: GitSpec) -> EngineError {
    support::try_open(&SourceSpec::Git(spec)).err().unwrap()
}

#[test]
fn a_tree_of_endless_files_is_refused() {
    let made = Made::new();
    let blob = made.repository.blob(b"x").unwrap();
    let mut entry = (blob, 0o100_644);
    for _ in 0..12 {
        let mut builder = made.repository.treebuilder(None).unwrap();
        for i in 0..10 {
            builder.insert(format!("d{i}"), entry.0, entry.1).unwrap();
        }
        entry = (builder.write().unwrap(), 0o040_000);
    }
    let tree = made.repository.find_tree(entry.0).unwrap();
    let author = Signature::now("Tester", "tester@example.org").unwrap();
    made.repository
        .commit(Some("HEAD"), &author, &author, "bomb", &tree, &[])
        .unwrap();
    let filter = PathFilter {
        paths: vec!["*.md".into()],
        exclude_paths: vec![],
    };
    let spec = GitSpec {
        filter,
        ..made.spec()
    };
    let mut source = support::try_open(&SourceSpec::Git(spec)).unwrap();
    let error = source.list().unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
}

#[test]
fn the_hint_for_an_unknown_branch_lists_the_branches() {
    let made = Made::new();
    let empty = failed(made.spec());
    assert_eq!(
        empty.hint.as_deref(),
        Some("The repository is empty: it has no branches.")
    );
    let commit = made.write("a.md", b"x").commit();
    let tip = made.repository.find_commit(commit).unwrap();
    for i in 0..11 {
        made.repository
            .branch(&format!("topic-{i:02}"), &tip, false)
            .unwrap();
    }
    let error = failed(GitSpec {
        branch: "master".into(),
        ..made.spec()
    });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.message,
        format!(
            "branch \"master\" does not exist in file://{}",
            made.path().display()
        )
    );
    let hint = error.hint.unwrap();
    assert!(
        hint.starts_with("Branches: main, topic-00, ") && hint.ends_with("topic-08, and 2 more."),
        "{hint}"
    );
    let error = failed(GitSpec {
        commit: Some("0123456789".into()),
        ..made.spec()
    });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert!(
        error
            .message
            .starts_with("commit \"0123456789\" does not exist"),
        "{}",
        error.message
    );
}

#[test]
fn a_folder_without_a_repository_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = Made::new();
    let spec = |path: PathBuf| GitSpec {
        repository: Named::Local(path),
        ..made.spec()
    };
    fs::write(folder.path().join("file"), "x").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert_eq!(
        failed(spec(folder.path().join("nowhere"))).kind,
        ErrorKind::FileNotFound
    );
    assert_eq!(
        failed(spec(folder.path().join("file"))).kind,
        ErrorKind::WrongFileType
    );
    let error = failed(spec(folder.path().join("empty")));
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert!(
        error.message.ends_with("is not a git repository"),
        "{}",
        error.message
    );
    // A folder inside a repository is not one.
    fs::create_dir(made.path().join("sub")).unwrap();
    assert_eq!(
        failed(spec(made.path().join("sub"))).kind,
        ErrorKind::SourceUnavailable
    );
}
