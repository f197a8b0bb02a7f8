//! Actions during the load: what they cost is counted exactly, and what they start is cleaned up.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    self, Place, eventually, nothing_is_left, processes_with_environment, turn, wait,
};

/// A server for one connection after another that closes each after its response.
///
/// On SIGUSR1 it closes the next seven connections without a response, counted as served or not. On
/// SIGUSR2 it starts itself again with its listening socket; on SIGTERM it ends after the current
/// request. As with gunicorn's second pid file, the new server has a file until the old one has ended.
const SERVER: &str = r#"
import os, select, signal, socket, subprocess, sys
from tachograph_counter import counter

port, counts_dropped, told = int(sys.argv[1]), sys.argv[2] == "counts", sys.argv[3]
second, parent = sys.argv[4], os.getppid()
drops, ending = 0, False

def drop(*_):
    global drops
    drops += 7

def end(*_):
    global ending
    ending = True

def upgrade(*_):
    os.set_inheritable(server.fileno(), True)
    env = dict(os.environ, LISTEN=str(server.fileno()))
    subprocess.Popen([sys.executable, *sys.argv], env=env, close_fds=False)
    open(told, "w").close()

inherited = os.environ.get("LISTEN")
if inherited:
    server = socket.socket(fileno=int(inherited))
else:
    server = socket.create_server(("127.0.0.1", port), backlog=128)
server.setblocking(False)
signal.signal(signal.SIGUSR1, drop)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR2, upgrade)
if inherited:
    open(second, "w").close()
hit = counter()
while not ending:
    if inherited and os.getppid() != parent:
        inherited = None
        os.remove(second)
    if not select.select([server], [], [], 0.05)[0]:
        continue
    try:
        connection = server.accept()[0]
    except BlockingIOError:
        continue
    connection.setblocking(True)
    if connection.recv(65536):
        if drops:
            drops -= 1
            if counts_dropped:
                hit()
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            hit()
    connection.close()
"#;

/// An experiment of these variants, with two seconds of open loop per trial.
fn experiment(place: &Place, window: &str, variants: &str) -> String {
    place.write("server.py", SERVER);
    let told = place.path("upgraded");
    let text = format!(
        r#"
[experiment]
name = "x"
title = "Actions"
question = "What is lost?"
offers = [{{ open = "200/s", arrivals = "uniform" }}]

[load]
connections = 10

[schedule]
window = "{window}"
pilot_blocks = 2
max_blocks = 2

[stack.server]
target = "http://127.0.0.1:$PORT/"
served_by = "wsgi"
process = {{ command = "python3 $FILES/server.py $PORT $COUNTS {} $DIR/second", ready = "127.0.0.1:$PORT" }}
vars = {{ COUNTS = "forgets" }}
{variants}"#,
        told.display()
    );
    place.write("x.toml", &text).display().to_string()
}

fn disruption<'a>(report: &'a Value, variant: &str) -> (&'a Value, &'a Value) {
    let variants = report["variants"].as_array().unwrap();
    let variant = variants.iter().find(|v| v["name"] == variant).unwrap();
    let trials = variant["trials"].as_array().unwrap();
    (variant, trials.iter().map(|trial| &trial["disruption"]).find(|of| !of.is_null()).unwrap())
}

fn lost(disruption: &Value) -> Vec<u64> {
    let actions = disruption["actions"].as_array().unwrap();
    actions.iter().map(|action| action["lost"].as_u64().unwrap()).collect()
}

#[test]
fn exactly_the_requests_that_a_server_drops_on_a_signal_are_reported() {
    let _turn = turn();
    let place = Place::new();
    let variants = r#"
[[variant]]
name = "drops"
stack = "server"
action = { name = "drop", signal = "USR1", at = "500ms", every = "700ms", times = 2 }

[[variant]]
name = "counts-and-drops"
stack = "server"
vars = { COUNTS = "counts" }
action = { name = "drop", command = "kill -USR1 $PID", at = "500ms" }

[[variant]]
name = "left-alone"
stack = "server"
"#;
    let file = experiment(&place, "2s", variants);
    let json = place.path("x.json").display().to_string();
    let ended = place.run(&["run", &file, "--quick", "--max-time", "1s", "--export-json", &json]);
    ended.status(0);
    ended.prints("drops lost 14 requests in 2 actions; counts-and-drops lost 7 requests in 1");
    ended.prints("drops: drop (SIGUSR1) at ");
    ended.prints("completed + 7 of the lost");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["verdict"], "ok", "{}", report["reasons"]);
    assert_eq!(report["comparisons"].as_array().unwrap().len(), 0, "the losses are the result");

    let (variant, of) = disruption(&report, "drops");
    assert_eq!((lost(of), &of["lost_before"]), (vec![7, 7], &Value::from(0)));
    let ledger = &variant["ledger"];
    assert_eq!(ledger["failed"], 14);
    assert_eq!(ledger["served"], ledger["completed"]);
    assert_eq!(variant["errors"]["closed before a response"], 14);
    assert!(of["longest_wait_ns"].as_u64() > Some(0));
    let step = &of["actions"][0]["steps"][0];
    assert_eq!((&step["what"], &step["outcome"]), (&"SIGUSR1".into(), &"signalled".into()));

    let (variant, of) = disruption(&report, "counts-and-drops");
    assert_eq!(lost(of), [7]);
    let count = |name: &str| variant["ledger"][name].as_u64().unwrap();
    assert_eq!(count("served"), count("completed") + 7);
    assert_eq!(of["actions"][0]["steps"][0]["status"], 0);

    let sql =
        "(SELECT * FROM action JOIN disruption USING (trial) WHERE name = 'drop' AND failed = 7)";
    assert_eq!(place.rows(sql), 3);
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_server_that_replaces_itself_stays_a_part_of_its_stack() {
    let _turn = turn();
    let place = Place::new();
    let marker = format!("tachograph-test-replaces-{}", std::process::id());
    let variants = r#"
[[variant]]
name = "upgraded"
stack = "server"

[variant.action]
name = "upgrade"
command = "while test -e $DIR/second; do sleep 0.05; done"
then = [
    { signal = "USR2" },
    { command = "until test -e $DIR/second; do sleep 0.05; done" },
    { after = "300ms", signal = "TERM" },
]
at = "300ms"
every = "1s"
times = 2
"#;
    let file = experiment(&place, "8s", variants);
    let mut command = place.command(&["run", &file, "--quick", "--max-time", "1s", "--json"]);
    command.env("TACHOGRAPH_TEST_MARKER", &marker);
    let ended = place.finish(command);
    ended.status(0);
    let report = ended.json();
    let (variant, of) = disruption(&report, "upgraded");
    // The second upgrade reached the server that the first one had started.
    let pid = |action: usize, step: usize| of["actions"][action]["steps"][step]["pid"].as_u64();
    assert_eq!(pid(0, 1), pid(0, 3));
    assert_ne!(pid(0, 1), pid(1, 1));
    assert_eq!(pid(1, 1), pid(1, 3));
    assert_eq!((lost(of), &of["new_processes"]), (vec![0, 0], &Value::from(1)), "{of:#}");
    assert_eq!(variant["ledger"]["served"], variant["ledger"]["completed"]);
    assert!(variant["trials"][0]["stack_cpu_ns"].as_u64() > Some(0));
    assert_eq!(processes_with_environment(&marker), Vec::<u32>::new());
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn nothing_is_left_of_an_upgrade_that_is_cut_off() {
    for signal in [Signal::INT, Signal::KILL] {
        let place = Place::new();
        let marker = format!("tachograph-test-cut-{}-{}", signal.as_raw(), std::process::id());
        let variants = r#"
[[variant]]
name = "upgraded"
stack = "server"
action = { name = "upgrade", signal = "USR2", then = { after = "60s", signal = "TERM" }, at = "10ms" }
"#;
        let file = experiment(&place, "70s", variants);
        let mut command = place.command(&["run", &file, "--quick", "--max-time", "1s"]);
        command.env("TACHOGRAPH_TEST_MARKER", &marker);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Both the old server and the new one are running.
        eventually("the upgrade", || place.path("upgraded").exists());
        support::signal(child.id(), signal);
        let ended = wait(child, Duration::from_secs(60));
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        nothing_is_left(&marker, Duration::from_secs(60), || place.leftovers());
    }
}

#[test]
fn an_action_that_fails_makes_its_variant_invalid() {
    let place = Place::new();
    let variants = r#"
[[variant]]
name = "fails"
stack = "server"
action = { name = "reload", command = "echo no such master >&2; exit 3", at = "100ms" }
"#;
    // An action that is still running when its trial ends is another fault.
    let file = experiment(&place, "3s", variants);
    let ended = place.run(&["run", &file, "--quick", "--max-time", "1s"]);
    let words = "INVALID: the action reload echo no such master >&2; exit 3 ended with status 3";
    ended.status(1).prints(words).prints("no such master (block 1)");
}
