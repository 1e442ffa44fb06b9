//! The network guard: which hosts and addresses the sources may connect to.
//!
//! ```text
//! URL ──check──▶ scheme, credentials, host ──▶ [resolver] name ──getaddrinfo──▶ addresses ──admit──▶ connect
//!      before each hop                                     those that may be connected to are passed on, and no others
//! ```
//!
//! A source's URL, and every redirect of its server, could lead the database server to services
//! that trust their network: databases, metadata services of clouds, routers. Hence only addresses
//! that are unicast and public are connected to. Addresses are judged where they are used: the
//! resolver hands the connection only those that passed, so a name that resolves to something else
//! the next moment (DNS rebinding) gains nothing. Hosts written as addresses are not resolved, and
//! judged by the check; [`url::Url`] has brought all spellings (decimal, octal, hexadecimal, short)
//! into one form.
//!
//! The addresses of this machine itself, and those of its IPv6 networks, are no public ones either
//! (see [`machine`](crate::machine)). A connection that was made is judged once more by both its
//! ends before the answer is read.
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
//! Behind a proxy it is the proxy that resolves names: then addresses in URLs and names of this
//! machine are judged, and what other names lead to is for the proxy to decide.

#[cfg(test)]
mod tests;

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

use crate::machine::{Machine, OWN};

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
    /// Neither the address nor what it is are told: names of the server's network are nobody's to
    /// look up.
    #[error("\"{host}\" resolves to an address that is not public and may not be connected to")]
    Resolved { host: String },
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
    machine: Machine,
}

impl Guard {
    /// # Errors
    /// `InvalidRequest` where an entry of `rag.allowed_private_hosts` or the proxy cannot be
    /// understood.
    pub fn new(network: &Network) -> Result<Self, EngineError> {
        Self::on(Machine::default(), network)
    }

    fn on(machine: Machine, network: &Network) -> Result<Self, EngineError> {
        let exceptions = network.allowed_private_hosts.iter().map(|entry| {
            Exception::parse(entry).ok_or_else(|| {
                let message = format!("rag.allowed_private_hosts: \"{entry}\" is not a host, address or network");
                EngineError::new(ErrorKind::InvalidRequest, message)
                    .hint("Write a name, *.name, an address or a network such as 10.0.0.0/8, each with :port if only that is meant.")
            })
        });
        let proxy = network.proxy.as_ref().map(|proxy| {
            let parsed = Url::parse(proxy)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"));
            parsed.as_ref().and_then(authority).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "rag.http_proxy is not the URL of a proxy",
                )
                .hint("Write http://host:port.")
            })
        });
        Ok(Self {
            exceptions: exceptions.collect::<Result<_, _>>()?,
            proxy: proxy.transpose()?,
            machine,
        })
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
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refusal::NoHost);
        };
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

    /// What can be said of a connection that was made for a URL. Behind a proxy it is the proxy's.
    ///
    /// # Errors
    /// It leads to where none may.
    pub fn check_connection(&self, url: &Url, local: IpAddr, peer: IpAddr) -> Result<(), Refusal> {
        let Some(port) = url.port_or_known_default() else {
            return Err(Refusal::NoHost);
        };
        let is_allowed =
            matches!(url.host(), Some(Host::Domain(name)) if self.allows_name(name, port));
        if self.proxy.is_some() || is_allowed || self.allows_address(peer, port) {
            return Ok(());
        }
        let judged = if local == peer {
            Err(OWN)
        } else {
            self.judge(peer, port)
        };
        judged.map_err(|kind| Refusal::Address {
            address: peer,
            kind,
        })
    }

    /// Whether an exception names the host of a URL itself.
    pub fn is_exception(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return false;
        };
        match host {
            Host::Ipv4(address) => self.allows_address(address.into(), port),
            Host::Ipv6(address) => self.allows_address(address.into(), port),
            Host::Domain(name) => self.allows_name(name, port),
        }
    }

    /// What a resolver must know of a port: the port itself where an exception or the proxy names
    /// it, and otherwise [`ANY_PORT`]. Hosts of one scope may share a resolver.
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
    fn admit(
        &self,
        host: &str,
        port: u16,
        addresses: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, Refusal> {
        if self
            .proxy
            .as_ref()
            .is_some_and(|(proxy, at)| proxy == host && *at == port)
            || self.allows_name(host, port)
        {
            return Ok(addresses.to_vec());
        }
        let mut refusal = None;
        let mut admitted = vec![];
        for address in addresses {
            match self.judge(address.ip(), port) {
                Ok(()) => admitted.push(*address),
                Err(_) => {
                    refusal.get_or_insert(Refusal::Resolved { host: host.into() });
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
            Unresolved::Unknown(
                reason
                    .strip_prefix("failed to lookup address information: ")
                    .unwrap_or(&reason)
                    .into(),
            )
        })?;
        let admitted = self
            .admit(name, port, &addresses)
            .map_err(Unresolved::Refused)?;
        if admitted.is_empty() {
            Err(Unresolved::Unknown("it has no address".into()))
        } else {
            Ok(admitted)
        }
    }

    fn judge(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        match special(address).or_else(|| self.machine.relation(reached(address))) {
            Some(_) if self.allows_address(address, port) => Ok(()),
            Some(kind) => Err(kind),
            None => Ok(()),
        }
    }

    fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.exceptions.iter().any(|e| {
            e.port.is_none_or(|p| p == port)
                && matches!(&e.hosts, Hosts::Net(net) if net.contains(&address))
        })
    }

    fn allows_name(&self, name: &str, port: u16) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        self.exceptions.iter().any(|e| {
            e.port.is_none_or(|p| p == port)
                && match &e.hosts {
                    Hosts::Name(allowed) => allowed == name,
                    Hosts::Below(suffix) => {
                        name.len() > suffix.len() && name.ends_with(suffix.as_str())
                    }
                    Hosts::Net(_) => false,
                }
        })
    }
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.trim();
        if let Some(net) = parse_net(entry) {
            return Some(Self {
                hosts: Hosts::Net(net),
                port: None,
            });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
            None => (entry, None),
        };
        let bare = host
            .strip_prefix('[')
            .map_or(Some(host), |rest| rest.strip_suffix(']'))?;
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
    net.or_else(|| {
        text.parse::<IpAddr>()
            .ok()
            .map(|address| address.to_canonical().into())
    })
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
    (
        v4(168, 63, 129, 16, 32),
        "the address of a cloud's metadata service",
    ),
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

/// The address that is reached by way of another: ::ffff:127.0.0.1 is 127.0.0.1, and so is
/// 64:ff9b::127.0.0.1.
fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if NAT64.contains(&v6) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        address => address,
    }
}

/// What kind of address it is, unless it is an ordinary public one.
fn special(address: IpAddr) -> Option<&'static str> {
    match reached(address) {
        IpAddr::V4(v4) => SPECIAL_V4
            .iter()
            .find(|(net, _)| net.contains(&v4))
            .map(|(_, kind)| *kind),
        IpAddr::V6(v6) if v6.is_loopback() => Some("a loopback address"),
        IpAddr::V6(v6) if v6.is_unspecified() => Some("an unspecified address"),
        IpAddr::V6(v6) => {
            let kind = SPECIAL_V6
                .iter()
                .find(|(net, _)| net.contains(&v6))
                .map(|(_, kind)| *kind);
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
        Self {
            guard,
            port,
            lookup: |name| Ok((name, 0).to_socket_addrs()?.collect()),
        }
    }
}

impl<L> Resolve for GuardedResolver<L>
where
    L: Fn(&str) -> io::Result<Vec<SocketAddr>> + Clone + Send + Sync + 'static,
{
    /// Waits for the system in a thread of its own, which nobody has to wait for when the time for
    /// connecting is over.
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, answered) = oneshot::channel();
        let (guard, port, lookup) = (Arc::clone(&self.guard), self.port, self.lookup.clone());
        let resolve = move || drop(answer.send(guard.resolve(name.as_str(), port, lookup)));
        let started = thread::Builder::new()
            .name("resolver".into())
            .spawn(resolve);
        Box::pin(async move {
            started.map_err(|error| Unresolved::Unknown(error.to_string()))?;
            let addresses = answered
                .await
                .map_err(|_| Unresolved::Unknown("the resolver broke off".into()))??;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
