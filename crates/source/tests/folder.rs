//! Folders and single files, on a real file system.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink, net::UnixListener},
    path::Path,
};

use crate::support::{bytes, try_open};
use rag_definition::source::{Endpoint, FolderSpec, MarkdownSpec, PathFilter, SourceSpec};
use rag_protocol::{
    ErrorKind,
    ingest::{Failure, Stage},
};
use rag_source::{Listing, SourceReader};
use tempfile::TempDir;

fn folder_with(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        write(folder.path(), file, file.as_bytes());
    }
    folder
}

fn write(root: &Path, file: &str, bytes: &[u8]) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn spec(path: &Path, paths: &[&str], exclude: &[&str]) -> SourceSpec {
    let texts = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
    let filter = PathFilter {
        paths: texts(paths),
        exclude_paths: texts(exclude),
    };
    SourceSpec::Folder(FolderSpec {
        path: path.into(),
        filter,
    })
}

fn open(spec: &SourceSpec) -> Box<dyn SourceReader> {
    try_open(spec).unwrap()
}

fn list(path: &Path, paths: &[&str], exclude: &[&str]) -> Listing {
    open(&spec(path, paths, exclude)).list().unwrap()
}

fn names(listing: &Listing) -> Vec<&str> {
    listing
        .items
        .iter()
        .map(|item| item.name.as_str())
        .collect()
}

fn error_kind(path: &Path) -> (ErrorKind, String) {
    let error = try_open(&spec(path, &[], &[])).err().unwrap();
    assert!(error.hint.is_some());
    (error.kind, error.message)
}

/// Permissions do not stop the superuser.
fn is_superuser() -> bool {
    let is = fs::read_dir("/proc/self/task").is_ok() && rustix::process::geteuid().is_root();
    if is {
        eprintln!("skipped: the superuser may read everything");
    }
    is
}

#[test]
fn everything_below_the_folder_is_listed_in_order_of_its_bytes() {
    let folder = folder_with(&["b.md", "a/z.md", "a.md", "a/b/c.txt", "Z.md", "a-b.md"]);
    let listing = list(folder.path(), &[], &[]);
    assert_eq!(
        names(&listing),
        ["Z.md", "a-b.md", "a.md", "a/b/c.txt", "a/z.md", "b.md"]
    );
    assert!(
        listing.complete
            && listing.failures.is_empty()
            && listing.skipped.total() == 0
            && listing.commit.is_none()
    );
    assert_eq!(listing.items[3].size, 9);
    assert_eq!(
        listing,
        list(folder.path(), &[], &[]),
        "the same folder gives the same list"
    );
}

#[test]
fn a_listed_file_can_be_fetched() {
    let folder = folder_with(&["a/b.md"]);
    let mut source = open(&spec(folder.path(), &[], &[]));
    let item = source.list().unwrap().items.remove(0);
    assert_eq!(
        item.uri,
        format!("file://{}/a/b.md", folder.path().display())
    );
    assert_eq!(bytes(source.as_mut(), &item).unwrap(), b"a/b.md");
}

#[test]
fn paths_select_and_exclude_paths_win() {
    let folder = folder_with(&[
        "README.md",
        "guides/a.txt",
        "x/guides/b.txt",
        "drafts/c.md",
        "src/d.rs",
    ]);
    let listed =
        |paths: &[&str], exclude: &[&str]| names(&list(folder.path(), paths, exclude)).join(" ");
    assert_eq!(listed(&["*.md"], &[]), "README.md drafts/c.md");
    assert_eq!(listed(&["*.md"], &["drafts/"]), "README.md");
    assert_eq!(listed(&["guides/"], &[]), "guides/a.txt x/guides/b.txt");
    assert_eq!(listed(&["/guides", "d.rs"], &[]), "guides/a.txt src/d.rs");
    assert_eq!(listed(&[], &["*"]), "");
}

#[test]
fn hidden_files_and_directories_are_listed_only_when_named() {
    let folder = folder_with(&[
        ".git/config",
        ".github/a.md",
        "docs/.private/b.md",
        "docs/.c.md",
        "d.md",
    ]);
    assert_eq!(names(&list(folder.path(), &[], &[])), ["d.md"]);
    assert_eq!(names(&list(folder.path(), &["*.md"], &[])), ["d.md"]);
    assert_eq!(
        names(&list(folder.path(), &["docs/.*"], &[])),
        ["docs/.c.md", "docs/.private/b.md"]
    );
    assert_eq!(
        names(&list(
            folder.path(),
            &[".github/", "docs/.private/*.md"],
            &[]
        )),
        [".github/a.md", "docs/.private/b.md"]
    );
}

#[test]
fn keys_are_listed_only_when_named_even_behind_a_link() {
    let folder = folder_with(&["keys/server.pem", ".env", "a.md"]);
    symlink("keys/server.pem", folder.path().join("link.md")).unwrap();
    let listing = list(folder.path(), &[], &[]);
    assert_eq!(names(&listing), ["a.md"]);
    assert_eq!(
        listing.skipped.described().as_deref(),
        Some("2 files of keys or passwords")
    );
    assert_eq!(
        names(&list(folder.path(), &[".env", "link.md"], &[])),
        [".env"]
    );
    assert_eq!(
        names(&list(folder.path(), &["/keys/server.pem"], &[])),
        ["keys/server.pem"]
    );
}

#[test]
fn names_of_any_bytes_work() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        &b"sp ace #1?%.md"[..],
        b"\xff\xfe.md",
        "日本.md".as_bytes(),
        b"new\nline.md",
    ] {
        fs::write(folder.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let mut source = open(&spec(folder.path(), &["*.md"], &[]));
    let listing = source.list().unwrap();
    let uris: Vec<_> = listing
        .items
        .iter()
        .map(|i| i.uri.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(
        uris,
        [
            "new%0Aline.md",
            "sp%20ace%20%231%3F%25.md",
            "%E6%97%A5%E6%9C%AC.md",
            "%FF%FE.md"
        ]
    );
    let bytes: Vec<_> = listing
        .items
        .iter()
        .map(|item| bytes(source.as_mut(), item).unwrap())
        .collect();
    assert_eq!(bytes[3], b"\xff\xfe.md");
    assert_eq!(bytes[1], b"sp ace #1?%.md");
}

#[test]
fn links_out_of_the_folder_and_loops_are_not_followed() {
    let outside = folder_with(&["secret.md", "dir/secret.md"]);
    let folder = folder_with(&["a/real.md"]);
    let link = |target: &Path, name: &str| symlink(target, folder.path().join(name)).unwrap();
    link(&outside.path().join("secret.md"), "out.md");
    link(&outside.path().join("dir"), "outdir");
    link(folder.path(), "loop");
    link(Path::new("."), "a/self");
    link(Path::new("nowhere"), "dangling.md");
    link(Path::new("circle.md"), "circle.md");
    link(Path::new("a/real.md"), "inside.md");
    let mut source = open(&spec(folder.path(), &[], &[]));
    let listing = source.list().unwrap();
    assert_eq!(names(&listing), ["a/real.md", "inside.md"]);
    assert_eq!(
        (
            listing.skipped.symbolic_links,
            listing.skipped.total(),
            listing.complete,
            listing.failures.len()
        ),
        (6, 6, true, 0)
    );
    assert_eq!(
        bytes(source.as_mut(), &listing.items[1]).unwrap(),
        b"a/real.md"
    );
}

#[test]
fn a_file_that_becomes_a_link_after_it_was_listed_is_not_followed() {
    let outside = folder_with(&["secret.md", "dir/a.md"]);
    let folder = folder_with(&["a.md", "dir/a.md"]);
    let mut source = open(&spec(folder.path(), &[], &[]));
    let listing = source.list().unwrap();
    fs::remove_file(folder.path().join("a.md")).unwrap();
    symlink(outside.path().join("secret.md"), folder.path().join("a.md")).unwrap();
    fs::remove_dir_all(folder.path().join("dir")).unwrap();
    symlink(outside.path().join("dir"), folder.path().join("dir")).unwrap();
    for item in &listing.items {
        assert_eq!(
            bytes(source.as_mut(), item).unwrap_err().stage,
            Stage::Fetch,
            "{}",
            item.name
        );
    }
}

#[test]
fn special_files_are_never_opened() {
    let folder = folder_with(&["a.md"]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("pipe.md"),
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket.md")).unwrap();
    let mut source = open(&spec(folder.path(), &[], &[]));
    let listing = source.list().unwrap();
    assert_eq!(names(&listing), ["a.md"]);
    assert_eq!(
        listing.skipped.described().as_deref(),
        Some("2 devices, pipes or sockets")
    );

    fs::remove_file(folder.path().join("a.md")).unwrap();
    fs::rename(folder.path().join("pipe.md"), folder.path().join("a.md")).unwrap();
    assert_eq!(
        bytes(source.as_mut(), &listing.items[0])
            .unwrap_err()
            .message,
        "it is no longer a regular file"
    );
}

#[test]
fn a_file_beyond_the_limit_is_a_failure_that_names_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "large.md", &[b'x'; 1001]);
    write(folder.path(), "just.md", &[b'x'; 1000]);
    let mut source = open(&spec(folder.path(), &[], &[]));
    let listing = source.list().unwrap();
    assert_eq!(
        bytes(source.as_mut(), &listing.items[0]).unwrap().len(),
        1000
    );
    let Failure {
        uri,
        stage,
        message,
        hint,
        ..
    } = bytes(source.as_mut(), &listing.items[1]).unwrap_err();
    assert_eq!((uri, stage), (listing.items[1].uri.clone(), Stage::Fetch));
    assert_eq!(
        message,
        "the file has 1001 bytes, more than the limit of 1000 bytes"
    );
    assert!(hint.is_some());
}

#[test]
fn a_file_that_is_gone_is_a_failure() {
    let folder = folder_with(&["a.md"]);
    let mut source = open(&spec(folder.path(), &[], &[]));
    let item = source.list().unwrap().items.remove(0);
    fs::remove_file(folder.path().join("a.md")).unwrap();
    assert_eq!(
        bytes(source.as_mut(), &item).unwrap_err().message,
        "it was removed after it was listed"
    );
}

#[test]
fn an_unreadable_file_is_a_failure_and_the_rest_is_read() {
    if is_superuser() {
        return;
    }
    let folder = folder_with(&["a.md", "closed/b.md", "closed.md"]);
    let forbid = |name: &str, mode| {
        fs::set_permissions(folder.path().join(name), PermissionsExt::from_mode(mode)).unwrap()
    };
    forbid("closed", 0);
    forbid("closed.md", 0);
    let mut source = open(&spec(folder.path(), &[], &[]));
    let listing = source.list().unwrap();
    assert!(
        !listing.complete,
        "what is below the closed directory is not known"
    );
    assert_eq!(listing.failures.len(), 1);
    assert_eq!(
        listing.failures[0].uri,
        format!("file://{}/closed", folder.path().display())
    );
    assert_eq!(listing.failures[0].message, "permission denied");
    assert_eq!(names(&listing), ["a.md", "closed.md"]);
    assert_eq!(
        bytes(source.as_mut(), &listing.items[1])
            .unwrap_err()
            .message,
        "permission denied"
    );
    forbid("closed", 0o755);

    forbid("closed", 0o000);
    assert_eq!(
        error_kind(&folder.path().join("closed")).0,
        ErrorKind::PermissionDenied
    );
    forbid("closed", 0o755);
}

#[test]
fn a_root_that_is_not_a_folder_is_an_error_of_the_source() {
    let folder = folder_with(&["a.md"]);
    let path = folder.path().join("nowhere");
    assert_eq!(
        error_kind(&path),
        (
            ErrorKind::FileNotFound,
            format!("\"{}\" does not exist", path.display())
        )
    );
    let path = folder.path().join("a.md");
    assert_eq!(
        error_kind(&path),
        (
            ErrorKind::WrongFileType,
            format!("\"{}\" is not a folder", path.display())
        )
    );
}

#[test]
fn a_folder_reached_by_a_link_keeps_the_name_it_was_given() {
    let folder = folder_with(&["real/a.md"]);
    symlink("real", folder.path().join("docs")).unwrap();
    let listing = list(&folder.path().join("docs/"), &[], &[]);
    assert_eq!(
        listing.items[0].uri,
        format!("file://{}/docs/a.md", folder.path().display())
    );
}

#[test]
fn one_markdown_file_is_a_source() {
    let folder = folder_with(&["docs/a.md"]);
    let markdown = |path: &str| {
        SourceSpec::Markdown(MarkdownSpec {
            endpoint: Endpoint::File(folder.path().join(path)),
        })
    };
    let mut source = open(&markdown("docs/a.md"));
    let listing = source.list().unwrap();
    assert_eq!((names(&listing), listing.complete), (vec!["a.md"], true));
    assert_eq!(
        listing.items[0].uri,
        format!("file://{}/docs/a.md", folder.path().display())
    );
    assert_eq!(
        bytes(source.as_mut(), &listing.items[0]).unwrap(),
        b"docs/a.md"
    );

    symlink("docs/a.md", folder.path().join("latest.md")).unwrap();
    let mut source = open(&markdown("latest.md"));
    let item = source.list().unwrap().items.remove(0);
    assert!(item.uri.ends_with("/latest.md"));
    assert_eq!(bytes(source.as_mut(), &item).unwrap(), b"docs/a.md");

    let failed = |path| {
        let spec = markdown(path);
        match try_open(&spec) {
            Ok(mut source) => source.list().unwrap_err().kind,
            Err(error) => error.kind,
        }
    };
    assert_eq!(failed("none.md"), ErrorKind::FileNotFound);
    assert_eq!(failed("docs"), ErrorKind::WrongFileType);
}
