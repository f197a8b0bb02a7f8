//! Where the client and the stacks of a part ran, and the network between them.

use base::{CpuSet, Machine, Nanos};
use serde::{Deserialize, Serialize};

/// CPUs of client and stacks. An empty set means not pinned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// CPUs of the client's threads.
    pub client: CpuSet,
    /// CPUs of every stack.
    pub stack: CpuSet,
    /// Processes of the stacks that ran on the client's CPUs instead.
    #[serde(default)]
    pub beside_client: Vec<String>,
    /// Whether every stack and its clients were on different machines.
    #[serde(default)]
    pub apart: bool,
    /// The machines, this one first; empty if this one was the only one.
    #[serde(default)]
    pub machines: Vec<PartMachine>,
    /// The longest time between the beginnings of several clients in a measured slice, as far as
    /// the clock offsets tell; `None` with one client.
    #[serde(default, rename = "clients_apart_ns")]
    pub clients_apart: Option<Nanos>,
    /// The network from each client to each machine of stacks; empty where there is none between
    /// them.
    #[serde(default)]
    pub links: Vec<Link>,
}

impl Layout {
    /// Whether the client and a process of a stack may run on the same CPU.
    pub fn is_shared(&self) -> bool {
        !self.apart && self.has_shared_cpus()
    }

    fn has_shared_cpus(&self) -> bool {
        self.client.is_empty() || self.client == self.stack || !self.beside_client.is_empty()
    }
}

/// The network between a client and a machine of stacks, as measured in the calibration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The client's machine; `None` is the one that tachograph was started on.
    pub client: Option<String>,
    /// The machine of the stacks; `None` is the one that tachograph was started on.
    pub server: Option<String>,
    /// The client's network device, if known.
    pub device: Option<String>,
    /// The router behind it; `None` if the server is on the same network, or if it is unknown.
    pub gateway: Option<String>,
    /// The device's speed in bits per second; `None` if its driver does not report it.
    pub speed_bits_per_s: Option<u64>,
    /// The shortest of some round trips, from SYN to SYN-ACK.
    #[serde(rename = "round_trip_min_ns")]
    pub round_trip_min: Nanos,
    /// The median of these round trips.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Nanos,
    /// Bytes per second that the null server sent to all clients together, over the connections of
    /// the load, when it sent without end.
    pub bytes_per_s: f64,
}

/// A machine of a part, and what ran on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartMachine {
    /// Its name as given to ssh; `None` for the machine that tachograph was started on.
    pub name: Option<String>,
    /// The machine.
    pub machine: Machine,
    /// Whether it loaded the stacks.
    pub is_client: bool,
    /// CPUs of its client; empty means not pinned.
    pub client_cpus: CpuSet,
    /// The variants whose stacks ran on it.
    pub stacks: Vec<String>,
    /// CPUs of these stacks; empty means not pinned.
    pub stack_cpus: CpuSet,
    /// The address at which the clients reached these stacks.
    pub address: Option<String>,
    /// Its clock, as measured before the last block; `None` for the machine that tachograph was
    /// started on.
    pub clock: Option<ClockOffset>,
    /// TCP segments that it sent during the blocks, of all programs, without those sent again.
    #[serde(default)]
    pub segments_sent: Option<u64>,
    /// TCP segments that it sent again.
    #[serde(default)]
    pub segments_resent: Option<u64>,
}

/// How far a machine's monotonic clock is ahead of that of the machine that tachograph was started
/// on. It is used to let the slices of several clients begin together, and for nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Its clock less ours, in nanoseconds.
    pub offset_ns: i64,
    /// The largest error of the offset: half of the round trip.
    #[serde(rename = "error_ns")]
    pub error: Nanos,
}
