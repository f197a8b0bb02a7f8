//! `--events`: streams of server-sent events, directly and through nginx with HTTP/2.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Place, assert_valid, eventually, free_port};

/// Events of a whole stream.
const EVENTS: u64 = 5;

/// Streams that the server sent, and events.
#[derive(Debug, Default)]
struct Sent {
    streams: AtomicU64,
    events: AtomicU64,
}

/// Sends streams of events in chunks, with comments and other lines in between. Every `cut`-th one
/// breaks off after its second event; 0 for none.
fn server(cut: u64) -> (String, Arc<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sent = Arc::new(Sent::default());
    let by = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let by = Arc::clone(&by);
            std::thread::spawn(move || serve(stream.unwrap(), cut, &by));
        }
    });
    (url, sent)
}

fn serve(mut stream: TcpStream, cut: u64, sent: &Sent) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        let number = sent.streams.fetch_add(1, Ordering::SeqCst) + 1;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let mut ok = stream.write_all(head.as_bytes()).is_ok();
        for event in 1..=EVENTS {
            std::thread::sleep(Duration::from_millis(1));
            let text = format!(": hello\n\nevent: a\ndata: {event}\ndata: more\n\n");
            let chunk = format!("{:x}\r\n{text}\r\n", text.len());
            ok = ok && stream.write_all(chunk.as_bytes()).is_ok();
            sent.events.fetch_add(u64::from(ok), Ordering::SeqCst);
            if cut > 0 && number.is_multiple_of(cut) && event == 2 {
                return;
            }
        }
        if !ok || stream.write_all(b"0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// The laws that hold for all streams.
fn assert_laws(json: &Value) {
    let stream = &json["stream"];
    let count = |value: &Value| value.as_u64().unwrap();
    let completed = count(&json["ledger"]["completed"]);
    assert!(count(&stream["events"]) >= completed * EVENTS, "{stream}");
    let mean = |name: &str| count(&stream[name]["mean"]);
    // A percent for the histograms' digits.
    assert!(mean("first_byte_ns") <= mean("first_event_ns") * 101 / 100, "{stream}");
    assert!(mean("first_event_ns") <= count(&json["service_time_ns"]["mean"]) * 101 / 100);
}

#[test]
fn every_event_is_counted_also_those_of_streams_that_break() {
    for cut in [0, 7] {
        let place = Place::new();
        let (url, sent) = server(cut);
        let json = place.run(&["load", "--events", "-n", "100", "--json", &url]).json();
        assert_valid("load-2.json", &json);
        assert_laws(&json);
        let ledger = |column: &str| json["ledger"][column].as_u64().unwrap();
        let before = &json["warm_up"];
        let (streams, events) =
            (sent.streams.load(Ordering::SeqCst), sent.events.load(Ordering::SeqCst));
        assert_eq!(streams, before["sent"].as_u64().unwrap() + ledger("sent"));
        // The events of the probes and of the warm-up are not in the measured trial.
        let measured = ledger("completed") * EVENTS + ledger("failed") * 2;
        assert_eq!(json["stream"]["events"], measured, "{}", json["stream"]);
        assert!(events > measured);
        if cut == 0 {
            assert_eq!((ledger("completed"), ledger("failed")), (100, 0));
        } else {
            assert_eq!(json["errors"]["closed within a response"], ledger("failed"));
            assert!((10..=20).contains(&ledger("failed")), "a seventh of 100");
        }
        place.run(&["report"]).prints("first event").prints(" events, ").prints("events counted");
    }
}

/// An nginx in front, which passes events on at once.
struct Front(Child);

impl Drop for Front {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn streams_of_http_2_through_nginx() {
    let place = Place::new();
    let (url, sent) = server(0);
    let (dir, port) = (place.dir.path().display().to_string(), free_port());
    let root = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    place.write(
        "nginx.conf",
        &format!(
            "daemon off; {root} pid {dir}/n.pid; error_log {dir}/e.log; events {{}}\n\
             http {{ access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;\n\
             fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
             server {{ listen 127.0.0.1:{port} http2; keepalive_requests 100000;\n\
             location / {{ proxy_pass {url}; proxy_buffering off; proxy_http_version 1.1; }} }} }}\n"
        ),
    );
    let conf = format!("{dir}/nginx.conf");
    let child = Command::new("/usr/sbin/nginx")
        .args(["-e", "stderr", "-c", &conf])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _front = Front(child);
    eventually("nginx's readiness", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let front = format!("http://127.0.0.1:{port}/");
    let args = ["load", "--events", "--http2", "--streams", "4", "-n", "200", "--json", &front];
    let json = place.run(&args).json();
    assert_valid("load-2.json", &json);
    assert_laws(&json);
    assert_eq!(json["ledger"]["completed"], 200, "{}", json["errors"]);
    assert_eq!(json["stream"]["events"], 200 * EVENTS);
    assert!(sent.events.load(Ordering::SeqCst) >= 200 * EVENTS);
}

#[test]
fn a_comparison_has_the_ratios_of_the_parts() {
    let place = Place::new();
    let ((one, _), (other, _)) = (server(0), server(0));
    let json = place.compare(&["--events", "--closed-only", "--json", &one, &other]).json();
    assert_valid("compare-2.json", &json);
    let parts = json["parts"][0]["streams"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["first_byte", "first_event", "gap"]);
    place.run(&["report"]).prints("events/s").prints("first byte").prints("gap");
}
