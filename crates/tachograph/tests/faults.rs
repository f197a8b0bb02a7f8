//! The lying and the slow server: every fault is caught, or the tool is worth nothing.
//!
//! Each test breaks one thing on purpose and wants the verdict that names it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::process::Stdio;

use support::{Ended, Place, Server, TACHOGRAPH, free_port, turn};

/// A quick comparison of the built-in server, sound as `a`, with `faults` as `b`.
fn against_a_sound_server(place: &Place, faults: &str, further: &[&str]) -> Ended {
    let sound = format!(
        "{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT --served-file $DIR/served"
    );
    let faulty = format!("{sound} {faults}");
    let mut args = vec![
        "compare",
        "--quick",
        "--closed-only",
        "-n",
        "a",
        "-n",
        "b",
        "--served-by",
        "counter_file=$DIR/served",
        "--max-time",
        "5s",
        "--json",
        &sound,
        &faulty,
    ];
    args.extend(further);
    place.run(&args)
}

#[track_caller]
fn invalid_because(ended: &Ended, words: &str) {
    let json = ended.status(1).json();
    assert_eq!(json["comparisons"][0]["verdict"], "invalid", "{json:#}");
    let reasons = json["reasons"].to_string();
    assert!(reasons.contains(words), "'{words}' is not in {reasons}");
}

#[test]
fn a_sound_server_is_valid() {
    let _turn = turn();
    let place = Place::new();
    let json = against_a_sound_server(&place, "", &[]).json();
    let reasons = json["reasons"].to_string();
    for word in ["counted", "failed", "series", "add up"] {
        assert!(!reasons.contains(word), "{reasons}");
    }
    for variant in json["variants"].as_array().unwrap() {
        assert_eq!(variant["ledger"]["served"], variant["ledger"]["completed"]);
        assert_eq!(variant["ledger"]["series"], variant["ledger"]["completed"]);
    }
}

#[test]
fn one_dropped_reply_in_ten_thousand() {
    let _turn = turn();
    let ended = against_a_sound_server(&Place::new(), "--drop-every 10000", &[]);
    invalid_because(&ended, "closed before an answer");
}

#[test]
fn one_corrupted_byte() {
    let _turn = turn();
    let ended = against_a_sound_server(&Place::new(), "--corrupt-every 10000", &[]);
    invalid_because(&ended, "body differs");
}

#[test]
fn a_truncated_body() {
    let _turn = turn();
    let ended = against_a_sound_server(&Place::new(), "--truncate-every 10000", &[]);
    invalid_because(&ended, "closed within an answer");
}

#[test]
fn a_request_counted_twice() {
    let _turn = turn();
    let ended = against_a_sound_server(&Place::new(), "--count-twice-every 10000", &[]);
    invalid_because(&ended, "more than the client completed");
}

#[test]
fn a_server_that_stalls() {
    let _turn = turn();
    let ended =
        against_a_sound_server(&Place::new(), "--stall-after 20000", &["--timeout", "500ms"]);
    invalid_because(&ended, "timeout");
}

#[test]
fn a_server_that_slows_down() {
    let place = Place::new();
    let port = free_port();
    let listen = format!("tcp://127.0.0.1:{port}");
    let _server =
        Server::start(&["--listen", &listen, "--slow-after", "1500ms", "--slow-by", "1ms"]);
    let url = format!("http://127.0.0.1:{port}/");
    let json = place.run(&["load", "-d", "3s", "--json", "-", &url]).status(0).json();
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("not steady"), "{warnings}");
}

#[test]
fn a_backlog_of_one() {
    // Connections that the kernel turns away show in its counters or as errors, never as speed.
    let _turn = turn();
    let ended = against_a_sound_server(
        &Place::new(),
        "--backlog 1 --burn 2ms",
        &["--new-connection", "-c", "64"],
    );
    let json = ended.json();
    let findings = json["validity"].to_string();
    assert!(findings.contains("ListenOverflows") || findings.contains("ListenDrops"), "{findings}");
}

#[test]
fn a_tiny_port_range() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("needs root for a network namespace of its own; run as root to see it");
        return;
    }
    let place = Place::new();
    let script = format!(
        "ip link set lo up && sysctl -qw net.ipv4.ip_local_port_range='40000 40030' && \
         {TACHOGRAPH} serve-fixture --listen tcp://127.0.0.2:8080 >/dev/null & server=$!; sleep 1; \
         {TACHOGRAPH} load --new-connection -c 64 -d 1s --json - http://127.0.0.2:8080/; status=$?; \
         kill $server; exit $status"
    );
    let mut command = place.command(&[]);
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["-n", "sh", "-c", &script]).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            unshare.env(name, value);
        }
    }
    command = unshare;
    let ended = place.finish(command);
    let json = ended.json();
    // Either every connection found a port because source addresses rotate, and that is said, or the shortage is an error.
    let said = json["warnings"].to_string().contains("ran out of ports")
        || json["errors"].to_string().contains("ports");
    assert!(said, "{json:#}");
}

/// A control group that holds whoever joins it to a fifth of one CPU.
struct Quota(std::path::PathBuf);

impl Quota {
    fn of_a_fifth() -> std::io::Result<Quota> {
        let name = format!("tachograph-test-{}", std::process::id());
        let first = std::path::Path::new("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&first).is_ok() {
            let quota = Quota(first);
            std::fs::write(quota.0.join("cpu.cfs_period_us"), "100000")?;
            std::fs::write(quota.0.join("cpu.cfs_quota_us"), "20000")?;
            return Ok(quota);
        }
        let second = std::path::Path::new("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&second)?;
        let quota = Quota(second);
        std::fs::write(quota.0.join("cpu.max"), "20000 100000")?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..100 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

#[test]
fn a_throttled_client() {
    let _turn = turn();
    let quota = match Quota::of_a_fifth() {
        Ok(quota) => quota,
        Err(error) => {
            let root = rustix::process::geteuid().is_root();
            eprintln!("needs root and a writable control group ({error})");
            assert!(!root || std::env::var_os("CI").is_none(), "CI can set a quota: {error}");
            return;
        }
    };
    let place = Place::new();
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    let compare = ["compare", "--quick", "--closed-only", "--max-time", "5s", "--json"];
    let inner = place.command(&compare);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "echo 0 > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(&quota.0)
        .arg(TACHOGRAPH)
        .args(compare)
        .args([&server, &server])
        .current_dir(place.dir.path())
        .stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let json = place.finish(command).status(1).json();
    assert_eq!(json["comparisons"][0]["verdict"], "invalid", "{json:#}");
    let findings = json["validity"].to_string();
    assert!(findings.contains("a CPU quota throttled"), "{findings}");
}

#[test]
fn a_cpu_hog_during_one_variant_only() {
    let _turn = turn();
    let place = Place::new();
    // The hog belongs to nobody's stack and burns CPU 0 whenever b is up.
    let flag = place.path("b-is-up");
    let script = format!(
        "for i in $(seq 1200); do while [ -e {0} ]; do :; done; sleep 0.05; done",
        flag.display()
    );
    let mut hog = std::process::Command::new("taskset")
        .args(["-c", "0", "sh", "-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let sound = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    let hogged = format!(
        "sh -c 'touch {0}; trap \"rm -f {0}; kill $child\" TERM EXIT; {sound} & child=$!; wait $child'",
        flag.display()
    );
    let ended = place.run(&[
        "compare",
        "--quick",
        "--closed-only",
        "--isolated",
        "-n",
        "a",
        "-n",
        "b",
        "--max-time",
        "5s",
        "--json",
        &sound,
        &hogged,
    ]);
    hog.kill().unwrap();
    hog.wait().unwrap();
    let json = ended.status(1).json();
    let findings = json["validity"].to_string();
    assert!(findings.contains("something other than it"), "{findings}");
    assert_eq!(json["comparisons"][0]["verdict"], "invalid");
}
