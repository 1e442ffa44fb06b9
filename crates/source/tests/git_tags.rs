//! Tags in place of branches, of a repository on this machine and of a server.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::repository::Made;
use crate::served::{Served, all};
use crate::support;
use rag_definition::source::{GitSpec, SourceSpec};

#[test]
fn a_tag_is_read_if_no_branch_has_its_name() {
    let made = Made::new();
    let first = made.write("a.md", b"one").commit();
    let annotated = tag(&made.repository, first);
    made.write("a.md", b"two").commit();
    let open = |spec| support::try_open(&SourceSpec::Git(spec)).unwrap();
    let text = |spec| String::from_utf8(all(&mut *open(spec))["a.md"].clone()).unwrap();
    for branch in ["v1", "light"] {
        let spec = GitSpec {
            branch: branch.into(),
            ..made.spec()
        };
        assert_eq!(text(spec), "one", "{branch}");
    }
    let spec = GitSpec {
        commit: Some(annotated.to_string()),
        ..made.spec()
    };
    assert_eq!(text(spec), "one", "the id of a tag stands for its commit");
    let second = made.repository.head().unwrap().peel_to_commit().unwrap();
    made.repository.branch("v1", &second, false).unwrap();
    let spec = GitSpec {
        branch: "v1".into(),
        ..made.spec()
    };
    assert_eq!(text(spec), "two", "the branch comes first");
}

/// Tags a commit as `v1`, with a message, and as `light`. Returns the id of the former.
fn tag(repository: &git2::Repository, commit: git2::Oid) -> git2::Oid {
    let object = repository.find_object(commit, None).unwrap();
    let tagger = git2::Signature::now("a", "a@example.org").unwrap();
    repository.tag_lightweight("light", &object, false).unwrap();
    repository
        .tag("v1", &object, &tagger, "the first", false)
        .unwrap()
}

#[test]
fn a_tag_is_fetched_if_no_branch_has_its_name() {
    let served = Served::new();
    let made = &served.made;
    let first = made.write("a.md", b"one").commit();
    let object = made.repository.find_object(first, None).unwrap();
    let tagger = git2::Signature::now("a", "a@example.org").unwrap();
    let tag = |name, object: &git2::Object<'_>, is_new: bool| {
        let tags = &made.repository;
        tags.tag(name, object, &tagger, "a tag", !is_new).unwrap()
    };
    let annotated = tag("v1", &object, true);
    let second = made.write("a.md", b"two").commit();
    let text = |spec| all(&mut *rag_source::open(&served.job(spec)).unwrap())["a.md"].clone();
    let of_branch = |branch: &str| GitSpec {
        branch: branch.into(),
        ..served.spec()
    };
    assert_eq!(text(of_branch("v1")), b"one");
    let log = served.server.take_log();
    assert_eq!(text(of_branch("v1")), b"one");
    assert_eq!(served.server.take_log().1, 0, "fetched once: {log:?}");
    let spec = GitSpec {
        commit: Some(annotated.to_string()),
        ..served.spec()
    };
    assert_eq!(text(spec), b"one", "the id of a tag stands for its commit");
    let object = made.repository.find_object(second, None).unwrap();
    tag("v1", &object, false);
    assert_eq!(text(of_branch("v1")), b"two", "a tag that was moved");
    let commit = made.repository.find_commit(first).unwrap();
    made.repository.branch("v1", &commit, false).unwrap();
    assert_eq!(text(of_branch("v1")), b"one", "the branch comes first");
    let mut branch = made
        .repository
        .find_branch("v1", git2::BranchType::Local)
        .unwrap();
    branch.delete().unwrap();
    assert_eq!(text(of_branch("v1")), b"two", "and is gone again");
}
