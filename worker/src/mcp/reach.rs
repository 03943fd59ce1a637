//! Which addresses a client may have an agent connect to: public, private, or special.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressReach {
    /// Anybody on the internet may connect to it.
    Public,
    /// This machine and its neighbours.
    Private,
    /// Addresses that no name of a server should ever have: link-local, metadata, multicast,
    /// reserved.
    Special,
}

use AddressReach::{Private, Public, Special};

/// The first that contains an address decides. Clouds tell machines their credentials at addresses
/// in the midst of others.
const NETS: &[(&str, AddressReach)] = &[
    ("168.63.129.16/32", Special),
    ("100.100.100.200/32", Special),
    ("0.0.0.0/8", Special),
    ("10.0.0.0/8", Private),
    ("100.64.0.0/10", Private),
    ("127.0.0.0/8", Private),
    ("169.254.0.0/16", Special),
    ("172.16.0.0/12", Private),
    ("192.0.0.0/24", Special),
    ("192.0.2.0/24", Special),
    ("192.88.99.0/24", Special),
    ("192.168.0.0/16", Private),
    ("198.18.0.0/15", Private),
    ("198.51.100.0/24", Special),
    ("203.0.113.0/24", Special),
    ("224.0.0.0/3", Special),
    ("0.0.0.0/0", Public),
    ("fd00:ec2::/32", Special),
    ("fd20:ce::254/128", Special),
    ("::1/128", Private),
    ("fc00::/7", Private),
    ("fec0::/10", Private),
    ("64:ff9b:1::/48", Private),
    ("2001::/23", Special),
    ("2001:db8::/32", Special),
    ("3fff::/20", Special),
    ("2000::/3", Public),
    ("::/0", Special),
];

static TABLE: LazyLock<Vec<(IpNet, AddressReach)>> = LazyLock::new(|| {
    let nets = NETS.iter();
    nets.map(|(net, reach)| (net.parse().expect("a network"), *reach))
        .collect()
});

/// An IPv6 address that carries an IPv4 one reaches as far as that.
pub(super) fn reach(address: IpAddr) -> AddressReach {
    let carried = match address {
        IpAddr::V4(_) => return listed(address),
        IpAddr::V6(address) => carried(address),
    };
    match carried[..] {
        [] => listed(address),
        _ => {
            let all = carried.into_iter().map(|address| listed(address.into()));
            all.max().unwrap_or(Special)
        }
    }
}

fn listed(address: IpAddr) -> AddressReach {
    let found = TABLE.iter().find(|(net, _)| net.contains(&address));
    found.map_or(Special, |(_, reach)| *reach)
}

/// IPv4 addresses that packets to this one are sent on to, where something translates or tunnels.
fn carried(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let parts = address.segments();
    let at = |place: usize| {
        Ipv4Addr::from((u32::from(parts[place]) << 16) | u32::from(parts[place + 1]))
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // Mapped, compatible, translated, and NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![at(6)],
        // 6to4.
        [0x2002, ..] => vec![at(1)],
        // Teredo: the server, and the client behind it with all bits turned.
        [0x2001, 0, ..] => vec![at(2), Ipv4Addr::from(!u32::from(at(6)))],
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![at(6), Ipv4Addr::UNSPECIFIED],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_reach() {
        for (addresses, expected) in [
            (
                "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.169.0.1 \
                 223.255.255.255 11.0.0.0 169.253.0.1 169.255.0.1 2606:4700::1111 2a00:1450::1 \
                 2400:cb00::1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1",
                Public,
            ),
            (
                "10.0.0.1 10.255.255.255 127.0.0.1 127.255.255.254 172.16.0.1 172.31.255.255 \
                 192.168.1.1 100.64.0.1 100.127.255.255 198.18.0.1 ::1 fc00::1 fd12:3456::1 \
                 fec0::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:192.168.0.1 ::127.0.0.1 \
                 ::10.0.0.1 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 2002:7f00:1::1 \
                 2002:a00:1:: ::ffff:0:127.0.0.1",
                Private,
            ),
            (
                "0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 100.100.100.200 168.63.129.16 \
                 192.0.0.192 192.0.2.1 198.51.100.1 203.0.113.1 192.88.99.1 224.0.0.1 \
                 239.255.255.255 240.0.0.1 255.255.255.255 :: fe80::1 ff02::1 fd00:ec2::254 \
                 fd20:ce::254 2001:db8::1 3fff::1 100::1 5f00::1 4000::1 ::ffff:169.254.169.254 \
                 ::ffff:0.0.0.0 ::169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 \
                 ::ffff:224.0.0.1 2001:2::1 2001:20::1 ::ffff:0:169.254.169.254 \
                 2606:4700::5efe:7f00:1 2606:4700::200:5efe:808:808",
                Special,
            ),
        ] {
            for address in addresses.split_whitespace() {
                let reach = reach(address.parse().unwrap());
                assert_eq!(reach, expected, "{address}");
            }
        }
    }

    #[test]
    fn a_teredo_address_reaches_as_far_as_the_worse_of_its_two() {
        let teredo = |server: [u8; 4], client: [u8; 4]| {
            let client = !u32::from(Ipv4Addr::from(client));
            let server = u32::from(Ipv4Addr::from(server));
            let bits = (0x2001u128 << 112) | (u128::from(server) << 64) | u128::from(client);
            reach(Ipv6Addr::from(bits).into())
        };
        assert_eq!(teredo([8, 8, 8, 8], [10, 0, 0, 1]), Private);
        assert_eq!(teredo([127, 0, 0, 1], [8, 8, 8, 8]), Private);
        assert_eq!(teredo([8, 8, 8, 8], [169, 254, 169, 254]), Special);
    }
}
