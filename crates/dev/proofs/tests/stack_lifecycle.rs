//! Starting, readiness and stopping, with real processes.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{CpuSet, Nanos, Seed};
use spec::{FileTemplate, Process, ReadyCheck, Stack, StopSignal};
use stage::{Accounting, Draws, LiveStack, StageError, StartOptions};
use support::*;

const ONE_OF_EACH: &str = r#"
import http.server, os, socket, threading
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
socket_ = socket.socket(socket.AF_UNIX); socket_.bind(os.environ["SOCKET"]); socket_.listen()
open(os.environ["DIR"] + "/started", "w").close()
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
"#;

#[test]
fn ready_by_port_socket_http_and_file() {
    let scene = Scene::new();
    let ready = vec![
        ReadyCheck::Port("$PORT".to_owned()),
        ReadyCheck::Socket("$SOCKET".to_owned()),
        ReadyCheck::Http("http://127.0.0.1:${PORT}/x".to_owned()),
        ReadyCheck::File("$DIR/started".to_owned()),
    ];
    let live = scene
        .start_stack(Stack {
            files: vec![FileTemplate { path: "app/server.py".into(), text: ONE_OF_EACH.into() }],
            processes: vec![process("app", "python3 $DIR/app/server.py", ready)],
            needs: vec![("python3".into(), "apt install python3".into())],
            ..Stack::default()
        })
        .unwrap();
    live.check_alive().unwrap();
    assert_eq!(live.pids().len(), 1);
    let target = live.expand("http://127.0.0.1:$PORT/");
    let target = spec::Target::parse(&target).unwrap();
    let answer = stage::http::get(&target, std::time::Duration::from_secs(30)).unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
    let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
    let report = live.stop();
    assert_eq!(report.killed, Vec::<String>::new());
    assert_eq!(report.left, Vec::<String>::new());
    assert!(report.usage.unwrap().cpu > Nanos::ZERO);
    assert_nothing_left(&id, &dir);
}

#[test]
fn processes_start_in_order_and_stop_in_reverse() {
    let scene = Scene::new();
    let journal = scene.root.path().join("journal");
    let one = |name: &str, ready: &str| {
        let text = format!(
            "trap 'echo {name} stops >> {0}; exit' TERM; echo {name} starts >> {0}; touch $DIR/{ready}; while :; do sleep 0.05; done",
            journal.display()
        );
        let mut process = script(&text);
        process.name = name.to_owned();
        process.ready = vec![ReadyCheck::File(format!("$DIR/{ready}"))];
        process
    };
    let live = scene.start(vec![one("first", "a"), one("second", "b")]).unwrap();
    assert_eq!(live.stop().killed, Vec::<String>::new());
    assert_eq!(
        std::fs::read_to_string(journal).unwrap(),
        "first starts\nsecond starts\nsecond stops\nfirst stops\n"
    );
}

#[test]
fn variables_are_in_the_environment_and_padding_too() {
    let scene = Scene::new();
    let stack = Stack {
        processes: vec![script(
            "env > $DIR/env; cat /proc/$$/status > $DIR/status; mv $DIR/env $DIR/ready; sleep 1000",
        )],
        ..Stack::default()
    };
    let mut options = StartOptions::new("test", Seed(5));
    options.draws.env_padding_bytes = 1234;
    options.draws.hash_seed = 7;
    options.cpus = CpuSet::one(0);
    options.path_prepend = vec![PathBuf::from("/first")];
    options.extra_vars.insert("WHAT".to_owned(), "a b".to_owned());
    let live = scene.stage.start(&stack, options).unwrap();
    let env = std::fs::read_to_string(live.dir().join("ready")).unwrap();
    let value = |name: &str| {
        let line = env.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name} is missing")).to_owned()
    };
    assert_eq!(value("TACHOGRAPH_PADDING").len(), 1234);
    assert_eq!(value("PYTHONHASHSEED"), "7");
    assert_eq!(value("WHAT"), "a b");
    assert_eq!(value("CPUS"), "1");
    assert_eq!(value("TACHOGRAPH_STACK"), live.id());
    assert_eq!(value("TACHOGRAPH_RUN"), "20261121-071530-test");
    assert!(value("PATH").starts_with("/first:"));
    for name in ["PORT", "PORT9", "SOCKET", "SOCKET9", "DIR", "COUNTERS", "TACHOGRAPH"] {
        assert_eq!(live.expand(&format!("${name}")), value(name));
    }
    let status = std::fs::read_to_string(live.dir().join("status")).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"));
    assert_eq!(live.cpus_allowed_violation(), None);
}

#[test]
fn the_same_program_with_the_same_draws_gets_an_environment_of_the_same_lengths() {
    let scene = Scene::new();
    let environment = |seed, hash_seed: Option<&str>| {
        let mut process = script("env > $DIR/env; mv $DIR/env $DIR/ready; sleep 1000");
        let own = hash_seed.map(|seed| ("PYTHONHASHSEED".to_owned(), seed.to_owned()));
        process.env.extend(own);
        let stack = Stack { processes: vec![process], ..Stack::default() };
        let draws = Draws::of(Seed(5));
        let options = StartOptions { draws, ..StartOptions::new("test", Seed(seed)) };
        let live = scene.stage.start(&stack, options).unwrap();
        std::fs::read_to_string(live.dir().join("ready")).unwrap()
    };
    let lengths = |env: &str| -> Vec<usize> { env.lines().map(str::len).collect() };
    let (first, second) = (environment(1, None), environment(2, None));
    assert_ne!(first, second, "ports and folders differ");
    assert_eq!(lengths(&first), lengths(&second), "{first}\n{second}");
    let seed = format!("PYTHONHASHSEED={}\n", Draws::of(Seed(5)).hash_seed);
    assert!(first.contains(&seed) && second.contains(&seed), "{first}");
    let third = environment(3, Some("0"));
    assert!(third.contains("PYTHONHASHSEED=0\n"), "what the experiment sets is kept: {third}");
}

#[test]
fn a_crash_at_start_shows_the_end_of_the_log() {
    let scene = Scene::new();
    let error =
        scene.start(vec![script("echo starting; echo no such module >&2; exit 3")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'script' exited with status 3 before it was ready (`sh -c 'eval \"$SCRIPT\"'`). End of \
         its output:\n  | starting\n  | no such module"
    );
    let error = scene.start(vec![script("kill -SEGV $$")]).unwrap_err().to_string();
    assert!(error.starts_with("'script' was killed by SIGSEGV before it was ready"), "{error}");
    assert_eq!(scene.stacks(), Vec::<PathBuf>::new());
}

#[test]
fn an_early_end_with_status_0_is_no_server() {
    let scene = Scene::new();
    let error = scene.start(vec![process("app", "true", port())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'app' exited with status 0 before it was ready (`true`); a server must run in the \
         foreground until it is stopped; it printed nothing"
    );
}

#[test]
fn never_ready_says_what_was_waited_for() {
    let scene = Scene::new();
    let mut process = script("echo still loading; sleep 1000");
    process.ready_timeout = Nanos::from_secs(3);
    let error = scene.start(vec![process]).unwrap_err().to_string();
    let (before, after) = error.split_once("/tmp/st").unwrap();
    assert_eq!(before, "'script' was not ready after 3.00 s: waiting for the file ");
    assert!(
        after.ends_with(
            "/ready, but it does not exist; --ready-timeout, or ready_timeout in an experiment, allows more time. End of its output:\n  | still loading"
        ),
        "{after}"
    );
    assert_eq!(scene.stacks(), Vec::<PathBuf>::new());
}

#[test]
fn a_server_that_answers_500_is_not_ready() {
    let scene = Scene::new();
    let server = ONE_OF_EACH.replace("200", "503");
    let mut app = process(
        "app",
        "python3 $DIR/server.py",
        vec![
            ReadyCheck::File("$DIR/started".into()),
            ReadyCheck::Http("http://127.0.0.1:$PORT/".into()),
        ],
    );
    app.ready_timeout = Nanos::from_secs(10);
    let stack = Stack {
        files: vec![FileTemplate { path: "server.py".into(), text: server }],
        processes: vec![app],
        ..Stack::default()
    };
    let error = scene.start_stack(stack).unwrap_err().to_string();
    assert!(
        error.contains("was not ready after 10.0 s: waiting for an answer from http://127.0.0.1:"),
        "{error}"
    );
    assert!(error.contains("but it answered with status 503"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_remedy() {
    let scene = Scene::new();
    let need = |file: &str| vec![(file.to_owned(), "apt install it".to_owned())];
    let stack = |file| Stack { needs: need(file), ..Stack::default() };
    assert_eq!(
        scene.start_stack(stack("/no/such/module.so")).unwrap_err().to_string(),
        "'test': there is no file /no/such/module.so; to install it: apt install it"
    );
    scene.start_stack(stack("/etc/passwd")).unwrap();
}

#[test]
fn a_command_that_is_not_there_is_named_with_its_remedy() {
    let scene = Scene::new();
    let error = scene.start(vec![process("app", "no-such-server --x", port())]).unwrap_err();
    assert_eq!(error.to_string(), "'app': there is no program 'no-such-server' on PATH");
    let stack = Stack {
        processes: vec![process("app", "no-such-server > x", port())],
        needs: vec![("no-such-server".to_owned(), "apt install it".to_owned())],
        ..Stack::default()
    };
    assert_eq!(
        scene.start_stack(stack).unwrap_err().to_string(),
        "'test': there is no program 'no-such-server' on PATH; to install it: apt install it"
    );
    let error = scene.start(vec![process("app", "true && no-such-server", port())]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("exited with status 127") && text.contains("means \"command not found\""),
        "{text}"
    );
    assert_eq!(scene.stacks(), Vec::<PathBuf>::new());
}

#[test]
fn a_port_in_use_is_distinguished_and_its_holder_named() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = scene
        .start(vec![process("app", "sleep 1000", vec![ReadyCheck::Port(port.to_string())])])
        .unwrap_err();
    assert!(error.is_address_in_use());
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("'app': port {port} of 127.0.0.1 is already in use by ")),
        "{text}"
    );
    assert!(text.contains(&format!("(pid {})", std::process::id())), "{text}");
    // A server that finds out only when it binds.
    let command =
        format!("python3 -c 'import socket; socket.create_server((\"127.0.0.1\", {port}))'");
    let error = scene
        .start(vec![process("app", &command, vec![ReadyCheck::File("$DIR/never".to_owned())])])
        .unwrap_err();
    assert!(error.is_address_in_use(), "{error}");
}

#[test]
fn a_socket_path_that_is_too_long_is_refused_before_the_start() {
    let scene = Scene::new();
    let path = format!("/tmp/{}.sock", "x".repeat(120));
    let error = scene
        .start(vec![process("app", "sleep 1000", vec![ReadyCheck::Socket(path.clone())])])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "'app': the socket path {path} has 130 bytes, and the kernel's limit is 107. Use \
             $SOCKET or a shorter path"
        )
    );
}

#[test]
fn malformed_stacks_are_refused() {
    let scene = Scene::new();
    let error = scene.start(vec![process("app", "x 'y", port())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'app': the command `x 'y` cannot be run: a quotation mark is not closed"
    );
    let error = scene.start(vec![process("app", "sleep 9", vec![ReadyCheck::Port("web".into())])]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "'app': its readiness check cannot be used: 'web' is neither a port nor host:port"
    );
    for path in ["../x", "/x", ""] {
        let stack = Stack {
            files: vec![FileTemplate { path: path.to_owned(), text: String::new() }],
            ..Stack::default()
        };
        let error = scene.start_stack(stack).unwrap_err();
        assert!(matches!(&error, StageError::BadFile(bad) if bad == path), "{error}");
    }
}

/// The CPUs that a process of a stack may use, as it wrote them itself.
fn cpus_of(live: &LiveStack, name: &str) -> String {
    let status = std::fs::read_to_string(live.dir().join(name)).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

#[test]
fn a_process_beside_the_client_has_the_clients_cpus() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let scene = Scene::new();
    let writes = |name: &str, beside_client| {
        let text = format!("cat /proc/$$/status > $DIR/s; mv $DIR/s $DIR/{name}; sleep 1000");
        let ready = vec![ReadyCheck::File(format!("$DIR/{name}"))];
        Process { ready, beside_client, ..script(&text) }
    };
    let processes = vec![writes("app", false), writes("proxy", true)];
    let mut options = StartOptions::new("test", Seed(5));
    (options.cpus, options.client_cpus) = (CpuSet::one(0), CpuSet::one(1));
    let stack = Stack { processes, ..Stack::default() };
    let live = scene.stage.start(&stack, options).unwrap();
    assert_eq!((cpus_of(&live, "app"), cpus_of(&live, "proxy")), ("0".to_owned(), "1".to_owned()));
    assert_eq!(live.cpus_allowed_violation(), None);
}

#[test]
fn a_cpu_that_does_not_exist_is_refused() {
    let scene = Scene::new();
    let mut options = StartOptions::new("test", Seed(5));
    options.cpus = CpuSet::one(900);
    let error = scene.stage.start(&Stack::default(), options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the process that guards the stack failed: CPU 900 is not available; `nproc` prints the \
         number of CPUs"
    );
}

#[test]
fn a_stop_request_is_noticed_while_a_stack_starts() {
    let scene = Scene::new();
    let mut options = StartOptions::new("test", Seed(5));
    options.stop = Arc::new(AtomicBool::new(true));
    let stack = Stack { processes: vec![script("sleep 1000")], ..Stack::default() };
    let error = scene.stage.start(&stack, options).unwrap_err();
    assert!(error.is_interruption());
    assert_eq!(scene.stacks(), Vec::<PathBuf>::new());
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_and_reported() {
    let scene = Scene::new();
    let mut process = script("trap '' TERM; touch $DIR/ready; while :; do sleep 0.05; done");
    process.stop_timeout = Nanos::from_millis(200);
    let live = scene.start(vec![process]).unwrap();
    let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
    assert_eq!(
        live.stop().killed,
        ["'script' did not stop within 200 ms of SIGTERM and was killed"]
    );
    assert_nothing_left(&id, &dir);
}

#[test]
fn the_stop_signal_is_the_one_that_was_asked_for() {
    let scene = Scene::new();
    let witness = scene.root.path().join("witness");
    let text = format!(
        "trap 'echo quit > {}; exit' QUIT; trap '' TERM; touch $DIR/ready; while :; do sleep 0.05; done",
        witness.display()
    );
    let mut process = script(&text);
    process.stop_signal = StopSignal::Quit;
    assert_eq!(scene.start(vec![process]).unwrap().stop().killed, Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(witness).unwrap(), "quit\n");
}

#[test]
fn children_that_outlive_their_parent_are_ended_too() {
    let scene = Scene::new();
    let mut process = script(
        "(trap '' TERM; exec sleep 1000) & setsid sh -c 'sleep 1001 & sleep 1002' & touch $DIR/ready; wait",
    );
    // Long enough for the shell itself to end on a busy machine.
    process.stop_timeout = Nanos::from_secs(30);
    let live = scene.start(vec![process]).unwrap();
    eventually("five processes", || live.pids().len() == 5);
    let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
    let killed = live.stop().killed;
    assert_eq!(killed, ["what 'script' had started did not stop with it and was killed"]);
    assert_nothing_left(&id, &dir);
}

/// Forks twice, starts its own session, closes everything and discards its environment, as nginx
/// does as a daemon.
const DAEMON: &str = r#"
import os, socket, sys, time
if len(sys.argv) == 1:
    port, die = os.environ["PORT"], os.environ["DIR"] + "/die"
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    os.closerange(0, 100)
    time.sleep(0.1)
    os.execve(sys.executable, [sys.executable, sys.argv[0], port, die], {})
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
"#;

fn daemon() -> Stack {
    let process = process("daemon", "python3 $DIR/daemon.py", port());
    Stack {
        files: vec![FileTemplate { path: "daemon.py".into(), text: DAEMON.into() }],
        processes: vec![process],
        ..Stack::default()
    }
}

#[test]
fn a_stack_that_goes_into_the_background_is_still_ours() {
    let scene = Scene::counting(Accounting::ProcessTree);
    let live = scene.start_stack(daemon()).unwrap();
    live.check_alive().unwrap();
    assert_eq!(live.pids().len(), 1);
    let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
    assert_eq!(live.stop().killed, Vec::<String>::new(), "SIGTERM reaches the daemon itself");
    assert_nothing_left(&id, &dir);
}

#[test]
fn the_end_of_what_went_into_the_background_is_noticed() {
    let scene = Scene::new();
    let live = scene.start_stack(daemon()).unwrap();
    live.check_alive().unwrap();
    std::fs::write(live.dir().join("die"), "").unwrap();
    eventually("the daemon's end", || live.check_alive().is_err());
    assert_eq!(
        live.check_alive().unwrap_err().to_string(),
        "'daemon' ended in the background while it was being measured; it printed nothing"
    );
}

#[test]
fn a_death_while_measuring_is_reported_with_the_end_of_the_log() {
    let scene = Scene::new();
    let live = scene
        .start(vec![script("touch $DIR/ready; while [ ! -e $DIR/die ]; do sleep 0.02; done; echo out of luck; exit 7")])
        .unwrap();
    live.check_alive().unwrap();
    std::fs::write(live.dir().join("die"), "").unwrap();
    eventually("its death", || live.check_alive().is_err());
    assert_eq!(
        live.check_alive().unwrap_err().to_string(),
        "'script' exited with status 7 while it was being measured. End of its output:\n  | out \
         of luck"
    );
}

#[test]
fn a_stack_that_writes_a_lot_neither_blocks_nor_floods_the_error() {
    let scene = Scene::new();
    let live = scene
        .start(vec![script(
            "seq 1 2000000; printf '\\033[31mred\\n'; touch $DIR/ready; sleep 1000",
        )])
        .unwrap();
    assert_eq!(live.log_tail(2), ["script: 2000000", "script: [31mred"]);
    assert_eq!(live.stop().killed, Vec::<String>::new());
}
