//! Resource usage of a stack.

use std::fmt;

use base::Nanos;
use host::Process;
use serde::{Deserialize, Serialize};

use crate::cgroup::{Cgroup, Version};
use crate::error::StageError;
use crate::processes;

/// How CPU time was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageSource {
    /// `cpuacct.usage`, in nanoseconds.
    CgroupV1,
    /// `cpu.stat`, in microseconds.
    CgroupV2,
    /// `/proc/PID/stat`, in ticks of 10 ms per process, of living processes and of those that were
    /// waited for. Processes that were never waited for are missing.
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

/// Resource usage of a stack since its start, without the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all its processes, user and system; never decreases.
    pub cpu: Nanos,
    /// Resident memory (RSS) of all its processes in bytes, as `ps` shows it: pages that several of
    /// them share count in each. Independent of how CPU time is counted.
    pub memory_bytes: u64,
    /// Maximum of `memory_bytes` over all readings, and at least the kernel's own peak (VmHWM) of any
    /// single process; so for one process it is exact.
    pub peak_memory_bytes: u64,
    /// How `cpu` was counted.
    pub source: UsageSource,
}

/// The maxima so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    cpu: Nanos,
    peak_memory_bytes: u64,
}

impl Meter {
    /// Reads the usage of `living`, the stack's processes below `guard`.
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
        let mut memory_bytes: u64 = 0;
        for resident in living.iter().filter_map(|process| processes::resident(process.pid)) {
            memory_bytes = memory_bytes.saturating_add(resident.bytes);
            self.peak_memory_bytes = self.peak_memory_bytes.max(resident.peak_bytes);
        }
        self.cpu = self.cpu.max(cpu);
        self.peak_memory_bytes = self.peak_memory_bytes.max(memory_bytes);
        Ok(Usage { cpu: self.cpu, memory_bytes, peak_memory_bytes: self.peak_memory_bytes, source })
    }
}

/// The living processes, those that they have waited for, and those that the guard has waited for.
fn tree_cpu(guard: i32, living: &[Process]) -> Nanos {
    let reaped = Process::find(guard).map(|guard| guard.children_cpu).unwrap_or_default();
    living.iter().fold(reaped, |sum, process| sum + process.cpu + process.children_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's peak of this process.
    fn own_peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn the_peak_of_one_process_was_a_fraction_of_what_the_kernel_says() {
        let me = Process::find(std::process::id() as i32).unwrap();
        // Gone before the reading, and still part of the peak.
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        let least = own_peak_kib() * 1024;
        let usage = Meter::default().read(me.pid, None, std::slice::from_ref(&me)).unwrap();
        let most = own_peak_kib() * 1024;
        assert!((least..=most).contains(&usage.peak_memory_bytes), "{least} {usage:?} {most}");
        assert!(usage.memory_bytes <= usage.peak_memory_bytes);
    }

    #[test]
    fn the_memory_of_several_processes_is_added_up() {
        let me = Process::find(std::process::id() as i32).unwrap();
        let mut meter = Meter::default();
        let one = meter.read(me.pid, None, std::slice::from_ref(&me)).unwrap();
        let two = meter.read(me.pid, None, &[me.clone(), me]).unwrap();
        assert!(two.memory_bytes > one.memory_bytes * 3 / 2, "{one:?} {two:?}");
        assert!(two.peak_memory_bytes >= two.memory_bytes);
    }
}
