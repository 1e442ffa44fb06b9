//! The network guard decides which hosts and addresses sources may connect to.
//!
//! ```text
//! URL ─check─▶ scheme, credentials, host ─▶ [resolver] name ─getaddrinfo─▶ addresses ─▶ connect
//!     before each request                                only allowed ones are passed on
//! ```
//!
//! A source's URL, or a redirect of its server, could point the database server to services that
//! trust their network: databases, metadata services of clouds, routers. So sources connect to
//! public unicast addresses only. The resolver checks the addresses and passes on only the allowed
//! ones. A name that resolves to another address a moment later (DNS rebinding) has no effect.
//! Hosts written as addresses are not resolved: the check of the URL judges them. [`url::Url`] has
//! converted all spellings (decimal, octal, hexadecimal, short) to one form.
//!
//! The addresses of this machine, and those of its IPv6 networks, do not count as public (see
//! [`machine`](crate::machine)). Both ends of an open connection are checked again before the
//! response is read.
//!
//! The entries of `rag.allowed_private_hosts` are exceptions:
//!
//! | entry | allows |
//! |---|---|
//! | `wiki.local` | that name, whatever it resolves to |
//! | `*.corp.example` | the names below it, at any depth |
//! | `10.1.2.3`, `fd00::7` | that address, whatever name resolved to it |
//! | `192.168.0.0/16`, `fd00::/8` | the addresses of that network |
//! | `wiki.local:8080`, `[fd00::7]:8080` | the same, on that port only |
//!
//! A proxy resolves names itself. Then only addresses in URLs and the names of this machine are
//! checked; the proxy decides on all other names.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
    thread,
};

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::Network,
    network::{AllowedHosts, NOT_PUBLIC_HINT, is_this_machine, reached, special},
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::oneshot;
use url::{Host, Url};

use crate::machine::{Machine, OWN};

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("URL scheme \"{0}\" is not supported")]
    Scheme(String),
    #[error("the URL contains a user name or password")]
    Credentials,
    #[error("the URL has no host")]
    NoHost,
    #[error("connections to {address} are not allowed: it is {kind}")]
    Address { address: IpAddr, kind: &'static str },
    /// Hides the address: users must not learn the names of the server's network.
    #[error("connections to \"{host}\" are not allowed: its address is not public")]
    Resolved { host: String },
    #[error("connections to \"{0}\" are not allowed: it is the database server itself")]
    ThisMachine(String),
}

impl Refusal {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => "Use an http or https URL.",
            Self::Credentials => "Create a secret and name it in the source's credentials.",
            Self::NoHost => "Write https://host/path.",
            Self::Address { .. } | Self::Resolved { .. } | Self::ThisMachine(_) => NOT_PUBLIC_HINT,
        }
    }
}

/// Host and port.
type Authority = (String, u16);

/// Stands for every port that no entry names. Entries cannot name port 0.
const ANY_PORT: u16 = 0;

#[derive(Debug)]
pub struct Guard {
    allowed: AllowedHosts,
    proxy: Option<Authority>,
    machine: Machine,
}

impl Guard {
    /// # Errors
    /// `InvalidRequest`: an entry of `rag.allowed_private_hosts` or the proxy is invalid.
    pub fn new(network: &Network) -> Result<Self, EngineError> {
        Self::on(Machine::default(), network)
    }

    fn on(machine: Machine, network: &Network) -> Result<Self, EngineError> {
        let proxy = network.proxy.as_ref().map(|proxy| {
            let parsed = Url::parse(proxy)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"));
            parsed.as_ref().and_then(authority).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::InvalidRequest,
                    "rag.http_proxy is not a valid URL",
                )
                .hint("Write http://host:port.")
            })
        });
        Ok(Self {
            allowed: AllowedHosts::parse(&network.allowed_private_hosts)?,
            proxy: proxy.transpose()?,
            machine,
        })
    }

    /// Checks a URL before its host is resolved.
    ///
    /// # Errors
    /// Connections to it are not allowed, whatever its name resolves to.
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
            Host::Domain(name) if self.allowed.allows_name(name, port) => Ok(()),
            Host::Domain(name) if self.proxy.is_some() && is_this_machine(name) => {
                Err(Refusal::ThisMachine(name.into()))
            }
            Host::Domain(_) => Ok(()),
        }
    }

    /// Checks an open connection for a URL. Connections to a proxy are always allowed.
    ///
    /// # Errors
    /// Connections to its peer are not allowed.
    pub fn check_connection(&self, url: &Url, local: IpAddr, peer: IpAddr) -> Result<(), Refusal> {
        let Some(port) = url.port_or_known_default() else {
            return Err(Refusal::NoHost);
        };
        let is_allowed =
            matches!(url.host(), Some(Host::Domain(name)) if self.allowed.allows_name(name, port));
        if self.proxy.is_some() || is_allowed || self.allowed.allows_address(peer, port) {
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

    /// Returns true if an entry of `rag.allowed_private_hosts` names the host of a URL.
    pub fn is_allowed_host(&self, url: &Url) -> bool {
        self.allowed.allows_host_of(url)
    }

    /// Returns the port if an entry or the proxy names it, and otherwise [`ANY_PORT`]. Hosts of one
    /// scope may share a resolver.
    pub fn scope(&self, port: u16) -> u16 {
        match &self.proxy {
            // no other name is resolved
            Some((_, port)) => *port,
            None if self.allowed.name_port(port) => port,
            None => ANY_PORT,
        }
    }

    /// Returns the allowed ones of the addresses that a host resolved to.
    ///
    /// # Errors
    /// None is allowed.
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
            || self.allowed.allows_name(host, port)
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
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let addresses = lookup(name).map_err(|error| {
            let reason = error.to_string();
            // the prefix that std adds to the message of getaddrinfo
            ResolveError::Unknown(
                reason
                    .strip_prefix("failed to lookup address information: ")
                    .unwrap_or(&reason)
                    .into(),
            )
        })?;
        let admitted = self
            .admit(name, port, &addresses)
            .map_err(ResolveError::Refused)?;
        if admitted.is_empty() {
            Err(ResolveError::Unknown("it has no address".into()))
        } else {
            Ok(admitted)
        }
    }

    fn judge(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        match special(address).or_else(|| self.machine.relation(reached(address))) {
            Some(_) if self.allowed.allows_address(address, port) => Ok(()),
            Some(kind) => Err(kind),
            None => Ok(()),
        }
    }
}

fn authority(url: &Url) -> Option<Authority> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// Why a name has no address to connect to.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Refused(Refusal),
    #[error("{0}")]
    Unknown(String),
}

/// Finds the addresses of a name.
type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The system's resolver, limited to the addresses that the guard allows.
#[derive(Debug)]
pub struct GuardedResolver<L = Lookup> {
    guard: Arc<Guard>,
    /// The [scope](Guard::scope) of the ports: names have no port.
    port: u16,
    lookup: L,
}

impl GuardedResolver {
    pub fn new(guard: Arc<Guard>, port: u16) -> Self {
        // the connection sets its own port
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
    /// Resolves in a separate thread, which is abandoned after the timeout for connections.
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, answered) = oneshot::channel();
        let (guard, port, lookup) = (Arc::clone(&self.guard), self.port, self.lookup.clone());
        let resolve = move || drop(answer.send(guard.resolve(name.as_str(), port, lookup)));
        let started = thread::Builder::new()
            .name("resolver".into())
            .spawn(resolve);
        Box::pin(async move {
            started.map_err(|error| ResolveError::Unknown(error.to_string()))?;
            let addresses = answered
                .await
                .map_err(|_| ResolveError::Unknown("the resolver failed".into()))??;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
