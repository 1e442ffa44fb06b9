//! Addresses that are not ordinary public ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

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

/// Special addresses inside of 2000::/3, and names for those outside.
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
/// NAT64: the last four bytes are the IPv4 address.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 96);

/// Returns the IPv4 address that is embedded in an address, or the address itself. ::ffff:127.0.0.1
/// and 64:ff9b::127.0.0.1 are 127.0.0.1.
pub fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if NAT64.contains(&v6) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        address => address,
    }
}

/// Returns the kind of an address, or `None` for an ordinary public one.
pub fn special(address: IpAddr) -> Option<&'static str> {
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
