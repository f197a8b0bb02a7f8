//! How busy the machine is, and what happened between two looks at it.

use std::fs;

use base::{Clock, MonotonicClock, Nanos};

use crate::parse::{self, CpuTimes, TcpCounters};

/// The machine cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file of the kernel could not be read.
    #[error("cannot read {path}, without which nothing can be said of the machine: {source}")]
    Unreadable {
        /// The file.
        path: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A file of the kernel was not understood.
    #[error("{path} does not name a single CPU; is /proc mounted?")]
    Empty {
        /// The file.
        path: &'static str,
    },
}

/// The table of tracked connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conntrack {
    /// Entries in it.
    pub count: u64,
    /// Entries that fit.
    pub max: u64,
}

impl Conntrack {
    /// How full the table is, 0 to 1.
    pub fn full(&self) -> f64 {
        if self.max == 0 { 0.0 } else { self.count as f64 / self.max as f64 }
    }
}

/// One look at the machine's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When, on the monotonic clock.
    pub taken: Nanos,
    /// Every CPU that is online.
    pub cpus: Vec<CpuTimes>,
    /// TCP's events since the machine (or the network namespace) started.
    pub tcp: TcpCounters,
    /// Sockets in TIME_WAIT.
    pub time_wait: u64,
    /// The connection-tracking table, where the kernel has one.
    pub conntrack: Option<Conntrack>,
    /// The first and last port for outgoing connections.
    pub ports: Option<(u16, u16)>,
}

/// What happened between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The time between them.
    pub elapsed: Nanos,
    /// Every CPU that was there both times.
    pub cpus: Vec<CpuChange>,
    /// TCP's events in between.
    pub tcp: TcpCounters,
    /// Sockets in TIME_WAIT at the end, less those at the beginning.
    pub time_wait: i64,
    /// The connection-tracking table at the end.
    pub conntrack: Option<Conntrack>,
    /// Entries at the end of that table, less those at the beginning.
    pub conntrack_added: i64,
}

/// What one CPU did between two looks, to within 10 ms each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuChange {
    /// The CPU's number.
    pub cpu: usize,
    /// Time in programs.
    pub user: Nanos,
    /// Time in the kernel, interrupts included.
    pub system: Nanos,
    /// Time idle.
    pub idle: Nanos,
    /// Time that the hypervisor took.
    pub steal: Nanos,
}

impl CpuChange {
    /// Time in which the CPU worked for this machine.
    pub fn busy(&self) -> Nanos {
        self.user + self.system
    }

    /// The share of the CPU's time that was stolen, 0 to 1; 0 if no tick went by.
    pub fn steal_share(&self) -> f64 {
        share(self.steal, self.busy() + self.idle + self.steal)
    }
}

impl Snapshot {
    /// Looks at the machine now.
    ///
    /// # Errors
    /// /proc/stat cannot be read. What else is missing is left empty.
    pub fn take() -> Result<Snapshot, HostError> {
        let path = "/proc/stat";
        let stat =
            fs::read_to_string(path).map_err(|source| HostError::Unreadable { path, source })?;
        let cpus = parse::cpu_times(&stat);
        if cpus.is_empty() {
            return Err(HostError::Empty { path });
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let number = |path: &str| parse::number(&read(path));
        let conntrack = number("/proc/sys/net/netfilter/nf_conntrack_count")
            .zip(number("/proc/sys/net/netfilter/nf_conntrack_max"));
        Ok(Snapshot {
            taken: MonotonicClock.now(),
            cpus,
            tcp: parse::tcp_counters(&read("/proc/net/netstat")),
            time_wait: parse::time_wait_sockets(&read("/proc/net/sockstat")).unwrap_or(0),
            conntrack: conntrack.map(|(count, max)| Conntrack { count, max }),
            ports: parse::port_range(&read("/proc/sys/net/ipv4/ip_local_port_range")),
        })
    }

    /// What happened since an earlier look. Counters that went back (a CPU
    /// taken offline, time accounting that was corrected) count as unchanged.
    pub fn since(&self, earlier: &Snapshot) -> Change {
        let cpus = self.cpus.iter().filter_map(|now| {
            let before = earlier.cpus.iter().find(|before| before.cpu == now.cpu)?;
            Some(CpuChange {
                cpu: now.cpu,
                user: now.user.saturating_sub(before.user),
                system: now.system.saturating_sub(before.system),
                idle: now.idle.saturating_sub(before.idle),
                steal: now.steal.saturating_sub(before.steal),
            })
        });
        let (now, before) = (&self.tcp, &earlier.tcp);
        let rise = |now: u64, before: u64| now.saturating_sub(before);
        let tracked = |snapshot: &Snapshot| snapshot.conntrack.map_or(0, |table| table.count);
        Change {
            elapsed: self.taken.saturating_sub(earlier.taken),
            cpus: cpus.collect(),
            tcp: TcpCounters {
                listen_overflows: rise(now.listen_overflows, before.listen_overflows),
                listen_drops: rise(now.listen_drops, before.listen_drops),
                timeouts: rise(now.timeouts, before.timeouts),
                syn_retransmits: rise(now.syn_retransmits, before.syn_retransmits),
                time_wait_overflows: rise(now.time_wait_overflows, before.time_wait_overflows),
            },
            time_wait: difference(self.time_wait, earlier.time_wait),
            conntrack: self.conntrack,
            conntrack_added: difference(tracked(self), tracked(earlier)),
        }
    }
}

impl Change {
    /// Time in which any CPU worked for this machine, summed over CPUs.
    pub fn busy(&self) -> Nanos {
        self.cpus.iter().fold(Nanos::ZERO, |sum, cpu| sum + cpu.busy())
    }

    /// The share of all CPUs' time that was stolen, 0 to 1.
    pub fn steal_share(&self) -> f64 {
        let sum = |time: fn(&CpuChange) -> Nanos| {
            self.cpus.iter().map(time).fold(Nanos::ZERO, |sum, time| sum + time)
        };
        let steal = sum(|cpu| cpu.steal);
        share(steal, sum(CpuChange::busy) + sum(|cpu| cpu.idle) + steal)
    }
}

fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole == Nanos::ZERO { 0.0 } else { part.0 as f64 / whole.0 as f64 }
}

fn difference(now: u64, before: u64) -> i64 {
    let clamp = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    clamp(now) - clamp(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(taken: u64, cpus: Vec<CpuTimes>, overflows: u64, count: u64) -> Snapshot {
        Snapshot {
            taken: Nanos(taken),
            cpus,
            tcp: TcpCounters { listen_overflows: overflows, ..TcpCounters::default() },
            time_wait: 10 * count,
            conntrack: Some(Conntrack { count, max: 100 }),
            ports: None,
        }
    }

    fn cpu(cpu: usize, user: u64, idle: u64, steal: u64) -> CpuTimes {
        let [user, idle, steal] = [user, idle, steal].map(Nanos);
        CpuTimes { cpu, user, system: Nanos(1), idle, steal }
    }

    #[test]
    fn a_change_is_the_difference_of_two_looks() {
        let before = snapshot(100, vec![cpu(0, 10, 10, 0), cpu(1, 0, 0, 0)], 5, 60);
        let after = snapshot(200, vec![cpu(0, 40, 60, 20), cpu(2, 9, 9, 9)], 7, 50);
        let change = after.since(&before);
        assert_eq!(change.elapsed, Nanos(100));
        assert_eq!(change.cpus.len(), 1, "only CPUs that were there both times");
        assert_eq!(change.busy(), Nanos(30));
        assert_eq!(change.steal_share(), 0.2);
        assert_eq!(change.cpus[0].steal_share(), 0.2);
        assert_eq!(change.tcp.listen_overflows, 2);
        assert_eq!((change.time_wait, change.conntrack_added), (-100, -10));
        assert_eq!(change.conntrack.map(|table| table.full()), Some(0.5));
    }

    #[test]
    fn counters_that_went_back_count_as_unchanged() {
        let before = snapshot(0, vec![cpu(0, 40, 60, 20)], 7, 0);
        let change = snapshot(0, vec![cpu(0, 10, 10, 0)], 5, 0).since(&before);
        assert_eq!((change.busy(), change.steal_share()), (Nanos::ZERO, 0.0));
        assert_eq!(change.tcp, TcpCounters::default());
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let first = Snapshot::take().expect("a first look");
        let second = Snapshot::take().expect("a second look");
        let change = second.since(&first);
        assert_eq!(change.cpus.len(), first.cpus.len());
        assert!(second.taken >= first.taken);
        assert!((0.0..=1.0).contains(&change.steal_share()));
    }

    #[test]
    fn errors_name_the_file() {
        let error = HostError::Unreadable {
            path: "/proc/stat",
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        };
        assert_eq!(
            error.to_string(),
            "cannot read /proc/stat, without which nothing can be said of the machine: entity not found"
        );
        assert_eq!(
            HostError::Empty { path: "/proc/stat" }.to_string(),
            "/proc/stat does not name a single CPU; is /proc mounted?"
        );
    }
}
