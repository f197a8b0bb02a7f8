//! The way to another machine, and what TCP sent again on it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use serde::{Deserialize, Serialize};

use crate::read_if_any;

/// How packets leave this machine for an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// The network device.
    pub device: String,
    /// The router; `None` if the address is on the device's own network.
    pub gateway: Option<IpAddr>,
    /// The device's speed in bits per second as its driver reports it; `None` if unknown, as for
    /// most virtual devices and wireless ones. The slowest part of the way may be another one.
    pub speed_bits_per_s: Option<u64>,
}

impl Way {
    /// The way to an address by the kernel's main routing table; `None` if there is none. Rules of
    /// policy routing (ip-rule(8)) are not known.
    pub fn to(address: IpAddr) -> Option<Way> {
        let (device, gateway) = if is_own(address) {
            ("lo".to_owned(), None)
        } else {
            match address {
                IpAddr::V4(address) => {
                    route_v4(&read_if_any("/proc/net/route").unwrap_or_default(), address)?
                }
                IpAddr::V6(address) => {
                    route_v6(&read_if_any("/proc/net/ipv6_route").unwrap_or_default(), address)?
                }
            }
        };
        let speed = read_if_any(format!("/sys/class/net/{device}/speed"));
        let speed_bits_per_s = speed.and_then(|megabits| speed_of(&megabits));
        Some(Way { device, gateway, speed_bits_per_s })
    }
}

/// Whether an address is this machine's: packets to it then have the same source.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket only chooses a route.
    let source = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((address, 9)).and_then(|()| socket.local_addr()));
    address.is_loopback() || source.is_ok_and(|source| source.ip() == address)
}

/// Megabits per second; −1 is unknown (Documentation/ABI/testing/sysfs-class-net).
fn speed_of(megabits: &str) -> Option<u64> {
    let megabits: i64 = megabits.parse().ok()?;
    u64::try_from(megabits).ok().filter(|megabits| *megabits > 0).map(|speed| speed * 1_000_000)
}

/// A route is usable if it is up (RTF_UP, linux/route.h).
const UP: u32 = 1;

/// A route that refuses packets (RTF_REJECT).
const REJECT: u32 = 0x200;

/// The device and gateway of the longest prefix; among equals, that of the lowest metric.
fn route_v4(table: &str, address: Ipv4Addr) -> Option<(String, Option<IpAddr>)> {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask …, addresses in hexadecimal, in the
    // machine's byte order.
    let hex = |word: &str| {
        u32::from_str_radix(word, 16).ok().map(|number| u32::from_be_bytes(number.to_ne_bytes()))
    };
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, destination, gateway, flags, _, _, metric, mask, ..] = words[..] else {
            return None;
        };
        let (mask, flags) = (hex(mask)?, u32::from_str_radix(flags, 16).ok()?);
        let matches = u32::from(address) & mask == hex(destination)?;
        let usable = flags & (UP | REJECT) == UP;
        let gateway = Some(hex(gateway)?).filter(|gateway| *gateway != 0);
        let gateway = gateway.map(|gateway| IpAddr::V4(Ipv4Addr::from(gateway)));
        let metric: u32 = metric.parse().ok()?;
        (matches && usable).then(|| (mask.count_ones(), metric, device.to_owned(), gateway))
    });
    best(routes)
}

/// The same for IPv6.
fn route_v6(table: &str, address: Ipv6Addr) -> Option<(String, Option<IpAddr>)> {
    // Destination Length Source Length NextHop Metric RefCnt Use Flags Device, in hexadecimal.
    let hex = |word: &str| u128::from_str_radix(word, 16).ok();
    let routes = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [destination, length, _, _, next, metric, _, _, flags, device] = words[..] else {
            return None;
        };
        let length = u32::from_str_radix(length, 16).ok().filter(|length| *length <= 128)?;
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let matches = u128::from(address) & mask == hex(destination)? & mask;
        let usable = flags & (UP | REJECT) == UP;
        let gateway = Some(hex(next)?).filter(|next| *next != 0);
        let gateway = gateway.map(|next| IpAddr::V6(Ipv6Addr::from(next)));
        let metric = u32::from_str_radix(metric, 16).ok()?;
        (matches && usable).then(|| (length, metric, device.to_owned(), gateway))
    });
    best(routes)
}

type Route = (u32, u32, String, Option<IpAddr>);

fn best(routes: impl Iterator<Item = Route>) -> Option<(String, Option<IpAddr>)> {
    let better = |a: &Route, b: &Route| a.0.cmp(&b.0).then(b.1.cmp(&a.1));
    routes.max_by(better).map(|(_, _, device, gateway)| (device, gateway))
}

/// TCP segments of this machine's network since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Segments sent, without those sent again (`OutSegs` of RFC 1213).
    pub sent: u64,
    /// Segments sent again (`RetransSegs`).
    pub resent: u64,
}

impl Segments {
    /// Reads the counters; `None` if the kernel does not report them.
    pub fn read() -> Option<Segments> {
        segments(&read_if_any("/proc/net/snmp")?)
    }

    /// The change since an earlier reading.
    pub fn since(self, earlier: Segments) -> Segments {
        Segments {
            sent: self.sent.saturating_sub(earlier.sent),
            resent: self.resent.saturating_sub(earlier.resent),
        }
    }
}

/// /proc/net/snmp consists of pairs of lines: names, then values.
fn segments(snmp: &str) -> Option<Segments> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(Segments { sent: value("OutSegs")?, resent: value("RetransSegs")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_is_the_way() {
        let address = |text: &str| {
            let address: Ipv4Addr = text.parse().unwrap();
            format!("{:08X}", u32::from_ne_bytes(address.octets()))
        };
        let line = |device: &str, to: &str, via: &str, flags: u32, metric: u32, mask: &str| {
            format!(
                "{device}\t{}\t{}\t{flags:04X}\t0\t0\t{metric}\t{}\t0\t0\t0\n",
                address(to),
                address(via),
                address(mask)
            )
        };
        let table = "Iface\tDestination\tGateway\tFlags\n".to_owned()
            + &line("wlan0", "0.0.0.0", "192.168.1.1", 3, 600, "0.0.0.0")
            + &line("eth0", "0.0.0.0", "10.0.0.1", 3, 100, "0.0.0.0")
            + &line("eth0", "10.0.0.0", "0.0.0.0", 1, 100, "255.255.255.0")
            + &line("*", "10.9.0.0", "0.0.0.0", 0x201, 100, "255.255.0.0");
        let way = |to: &str| route_v4(&table, to.parse().unwrap());
        let gateway: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(way("10.0.0.7"), Some(("eth0".to_owned(), None)));
        assert_eq!(way("192.0.2.1"), Some(("eth0".to_owned(), Some(gateway))));
        assert_eq!(way("10.9.1.1"), Some(("eth0".to_owned(), Some(gateway))));
        assert_eq!(route_v4("", Ipv4Addr::LOCALHOST), None);
        assert_eq!(route_v4("x\nnonsense 1 2\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn so_it_is_for_ipv6() {
        let table = "\
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0
20010db8000000000000000000000000 20 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo
";
        let way = |to: &str| route_v6(table, to.parse().unwrap());
        assert_eq!(way("fe80::7"), Some(("eth0".to_owned(), None)));
        let gateway: IpAddr = "fe80::1".parse().unwrap();
        assert_eq!(way("2001:db8::7"), Some(("eth1".to_owned(), Some(gateway))));
        assert_eq!(way("2001:db9::7"), None);
    }

    #[test]
    fn this_machine_reaches_itself_by_its_loopback_device() {
        let way = Way::to(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!((way.device.as_str(), way.gateway), ("lo", None));
    }

    #[test]
    fn unknown_speeds_are_unknown() {
        assert_eq!(speed_of("1000"), Some(1_000_000_000));
        for unknown in ["-1", "0", "", "fast"] {
            assert_eq!(speed_of(unknown), None);
        }
    }

    #[test]
    fn segments_are_found_by_name() {
        let snmp = "Ip: Forwarding OutRequests\nIp: 1 2\n\
                    Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 500 7 0\n";
        let read = segments(snmp).unwrap();
        assert_eq!(read, Segments { sent: 500, resent: 7 });
        let earlier = Segments { sent: 400, resent: 9 };
        assert_eq!(read.since(earlier), Segments { sent: 100, resent: 0 });
        assert_eq!(segments("Tcp: OutSegs\n"), None);
        assert!(Segments::read().is_some());
    }
}
