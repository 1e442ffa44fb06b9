//! The network guard: which hosts and addresses the sources may connect to.
//!
//! ```text
//! URL ──check──▶ scheme, credentials, host ──▶ [resolver] name ──getaddrinfo──▶ addresses ──admit──▶ connect
//!      before each hop                                     those that may be connected to are passed on, and no others
//! ```
//!
//! A source's URL, and every redirect of its server, could lead the database server to services that trust their
//! network: databases, metadata services of clouds, routers. Hence only addresses that are unicast and public are
//! connected to. Addresses are judged where they are used: the resolver hands the connection only those that passed, so
//! a name that resolves to something else the next moment (DNS rebinding) gains nothing. Hosts written as addresses are
//! not resolved, and judged by the check; [`url::Url`] has brought all spellings (decimal, octal, hexadecimal, short) into
//! one form.
//!
//! The exceptions of `rag.allowed_private_hosts`:
//!
//! | entry | lets be connected to |
//! |---|---|
//! | `wiki.local` | that name, whatever it resolves to |
//! | `*.corp.example` | the names below it, at any depth |
//! | `10.1.2.3`, `fd00::7` | that address, whatever name resolved to it |
//! | `192.168.0.0/16`, `fd00::/8` | the addresses of that network |
//! | `wiki.local:8080`, `[fd00::7]:8080` | the same, on that port only |
//!
//! Behind a proxy it is the proxy that resolves names: then addresses in URLs and names of this machine are judged, and
//! what other names lead to is for the proxy to decide.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::Arc,
    thread,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rag_protocol::{EngineError, ErrorKind, ingest::Network};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::oneshot;
use url::{Host, Url};

/// Why something must not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("\"{0}\" is not http or https")]
    Scheme(String),
    #[error("the URL contains a user name or password")]
    Credentials,
    #[error("the URL has no host")]
    NoHost,
    #[error("{address} is {kind} and may not be connected to")]
    Address { address: IpAddr, kind: &'static str },
    #[error("\"{host}\" resolves to {address}, which is {kind} and may not be connected to")]
    Resolved { host: String, address: IpAddr, kind: &'static str },
    #[error("\"{0}\" is a name of this machine and may not be connected to")]
    ThisMachine(String),
}

impl Refusal {
    /// What a user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => "Only http and https URLs can be read.",
            Self::Credentials => "Make a secret and name it in the source's credentials.",
            Self::NoHost => "Write https://host/path.",
            Self::Address { .. } | Self::Resolved { .. } | Self::ThisMachine(_) => {
                "Sources connect to public addresses only; a superuser can allow others in rag.allowed_private_hosts."
            }
        }
    }
}

/// One entry of `rag.allowed_private_hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exception {
    hosts: Hosts,
    /// All ports where there is none.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Name(String),
    /// With the dot it begins with.
    Below(String),
    Net(IpNet),
}

/// Host and port.
type Authority = (String, u16);

/// Stands for every port that no exception names: none can name this one.
const ANY_PORT: u16 = 0;

#[derive(Debug)]
pub struct Guard {
    exceptions: Vec<Exception>,
    proxy: Option<Authority>,
}

impl Guard {
    /// # Errors
    /// `InvalidRequest` where an entry of `rag.allowed_private_hosts` or the proxy cannot be understood.
    pub fn new(network: &Network) -> Result<Self, EngineError> {
        let exceptions = network.allowed_private_hosts.iter().map(|entry| {
            Exception::parse(entry).ok_or_else(|| {
                let message = format!("rag.allowed_private_hosts: \"{entry}\" is not a host, address or network");
                EngineError::new(ErrorKind::InvalidRequest, message)
                    .hint("Write a name, *.name, an address or a network such as 10.0.0.0/8, each with :port if only that is meant.")
            })
        });
        let proxy = network.proxy.as_ref().map(|proxy| {
            let parsed = Url::parse(proxy).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            parsed.as_ref().and_then(authority).ok_or_else(|| {
                EngineError::new(ErrorKind::InvalidRequest, "rag.http_proxy is not the URL of a proxy")
                    .hint("Write http://host:port.")
            })
        });
        Ok(Self { exceptions: exceptions.collect::<Result<_, _>>()?, proxy: proxy.transpose()? })
    }

    /// What can be said of a URL before its host is resolved.
    ///
    /// # Errors
    /// It is not one that may be connected to, wherever its name leads.
    pub fn check(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme(url.scheme().into()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return Err(Refusal::NoHost) };
        let judge = |address: IpAddr| match self.judge(address, port) {
            Ok(()) => Ok(()),
            Err(kind) => Err(Refusal::Address { address, kind }),
        };
        match host {
            Host::Ipv4(address) => judge(address.into()),
            Host::Ipv6(address) => judge(address.into()),
            Host::Domain(name) if self.allows_name(name, port) => Ok(()),
            Host::Domain(name) if self.proxy.is_some() && is_this_machine(name) => {
                Err(Refusal::ThisMachine(name.into()))
            }
            Host::Domain(_) => Ok(()),
        }
    }

    /// Whether an exception names the host of a URL itself.
    pub fn is_exception(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return false };
        match host {
            Host::Ipv4(address) => self.allows_address(address.into(), port),
            Host::Ipv6(address) => self.allows_address(address.into(), port),
            Host::Domain(name) => self.allows_name(name, port),
        }
    }

    /// What a resolver must know of a port: the port itself where an exception or the proxy names it, and otherwise
    /// [`ANY_PORT`]. Hosts of one scope may share a resolver.
    pub fn scope(&self, port: u16) -> u16 {
        match &self.proxy {
            // no other name is resolved
            Some((_, port)) => *port,
            None if self.exceptions.iter().any(|e| e.port == Some(port)) => port,
            None => ANY_PORT,
        }
    }

    /// Those of the addresses a host resolved to that may be connected to.
    ///
    /// # Errors
    /// None of them may.
    fn admit(&self, host: &str, port: u16, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Refusal> {
        if self.proxy.as_ref().is_some_and(|(proxy, at)| proxy == host && *at == port) || self.allows_name(host, port) {
            return Ok(addresses.to_vec());
        }
        let mut refusal = None;
        let mut admitted = vec![];
        for address in addresses {
            match self.judge(address.ip(), port) {
                Ok(()) => admitted.push(*address),
                Err(kind) => {
                    refusal.get_or_insert(Refusal::Resolved { host: host.into(), address: address.ip(), kind });
                }
            }
        }
        match refusal {
            Some(refusal) if admitted.is_empty() => Err(refusal),
            _ => Ok(admitted),
        }
    }

    fn resolve(
        &self,
        name: &str,
        port: u16,
        lookup: impl Fn(&str) -> io::Result<Vec<SocketAddr>>,
    ) -> Result<Vec<SocketAddr>, Unresolved> {
        let addresses = lookup(name).map_err(|error| {
            let reason = error.to_string();
            // what std puts before the words of getaddrinfo
            Unresolved::Unknown(reason.strip_prefix("failed to lookup address information: ").unwrap_or(&reason).into())
        })?;
        let admitted = self.admit(name, port, &addresses).map_err(Unresolved::Refused)?;
        if admitted.is_empty() { Err(Unresolved::Unknown("it has no address".into())) } else { Ok(admitted) }
    }

    fn judge(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        match special(address) {
            Some(_) if self.allows_address(address, port) => Ok(()),
            Some(kind) => Err(kind),
            None => Ok(()),
        }
    }

    fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.exceptions
            .iter()
            .any(|e| e.port.is_none_or(|p| p == port) && matches!(&e.hosts, Hosts::Net(net) if net.contains(&address)))
    }

    fn allows_name(&self, name: &str, port: u16) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        self.exceptions.iter().any(|e| {
            e.port.is_none_or(|p| p == port)
                && match &e.hosts {
                    Hosts::Name(allowed) => allowed == name,
                    Hosts::Below(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
                    Hosts::Net(_) => false,
                }
        })
    }
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.trim();
        if let Some(net) = parse_net(entry) {
            return Some(Self { hosts: Hosts::Net(net), port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
            None => (entry, None),
        };
        let bare = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'))?;
        let hosts = match (parse_net(bare), host.strip_prefix("*.")) {
            (Some(net), _) => Hosts::Net(net),
            (None, Some(name)) => Hosts::Below(format!(".{}", parse_name(name)?)),
            (None, None) => match Host::parse(host).ok()? {
                Host::Ipv4(address) => Hosts::Net(IpAddr::from(address).into()),
                Host::Ipv6(address) => Hosts::Net(IpAddr::from(address).into()),
                Host::Domain(_) => Hosts::Name(parse_name(host)?),
            },
        };
        Some(Self { hosts, port })
    }
}

fn parse_net(text: &str) -> Option<IpNet> {
    let net = text.parse::<IpNet>().ok();
    net.or_else(|| text.parse::<IpAddr>().ok().map(|address| address.to_canonical().into()))
}

/// A name in the form that URLs bring it into, without a final dot.
fn parse_name(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            (!name.is_empty() && !name.contains('*')).then(|| name.to_owned())
        }
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

fn is_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

fn authority(url: &Url) -> Option<Authority> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), bits)
}

/// IANA's special-purpose addresses, multicast, and a metadata service with a public address.
const SPECIAL_V4: [(Ipv4Net, &str); 18] = [
    (v4(0, 0, 0, 0, 8), "an unspecified address"),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(100, 64, 0, 0, 10), "a shared address of carriers"),
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 0, 0, 0, 24), "a reserved address"),
    (v4(192, 0, 2, 0, 24), "an address for documentation"),
    (v4(192, 88, 99, 0, 24), "a reserved address"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(198, 18, 0, 0, 15), "an address for benchmarks"),
    (v4(198, 51, 100, 0, 24), "an address for documentation"),
    (v4(203, 0, 113, 0, 24), "an address for documentation"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(255, 255, 255, 255, 32), "the broadcast address"),
    (v4(240, 0, 0, 0, 4), "a reserved address"),
    // Azure's, on every virtual machine
    (v4(168, 63, 129, 16, 32), "the address of a cloud's metadata service"),
    // AS112: answers for private names
    (v4(192, 175, 48, 0, 24), "a reserved address"),
];

/// Names for what is outside of 2000::/3, and what is special within.
const SPECIAL_V6: [(Ipv6Net, &str); 8] = [
    (v6(0xfc00, 0, 7), "a private address"),
    (v6(0xfe80, 0, 10), "a link-local address"),
    (v6(0xfec0, 0, 10), "a private address"),
    (v6(0xff00, 0, 8), "a multicast address"),
    // Teredo, benchmarks, ORCHIDs
    (v6(0x2001, 0, 23), "a reserved address"),
    (v6(0x2001, 0x0db8, 32), "an address for documentation"),
    // 6to4 hides an IPv4 address
    (v6(0x2002, 0, 16), "a reserved address"),
    (v6(0x3fff, 0, 20), "an address for documentation"),
];

const GLOBAL_UNICAST: Ipv6Net = v6(0x2000, 0, 3);
/// NAT64: the last four bytes are the IPv4 address that is connected to.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 96);

/// What kind of address it is, unless it is an ordinary public one.
fn special(address: IpAddr) -> Option<&'static str> {
    // ::ffff:127.0.0.1 is 127.0.0.1
    match address.to_canonical() {
        IpAddr::V4(v4) => SPECIAL_V4.iter().find(|(net, _)| net.contains(&v4)).map(|(_, kind)| *kind),
        IpAddr::V6(v6) if NAT64.contains(&v6) => {
            let [.., a, b, c, d] = v6.octets();
            special(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(v6) if v6.is_loopback() => Some("a loopback address"),
        IpAddr::V6(v6) if v6.is_unspecified() => Some("an unspecified address"),
        IpAddr::V6(v6) => {
            let kind = SPECIAL_V6.iter().find(|(net, _)| net.contains(&v6)).map(|(_, kind)| *kind);
            kind.or_else(|| (!GLOBAL_UNICAST.contains(&v6)).then_some("a reserved address"))
        }
    }
}

/// Why the resolver has no address to connect to.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unresolved {
    #[error(transparent)]
    Refused(Refusal),
    #[error("{0}")]
    Unknown(String),
}

/// Finds the addresses of a name.
type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// A resolver (the system's), and of what it finds only what may be connected to.
#[derive(Debug)]
pub struct GuardedResolver<L = Lookup> {
    guard: Arc<Guard>,
    /// The [scope](Guard::scope) of the ports that are connected to: names come without one.
    port: u16,
    lookup: L,
}

impl GuardedResolver {
    pub fn new(guard: Arc<Guard>, port: u16) -> Self {
        // the connection puts in its port
        Self { guard, port, lookup: |name| Ok((name, 0).to_socket_addrs()?.collect()) }
    }
}

impl<L> Resolve for GuardedResolver<L>
where
    L: Fn(&str) -> io::Result<Vec<SocketAddr>> + Clone + Send + Sync + 'static,
{
    /// Waits for the system in a thread of its own, which nobody has to wait for when the time for connecting is over.
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, answered) = oneshot::channel();
        let (guard, port, lookup) = (Arc::clone(&self.guard), self.port, self.lookup.clone());
        let resolve = move || drop(answer.send(guard.resolve(name.as_str(), port, lookup)));
        let started = thread::Builder::new().name("resolver".into()).spawn(resolve);
        Box::pin(async move {
            started.map_err(|error| Unresolved::Unknown(error.to_string()))?;
            let addresses = answered.await.map_err(|_| Unresolved::Unknown("the resolver broke off".into()))??;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
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
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", who.len());
                let _ = connection.write_all((head + who).as_bytes());
            }
        });
    }

    #[test]
    fn a_name_that_changes_its_address_leads_nowhere_else() {
        let allowed = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = allowed.local_addr().unwrap().port();
        let forbidden = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let answers = [allowed.local_addr().unwrap(), forbidden.local_addr().unwrap()];
        let (at_allowed, at_forbidden) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        serve(allowed, "allowed", Arc::clone(&at_allowed));
        serve(forbidden, "forbidden", Arc::clone(&at_forbidden));

        // stands in for a name server that answers with another address each time, which no test can have for itself
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let lookup = move |_: &str| Ok(vec![answers[counter.fetch_add(1, Ordering::SeqCst).min(1)]]);
        let resolver = GuardedResolver { guard: Arc::new(guard(&["127.0.0.2"])), port, lookup };
        let client = blocking::Client::builder().no_proxy().tls_backend_preconfigured(crate::http::tls().unwrap());
        let client = client.dns_resolver(Arc::new(resolver)).build().unwrap();
        let url = format!("http://rebinding.example:{port}/");
        assert_eq!(client.get(&url).send().unwrap().text().unwrap(), "allowed");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "what was checked is what was connected to");
        assert!(client.get(&url).send().is_err());
        assert_eq!((at_allowed.load(Ordering::SeqCst), at_forbidden.load(Ordering::SeqCst)), (1, 0));
    }

    fn guard(allowed: &[&str]) -> Guard {
        let allowed_private_hosts = allowed.iter().map(ToString::to_string).collect();
        Guard::new(&Network { allowed_private_hosts, proxy: None }).unwrap()
    }

    fn kind(address: &str) -> Option<&'static str> {
        special(address.parse().unwrap())
    }

    #[test]
    fn special_addresses_are_known_for_what_they_are() {
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
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::1.1.1.1", "::ffff:1.1.1.1"]
        {
            assert_eq!(kind(address), None, "{address}");
        }
    }

    #[test]
    fn an_exception_means_a_host_and_maybe_a_port() {
        let guard = guard(&[
            "wiki.local",
            "*.corp.example:8080",
            "10.1.2.3",
            "[fd00::7]:443",
            "192.168.0.0/16",
            "Bücher.example",
        ]);
        let allows = |url: &str| guard.is_exception(&Url::parse(url).unwrap());
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
    fn what_is_no_exception_is_refused() {
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
            let network = Network { allowed_private_hosts: vec![entry.into()], proxy: None };
            let error = Guard::new(&network).unwrap_err();
            assert_eq!(
                error.message,
                format!("rag.allowed_private_hosts: \"{entry}\" is not a host, address or network")
            );
        }
        for proxy in ["", "proxy", "socks5://proxy:1080", "http://"] {
            assert!(
                Guard::new(&Network { allowed_private_hosts: vec![], proxy: Some(proxy.into()) }).is_err(),
                "{proxy}"
            );
        }
    }

    #[test]
    fn of_several_addresses_only_those_that_pass_are_handed_on() {
        let addresses = ["127.0.0.1:80", "1.1.1.1:80", "[::ffff:10.0.0.1]:80"].map(|a| a.parse().unwrap());
        assert_eq!(guard(&[]).admit("a.example", 80, &addresses).unwrap(), [addresses[1]]);
        assert_eq!(guard(&["10.0.0.0/8:80"]).admit("a.example", 80, &addresses).unwrap(), addresses[1..]);
        assert_eq!(guard(&["a.example"]).admit("a.example", 80, &addresses).unwrap(), addresses);
        assert_eq!(
            guard(&["a.example:81"]).admit("a.example", 80, &addresses[..1]).unwrap_err().to_string(),
            "\"a.example\" resolves to 127.0.0.1, which is a loopback address and may not be connected to"
        );
    }
}
