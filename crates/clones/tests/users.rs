//! A clone is removed with the last source that uses it.
#![allow(clippy::unwrap_used)] // all is test

use std::{
    fs,
    path::{Path, PathBuf},
};

use rag_clones::{KEY_DIGITS, User, claim, lock, make, release, users};
use tempfile::TempDir;

const FIRST: &str = "0b7a5c6e-6a55-4c37-9a53-0a1d3a7f0001";
const SECOND: &str = "0b7a5c6e-6a55-4c37-9a53-0a1d3a7f0002";

fn user(database: u32, uid: &str) -> User {
    User {
        database,
        uid: uid.to_string(),
    }
}

/// A clone that some sources use.
fn clone(clones: &Path, digit: &str, users: &[&User]) -> PathBuf {
    let folder = clones.join(digit.repeat(KEY_DIGITS));
    make(&folder.join("repository.git")).unwrap();
    fs::write(rag_clones::state(&folder), "5").unwrap();
    for user in users {
        claim(&folder, user).unwrap();
    }
    folder
}

#[test]
fn a_clone_is_removed_with_its_last_user() {
    let clones = TempDir::new().unwrap();
    let (a, b) = (user(5, FIRST), user(5, SECOND));
    let folder = clone(clones.path(), "a", &[&a, &b]);
    assert_eq!(users(clones.path()), [a.clone(), b.clone()]);
    release(clones.path(), None, |user| *user == a);
    assert!(folder.is_dir());
    assert_eq!(users(clones.path()), [b]);
    release(clones.path(), None, |user| user.uid == SECOND);
    assert!(!folder.exists());
}

#[test]
fn only_the_clones_of_a_dropped_database_are_removed() {
    let clones = TempDir::new().unwrap();
    let (a, b) = (user(5, FIRST), user(55, FIRST));
    let gone = clone(clones.path(), "a", &[&a]);
    let shared = clone(clones.path(), "b", &[&a, &b]);
    let other = clone(clones.path(), "c", &[&b]);
    release(clones.path(), None, |user| user.database == 5);
    assert_eq!(
        (gone.exists(), shared.exists(), other.exists()),
        (false, true, true)
    );
    assert_eq!(users(clones.path()), [b]);
}

#[test]
fn a_locked_clone_is_left_to_the_next_call() {
    let clones = TempDir::new().unwrap();
    let folder = clone(clones.path(), "a", &[&user(5, FIRST)]);
    let job = lock(&folder).unwrap().unwrap();
    release(clones.path(), None, |_| true);
    assert!(folder.is_dir());
    drop(job);
    release(clones.path(), None, |_| false);
    assert!(!folder.exists());
}

#[test]
fn a_source_with_another_repository_releases_its_former_clone() {
    let clones = TempDir::new().unwrap();
    let a = user(5, FIRST);
    let (old, new) = (
        clone(clones.path(), "a", &[&a]),
        clone(clones.path(), "b", &[&a]),
    );
    release(clones.path(), Some(&new), |user| *user == a);
    assert_eq!((old.exists(), new.exists()), (false, true));
}

#[test]
fn files_with_other_names_are_not_users() {
    for name in [
        "",
        "-",
        "5",
        "5-",
        "-x",
        "x-y",
        "5-../../etc",
        "99999999999-ab",
    ] {
        assert_eq!(User::parse(name), None, "{name}");
    }
    assert_eq!(
        User::parse(&user(5, FIRST).to_string()),
        Some(user(5, FIRST))
    );
    let clones = TempDir::new().unwrap();
    let folder = clone(clones.path(), "a", &[]);
    make(&folder.join("users/unknown")).unwrap();
    let beside = clones.path().join("not-a-clone");
    make(&beside).unwrap();
    release(clones.path(), None, |_| true);
    assert_eq!((folder.exists(), beside.exists()), (false, true));
}
