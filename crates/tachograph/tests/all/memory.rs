//! The client's memory for ten thousand connections, and for the replay of a long log.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{self, Place, Server, holds_within};

/// Number of connections, and the limit on memory.
const CONNECTIONS: &str = "10000";
const MEMORY_MAX_KIB: u64 = 100 * 1024;

/// The same for a replay with ten connections: twenty answers of 1 MiB, and room to read them.
const REPLAY_MAX_KIB: u64 = 100 * 1024;

/// The peak memory of a process in KiB (proc(5), VmHWM).
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Runs a command, which has to succeed within two minutes; its output and its peak memory in KiB.
fn peak_of(mut command: Command) -> (support::Ended, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    holds_within(Duration::from_secs(120), || {
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        child.try_wait().unwrap().is_some()
    });
    let ended = support::wait(child, Duration::from_secs(1));
    ended.status(0);
    (ended, peak)
}

#[test]
fn ten_thousand_connections_fit_into_100_mib() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    for engine in ["epoll", "auto"] {
        let command = place.command(&[
            "load",
            "-c",
            CONNECTIONS,
            "-n",
            "50000",
            "--timeout",
            "60s",
            "--engine",
            engine,
            &url,
        ]);
        let (ended, peak) = peak_of(command);
        ended.prints("10,000 connections");
        assert!(peak > 0 && peak < MEMORY_MAX_KIB, "{engine}: {peak} KiB");
    }
}

/// Many lines, and answers of 1 MiB to some of them: neither is kept.
#[test]
fn a_replay_needs_no_memory_for_the_length_of_its_log() {
    let place = Place::new();
    let line = |method: &str| format!("\"{method} / HTTP/1.1\" 200\n");
    let thousand = line("POST").repeat(990) + &line("GET").repeat(10);
    place.write("access.log", &thousand.repeat(200));
    let (_old, old) = Server::http(&["--body-size", "1M"]);
    let (_new, new) = Server::http(&["--body-size", "1M"]);
    let (ended, peak) = peak_of(place.command(&["replay", "access.log", &old, &new]));
    ended.prints("The answers to all 2,000 requests are the same.");
    ended.prints("entries 200,000 = 2,000 asked + 198,000 left out");
    assert!(peak > 0 && peak < REPLAY_MAX_KIB, "{peak} KiB");
}
