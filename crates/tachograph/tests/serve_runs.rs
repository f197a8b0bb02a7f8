//! `tachograph serve`: the recorded runs on its page.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use support::Place;

/// A running daemon; it is killed when the test ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_recorded_run_is_listed_with_its_report() {
    let place = Place::new();
    let args = ["serve", "--http", "127.0.0.1:0", "--no-graphite"];
    let mut child = place.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let _daemon = Daemon(child);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on tcp://").unwrap().to_owned();

    assert!(get(&address, "/api/runs").contains("No runs yet."));
    let url = format!("http://{address}/health");
    let load = ["load", &url, "-d", "200ms", "--name", "<b>health</b>"];
    let ended = place.command(&load).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let listed = get(&address, "/api/runs");
    let (_, body) = listed.split_once("\r\n\r\n").unwrap();
    let runs: serde_json::Value = serde_json::from_str(body).unwrap();
    let run = &runs["runs"][0];
    assert!(run["title"].as_str().unwrap().contains("<b>health</b>"), "{run}");
    assert!(run["outcome"].as_str().unwrap().contains("requests/s"), "{run}");
    let report = get(&address, &format!("/runs/{}", run["id"].as_str().unwrap()));
    assert!(report.starts_with("HTTP/1.1 200"), "{report}");
    assert!(report.contains("content-security-policy: default-src 'none'; style-src"), "{report}");
    assert!(report.contains("<b class=\"equal\">=</b>"), "the ledger adds up");
    assert!(get(&address, "/runs/none").starts_with("HTTP/1.1 404"));
}
