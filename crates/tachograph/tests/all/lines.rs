//! Messages of lines: what was sent is what arrived, plus what the receiver's kernel discarded; a
//! receiver that counts anything else makes its variant INVALID.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Ended, Place, turn, wait};

/// Runs an experiment for one short block.
fn run(place: &Place, args: &[&str]) -> Ended {
    let mut command = place.command(&["run", "--quick", "--max-time", "1s", "--json"]);
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A debug build of the recorder takes a while for what a closed loop sends in a second.
    wait(child, Duration::from_secs(400))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn count(ledger: &Value, column: &str) -> u64 {
    ledger[column].as_u64().unwrap_or_else(|| panic!("{column} of {ledger}"))
}

/// The names of checks that make a variant invalid.
fn reasons<'a>(report: &'a Value, variant: &str) -> Vec<&'a str> {
    let findings = list(&report["validity"]).iter();
    findings
        .filter(|found| found["severity"] == "invalid" && found["variant"] == variant)
        .map(|found| found["check"].as_str().unwrap())
        .collect()
}

#[test]
fn the_recorder_is_measured_over_its_own_transports() {
    let place = Place::new();
    let report = run(&place, &["recorder-transports", "--only", "tcp", "--only", "udp"]).json();
    let variants = list(&report["variants"]);
    assert_eq!(variants.len(), 2);
    for variant in variants {
        let (name, ledger) = (&variant["name"], &variant["ledger"]);
        assert_eq!(variant["skipped"], Value::Null, "{name}");
        assert!(count(ledger, "completed") > 0, "{name}: {ledger}");
        let arrived = count(ledger, "served") + ledger["discarded"].as_u64().unwrap_or(0);
        assert_eq!(arrived, count(ledger, "sent"), "{name}: {ledger}");
        assert_eq!(arrived, count(ledger, "completed"), "{name}: {ledger}");
        assert_eq!(ledger["discarded"].is_u64(), name == "udp", "{ledger}");
        for trial in list(&variant["trials"]) {
            let ledger = &trial["ledger"];
            let arrived = count(ledger, "served") + count(ledger, "discarded");
            assert_eq!(arrived, count(ledger, "completed"), "{name}: {ledger}");
        }
    }
    assert_eq!(place.leftovers(), Vec::<std::path::PathBuf>::new());
}

/// Sum of a ledger's column over all sessions.
fn sum(place: &Place, column: &str) -> u64 {
    let query = "select cast(sum(value ->> '$.ledger.COLUMN') as text)
                 from block, json_each(block.json, '$.lives')";
    place.sql(&query.replace("COLUMN", column))[0].parse().unwrap()
}

#[test]
fn every_point_that_arrived_is_in_sqlite() {
    let _turn = turn();
    let place = Place::new();
    let records = place.path("records");
    std::fs::create_dir(&records).unwrap();
    let text = r#"
variant = [
    { name = "tcp", stack = "recorder", vars = { LISTEN = "tcp://127.0.0.1:$PORT" } },
    { name = "unix-dgram", stack = "recorder", vars = { LISTEN = "unix-dgram:$SOCKET" } },
]
[experiment]
name = "x"
title = "Lines"
question = "Is every line in the record?"
offers = [{ open = "200/s", arrivals = "uniform" }]
[load]
exchange = "lines"
lines = 2
series = 20
prefix = "a"
connections = 1
timeout = "60s"
[stack.recorder]
target = "$LISTEN"
served_by = { url = "http://127.0.0.1:$PORT2/metrics", pattern = 'tachograph_updates_total (\d+)', per_request = 2 }
[stack.recorder.process]
command = "$TACHOGRAPH --record RECORDS/$PORT-$PORT2.sqlite serve --http 127.0.0.1:$PORT2 --graphite $LISTEN --no-pickle --no-statsd"
ready = "http://127.0.0.1:$PORT2/health"
stop_timeout = "200s"
"#;
    let file = place.write("x.toml", &text.replace("RECORDS", &records.display().to_string()));
    let report = run(&place, &[file.to_str().unwrap()]).json();
    for name in ["tcp", "unix-dgram"] {
        assert_eq!(reasons(&report, name), Vec::<&str>::new(), "{}", report["validity"]);
    }
    let names: Vec<String> = (0..20).map(|series| format!("a.{series:06}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut points = 0;
    for file in std::fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "sqlite") {
            let of_file = proofs::daemon::points(file.to_str().unwrap(), &names).unwrap();
            points += of_file.iter().sum::<i64>() as u64;
        }
    }
    // Of all sessions, those of the calibration included.
    let served = sum(&place, "served");
    assert!(served > 0);
    assert_eq!(points, 2 * served);
    assert_eq!(served, sum(&place, "sent"));
}

/// A receiver of datagrams with a small buffer, and its page: the lines that it has read and the
/// datagrams that the kernel has discarded, if it tells the truth.
const RECEIVER: &str = r#"
import http.server, socket, sys, threading

port, page_port, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(("127.0.0.1", port))
lines = 0

def receive():
    global lines
    while True:
        lines += receiver.recv(65536).count(b"\n")

def discarded():
    with open("/proc/net/udp") as table:
        for row in table.readlines()[1:]:
            fields = row.split()
            if fields[1].endswith(":%04X" % port):
                return int(fields[-1])

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = lines + {"few": -1, "many": 1}.get(mode, 0) * (lines > 0)
        lost = 0 if mode == "hides" else discarded()
        body = f"lines {told}\ndiscarded {lost}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

threading.Thread(target=receive, daemon=True).start()
http.server.HTTPServer(("127.0.0.1", page_port), Page).serve_forever()
"#;

#[test]
fn a_loss_is_a_result_and_a_loss_that_nothing_counted_is_invalid() {
    let _turn = turn();
    let place = Place::new();
    place.write("receiver.py", RECEIVER);
    let text = r#"
[experiment]
name = "x"
title = "Lines"
question = "What is lost?"
offers = ["closed"]
[load]
exchange = "lines"
lines = 3
connections = 1
timeout = "1s"
[schedule]
isolated = true
[stack.receiver]
target = "udp://127.0.0.1:$PORT"
served_by = { url = "http://127.0.0.1:$PORT2/", pattern = 'lines (\d+)', discarded = 'discarded (\d+)', per_request = 3 }
process = { command = "python3 $FILES/receiver.py $PORT $PORT2 $MODE", ready = "http://127.0.0.1:$PORT2/" }
[[variant]]
name = "$MODE"
stack = "receiver"
each = { MODE = ["honest", "few", "many", "hides"] }
"#;
    let file = place.write("x.toml", text);
    let ended = run(&place, &[file.to_str().unwrap()]);
    let report = ended.status(1).json();
    let honest = &list(&report["variants"])[0];
    let ledger = &honest["ledger"];
    assert!(count(ledger, "served") > 0 && count(ledger, "discarded") > 0, "{ledger}");
    let arrived = count(ledger, "served") + count(ledger, "discarded");
    assert_eq!(arrived, count(ledger, "completed"), "{ledger}");
    assert_eq!(reasons(&report, "honest"), Vec::<&str>::new(), "{}", report["validity"]);
    for liar in ["few", "many", "hides"] {
        let reasons = reasons(&report, liar);
        assert!(reasons.contains(&"ledger"), "{liar}: {reasons:?} {}", report["validity"]);
    }
    let told =
        list(&report["validity"]).iter().find(|found| found["check"] == "discarded").unwrap();
    let sentence = told["sentence"].as_str().unwrap();
    assert!(sentence.contains("its kernel discarded"), "{sentence}");
    // The throughput is that of the messages that arrived, in the rounds that are not left out.
    for trial in list(&honest["trials"]) {
        let number = |key: &str| trial[key].as_f64().unwrap();
        let in_windows = number("throughput_per_s") * number("window_ns") / 1e9;
        let served = trial["ledger"]["served"].as_f64().unwrap();
        assert!(in_windows < served + 0.5, "{in_windows} of {served}");
    }
}
