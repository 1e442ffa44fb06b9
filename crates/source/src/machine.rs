//! The addresses of this machine, as its operating system tells them.
//!
//! A packet to an address of the machine itself never leaves it, whatever network the address is
//! of, so no firewall outside sees it, and services of the machine may trust it. The list of
//! interfaces tells most of these addresses. It misses whole networks that a route makes local (`ip
//! route add local 192.0.2.0/24 dev lo`); for these the kernel is asked which address it would send
//! from: through such a route it sends from the address it sends to.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;

/// How the machine's addresses are found out; another way in tests.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// The addresses of the interfaces, each with its network.
    pub interfaces: fn() -> io::Result<Vec<IpNet>>,
    /// The address that a packet to this one would be sent from.
    pub sends_from: fn(IpAddr) -> Option<IpAddr>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            interfaces,
            sends_from,
        }
    }
}

pub const OWN: &str = "an address of the database server itself";
const NEIGHBOUR: &str = "an address of the database server's own network";
const UNKNOWN: &str = "an address that cannot be told from the database server's own";

impl Machine {
    /// Returns what an address is to this machine, or `None` if it belongs to another one.
    ///
    /// Neighbours on an IPv6 network count as near, since every machine of such a network has a
    /// public address. Public IPv4 networks are shared by strangers, and do not.
    pub fn relation(&self, address: IpAddr) -> Option<&'static str> {
        let Ok(interfaces) = (self.interfaces)() else {
            return Some(UNKNOWN);
        };
        if interfaces.iter().any(|net| net.addr() == address)
            || (self.sends_from)(address) == Some(address)
        {
            return Some(OWN);
        }
        let is_near = |net: &IpNet| {
            matches!(net, IpNet::V6(_)) && net.prefix_len() > 0 && net.contains(&address)
        };
        interfaces.iter().any(is_near).then_some(NEIGHBOUR)
    }
}

fn interfaces() -> io::Result<Vec<IpNet>> {
    let networks = getifaddrs()?.filter_map(|interface| {
        let (address, mask) = (interface.address?, interface.netmask);
        let address: IpAddr = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => v4.ip().into(),
            (_, Some(v6)) => v6.ip().into(),
            _ => return None,
        };
        let mask: Option<IpAddr> =
            mask.and_then(
                |mask| match (mask.as_sockaddr_in(), mask.as_sockaddr_in6()) {
                    (Some(v4), _) => Some(v4.ip().into()),
                    (_, Some(v6)) => Some(v6.ip().into()),
                    _ => None,
                },
            );
        // without a mask it is the address alone
        let net = mask.and_then(|mask| IpNet::with_netmask(address, mask).ok());
        Some(net.unwrap_or_else(|| IpNet::from(address)))
    });
    Ok(networks.collect())
}

/// Nothing is sent: connecting a UDP socket only looks up the route.
fn sends_from(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let interfaces = || {
            Ok(
                ["93.184.216.34/24", "2606:4700::34/64", "2606:4700:1::9/128"]
                    .map(|net| net.parse().unwrap())
                    .to_vec(),
            )
        };
        Machine {
            interfaces,
            sends_from: |_| None,
        }
    }

    #[test]
    fn own_addresses_and_neighbours_over_ipv6_are_near() {
        let relation = |address: &str| machine().relation(address.parse().unwrap());
        for own in ["93.184.216.34", "2606:4700::34", "2606:4700:1::9"] {
            assert_eq!(relation(own), Some(OWN), "{own}");
        }
        assert_eq!(relation("2606:4700::35"), Some(NEIGHBOUR));
        for other in ["93.184.216.35", "2606:4700:0:1::34", "2606:4700:1::a"] {
            assert_eq!(relation(other), None, "{other}");
        }
    }

    #[test]
    fn an_address_that_the_machine_would_send_from_is_its_own() {
        let machine = Machine {
            interfaces: || Ok(vec![]),
            sends_from: Some,
        };
        assert_eq!(
            machine.relation("93.184.216.34".parse().unwrap()),
            Some(OWN)
        );
    }

    #[test]
    fn without_the_list_of_interfaces_nothing_is_far() {
        let machine = Machine {
            interfaces: || Err(io::ErrorKind::PermissionDenied.into()),
            sends_from: |_| None,
        };
        assert_eq!(machine.relation("1.1.1.1".parse().unwrap()), Some(UNKNOWN));
    }

    #[test]
    fn the_system_tells_the_real_ones() {
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert!(
            interfaces()
                .unwrap()
                .iter()
                .any(|net| net.addr() == loopback && net.prefix_len() == 8)
        );
        assert_eq!(sends_from(loopback), Some(loopback));
        assert_eq!(Machine::default().relation(loopback), Some(OWN));
    }
}
