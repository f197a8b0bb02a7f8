//! The machine that a measurement ran on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts about the machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu_model: String,
    /// CPUs available to this process.
    pub cpus: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// Hypervisor, if one is detected.
    pub hypervisor: Option<String>,
    /// CPU frequency governor, if there is one.
    pub governor: Option<String>,
    /// Whether loopback traffic passes through connection tracking; `None` if unknown.
    pub connection_tracking: Option<bool>,
    /// Cgroup version that we may use: 1, 2, or 0 for none.
    pub cgroup: u32,
    /// Further facts by name, such as server versions.
    pub facts: BTreeMap<String, String>,
}
