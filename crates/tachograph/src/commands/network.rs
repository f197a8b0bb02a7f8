//! What a load does to the machine's network, and what that does to the load.

use drive::Observation;
use host::Snapshot;
use spec::{Endpoint, Load, Target};

/// Sockets more in TIME_WAIT than before that are worth a word.
const TIME_WAIT_MIN: u64 = 1000;

/// The network before the load; only what concerns it is said afterwards.
pub(super) struct Network {
    /// Whether the load goes over TCP.
    tcp: bool,
    /// Whether each request gets a connection of its own.
    new_connection: bool,
    before: Option<Snapshot>,
}

impl Network {
    /// Looks at the network before a load.
    pub(super) fn before(target: &Target, load: &Load) -> Network {
        Network {
            tcp: matches!(target.endpoint(), Endpoint::Tcp { .. }),
            new_connection: load.new_connection,
            before: Snapshot::take().ok(),
        }
    }

    /// What weakens the figures of the load that is over.
    pub(super) fn warnings(&self, tracking: Option<bool>, seen: &Observation) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.tcp {
            return warnings;
        }
        if tracking == Some(true) {
            warnings.push(TRACKED.to_owned());
        }
        if seen.source_changes > 0 {
            warnings.push(source_words(seen.source_changes));
        }
        if let (true, Some(before), Ok(after)) =
            (self.new_connection, &self.before, Snapshot::take())
        {
            let more = after.time_wait_sockets.saturating_sub(before.time_wait_sockets);
            warnings.extend(time_wait_words(more, host::ephemeral_ports()));
        }
        warnings
    }
}

const TRACKED: &str = "the kernel tracks the connections of this machine, as rules for NAT (Docker's, for instance) make it: that costs time on kept connections, and more on new ones, so do not compare with a machine that does not";

fn source_words(changes: u64) -> String {
    let times = if changes == 1 { "once".to_owned() } else { format!("{changes} times") };
    format!(
        "one source address ran out of ports {times}, so the connections came from several addresses in 127.0.0.0/27; --unix-socket or kept connections need no ports"
    )
}

/// TIME_WAIT pressure in words, where there is any.
fn time_wait_words(more: u64, ports: Option<(u16, u16)>) -> Option<String> {
    if more < TIME_WAIT_MIN {
        return None;
    }
    let of = ports.map_or_else(String::new, |(first, last)| {
        format!(" (a client has {} ports to one address)", u32::from(last) - u32::from(first) + 1)
    });
    Some(format!(
        "{more} sockets more than before wait in TIME_WAIT{of}, which slows new connections down for a minute; --linger-zero resets connections instead"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_said_with_what_to_do_about_it() {
        assert_eq!(time_wait_words(999, Some((32_768, 60_999))), None);
        assert_eq!(
            time_wait_words(20_000, Some((32_768, 60_999))).unwrap(),
            "20000 sockets more than before wait in TIME_WAIT (a client has 28232 ports to one address), which slows new connections down for a minute; --linger-zero resets connections instead"
        );
        assert!(
            time_wait_words(1000, None)
                .unwrap()
                .starts_with("1000 sockets more than before wait in TIME_WAIT, which")
        );
        assert_eq!(
            source_words(1),
            "one source address ran out of ports once, so the connections came from several addresses in 127.0.0.0/27; --unix-socket or kept connections need no ports"
        );
        assert!(source_words(2).contains("ran out of ports 2 times"));
    }

    #[test]
    fn a_unix_socket_has_no_ports_to_speak_of() {
        let target = Target::parse("http://unix:/tmp/s:/").unwrap();
        let network = Network::before(&target, &Load { new_connection: true, ..Load::default() });
        assert!(!network.tcp && network.new_connection);
    }
}
