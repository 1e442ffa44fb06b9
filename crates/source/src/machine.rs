//! The addresses of this machine, read from the operating system.
//!
//! A packet to an address of the machine itself never leaves it, even if the address is public. No
//! firewall sees it, and services of the machine may trust it. Most of these addresses are in the
//! list of interfaces. Networks that a route makes local (`ip route add local 192.0.2.0/24 dev lo`)
//! are not. For these the kernel is asked which source address it would use: on such a route it is
//! the destination address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;

/// How to find the machine's addresses. Tests replace the functions.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// The addresses of the interfaces, each with its network.
    pub interfaces: fn() -> io::Result<Vec<IpNet>>,
    /// Returns the source address of a packet to this address.
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
const UNKNOWN: &str = "an address that may be the database server's own";

impl Machine {
    /// Returns what an address is to this machine, or `None` if it belongs to another one.
    ///
    /// Addresses of its IPv6 networks are refused too, since every machine of such a network has a
    /// public address. Public IPv4 networks are shared with strangers, and are allowed.
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
        // without a mask, the address alone
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
    fn own_addresses_and_those_of_ipv6_networks_are_recognized() {
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
    fn without_the_list_of_interfaces_every_address_is_refused() {
        let machine = Machine {
            interfaces: || Err(io::ErrorKind::PermissionDenied.into()),
            sends_from: |_| None,
        };
        assert_eq!(machine.relation("1.1.1.1".parse().unwrap()), Some(UNKNOWN));
    }

    #[test]
    fn interfaces_are_read_from_the_system() {
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
