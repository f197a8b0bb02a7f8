//! CPU time and memory of processes, from /proc.

use std::fs::read_to_string;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// The kernel's unit in /proc (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

struct Stat {
    parent: u32,
    own_s: f64,
    /// CPU time of children that have ended and were waited for.
    children_s: f64,
}

fn stat(pid: &str) -> Option<Stat> {
    let text = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let seconds = |at: usize| fields.get(at)?.parse::<f64>().ok().map(|t| t / TICKS_PER_S);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own_s: seconds(11)? + seconds(12)?,
        children_s: seconds(13)? + seconds(14)?,
    })
}

/// CPU time of this process and of its ended children.
pub(super) fn own_s() -> f64 {
    stat("self").map_or(0.0, |stat| stat.own_s)
}

/// CPU time of this process's ended children.
pub(super) fn children_s() -> f64 {
    stat("self").map_or(0.0, |stat| stat.children_s)
}

/// CPU time of a server, including its ended and running processes.
pub(super) fn server_s(pid: u32) -> f64 {
    let server = stat(&pid.to_string()).map_or(0.0, |stat| stat.own_s + stat.children_s);
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let running = all.filter_map(|entry| stat(entry.file_name().to_str()?));
    server + running.filter(|stat| stat.parent == pid).map(|stat| stat.own_s).sum::<f64>()
}

/// Follows a process until it ends; returns its peak resident memory in KiB, as it was when it was
/// last looked at, up to a twentieth of a second before the end.
pub(super) fn peak_of(pid: u32) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut peak = 0;
        // A process that has ended but was not waited for has no memory.
        while let Some(kib) = peak_kib(pid) {
            peak = kib;
            std::thread::sleep(Duration::from_millis(50));
        }
        peak
    })
}

fn peak_kib(pid: u32) -> Option<u64> {
    let text = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The process id of the PostgreSQL with this data folder.
pub(super) fn postgres_pid(folder: &Path) -> Result<u32, String> {
    let path = folder.join("data/postmaster.pid");
    let text = read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let pid = text.lines().next().and_then(|line| line.trim().parse().ok());
    pid.ok_or_else(|| format!("{} names no process", path.display()))
}

/// The bytes of all files in a folder.
pub(super) fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_cpu_and_its_folder_has_files() {
        let mut sum = 0_u64;
        while own_s() == 0.0 {
            sum = sum.wrapping_mul(3).wrapping_add(1);
        }
        assert!(own_s() > 0.0 && sum < u64::MAX);
        // Other threads continue to use CPU time, so the later reading is larger.
        let before = own_s();
        assert!(server_s(std::process::id()) >= before);
        assert!(bytes(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) > 1_000);
    }
}
