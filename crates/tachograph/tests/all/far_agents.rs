//! Agents at the other end of two pipes: merging, other versions, and ends of the channel.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{CpuSet, Nanos, RunId, Seed};
use drive::{Slice, StopFlag};
use far::{Clients, Ends, FarError, Machine, StackOptions, Transport};
use rustix::process::{Pid, Signal, kill_process};
use spec::{
    Expect, HttpRequest, Load, Mode, PathRequest, Process, ReadyCheck, RequestKind, Stack, Target,
};

use crate::support::{
    self, Place, Server, TACHOGRAPH, holds_within, marker, processes_with_environment,
};

const VERSION: &str = env!("TACHOGRAPH_VERSION");

/// An agent that is killed if it does not end with its channel.
struct Agent(Child);

impl Transport for Agent {
    fn why_ended(&mut self) -> Option<String> {
        None
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !holds_within(Duration::from_secs(20), || self.0.try_wait().unwrap().is_some()) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn agent(place: &Place, marker: &str) -> Command {
    let mut command = place.command(&["agent"]);
    command.env("TACHOGRAPH_TEST_MARKER", marker).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn connect(mut child: Child, name: &str) -> Result<Arc<Machine>, FarError> {
    let ends = Ends {
        reader: Box::new(child.stdout.take().unwrap()),
        writer: Box::new(child.stdin.take().unwrap()),
        transport: Box::new(Agent(child)),
    };
    Machine::connect(name, ends, VERSION, StopFlag::default()).map(Arc::new)
}

fn slice(mode: Mode) -> Slice {
    Slice {
        mode,
        start: drive::LoopStart::Fresh,
        lead_in: Nanos::from_millis(50),
        window: Nanos::from_millis(300),
        requests: None,
        drain: Nanos::from_secs(20),
        stalled_after: None,
    }
}

#[test]
fn the_counts_of_a_hundred_clients_are_exact() {
    let (place, marker) = (Place::new(), marker("hundred"));
    let tally = place.path("tally");
    let (_server, url) = Server::http(&["--served-file", tally.to_str().unwrap()]);
    let machines: Vec<_> = (0..100)
        .map(|i| connect(agent(&place, &marker).spawn().unwrap(), &format!("client{i}")).unwrap())
        .map(|machine| (machine, CpuSet::default()))
        .collect();
    let target = Target::parse(&url).unwrap();
    let kind = |name: &str, weight| RequestKind {
        name: name.to_owned(),
        weight,
        requests: vec![PathRequest { path: format!("/{name}"), request: HttpRequest::default() }],
        expect: Expect::default(),
        keep: Vec::new(),
    };
    let load = Load {
        connections: 150,
        timeout: Nanos::from_secs(60),
        kinds: vec![kind("a", 3), kind("b", 1)],
        ..Load::default()
    };
    let step = Nanos::from_millis(10);
    let mut clients = Clients::open(&machines, &target, &load, Seed(3), step).unwrap();
    let learned = clients.learn().unwrap();
    assert_eq!((learned.status, learned.varies), (Some(200), false));
    let probes = clients.life().counts.completed;
    assert_eq!(probes, 600, "three of each client and kind");

    let closed = clients.run(&slice(Mode::Closed)).unwrap();
    let arrivals = spec::Arrivals::Uniform;
    let open = clients.run(&slice(Mode::Open { rate_per_s: 2_000.0, arrivals })).unwrap();
    for ran in [&closed, &open] {
        let seen = &ran.seen;
        assert!(seen.counts.add_up() && seen.counts.failed == 0, "{:?}", seen.counts);
        assert_eq!(seen.completed_by_step.iter().sum::<u64>(), seen.counts.completed);
        assert!(seen.service_time.len() <= seen.counts.completed, "one value each");
        assert_eq!(seen.threads.len(), 100);
        assert!(ran.apart.is_some());
    }
    // 2,000 per second over 350 ms at equal distances: the hundred pacers are one.
    assert_eq!(open.seen.counts.offered, 700);
    let sum = probes + closed.seen.counts.completed + open.seen.counts.completed;
    let (drive::Life { counts, errors, kinds }, failure) = clients.close();
    let [a, b] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!(a.counts.completed + b.counts.completed, counts.completed);
    assert!(a.counts.completed > 2 * b.counts.completed, "{a:?} {b:?}");
    assert!(failure.is_none() && errors.is_empty(), "{failure:?} {errors:?}");
    assert_eq!(counts.completed, sum);
    let served = || {
        let bytes = std::fs::read(&tally).unwrap();
        u64::from_le_bytes(bytes[..8].try_into().unwrap())
    };
    assert!(holds_within(Duration::from_secs(60), || served() == sum), "{} of {sum}", served());
    drop(machines);
    let left = || processes_with_environment(&marker);
    assert!(holds_within(Duration::from_secs(60), || left().is_empty()), "{:?}", left());
}

#[test]
fn quantiles_of_merged_observations_are_those_of_all_values() {
    // An observation as it arrives over a channel, with these service times.
    let place = Place::new();
    let machine = connect(agent(&place, "merge").spawn().unwrap(), "a").unwrap();
    let (_server, url) = Server::http(&[]);
    let target = Target::parse(&url).unwrap();
    let on = [(machine, CpuSet::default())];
    let step = Nanos::from_millis(10);
    let mut clients = Clients::open(&on, &target, &Load::default(), Seed(1), step).unwrap();
    let arrived = clients.run(&slice(Mode::Closed)).unwrap().seen;

    let mut all = arrived.service_time.clone();
    all.reset();
    let mut merged = None;
    for part in 0..100_u64 {
        let mut seen = arrived.clone();
        seen.service_time.reset();
        for i in 0..50 {
            // From a microsecond to ten minutes, differently in each part.
            let value = 1_000 * (1 + (part * 50 + i) * 7_919 % 5_003).pow(2) * (1 + part % 24);
            seen.service_time.record(value).unwrap();
            all.record(value).unwrap();
        }
        let text = serde_json::to_vec(&seen).unwrap();
        let seen: drive::Observation = serde_json::from_slice(&text).unwrap();
        match &mut merged {
            None => merged = Some(seen),
            Some(sum) => sum.merge(seen),
        }
    }
    let merged = merged.unwrap().service_time;
    assert_eq!(merged.len(), all.len());
    for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
        assert_eq!(merged.value_at_quantile(q), all.value_at_quantile(q), "{q}");
    }
    assert_eq!((merged.min(), merged.max()), (all.min(), all.max()));
}

#[test]
fn an_agent_of_another_build_is_refused() {
    let place = Place::new();
    let mut child = agent(&place, "version").spawn().unwrap();
    let ends = Ends {
        reader: Box::new(child.stdout.take().unwrap()),
        writer: Box::new(child.stdin.take().unwrap()),
        transport: Box::new(Agent(child)),
    };
    let error = Machine::connect("server", ends, "0.0.1", StopFlag::default()).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "server runs tachograph {VERSION}, and this machine 0.0.1; both ends must be the same \
             build"
        )
    );
}

#[test]
fn what_is_no_agent_is_quoted() {
    for (script, why) in [
        ("echo Welcome to example; sleep 1", "what arrived is not tachograph's: \"Welcome to"),
        ("exit 3", "the connection was closed"),
        ("printf '\\0\\0\\0\\100{}'", "the connection was closed in the middle of a message"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let error = connect(shell.spawn().unwrap(), "server").err().unwrap().to_string();
        let begin = format!("the connection to server was lost: {why}");
        assert!(error.starts_with(&begin), "{error}");
    }
}

#[test]
fn an_agent_that_is_started_by_hand_says_what_it_is() {
    let place = Place::new();
    let mut child = agent(&place, "hand").stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\x7f\x7f\x7f\x7fhello, what are you?").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is started by tachograph on another machine"), "{said}");
}

/// Starts a stack that ignores SIGTERM.
fn start(machine: &Arc<Machine>, place: &Place, marker: &str) -> far::Stack {
    machine.begin(&RunId("20261123-121530-far".to_owned())).unwrap();
    let process = Process {
        name: "stubborn".to_owned(),
        command: format!(
            "sh -c 'trap \"\" TERM; {TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT & \
             wait; wait'"
        ),
        ready: vec![ReadyCheck::Port("$PORT".to_owned())],
        stop_timeout: Nanos::from_secs(600),
        ..Process::default()
    };
    let stack = Stack { processes: vec![process], ..Stack::default() };
    let options = StackOptions {
        name: "stubborn".to_owned(),
        cpus: CpuSet::default(),
        client_cpus: CpuSet::default(),
        draws: stage::Draws::of(Seed(1)),
        host: spec::LOOPBACK.to_owned(),
        path_prepend: Vec::new(),
        files: None,
        working_dir: None,
        seed: Seed::from_time(),
    };
    let stack = far::Stack::start(machine, &stack, options).unwrap();
    assert!(processes_with_environment(marker).len() > 2);
    assert!(!place.leftovers().is_empty());
    stack
}

#[track_caller]
fn nothing_is_left(place: &Place, marker: &str) {
    // Ten seconds on an idle machine.
    support::nothing_is_left(marker, Duration::from_secs(60), || place.leftovers());
}

/// A stream that loses everything once it is cut, but does not end.
struct Lossy<T>(T, StopFlag);

impl<T> Lossy<T> {
    fn is_cut(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

impl<T: Read> Read for Lossy<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let count = self.0.read(buffer)?;
            if count == 0 || !self.is_cut() {
                return Ok(count);
            }
        }
    }
}

impl<T: Write> Write for Lossy<T> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_cut() { Ok(bytes.len()) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_network_that_goes_away_leaves_no_stack() {
    let (place, marker) = (Place::new(), marker("away"));
    let cut = StopFlag::default();
    let mut child = agent(&place, &marker).spawn().unwrap();
    let ends = Ends {
        reader: Box::new(Lossy(child.stdout.take().unwrap(), StopFlag::clone(&cut))),
        writer: Box::new(Lossy(child.stdin.take().unwrap(), StopFlag::clone(&cut))),
        transport: Box::new(Agent(child)),
    };
    let machine = Machine::connect("server", ends, VERSION, StopFlag::default()).unwrap();
    let machine = Arc::new(machine);
    let stack = start(&machine, &place, &marker);
    cut.store(true, Ordering::Relaxed);
    nothing_is_left(&place, &marker);
    let error = stack.expand("$PORT").unwrap_err().to_string();
    // Either end may be the first to give the other one up.
    assert!(error.starts_with("the connection to server was lost: "), "{error}");
}

#[test]
fn kill_9_of_an_agent_leaves_no_stack() {
    let (place, marker) = (Place::new(), marker("killed"));
    let child = agent(&place, &marker).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let machine = connect(child, "server").unwrap();
    let stack = start(&machine, &place, &marker);
    kill_process(pid, Signal::KILL).unwrap();
    let error = stack.stop().unwrap_err().to_string();
    assert!(error.starts_with("the connection to server was lost: "), "{error}");
    nothing_is_left(&place, &marker);
}
