//! Real repositories, opened in place and cloned from a real git server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod server;
mod support;

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use git2::{Oid, Repository, RepositoryInitOptions, Signature};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::Stage,
    spec::{GitSpec, PathFilter, Repository as Named, SourceSpec},
};
use rag_source::{Listing, Source};
use support::{bytes, job};
use tempfile::TempDir;

struct Made {
    folder: TempDir,
    repository: Repository,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = &mut RepositoryInitOptions::new();
        let repository = Repository::init_opts(folder.path(), options.initial_head("main")).unwrap();
        Self { folder, repository }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, file: &str, bytes: &[u8]) -> &Self {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// Commits everything in the folder to the branch that is checked out.
    fn commit(&self) -> Oid {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        let parent = self.repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let author = Signature::now("Tester", "tester@example.org").unwrap();
        let parents: Vec<_> = parent.iter().collect();
        self.repository.commit(Some("HEAD"), &author, &author, "change", &tree, &parents).unwrap()
    }

    fn spec(&self) -> GitSpec {
        GitSpec {
            repository: Named::Local(self.path().into()),
            branch: "main".into(),
            commit: None,
            filter: PathFilter::default(),
        }
    }
}

fn try_open(spec: GitSpec) -> Result<Box<dyn Source>, EngineError> {
    support::try_open(&SourceSpec::Git(spec))
}

fn open(spec: GitSpec) -> Box<dyn Source> {
    try_open(spec).unwrap()
}

fn failed(spec: GitSpec) -> EngineError {
    try_open(spec).err().unwrap()
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.items.iter().map(|item| item.name.as_str()).collect()
}

fn contents(source: &mut dyn Source) -> HashMap<String, String> {
    let items = source.list().unwrap().items;
    let text = |item| String::from_utf8(bytes(source, item).unwrap()).unwrap();
    let texts: Vec<String> = items.iter().map(text).collect();
    items.into_iter().map(|item| item.name).zip(texts).collect()
}

#[test]
fn the_files_of_the_branch_are_listed_and_read_from_the_object_store() {
    let made = Made::new();
    let commit = made.write("docs/a b.md", b"committed").write("README.md", b"readme").commit();
    made.write("docs/a b.md", b"changed").write("new.md", b"not committed");
    let mut source = open(made.spec());
    let listing = source.list().unwrap();
    assert_eq!(names(&listing), ["README.md", "docs/a b.md"]);
    assert_eq!(listing.commit, Some(commit.to_string()));
    assert!(listing.complete && listing.failures.is_empty());
    assert_eq!(listing.items[1].uri, format!("file://{}#docs/a%20b.md", made.path().display()));
    assert_eq!(listing.items[1].size, 9);
    assert_eq!(bytes(source.as_mut(), &listing.items[1]).unwrap(), b"committed");
}

#[test]
fn a_bare_repository_works_too() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let spec = GitSpec { repository: Named::Local(made.path().join(".git")), ..made.spec() };
    assert_eq!(names(&open(spec).list().unwrap()), ["a.md"]);
}

#[test]
fn branch_and_commit_choose_what_is_seen() {
    let made = Made::new();
    let first = made.write("a.md", b"one").commit();
    made.repository.branch("old", &made.repository.find_commit(first).unwrap(), false).unwrap();
    made.write("a.md", b"two").commit();
    let text = |spec| contents(&mut *open(spec))["a.md"].clone();
    assert_eq!(text(made.spec()), "two");
    assert_eq!(text(GitSpec { branch: "old".into(), ..made.spec() }), "one");
    assert_eq!(text(GitSpec { commit: Some(first.to_string()), ..made.spec() }), "one");
    assert_eq!(text(GitSpec { commit: Some(first.to_string()[..10].into()), ..made.spec() }), "one");
}

#[test]
fn patterns_select_paths() {
    let made = Made::new();
    made.write("docs/a.md", b"").write("docs/b.txt", b"").write("src/c.md", b"").write(".github/d.md", b"").commit();
    let filter = PathFilter { paths: vec!["*.md".into()], exclude_paths: vec!["src/".into()] };
    assert_eq!(names(&open(GitSpec { filter, ..made.spec() }).list().unwrap()), [".github/d.md", "docs/a.md"]);
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
    let tree = made.repository.find_tree(index.write_tree().unwrap()).unwrap();
    let author = Signature::now("Tester", "tester@example.org").unwrap();
    let parent = made.repository.find_commit(commit).unwrap();
    made.repository.commit(Some("HEAD"), &author, &author, "module", &tree, &[&parent]).unwrap();
    let listing = open(made.spec()).list().unwrap();
    assert_eq!((names(&listing), listing.skipped), (vec!["a.md"], 2));
}

#[test]
fn a_blob_beyond_the_limit_is_a_failure() {
    let made = Made::new();
    made.write("large.md", &[b'x'; 1001]).commit();
    let mut source = open(made.spec());
    let item = source.list().unwrap().items.remove(0);
    let failure = bytes(source.as_mut(), &item).unwrap_err();
    assert_eq!(failure.stage, Stage::Fetch);
    assert_eq!(failure.message, "the file has 1001 bytes, more than the limit of 1000 bytes");
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
    made.repository.commit(Some("HEAD"), &author, &author, "bomb", &tree, &[]).unwrap();
    let filter = PathFilter { paths: vec!["*.md".into()], exclude_paths: vec![] };
    let error = open(GitSpec { filter, ..made.spec() }).list().unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
}

#[test]
fn an_unknown_branch_or_commit_says_what_there_is() {
    let made = Made::new();
    let empty = failed(made.spec());
    assert_eq!(empty.hint.as_deref(), Some("The repository has no branches: it is empty."));
    let commit = made.write("a.md", b"x").commit();
    let tip = made.repository.find_commit(commit).unwrap();
    for i in 0..11 {
        made.repository.branch(&format!("topic-{i:02}"), &tip, false).unwrap();
    }
    let error = failed(GitSpec { branch: "master".into(), ..made.spec() });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(error.message, format!("there is no branch \"master\" in file://{}", made.path().display()));
    let hint = error.hint.unwrap();
    assert!(hint.starts_with("Branches: main, topic-00, ") && hint.ends_with("topic-08, and 2 more."), "{hint}");
    let error = failed(GitSpec { commit: Some("0123456789".into()), ..made.spec() });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert!(error.message.starts_with("there is no commit \"0123456789\""), "{}", error.message);
}

#[test]
fn what_is_no_repository_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let made = Made::new();
    let spec = |path: PathBuf| GitSpec { repository: Named::Local(path), ..made.spec() };
    fs::write(folder.path().join("file"), "x").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert_eq!(failed(spec(folder.path().join("nowhere"))).kind, ErrorKind::FileNotFound);
    assert_eq!(failed(spec(folder.path().join("file"))).kind, ErrorKind::WrongFileType);
    let error = failed(spec(folder.path().join("empty")));
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert!(error.message.ends_with("is not a git repository"), "{}", error.message);
    // A folder inside a repository is not one.
    fs::create_dir(made.path().join("sub")).unwrap();
    assert_eq!(failed(spec(made.path().join("sub"))).kind, ErrorKind::SourceUnavailable);
}

#[test]
fn hooks_and_filters_of_a_repository_never_run() {
    let made = Made::new();
    let witness = made.path().join("witness");
    let script = format!("#!/bin/sh\ntouch {}\ncat", witness.display());
    made.write(".gitattributes", b"*.md filter=evil\n").write("a.md", b"x");
    made.repository.config().unwrap().set_str("filter.evil.smudge", &script).unwrap();
    made.repository.config().unwrap().set_str("core.fsmonitor", &script).unwrap();
    made.commit();
    assert_eq!(contents(&mut *open(made.spec()))["a.md"], "x");
    assert!(!witness.exists());
}

#[test]
fn a_repository_of_another_owner_opens() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let changed = Command::new("chown").args(["-R", "65534:65534"]).arg(made.path()).status();
    if !changed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only the superuser can give files away");
        return;
    }
    assert_eq!(names(&open(made.spec()).list().unwrap()), ["a.md"]);
}

#[test]
fn a_host_that_cannot_be_reached_is_a_clear_error_in_bounded_time() {
    let work = tempfile::tempdir().unwrap();
    let made = Made::new();
    for url in ["https://127.0.0.1:1/a.git", "https://nowhere.invalid/a.git"] {
        let spec = GitSpec { repository: Named::Https(url.into()), ..made.spec() };
        let started = std::time::Instant::now();
        let error = rag_source::open(&job(SourceSpec::Git(spec), work.path())).err().unwrap();
        assert_eq!((error.kind, error.message), (ErrorKind::SourceUnavailable, format!("cannot clone {url}")));
        assert!(error.hint.is_some() && error.detail.is_some());
        assert!(started.elapsed().as_secs() < 30);
    }
}

/// A repository served over HTTP, and a folder to clone into.
fn served(made: &Made) -> Option<(GitSpec, TempDir)> {
    let Some(server) = server::serve(made.path()) else {
        eprintln!("skipped: there is no git http-backend");
        return None;
    };
    let spec = GitSpec { repository: Named::Https(format!("{server}/.git")), ..made.spec() };
    Some((spec, tempfile::tempdir().unwrap()))
}

fn try_clone(spec: &GitSpec, work: &TempDir) -> Result<Box<dyn Source>, EngineError> {
    rag_source::open(&job(SourceSpec::Git(spec.clone()), work.path()))
}

#[test]
fn a_repository_on_the_web_is_cloned_shallow_and_anew() {
    let made = Made::new();
    made.write("a.md", b"one").commit();
    made.write("a.md", b"two").commit();
    let Some((spec, work)) = served(&made) else { return };
    let mut source = try_clone(&spec, &work).unwrap();
    let listing = source.list().unwrap();
    let Named::Https(url) = &spec.repository else { unreachable!() };
    assert_eq!(listing.items[0].uri, format!("{url}#a.md"));
    assert_eq!(bytes(source.as_mut(), &listing.items[0]).unwrap(), b"two");
    let clone = Repository::open_bare(work.path().join("repository.git")).unwrap();
    assert!(clone.is_shallow());
    assert_eq!(clone.find_reference("refs/heads/main").unwrap().peel_to_commit().unwrap().parents().count(), 0);

    let third = made.write("a.md", b"three").commit();
    let mut source = try_clone(&spec, &work).unwrap();
    assert_eq!(source.list().unwrap().commit, Some(third.to_string()));
    assert_eq!(contents(&mut *source)["a.md"], "three");
}

#[test]
fn a_commit_on_the_web_is_found_whatever_the_server_gives_out() {
    let made = Made::new();
    let first = made.write("a.md", b"one").commit().to_string();
    made.write("a.md", b"two").commit();
    let Some((spec, work)) = served(&made) else { return };
    let text = |commit: &str| {
        let spec = GitSpec { commit: Some(commit.into()), ..spec.clone() };
        contents(&mut *try_clone(&spec, &work).unwrap())["a.md"].clone()
    };
    assert_eq!(text(&first), "one");
    assert_eq!(text(&first[..12]), "one");
    made.repository.config().unwrap().set_bool("uploadpack.allowAnySHA1InWant", true).unwrap();
    assert_eq!(text(&first), "one");
    assert!(Repository::open_bare(work.path().join("repository.git")).unwrap().is_shallow());
}

#[test]
fn a_branch_that_is_not_on_the_server_is_named_with_those_that_are() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let Some((spec, work)) = served(&made) else { return };
    let error = try_clone(&GitSpec { branch: "trunk".into(), ..spec }, &work).err().unwrap();
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(error.hint.as_deref(), Some("Branches: main."));
}

#[test]
fn a_redirect_is_followed_on_the_same_host_only() {
    let made = Made::new();
    made.write("a.md", b"x").commit();
    let Some((spec, work)) = served(&made) else { return };
    let Named::Https(url) = &spec.repository else { unreachable!() };
    let at = |path| GitSpec { repository: Named::Https(url.replace("/.git", path)), ..spec.clone() };
    assert_eq!(names(&try_clone(&at("/moved/.git"), &work).unwrap().list().unwrap()), ["a.md"]);
    let error = try_clone(&at("/away/.git"), &work).err().unwrap();
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(error.detail.as_deref(), Some("cannot redirect from '127.0.0.1' to 'elsewhere.invalid'"));
}

#[test]
fn a_repository_that_is_not_on_the_server_is_an_error() {
    let made = Made::new();
    let Some((spec, work)) = served(&made) else { return };
    let Named::Https(url) = &spec.repository else { unreachable!() };
    let repository = Named::Https(url.replace("/.git", "/nothing.git"));
    let error = try_clone(&GitSpec { repository, ..spec.clone() }, &work).err().unwrap();
    assert_eq!(
        (error.kind, error.hint.as_deref()),
        (ErrorKind::SourceUnavailable, Some("Check the repository's URL."))
    );
    assert_eq!(error.detail.as_deref(), Some("unexpected http status code: 404"));
}
