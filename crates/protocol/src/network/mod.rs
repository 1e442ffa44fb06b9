//! The entries of `rag.allowed_private_hosts`, and what is refused without them.
//!
//! Definitions are checked by the code that the network guard of runs uses.

mod special;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

pub use self::special::{reached, special};
use crate::{EngineError, ErrorKind};

/// The hint for a host that is not public.
pub const NOT_PUBLIC_HINT: &str = "Sources connect to public addresses only. A superuser can allow \
                                   others in rag.allowed_private_hosts.";

/// The entries of `rag.allowed_private_hosts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<AllowedHost>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedHost {
    hosts: Hosts,
    /// `None` allows all ports.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Name(String),
    /// Begins with a dot.
    Below(String),
    Net(IpNet),
}

impl AllowedHosts {
    /// # Errors
    /// `InvalidRequest`: an entry is invalid.
    pub fn parse(entries: &[String]) -> Result<Self, EngineError> {
        let parsed = entries.iter().map(|entry| {
            AllowedHost::parse(entry).ok_or_else(|| {
                let message = format!("invalid entry \"{entry}\" in rag.allowed_private_hosts");
                EngineError::new(ErrorKind::InvalidRequest, message).hint(
                    "Write a name, *.name, an address or a network such as 10.0.0.0/8, \
                     optionally with :port.",
                )
            })
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    pub fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|e| {
            e.port.is_none_or(|p| p == port)
                && matches!(&e.hosts, Hosts::Net(net) if net.contains(&address))
        })
    }

    pub fn allows_name(&self, name: &str, port: u16) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        self.0.iter().any(|e| {
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

    /// Returns true if an entry names the host of a URL.
    pub fn allows_host_of(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return false;
        };
        match host {
            Host::Ipv4(address) => self.allows_address(address.into(), port),
            Host::Ipv6(address) => self.allows_address(address.into(), port),
            Host::Domain(name) => self.allows_name(name, port),
        }
    }

    /// Returns true if an entry is for one port.
    pub fn name_port(&self, port: u16) -> bool {
        self.0.iter().any(|e| e.port == Some(port))
    }

    /// Returns why every request to a URL is refused, whatever names resolve to. Returns `None` if
    /// that depends on what its name resolves to, or on the addresses of the machine.
    pub fn refusal(&self, url: &Url) -> Option<String> {
        if self.allows_host_of(url) {
            return None;
        }
        let of_address = |address: IpAddr| {
            special(address)
                .map(|kind| format!("connections to {address} are not allowed: it is {kind}"))
        };
        match url.host()? {
            Host::Ipv4(address) => of_address(address.into()),
            Host::Ipv6(address) => of_address(address.into()),
            Host::Domain(name) if is_this_machine(name) => {
                let port = url.port_or_known_default()?;
                let is_allowed = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                    .into_iter()
                    .any(|address| self.allows_address(address, port));
                (!is_allowed).then(|| {
                    format!(
                        "connections to \"{name}\" are not allowed: it is the database server \
                         itself"
                    )
                })
            }
            Host::Domain(_) => None,
        }
    }
}

impl AllowedHost {
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

/// Returns a name in the form that URLs have, without a final dot.
fn parse_name(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            (!name.is_empty() && !name.contains('*')).then(|| name.to_owned())
        }
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Returns true for the names that every machine has for itself.
pub fn is_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}
