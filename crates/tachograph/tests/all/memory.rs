//! The client's memory for ten thousand connections.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{self, Place, Server, holds_within};

/// Number of connections, and the limit on memory.
const CONNECTIONS: &str = "10000";
const MEMORY_MAX_KIB: u64 = 100 * 1024;

/// The peak memory of a process in KiB (proc(5), VmHWM).
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[test]
fn ten_thousand_connections_fit_into_100_mib() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    for engine in ["epoll", "auto"] {
        let mut command = place.command(&[
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
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut peak = 0;
        holds_within(Duration::from_secs(120), || {
            peak = peak.max(peak_kib(child.id()).unwrap_or(0));
            child.try_wait().unwrap().is_some()
        });
        support::wait(child, Duration::from_secs(1)).status(0).prints("10,000 connections");
        assert!(peak > 0 && peak < MEMORY_MAX_KIB, "{engine}: {peak} KiB");
    }
}
