//! `tachograph compare` with the built-in server, and its report in a browser.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    Ended, Place, TACHOGRAPH, UNHURRIED, assert_valid, eventually, free_port, signal, wait,
};

fn compare(place: &Place, further: &[&str]) -> Ended {
    let tcp = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
    let unix = format!("{TACHOGRAPH} serve-fixture --listen unix:$SOCKET {UNHURRIED}");
    let mut args = vec!["compare", "--quick", "--max-time", "1s", &tcp, &unix];
    args.extend(further);
    place.run(&args)
}

#[test]
fn everything_that_is_exported_is_there_and_what_the_schema_says() {
    let place = Place::new();
    let ended = compare(
        &place,
        &[
            "--json",
            "--export-html",
            "r.html",
            "--export-markdown",
            "r.md",
            "--export-csv",
            "r.csv",
            "--export-json",
            "r.json",
        ],
    );
    let json = ended.json();
    assert_valid("compare-2.json", &json);
    assert_eq!(json["variants"][0]["name"], "tcp");
    assert_eq!(json["variants"][1]["name"], "unix");
    for file in ["r.html", "r.md", "r.csv", "r.json"] {
        assert!(std::fs::metadata(place.path(file)).unwrap().len() > 100, "{file}");
    }

    // The recorded run gives the same report.
    place.run(&["list"]).status(0).prints("tcp");
    let again = place.run(&["report", "last", "--json"]).json();
    assert_eq!(again["variants"], json["variants"]);
    assert_eq!(again["comparisons"], json["comparisons"]);
    assert!(place.leftovers().is_empty());

    in_a_browser(&place, "r.html");
}

/// Opens the report in headless Chromium: it renders without network access.
fn in_a_browser(place: &Place, file: &str) {
    let profile = place.path("profile");
    let log = place.path("net.json");
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", place.path(file).display()))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("chromium does not start ({error}); install it with: sudo apt install chromium")
        });
    let page = String::from_utf8_lossy(&output.stdout);
    for wanted in ["<svg", "tcp", "unix", "requests/s", "Ledger", "</html>"] {
        assert!(page.contains(wanted), "the page lacks {wanted}");
    }
    // The file is self-contained: no external script, image or font.
    let source = std::fs::read_to_string(place.path(file)).unwrap();
    for remote in ["src=\"http", "href=\"http", "url(http", "@import", "<script"] {
        assert!(!source.contains(remote), "the page fetches something: {remote}");
    }
}

#[test]
fn a_threshold_decides_the_exit_status() {
    let place = Place::new();
    let ended = compare(&place, &["--fail-if", "unix.errors >= 0"]);
    ended.status(1).says("unix.errors >= 0");
}

#[test]
fn too_few_blocks_were_said_to_be_well() {
    let place = Place::new();
    let few = |further: &[&str]| {
        let server =
            format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
        let args = ["compare", "--quick", "--max-time", "1s", "--closed-only"];
        place.run(&[&args[..], &[&server, &server, "-n", "a", "-n", "b"], further].concat())
    };
    let conditions = ["--json", "--fail-if", "b.errors > 0", "--fail-if", "b.p99 > 100 * a.p99"];
    let ended = few(&[&conditions[..], &["--fail-if-inconclusive"]].concat());
    let json = ended.status(2).json();
    assert_eq!(json["verdict"], "incomplete");
    let reason = json["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("too few blocks for a verdict ("), "{reason}");
    ended
        .says(&format!(
            "error: {reason}; allow more time with --max-time (the data so far are recorded)"
        ))
        .says("inconclusive: b.errors > 0 (only ")
        .says("inconclusive: b.p99 > 100 * a.p99 (only ");
    assert!(!ended.err.contains("not triggered"), "{}", ended.err);
    // What was counted can fail from the first block, and the report ends as the run did.
    few(&["--fail-if", "b.errors >= 0"])
        .status(1)
        .says("triggered: b.errors >= 0 (errors of b: 0)");
    place.run(&["report", "last"]).status(2).prints("Too few blocks for a verdict");
}

#[test]
fn a_server_on_another_port_was_waited_for_half_a_minute() {
    let place = Place::new();
    let port = free_port();
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:{port}");
    let ended = place.run(&["compare", "--quick", &server, &server, "-n", "a", "-n", "b"]);
    ended
        .status(2)
        .says(&format!(
            "note: the command '{server}' does not mention $PORT; it is given by the environment \
             variable PORT\n"
        ))
        .says(&format!("listens on port {port}, not on the port it was given (PORT="))
        .says("): write $PORT in the command, in single quotes");
    assert!(place.leftovers().is_empty());
}

#[test]
fn a_server_that_reads_its_port_from_the_environment_is_compared() {
    let place = Place::new();
    // Its metrics have a port of their own, open before the other one.
    let text = "import http.server, os, socket\n\
                metrics = socket.create_server(('127.0.0.1', 0))\n\
                handler = http.server.SimpleHTTPRequestHandler\n\
                handler.wbufsize = -1\n\
                address = ('127.0.0.1', int(os.environ['PORT']))\n\
                http.server.HTTPServer(address, handler).serve_forever()\n";
    let script = place.write("server.py", text);
    let server = format!("python3 {}", script.display());
    let quick = ["compare", "--quick", "--max-time", "1s", "--closed-only"];
    let ended = place.run(&[&quick[..], &[&server, &server, "-n", "a", "-n", "b"]].concat());
    ended.measured().says("does not mention $PORT; it is given by the environment");
}

#[test]
fn two_servers_that_need_no_python_failed_for_want_of_a_python_cache() {
    let place = Place::new();
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
    let compare = |further: &[&str]| {
        let quick = ["compare", "--quick", "--max-time", "1s", "--closed-only"];
        let servers = [server.as_str(), &server, "-n", "a", "-n", "b"];
        let mut command = place.command(&[&quick[..], &servers, further].concat());
        command.env("XDG_CACHE_HOME", "/dev/null");
        place.finish(command)
    };
    compare(&[]).measured();
    let needed = compare(&["--served-by", "wsgi"]);
    needed
        .status(2)
        .says("error: cannot write /dev/null/tachograph")
        .says("XDG_CACHE_HOME chooses");
}

/// A comparison that runs until stopped, with additional arguments.
fn long_comparison(place: &Place, further: &[&str]) -> Child {
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT {UNHURRIED}");
    let args = ["compare", "--quick", &server, &server, "-n", "a", "-n", "b"];
    let mut command = place.command(&[&args[..], further].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The first line with `text` on a child's standard error.
fn line_with(child: &mut Child, text: &str) -> String {
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    lines.find_map(|line| line.ok().filter(|line| line.contains(text))).unwrap()
}

#[test]
fn a_second_measurement_waits_and_names_the_first() {
    let place = Place::new();
    let first = long_comparison(&place, &[]);
    let pid = first.id();
    eventually("a run on record", || place.rows("run") == 1);

    let refused = wait(long_comparison(&place, &["--no-wait"]), LIMIT);
    refused
        .status(2)
        .says(&format!("another tachograph is measuring on this machine (pid {pid}, since 2"));
    refused.says("two at once would disturb each other. Omit --no-wait to wait for it");

    let mut second = long_comparison(&place, &[]);
    let line = line_with(&mut second, "note: waiting for another measurement");
    assert!(line.contains(&format!("(pid {pid}, since 2")), "{line}");
    assert!(line.contains("UTC: ") && line.contains(" compare --quick "), "{line}");
    assert!(line.ends_with("use --no-wait to fail instead"), "{line}");

    // A third one is stopped while it waits.
    let mut third = long_comparison(&place, &[]);
    line_with(&mut third, "note: waiting for another measurement");
    signal(third.id(), Signal::INT);
    let stopped = wait(third, LIMIT);
    stopped.status(2).says("stopped while waiting for another measurement");

    signal(first.id(), Signal::INT);
    wait(first, LIMIT).status(2);
    line_with(&mut second, "note: the other measurement has ended");
    eventually("the second run on record", || place.rows("run") == 2);
    signal(second.id(), Signal::INT);
    wait(second, LIMIT).status(2);
}

#[test]
fn measurements_on_different_cpus_run_side_by_side() {
    let place = Place::new();
    let first = long_comparison(&place, &["--cpus", "0"]);
    eventually("a run on record", || place.rows("run") == 1);
    let second = long_comparison(&place, &["--cpus", "1", "--no-wait"]);
    eventually("the second run on record", || place.rows("run") == 2);
    for child in [first, second] {
        signal(child.id(), Signal::INT);
        wait(child, LIMIT).status(2);
    }
}

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn a_seed_repeats_the_order() {
    let order = || {
        let place = Place::new();
        compare(&place, &["--seed", "7", "--closed-only"]);
        place.sql("select json -> 'order' from block where block = 1").remove(0)
    };
    let read = |text: String| serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap();
    let (first, second) = (read(order()), read(order()));
    // The number of slices in a block depends on how long requests took before; up to where the
    // shorter order is mirrored, the orders are the same.
    let both = first.len().min(second.len()) / 2;
    assert!(both > 0);
    assert_eq!(first[..both], second[..both]);
}

/// A client that shares its only CPU with the stack is late, which forbids no verdict.
#[test]
fn a_client_that_shares_its_cpu_may_be_late() {
    let place = Place::new();
    let json = compare(&place, &["--cpus", "0", "--json"]).json();
    let zero = serde_json::json!([0]);
    let shared = serde_json::json!({
        "client": zero, "stack": zero, "beside_client": [],
        "apart": false, "machines": [], "links": [], "clients_apart_ns": null,
    });
    assert_eq!(json["parts"][0]["layout"], shared);
    let late = place.sql(
        "select value ->> 'severity' from part, json_each(part.json, '$.findings')
         where value ->> 'check' = 'lateness'",
    );
    assert!(late.iter().all(|severity| severity == "warning"), "{late:?}");
}

#[test]
fn eighty_columns_and_no_colour_on_a_pipe() {
    let place = Place::new();
    let ended = compare(&place, &["--closed-only"]);
    assert!(!ended.out.contains('\u{1b}'), "colour on a pipe");
    let long: Vec<&str> = ended
        .out
        .lines()
        // The command that repeats the run is never wrapped, so that it can be copied.
        .filter(|line| line.chars().count() > 80 && !line.starts_with("repeat"))
        .collect();
    assert_eq!(long, Vec::<&str>::new());
}

/// Responds with `{"id": n}`, the commonest kind of body that varies in its length.
const COUNTER: &str = r#"
import http.server, itertools, sys
ids = itertools.count()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per response, so that the client's delayed acknowledgement is not awaited
    def do_GET(self):
        body = b'{"id": %d}' % next(ids)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

#[test]
fn bodies_with_a_counter_are_no_failures() {
    let place = Place::new();
    std::fs::write(place.path("counter.py"), COUNTER).unwrap();
    let server = "python3 counter.py $PORT";
    let compare = |more: &[&str]| {
        let all = ["compare", "--quick", "--max-time", "1s", "--closed-only", server, server];
        place.run(&[&all, more].concat())
    };
    let json = compare(&["--json"]).json();
    for variant in json["variants"].as_array().unwrap() {
        assert_eq!(variant["ledger"]["failed"], 0, "{json}");
        assert!(variant["ledger"]["completed"].as_u64().unwrap() > 100, "{json}");
    }
    assert!(json["validity"].to_string().contains("body_varies"), "{}", json["validity"]);
    // Declared to be equal, they are failures, and error and report name the option.
    let failing = compare(&["--check", "body", "--json"]);
    assert!(failing.json()["reasons"][0].as_str().unwrap().contains("add --check"), "{failing:?}");
    // Requests that fail are not slow ones, for which windows are up to 10 s long.
    for trial in
        failing.status(1).says("--check").json()["variants"][0]["trials"].as_array().unwrap()
    {
        assert!(trial["window_ns"].as_u64() < Some(2_000_000_000), "{trial}");
    }
}
