//! The ephemeral ports of this machine, which limit its connections to one address.

use crate::read_if_any;

/// First and last TCP port for outgoing connections; `None` if unknown.
///
/// A client that makes a connection per request can have one per port (open or in TIME_WAIT) to
/// each address and port of a server.
pub fn ephemeral_ports() -> Option<(u16, u16)> {
    parse(&read_if_any("/proc/sys/net/ipv4/ip_local_port_range")?)
}

fn parse(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_ascii_whitespace();
    let (first, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next().is_none() && first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_ports_in_order() {
        assert_eq!(parse("32768\t60999"), Some((32_768, 60_999)));
        for text in ["", "1", "9 1", "1 2 3", "1 70000", "a b"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
