//! Whatever ends a run, no process, socket or folder stays behind.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Place, TACHOGRAPH, processes_with_environment, turn, wait};

/// Starts a comparison whose stacks are awkward: they fork away, ignore SIGTERM, or are plain.
fn start(place: &Place, marker: &str) -> Child {
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    let stubborn = format!("sh -c 'trap \"\" TERM; {server} & wait; wait' ");
    let forks_away = format!("sh -c 'setsid sleep 500 & {server}' ");
    place
        .command(&[
            "compare",
            "--quick",
            "--closed-only",
            &stubborn,
            &forks_away,
            "-n",
            "a",
            "-n",
            "b",
        ])
        .env("TACHOGRAPH_TEST_MARKER", marker)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until nothing of the run is left, for as long as guards may take to end stubborn stacks.
#[track_caller]
fn nothing_is_left(place: &Place, marker: &str) {
    let began = Instant::now();
    loop {
        let processes = processes_with_environment(marker);
        let folders = place.leftovers();
        if processes.is_empty() && folders.is_empty() {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "left behind: processes {processes:?}, folders {folders:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn marker(name: &str) -> String {
    format!("tachograph-test-{name}-{}", std::process::id())
}

#[test]
fn ctrl_c_stops_and_cleans_up() {
    let _turn = turn();
    for after_ms in [100, 700, 2500, 5000] {
        let place = Place::new();
        let marker = marker(&format!("int-{after_ms}"));
        let child = start(&place, &marker);
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(&child, Signal::INT);
        let ended = wait(child, Duration::from_secs(30));
        assert!(ended.status.is_some(), "it ended by a signal: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        nothing_is_left(&place, &marker);
    }
}

#[test]
fn kill_9_leaves_nothing_behind() {
    let _turn = turn();
    for after_ms in [50, 400, 1500, 4000] {
        let place = Place::new();
        let marker = marker(&format!("kill-{after_ms}"));
        let mut child = start(&place, &marker);
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        nothing_is_left(&place, &marker);
    }
}

#[test]
fn what_was_measured_before_a_kill_is_on_record() {
    let _turn = turn();
    let place = Place::new();
    let marker = marker("record");
    let mut child = start(&place, &marker);
    // The calibration and a block or two fit into this.
    std::thread::sleep(Duration::from_secs(9));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    nothing_is_left(&place, &marker);
    place.run(&["list"]).status(0).prints("cut off");
    place.run(&["report", "last"]).prints("Cut off");
}
