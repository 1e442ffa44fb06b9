//! `rag-model fetch` against a server on loopback that answers as the hub does.
//!
//! No hub can be reached from tests. The answers have the fields that its documentation names.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use git2::{ObjectType, Oid};
use serde_json::json;
use sha2::{Digest, Sha256};

#[allow(dead_code)] // the tests of rag-source use the rest
#[path = "../../source/tests/web/mod.rs"]
mod web;
use web::{HttpRequest, Reply, Server, Then};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const REPOSITORY: &str = "owner/name";

fn weights() -> Vec<u8> {
    (0..100_000u32).flat_map(u32::to_le_bytes).collect()
}

/// The files of the repository, and whether they are large ones.
fn files() -> BTreeMap<&'static str, (Vec<u8>, bool)> {
    BTreeMap::from([
        ("config.json", (b"{}".to_vec(), false)),
        ("tokenizer.json", (b"{\"a\": 1}".to_vec(), true)),
        (
            "1_Pooling/config.json",
            (b"{\"pooling\": 1}".to_vec(), false),
        ),
        ("model.safetensors", (weights(), true)),
        ("pytorch_model.bin", (b"a program".to_vec(), true)),
        ("../evil", (b"outside".to_vec(), false)),
        ("onnx/model.onnx", (b"graph".to_vec(), true)),
    ])
}

fn listing(files: &BTreeMap<&'static str, (Vec<u8>, bool)>) -> Reply {
    let siblings = files.iter().map(|(name, (content, is_large))| {
        let blob = Oid::hash_object(ObjectType::Blob, content)
            .unwrap()
            .to_string();
        let sha256 = hex::encode(Sha256::digest(content));
        let lfs = is_large.then(|| json!({"sha256": sha256, "size": content.len()}));
        json!({"rfilename": name, "size": content.len(), "blobId": blob, "lfs": lfs})
    });
    let siblings: Vec<_> = siblings.collect();
    Reply::ok(
        "application/json",
        json!({"sha": COMMIT, "siblings": siblings}).to_string(),
    )
}

/// Returns a file, or the rest of it that is asked for.
fn content(request: &HttpRequest, bytes: &[u8]) -> Reply {
    let start = request.header("range").map(|range| {
        let start = range
            .strip_prefix("bytes=")
            .unwrap()
            .strip_suffix('-')
            .unwrap();
        start.parse::<usize>().unwrap()
    });
    match start {
        None => Reply::ok("application/octet-stream", bytes),
        Some(start) if start >= bytes.len() => Reply::new("416 Range Not Satisfiable", &[], ""),
        Some(start) => Reply::new("206 Partial Content", &[], &bytes[start..]),
    }
}

/// A hub. Large files are behind a redirect, and `change` may replace an answer.
fn hub(change: impl Fn(&HttpRequest, Reply) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |request| {
        let files = files();
        let target = request.target.split('?').next().unwrap();
        let reply = if target == format!("/api/models/{REPOSITORY}/revision/main")
            || target == format!("/api/models/{REPOSITORY}/revision/{COMMIT}")
        {
            listing(&files)
        } else if let Some(name) = target.strip_prefix("/store/") {
            content(request, &files[name].0)
        } else if let Some(name) = target.strip_prefix(&format!("/{REPOSITORY}/resolve/{COMMIT}/"))
        {
            match files[name].1 {
                true => Reply::redirect(&format!("/store/{name}")),
                false => content(request, &files[name].0),
            }
        } else {
            Reply::not_found()
        };
        change(request, reply)
    })
}

fn run(server: &Server, dir: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rag-model"))
        .args(["fetch", "--endpoint", &server.origin])
        .args(["--allow-private-host", "127.0.0.1"])
        .args(more)
        .arg(dir)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn check_all(dir: &Path) {
    for (name, (bytes, _)) in files() {
        let is_wanted = !name.contains("..") && !name.contains("onnx") && !name.ends_with("bin");
        assert_eq!(
            fs::read(dir.join(name)).ok(),
            is_wanted.then_some(bytes),
            "{name}"
        );
    }
    assert!(!dir.join(".rag-fetch").exists());
}

#[test]
fn what_a_conversion_needs_is_fetched_once() {
    let server = hub(|_, reply| reply);
    let dir = tempfile::tempdir().unwrap();
    let first = run(&server, dir.path(), &[REPOSITORY]);
    assert_eq!(first.status.code(), Some(0), "{}", err(&first));
    assert!(out(&first).starts_with(&format!("commit {COMMIT}\n")));
    assert!(out(&first).contains("fetched model.safetensors"));
    check_all(dir.path());
    server.forget();
    fs::write(dir.path().join("config.json"), "changed").unwrap();
    let second = run(&server, dir.path(), &["--revision", COMMIT, REPOSITORY]);
    assert!(
        out(&second).contains("kept model.safetensors"),
        "{}",
        err(&second)
    );
    assert!(out(&second).contains("fetched config.json"));
    assert_eq!(server.requests().len(), 2);
    check_all(dir.path());
}

#[test]
fn a_file_that_breaks_off_is_continued() {
    let server = hub(|request, reply| {
        let is_whole = request.header("range").is_some();
        match request.target.ends_with("/store/model.safetensors") && !is_whole {
            true => reply.cut(300_000).then(Then::Close),
            false => reply,
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let fetched = run(&server, dir.path(), &[REPOSITORY]);
    assert_eq!(fetched.status.code(), Some(0), "{}", err(&fetched));
    check_all(dir.path());
    let ranges: Vec<String> = server
        .requests()
        .iter()
        .filter_map(|request| request.header("range").map(str::to_owned))
        .collect();
    assert_eq!(
        ranges,
        ["bytes=100000-", "bytes=100000-"],
        "the file, and after its redirect"
    );
}

#[test]
fn a_later_call_continues_and_begins_again_if_it_must() {
    let dir = tempfile::tempdir().unwrap();
    let dead = hub(
        |request, reply| match request.target.contains("/store/model") {
            true if request.header("range").is_some() => Reply::new("500 Error", &[], ""),
            true => reply.cut(300_000).then(Then::Close),
            false => reply,
        },
    );
    let failed = run(&dead, dir.path(), &[REPOSITORY]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(err(&failed).contains("500"), "{}", err(&failed));
    assert!(!dir.path().join("model.safetensors").exists());
    let part = dir.path().join(".rag-fetch/model.safetensors.part");
    assert_eq!(fs::metadata(&part).unwrap().len(), 100_000);
    // a part of something else
    fs::write(&part, vec![7; 100_000]).unwrap();
    let fetched = run(&hub(|_, reply| reply), dir.path(), &[REPOSITORY]);
    assert_eq!(fetched.status.code(), Some(0), "{}", err(&fetched));
    check_all(dir.path());
}

#[test]
fn another_hash_is_refused() {
    let server = hub(
        |request, reply| match request.target.ends_with("/store/tokenizer.json") {
            true => Reply::ok("application/json", "{\"a\": 2}"),
            false => reply,
        },
    );
    let dir = tempfile::tempdir().unwrap();
    let refused = run(&server, dir.path(), &[REPOSITORY]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        err(&refused).contains("tokenizer.json"),
        "{}",
        err(&refused)
    );
    assert!(err(&refused).contains("another hash"), "{}", err(&refused));
    assert!(!dir.path().join("tokenizer.json").exists());
}

#[test]
fn what_cannot_be_fetched_is_said() {
    let server = hub(|_, reply| reply);
    let dir = tempfile::tempdir().unwrap();
    for (arguments, code, message) in [
        (
            &["owner/other"][..],
            1,
            "no public model \"owner/other\" of revision \"main\"",
        ),
        (&["name"], 2, "\"name\" is not the name of a repository"),
        (&["../name"], 2, "is not the name of a repository"),
        (
            &["--revision", "a b", REPOSITORY],
            2,
            "\"a b\" is not a revision",
        ),
        (
            &["--endpoint", "ftp://h", REPOSITORY],
            2,
            "is not the address of a hub",
        ),
    ] {
        let refused = Command::new(env!("CARGO_BIN_EXE_rag-model"))
            .args(["fetch", "--allow-private-host", "127.0.0.1"])
            .args(match arguments.contains(&"--endpoint") {
                true => vec![],
                false => vec!["--endpoint", &server.origin],
            })
            .args(arguments)
            .arg(dir.path())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(code), "{}", err(&refused));
        assert!(err(&refused).contains(message), "{}", err(&refused));
    }
    // the network guard
    let refused = Command::new(env!("CARGO_BIN_EXE_rag-model"))
        .args(["fetch", "--endpoint", &server.origin, REPOSITORY])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("127.0.0.1"), "{}", err(&refused));
    let other = "f".repeat(40);
    let server = Server::start(|_| Reply::ok("application/json", "{\"sha\": \"x\"}"));
    let refused = run(&server, dir.path(), &["--revision", &other, REPOSITORY]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("sent something unexpected"),
        "{}",
        err(&refused)
    );
}

#[test]
fn a_model_without_safetensors_is_refused() {
    let server = Server::start(|_| {
        let listing = json!({"sha": COMMIT, "siblings": [{"rfilename": "pytorch_model.bin"}]});
        Reply::ok("application/json", listing.to_string())
    });
    let dir = tempfile::tempdir().unwrap();
    let refused = run(&server, dir.path(), &[REPOSITORY]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        err(&refused).contains("has no model.safetensors"),
        "{}",
        err(&refused)
    );
}
