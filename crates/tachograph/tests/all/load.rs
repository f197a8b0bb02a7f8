//! `tachograph load` against the built-in server: the ledger, the JSON, the exit status.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{self, Place, Server, assert_valid, free_port, signal, turn, wait};

#[test]
fn exactly_n_requests_are_sent_and_served() {
    let place = Place::new();
    let count = place.path("served");
    let (_server, url) = Server::http(&["--served-file", count.to_str().unwrap()]);
    let by = format!("counter_file={}", count.display());
    for connections in ["1", "7", "64"] {
        let ended = place.run(&[
            "load",
            "-n",
            "10007",
            "-c",
            connections,
            "--served-by",
            &by,
            "--json",
            &url,
        ]);
        let json = ended.status(0).json();
        assert_eq!(json["verdict"], "ok");
        for column in ["offered", "sent", "completed", "served"] {
            assert_eq!(json["ledger"][column], 10_007, "{column} with {connections} connections");
        }
        assert_eq!(json["ledger"]["failed"], 0);
        let series: u64 = json["series"]["completed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .sum();
        assert_eq!(series, 10_007);
    }
}

/// A server that responds to the three probes and nothing else; signals when a fourth request
/// arrives.
fn silent_after_three() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (arrived, arrival) = channel();
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        for _ in 0..3 {
            assert!(first.read(&mut request).unwrap() > 0);
            first.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
        assert!(first.read(&mut request).unwrap() > 0);
        arrived.send(()).unwrap();
        // The client closes the connection at some point.
        while first.read(&mut request).is_ok_and(|n| n > 0) {}
    });
    (url, arrival)
}

#[test]
fn a_stop_before_any_answer_waited_for_the_timeout_and_claimed_success() {
    for asked in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let (url, arrival) = silent_after_three();
        let child = place
            .command(&["load", "-c", "1", "-d", "600s", "--timeout", "600s", &url])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        arrival.recv_timeout(Duration::from_secs(120)).unwrap();
        signal(child.id(), asked);
        let ended = wait(child, Duration::from_secs(120));
        ended.status(2).says("stopped before anything was measured");
    }
}

#[test]
fn the_json_is_what_the_schema_says() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let json = place.run(&["load", "-d", "300ms", "--json", &url]).status(0).json();
    assert_valid("load-2.json", &json);
    let probes = json["warm_up"]["sent"].as_u64().unwrap();
    assert!((3..=303).contains(&probes), "three, and at most 300 to learn whether the body varies");
}

#[test]
fn a_unix_socket_by_url_by_curls_option_and_abstract() {
    let place = Place::new();
    let socket = place.path("s.sock");
    let _server = Server::start(&["--listen", &format!("unix:{}", socket.display())]);
    let url = format!("http://unix:{}:/", socket.display());
    place.run(&["load", "-n", "100", &url]).status(0).prints("100");
    let socket = socket.to_str().unwrap();
    place.run(&["load", "-n", "100", "--unix-socket", socket, "http://localhost/"]).status(0);

    let name = format!("@tachograph-test-{}", std::process::id());
    let _abstract = Server::start(&["--listen", &format!("unix:{name}")]);
    place.run(&["load", "-n", "100", &format!("http://unix:{name}:/")]).status(0);
}

#[test]
fn an_open_loop_offers_what_it_says() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let json = place
        .run(&["load", "-r", "500", "--arrivals", "uniform", "-d", "1s", "--json", &url])
        // On a busy machine the last arrivals may be dropped, but they are offered.
        .json();
    let offered = json["ledger"]["offered"].as_u64().unwrap();
    assert!((499..=501).contains(&offered), "{offered}");
    assert!(
        json["latency_ns"]["p99"].as_u64().unwrap()
            >= json["service_time_ns"]["p99"].as_u64().unwrap()
    );
}

#[test]
fn wrong_answers_fail_the_verdict_and_are_named() {
    let place = Place::new();
    let (_server, url) = Server::http(&["--body", "Hello World!"]);
    let ended = place.run(&["load", "-n", "20", "--expect-body", "Hello Wurld!", &url]);
    ended.status(1).prints("INVALID").prints("body");
    place.run(&["load", "-n", "20", "--expect-body", "Hello World!", &url]).status(0);
    place.run(&["load", "-n", "20", "--expect-status", "204", &url]).status(1).prints("status 200");
}

#[test]
fn a_pipe_that_closes_early_is_no_crash() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let mut command = place.command(&["load", "-n", "10", &url]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn raw_exchanges() {
    let place = Place::new();
    for (mode, exchange) in [("oneshot", "oneshot"), ("echo", "echo"), ("bulk", "bulk")] {
        let port = free_port();
        let listen = format!("tcp://127.0.0.1:{port}");
        let _server = Server::start(&["--listen", &listen, "--mode", mode]);
        let size = if mode == "bulk" { "64KiB" } else { "64" };
        let ended = place.run(&[
            "load",
            "--exchange",
            exchange,
            "--size",
            size,
            "-d",
            "300ms",
            "--json",
            &listen,
        ]);
        let json = ended.status(0).json();
        assert!(json["ledger"]["completed"].as_u64().unwrap() > 0, "{mode}");
        assert_eq!(json["ledger"]["failed"], 0, "{mode}");
    }
}

#[test]
fn latencies_go_into_a_histogram_log() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let log = place.path("latency.hlog");
    place.run(&["load", "-n", "500", "--hdr", log.to_str().unwrap(), &url]).status(0);
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("HIST"), "{text}");
}

#[test]
fn every_option_can_be_set_by_the_environment() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let mut command = place.command(&["load", "--json", &url]);
    command.env("TACHOGRAPH_REQUESTS", "33");
    let json = place.finish(command).status(0).json();
    assert_eq!(json["ledger"]["sent"], 33);
}

#[test]
fn probes_and_warm_up_are_a_trial_of_their_own() {
    let place = Place::new();
    let count = place.path("served");
    let (_server, url) = Server::http(&["--served-file", count.to_str().unwrap()]);
    let by = format!("counter_file={}", count.display());
    let flags = ["load", "-n", "1000", "--warmup", "100ms", "--served-by", &by, "--json", &url];
    let json = place.run(&flags).status(0).json();
    for column in ["offered", "sent", "completed", "served", "series"] {
        assert_eq!(json["ledger"][column], 1000, "{column}");
    }
    let store = archive::Store::open(place.path("record.sqlite")).unwrap();
    let run = store.load("last").unwrap();
    let block = &run.parts[0].blocks[0];
    let offers: Vec<&str> = block.trials.iter().map(|trial| trial.offer.word()).collect();
    assert_eq!(offers, ["warm-up", "closed"]);
    let mut sum = block.trials[0].ledger.clone();
    sum.extend(&block.trials[1].ledger);
    assert!(sum.counts.completed > 1003, "the warm-up sent nothing: {sum:?}");
    assert_eq!(sum.served, Some(sum.counts.completed));
    assert_eq!(sum, block.lives[0].ledger);
    assert_eq!(sum, run.parts[0].variants[0].ledger);
}

#[test]
fn json_without_a_file_does_not_swallow_the_url() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let json = place.run(&["load", "-n", "10", "--json", &url]).status(0).json();
    assert_eq!(json["target"], url);
    let file = place.path("out.json");
    let flag = format!("--export-json={}", file.display());
    place.run(&["load", "-n", "10", &flag, &url]).status(0).prints("requests/s");
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(written["ledger"]["sent"], 10);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_load() {
    let place = Place::new();
    let count = place.path("served");
    let (_server, url) = Server::http(&["--served-file", count.to_str().unwrap()]);
    for flag in ["--hdr=/nonexistent/latency.hlog", "--export-json=/nonexistent/out.json"] {
        place.run(&["load", "-n", "10", flag, &url]).status(2).says("cannot write /nonexistent/");
    }
    assert_eq!(served(&count), 0, "nothing was sent");
}

#[test]
fn a_duration_of_zero_is_refused() {
    let ended = Place::new().run(&["load", "-d", "0", "http://127.0.0.1:1/"]);
    ended.status(2).says("the minimum is 1ms");
}

#[test]
fn an_error_page_is_refused_before_it_is_loaded() {
    let place = Place::new();
    let count = place.path("served");
    let served_file = count.to_str().unwrap();
    let (_server, url) = Server::http(&["--fail-after", "0", "--served-file", served_file]);
    place.run(&["load", "-n", "10", &url]).status(2).says("add --expect-status 503");
    place.run(&["load", "-n", "10", "--expect-status", "503", &url]).status(0);
}

#[test]
fn a_redirect_is_reported() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || redirect(stream));
        }
    });
    place.run(&["load", "-n", "10", "-c", "2", &url]).status(0).prints("redirect (status 302)");
    let ended = place.run(&["load", "-n", "10", "-c", "2", "--expect-status", "302", &url]);
    assert!(!ended.status(0).out.contains("redirect"), "{}", ended.out);
}

/// Responds to every request with a redirect, until the client closes the connection.
fn redirect(mut stream: std::net::TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..n]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            let answer = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

#[test]
fn ten_connections_dropped_most_of_what_a_slow_server_could_have_answered() {
    let place = Place::new();
    let (_server, url) = Server::http(&["--delay-every", "1", "--delay", "50ms"]);
    let flags = ["load", "-r", "400", "--arrivals", "uniform", "-d", "1s", "--json", &url];
    let json = place.run(&flags).json();
    let count = |column: &str| json["ledger"][column].as_u64().unwrap();
    // Ten connections could serve half of them. A busy machine may drop some, but not for lack of
    // connections.
    assert!(10 * count("completed") > 7 * count("offered"), "{json:#}");
    let all = json["validity"].as_array().unwrap();
    let capped = all.iter().any(|finding| !finding["fact"]["connections_cap"].is_null());
    assert!(!capped, "{json:#}");
}

#[test]
fn a_rate_that_is_not_sustained_names_the_cap_on_connections() {
    let place = Place::new();
    let (_server, url) = Server::http(&["--delay-every", "1", "--delay", "50ms"]);
    let ended = place.run(&["load", "-r", "400", "-c", "4", "-d", "1s", "--json", &url]);
    let json = ended.status(1).json();
    assert_eq!(json["verdict"], "invalid");
    let of = |check: &str| {
        let all = json["validity"].as_array().unwrap();
        all.iter().find(|finding| finding["check"] == check).map(|finding| finding["fact"].clone())
    };
    assert_eq!(of("unsustained").unwrap()["connections_cap"], 4);
    assert_eq!(of("drift"), None, "a constant server is steady");
}

#[test]
fn an_interrupted_load_is_recorded_as_interrupted() {
    let place = Place::new();
    let count = place.path("served");
    let (_server, url) = Server::http(&["--served-file", count.to_str().unwrap()]);
    let mut command = place.command(&["load", "-d", "1h", "--json", &url]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while served(&count) < 1000 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is loaded");
        std::thread::yield_now();
    }
    signal(child.id(), Signal::INT);
    let json = support::wait(child, Duration::from_secs(60)).status(0).json();
    assert_eq!(json["state"], "interrupted");
    let ledger = &json["ledger"];
    assert_eq!(ledger["series"], ledger["completed"]);
}

/// The fixture's count; 0 before there is one.
fn served(file: &std::path::Path) -> u64 {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[test]
fn a_load_beside_a_busy_process_said_that_nothing_weakened_it() {
    let _turn = turn();
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    // Beside many others, it may get less than the twentieth of a CPU from which it is listed.
    let ended: Vec<_> = (0..5).map(|_| place.run(&["load", "-n", "100", "--json", &url])).collect();
    busy.kill().unwrap();
    busy.wait().unwrap();
    let mut is_named = false;
    for json in ended.iter().map(|ended| ended.status(0).json()) {
        let warnings = json["warnings"].to_string();
        assert!(warnings.contains(" CPUs just before the load ("), "{warnings}");
        let findings = json["validity"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["check"] == "neighbours").unwrap();
        let fact = &found["fact"];
        assert!(fact["cpus"].as_f64().unwrap() > 0.2, "{fact}");
        let processes = fact["processes"].as_array().unwrap();
        is_named |= processes.iter().any(|process| process["pid"] == busy.id());
    }
    assert!(is_named);
}

#[test]
fn a_condition_on_a_percentile_of_ten_requests_passed() {
    let place = Place::new();
    let (_server, url) = Server::http(&[]);
    let load = |condition| place.run(&["load", "-n", "10", "--fail-if", condition, &url]);
    let few = load("p99 > 1h");
    few.status(0).says("inconclusive: p99 > 1h (only 10 requests completed, 368 needed)");
    load("p50 > 1h or failed > 0").status(0).says("not triggered: p50 > 1h or failed > 0 (p50 of ");
    let strict = ["load", "-n", "10", "--fail-if", "p99 > 1h", "--fail-if-inconclusive", &url];
    place.run(&strict).status(1);
}
