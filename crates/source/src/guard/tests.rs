//! What the guard lets pass.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use reqwest::blocking;

use super::*;

/// Says who it is, once a connection.
fn serve(listener: TcpListener, who: &'static str, connections: Arc<AtomicUsize>) {
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            connections.fetch_add(1, Ordering::SeqCst);
            let _ = connection.read(&mut [0; 1000]);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                who.len()
            );
            let _ = connection.write_all((head + who).as_bytes());
        }
    });
}

#[test]
fn a_name_that_changes_its_address_does_not_bypass_the_guard() {
    let allowed = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = allowed.local_addr().unwrap().port();
    let forbidden = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let answers = [
        allowed.local_addr().unwrap(),
        forbidden.local_addr().unwrap(),
    ];
    let (at_allowed, at_forbidden) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    serve(allowed, "allowed", Arc::clone(&at_allowed));
    serve(forbidden, "forbidden", Arc::clone(&at_forbidden));

    // stands in for a name server that answers with another address each time, which no test can
    // have for itself
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let lookup = move |_: &str| Ok(vec![answers[counter.fetch_add(1, Ordering::SeqCst).min(1)]]);
    let resolver = GuardedResolver {
        guard: Arc::new(guard(&["127.0.0.2"])),
        port,
        lookup,
    };
    let tls = crate::http::tls().unwrap();
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty());
    let client = blocking::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls.with_no_client_auth());
    let client = client.dns_resolver(Arc::new(resolver)).build().unwrap();
    let url = format!("http://rebinding.example:{port}/");
    assert_eq!(client.get(&url).send().unwrap().text().unwrap(), "allowed");
    assert_eq!(
        asked.load(Ordering::SeqCst),
        1,
        "what was checked is what was connected to"
    );
    assert!(client.get(&url).send().is_err());
    assert_eq!(
        (
            at_allowed.load(Ordering::SeqCst),
            at_forbidden.load(Ordering::SeqCst)
        ),
        (1, 0)
    );
}

fn guard(allowed: &[&str]) -> Guard {
    let allowed_private_hosts = allowed.iter().map(ToString::to_string).collect();
    Guard::new(&Network {
        allowed_private_hosts,
        proxy: None,
        silence_seconds: None,
    })
    .unwrap()
}

fn kind(address: &str) -> Option<&'static str> {
    special(address.parse().unwrap())
}

#[test]
fn special_addresses_have_their_kind() {
    for (address, expected) in [
        ("0.0.0.0", "an unspecified address"),
        ("0.1.2.3", "an unspecified address"),
        ("10.255.0.1", "a private address"),
        ("100.64.0.1", "a shared address of carriers"),
        ("100.100.100.200", "a shared address of carriers"),
        ("127.0.0.1", "a loopback address"),
        ("127.255.255.254", "a loopback address"),
        ("168.63.129.16", "the address of a cloud's metadata service"),
        ("169.254.169.254", "a link-local address"),
        ("172.16.0.1", "a private address"),
        ("172.31.255.255", "a private address"),
        ("192.0.0.192", "a reserved address"),
        ("192.0.2.1", "an address for documentation"),
        ("192.168.1.1", "a private address"),
        ("198.19.255.255", "an address for benchmarks"),
        ("224.0.0.1", "a multicast address"),
        ("240.0.0.1", "a reserved address"),
        ("255.255.255.255", "the broadcast address"),
        ("::", "an unspecified address"),
        ("::1", "a loopback address"),
        ("::127.0.0.1", "a reserved address"),
        ("::ffff:127.0.0.1", "a loopback address"),
        ("::ffff:169.254.169.254", "a link-local address"),
        ("64:ff9b::10.0.0.1", "a private address"),
        ("64:ff9b:1::8.8.8.8", "a reserved address"),
        ("100::1", "a reserved address"),
        ("2001::1", "a reserved address"),
        ("2001:db8::1", "an address for documentation"),
        ("2002:7f00:1::", "a reserved address"),
        ("3fff::1", "an address for documentation"),
        ("fc00::1", "a private address"),
        ("fd00:ec2::254", "a private address"),
        ("fe80::1", "a link-local address"),
        ("fec0::1", "a private address"),
        ("ff02::1", "a multicast address"),
    ] {
        assert_eq!(kind(address), Some(expected), "{address}");
    }
    for address in [
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "64:ff9b::1.1.1.1",
        "::ffff:1.1.1.1",
    ] {
        assert_eq!(kind(address), None, "{address}");
    }
}

#[test]
fn addresses_of_the_machine_are_refused_unless_they_are_allowed() {
    let machine = Machine {
        interfaces: || {
            Ok(vec![
                "93.184.216.34/24".parse().unwrap(),
                "2606:4700::34/64".parse().unwrap(),
            ])
        },
        sends_from: |_| None,
    };
    let on = |allowed: &[&str]| {
        let allowed_private_hosts = allowed.iter().map(ToString::to_string).collect();
        Guard::on(
            machine,
            &Network {
                allowed_private_hosts,
                proxy: None,
                silence_seconds: None,
            },
        )
        .unwrap()
    };
    let refused = |guard: &Guard, url: &str| guard.check(&Url::parse(url).unwrap()).is_err();
    for url in [
        "http://93.184.216.34/",
        "http://[::ffff:93.184.216.34]/",
        "http://[64:ff9b::93.184.216.34]/",
        "http://[2606:4700::34]/",
        "http://[2606:4700::35]/",
    ] {
        assert!(refused(&on(&[]), url), "{url}");
        assert!(
            !refused(
                &on(&["93.184.216.34", "64:ff9b::/96", "2606:4700::/64"]),
                url
            ),
            "{url}"
        );
    }
    assert!(!refused(&on(&[]), "http://93.184.216.35/"));
    let resolved = ["93.184.216.34:80".parse().unwrap()];
    assert_eq!(
        on(&[])
            .admit("a.example", 80, &resolved)
            .unwrap_err()
            .to_string(),
        "connections to \"a.example\" are not allowed: its address is not public"
    );
}

#[test]
fn both_ends_of_a_connection_are_checked() {
    let url = Url::parse("http://a.example/").unwrap();
    let (near, far) = ("93.184.216.34".parse().unwrap(), "1.1.1.1".parse().unwrap());
    assert!(
        guard(&[]).check_connection(&url, far, far).is_err(),
        "to itself"
    );
    assert!(
        guard(&[])
            .check_connection(&url, near, "10.0.0.1".parse().unwrap())
            .is_err(),
        "to a private one"
    );
    assert!(guard(&[]).check_connection(&url, near, far).is_ok());
    assert!(
        guard(&["a.example"])
            .check_connection(&url, far, far)
            .is_ok()
    );
    assert!(guard(&["1.1.1.1"]).check_connection(&url, far, far).is_ok());
}

#[test]
fn an_allowed_host_has_an_optional_port() {
    let guard = guard(&[
        "wiki.local",
        "*.corp.example:8080",
        "10.1.2.3",
        "[fd00::7]:443",
        "192.168.0.0/16",
        "Bücher.example",
    ]);
    let allows = |url: &str| guard.is_allowed_host(&Url::parse(url).unwrap());
    for url in [
        "http://wiki.local/",
        "https://WIKI.local./a",
        "http://a.b.corp.example:8080/",
        "http://10.1.2.3:99/",
        "http://0xa010203/",
        "http://[::ffff:10.1.2.3]/",
        "https://[fd00::7]/",
        "http://192.168.7.1/",
        "http://xn--bcher-kva.example/",
    ] {
        assert!(allows(url), "{url}");
    }
    for url in [
        "http://xwiki.local/",
        "http://a.wiki.local/",
        "http://corp.example:8080/",
        "http://a.corp.example/",
        "http://xcorp.example:8080/",
        "http://10.1.2.4/",
        "http://[fd00::7]/",
        "http://192.169.0.1/",
    ] {
        assert!(!allows(url), "{url}");
    }
}

#[test]
fn invalid_allowed_hosts_are_refused() {
    for entry in [
        "",
        "a b",
        "http://wiki.local",
        "10.0.0.0/33",
        "wiki.local:0",
        "wiki.local:x",
        "*",
        "*.*.a",
        "[::1",
        "*.10.0.0.1",
    ] {
        let network = Network {
            allowed_private_hosts: vec![entry.into()],
            proxy: None,
            silence_seconds: None,
        };
        let error = Guard::new(&network).unwrap_err();
        assert_eq!(
            error.message,
            format!("invalid entry \"{entry}\" in rag.allowed_private_hosts")
        );
    }
    for proxy in ["", "proxy", "socks5://proxy:1080", "http://"] {
        assert!(
            Guard::new(&Network {
                allowed_private_hosts: vec![],
                proxy: Some(proxy.into()),
                silence_seconds: None,
            })
            .is_err(),
            "{proxy}"
        );
    }
}

#[test]
fn only_the_allowed_ones_of_several_addresses_are_passed_on() {
    let addresses =
        ["127.0.0.1:80", "1.1.1.1:80", "[::ffff:10.0.0.1]:80"].map(|a| a.parse().unwrap());
    assert_eq!(
        guard(&[]).admit("a.example", 80, &addresses).unwrap(),
        [addresses[1]]
    );
    assert_eq!(
        guard(&["10.0.0.0/8:80"])
            .admit("a.example", 80, &addresses)
            .unwrap(),
        addresses[1..]
    );
    assert_eq!(
        guard(&["a.example"])
            .admit("a.example", 80, &addresses)
            .unwrap(),
        addresses
    );
    assert_eq!(
        guard(&["a.example:81"])
            .admit("a.example", 80, &addresses[..1])
            .unwrap_err()
            .to_string(),
        "connections to \"a.example\" are not allowed: its address is not public"
    );
}
