//! What threads computed and waited, from /proc.

use base::Nanos;
use procfs_core::FromRead;
use procfs_core::process::Stat;
use record::Waits;

/// The unit of times in /proc/PID/stat, on all of Linux's platforms today (`USER_HZ`).
const TICK: Nanos = Nanos::from_millis(10);

/// The sum over all threads of these processes since they began. Threads that have ended are missing.
///
/// Context switches are counted in /proc/PID/task/TID/status (proc_pid_status(5)), the time that a thread
/// could run and had no CPU is the second number of /proc/PID/task/TID/schedstat (Linux,
/// Documentation/scheduler/sched-stats.rst), in nanoseconds.
pub(crate) fn waits(pids: impl IntoIterator<Item = u32>) -> Waits {
    let mut sum = Waits::default();
    for pid in pids {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let read = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let status = read("status");
            sum.voluntary += field(&status, "voluntary_ctxt_switches:");
            sum.involuntary += field(&status, "nonvoluntary_ctxt_switches:");
            let delay = read("schedstat");
            let delay = delay.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
            sum.run_delay += Nanos(delay.unwrap_or(0));
        }
    }
    sum
}

/// The CPU time of these processes since they began, without processes that have ended.
///
/// The first number of schedstat is a thread's, exactly; /proc/PID/stat also has that of threads which
/// have ended, in hundredths of a second (proc_pid_stat(5)). Neither can be too much.
pub(crate) fn cpu(pids: impl IntoIterator<Item = u32>) -> Nanos {
    let of_thread = |thread: std::fs::DirEntry| -> Option<u64> {
        let numbers = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        numbers.split_whitespace().next()?.parse().ok()
    };
    let of_process = |pid: u32| -> Option<Nanos> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let living = Nanos(threads.flatten().filter_map(of_thread).sum());
        let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        Some(living.max(TICK * (stat.utime + stat.stime)))
    };
    pids.into_iter().filter_map(of_process).fold(Nanos::ZERO, |sum, of| sum + of)
}

fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_waited_once_more() {
        let me = std::process::id();
        let before = waits([me]);
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = waits([me]);
        assert!(after.voluntary > before.voluntary, "{before:?} {after:?}");
        assert_eq!(waits([u32::MAX]), Waits::default());
        assert!(cpu([me]) > Nanos::ZERO);
        assert_eq!(cpu([u32::MAX]), Nanos::ZERO);
        let status = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), 7);
        assert_eq!(field(status, "nonvoluntary_ctxt_switches:"), 9);
    }
}
