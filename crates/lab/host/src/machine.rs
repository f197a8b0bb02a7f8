//! What kind of machine this is.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use base::Machine;

use crate::{online_cpus, read_if_any};

/// Reads facts about this machine; unknown ones stay empty, as do `facts`.
pub fn machine() -> Machine {
    let cpuinfo = read_if_any("/proc/cpuinfo").unwrap_or_default();
    Machine {
        cpu_model: cpu_model(&cpuinfo),
        cpus: online_cpus().map_or(1, |cpus| cpus.iter().count() as u32),
        memory_bytes: memory(&read_if_any("/proc/meminfo").unwrap_or_default()),
        kernel: read_if_any("/proc/sys/kernel/osrelease").unwrap_or_default(),
        os: os_name(&read_if_any("/etc/os-release").unwrap_or_default()),
        hypervisor: hypervisor(&cpuinfo),
        governor: governors().into_iter().next(),
        connection_tracking: connection_tracking(),
        cgroup: cgroup(&read_if_any("/proc/mounts").unwrap_or_default()),
        ..Machine::default()
    }
}

/// The CPU frequency governors in use, without duplicates, in CPU order; empty if the kernel does
/// not scale frequencies, as in most virtual machines.
pub fn governors() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for cpu in online_cpus().iter().flat_map(|cpus| cpus.iter()) {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        all.extend(read_if_any(&path).filter(|governor| !all.contains(governor)));
    }
    all
}

fn field<'t>(text: &'t str, name: &str, separator: char) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// x86 reports `model name`, ARM only implementer and part.
fn cpu_model(cpuinfo: &str) -> String {
    field(cpuinfo, "model name", ':')
        .or_else(|| field(cpuinfo, "Model", ':'))
        .map(str::to_owned)
        .or_else(|| Some(format!("CPU part {}", field(cpuinfo, "CPU part", ':')?)))
        .unwrap_or_else(|| "unknown CPU".to_owned())
}

fn memory(meminfo: &str) -> u64 {
    field(meminfo, "MemTotal", ':')
        .and_then(|value| value.trim_end_matches("kB").trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

fn os_name(os_release: &str) -> String {
    field(os_release, "PRETTY_NAME", '=')
        .map_or_else(|| "unknown system".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The machine's product name if the CPU has the hypervisor flag.
fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags", ':')?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| {
        read_if_any("/sys/class/dmi/id/sys_vendor")
            .filter(|vendor| !vendor.is_empty())
            .unwrap_or_else(|| "unnamed".to_owned())
    })
}

/// Whether the kernel tracks loopback connections: makes some and reads the table's counter.
///
/// The table's existence proves nothing: it exists as soon as the module is loaded, but fills only
/// if a rule needs it.
fn connection_tracking() -> Option<bool> {
    let table = Path::new("/proc/sys/net/netfilter/nf_conntrack_count");
    if !table.exists() {
        return Some(false);
    }
    let count = || read_if_any(table)?.parse::<u64>().ok();
    let before = count()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = listener.local_addr().ok()?;
    // Several, so that entries that expire at the same moment cannot hide them.
    let connections: Vec<TcpStream> =
        (0..16).filter_map(|_| TcpStream::connect(address).ok()).collect();
    Some(count()? >= before + connections.len() as u64 / 2)
}

fn cgroup(mounts: &str) -> u32 {
    let kinds: Vec<&str> =
        mounts.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    if kinds.contains(&"cgroup") {
        1
    } else if kinds.contains(&"cgroup2") {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_described() {
        let x86 = "processor\t: 0\nmodel name\t: Some(R) CPU\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(cpu_model(x86), "Some(R) CPU");
        assert!(hypervisor(x86).is_some());
        let arm = "processor\t: 0\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm), "CPU part 0xd0c");
        assert_eq!(hypervisor(arm), None);
        assert_eq!(memory("MemTotal:       1024 kB\n"), 1_048_576);
        assert_eq!(os_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(os_name(""), "unknown system");
    }

    #[test]
    fn a_hybrid_of_both_control_groups_counts_as_the_first() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup(hybrid), 1);
        assert_eq!(cgroup("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), 2);
        assert_eq!(cgroup("proc /proc proc rw 0 0\n"), 0);
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let facts = machine();
        assert!(facts.cpus >= 1 && facts.memory_bytes > 0 && !facts.kernel.is_empty());
    }
}
