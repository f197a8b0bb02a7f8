//! What this machine is, for the record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use base::CpuSet;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::parse;

/// What this machine is; texts are empty where the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Processor model.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// Hypervisor, if one shows itself.
    pub hypervisor: Option<String>,
    /// CPU frequency governor, if there is one; several are joined by commas.
    pub governor: Option<String>,
    /// Whether connection tracking is on the path of loopback traffic; `None` if that can't be seen.
    pub connection_tracking: Option<bool>,
    /// Cgroup version in use: 1, 2, or 0 for none that we may use.
    pub cgroup: u32,
    /// Further facts, by name: limits of the kernel that bear on connections.
    pub facts: BTreeMap<String, String>,
}

/// Describes this machine. Makes a few TCP connections to itself over loopback,
/// to see whether they are tracked.
pub fn machine() -> MachineFacts {
    let cpuinfo = read("/proc/cpuinfo");
    let os_release = parse::os_name(&read("/etc/os-release"))
        .or_else(|| parse::os_name(&read("/usr/lib/os-release")));
    let hypervisor = parse::hypervisor(
        &read("/sys/hypervisor/type"),
        &read("/sys/class/dmi/id/sys_vendor"),
        &read("/sys/class/dmi/id/product_name"),
        parse::has_hypervisor_flag(&cpuinfo),
    );
    let cpus = online_cpus();
    MachineFacts {
        cpu_model: parse::cpu_model(&cpuinfo).unwrap_or_default(),
        cpus: cpus.iter().count() as u32,
        memory_bytes: parse::memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        os: os_release.unwrap_or_default(),
        hypervisor,
        governor: governor(&cpus),
        connection_tracking: connection_tracking(),
        cgroup: cgroup_version(),
        facts: facts(),
    }
}

/// The CPUs that are online.
pub fn online_cpus() -> CpuSet {
    let listed: CpuSet = read("/sys/devices/system/cpu/online").parse().unwrap_or_default();
    if !listed.is_empty() {
        return listed;
    }
    parse::cpu_times(&read("/proc/stat")).iter().map(|times| times.cpu).collect()
}

/// The CPUs that are online and on which this process may run (cpusets, `taskset`).
pub fn usable_cpus() -> CpuSet {
    let online = online_cpus();
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return online };
    let may_run = |cpu: &usize| *cpu < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(*cpu);
    online.iter().filter(may_run).collect()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn governor(cpus: &CpuSet) -> Option<String> {
    let of = |cpu| read(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let governors: BTreeSet<String> = cpus
        .iter()
        .map(|cpu| of(cpu).trim().to_owned())
        .filter(|governor| !governor.is_empty())
        .collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(","))
}

/// 2 or 1 if groups can be made below ours in that version's hierarchy, else 0.
fn cgroup_version() -> u32 {
    let paths = parse::cgroup_paths(&read("/proc/self/cgroup"));
    let root = Path::new("/sys/fs/cgroup");
    let writable = |root: &Path, path: &str| {
        access(root.join(path.trim_start_matches('/')), Access::WRITE_OK).is_ok()
    };
    let unified = root.join("cgroup.controllers").exists();
    match (paths.unified, paths.cpuacct) {
        (Some(path), _) if unified && writable(root, &path) => 2,
        (_, Some(path)) if writable(&root.join("cpuacct"), &path) => 1,
        _ => 0,
    }
}

/// How many connections the kernel is shown, and must have tracked, for a yes.
const TRACKED_CONNECTIONS: u64 = 16;

/// Whether connections over loopback are entered into the tracking table.
///
/// Without the table there is no tracking. With it, rules may or may not send
/// loopback through it, so a few connections are made and the table is counted
/// before and after.
fn connection_tracking() -> Option<bool> {
    let path = "/proc/sys/net/netfilter/nf_conntrack_count";
    if !Path::new(path).exists() {
        // Without /proc/sys/net nothing can be said at all.
        return Path::new("/proc/sys/net/ipv4").exists().then_some(false);
    }
    let before = parse::number(&read(path))?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).ok()?;
    let address = listener.local_addr().ok()?;
    let mut open = Vec::new();
    for _ in 0..TRACKED_CONNECTIONS {
        open.push(TcpStream::connect(address).ok()?);
        open.push(listener.accept().ok()?.0);
    }
    let after = parse::number(&read(path))?;
    Some(after.saturating_sub(before) >= TRACKED_CONNECTIONS)
}

fn facts() -> BTreeMap<String, String> {
    let files = [
        ("net.core.somaxconn", "/proc/sys/net/core/somaxconn"),
        ("net.ipv4.ip_local_port_range", "/proc/sys/net/ipv4/ip_local_port_range"),
        ("net.ipv4.tcp_tw_reuse", "/proc/sys/net/ipv4/tcp_tw_reuse"),
        ("net.netfilter.nf_conntrack_max", "/proc/sys/net/netfilter/nf_conntrack_max"),
    ];
    let fact = |(name, path): (&str, &str)| {
        let value = read(path).split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        (!value.is_empty()).then(|| (name.to_owned(), value))
    };
    files.into_iter().filter_map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let facts = machine();
        assert!(facts.cpus >= 1);
        assert!(facts.memory_bytes > 1 << 20);
        assert!(!facts.kernel.is_empty());
        assert!(facts.cgroup <= 2);
    }

    #[test]
    fn usable_cpus_are_online() {
        let online = online_cpus();
        assert!(!online.is_empty());
        let usable = usable_cpus();
        assert!(!usable.is_empty());
        assert!(usable.iter().all(|cpu| online.0.contains(&cpu)));
    }
}
