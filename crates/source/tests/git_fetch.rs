//! Commits and branches of a real git server on loopback, and the errors of such a server.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{fs, os::unix::ffi::OsStrExt, process::Command};

use crate::repository::{Made, names};
use crate::served::{Served, all, noise};
use crate::server::Server;
use git2::Repository;
use rag_definition::source::{GitSpec, Repository as Named};
use rag_protocol::ErrorKind;

#[test]
fn a_pinned_commit_is_found_on_every_kind_of_server() {
    let served = Served::new();
    let made = &served.made;
    let first = made.write("a.md", b"one").commit().to_string();
    let second = made.write("a.md", b"two").commit().to_string();
    let text = |commit: &str| {
        let spec = GitSpec {
            commit: Some(commit.into()),
            branch: "nowhere".into(),
            ..served.spec()
        };
        all(&mut *rag_source::open(&served.job(spec)).unwrap())["a.md"].clone()
    };
    for (commit, expected) in [
        (&first[..], b"one"),
        (&first[..12], b"one"),
        (&second[..], b"two"),
        (&second[..9], b"two"),
    ] {
        assert_eq!(text(commit), expected);
        assert!(served.server.take_log().1 > 0);
        made.write("b.md", commit.as_bytes()).commit();
        assert_eq!(text(commit), expected, "it never moves on");
        assert_eq!(
            served.server.take_log(),
            (vec!["GET".to_owned()], 0),
            "and is fetched once"
        );
    }
    made.repository
        .config()
        .unwrap()
        .set_bool("uploadpack.allowAnySHA1InWant", true)
        .unwrap();
    let third = made.write("a.md", b"three").commit().to_string();
    made.write("a.md", b"four").commit();
    let before = served.kept();
    assert_eq!(text(&third), b"three");
    let new = served
        .kept()
        .into_iter()
        .find(|clone| !before.contains(clone))
        .unwrap();
    assert!(
        Repository::open_bare(new.join("repository.git"))
            .unwrap()
            .is_shallow()
    );
    let nothing = GitSpec {
        commit: Some("0123456789".into()),
        ..served.spec()
    };
    let error = served.failed(nothing);
    assert!(
        error
            .message
            .starts_with("commit \"0123456789\" does not exist in http"),
        "{}",
        error.message
    );
}

#[test]
fn the_error_for_a_missing_branch_lists_the_branches() {
    let served = Served::new();
    let error = served.failed(served.spec());
    assert_eq!(
        error.hint.as_deref(),
        Some("The repository is empty: it has no branches.")
    );
    served.made.write("a.md", b"x").commit();
    let tip = served
        .made
        .repository
        .head()
        .unwrap()
        .peel_to_commit()
        .unwrap()
        .id()
        .to_string();
    let name = std::ffi::OsStr::from_bytes(b".git/refs/heads/caf\xe9");
    fs::write(served.made.path().join(name), tip).unwrap();
    let error = served.failed(GitSpec {
        branch: "trunk".into(),
        ..served.spec()
    });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(error.hint.as_deref(), Some("Branches: main."));
    let error = served.failed(served.at("/nothing.git"));
    assert_eq!(
        error.message,
        format!(
            "repository {}/nothing.git does not exist",
            served.server.url
        )
    );
    assert!(error.hint.is_some());
    let error = served.failed(served.at("/page"));
    assert_eq!(
        error.message,
        format!("{}/page is not a git server", served.server.url)
    );
    assert_eq!(
        all(&mut *served.open()).len(),
        1,
        "and a branch that comes later is found"
    );
}

#[test]
fn a_redirect_is_followed_on_the_same_host_only() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    let mut source = rag_source::open(&served.job(served.at("/moved/.git"))).unwrap();
    assert_eq!(names(&source.list().unwrap()), ["a.md"]);
    let posts = served
        .server
        .state()
        .log
        .iter()
        .filter(|seen| seen.target == "/.git/git-upload-pack")
        .count();
    assert!(
        posts > 0,
        "the redirected address is used for all that follows"
    );
    let error = served.failed(served.at("/away/.git"));
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.detail.as_deref(),
        Some("the server redirects to another host, elsewhere.invalid")
    );
}

#[test]
fn temporary_errors_are_retried_and_lasting_ones_reported() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    served.server.state().faults = vec![503, 429];
    assert_eq!(served.synced(), served.committed());
    served.server.state().faults = vec![500; 20];
    let error = served.failed(served.spec());
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.message,
        format!("the server of {}/.git has failed", served.server.url)
    );
    served.server.state().faults = vec![418];
    assert_eq!(
        served.failed(served.spec()).message,
        format!("could not fetch from {}/.git", served.server.url)
    );
}

#[test]
fn a_fetch_does_not_fill_the_file_system() {
    let served = Served::new();
    served.made.write("large.md", &noise(6 << 20)).commit();
    let small = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "none"])
        .arg(small.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only the superuser can mount a small file system");
        return;
    }
    let mut job = served.job(served.spec());
    job.clones.dir = small.path().join("clones");
    let error = rag_source::open(&job).err();
    let left = fs::read_dir(small.path().join("clones")).unwrap().count();
    assert!(
        Command::new("umount")
            .arg(small.path())
            .status()
            .unwrap()
            .success()
    );
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    assert_eq!(
        error.message,
        format!(
            "not enough disk space for a clone of {}/.git",
            served.server.url
        )
    );
    assert_eq!(left, 0, "nothing is left of it");
}

#[test]
fn repositories_with_longer_ids_are_refused_by_name() {
    let made = Made::new();
    let served = Served::new();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        assert!(
            Command::new("git")
                .current_dir(folder.path())
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    run(&[
        "init",
        "--quiet",
        "--object-format=sha256",
        "--initial-branch=main",
    ]);
    let identity = [
        "-c",
        "user.name=Tester",
        "-c",
        "user.email=tester@example.org",
    ];
    run(&[
        &identity[..],
        &["commit", "--quiet", "--allow-empty", "--message=first"],
    ]
    .concat());
    let server = Server::start(folder.path());
    for repository in [
        Named::Local(folder.path().into()),
        Named::Https(format!("{}/.git", server.url)),
    ] {
        let error = served.failed(GitSpec {
            repository,
            ..made.spec()
        });
        assert!(error.hint.unwrap().contains("SHA-1"));
    }
}
