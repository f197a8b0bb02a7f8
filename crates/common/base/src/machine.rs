//! The machine that a measurement ran on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Nanos;

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
    /// What it costs to wake a thread; `None` with a single CPU, and in earlier records.
    #[serde(default)]
    pub wake: Option<WakeCost>,
    /// Further facts by name, such as server versions.
    pub facts: BTreeMap<String, String>,
}

/// Time from writing a byte to a pipe until the thread that sleeps in `read` receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeCost {
    /// Both threads on one CPU, in nanoseconds.
    #[serde(rename = "same_cpu_ns")]
    pub same_cpu: Nanos,
    /// On two CPUs, in nanoseconds.
    #[serde(rename = "other_cpu_ns")]
    pub other_cpu: Nanos,
}
