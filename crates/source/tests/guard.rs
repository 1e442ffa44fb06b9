//! The network guard against every known way around it, with real servers on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Duration,
};

use crate::guarded::{client, get, hello, refusal};
use crate::support::assert_one_test_passed;
use crate::web::{Reply, Server, Then};
use rag_protocol::ingest::Network;
use rag_source::http::{HttpClient, HttpError, HttpRequest};
use url::Url;

#[test]
fn loopback_is_refused_in_every_spelling() {
    let (server, client) = (hello(), client(&[]));
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0X7F.1",
        "0177.0.0.1",
        "017700000001",
        "00000177.0.0.0x1",
        "127.255.255.254",
        "０x7f.1",
        "１２７．０．０．１",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "localhost",
        "LocalHost",
        "ⓛocalhost",
    ] {
        let message = refusal(&client, &format!("http://{host}:{}/", server.port));
        assert!(
            message.starts_with("connections to ") && message.contains(" are not allowed: "),
            "{host}: {message}"
        );
    }
    // whether the system knows the name with its final dot is its own affair
    for host in ["localhost.", "a.localhost", "localhost.localdomain"] {
        assert!(
            get(&client, &format!("http://{host}:{}/", server.port)).is_err(),
            "{host}"
        );
    }
    assert!(
        server.targets().is_empty(),
        "nothing of it has reached the server"
    );
}

#[test]
fn obscured_hosts_are_parsed_as_servers_parse_them() {
    let (server, client) = (hello(), client(&[]));
    let at = server.port;
    for url in [
        format!("http://public.example@127.0.0.1:{at}/"),
        format!("http://public.example:80@127.0.0.1:{at}/"),
        format!("http://127.0.0.1:{at}@127.0.0.1:{at}/"),
    ] {
        assert_eq!(
            refusal(&client, &url),
            "the URL contains a user name or password",
            "{url}"
        );
    }
    for url in [
        format!("http:\\\\127.0.0.1:{at}\\@public.example/"),
        format!("http://127.0.0.1:{at}#@public.example/"),
        format!("http://127.0.0.1:{at}?@public.example/"),
        format!("http:127.0.0.1:{at}/"),
        format!(" http:///127.0.0.1:{at}/"),
        format!("ht\ntp://127.0.\t0.1:{at}/"),
    ] {
        assert_eq!(
            refusal(&client, &url),
            "connections to 127.0.0.1 are not allowed: it is a loopback address",
            "{url}"
        );
    }
    for url in [
        "http://[fe80::1%25eth0]/",
        "http://[::1%251]/",
        "http://fe80::1%eth0/",
        "http://[::1",
        "http://127.0.0.1:99999/",
    ] {
        assert!(Url::parse(url).is_err(), "{url} has no meaning");
    }
    for url in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "unix:/tmp/s",
        "data:text/plain,x",
    ] {
        let scheme = url.split(':').next().unwrap();
        assert_eq!(
            refusal(&client, url),
            format!("URL scheme \"{scheme}\" is not supported")
        );
    }
    assert!(server.targets().is_empty());
}

#[test]
fn special_addresses_are_refused_by_their_kind() {
    let client = client(&[]);
    for (host, kind) in [
        ("169.254.169.254", "a link-local address"),
        ("0xa9fea9fe", "a link-local address"),
        ("[fd00:ec2::254]", "a private address"),
        ("100.100.100.200", "a shared address of carriers"),
        ("10.0.0.1", "a private address"),
        ("224.0.0.1", "a multicast address"),
        ("255.255.255.255", "the broadcast address"),
        ("[fe80::1]", "a link-local address"),
        ("[ff02::1]", "a multicast address"),
    ] {
        let message = refusal(&client, &format!("http://{host}/latest/meta-data/"));
        assert!(message.contains(kind), "{host}: {message}");
    }
}

#[test]
fn the_error_names_the_host_and_the_setting_but_no_address() {
    let error = get(&client(&[]), "http://localhost/").unwrap_err();
    let message = error.to_string();
    assert_eq!(
        message,
        "connections to \"localhost\" are not allowed: its address is not public"
    );
    assert!(error.hint().unwrap().contains("rag.allowed_private_hosts"));
    assert!(!error.is_transient());
}

#[test]
fn allowed_hosts_are_names_addresses_and_ports() {
    let server = hello();
    let at = server.port;
    let (literal, name) = (
        format!("http://127.0.0.1:{at}/"),
        format!("http://localhost:{at}/"),
    );
    for allowed in [
        "127.0.0.1".to_owned(),
        "127.0.0.0/8".into(),
        format!("127.0.0.1:{at}"),
        "::ffff:127.0.0.1".into(),
    ] {
        let client = client(&[&allowed]);
        assert_eq!(
            get(&client, &literal).unwrap().bytes(10).unwrap(),
            b"hello",
            "{allowed}"
        );
        assert_eq!(
            get(&client, &name).unwrap().bytes(10).unwrap(),
            b"hello",
            "{allowed} is what the name resolves to"
        );
        assert_eq!(
            get(&client, &format!("http://2130706433:{at}/"))
                .unwrap()
                .status,
            200
        );
    }
    for allowed in ["localhost".to_owned(), format!("LOCALHOST.:{at}")] {
        assert_eq!(
            get(&client(&[&allowed]), &name).unwrap().status,
            200,
            "{allowed}"
        );
        refusal(&client(&[&allowed]), &literal);
    }
    for allowed in ["127.0.0.2", "127.0.0.1:1", "*.localhost", "128.0.0.0/8"] {
        refusal(&client(&[allowed]), &literal);
        refusal(&client(&[allowed]), &name);
    }
}

#[test]
fn an_allowed_host_with_a_port_allows_that_port_only() {
    let (server, other) = (hello(), hello());
    let client = client(&[&format!("localhost:{}", server.port)]);
    for _ in 0..2 {
        assert_eq!(
            get(&client, &format!("http://localhost:{}/", server.port))
                .unwrap()
                .status,
            200
        );
        refusal(&client, &format!("http://localhost:{}/", other.port));
    }
    assert!(other.targets().is_empty());
}

#[test]
fn a_silent_server_is_limited_by_the_time_of_the_request() {
    let server = Server::start(|_| Reply::ok("text/plain", "hello").cut(1).then(Then::Silence));
    let request = HttpRequest::get(Url::parse(&server.url("/")).unwrap());
    let request = HttpRequest {
        total: Some(Duration::from_millis(300)),
        ..request
    };
    let error = client(&["127.0.0.1"])
        .send(&request)
        .and_then(|response| response.bytes(10))
        .unwrap_err();
    assert!(matches!(error, HttpError::Timeout { .. }), "{error}");
    assert!(error.is_transient());
}

#[test]
fn a_refused_connection_is_temporary_and_an_unknown_name_is_not() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = get(&client(&["127.0.0.1"]), &format!("http://{closed}/")).unwrap_err();
    assert!(
        matches!(error, HttpError::Connect { .. }) && error.is_transient(),
        "{error}"
    );
    let error = get(&client(&[]), "http://does-not-exist.invalid/").unwrap_err();
    assert!(matches!(error, HttpError::UnknownHost { .. }), "{error}");
}

#[test]
fn https_to_a_server_without_tls_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        std::io::copy(&mut connection, &mut std::io::sink())
    });
    let error = get(&client(&["127.0.0.1"]), &url).unwrap_err();
    assert!(matches!(error, HttpError::Tls { .. }), "{error:?}");
}

/// Tunnels or sends what it is asked for to `target`; what was asked for comes back.
fn proxy(target: u16) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut inward in listener.incoming().flatten() {
            let mut head = vec![];
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                inward.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            tell.send(
                String::from_utf8_lossy(&head)
                    .lines()
                    .next()
                    .unwrap()
                    .to_owned(),
            )
            .unwrap();
            let mut outward = TcpStream::connect(("127.0.0.1", target)).unwrap();
            if head.starts_with(b"CONNECT ") {
                inward.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            } else {
                outward.write_all(&head).unwrap();
            }
            let (mut a, mut b) = (inward.try_clone().unwrap(), outward.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut a, &mut b));
            std::thread::spawn(move || std::io::copy(&mut outward, &mut inward));
        }
    });
    (url, told)
}

#[test]
fn with_a_proxy_only_addresses_in_urls_are_checked() {
    let server = hello();
    let (proxy, told) = proxy(server.port);
    let client = HttpClient::new(
        &Network {
            allowed_private_hosts: vec![],
            proxy: Some(proxy),
            silence_seconds: None,
        },
        None,
    )
    .unwrap();
    assert_eq!(
        get(&client, "http://public.example/")
            .unwrap()
            .bytes(10)
            .unwrap(),
        b"hello"
    );
    assert_eq!(
        told.try_recv().unwrap(),
        "GET http://public.example/ HTTP/1.1"
    );
    for url in [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://localhost/",
        "http://a.localhost./",
    ] {
        refusal(&client, url);
    }
    assert!(told.try_recv().is_err());
}

#[test]
fn the_proxy_of_the_environment_is_ignored() {
    const URL: &str = "RAG_TEST_URL";
    if let Ok(url) = std::env::var(URL) {
        assert_eq!(get(&client(&["127.0.0.1"]), &url).unwrap().status, 200);
        return;
    }
    let (server, trap) = (hello(), hello());
    let this = ["--exact", "guard::the_proxy_of_the_environment_is_ignored"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    for name in [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env(name, &trap.origin);
    }
    let again = command.args(this).env(URL, server.url("/")).output();
    assert_one_test_passed(&again.unwrap());
    assert_eq!((server.targets().len(), trap.targets().len()), (1, 0));
}

/// In a network namespace of its own the machine has a public address, and one that only a route
/// makes local.
#[test]
fn public_addresses_of_the_machine_itself_are_refused() {
    const INSIDE: &str = "RAG_TEST_NAMESPACE";
    if std::env::var(INSIDE).is_ok() {
        for host in ["93.184.216.34", "198.41.0.4"] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            std::thread::spawn(move || {
                for mut connection in listener.incoming().flatten() {
                    let _ = connection.read(&mut [0; 1000]);
                    let _ = connection.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    );
                }
            });
            let refused = refusal(&client(&[]), &url);
            assert!(
                refused.contains("it is an address of the database server itself"),
                "{refused}"
            );
            assert_eq!(
                get(&client(&[host]), &url).unwrap().status,
                200,
                "an exception names it"
            );
        }
        return;
    }
    let this = [
        "--exact",
        "guard::public_addresses_of_the_machine_itself_are_refused",
        "--nocapture",
    ];
    let addresses = "ip link set lo up && ip addr add 93.184.216.34/32 dev lo && ip route add \
        local 198.41.0.0/24 dev lo";
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--net", "sh", "-c", script, "sh"])
            .arg(std::env::current_exe().unwrap());
        command.args(this).env(INSIDE, "1");
        command.output()
    };
    if !inside(addresses).is_ok_and(|tried| tried.status.success()) {
        eprintln!("there are no network namespaces here: not tested");
        return;
    }
    let output = inside(&format!("{addresses} && exec \"$@\"")).unwrap();
    assert_one_test_passed(&output);
}
