//! What kind of machine something was measured on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu_model: String,
    /// CPUs that we may use.
    pub cpus: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// Hypervisor, if one shows itself.
    pub hypervisor: Option<String>,
    /// CPU frequency governor, if there is one.
    pub governor: Option<String>,
    /// Whether connection tracking is on the path of loopback traffic; `None` if that can't be seen.
    pub connection_tracking: Option<bool>,
    /// Cgroup version in use: 1, 2, or 0 for none that we may use.
    pub cgroup: u32,
    /// Further facts, by name: versions of servers and so on.
    pub facts: BTreeMap<String, String>,
}
