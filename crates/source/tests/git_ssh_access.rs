//! Where a connection of ssh may go: the guard, and a proxy.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::json;

use crate::over_ssh::{OverSsh, failed, synced};

#[test]
fn the_guard_decides_on_the_host() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.job();
    job.network.allowed_private_hosts = vec![];
    let error = failed(&job);
    assert!(
        error
            .detail
            .unwrap()
            .starts_with("connections to 127.0.0.1 are not allowed")
    );
    job.network.allowed_private_hosts = vec!["127.0.0.1:22".into()];
    assert!(
        failed(&job)
            .detail
            .unwrap()
            .starts_with("connections to 127.0.0.1 are not allowed")
    );
    let at = |host: &str| {
        let spec = json!({"repositoryURL": format!("git@{host}:a.git")});
        let mut job = over.sshd.job_of(&spec, over.place.path());
        job.network.allowed_private_hosts = vec![];
        failed(&job).detail.unwrap()
    };
    assert!(at("169.254.169.254").starts_with("connections to 169.254.169.254 are not allowed"));
    assert!(at("0x7f000001").starts_with("connections to 127.0.0.1 are not allowed"));
    assert!(at("[::ffff:127.0.0.1]").contains("are not allowed"));
    assert!(at("localhost").starts_with("connections to \"localhost\" are not allowed"));
    assert!(at("nosuch.invalid").starts_with("could not resolve host \"nosuch.invalid\""));
    assert_eq!(over.sshd.take_commands(), [""; 0]);
}

/// Starts a proxy that answers requests for a connection with this status. Returns its port, and
/// the requests.
fn proxy(status: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut request = vec![];
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let request = String::from_utf8(request).unwrap();
            let target = request.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().push(request);
            write!(client, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            if !status.starts_with('2') {
                continue;
            }
            let mut server = TcpStream::connect(target).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || io::copy(&mut from, &mut to));
            std::thread::spawn(move || io::copy(&mut server, &mut client));
        }
    });
    (port, requests)
}

#[test]
fn a_proxy_is_asked_for_a_tunnel() {
    let Some(over) = OverSsh::new() else { return };
    let mut job = over.job();
    let (port, requests) = proxy("200 OK");
    job.network.proxy = Some(format!("http://me:s%40crt@127.0.0.1:{port}"));
    assert_eq!(synced(&job), over.committed());
    let server = format!("127.0.0.1:{}", over.sshd.port);
    let request = requests.lock().unwrap().remove(0);
    assert!(request.starts_with(&format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n")));
    assert!(
        request.contains("Proxy-Authorization: Basic bWU6c0BjcnQ=\r\n"),
        "{request}"
    );

    let (port, _) = proxy("403 Forbidden");
    job.network.proxy = Some(format!("http://127.0.0.1:{port}"));
    let detail = failed(&job).detail.unwrap();
    assert!(
        detail.ends_with("the proxy 127.0.0.1 answered \"HTTP/1.1 403 Forbidden\""),
        "{detail}"
    );
    job.network.proxy = Some("https://127.0.0.1:1".into());
    let detail = failed(&job).detail.unwrap();
    assert!(
        detail.contains("could not connect to 127.0.0.1"),
        "{detail}"
    );
}
