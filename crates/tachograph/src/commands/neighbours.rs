//! Other activity on this machine, in words.

use base::CpuSet;
use host::{Neighbour, Neighbours};

/// Below this share of a CPU, other processes are not mentioned.
const SHARE_MIN: f64 = 0.2;

/// Maximum number of processes to name.
const NAMED_MAX: usize = 3;

/// Other activity on `cpus` (all, if empty); `None` if there is hardly any.
pub(super) fn words(seen: &Neighbours, cpus: &CpuSet) -> Option<String> {
    let busy = seen.busier_than(SHARE_MIN, cpus);
    if busy.is_empty() {
        return None;
    }
    let busy: Vec<String> =
        busy.iter().map(|(cpu, share)| format!("{:.0}% of CPU {cpu}", 100.0 * share)).collect();
    let names: Vec<String> = seen.processes.iter().take(NAMED_MAX).map(name).collect();
    let names = match (names.is_empty(), seen.processes.len().saturating_sub(NAMED_MAX)) {
        (true, _) => "none of them long enough to be named".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    };
    Some(format!("other processes use {} ({names})", busy.join(" and ")))
}

/// Consequence and remedy.
pub(super) const COST: &str = "comparisons stay valid, but need more time for the same precision; \
    stop these processes, or avoid their CPUs with --cpus";

fn name(process: &Neighbour) -> String {
    let name: String = process.name.chars().filter(|c| !c.is_control()).collect();
    format!("{name}, pid {}: {:.0}%", process.pid, 100.0 * process.share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, name: &str, share: f64) -> Neighbour {
        Neighbour { pid, name: name.to_owned(), share }
    }

    #[test]
    fn the_busy_are_named_with_their_cpu() {
        let mut seen = Neighbours {
            busy: vec![(0, 0.853), (1, 0.1), (2, 0.21)],
            processes: vec![process(4711, "rustc", 0.8), process(9, "a\nb", 0.2)],
            ..Neighbours::default()
        };
        assert_eq!(
            words(&seen, &CpuSet::default()).unwrap(),
            "other processes use 85% of CPU 0 and 21% of CPU 2 (rustc, pid 4711: 80%, ab, pid 9: 20%)"
        );
        assert_eq!(words(&seen, &CpuSet::one(1)), None);
        seen.processes.extend([process(1, "c", 0.1), process(2, "d", 0.1)]);
        assert!(words(&seen, &CpuSet::one(0)).unwrap().ends_with("c, pid 1: 10% and 1 more)"));
        seen.processes.clear();
        assert_eq!(
            words(&seen, &CpuSet::one(0)).unwrap(),
            "other processes use 85% of CPU 0 (none of them long enough to be named)"
        );
    }
}
