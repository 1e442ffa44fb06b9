//! Real repositories, opened in place.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use crate::support;
use std::{
    collections::HashMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    process::Command,
};

use crate::repository::{Made, names};
use crate::support::{bytes, job};
use git2::{Oid, Signature};
use rag_definition::source::{GitSpec, PathFilter, Repository as Named, SourceSpec};
use rag_protocol::ingest::{KnownVersion, Stage};
use rag_source::{FetchOutcome, SkippedFile, SourceItem, SourceReader};

fn open(spec: GitSpec) -> Box<dyn SourceReader> {
    support::try_open(&SourceSpec::Git(spec)).unwrap()
}

fn contents(source: &mut dyn SourceReader) -> HashMap<String, String> {
    let items = source.list().unwrap().items;
    let text = |item| String::from_utf8(bytes(source, item).unwrap()).unwrap();
    let texts: Vec<String> = items.iter().map(text).collect();
    items.into_iter().map(|item| item.name).zip(texts).collect()
}

#[test]
fn the_files_of_the_branch_are_listed_and_read_from_the_object_store() {
    let made = Made::new();
    let commit = made
        .write("docs/a b.md", b"committed")
        .write("README.md", b"readme")
        .commit();
    made.write("docs/a b.md", b"changed")
        .write("new.md", b"not committed");
    let mut source = open(made.spec());
    let listing = source.list().unwrap();
    assert_eq!(names(&listing), ["README.md", "docs/a b.md"]);
    assert_eq!(listing.commit, Some(commit.to_string()));
    assert!(listing.complete && listing.failures.is_empty());
    assert_eq!(
        listing.items[1].uri,
        format!("file://{}#docs/a%20b.md", made.path().display())
    );
    assert_eq!(listing.items[1].size, 9);
    assert_eq!(
        bytes(source.as_mut(), &listing.items[1]).unwrap(),
        b"committed"
    );
}

#[test]
fn a_bare_repository_works_too() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let spec = GitSpec {
        repository: Named::Local(made.path().join(".git")),
        ..made.spec()
    };
    assert_eq!(names(&open(spec).list().unwrap()), ["a.md"]);
}

#[test]
fn branch_and_commit_select_the_files() {
    let made = Made::new();
    let first = made.write("a.md", b"one").commit();
    made.repository
        .branch("old", &made.repository.find_commit(first).unwrap(), false)
        .unwrap();
    made.write("a.md", b"two").commit();
    let text = |spec| contents(&mut *open(spec))["a.md"].clone();
    assert_eq!(text(made.spec()), "two");
    assert_eq!(
        text(GitSpec {
            branch: "old".into(),
            ..made.spec()
        }),
        "one"
    );
    assert_eq!(
        text(GitSpec {
            commit: Some(first.to_string()),
            ..made.spec()
        }),
        "one"
    );
    assert_eq!(
        text(GitSpec {
            commit: Some(first.to_string()[..10].into()),
            ..made.spec()
        }),
        "one"
    );
}

#[test]
fn patterns_select_paths() {
    let made = Made::new();
    made.write("docs/a.md", b"")
        .write("docs/b.txt", b"")
        .write("src/c.md", b"")
        .write(".github/d.md", b"")
        .commit();
    let listed = |paths: &[&str]| {
        let paths = paths.iter().map(ToString::to_string).collect();
        let filter = PathFilter {
            paths,
            exclude_paths: vec!["src/".into()],
        };
        names(
            &open(GitSpec {
                filter,
                ..made.spec()
            })
            .list()
            .unwrap(),
        )
        .join(" ")
    };
    assert_eq!(listed(&["*.md"]), "docs/a.md");
    assert_eq!(listed(&["*.md", ".github/"]), ".github/d.md docs/a.md");
}

#[test]
fn links_and_submodules_are_skipped() {
    let made = Made::new();
    symlink("/etc/passwd", made.path().join("link.md")).unwrap();
    let commit = made.write("a.md", b"x").commit();
    let mut index = made.repository.index().unwrap();
    let entry = git2::IndexEntry {
        ctime: git2::IndexTime::new(0, 0),
        mtime: git2::IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode: 0o160_000,
        uid: 0,
        gid: 0,
        file_size: 0,
        id: commit,
        flags: 0,
        flags_extended: 0,
        path: b"module".to_vec(),
    };
    index.add(&entry).unwrap();
    let tree = made
        .repository
        .find_tree(index.write_tree().unwrap())
        .unwrap();
    let author = Signature::now("Tester", "tester@example.org").unwrap();
    let parent = made.repository.find_commit(commit).unwrap();
    made.repository
        .commit(Some("HEAD"), &author, &author, "module", &tree, &[&parent])
        .unwrap();
    let listing = open(made.spec()).list().unwrap();
    assert_eq!(names(&listing), ["a.md"]);
    assert_eq!(
        listing.skipped.described().as_deref(),
        Some("1 submodule, 1 symbolic link")
    );
}

#[test]
fn a_blob_beyond_the_limit_is_a_failure() {
    let made = Made::new();
    made.write("large.md", &[b'x'; 1001]).commit();
    let mut source = open(made.spec());
    let item = source.list().unwrap().items.remove(0);
    let failure = bytes(source.as_mut(), &item).unwrap_err();
    assert_eq!(failure.stage, Stage::Fetch);
    assert_eq!(
        failure.message,
        "the file has 1001 bytes, more than the limit of 1000 bytes"
    );
}

#[test]
fn hooks_and_filters_of_a_repository_never_run() {
    let made = Made::new();
    let witness = made.path().join("witness");
    let script = format!("#!/bin/sh\ntouch {}\ncat", witness.display());
    made.write(".gitattributes", b"*.md filter=evil\n")
        .write("a.md", b"x");
    made.repository
        .config()
        .unwrap()
        .set_str("filter.evil.smudge", &script)
        .unwrap();
    made.repository
        .config()
        .unwrap()
        .set_str("core.fsmonitor", &script)
        .unwrap();
    made.commit();
    assert_eq!(contents(&mut *open(made.spec()))["a.md"], "x");
    assert!(!witness.exists());
}

#[test]
fn a_repository_of_another_owner_opens() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let changed = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(made.path())
        .status();
    if !changed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only the superuser can give files away");
        return;
    }
    assert_eq!(names(&open(made.spec()).list().unwrap()), ["a.md"]);
}

fn metadata(
    source: &mut dyn SourceReader,
    item: &SourceItem,
) -> serde_json::Map<String, serde_json::Value> {
    match source.fetch(item, None).unwrap() {
        FetchOutcome::Content(content) => content.metadata,
        other => panic!("nothing was known of it, and yet it was {other:?}"),
    }
}

#[test]
fn metadata_has_repository_path_and_commit() {
    let made = Made::new();
    let commit = made.write("docs/a b.md", b"x").commit().to_string();
    let blob = Oid::hash_object(git2::ObjectType::Blob, b"x")
        .unwrap()
        .to_string();
    let url = format!("file://{}", made.path().display());
    let found = |spec| {
        let mut source = open(spec);
        let item = source.list().unwrap().items.remove(0);
        assert_eq!(item.validator, Some(blob.clone()));
        serde_json::Value::Object(metadata(source.as_mut(), &item))
    };
    let mut expected = serde_json::json!({"repository": url, "path": "docs/a b.md", "commit": commit, "blob": blob});
    assert_eq!(
        found(GitSpec {
            commit: Some(commit.clone()),
            ..made.spec()
        }),
        expected
    );
    expected["branch"] = "main".into();
    assert_eq!(found(made.spec()), expected);
}

#[test]
fn names_of_any_encoding_have_distinct_uris() {
    let made = Made::new();
    for name in [
        &b"caf\xe9.md"[..],
        b"caf\xe8.md",
        "café.md".as_bytes(),
        b"a\nb#%.md",
    ] {
        let path = made.path().join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, name).unwrap();
    }
    made.commit();
    let mut source = open(made.spec());
    let items = source.list().unwrap().items;
    let uris: Vec<_> = items
        .iter()
        .map(|item| item.uri.split_once('#').unwrap().1)
        .collect();
    assert_eq!(
        uris,
        ["a%0Ab%23%25.md", "caf%C3%A9.md", "caf%E8.md", "caf%E9.md"]
    );
    let paths: Vec<_> = items
        .iter()
        .map(|item| metadata(source.as_mut(), item)["path"].clone())
        .collect();
    assert_eq!(paths, ["a\nb#%.md", "café.md", "caf%E8.md", "caf%E9.md"]);
    assert_eq!(bytes(source.as_mut(), &items[3]).unwrap(), b"caf\xe9.md");
}

#[test]
fn pointers_of_git_lfs_are_skipped_on_request() {
    let made = Made::new();
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "0".repeat(64)
    );
    made.write("film.md", pointer.as_bytes())
        .write("text.md", b"version https://git-lfs.github.com/spec/v2\n")
        .commit();
    let spec = GitSpec {
        lfs: false,
        ..made.spec()
    };
    let mut source = open(spec);
    let items = source.list().unwrap().items;
    assert_eq!(
        source.fetch(&items[0], None),
        Ok(FetchOutcome::Skipped(SkippedFile::LfsPointer))
    );
    assert!(bytes(source.as_mut(), &items[1]).is_ok());
}

#[test]
fn the_listing_follows_renames_and_type_changes() {
    let made = Made::new();
    let filter = PathFilter {
        paths: vec!["docs/".into()],
        exclude_paths: vec!["docs/old/".into()],
    };
    let spec = GitSpec {
        filter,
        ..made.spec()
    };
    let listed = || {
        let items = open(spec.clone()).list().unwrap().items;
        items
            .into_iter()
            .map(|item| (item.name, item.validator.unwrap()))
            .collect::<Vec<_>>()
    };
    let blob = |text: &[u8]| {
        Oid::hash_object(git2::ObjectType::Blob, text)
            .unwrap()
            .to_string()
    };
    let entry = |path: &str, text: &[u8]| (path.to_owned(), blob(text));
    let mv = |from: &str, to: &str| {
        fs::create_dir_all(made.path().join(to).parent().unwrap()).unwrap();
        fs::rename(made.path().join(from), made.path().join(to)).unwrap();
    };
    made.write("docs/a.md", b"a")
        .write("docs/old/b.md", b"b")
        .write("c.md", b"c")
        .commit();
    assert_eq!(listed(), [entry("docs/a.md", b"a")]);
    mv("docs/a.md", "docs/z.md");
    made.commit();
    assert_eq!(
        listed(),
        [entry("docs/z.md", b"a")],
        "a renamed file is the same blob"
    );
    mv("docs/z.md", "docs/old/z.md");
    mv("docs/old/b.md", "docs/b.md");
    mv("c.md", "docs/c.md");
    made.commit();
    assert_eq!(
        listed(),
        [entry("docs/b.md", b"b"), entry("docs/c.md", b"c")],
        "into and out of what is selected"
    );
    fs::remove_file(made.path().join("docs/b.md")).unwrap();
    made.write("docs/b.md/inner.md", b"inner");
    fs::remove_file(made.path().join("docs/c.md")).unwrap();
    symlink("b.md/inner.md", made.path().join("docs/c.md")).unwrap();
    made.commit();
    assert_eq!(
        listed(),
        [entry("docs/b.md/inner.md", b"inner")],
        "a file may become a folder or a link"
    );
    fs::remove_dir_all(made.path().join("docs")).unwrap();
    made.write("docs", b"a file now").commit();
    assert_eq!(listed(), []);
}

#[test]
fn sizes_are_looked_up_only_of_what_is_not_known() {
    let made = Made::new();
    made.write("a.md", b"known")
        .write("b.md", b"another")
        .commit();
    let mut job = job(SourceSpec::Git(made.spec()), Path::new("unused"));
    let items = rag_source::open(&job).unwrap().list().unwrap().items;
    assert_eq!(
        items.iter().map(|item| item.size).collect::<Vec<_>>(),
        [5, 7]
    );
    for (item, validator) in [
        (&items[0], items[0].validator.clone()),
        (&items[1], Some("older".into())),
    ] {
        job.known.insert(
            item.uri.clone(),
            KnownVersion {
                raw_hash: "unused".into(),
                validator,
            },
        );
    }
    let now = rag_source::open(&job).unwrap().list().unwrap().items;
    assert_eq!(now.iter().map(|item| item.size).collect::<Vec<_>>(), [0, 7]);
    assert_eq!(now[0].validator, items[0].validator);
}
