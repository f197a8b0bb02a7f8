//! Which machine and which network this process is in: two processes may be on one machine although
//! they were started under different names.

use serde::{Deserialize, Serialize};

use crate::read_if_any;

/// A machine and a network of it. Equal parts of two identities are the same thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The boot of the machine (`/proc/sys/kernel/random/boot_id`): its CPUs and memory.
    pub boot: String,
    /// The network namespace (`/proc/self/ns/net`): its addresses and its counters.
    pub network: String,
}

impl Identity {
    /// That of this process; empty parts are unknown.
    pub fn own() -> Identity {
        let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
        Identity {
            boot: read_if_any("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            network: network.to_string_lossy().into_owned(),
        }
    }

    /// Whether both are on one machine.
    pub fn is_same_machine(&self, other: &Identity) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    /// Whether both are in one network of one machine, and have the same loopback addresses.
    pub fn is_same_network(&self, other: &Identity) -> bool {
        self.is_same_machine(other) && !self.network.is_empty() && self.network == other.network
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_the_same() {
        let own = Identity::own();
        assert!(own.is_same_network(&Identity::own()), "{own:?}");
        let unknown = Identity::default();
        assert!(!unknown.is_same_machine(&unknown) && !own.is_same_machine(&unknown));
        let elsewhere = Identity { network: "net:[1]".to_owned(), ..own.clone() };
        assert!(own.is_same_machine(&elsewhere) && !own.is_same_network(&elsewhere));
    }
}
