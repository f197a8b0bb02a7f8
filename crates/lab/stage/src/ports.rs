//! Free TCP ports, and the holders of used ones.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;

use base::Rng;
use host::{ListenAddress, Listeners};
use rand::Rng as _;

use crate::processes;

/// Random ports to try before giving up.
const DRAWS_MAX: usize = 2_000;

/// Draws a free port of 127.0.0.1 that is not in `taken`.
///
/// Ports are below the kernel's range for outgoing connections; otherwise the load's own
/// connections could occupy the port of a server that is about to start.
pub(crate) fn draw(rng: &mut Rng, taken: &BTreeSet<u16>) -> Option<u16> {
    let range = server_ports(
        &fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default(),
    );
    let width = u64::from(range.end() - range.start()) + 1;
    (0..DRAWS_MAX)
        .map(|_| range.start() + (rng.next_u64() % width) as u16)
        .find(|port| !taken.contains(port) && is_free(*port))
}

/// The widest range of unprivileged ports outside `ephemeral`, which is the kernel's `LOW HIGH`.
fn server_ports(ephemeral: &str) -> RangeInclusive<u16> {
    const LOWEST: u16 = 10_240;
    let mut bounds = ephemeral.split_ascii_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (low, high) = (bounds.next().unwrap_or(32_768), bounds.next().unwrap_or(60_999));
    let below = low.saturating_sub(LOWEST);
    let above = u16::MAX - high;
    if below.max(above) < 200 {
        return LOWEST..=u16::MAX;
    }
    if below >= above { LOWEST..=low - 1 } else { high + 1..=u16::MAX }
}

/// Whether nothing is listening on a port of the loopback addresses.
fn is_free(port: u16) -> bool {
    let v6_taken = TcpListener::bind((Ipv6Addr::LOCALHOST, port))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse);
    !v6_taken && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The process listening on a TCP port, as `nginx (pid 812)`; `None` if unknown.
pub(crate) fn holder(port: u16) -> Option<String> {
    let listeners = Listeners::read();
    let listens = |process: &host::Process| {
        listeners.of_process(process.pid).any(|address| *address == ListenAddress::Tcp(port))
    };
    let process = processes::all().into_iter().find(listens)?;
    Some(format!("{} (pid {})", process.name, process.pid))
}

/// The TCP ports on which any of these processes listens, in ascending order.
pub(crate) fn listened_on(pids: &[i32]) -> BTreeSet<u16> {
    let listeners = Listeners::read();
    let port = |address: &ListenAddress| match address {
        ListenAddress::Tcp(port) => Some(*port),
        _ => None,
    };
    pids.iter().flat_map(|pid| listeners.of_process(*pid)).filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;

    #[test]
    fn a_drawn_port_is_free_and_outside_of_the_kernels_own_range() {
        let mut rng = Seed(3).rng("ports");
        let first = draw(&mut rng, &BTreeSet::new()).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", first)).unwrap();
        let mut again = Seed(3).rng("ports");
        let second = draw(&mut again, &BTreeSet::new()).unwrap();
        assert_ne!(first, second, "the seed repeats the draw, but the port is taken now");
        let mut again = Seed(3).rng("ports");
        assert_ne!(draw(&mut again, &BTreeSet::from([second])), Some(second));
        assert!(listened_on(&[std::process::id() as i32]).contains(&first));
        assert!(holder(first).unwrap().ends_with(&format!("(pid {})", std::process::id())));
        drop(listener);
    }

    #[test]
    fn the_range_avoids_the_kernels_own() {
        for (ephemeral, range) in [
            ("32768\t60999", 10_240..=32_767),
            ("1024 40000", 40_001..=65_535),
            ("1024 65535", 10_240..=65_535),
            ("", 10_240..=32_767),
        ] {
            assert_eq!(server_ports(ephemeral), range, "{ephemeral}");
        }
    }
}
