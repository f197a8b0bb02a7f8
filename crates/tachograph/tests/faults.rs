//! The lying and the slow server: every fault is caught, or the tool is worth nothing.
//!
//! Each test breaks one thing on purpose and wants the verdict that names it.

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
        "8s",
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
        "8s",
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
