//! Servers that speak ssh badly: slow, endless, or not at all.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rag_definition::source::SourceSpec;
use rag_protocol::{EngineError, ErrorKind};
use russh::{
    Channel, ChannelId, Error,
    keys::{PrivateKey, decode_secret_key},
    server::{self, Auth, ChannelOpenHandle, Config, Handle, Msg, Session},
};
use serde_json::json;
use tokio::runtime::Builder;

use crate::support;

/// Seconds that a silent server is waited for.
const SILENCE: u64 = 2;

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    Silence,
    /// Writes this again and again.
    Repeat(Vec<u8>),
    /// Writes this again and again beside its output.
    Complain(Vec<u8>),
    Say(Vec<u8>),
    End(u32),
    OpenChannels,
}

#[derive(Clone)]
struct Hostile {
    command: Act,
    opened: Arc<Mutex<Vec<bool>>>,
}

impl server::Handler for Hostile {
    type Error = Error;

    async fn auth_none(&mut self, _: &str) -> Result<Auth, Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), Error> {
        session.channel_success(channel)?;
        let (handle, hostile) = (session.handle(), self.clone());
        tokio::spawn(async move { hostile.act(&handle, channel).await });
        Ok(())
    }
}

impl Hostile {
    async fn act(&self, handle: &Handle, channel: ChannelId) {
        match &self.command {
            Act::Silence => {}
            Act::Repeat(bytes) => while handle.data(channel, bytes.clone()).await.is_ok() {},
            Act::Complain(bytes) => {
                while handle
                    .extended_data(channel, 1, bytes.clone())
                    .await
                    .is_ok()
                {}
            }
            Act::Say(bytes) => {
                let _ = handle.data(channel, bytes.clone()).await;
            }
            Act::End(status) => {
                let _ = handle.exit_status_request(channel, *status).await;
                let _ = handle.eof(channel).await;
                let _ = handle.close(channel).await;
            }
            Act::OpenChannels => {
                for _ in 0..3 {
                    let agent = handle.channel_open_agent().await.is_ok();
                    let session = handle.channel_open_session().await.is_ok();
                    let tcp = handle
                        .channel_open_forwarded_tcpip("a", 1, "b", 2)
                        .await
                        .is_ok();
                    self.opened.lock().unwrap().extend([agent, session, tcp]);
                }
                let _ = handle.close(channel).await;
            }
        }
    }
}

fn key() -> PrivateKey {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    decode_secret_key(&std::fs::read_to_string(path).unwrap(), None).unwrap()
}

/// Reads a repository of a server whose commands do this. Returns the error, and which channels
/// that the server has asked for were opened.
fn read(command: Act) -> (EngineError, Vec<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = key();
    let host_key = key.public_key().to_openssh().unwrap();
    let opened = Arc::default();
    let hostile = Hostile {
        command,
        opened: Arc::clone(&opened),
    };
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let config = Arc::new(Config {
            keys: vec![key],
            ..Config::default()
        });
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (config, hostile) = (Arc::clone(&config), hostile.clone());
                tokio::spawn(async move {
                    if let Ok(session) = server::run_stream(config, stream, hostile).await {
                        let _ = session.await;
                    }
                });
            }
        });
    });
    let error = failed(port, &[&host_key]);
    let opened = opened.lock().unwrap().clone();
    (error, opened)
}

fn failed(port: u16, host_keys: &[&str]) -> EngineError {
    let place = tempfile::tempdir().unwrap();
    let url = format!("ssh://git@127.0.0.1:{port}/a.git");
    let spec = json!({"repositoryURL": url, "hostKeys": host_keys});
    let spec = SourceSpec::parse("git", &spec).unwrap();
    let mut job = support::job(spec, place.path());
    job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
    job.network.silence_seconds = Some(SILENCE);
    rag_source::open(&job).err().unwrap()
}

/// Reads a repository of a server that does this with each connection.
fn met(act: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> EngineError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || act(stream));
        }
    });
    failed(port, &[])
}

fn detail(error: &EngineError) -> &str {
    error.detail.as_deref().unwrap_or_default()
}

#[test]
fn a_silent_server_is_given_up() {
    let started = Instant::now();
    let wait = |mut stream: TcpStream| {
        let _ = stream.write_all(b"SSH-2.0-silent\r\n");
        thread::sleep(Duration::from_secs(60));
    };
    for error in [met(|_| thread::sleep(Duration::from_secs(60))), met(wait)] {
        assert_eq!(error.kind, ErrorKind::SourceUnavailable);
        assert!(
            detail(&error).contains("did not answer in time (greeting)"),
            "{error:?}"
        );
    }
    let (error, _) = read(Act::Silence);
    assert!(
        detail(&error).contains("did not answer in time (body)"),
        "{error:?}"
    );
    // two servers three times, and one once
    assert!(
        started.elapsed() < Duration::from_secs(7 * SILENCE + 10),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn an_endless_banner_is_given_up() {
    let lines = |mut stream: TcpStream| while stream.write_all(b"no ssh here\r\n").is_ok() {};
    let one_line = |mut stream: TcpStream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
    let started = Instant::now();
    for error in [met(lines), met(one_line)] {
        assert_eq!(error.kind, ErrorKind::SourceUnavailable);
        assert!(
            error.message.starts_with("could not fetch from ssh://"),
            "{error:?}"
        );
    }
    assert!(started.elapsed() < Duration::from_secs(8 * SILENCE));
    // a byte a second
    let started = Instant::now();
    let error = met(|mut stream| {
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(500));
        }
    });
    assert!(
        detail(&error).contains("did not answer in time (greeting)"),
        "{error:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(3 * SILENCE + 8));
}

#[test]
fn what_is_not_git_is_refused() {
    for said in [
        &b"HTTP/1.1 200 OK\r\n\r\n"[..],
        b"0000",
        b"\0\0\0\0\0\0\0\0",
        b"ffff",
        b"0003",
        b"003fnot an id and no name of a reference either, but as long as it\n",
        b"0014ERR not for you\n\n0000",
    ] {
        let (error, _) = read(Act::Say(said.to_vec()));
        assert_eq!(
            error.kind,
            ErrorKind::SourceUnavailable,
            "{said:?}: {error:?}"
        );
    }
    for status in [0, 1, 128] {
        let (error, _) = read(Act::End(status));
        assert!(
            error.message.ends_with("does not exist or cannot be read"),
            "{error:?}"
        );
    }
}

#[test]
fn endless_output_is_limited() {
    // a branch, again and again
    let mut line = b"003d".to_vec();
    line.extend([b'a'; 40]);
    line.extend(b" refs/heads/main\n");
    assert_eq!(line.len(), 0x3d);
    let (error, _) = read(Act::Repeat(line.repeat(500)));
    assert_eq!(error.kind, ErrorKind::LimitExceeded, "{error:?}");
    assert!(error.message.ends_with("has too many branches and tags"));

    let started = Instant::now();
    let (error, _) = read(Act::Complain(b"no\n".repeat(1000)));
    assert!(
        detail(&error).contains("did not answer in time (body)"),
        "{error:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(3 * SILENCE));
}

#[test]
fn channels_of_the_server_are_refused() {
    let (error, opened) = read(Act::OpenChannels);
    assert!(
        error.message.ends_with("does not exist or cannot be read"),
        "{error:?}"
    );
    assert_eq!(opened, [false; 9]);
}
