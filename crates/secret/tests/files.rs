//! The key file and references, on a real file system.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Barrier,
    thread,
};

use rag_secret::{
    InvalidKeyRing, InvalidValue, Key, KeyRing, MAX_VALUE_BYTES, Reference,
    key_file::{self, KeyFileError},
    reference::ResolveError,
};

fn ring() -> KeyRing {
    KeyRing::new(Key::generate().unwrap())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_private_and_so_is_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runtime/secret.key");
    let keys = ring();
    assert_eq!(key_file::create(&path, &keys).unwrap(), keys);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(key_file::read(&path).unwrap(), keys);
    assert_eq!(files(path.parent().unwrap()), ["secret.key"]);
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.key");
    let first = ring();
    key_file::create(&path, &first).unwrap();
    assert_eq!(key_file::create(&path, &ring()).unwrap(), first);
    assert_eq!(key_file::read(&path).unwrap(), first);
    assert_eq!(files(folder.path()), ["secret.key"]);
}

#[test]
fn replacing_keeps_the_mode_and_follows_a_symbolic_link() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("secret.key"), folder.path().join("link"));
    let keys = key_file::create(&path, &ring()).unwrap();
    symlink(&path, &link).unwrap();
    let more = keys.with(Key::generate().unwrap());
    key_file::replace(&link, &more).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(key_file::read(&path).unwrap(), more);
    assert_eq!(files(folder.path()), ["link", "secret.key"]);
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.key");
    key_file::create(&path, &ring()).unwrap();
    for bad in [0o640, 0o604, 0o620, 0o601, 0o777] {
        set_mode(&path, bad);
        assert!(
            matches!(key_file::read(&path), Err(KeyFileError::Mode(m)) if m == bad),
            "{bad:o}"
        );
        assert!(matches!(
            key_file::create(&path, &ring()),
            Err(KeyFileError::Mode(_))
        ));
    }
    for good in [0o600, 0o400] {
        set_mode(&path, good);
        key_file::read(&path).unwrap();
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.key");
    assert!(matches!(key_file::read(&path), Err(KeyFileError::Missing)));
    assert!(matches!(
        key_file::read(folder.path()),
        Err(KeyFileError::NotAFile)
    ));
    // opening a named pipe to read would wait for a writer
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(matches!(key_file::read(&pipe), Err(KeyFileError::NotAFile)));
    for (content, line) in [(&b"hunter2"[..], 1), (b"\xff\xfe", 1)] {
        fs::write(&path, content).unwrap();
        set_mode(&path, 0o600);
        let error = key_file::read(&path).unwrap_err();
        assert!(
            matches!(error, KeyFileError::Invalid(InvalidKeyRing::Line(n)) if n == line),
            "{error}"
        );
        assert!(!error.to_string().contains("hunter2"));
    }
    fs::write(&path, "").unwrap();
    assert!(matches!(
        key_file::read(&path),
        Err(KeyFileError::Invalid(InvalidKeyRing::Empty))
    ));
    assert!(matches!(
        key_file::create(&folder.path().join("no/such/secret.key"), &ring()),
        Err(KeyFileError::Io { .. })
    ));
}

#[test]
fn concurrent_creators_of_the_file_have_the_same_keys() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("{round}.key"));
        let barrier = Barrier::new(8);
        let found: Vec<KeyRing> = thread::scope(|scope| {
            let make = || {
                barrier.wait();
                key_file::create(&path, &ring()).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let stored = key_file::read(&path).unwrap();
        assert!(found.iter().all(|keys| *keys == stored));
    }
    assert_eq!(files(folder.path()).len(), 20);
}

fn file(path: &Path) -> Reference {
    Reference::parse(&format!("file:{}", path.display()))
        .unwrap()
        .unwrap()
}

#[test]
fn a_reference_differs_from_a_value() {
    assert_eq!(
        Reference::parse("env:GIT_TOKEN").unwrap(),
        Some(Reference::Env("GIT_TOKEN".into()))
    );
    assert_eq!(
        Reference::parse("file:/run/token").unwrap(),
        Some(Reference::File("/run/token".into()))
    );
    assert_eq!(
        Reference::parse("file:///run/token").unwrap(),
        Some(Reference::File("/run/token".into()))
    );
    for value in ["", "hunter2", "ENV:A", "environment", " env:A", "files:/a"] {
        assert_eq!(Reference::parse(value), Ok(None), "{value}");
    }
    for bad in [
        "env:",
        "env:1A",
        "env:A B",
        "env:A=B",
        "file:",
        "file:/",
        "file:token",
        "file://host/token",
        "file:/a\nb",
    ] {
        let error = Reference::parse(bad).unwrap_err().to_string();
        let rest = bad.split_once(':').unwrap().1;
        assert!(rest.len() < 2 || !error.contains(rest), "{error}");
    }
}

#[test]
fn a_file_is_read_without_its_line_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    for (content, expected) in [
        ("hunter2", "hunter2"),
        ("hunter2\n", "hunter2"),
        ("hunter2\r\n", "hunter2"),
        ("hunter2\n\n", "hunter2\n"),
        (" hunter2 ", " hunter2 "),
        ("hunter2\r", "hunter2\r"),
    ] {
        fs::write(&path, content).unwrap();
        assert_eq!(file(&path).resolve().unwrap().expose(), expected);
    }
    let longest = "x".repeat(MAX_VALUE_BYTES);
    fs::write(&path, format!("{longest}\r\n")).unwrap();
    assert_eq!(file(&path).resolve().unwrap().expose(), longest);
}

#[test]
fn the_error_for_an_invalid_file_does_not_contain_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    assert!(matches!(file(&path).resolve(), Err(ResolveError::Io(_))));
    assert!(matches!(
        file(folder.path()).resolve(),
        Err(ResolveError::NotAFile)
    ));
    assert!(matches!(
        file(Path::new("/dev/zero")).resolve(),
        Err(ResolveError::NotAFile)
    ));
    for (content, expected) in [
        (vec![], InvalidValue::Empty),
        (b"\n".to_vec(), InvalidValue::Empty),
        (b"a\0b".to_vec(), InvalidValue::Nul),
        (vec![0xff], InvalidValue::NotUtf8),
        (vec![b'x'; MAX_VALUE_BYTES + 1], InvalidValue::TooLong),
        (vec![b'x'; 10 * MAX_VALUE_BYTES], InvalidValue::TooLong),
    ] {
        fs::write(&path, content).unwrap();
        let error = file(&path).resolve().unwrap_err();
        assert!(
            matches!(error, ResolveError::Invalid(e) if e == expected),
            "{error}"
        );
        assert!(!error.to_string().contains("token"));
    }
}

#[test]
fn an_environment_variable_is_read() {
    let variable = |name: &str| Reference::parse(&format!("env:{name}")).unwrap().unwrap();
    let path = variable("PATH").resolve().unwrap();
    assert_eq!(path.expose(), std::env::var("PATH").unwrap());
    assert!(matches!(
        variable("RAG_NO_SUCH_VARIABLE").resolve(),
        Err(ResolveError::NoVariable)
    ));
}
