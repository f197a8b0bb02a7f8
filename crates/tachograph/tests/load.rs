//! `tachograph load` against the built-in server: the ledger, the JSON, the exit status.

mod support;

use support::{Place, Server, free_port};

fn listen() -> (String, String) {
    let port = free_port();
    (format!("tcp://127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/"))
}

#[test]
fn exactly_n_requests_are_sent_and_served() {
    let place = Place::new();
    let (listen, url) = listen();
    let count = place.path("served");
    let _server = Server::start(&["--listen", &listen, "--served-file", count.to_str().unwrap()]);
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
            "-",
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

#[test]
fn the_json_is_what_the_schema_says() {
    let place = Place::new();
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen]);
    let json = place.run(&["load", "-d", "300ms", "--json", "-", &url]).status(0).json();
    let schema: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/schema/load-1.json"
        ))
        .unwrap(),
    )
    .unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&json).map(|e| e.to_string()).collect();
    assert_eq!(wrong, Vec::<String>::new());
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
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen]);
    let json = place
        .run(&["load", "-r", "500", "--arrivals", "uniform", "-d", "1s", "--json", "-", &url])
        .status(0)
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
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen, "--body", "Hello World!"]);
    let ended = place.run(&["load", "-n", "20", "--expect-body", "Good bye!", &url]);
    ended.status(1).prints("INVALID").prints("body");
    place.run(&["load", "-n", "20", "--expect-body", "Hello World!", &url]).status(0);
    place.run(&["load", "-n", "20", "--expect-status", "204", &url]).status(1).prints("status 200");
}

#[test]
fn a_pipe_that_closes_early_is_no_crash() {
    let place = Place::new();
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen]);
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
            "-",
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
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen]);
    let log = place.path("latency.hlog");
    place.run(&["load", "-n", "500", "--hdr", log.to_str().unwrap(), &url]).status(0);
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("HIST"), "{text}");
}

#[test]
fn every_option_can_be_set_by_the_environment() {
    let place = Place::new();
    let (listen, url) = listen();
    let _server = Server::start(&["--listen", &listen]);
    let mut command = place.command(&["load", "--json", "-", &url]);
    command.env("TACHOGRAPH_REQUESTS", "33");
    let json = place.finish(command).status(0).json();
    assert_eq!(json["ledger"]["sent"], 33);
}
