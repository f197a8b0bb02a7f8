//! What /proc says about processes: whose child, how much CPU, which memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use base::Nanos;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Ticks of /proc per second: the kernel's `USER_HZ`, 100 on every architecture that Rust runs on.
const TICK: Nanos = Nanos(10_000_000);

/// One line of `/proc/PID/stat`, as far as we need it (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// User and system time of the process itself.
    pub(crate) cpu: Nanos,
    /// The same of the children that it has waited for, and theirs.
    pub(crate) children_cpu: Nanos,
    /// When it started, in ticks since the machine did; with the pid it names a process for ever.
    pub(crate) start: u64,
}

impl Stat {
    /// Reads a line. The name stands in parentheses and may hold any byte, parentheses too.
    pub(crate) fn parse(text: &str) -> Option<Stat> {
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Field 3 of the manual's numbering is the first after the name.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = |a: usize, b: usize| Some(TICK * (number(a)? + number(b)?));
        Some(Stat {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(4)? as i32,
            session: number(6)? as i32,
            cpu: ticks(14, 15)?,
            children_cpu: ticks(16, 17)?,
            start: number(22)?,
        })
    }

    /// Whether it has ended and only waits to be asked for its status.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A process's line, if it exists.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    Stat::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// Every process that /proc shows.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(stat)
        .collect()
}

/// The living descendants of a process among `processes`, itself excluded.
pub(crate) fn descendants(processes: &[Stat], ancestor: i32) -> Vec<Stat> {
    let mut known = BTreeSet::from([ancestor]);
    // Each round adds a generation, so as many rounds as processes are enough.
    for _ in 0..processes.len() {
        let before = known.len();
        for process in processes {
            if known.contains(&process.parent) {
                known.insert(process.pid);
            }
        }
        if known.len() == before {
            break;
        }
    }
    known.remove(&ancestor);
    processes.iter().filter(|p| known.contains(&p.pid) && !p.is_dead()).cloned().collect()
}

/// Whether a variable stands in the environment that a process was started with.
///
/// False where we may not look, or where the process has overwritten it.
pub(crate) fn environment_has(pid: i32, name: &str, wanted: &dyn Fn(&str) -> bool) -> bool {
    let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environ.split(|byte| *byte == 0).any(|entry| {
        let entry = String::from_utf8_lossy(entry);
        entry.split_once('=').is_some_and(|(key, value)| key == name && wanted(value))
    })
}

/// The user that a process runs as.
pub(crate) fn owner(pid: i32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Memory that belongs to a process alone plus its share of what it shares with
/// others, in bytes: anonymous and shared memory, without files that are only mapped.
///
/// The proportional figures of `smaps_rollup` where we may read them, else the
/// resident ones of `status`, which count shared pages once per process.
pub(crate) fn memory_bytes(pid: i32) -> Option<u64> {
    let read = |file: &str, keys: [&str; 2]| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let [a, b] = keys.map(|key| kibibytes(&text, key));
        Some((a? + b?) * 1024)
    };
    read("smaps_rollup", ["Pss_Anon:", "Pss_Shmem:"])
        .or_else(|| read("status", ["RssAnon:", "RssShmem:"]))
}

fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// What tells this start of the machine from every other.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Sends a signal to exactly the process that was seen: a pid that has been
/// given to another one since is left alone.
pub(crate) fn signal(process: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if stat(process.pid).is_some_and(|now| now.start == process.start) {
        // The process may end between the two calls, which is what is wanted anyway.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, state: char) -> Stat {
        let text = format!(
            "{pid} (x) {state} {parent} 1 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0"
        );
        Stat::parse(&text).unwrap()
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = process(12, 3, 'S');
        let odd = Stat::parse(
            "12 (a) b (c) S 3 1 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0",
        )
        .unwrap();
        assert_eq!(odd, Stat { name: "a) b (c".to_owned(), ..line.clone() });
        assert_eq!(line.cpu, Nanos::from_millis(70));
        assert_eq!(line.children_cpu, Nanos::from_millis(110));
        assert_eq!((line.session, line.start), (7, 99));
        assert_eq!(Stat::parse("12 (cut"), None);
    }

    #[test]
    fn descendants_are_found_in_any_order_and_without_the_dead() {
        let all = [
            process(40, 30, 'S'),
            process(30, 20, 'S'),
            process(20, 10, 'Z'),
            process(10, 1, 'S'),
            process(50, 1, 'S'),
        ];
        let pids: Vec<i32> = descendants(&all, 10).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [40, 30]);
    }

    #[test]
    fn our_own_process_is_seen() {
        let me = std::process::id() as i32;
        let mine = stat(me).unwrap();
        assert_eq!(mine.pid, me);
        assert!(all().iter().any(|process| process.pid == me));
        assert!(memory_bytes(me).unwrap() > 0);
        assert!(environment_has(me, "PATH", &|_| true));
        assert!(!environment_has(me, "PATH", &|value| value == "nothing like this"));
        assert!(!boot_id().is_empty());
    }
}
