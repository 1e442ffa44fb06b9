//! Servers on loopback that echo what they receive. The output of `rag-engine ingest` never
//! contains a secret.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    io::{Read, Write},
    process::{Command, Stdio},
};

use crate::common::{PROGRAM, jobs, tiny};
use crate::web::{HttpRequest, Reply, Server};
use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rag_definition::source::SourceSpec;
use rag_protocol::{
    EngineError, frame,
    ingest::{Credentials, Event, Failure, Job, Network},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// May be the name of a host.
const PLAIN: &str = "Tok3nOfTheJob";
/// Looks different in each kind of text.
const ODD: &str = "p%\"ss\\w/rd+of&the<job>";

fn job(folder: &TempDir, kind: &str, spec: &Value, username: Option<&str>, secret: &str) -> Job {
    let path = folder.path();
    tiny::write(&path.join("model"), tiny::Output::Pooled, false, None);
    Job {
        credentials: Some(Credentials {
            username: username.map(Into::into),
            secret: secret.into(),
            ..Credentials::default()
        }),
        network: Network {
            allowed_private_hosts: vec!["127.0.0.1".into()],
            proxy: None,
            silence_seconds: None,
        },
        ..jobs::job(path, SourceSpec::parse(kind, spec).unwrap())
    }
}

/// The output of the engine for a job.
struct Said {
    events: Vec<Event>,
    log: String,
}

fn run(message: &[u8]) -> Said {
    let mut process = Command::new(PROGRAM)
        .args(["ingest", "--log", "debug"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Held open to the end, as the parent does.
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(message).unwrap();
    let mut stderr = process.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let mut output = vec![];
    process
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    process.wait().unwrap();
    let mut rest = output.as_slice();
    let events = std::iter::from_fn(|| frame::read(&mut rest).unwrap())
        .map(|frame| frame.header().unwrap())
        .collect();
    Said {
        events,
        log: log.join().unwrap(),
    }
}

impl Said {
    fn of(job: &Job) -> Self {
        let said = run(&frame::encode(job, &[]).unwrap());
        let credentials = job.credentials.as_ref().unwrap();
        said.check_silence(credentials.username.as_deref(), &credentials.secret);
        said
    }

    /// The secret is in no form in the log or in an event, except a document.
    fn check_silence(&self, username: Option<&str>, secret: &str) {
        let events: Vec<&Event> = self
            .events
            .iter()
            .filter(|event| !matches!(event, Event::Document(_)))
            .collect();
        let events = serde_json::to_string(&events).unwrap();
        let json = serde_json::to_string(secret).unwrap();
        let user = username.unwrap_or("x-access-token");
        let both = format!("{user}:{secret}");
        let mut forms = vec![BASE64_STANDARD.encode(&both), both];
        // A shorter one is part of many words.
        if secret.len() > 3 {
            forms.extend([
                secret.to_owned(),
                json[1..json.len() - 1].to_owned(),
                utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
                BASE64_STANDARD.encode(secret),
            ]);
        }
        for form in forms {
            for said in [&events, &self.log] {
                assert!(
                    !said.to_lowercase().contains(&form.to_lowercase()),
                    "{form} in {said}"
                );
            }
        }
    }

    fn failures(&self) -> Vec<&Failure> {
        self.events
            .iter()
            .filter_map(|event| {
                if let Event::Failed(f) = event {
                    Some(f)
                } else {
                    None
                }
            })
            .collect()
    }

    fn fatal(&self) -> &EngineError {
        match self.events.last() {
            Some(Event::Fatal { error }) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn shown(request: &HttpRequest) -> String {
    request.header("authorization").unwrap().to_owned()
}

#[test]
fn secrets_echoed_by_file_servers_are_redacted() {
    let server = Server::start(|request| match request.target.as_str() {
        // In an address that is part of an error.
        "/redirect" => Reply::redirect(&format!("http://{PLAIN}.invalid/")),
        "/encoding" => Reply::new("200 OK", &[("Content-Encoding", &shown(request))], "x"),
        // In the document's own address.
        _ => Reply::not_found(),
    });
    let endpoints: Vec<String> = ["/redirect", "/encoding", &format!("/query?key={PLAIN}")]
        .map(|path| server.url(path))
        .into();
    let folder = tempfile::tempdir().unwrap();
    let said = Said::of(&job(
        &folder,
        "static",
        &json!({ "endpoints": endpoints }),
        None,
        PLAIN,
    ));
    let failures: HashMap<&str, &str> = said
        .failures()
        .into_iter()
        .map(|f| (&f.uri[server.origin.len()..], f.message.as_str()))
        .collect();
    assert!(
        failures["/redirect"].contains("could not resolve host \"[redacted].invalid\""),
        "{failures:?}"
    );
    assert_eq!(
        failures["/encoding"],
        "the server sent the encoding \"bearer [redacted]\", which was not requested"
    );
    assert_eq!(
        failures["/query?key=[redacted]"],
        "the server answered 404 Not Found"
    );
    // It is unknown which stored document that is.
    assert!(
        matches!(
            said.events.last(),
            Some(Event::Finished {
                complete: false,
                ..
            })
        ),
        "{:?}",
        said.events
    );
    assert_eq!(
        shown(&server.requests()[0]),
        format!("Bearer {PLAIN}"),
        "it was shown to the server"
    );
}

#[test]
fn secrets_echoed_by_websites_are_redacted() {
    for (username, secret) in [(None, ODD), (Some("reader"), ODD), (Some("reader"), "abc")] {
        let server = Server::start(|request| match request.target.as_str() {
            "/robots.txt" => Reply::not_found(),
            _ => Reply::ok(&format!("x/{}", shown(request)), ""),
        });
        let folder = tempfile::tempdir().unwrap();
        let said = Said::of(&job(
            &folder,
            "website",
            &json!({"url": server.url("/"), "delay": 0}),
            username,
            secret,
        ));
        let message = &said.fatal().message;
        assert!(
            message.contains(": its type is \"x/") && message.contains("[redacted]"),
            "{message}"
        );
        assert!(said.log.contains("[redacted]"), "{}", said.log);
    }

    let link = utf8_percent_encode(ODD, NON_ALPHANUMERIC).to_string();
    let page = format!("<a href='/page?key={link}'>a</a>");
    let server = Server::start(move |request| match request.target.as_str() {
        "/robots.txt" | "/sitemap.xml" => Reply::not_found(),
        "/" => Reply::html(&page),
        _ => Reply::new("403 Forbidden", &[], ""),
    });
    let folder = tempfile::tempdir().unwrap();
    let spec = json!({"url": server.url("/"), "delay": 0, "depth": 1});
    let said = Said::of(&job(&folder, "website", &spec, None, ODD));
    let failures = said.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].uri, server.url("/page?key=[redacted]"));
}

/// A job on a git server that answers the request for its branches with this.
fn git(
    folder: &TempDir,
    username: Option<&str>,
    secret: &str,
    answer: fn(&HttpRequest) -> Reply,
) -> Said {
    let server = Server::start(answer);
    let spec = json!({"repositoryURL": server.url("/a.git")});
    let said = Said::of(&job(folder, "git", &spec, username, secret));
    assert!(
        shown(&server.requests()[0]).starts_with("Basic "),
        "it was shown to the server"
    );
    said
}

#[test]
fn secrets_echoed_by_git_servers_are_redacted() {
    for (username, secret) in [(None, PLAIN), (Some("reader"), ODD), (None, "ab")] {
        let folder = tempfile::tempdir().unwrap();
        let said = git(&folder, username, secret, |request| {
            Reply::ok(&format!("x/{}", shown(request)), "")
        });
        let detail = said.fatal().detail.clone().unwrap();
        assert!(
            detail.starts_with("It sent \"x/Basic [redacted]"),
            "{detail}"
        );
        assert!(said.log.contains("[redacted]"), "{}", said.log);

        // An error in git's own protocol.
        let said = git(&folder, username, secret, |request| {
            let basic = shown(request);
            let both = BASE64_STANDARD
                .decode(basic.strip_prefix("Basic ").unwrap())
                .unwrap();
            let both = String::from_utf8(both).unwrap();
            let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
            let error = line(&format!(
                "ERR access denied for {both} ({basic}), see https://{both}@git.example/\n"
            ));
            let body = line("# service=git-upload-pack\n") + "0000" + &error;
            Reply::ok("application/x-git-upload-pack-advertisement", body)
        });
        let detail = said.fatal().detail.clone().unwrap();
        assert!(
            detail.contains(
                "access denied for [redacted] (Basic [redacted]), see https://[redacted]@git"
            ),
            "{detail}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let said = git(&folder, None, PLAIN, |_| {
        Reply::redirect(&format!("http://127.0.0.1:1/{PLAIN}"))
    });
    assert!(
        said.fatal()
            .detail
            .as_deref()
            .unwrap()
            .contains("redirects to another host"),
        "{:?}",
        said.fatal()
    );
}

#[test]
fn an_invalid_job_is_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(
        &folder,
        "website",
        &json!({"url": "https://a.example/"}),
        Some("reader"),
        ODD,
    );
    for credentials in [
        json!(ODD),
        json!({"username": ["x"], "secret": ODD}),
        json!({"username": null, "secret": [ODD]}),
    ] {
        let mut json = serde_json::to_value(&job).unwrap();
        json["credentials"] = credentials;
        let said = run(&frame::encode(&json, &[]).unwrap());
        said.check_silence(Some("reader"), ODD);
        assert_eq!(said.fatal().message, "the engine could not parse the job");
    }
    let mut text = serde_json::to_vec(&job).unwrap();
    text.truncate(text.len() - 1);
    let lengths = [text.len() as u32 + 4, text.len() as u32]
        .map(u32::to_le_bytes)
        .concat();
    let said = run(&[lengths, text].concat());
    said.check_silence(Some("reader"), ODD);
    assert_eq!(said.fatal().message, "the engine could not parse the job");
}

#[test]
fn documents_are_not_changed() {
    let server = Server::start(|_| Reply::ok("text/markdown", format!("# The word {PLAIN}")));
    let folder = tempfile::tempdir().unwrap();
    let spec = json!({"endpoints": [server.url(&format!("/a.md?key={PLAIN}"))]});
    let said = run(&frame::encode(&job(&folder, "static", &spec, None, PLAIN), &[]).unwrap());
    let documents = said.events.iter().filter_map(|event| {
        if let Event::Document(d) = event {
            Some(d)
        } else {
            None
        }
    });
    let documents: Vec<_> = documents
        .map(|document| (document.uri.as_str(), document.content.title.text.clone()))
        .collect();
    assert_eq!(
        documents,
        [(
            server.url(&format!("/a.md?key={PLAIN}")).as_str(),
            format!("The word {PLAIN}")
        )]
    );
    assert!(matches!(
        said.events.last(),
        Some(Event::Finished { complete: true, .. })
    ));
    assert!(!said.log.contains(PLAIN), "{}", said.log);
}
