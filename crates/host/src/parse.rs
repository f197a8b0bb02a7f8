//! The formats of /proc and /sys, from text to numbers. No I/O happens here.

use base::Nanos;

/// One tick of /proc/stat: the kernel's interface counts in hundredths of a
/// second on every architecture that Rust's Linux targets have (proc_stat(5)).
pub const TICK: Nanos = Nanos::from_millis(10);

/// Time that one CPU spent, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU's number.
    pub cpu: usize,
    /// Running programs, niced ones included.
    pub user: Nanos,
    /// In the kernel, interrupts included.
    pub system: Nanos,
    /// Idle, waiting for disks included.
    pub idle: Nanos,
    /// Wanted to run while the hypervisor ran something else.
    pub steal: Nanos,
}

impl CpuTimes {
    /// Time in which the CPU worked for this machine.
    pub fn busy(&self) -> Nanos {
        self.user + self.system
    }
}

/// Reads the lines `cpu0 …`, `cpu1 …` of /proc/stat.
pub fn cpu_times(stat: &str) -> Vec<CpuTimes> {
    stat.lines().filter_map(cpu_line).collect()
}

fn cpu_line(line: &str) -> Option<CpuTimes> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    // The line without a number is the sum of all.
    let cpu = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let time = |columns: &[usize]| {
        let sum = columns
            .iter()
            .filter_map(|column| ticks.get(*column))
            .fold(0, |a: u64, b| a.saturating_add(*b));
        Nanos(sum.saturating_mul(TICK.0))
    };
    // user nice system idle iowait irq softirq steal; time of guests is in user already.
    Some(CpuTimes {
        cpu,
        user: time(&[0, 1]),
        system: time(&[2, 5, 6]),
        idle: time(&[3, 4]),
        steal: time(&[7]),
    })
}

/// Counts of TCP events that a sound run does not raise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Connections that found the accept queue full.
    pub listen_overflows: u64,
    /// Connections dropped by a listening socket, overflows included.
    pub listen_drops: u64,
    /// Retransmission timers that fired.
    pub timeouts: u64,
    /// SYN and SYN-ACK sent again.
    pub syn_retransmits: u64,
    /// TIME_WAIT sockets that found their table full.
    pub time_wait_overflows: u64,
}

/// Reads /proc/net/netstat: pairs of lines, the names and then the values.
pub fn tcp_counters(netstat: &str) -> TcpCounters {
    let mut counters = TcpCounters::default();
    let lines: Vec<&str> = netstat.lines().collect();
    for pair in lines.windows(2) {
        let (Some(names), Some(values)) =
            (pair[0].strip_prefix("TcpExt: "), pair[1].strip_prefix("TcpExt: "))
        else {
            continue;
        };
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            let Ok(value) = value.parse() else { continue };
            match name {
                "ListenOverflows" => counters.listen_overflows = value,
                "ListenDrops" => counters.listen_drops = value,
                "TCPTimeouts" => counters.timeouts = value,
                "TCPSynRetrans" => counters.syn_retransmits = value,
                "TCPTimeWaitOverflow" => counters.time_wait_overflows = value,
                _ => {}
            }
        }
    }
    counters
}

/// Reads how many TCP sockets are in TIME_WAIT from /proc/net/sockstat.
pub fn time_wait_sockets(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
}

/// Reads a file that holds one number.
pub fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Reads /proc/sys/net/ipv4/ip_local_port_range: the first and the last port that outgoing connections get.
pub fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_ascii_whitespace();
    let range = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next().is_none() && range.0 <= range.1).then_some(range)
}

/// Reads the processor's model from /proc/cpuinfo: x86's `model name`, else what ARM, POWER or RISC-V call it.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            (name.trim() == key && !value.is_empty()).then_some(value)
        })
    };
    let arm = || match (value("CPU implementer"), value("CPU part")) {
        (Some(implementer), Some(part)) => {
            Some(format!("ARM implementer {implementer} part {part}"))
        }
        _ => None,
    };
    ["model name", "Model", "Hardware", "cpu", "uarch"].into_iter().find_map(value).or_else(arm)
}

/// Whether /proc/cpuinfo has the flag by which a hypervisor shows itself to x86 guests.
pub fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    cpuinfo.lines().filter_map(|line| line.split_once(':')).any(|(key, value)| {
        key.trim() == "flags" && value.split_ascii_whitespace().any(|flag| flag == "hypervisor")
    })
}

/// Names the hypervisor by /sys/hypervisor/type and the vendor and product that the firmware gives.
pub fn hypervisor(kind: &str, vendor: &str, product: &str, flag: bool) -> Option<String> {
    const KNOWN: [(&str, &str); 10] = [
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("innotek", "VirtualBox"),
        ("Xen", "Xen"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google", "Google Compute Engine"),
        ("Virtual Machine", "Hyper-V"),
        ("Parallels", "Parallels"),
    ];
    let kind = kind.trim();
    if !kind.is_empty() && kind != "none" {
        return Some(kind.to_owned());
    }
    let firmware = format!("{} {}", vendor.trim(), product.trim());
    let known = KNOWN.iter().find(|(sign, _)| firmware.contains(sign)).map(|(_, name)| *name);
    known.or(flag.then_some("unnamed")).map(str::to_owned)
}

/// Reads the machine's memory in bytes from /proc/meminfo.
pub fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Reads the distribution's name from os-release.
pub fn os_name(os_release: &str) -> Option<String> {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = line.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Where this process stands in the hierarchies of cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupPaths {
    /// The path in the one hierarchy of version 2.
    pub unified: Option<String>,
    /// The path in version 1's hierarchy of CPU accounting.
    pub cpuacct: Option<String>,
}

/// Reads /proc/self/cgroup.
pub fn cgroup_paths(cgroup: &str) -> CgroupPaths {
    let mut paths = CgroupPaths::default();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if number == "0" && controllers.is_empty() {
            paths.unified = Some(path.to_owned());
        } else if controllers.split(',').any(|controller| controller == "cpuacct") {
            paths.cpuacct = Some(path.to_owned());
        }
    }
    paths
}

#[cfg(test)]
mod tests;
