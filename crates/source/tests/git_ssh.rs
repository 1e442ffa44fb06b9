//! Repositories over ssh, from OpenSSH's own server and git's own programs on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{fs, path::Path, process::Command};

use rag_definition::source::{Repository as Named, SourceSpec};
use rag_protocol::ErrorKind;
use serde_json::json;

use crate::{
    over_ssh::{OverSsh, failed, synced},
    sshd::{Sshd, credentials},
};

#[test]
fn a_repository_is_cloned_and_its_changes_are_fetched() {
    let Some(over) = OverSsh::new() else { return };
    let job = over.job();
    assert_eq!(synced(&job), over.committed());
    let command = format!("git-upload-pack '/{}'", over.path());
    assert_eq!(
        over.sshd.take_commands(),
        [command.as_str()],
        "one connection lists and fetches"
    );

    let mut source = rag_source::open(&job).unwrap();
    let listing = source.list().unwrap();
    let url = over.sshd.url(&over.path());
    assert_eq!(listing.items[0].uri, format!("{url}#docs/0.md"));

    over.made
        .write("docs/7.md", b"changed")
        .write("new.md", b"new")
        .commit();
    drop(source);
    assert_eq!(synced(&job), over.committed());
    let kept = fs::read_dir(over.place.path().join("clones"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let clone = git2::Repository::open_bare(kept.path().join("repository.git")).unwrap();
    assert!(clone.is_shallow());
    let packs = fs::read_dir(kept.path().join("repository.git/objects/pack")).unwrap();
    let sizes: Vec<u64> = packs
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "pack"))
        .map(|entry| entry.metadata().unwrap().len())
        .collect();
    assert!(
        sizes.len() == 2 && sizes.iter().any(|size| *size < 10_000),
        "{sizes:?}"
    );
}

#[test]
fn tags_and_commits_are_read() {
    let Some(over) = OverSsh::new() else { return };
    let repository = &over.made.repository;
    let first = repository
        .head()
        .unwrap()
        .peel(git2::ObjectType::Commit)
        .unwrap();
    let tagger = git2::Signature::now("a", "a@example.org").unwrap();
    repository
        .tag("v1", &first, &tagger, "the first", false)
        .unwrap();
    let second = over.made.write("docs/7.md", b"changed").commit();
    over.made.write("docs/7.md", b"changed again").commit();
    let text = |key: &str, value: &str| {
        let spec = json!({
            "repositoryURL": over.sshd.url(&over.path()),
            "hostKeys": [over.sshd.host_key("ed25519")],
            key: value,
        });
        let mut job = over.sshd.job_of(&spec, over.place.path());
        job.credentials = Some(over.sshd.identity("ed25519", ""));
        String::from_utf8(synced(&job)["docs/7.md"].clone()).unwrap()
    };
    assert_eq!(text("branch", "v1"), "file 7");
    let (first, second) = (first.id().to_string(), second.to_string());
    assert_eq!(text("commit", &first), "file 7", "the head of a tag");
    assert_eq!(
        text("commit", &second),
        "changed",
        "no head: the history is fetched"
    );
    assert_eq!(text("commit", &second[..10]), "changed");
    assert_eq!(text("branch", "main"), "changed again");
}

#[test]
fn keys_of_all_types_open_a_repository() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.job();
    for (kind, passphrase) in [
        ("rsa", ""),
        ("ecdsa", ""),
        ("ed25519", "s3cr3t phr4se"),
        ("rsa", "s3cr3t"),
        ("ecdsa", "s3cr3t"),
    ] {
        job.credentials = Some(over.sshd.identity(kind, passphrase));
        assert_eq!(synced(&job).len(), 101, "{kind} {passphrase}");
    }
    // the formats of openssl, which older programs write
    for (kind, format) in [
        ("rsa", "PEM"),
        ("rsa", "PKCS8"),
        ("ecdsa", "PEM"),
        ("ecdsa", "PKCS8"),
    ] {
        for passphrase in ["", "s3cr3t"] {
            let path = over.sshd.key(kind, "");
            let converted = Command::new("ssh-keygen")
                .args(["-q", "-p", "-P", "", "-N", passphrase, "-m", format, "-f"])
                .arg(&path)
                .output()
                .unwrap();
            assert!(converted.status.success(), "{converted:?}");
            authorize(&over.sshd, &path);
            job.credentials = Some(credentials(&path, passphrase));
            if (kind, format, passphrase) == ("ecdsa", "PEM", "s3cr3t") {
                let error = failed(&job);
                assert!(error.message.starts_with("could not read the private key"));
                assert!(error.hint.unwrap().contains("ssh-keygen -p"));
                continue;
            }
            assert_eq!(synced(&job).len(), 101, "{kind} {format} {passphrase}");
        }
    }
}

fn authorize(sshd: &Sshd, key: &Path) {
    let file = sshd.folder.path().join("authorized");
    let former = fs::read_to_string(&file).unwrap();
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(file, former + &public).unwrap();
}

#[test]
fn every_key_of_the_host_is_enough() {
    let Some(over) = OverSsh::new() else { return };
    let identity = over.sshd.identity("ed25519", "");
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let spec = json!({
            "repositoryURL": over.sshd.url(&over.path()),
            "hostKeys": [over.sshd.host_key(kind)],
        });
        let mut job = over.sshd.job_of(&spec, over.place.path());
        job.credentials = Some(identity.clone());
        assert_eq!(synced(&job).len(), 101, "{kind}");
    }
}

#[test]
fn a_key_that_is_not_accepted_is_shown() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.job();
    let url = over.sshd.url(&over.path());
    let path = over.sshd.key("ed25519", "");
    job.credentials = Some(credentials(&path, ""));
    let error = failed(&job);
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.message,
        format!("the server of {url} does not accept the private key")
    );
    let public = fs::read_to_string(path.with_extension("pub")).unwrap();
    assert!(error.detail.unwrap().contains(public.trim()));

    job.credentials = None;
    let error = failed(&job);
    assert_eq!(
        error.message,
        format!("the server of {url} asks for a private key")
    );
    assert!(error.hint.unwrap().contains("ssh-privatekey"));

    let encrypted = over.sshd.identity("ed25519", "s3cr3t");
    for (passphrase, message) in [
        (
            None,
            "the private key has a passphrase, and the secret does not",
        ),
        (
            Some("wr0ng"),
            "the passphrase is not that of the private key",
        ),
    ] {
        let mut given = encrypted.clone();
        given.passphrase = passphrase.map(Into::into);
        job.credentials = Some(given);
        let error = failed(&job);
        assert_eq!(error.message, message);
        let said = format!("{error:?}");
        assert!(!said.contains("wr0ng") && !said.contains("BEGIN"), "{said}");
    }
}

#[test]
fn an_unknown_host_is_refused_and_shown() {
    let Some(over) = OverSsh::new() else { return };
    let url = over.sshd.url(&over.path());
    let identity = over.sshd.identity("ed25519", "");
    let error = |keys: &[&str]| {
        let spec = json!({"repositoryURL": url, "hostKeys": keys});
        let mut job = over.sshd.job_of(&spec, over.place.path());
        job.credentials = Some(identity.clone());
        failed(&job)
    };
    let unknown = error(&[]);
    assert_eq!(
        unknown.message,
        format!("the host key of the server of {url} is not known")
    );
    let own = over.sshd.host_key("ed25519");
    let file = over.sshd.folder.path().join("host_ed25519.pub");
    let shown = Command::new("ssh-keygen")
        .arg("-lf")
        .arg(file)
        .output()
        .unwrap()
        .stdout;
    let shown = String::from_utf8(shown).unwrap();
    let fingerprint = shown.split(' ').nth(1).unwrap();
    assert_eq!(
        unknown.detail.unwrap(),
        format!("Its fingerprint is {fingerprint}.")
    );
    assert!(
        unknown
            .hint
            .unwrap()
            .ends_with(&format!("\"hostKeys\": [\"{own}\"]"))
    );

    // nothing was asked, so no key was shown to the stranger
    let log = fs::read_to_string(over.sshd.folder.path().join("log")).unwrap_or_default();
    assert!(
        !log.contains("Accepted") && !log.contains("Failed"),
        "{log}"
    );

    // of a type that the server has, and of one that it does not have
    let other = fs::read_to_string(over.sshd.key("ed25519", "").with_extension("pub")).unwrap();
    let message = format!("the server of {url} has another host key than those in \"hostKeys\"");
    assert_eq!(error(&[&other]).message, message);
    let path = over.sshd.folder.path().join("p384");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    let other = fs::read_to_string(path.with_extension("pub")).unwrap();
    let changed = error(&[&other]);
    assert_eq!(changed.message, message);
    assert!(changed.detail.unwrap().contains(fingerprint));
    assert_eq!(over.sshd.take_commands(), [""; 0]);
}

#[test]
fn a_path_is_quoted_and_may_be_relative() {
    let place = tempfile::tempdir().unwrap();
    let Some(sshd) = Sshd::start(place.path()) else {
        return;
    };
    let identity = sshd.identity("ed25519", "");
    for name in [
        "plain",
        "it's; touch pwned #",
        "a b",
        "$(touch pwned)",
        "`touch pwned`!",
        "ü",
    ] {
        let made = git2::Repository::init_opts(
            place.path().join(name),
            git2::RepositoryInitOptions::new().initial_head("main"),
        );
        let made = made.unwrap();
        fs::write(place.path().join(name).join("a.md"), "text").unwrap();
        let mut index = made.index().unwrap();
        index.add_path(Path::new("a.md")).unwrap();
        let tree = made.find_tree(index.write_tree().unwrap()).unwrap();
        let author = git2::Signature::now("a", "a@example.org").unwrap();
        made.commit(Some("HEAD"), &author, &author, "a", &tree, &[])
            .unwrap();
        // as scp writes it, which has no port
        let spec = json!({
            "repositoryURL": format!("{}@127.0.0.1:{name}", sshd.user),
            "hostKeys": [sshd.host_key("rsa")],
        });
        let mut job = sshd.job_of(&spec, place.path());
        let SourceSpec::Git(git) = &mut job.source else {
            panic!("{spec}")
        };
        let Named::Ssh(ssh) = &mut git.repository else {
            panic!("{spec}")
        };
        ssh.server.port = sshd.port;
        job.credentials = Some(identity.clone());
        assert_eq!(synced(&job).len(), 1, "{name}");
    }
    assert!(!place.path().join("pwned").exists());
}

#[test]
fn a_repository_that_is_not_there_is_named() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.sshd.job("no/such", over.place.path());
    job.credentials = Some(over.sshd.identity("ed25519", ""));
    let error = failed(&job);
    let url = over.sshd.url("no/such");
    assert_eq!(
        error.message,
        format!("repository {url} does not exist or cannot be read")
    );
    let detail = error.detail.unwrap();
    assert!(
        detail.starts_with("The server says: ") && detail.contains("no/such"),
        "{detail}"
    );

    let mut job = over.job();
    let SourceSpec::Git(git) = &mut job.source else {
        panic!()
    };
    git.branch = "other".into();
    let error = failed(&job);
    assert_eq!(error.hint.as_deref(), Some("Branches: main."));

    over.sshd.program(
        "git-upload-pack",
        "#!/bin/sh\necho 'ERROR: not yours.' >&2\nexit 1\n",
    );
    let error = failed(&over.job());
    assert_eq!(
        error.detail.as_deref(),
        Some("The server says: ERROR: not yours.")
    );
}

#[test]
fn a_repository_with_other_ids_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let made = Command::new("git")
        .args(["init", "-q", "--object-format=sha256", "-b", "main"])
        .arg(place.path())
        .status();
    assert!(made.unwrap().success());
    fs::write(place.path().join("a.md"), "text").unwrap();
    for arguments in [&["add", "."][..], &["commit", "-q", "-m", "a"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-C"]);
        assert!(
            git.arg(place.path())
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    }
    let Some(sshd) = Sshd::start(place.path()) else {
        return;
    };
    let work = tempfile::tempdir().unwrap();
    let mut job = sshd.job(
        place.path().to_str().unwrap().trim_start_matches('/'),
        work.path(),
    );
    job.credentials = Some(sshd.identity("ed25519", ""));
    let error = failed(&job);
    let hint = "Only repositories with SHA-1 object ids are supported.";
    assert_eq!(error.hint.as_deref(), Some(hint), "{error:?}");
}

#[test]
fn the_size_of_a_clone_is_limited() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.job();
    job.clones.max_clone_bytes = 50_000;
    let error = failed(&job);
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    job.clones.max_clone_bytes = 300_000;
    assert_eq!(synced(&job), over.committed());
}
