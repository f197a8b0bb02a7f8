//! Counts system calls.
//!
//! The kernel tells of every system call by the tracepoint `raw_syscalls:sys_enter`. That makes each call
//! of every process slower for as long as the event is open, so it is open only while a stack warms up:
//! how many calls a request needs does not depend on their speed.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use base::CpuSet;
use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, SampleFlag, Sampler as Ring};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use syscalls::Sysno;

/// Bytes of all rings together. A call takes 56, so this is for 300,000 calls; of more, the number is not
/// known.
const RINGS: usize = 16 << 20;
const RING_MIN: usize = 1 << 20;

/// Where the number of the call stands in a record of the tracepoint (`events/raw_syscalls/sys_enter/format`):
/// after the eight bytes that all tracepoints have.
const NUMBER_AT: usize = 8;

/// Counts the system calls of all processes on some CPUs as long as it exists.
pub(crate) struct SystemCallTracer {
    rings: Vec<Ring>,
}

impl SystemCallTracer {
    /// Begins to count.
    pub(crate) fn open(cpus: &CpuSet) -> io::Result<SystemCallTracer> {
        let id = tracepoint("raw_syscalls/sys_enter")?;
        let share = (RINGS / cpus.0.len().max(1)).max(RING_MIN);
        let ring = |cpu: usize| {
            Builder::new(Tracepoint::with_id(id))
                .any_pid()
                .one_cpu(cpu)
                .include_kernel()
                .sample_period(1)
                .sample(SampleFlag::TID)
                .sample(SampleFlag::RAW)
                .enabled(true)
                .build()?
                .sampled(share.next_power_of_two())
        };
        Ok(SystemCallTracer { rings: cpus.iter().map(ring).collect::<io::Result<_>>()? })
    }

    /// The calls so far of the processes that are asked for, by name; `None` if some were lost.
    pub(crate) fn count(
        &mut self,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<BTreeMap<String, u64>> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for ring in &mut self.rings {
            // More may come while these are read.
            ring.disable().ok()?;
            while let Some(record) = ring.next_record() {
                match record.parse_record().ok()? {
                    Record::Sample(sample) if sample.pid().is_some_and(&is_wanted) => {
                        let raw = sample.raw()?.get(NUMBER_AT..NUMBER_AT + 8)?;
                        let number = u64::from_ne_bytes(raw.try_into().ok()?);
                        *counts.entry(number).or_default() += 1;
                    }
                    Record::Lost(_) | Record::LostSamples(_) => return None,
                    _ => {}
                }
            }
        }
        Some(counts.into_iter().map(|(number, count)| (name(number), count)).collect())
    }
}

fn name(number: u64) -> String {
    match Sysno::new(number as usize) {
        Some(call) => call.name().to_owned(),
        None => format!("system call {number}"),
    }
}

/// The number of a tracepoint.
fn tracepoint(name: &str) -> io::Result<u64> {
    let path = format!("events/{name}/id");
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let read = |folder: &&str| std::fs::read_to_string(format!("{folder}/{path}")).ok();
    let text = match mounted.iter().find_map(read) {
        Some(text) => text,
        None => unmounted(&path)?,
    };
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// A file of the tracing file system where that is not mounted: it is mounted nowhere, so only this
/// process sees it, and only as long as it looks.
fn unmounted(path: &str) -> io::Result<String> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let root = rustix::mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_RDONLY,
    )?;
    let file = rustix::fs::openat(&root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    std::fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_of_the_manual() {
        assert_eq!(name(Sysno::read as u64), "read");
        assert_eq!(name(1 << 20), "system call 1048576");
    }
}
