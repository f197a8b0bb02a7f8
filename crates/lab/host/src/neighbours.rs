//! Other activity on this machine: busy processes by name, and busy CPUs.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{CpuSet, Nanos};

use crate::HostError;
use crate::cpu_times::CpuMeter;
use crate::process::Process;

/// Observation time. /proc counts a process's time in ticks of 10 ms, so this detects 1/30 of a
/// CPU.
const LOOK: Duration = Duration::from_millis(300);

/// Processes below this share of a CPU are not listed.
const NAMED_SHARE_MIN: f64 = 0.05;

/// Activity of other processes during a short observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// Observation time.
    pub elapsed: Nanos,
    /// Share of each CPU's time used by others, 0 to 1, in ascending order of CPUs. Includes
    /// processes too short-lived to be listed.
    pub busy: Vec<(usize, f64)>,
    /// Processes that used at least 5% of a CPU, busiest first, without this process and its
    /// children.
    pub processes: Vec<Neighbour>,
}

/// A busy process.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its id.
    pub pid: i32,
    /// Its name in the kernel, at most 15 bytes.
    pub name: String,
    /// CPUs used: 1.5 is one and a half.
    pub share: f64,
}

impl Neighbours {
    /// Observes for about 300 ms, asleep. Other threads of this process and its children are not
    /// listed but count in `busy`, so call it while they are idle.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn observe() -> Result<Neighbours, HostError> {
        let meter = CpuMeter::open()?;
        let (cpus, first) = (meter.read()?, Process::all()?);
        std::thread::sleep(LOOK);
        let used = meter.read()?.since(&cpus);
        let second = Process::all()?;
        let own = std::process::id() as i32;
        let elapsed = used.elapsed;
        let share = |busy: Nanos| (busy.0 as f64 / elapsed.0.max(1) as f64).min(1.0);
        Ok(Neighbours {
            elapsed,
            busy: used.cpus.iter().map(|cpu| (cpu.cpu, share(cpu.busy))).collect(),
            processes: between(&first, &second, own, elapsed),
        })
    }

    /// The CPUs of `cpus` (all, if empty) of which others use more than `share`, 0 to 1.
    pub fn busier_than(&self, share: f64, cpus: &CpuSet) -> Vec<(usize, f64)> {
        let concerned = |cpu: usize| cpus.is_empty() || cpus.0.contains(&cpu);
        self.busy.iter().filter(|(cpu, used)| concerned(*cpu) && *used > share).copied().collect()
    }
}

/// The busy processes between two listings, without `own` and its descendants.
fn between(first: &[Process], second: &[Process], own: i32, elapsed: Nanos) -> Vec<Neighbour> {
    let ours = Process::descendants(second, own);
    let first: BTreeMap<_, _> = first.iter().map(|p| ((p.pid, p.start), p.cpu)).collect();
    let mut busy: Vec<Neighbour> = second
        .iter()
        .filter(|process| process.pid != own && !ours.contains(&process.pid))
        .map(|now| {
            let before = first.get(&(now.pid, now.start)).copied().unwrap_or_default();
            let share = now.cpu.saturating_sub(before).0 as f64 / elapsed.0.max(1) as f64;
            Neighbour { pid: now.pid, name: now.name.clone(), share }
        })
        .filter(|neighbour| neighbour.share >= NAMED_SHARE_MIN)
        .collect();
    busy.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.pid.cmp(&b.pid)));
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_processes_are_named_except_ours() {
        let process = |&(pid, name, parent, cpu_ms): &(i32, &str, i32, u64)| {
            let (name, cpu) = (name.to_owned(), Nanos::from_millis(cpu_ms));
            Process { pid, name, parent, cpu, start: 777, ..Process::default() }
        };
        let look = |rows: &[_]| rows.iter().map(process).collect::<Vec<Process>>();
        let first = look(&[(1, "init", 0, 50), (7, "rustc", 1, 1_000), (9, "idle", 1, 500)]);
        let mut second = look(&[
            (1, "init", 0, 50),
            (7, "rustc", 1, 1_150),
            (9, "idle", 1, 510),
            (20, "own", 1, 3_000),
            (21, "own child", 20, 3_000),
            (30, "new", 1, 270),
        ]);
        let found = between(&first, &second, 20, Nanos::from_millis(300));
        let seen: Vec<_> = found.iter().map(|n| (n.pid, n.name.as_str(), n.share)).collect();
        assert_eq!(seen, [(30, "new", 0.9), (7, "rustc", 0.5)]);

        // A different process with the same id: all its CPU time is new.
        second[1].start += 1;
        let found = between(&first, &second, 20, Nanos::from_millis(300));
        assert_eq!(found[0].pid, 7);
    }

    #[test]
    fn only_cpus_that_are_used_concern_us() {
        let busy = vec![(0, 0.9), (1, 0.1), (2, 0.3)];
        let neighbours = Neighbours { busy, ..Neighbours::default() };
        assert_eq!(neighbours.busier_than(0.2, &CpuSet::default()), [(0, 0.9), (2, 0.3)]);
        assert_eq!(neighbours.busier_than(0.2, &"1-2".parse().unwrap()), [(2, 0.3)]);
    }

    #[test]
    fn this_machine_can_be_observed() {
        let seen = Neighbours::observe().unwrap();
        assert!(!seen.busy.is_empty() && seen.elapsed >= Nanos::from(LOOK));
        assert!(seen.busy.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
        assert!(seen.processes.iter().all(|process| process.pid != std::process::id() as i32));
    }
}
