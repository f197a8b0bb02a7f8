//! Every fault of the faulty and slow server is detected.
//!
//! Each test breaks one thing on purpose and expects the verdict that names it.

use std::io::ErrorKind;
use std::process::Stdio;

use crate::support::{Ended, Place, Server, TACHOGRAPH, holds_within, not_run, turn};

/// A quick comparison of the built-in server, without faults as `a` and with `faults` as `b`.
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

/// Each start of the faulty server breaks one response in this many. `prove faults` uses the full
/// 10,000; a busy machine does not reach that in a short block. More than a start learns from.
fn every() -> String {
    std::env::var("TACHOGRAPH_TEST_FAULT_EVERY").unwrap_or_else(|_| "500".to_owned())
}

/// A fault of every so many responses, and what the report says about it.
const FAULTS: [(&str, &str, &str); 4] = [
    ("one-dropped-reply", "--drop-every", "closed before a response"),
    ("one-corrupted-byte", "--corrupt-every", "body differs"),
    ("a-truncated-body", "--truncate-every", "closed within a response"),
    ("a-request-counted-twice", "--count-twice-every", "more than the client completed"),
];

/// A run of sound servers, `sound` and `control`, and one server for each fault.
#[test]
fn every_fault_is_found_and_no_other() {
    let _turn = turn();
    let place = Place::new();
    let variant = |name: &str, faults: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nstack = \"server\"\nvars = {{ FAULTS = \"{faults}\" }}\n"
        )
    };
    let faulty: String = FAULTS
        .iter()
        .map(|(name, flag, _)| variant(name, &format!("{flag} {}", every())))
        .collect();
    let text = format!(
        "[experiment]\nname = \"faults\"\ntitle = \"Faults\"\nquestion = \"Which?\"\n\
         baseline = \"sound\"\noffers = [\"closed\"]\n\
         [stack.server]\ntarget = \"http://127.0.0.1:$PORT/\"\n\
         served_by = {{ counter_file = \"$DIR/served\" }}\n\
         process = {{ command = \"$TACHOGRAPH serve-fixture --listen tcp://127.0.0.1:$PORT \
         --served-file $DIR/served $FAULTS\", ready = \"127.0.0.1:$PORT\" }}\n{}{}{faulty}",
        variant("sound", ""),
        variant("control", ""),
    );
    place.write("faults.toml", &text);
    let json = place
        .run(&["run", "./faults.toml", "--quick", "--max-time", "5s", "--json"])
        .status(1)
        .json();
    let reasons: Vec<&str> =
        json["reasons"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
    for comparison in json["comparisons"].as_array().unwrap() {
        let name = comparison["variant"].as_str().unwrap();
        let of_variant = reasons.iter().filter(|reason| reason.contains(&format!("{name}: ")));
        let Some((_, _, words)) = FAULTS.iter().find(|fault| fault.0 == name) else {
            assert_ne!(comparison["verdict"], "invalid", "{reasons:?}");
            continue;
        };
        assert_eq!(comparison["verdict"], "invalid", "{name}: {reasons:?}");
        assert!(of_variant.into_iter().any(|reason| reason.contains(words)), "{name}: {reasons:?}");
    }
    for variant in json["variants"].as_array().unwrap() {
        let (name, ledger) = (&variant["name"], &variant["ledger"]);
        assert_eq!(ledger["series"], ledger["completed"], "{name}: {ledger}");
        if ["sound", "control"].contains(&name.as_str().unwrap()) {
            assert_eq!(ledger["served"], ledger["completed"], "{name}: {ledger}");
        }
    }
}

#[test]
fn a_request_counted_twice_that_the_server_counts_late() {
    let place = Place::new();
    let count = place.path("served");
    // Of 1,000 requests the last one, long after its response; three more are probes.
    let faults = ["--count-twice-every", "1003", "--count-late", "100ms"];
    let counted = ["--served-file", count.to_str().unwrap()];
    let (_server, url) = Server::http(&[&counted[..], &faults].concat());
    let by = format!("counter_file={}", count.display());
    let ended = place.run(&["load", "-n", "1000", "--served-by", &by, "--json", &url]);
    let json = ended.status(1).json();
    assert_eq!(json["ledger"]["served"], 1001, "{json:#}");
}

#[test]
fn a_server_that_stalls() {
    let ended = against_a_sound_server(
        &Place::new(),
        // A busy machine does not reach 3,000 in a short block.
        "--stall-after 500",
        &["--max-time", "5s", "--timeout", "500ms"],
    );
    invalid_because(&ended, "timeout");
}

#[test]
fn a_server_that_slows_down() {
    let _turn = turn();
    let place = Place::new();
    // A busy machine hardly changes the throughput of a server that mostly sleeps. Later it is so slow
    // that its long requests are no hundredth of all: from their length follows how fine a change is
    // looked for.
    let slows =
        ["--delay-every", "1", "--delay", "10ms", "--slow-after", "5000", "--slow-by", "8s"];
    let (_server, url) = Server::http(&slows);
    // That is a sixth into the trial, or later beside builds.
    let json = place.run(&["load", "-d", "30s", "--json", &url]).status(0).json();
    let warnings = json["warnings"].to_string();
    let (ledger, took) = (&json["ledger"], &json["service_time_ns"]);
    let told = warnings.contains("throughput of the server changed by −");
    assert!(told, "{warnings} {ledger} {took}");
}

#[test]
fn a_backlog_of_one() {
    // Refused connections show in the kernel's counters or as errors, never as speed.
    let ended = against_a_sound_server(
        &Place::new(),
        "--backlog 1 --burn 2ms",
        &["--new-connection", "-c", "8", "--max-time", "1s", "--timeout", "2s"],
    );
    let json = ended.json();
    let findings = json["validity"].to_string();
    assert!(findings.contains("ListenOverflows") || findings.contains("ListenDrops"), "{findings}");
}

#[test]
fn a_tiny_port_range() {
    if !rustix::process::geteuid().is_root() {
        return not_run("it needs root for a network namespace of its own");
    }
    let place = Place::new();
    let script = format!(
        "ip link set lo up && sysctl -qw net.ipv4.ip_local_port_range='40000 40030' && \
         {TACHOGRAPH} serve-fixture --listen tcp://127.0.0.2:8080 >listening & server=$!; \
         until grep -q listening listening; do sleep 0.02; done; \
         {TACHOGRAPH} load --new-connection -c 64 -d 1s --json http://127.0.0.2:8080/; status=$?; \
         kill $server; exit $status"
    );
    let mut command = place.command(&[]);
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["-n", "sh", "-c", &script]).current_dir(place.dir.path()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            unshare.env(name, value);
        }
    }
    command = unshare;
    let ended = place.finish(command);
    let json = ended.json();
    // Either every connection found a port because source addresses rotate, which is noted, or
    // there is an error.
    let said = json["notes"].to_string().contains("ran out of ports")
        || json["errors"].to_string().contains("ports");
    assert!(said, "{json:#}");
}

/// A control group with a quota of a twentieth of one CPU: less than what many neighbours leave it,
/// which would not be throttled.
struct Quota(std::path::PathBuf);

impl Quota {
    fn of_a_twentieth() -> std::io::Result<Quota> {
        let name = format!("tachograph-test-{}", std::process::id());
        let first = std::path::Path::new("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&first).is_ok() {
            let quota = Quota(first);
            std::fs::write(quota.0.join("cpu.cfs_period_us"), "100000")?;
            std::fs::write(quota.0.join("cpu.cfs_quota_us"), "5000")?;
            return Ok(quota);
        }
        let second = std::path::Path::new("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&second)?;
        let quota = Quota(second);
        std::fs::write(quota.0.join("cpu.max"), "5000 100000")?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // It can be removed once its last process has ended.
        holds_within(
            std::time::Duration::from_secs(10),
            || !matches!(std::fs::remove_dir(&self.0), Err(e) if e.kind() != ErrorKind::NotFound),
        );
    }
}

#[test]
fn a_throttled_client() {
    let _turn = turn();
    let quota = match Quota::of_a_twentieth() {
        Ok(quota) => quota,
        Err(error) => {
            let root = rustix::process::geteuid().is_root();
            assert!(!root || std::env::var_os("CI").is_none(), "CI can set a quota: {error}");
            return not_run(&format!("it needs root and a writable control group ({error})"));
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
    // It affects both variants alike, so it is reported and widens the interval.
    let json = place.finish(command).json();
    let checks = json["validity"].as_array().unwrap().iter();
    let throttled = checks.filter(|finding| finding["check"] == "throttled");
    assert_eq!(throttled.count(), 1, "{json:#}");
}

/// The share of a variant's slices in which other processes used more than a fifth of a CPU.
fn busy_share(variant: &serde_json::Value) -> f64 {
    let trials = variant["trials"].as_array().unwrap().iter();
    let slices = trials.flat_map(|trial| trial["slices"].as_array().unwrap());
    let used: Vec<f64> = slices.filter_map(|slice| slice["other_cpus"].as_f64()).collect();
    used.iter().filter(|cpus| **cpus > 0.2).count() as f64 / used.len().max(1) as f64
}

#[test]
#[ignore = "needs a machine on which nothing else runs; scripts/test.sh runs it last"]
fn a_cpu_hog_during_one_variant_only() {
    let _turn = turn();
    let place = Place::new();
    // The hog belongs to no stack and burns CPU 0 whenever b is running.
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
        "12s",
        "--json",
        &sound,
        &hogged,
    ]);
    hog.kill().unwrap();
    hog.wait().unwrap();
    let json = ended.json();
    // Beside a constantly busy neighbour, one that runs with a variant cannot be detected.
    if busy_share(&json["variants"][0]) > 0.3 {
        return not_run("other processes were busy all the time");
    }
    ended.status(1);
    let findings = json["validity"].to_string();
    assert!(findings.contains("other processes were busy during"), "{findings}");
    assert_eq!(json["comparisons"][0]["verdict"], "invalid");
}
