//! Resource usage of a stack, by control group and by process tree.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use base::Nanos;
use stage::{Accounting, UsageSource};
use support::*;

/// Children that use 0.3 s of CPU time each, by their own clock: one that is waited for, one that
/// lives on, one in the background.
const BURN: &str = r#"
burn="import resource, sys, time
while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 0.3: pass
ballast = bytearray(30 << 20)
if len(sys.argv) > 1:
    open(sys.argv[1], 'w').close()
    time.sleep(1000)"
python3 -c "$burn"
python3 -c "$burn" $DIR/living &
(setsid python3 -c "$burn" $DIR/away &)
while [ ! -e $DIR/living ] || [ ! -e $DIR/away ]; do sleep 0.05; done
touch $DIR/ready
wait
"#;

fn usage_is_complete(accounting: Accounting, source: UsageSource) {
    let scene = Scene::counting(accounting);
    let live = scene.start(vec![script(BURN)]).unwrap();
    let usage = live.usage().unwrap();
    assert_eq!(usage.source, source);
    // Three times 0.3 s; ticks may hide up to 10 ms of each process's figures.
    assert!(usage.cpu > Nanos::from_millis(800), "{usage:?}");
    assert!(usage.memory_bytes > 60 << 20, "two of them hold 30 MiB each: {usage:?}");
    assert!(usage.peak_memory_bytes >= usage.memory_bytes);
    let later = live.usage().unwrap();
    assert!(later.cpu >= usage.cpu);
    assert!(later.peak_memory_bytes >= usage.peak_memory_bytes);
    let id = live.id().to_owned();
    assert_eq!(cgroups_of(&id).is_empty(), source == UsageSource::ProcessTree);
    let last = live.stop().usage.unwrap();
    assert!(last.cpu >= later.cpu);
    assert!(cgroups_of(&id).is_empty());
}

#[test]
fn the_process_tree_counts_the_living_the_reaped_and_the_background() {
    usage_is_complete(Accounting::ProcessTree, UsageSource::ProcessTree);
}

/// If the machine does not permit control groups, the tree must be used instead.
#[test]
fn control_groups_count_the_same_or_the_tree_takes_over() {
    for (accounting, source) in [
        (Accounting::CgroupV1, UsageSource::CgroupV1),
        (Accounting::CgroupV2, UsageSource::CgroupV2),
    ] {
        let scene = Scene::counting(accounting);
        let probe = scene.start(vec![process("app", LISTEN, port())]).unwrap();
        let found = probe.usage().unwrap().source;
        assert!(found == source || found == UsageSource::ProcessTree, "{found}");
        drop(probe);
        usage_is_complete(accounting, found);
    }
}

#[test]
fn unwaited_children_are_counted_by_the_control_group() {
    let scene = Scene::new();
    // With SIGCHLD ignored, ended children leave no trace in their parent's times.
    let text = r#"python3 -c "
import os, signal, resource, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 0.5: pass
    os._exit(0)
try: os.wait()
except ChildProcessError: pass
open(os.environ['DIR'] + '/ready', 'w').close()
time.sleep(1000)
""#;
    let live = scene.start(vec![script(text)]).unwrap();
    let usage = live.usage().unwrap();
    if usage.source != UsageSource::ProcessTree {
        assert!(usage.cpu > Nanos::from_millis(500), "{usage:?}");
    }
}

/// Processes that an engine starts for a container are not descendants of the stack's; its
/// attendant lists them.
#[test]
fn a_listed_foreign_process_is_counted_and_killed() {
    let burn =
        "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(1000)";
    let mut other = std::process::Command::new("python3")
        .args(["-c", burn])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    // proc_pid_stat(5): field 22 is the start; the name, field 2, is in parentheses.
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let line = format!("process {} {start} {}", other.id(), boot.trim());
    let scene = Scene::counting(Accounting::ProcessTree);
    let list = format!("echo '{line}' >> $DIR/.members; touch $DIR/ready; sleep 1000");
    let live = scene.start(vec![script(&list)]).unwrap();
    let usage = live.usage().unwrap();
    assert!(usage.cpu > Nanos::from_millis(280), "{usage:?}");
    live.stop();
    let ended = other.wait().unwrap();
    assert!(!ended.success(), "it was to be killed: {ended}");
}
