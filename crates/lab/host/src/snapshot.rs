//! Counters of the whole machine, and their differences.

use base::{Nanos, monotonic_now};
use serde::{Deserialize, Serialize};

use crate::{HostError, Segments, read, read_if_any};

/// Counters of TcpExt in /proc/net/netstat that rise when connections are refused or stall.
const TROUBLE: [&str; 5] =
    ["ListenOverflows", "ListenDrops", "TCPTimeouts", "TCPSynRetrans", "TCPTimeWaitOverflow"];

/// The machine's counters at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The instant, on the monotonic clock.
    pub at: Nanos,
    /// Busy time of all CPUs since boot: everything except idle, iowait and steal.
    pub busy: Nanos,
    /// Time that the hypervisor gave to others although a CPU here was runnable.
    pub steal: Nanos,
    /// Total time of all CPUs since boot.
    pub total: Nanos,
    /// The counters named in [`SnapshotChange::tcp_trouble`]; `None` if the kernel does not report them.
    pub tcp: [Option<u64>; 5],
    /// TCP sockets in TIME_WAIT, if known.
    pub time_wait_sockets: Option<u64>,
    /// Entries in the connection-tracking table and its size, if known.
    pub conntrack: Option<(u64, u64)>,
    /// TCP segments sent and sent again, if known.
    pub segments: Option<Segments>,
}

impl Snapshot {
    /// Reads the counters. Takes well below a millisecond.
    ///
    /// # Errors
    /// If /proc is missing or does not report CPU times.
    pub fn take() -> Result<Snapshot, HostError> {
        let ticks_per_s = rustix::param::clock_ticks_per_second();
        let cpu = cpu_times(&read("/proc/stat")?, ticks_per_s).ok_or_else(|| HostError {
            path: "/proc/stat".into(),
            why: "it has no CPU times".to_owned(),
        })?;
        let number = |path| read_if_any(path)?.parse().ok();
        Ok(Snapshot {
            at: monotonic_now(),
            busy: cpu.busy,
            steal: cpu.steal,
            total: cpu.total,
            tcp: tcp_trouble(&read_if_any("/proc/net/netstat").unwrap_or_default()),
            time_wait_sockets: read_if_any("/proc/net/sockstat").and_then(|text| time_wait(&text)),
            conntrack: number("/proc/sys/net/netfilter/nf_conntrack_count")
                .zip(number("/proc/sys/net/netfilter/nf_conntrack_max")),
            segments: Segments::read(),
        })
    }

    /// Whether the connection-tracking table is at least a third full, so that it may fill within a
    /// block.
    pub fn is_crowded(&self) -> bool {
        self.conntrack.is_some_and(|(count, size)| count > size / 3)
    }

    /// The change since an earlier snapshot.
    pub fn since(&self, earlier: &Snapshot) -> SnapshotChange {
        let total = self.total.saturating_sub(earlier.total);
        let steal = self.steal.saturating_sub(earlier.steal);
        let mut tcp = [None; 5];
        for (i, rise) in tcp.iter_mut().enumerate() {
            *rise = self.tcp[i].zip(earlier.tcp[i]).map(|(now, before)| now.saturating_sub(before));
        }
        SnapshotChange {
            elapsed: self.at.saturating_sub(earlier.at),
            busy: self.busy.saturating_sub(earlier.busy),
            steal: if total.0 == 0 { 0.0 } else { steal.0 as f64 / total.0 as f64 },
            tcp,
            conntrack_share: self
                .conntrack
                .filter(|(_, size)| *size > 0)
                .map(|(count, size)| count as f64 / size as f64),
        }
    }
}

/// The change between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotChange {
    /// Wall time between them.
    pub elapsed: Nanos,
    /// Busy time of all CPUs.
    pub busy: Nanos,
    /// Share of all CPU time that was stolen, 0 to 1.
    pub steal: f64,
    /// Share of the connection-tracking table in use at the end, 0 to 1.
    pub conntrack_share: Option<f64>,
    tcp: [Option<u64>; 5],
}

impl SnapshotChange {
    /// Adds the change of another machine over the same time: counters are added, and shares are
    /// those of the machine with the larger one.
    pub fn merge(&mut self, other: &SnapshotChange) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.busy += other.busy;
        self.steal = self.steal.max(other.steal);
        for (sum, rise) in self.tcp.iter_mut().zip(other.tcp) {
            *sum = match (*sum, rise) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
        let most = |a: f64, b: f64| a.max(b);
        self.conntrack_share = match (self.conntrack_share, other.conntrack_share) {
            (Some(a), Some(b)) => Some(most(a, b)),
            (a, b) => a.or(b),
        };
    }

    /// The increase of each counter of connection trouble, with its name in TcpExt; `None` if the
    /// kernel does not report it.
    pub fn tcp_trouble(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        TROUBLE.into_iter().zip(self.tcp)
    }
}

#[derive(Debug, Default, PartialEq)]
struct CpuTimes {
    busy: Nanos,
    steal: Nanos,
    total: Nanos,
}

/// The first line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal guest
/// guest_nice. Guest time is already included in user time.
fn cpu_times(stat: &str, ticks_per_s: u64) -> Option<CpuTimes> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let nanos = |ticks: u64| Nanos(ticks * (1_000_000_000 / ticks_per_s.max(1)));
    let field = |i: usize| ticks.get(i).copied().unwrap_or(0);
    let total: u64 = ticks.iter().sum();
    let idle = field(3) + field(4);
    let busy = total - idle - field(7);
    Some(CpuTimes { busy: nanos(busy), steal: nanos(field(7)), total: nanos(total) })
}

/// /proc/net/netstat consists of pairs of lines: names, then values.
fn tcp_trouble(netstat: &str) -> [Option<u64>; 5] {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return [None; 5] };
    let pairs: Vec<(&str, &str)> =
        names.split_whitespace().zip(values.split_whitespace()).collect();
    TROUBLE.map(|wanted| {
        let (_, value) = pairs.iter().find(|(name, _)| *name == wanted)?;
        value.parse().ok()
    })
}

/// `TCP: inuse 5 orphan 0 tw 12 alloc 7 mem 1` in /proc/net/sockstat.
fn time_wait(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find(|line| line.starts_with("TCP:"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find(|pair| pair[0] == "tw")?[1].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_tell_busy_from_stolen() {
        let stat = "cpu  100 10 50 1000 20 5 5 30 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let times = cpu_times(stat, 100).unwrap();
        assert_eq!(times.busy, Nanos::from_millis(1_700));
        assert_eq!(times.steal, Nanos::from_millis(300));
        assert_eq!(times.total, Nanos::from_millis(12_200));
        assert_eq!(cpu_times("", 100), None);
    }

    #[test]
    fn counters_are_found_by_name_and_unknown_where_they_are_not() {
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\n\
                       TcpExt: 1 2 3 4\nIpExt: InOctets\nIpExt: 9\n";
        assert_eq!(tcp_trouble(netstat), [Some(2), Some(3), Some(4), None, None]);
        assert_eq!(tcp_trouble("nonsense"), [None; 5]);
        let sockstat = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 12 alloc 7 mem 1\n";
        assert_eq!(time_wait(sockstat), Some(12));
        assert_eq!(time_wait(""), None);
        let known = Snapshot { tcp: [Some(5), None, Some(1), None, None], ..Snapshot::default() };
        let later = Snapshot { tcp: [Some(7), Some(9), None, None, None], ..Snapshot::default() };
        let rises: Vec<_> = later.since(&known).tcp_trouble().map(|(_, rise)| rise).collect();
        assert_eq!(rises, [Some(2), None, None, None, None]);
    }

    #[test]
    fn a_table_that_fills_is_crowded() {
        let snapshot = |conntrack| Snapshot { conntrack, ..Snapshot::default() };
        assert!(!snapshot(None).is_crowded());
        assert!(!snapshot(Some((300, 900))).is_crowded());
        assert!(snapshot(Some((301, 900))).is_crowded());
    }

    #[test]
    fn this_machine_can_be_read() {
        let first = Snapshot::take().unwrap();
        let second = Snapshot::take().unwrap();
        assert!(second.total >= first.total && second.at >= first.at);
        let change = second.since(&first);
        assert!((0.0..=1.0).contains(&change.steal));
        assert_eq!(change.tcp_trouble().count(), 5);
    }
}
