//! Files of Git LFS: from a server of HTTP, with git over ssh, and from a repository on this
//! machine.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{collections::HashMap, fs, os::unix::fs::symlink, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use rag_definition::source::SourceSpec;
use rag_protocol::ingest::{Credentials, Job};
use rag_source::{FetchOutcome, SkippedFile};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    lfs::{LfsHost, TYPE, oid, pointer},
    repository::Made,
    sshd::Sshd,
    support,
    web::{HttpRequest, Reply, Server},
};

const TOKEN: &str = "s3cr3t-t0ken";

/// A repository with two pointers and a file, and its server.
struct Stored {
    made: Made,
    host: LfsHost,
    place: TempDir,
}

impl Stored {
    fn new() -> Self {
        let made = Made::new();
        let host = LfsHost::start(made.path());
        made.write("one.md", host.store(b"the first file").as_bytes());
        made.write("two.md", host.store(b"the second file").as_bytes());
        made.write("plain.md", b"no pointer").commit();
        host.state().password = Some(basic());
        let place = tempfile::tempdir().unwrap();
        Self { made, host, place }
    }

    fn job(&self) -> Job {
        self.job_with(&json!({}))
    }

    fn job_with(&self, more: &Value) -> Job {
        let mut spec = json!({"repositoryURL": self.host.server.url("/.git")});
        let fields = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        let mut job = support::web_job("git", &spec, self.place.path());
        job.credentials = Some(Credentials {
            secret: TOKEN.into(),
            ..Credentials::default()
        });
        job
    }

    /// The failure of the file `one.md`.
    fn failure(&self) -> String {
        self.host.server.forget();
        let read = read(&self.job());
        assert_eq!(read["plain.md"].as_deref(), Ok("no pointer"));
        read["one.md"].clone().unwrap_err()
    }
}

fn basic() -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("x-access-token:{TOKEN}"))
    )
}

/// The texts of all files, or the messages of their failures.
fn read(job: &Job) -> HashMap<String, Result<String, String>> {
    let mut source = rag_source::open(job).unwrap();
    let listing = source.list().unwrap();
    assert!(listing.complete && listing.failures.is_empty());
    let mut texts = HashMap::new();
    for item in &listing.items {
        let text = match source.fetch(item, None) {
            Ok(FetchOutcome::Content(content)) => Ok(String::from_utf8(content.bytes).unwrap()),
            Ok(FetchOutcome::Skipped(SkippedFile::LfsPointer)) => Err("skipped".into()),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.message),
        };
        texts.insert(item.name.clone(), text);
    }
    texts
}

#[test]
fn files_are_fetched_with_the_credentials_of_the_source() {
    let stored = Stored::new();
    let texts = read(&stored.job());
    assert_eq!(texts["one.md"].as_deref(), Ok("the first file"));
    assert_eq!(texts["two.md"].as_deref(), Ok("the second file"));
    assert_eq!(texts["plain.md"].as_deref(), Ok("no pointer"));
    for request in stored.host.server.requests() {
        let given: Vec<_> = request
            .headers
            .iter()
            .filter(|(name, _)| name == "authorization")
            .collect();
        assert!(given.len() <= 1, "{request:?}");
        if request.target.starts_with("/objects/") {
            assert!(given[0].1.starts_with("RemoteAuth "), "{request:?}");
        }
    }
    assert_eq!(stored.host.take_log(), ["batch", "file", "batch", "file"]);

    let texts = read(&stored.job_with(&json!({"lfs": false})));
    assert_eq!(texts["one.md"], Err("skipped".into()));
    assert_eq!(stored.host.take_log(), [""; 0]);

    let texts = read(&stored.job_with(&json!({"paths": ["plain.md"]})));
    assert_eq!(
        (texts.len(), stored.host.take_log().len()),
        (1, 0),
        "a server without pointers is not asked"
    );
}

#[test]
fn a_url_that_has_expired_is_asked_for_again() {
    let stored = Stored::new();
    stored.host.state().expired = 1;
    assert_eq!(
        read(&stored.job())["one.md"].as_deref(),
        Ok("the first file")
    );
    assert_eq!(
        stored.host.take_log(),
        ["batch", "file", "batch", "file", "batch", "file"]
    );
    stored.host.state().expired = 100;
    assert_eq!(
        stored.failure(),
        "could not fetch it from Git LFS: the server answered 403 Forbidden"
    );
    assert_eq!(stored.host.take_log().len(), 8, "once again for each file");
}

#[test]
fn a_file_must_be_that_of_its_pointer() {
    let stored = Stored::new();
    for (file, reason) in [
        (
            &b"another file.."[..],
            "it has another hash than its pointer says",
        ),
        (b"the first", "it has another size than its pointer says"),
        (
            &[b'x'; 5_000_000],
            "it has another size than its pointer says",
        ),
        (b"", "it has another size than its pointer says"),
    ] {
        stored.host.state().file = Some(file.into());
        assert_eq!(
            stored.failure(),
            format!("could not fetch it from Git LFS: {reason}")
        );
    }
    stored.host.state().file = None;
    stored
        .made
        .write("one.md", pointer(&[b'x'; 5000]).as_bytes())
        .commit();
    let failure = stored.failure();
    assert_eq!(
        failure,
        "the file has 5000 bytes, more than the limit of 1000 bytes"
    );
    assert_eq!(stored.host.take_log(), ["batch", "file"], "the other one");

    stored
        .made
        .write("one.md", pointer(b"nowhere").as_bytes())
        .commit();
    let reason = "the server answered 404: Object does not exist";
    assert_eq!(
        stored.failure(),
        format!("could not fetch it from Git LFS: {reason}")
    );
    let damaged = "version https://git-lfs.github.com/spec/v1\noid sha256:1234\n";
    stored.made.write("one.md", damaged.as_bytes()).commit();
    let reason = "its pointer is damaged";
    assert_eq!(
        stored.failure(),
        format!("could not fetch it from Git LFS: {reason}")
    );
}

#[test]
fn headers_are_sent_to_the_named_host_alone() {
    let stored = Stored::new();
    // redirected once more, as storage behind a server does it
    let last = Server::start(|request: &HttpRequest| {
        let is_known = request
            .header("authorization")
            .or(request.header("x-own"))
            .is_some();
        Reply::ok(
            "text/plain",
            if is_known {
                "a secret has come"
            } else {
                "the first file"
            },
        )
    });
    let target = last.url("/signed?a=b");
    let elsewhere = Server::start(move |request: &HttpRequest| match request.header("x-own") {
        Some("7") if request.header("authorization").is_none() => Reply::redirect(&target),
        _ => Reply::not_found(),
    });
    stored.host.state().actions = Some(json!({"download": {
        "href": elsewhere.url("/storage"),
        "header": {"X-Own": "7", "Host": "evil.example", "Content-Length": "3"},
    }}));
    assert_eq!(
        read(&stored.job())["one.md"].as_deref(),
        Ok("the first file")
    );
    let seen = elsewhere.requests();
    assert!(
        seen.iter()
            .all(|it| it.header("host") != Some("evil.example")),
        "{seen:?}"
    );
    assert!(
        last.requests()
            .iter()
            .all(|it| it.header("x-own").is_none())
    );

    // without headers of its own, a URL of the same server gets the source's
    let own = stored.host.server.url("/objects/x");
    stored.host.state().actions = Some(json!({"download": {"href": own}}));
    stored.failure();
    let mut requests = stored.host.server.requests().into_iter();
    let request = requests.find(|it| it.target == "/objects/x").unwrap();
    assert_eq!(
        request.header("authorization"),
        None,
        "the answer says that it is authenticated"
    );
}

#[test]
fn urls_of_downloads_go_through_the_guard() {
    let stored = Stored::new();
    for (href, reason) in [
        (
            "http://169.254.169.254/latest/meta-data",
            "connections to 169.254.169.254 are not allowed",
        ),
        (
            "http://[::ffff:169.254.169.254]/",
            "connections to ::ffff:169.254.169.254 are not allowed",
        ),
        (
            "http://0x7f000002/",
            "connections to 127.0.0.2 are not allowed",
        ),
        ("http://localhost:1/", "http://localhost:1 is not encrypted"),
        ("https://localhost:1/", "could not connect to localhost"),
        ("http://8.8.8.8/", "http://8.8.8.8 is not encrypted"),
        ("file:///etc/passwd", "URL scheme \"file\" is not supported"),
        (
            "ssh://git@127.0.0.1/a",
            "URL scheme \"ssh\" is not supported",
        ),
        (
            "https://me:secret@127.0.0.1/a",
            "the URL contains a user name or password",
        ),
        ("/objects/relative", "the server has sent an invalid URL"),
        ("", "the server has sent an invalid URL"),
    ] {
        stored.host.state().actions = Some(json!({"download": {"href": href}}));
        let failure = stored.failure();
        let expected = format!("could not fetch it from Git LFS: {reason}");
        assert!(failure.starts_with(&expected), "{href}: {failure}");
    }
    for header in [
        json!({"a b": "c"}),
        json!({"a": "b\r\nc: d"}),
        json!({"a": 1}),
    ] {
        let href = stored.host.server.url("/objects/x");
        stored.host.state().actions = Some(json!({"download": {"href": href, "header": header}}));
        assert!(
            stored
                .failure()
                .ends_with("the server has sent an invalid header")
        );
    }
}

#[test]
fn a_server_without_git_lfs_is_asked_once() {
    let stored = Stored::new();
    let name = format!(
        "could not use Git LFS of {}: ",
        stored.host.server.url("/.git/info/lfs/objects/batch")
    );
    let many = " ".repeat(2 << 20);
    for (reply, reason) in [
        (
            Reply::not_found(),
            "the server answered 404 Not Found, so it has no Git LFS",
        ),
        (Reply::html("<p>Log in"), "it sent \"text/html\""),
        (Reply::ok(TYPE, "{}"), "it sent an invalid answer"),
        (
            Reply::ok(TYPE, &many),
            "the response exceeds the limit of 1048576 bytes",
        ),
        (
            Reply::ok(TYPE, r#"{"transfer": "ssh", "objects": []}"#),
            "it asks for a transfer",
        ),
        (
            Reply::ok(TYPE, r#"{"objects": [], "hash_algo": "md5"}"#),
            "it uses another hash",
        ),
        (
            Reply::redirect("http://127.0.0.2/"),
            "connections to 127.0.0.2 are not allowed",
        ),
    ] {
        stored.host.state().batch = Some(reply);
        let failure = stored.failure();
        assert!(failure.starts_with(&format!("{name}{reason}")), "{failure}");
        assert_eq!(stored.host.take_log(), ["batch"]);
    }
    stored.host.state().batch = Some(Reply::ok(TYPE, r#"{"objects": []}"#));
    assert_eq!(
        stored.failure(),
        "could not fetch it from Git LFS: the server does not have it"
    );
    stored.host.state().batch = None;
    stored.host.state().password = Some("Basic other".into());
    let reason = "the server answered 401 Unauthorized, so the credentials give no access to it";
    assert_eq!(stored.failure(), format!("{name}{reason}"));
}

#[test]
fn files_of_a_local_repository_are_in_its_folder() {
    let made = Made::new();
    let texts = ["here", "changed", "a pipe", "a link", "gone"];
    for text in texts {
        made.write(&format!("{text}.md"), pointer(text.as_bytes()).as_bytes());
    }
    made.commit();
    let at = |text: &str| {
        let oid = oid(text.as_bytes());
        let folder = made
            .path()
            .join(".git/lfs/objects")
            .join(&oid[..2])
            .join(&oid[2..4]);
        fs::create_dir_all(&folder).unwrap();
        folder.join(oid)
    };
    fs::write(at("here"), "here").unwrap();
    fs::write(at("changed"), "CHANGED").unwrap();
    let pipe = at("a pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    symlink("/etc/hostname", at("a link")).unwrap();
    let texts = read(&support::job(
        SourceSpec::Git(made.spec()),
        Path::new("unused"),
    ));
    assert_eq!(texts["here.md"].as_deref(), Ok("here"));
    for (name, reason) in [
        ("changed.md", "it has another hash than its pointer says"),
        ("a pipe.md", "it is not a regular file"),
        (
            "a link.md",
            "Too many levels of symbolic links (os error 40)",
        ),
        ("gone.md", "the repository does not have it"),
    ] {
        assert_eq!(
            texts[name],
            Err(format!("could not fetch it from Git LFS: {reason}"))
        );
    }
}

#[test]
fn ssh_names_the_server_and_its_headers() {
    let stored = Stored::new();
    let Some(sshd) = Sshd::start(stored.made.path()) else {
        return;
    };
    let path = stored
        .made
        .path()
        .to_str()
        .unwrap()
        .trim_start_matches('/')
        .to_owned();
    let mut job = sshd.job(&path, stored.place.path());
    job.credentials = Some(sshd.identity("ed25519", ""));
    stored.host.state().password = Some("RemoteAuth of ssh".into());
    let say = |answer: &Value| {
        sshd.program(
            "git-lfs-authenticate",
            &format!("#!/bin/sh\ncat <<'END'\n{answer}\nEND\n"),
        );
    };
    let href = stored.host.server.url("/.git/info/lfs");
    say(
        &json!({"href": href, "header": {"Authorization": "RemoteAuth of ssh"}, "expires_in": 600}),
    );
    assert_eq!(read(&job)["two.md"].as_deref(), Ok("the second file"));
    let commands = sshd.take_commands();
    assert_eq!(
        commands[1..],
        [format!("git-lfs-authenticate '/{path}' download")],
        "once"
    );

    // the headers of the answer have expired
    say(&json!({"href": href, "header": {"Authorization": "RemoteAuth of yesterday"}}));
    let url = sshd.url(&path);
    let failure = read(&job)["two.md"].clone().unwrap_err();
    assert_eq!(
        failure,
        "could not fetch it from Git LFS: the server answered 401 Unauthorized"
    );

    for (answer, reason) in [
        (json!("no"), "git-lfs-authenticate has not sent an address"),
        (
            json!({"href": "http://169.254.169.254/"}),
            "connections to 169.254.169.254",
        ),
        (
            json!({"href": "file:///etc"}),
            "URL scheme \"file\" is not supported",
        ),
    ] {
        say(&answer);
        let failure = read(&job)["two.md"].clone().unwrap_err();
        assert!(
            failure.starts_with(&format!("could not use Git LFS of {url}: {reason}")),
            "{failure}"
        );
    }
    sshd.program(
        "git-lfs-authenticate",
        "#!/bin/sh\necho 'not for you' >&2\nexit 1\n",
    );
    let failure = read(&job)["two.md"].clone().unwrap_err();
    let reason = "git-lfs-authenticate says: not for you";
    assert_eq!(failure, format!("could not use Git LFS of {url}: {reason}"));
    sshd.program("git-lfs-authenticate", "#!/bin/sh\nexec yes\n");
    let failure = read(&job)["two.md"].clone().unwrap_err();
    assert!(
        failure.ends_with("git-lfs-authenticate has not sent an address"),
        "{failure}"
    );
}
