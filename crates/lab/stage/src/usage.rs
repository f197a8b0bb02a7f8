//! What a stack has used.

use std::fmt;

use base::Nanos;
use host::Process;
use serde::{Deserialize, Serialize};

use crate::cgroup::{Cgroup, Version};
use crate::error::StageError;
use crate::processes;

/// How CPU time is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accounting {
    /// By control group if the machine permits one, version 2 before version 1, else by process tree.
    #[default]
    Automatic,
    /// By control group, version 2, if possible.
    CgroupV2,
    /// By control group, version 1, if possible.
    CgroupV1,
    /// By process tree.
    ProcessTree,
}

/// How CPU time was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageSource {
    /// `cpuacct.usage`, in nanoseconds.
    CgroupV1,
    /// `cpu.stat`, in microseconds.
    CgroupV2,
    /// `/proc/PID/stat`, in ticks of 10 ms per process, of the living and of
    /// those whom a parent has waited for. What ends without being waited for is missing.
    ProcessTree,
}

impl fmt::Display for UsageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            UsageSource::CgroupV1 => "cgroup v1",
            UsageSource::CgroupV2 => "cgroup v2",
            UsageSource::ProcessTree => "process tree",
        })
    }
}

/// What a stack has used since it was started; the guard is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all its processes, user and system; never falls.
    pub cpu: Nanos,
    /// Anonymous and shared memory of all its processes, shared pages counted
    /// once (proportional set size), in bytes. The page cache is left out: who
    /// pays for a file's pages depends on who read it first. The same on every
    /// machine, whatever counts the CPU time.
    pub memory_bytes: u64,
    /// The highest `memory_bytes` of all readings so far.
    pub peak_memory_bytes: u64,
    /// How `cpu` was counted.
    pub source: UsageSource,
}

/// The highest readings so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    cpu: Nanos,
    peak_memory_bytes: u64,
}

impl Meter {
    /// Reads what `living`, the stack's processes below `guard`, have used.
    pub(crate) fn read(
        &mut self,
        guard: i32,
        group: Option<&Cgroup>,
        living: &[Process],
    ) -> Result<Usage, StageError> {
        let (cpu, source) = match group {
            Some(group) => {
                let cpu = group.cpu().map_err(StageError::file("cannot read", &group.dir))?;
                let source = match group.version {
                    Version::V1 => UsageSource::CgroupV1,
                    Version::V2 => UsageSource::CgroupV2,
                };
                (cpu, source)
            }
            None => (tree_cpu(guard, living), UsageSource::ProcessTree),
        };
        let memory_bytes =
            living.iter().filter_map(|process| processes::memory_bytes(process.pid)).sum();
        self.cpu = self.cpu.max(cpu);
        self.peak_memory_bytes = self.peak_memory_bytes.max(memory_bytes);
        Ok(Usage { cpu: self.cpu, memory_bytes, peak_memory_bytes: self.peak_memory_bytes, source })
    }
}

/// The living, whom they have waited for, and whom the guard has waited for.
fn tree_cpu(guard: i32, living: &[Process]) -> Nanos {
    let reaped = Process::find(guard).map(|guard| guard.children_cpu).unwrap_or_default();
    living.iter().fold(reaped, |sum, process| sum + process.cpu + process.children_cpu)
}
