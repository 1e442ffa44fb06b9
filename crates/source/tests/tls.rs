//! Which servers are trusted, by real handshakes on loopback. Each test runs itself again in a
//! process whose system knows the test's authority.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::Arc,
};

use crate::support::assert_one_test_passed;
use rag_protocol::ingest::Network;
use rag_source::http::{HttpClient, HttpError, HttpRequest};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use url::Url;

const URL: &str = "RAG_TEST_URL";

fn authority() -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params, KeyPair::generate().unwrap())
}

/// Says hello over TLS until the test ends; gives its port.
fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> u16 {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(session, connection));
            let mut line = String::new();
            // a client that does not trust the certificate leaves before it says anything
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let _ = reader.get_mut().write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            );
            let _ = reader.get_mut().flush();
        }
    });
    port
}

fn get(url: &str) -> Result<Vec<u8>, HttpError> {
    let network = Network {
        allowed_private_hosts: vec!["127.0.0.1".into(), "::1".into()],
        proxy: None,
        silence_seconds: None,
    };
    let client = HttpClient::new(&network, None).unwrap();
    client
        .send(&HttpRequest::get(Url::parse(url).unwrap()))?
        .bytes(10)
}

/// Asks a server whose certificate is for `name` and was valid until `year`, in a process that
/// trusts the authority or another one, and checks the outcome there.
fn check(
    test: &str,
    name: &str,
    year: i32,
    is_trusted: bool,
    expected: impl Fn(Result<Vec<u8>, HttpError>),
) {
    if let Ok(url) = std::env::var(URL) {
        return expected(get(&url));
    }
    let (params, key) = authority();
    let own = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let mut leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    leaf.not_after = date_time_ymd(year, 1, 1);
    let leaf_key = KeyPair::generate().unwrap();
    let port = serve(
        leaf.signed_by(&leaf_key, &issuer).unwrap().der().clone(),
        &leaf_key,
    );

    let (other, other_key) = authority();
    let trusted = if is_trusted {
        own
    } else {
        other.self_signed(&other_key).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorities.pem");
    std::fs::write(&file, trusted.pem()).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", &format!("tls::{test}"), "--nocapture"])
        .env("SSL_CERT_FILE", &file)
        .env_remove("SSL_CERT_DIR");
    let output = again
        .env(URL, format!("https://localhost:{port}/"))
        .output()
        .unwrap();
    assert_one_test_passed(&output);
}

fn is_refused(outcome: Result<Vec<u8>, HttpError>, reason: &str) {
    match outcome {
        Err(error @ HttpError::Tls { .. }) => {
            assert!(error.to_string().contains(reason), "{error}");
            assert!(!error.is_transient() && error.hint().unwrap().contains("certificate"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_of_an_authority_of_the_system_is_trusted() {
    let test = "a_certificate_of_an_authority_of_the_system_is_trusted";
    check(test, "localhost", 2100, true, |outcome| {
        assert_eq!(outcome.unwrap(), b"hello")
    });
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let test = "a_certificate_of_an_unknown_authority_is_refused";
    check(test, "localhost", 2100, false, |outcome| {
        is_refused(outcome, "invalid peer certificate")
    });
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    let test = "a_certificate_of_another_name_is_refused";
    check(test, "other.example", 2100, true, |outcome| {
        is_refused(outcome, "not valid for name")
    });
}

#[test]
fn an_expired_certificate_is_refused() {
    check(
        "an_expired_certificate_is_refused",
        "localhost",
        2020,
        true,
        |outcome| is_refused(outcome, "expired"),
    );
}

#[test]
fn the_servers_certificate_is_verified_through_a_proxy() {
    let (params, key) = authority();
    let port = serve(params.self_signed(&key).unwrap().der().clone(), &key);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut inward, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(inward.try_clone().unwrap());
        let (mut first, mut line) = (String::new(), String::new());
        reader.read_line(&mut first).unwrap();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let mut outward = TcpStream::connect(("127.0.0.1", port)).unwrap();
        inward.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let mut back = (outward.try_clone().unwrap(), inward.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let _ = std::io::copy(&mut reader, &mut outward);
        first
    });
    let client = HttpClient::new(
        &Network {
            allowed_private_hosts: vec![],
            proxy: Some(proxy),
            silence_seconds: None,
        },
        None,
    )
    .unwrap();
    let sent = client.send(&HttpRequest::get(
        Url::parse("https://public.example/").unwrap(),
    ));
    is_refused(
        sent.and_then(|response| response.bytes(10)),
        "invalid peer certificate",
    );
    drop(client);
    assert_eq!(
        asked.join().unwrap(),
        "CONNECT public.example:443 HTTP/1.1\r\n"
    );
}
