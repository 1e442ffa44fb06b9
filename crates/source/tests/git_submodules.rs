//! Submodules: their repositories are beside the clone of the one that names them.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{collections::HashMap, fs, path::Path};

use git2::Oid;
use rag_protocol::ingest::{Credentials, Job};
use rag_source::{FetchOutcome, Listing, SourceReader};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    lfs::{LfsHost, pointer},
    repository::Made,
    server::Server,
    sshd::Sshd,
    support,
};

/// A folder with repositories, and what is in them.
struct Repositories {
    folder: TempDir,
    place: TempDir,
}

impl Repositories {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            place: tempfile::tempdir().unwrap(),
        }
    }

    /// A repository of this name with these files and submodules: paths, URLs, commits.
    fn make(&self, name: &str, files: &[(&str, &str)], modules: &[(&str, &str, Oid)]) -> Oid {
        let path = self.folder.path().join(name);
        let options = &mut git2::RepositoryInitOptions::new();
        let repository = git2::Repository::init_opts(&path, options.initial_head("main")).unwrap();
        let mut list = String::new();
        for (path, url, _) in modules {
            list += &format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
        }
        let made = Made {
            folder: tempfile::tempdir().unwrap(),
            repository,
        };
        let mut index = made.repository.index().unwrap();
        index.clear().unwrap();
        let mut add = |file: &str, mode: u32, id: Oid| {
            let entry = git2::IndexEntry {
                ctime: git2::IndexTime::new(0, 0),
                mtime: git2::IndexTime::new(0, 0),
                dev: 0,
                ino: 0,
                mode,
                uid: 0,
                gid: 0,
                file_size: 0,
                id,
                flags: 0,
                flags_extended: 0,
                path: file.into(),
            };
            index.add(&entry).unwrap();
        };
        let blob = |text: &str| made.repository.blob(text.as_bytes()).unwrap();
        for (file, text) in files {
            add(file, 0o100_644, blob(text));
        }
        if !modules.is_empty() {
            add(".gitmodules", 0o100_644, blob(&list));
        }
        for (path, _, commit) in modules {
            add(path, 0o160_000, *commit);
        }
        let tree = made
            .repository
            .find_tree(index.write_tree().unwrap())
            .unwrap();
        let author = git2::Signature::now("a", "a@example.org").unwrap();
        let parent = made
            .repository
            .head()
            .ok()
            .map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        made.repository
            .commit(Some("HEAD"), &author, &author, "a", &tree, &parents)
            .unwrap()
    }

    fn job(&self, url: &str) -> Job {
        let spec = json!({"repositoryURL": url, "submodules": true});
        support::web_job("git", &spec, self.place.path())
    }
}

/// The texts of all files.
fn read(source: &mut dyn SourceReader, listing: &Listing) -> HashMap<String, String> {
    let mut text = |item| match source.fetch(item, None).unwrap() {
        FetchOutcome::Content(content) => String::from_utf8(content.bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    listing
        .items
        .iter()
        .map(|item| (item.name.clone(), text(item)))
        .collect()
}

fn synced(job: &Job) -> HashMap<String, String> {
    let mut source = rag_source::open(job).unwrap();
    let listing = source.list().unwrap();
    assert!(
        listing.complete && listing.failures.is_empty(),
        "{:?}",
        listing.failures
    );
    read(&mut *source, &listing)
}

#[test]
fn files_of_submodules_are_at_their_paths() {
    let all = Repositories::new();
    let inner = all.make("inner", &[("deep.md", "deep")], &[]);
    all.make("inner", &[("deep.md", "newer")], &[]);
    let module = all.make(
        "module",
        &[("a.md", "a of the module"), ("docs/b.md", "b")],
        &[("vendor/inner", "../../inner/.git", inner)],
    );
    all.make(
        "top",
        &[("a.md", "a"), ("z.md", "z")],
        &[("libs/module", "../../module/.git", module)],
    );
    let server = Server::start(all.folder.path());
    let url = format!("{}/top/.git", server.url);
    let job = all.job(&url);
    let texts = synced(&job);
    let expected = [
        ("a.md", "a"),
        ("libs/module/a.md", "a of the module"),
        ("libs/module/docs/b.md", "b"),
        ("libs/module/vendor/inner/deep.md", "deep"),
        ("z.md", "z"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(texts, HashMap::from(expected));

    // the second run asks each server, and fetches nothing
    server.take_log();
    let mut source = rag_source::open(&job).unwrap();
    let listing = source.list().unwrap();
    assert_eq!(server.take_log(), (vec!["GET".to_owned(); 3], 0));
    let item = listing
        .items
        .iter()
        .find(|item| item.name.ends_with("deep.md"))
        .unwrap();
    assert_eq!(item.uri, format!("{url}#libs/module/vendor/inner/deep.md"));
    let FetchOutcome::Content(content) = source.fetch(item, None).unwrap() else {
        panic!("{item:?}")
    };
    assert_eq!(
        content.metadata["submodule"],
        format!("{}/inner/.git", server.url)
    );
    assert_eq!(content.metadata["repository"], url);
    drop(source);

    let mut job = all.job(&url);
    let rag_definition::source::SourceSpec::Git(git) = &mut job.source else {
        panic!()
    };
    git.submodules = false;
    let listing = rag_source::open(&job).unwrap().list().unwrap();
    assert_eq!((listing.items.len(), listing.skipped.submodules), (2, 1));
    let kept = fs::read_dir(all.place.path().join("clones"))
        .unwrap()
        .count();
    assert_eq!(kept, 1, "all are in one clone");
}

#[test]
fn a_submodule_that_cannot_be_fetched_is_named_and_the_rest_is_read() {
    let all = Repositories::new();
    let module = all.make("module", &[("a.md", "a of the module")], &[]);
    let gone = Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let server = Server::start(all.folder.path());
    let on_server = format!("{}/module/.git", server.url);
    let modules = [
        ("good", on_server.as_str(), module),
        ("gone", on_server.as_str(), gone),
        ("nowhere", "../../../../x", module),
        ("local", "/etc", module),
        ("file", "file:///etc", module),
        ("option", "-u./evil", module),
        ("shell", "ext::sh -c id", module),
        ("metadata", "https://169.254.169.254/x", module),
        ("plain", "http://192.0.2.1/x", module),
        ("ssh", "git@127.0.0.2:x", module),
    ];
    all.make("top", &[("a.md", "a")], &modules);
    let url = format!("{}/top/.git", server.url);
    let mut source = rag_source::open(&all.job(&url)).unwrap();
    let listing = source.list().unwrap();
    assert!(!listing.complete, "what is stored of the others stays");
    let failures: HashMap<&str, &str> = listing
        .failures
        .iter()
        .map(|failure| {
            (
                failure.uri.rsplit('#').next().unwrap(),
                failure.message.as_str(),
            )
        })
        .collect();
    for (path, message) in [
        (
            "gone",
            &*format!("commit \"{gone}\" does not exist in {on_server}"),
        ),
        ("nowhere", "\"../../../../x\" leads nowhere"),
        ("local", "\"/etc\" is not on a server"),
        ("file", "\"file:///etc\" is not on a server"),
        ("option", "\"-u./evil\" must start with https:// or ssh://"),
        (
            "shell",
            "\"ext::sh -c id\" must start with https:// or ssh://",
        ),
        ("metadata", "could not fetch from https://169.254.169.254/x"),
        ("plain", "spec.repositoryURL: must start with https://"),
        ("ssh", "could not fetch from ssh://git@127.0.0.2/x"),
    ] {
        assert_eq!(failures.get(path), Some(&message), "{failures:?}");
    }
    let texts = read(&mut *source, &listing);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts["good/a.md"], "a of the module");
}

#[test]
fn submodules_that_contain_themselves_end() {
    let all = Repositories::new();
    let server = Server::start(all.folder.path());
    // a commit cannot have its own id, but a chain can be long
    let mut commit = all.make("chain", &[("a.md", "0")], &[]);
    for depth in 1..=110 {
        let text = depth.to_string();
        commit = all.make(
            "chain",
            &[("a.md", &text)],
            &[("m", "../../chain/.git", commit)],
        );
    }
    let job = all.job(&format!("{}/chain/.git", server.url));
    let listing = rag_source::open(&job).unwrap().list().unwrap();
    assert_eq!((listing.items.len(), listing.complete), (101, false));
    assert!(
        listing.failures[0]
            .message
            .ends_with("has more than 100 submodules")
    );
}

#[test]
fn credentials_are_for_the_server_of_the_repository() {
    let all = Repositories::new();
    let module = all.make("module", &[("a.md", "text")], &[]);
    let (own, other) = (
        Server::start(all.folder.path()),
        Server::start(all.folder.path()),
    );
    let elsewhere = format!("{}/module/.git", other.url);
    all.make(
        "top",
        &[],
        &[
            ("here", "../../module/.git", module),
            ("there", &elsewhere, module),
        ],
    );
    let mut job = all.job(&format!("{}/top/.git", own.url));
    job.credentials = Some(Credentials {
        secret: "s3cr3t".into(),
        ..Credentials::default()
    });
    assert_eq!(synced(&job).len(), 2);
    let given = |server: &Server| {
        let log = server.state().log.clone();
        log.iter()
            .filter(|seen| seen.authorization.is_some())
            .count()
    };
    assert!(given(&own) >= 4);
    assert_eq!(given(&other), 0);

    // what is in the clone is not for a source that may not read the submodule
    other.state().password = Some("Basic other".into());
    let listing = rag_source::open(&job).unwrap().list().unwrap();
    assert_eq!((listing.items.len(), listing.failures.len()), (1, 1));
}

#[test]
fn submodules_over_ssh_have_the_key_of_the_repository() {
    let all = Repositories::new();
    let Some(sshd) = Sshd::start(all.folder.path()) else {
        return;
    };
    let module = all.make("module", &[("a.md", "text")], &[]);
    all.make("top", &[("a.md", "a")], &[("module", "../module", module)]);
    let path = all.folder.path().join("top");
    let mut job = sshd.job(
        path.to_str().unwrap().trim_start_matches('/'),
        all.place.path(),
    );
    let rag_definition::source::SourceSpec::Git(git) = &mut job.source else {
        panic!()
    };
    git.submodules = true;
    job.credentials = Some(sshd.identity("ed25519", ""));
    assert_eq!(synced(&job)["module/a.md"], "text");
}

#[test]
fn a_pointer_of_git_lfs_in_a_submodule_is_that_of_its_server() {
    let all = Repositories::new();
    let host = LfsHost::start(all.folder.path());
    host.store(b"large");
    let module = all.make("module", &[("large.md", &pointer(b"large"))], &[]);
    let elsewhere = host.server.url("/module/.git");
    all.make("top", &[("a.md", "a")], &[("module", &elsewhere, module)]);
    let server = Server::start(Path::new(all.folder.path()));
    let job = all.job(&format!("{}/top/.git", server.url));
    assert_eq!(synced(&job)["module/large.md"], "large");
}
