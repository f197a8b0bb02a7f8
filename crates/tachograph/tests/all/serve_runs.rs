//! `tachograph serve`: the recorded runs on its page.

use std::process::Stdio;

use proofs::daemon::Daemon;

use crate::support::{self, Place, Running, Server, ask, daemon, signal};

/// A daemon that serves only HTTP, and its address.
fn serve(place: &Place) -> (Daemon, String) {
    let daemon = daemon::serve(place, &["--no-graphite"], 1);
    let address = daemon.at("tcp://", 0);
    (daemon, address)
}

fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path}"), "", "")
}

/// The JSON at a path.
fn json(address: &str, path: &str) -> serde_json::Value {
    let answer = get(address, path);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_run_is_seen_while_it_runs() {
    let place = Place::new();
    let (_daemon, address) = serve(&place);
    let (server, url) = Server::http(&[]);
    let args =
        ["compare", "--closed-only", "--max-time", "120s", "-n", "one", &url, "-n", "two", &url];
    let mut compare = place.command(&args);
    compare.stdout(Stdio::null()).stderr(Stdio::null());
    let mut compare = Running(compare.spawn().unwrap());

    let completed = |id: &str| -> f64 {
        let target = format!("sumSeries(seriesByTag('run={id}','name=requests.completed'))");
        let query = target.replace('\'', "%27").replace('=', "%3D");
        let found = json(&address, &format!("/render?from=-1h&target={query}"));
        let points = found[0]["datapoints"].as_array().into_iter().flatten();
        points.filter_map(|point| point[0].as_f64()).sum()
    };
    let mut seen: Vec<f64> = Vec::new();
    support::eventually("three blocks are seen", || {
        let runs = json(&address, "/api/runs");
        let run = &runs["runs"][0];
        if run["live"] != true || !run["outcome"].as_str().unwrap().contains("last block") {
            return false;
        }
        let count = completed(run["id"].as_str().unwrap());
        if seen.last().is_none_or(|last| count > *last) {
            seen.push(count);
        }
        seen.len() >= 3
    });
    signal(compare.0.id(), rustix::process::Signal::INT);
    compare.0.wait().unwrap();
    drop(server);
    let runs = json(&address, "/api/runs");
    assert_eq!(runs["runs"][0]["live"], false, "{runs}");
    assert!(runs["runs"][0]["outcome"].as_str().unwrap().starts_with("stopped early"), "{runs}");
}

#[test]
fn a_recorded_run_is_listed_with_its_report() {
    let place = Place::new();
    let (_daemon, address) = serve(&place);

    assert!(get(&address, "/api/runs").contains("No runs yet."));
    let url = format!("http://{address}/health");
    let load = ["load", &url, "-d", "200ms", "--name", "<b>health</b>"];
    let ended = place.command(&load).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let runs = json(&address, "/api/runs");
    let run = &runs["runs"][0];
    assert!(run["title"].as_str().unwrap().contains("<b>health</b>"), "{run}");
    assert!(run["outcome"].as_str().unwrap().contains("requests/s"), "{run}");
    let report = get(&address, &format!("/runs/{}", run["id"].as_str().unwrap()));
    assert!(report.starts_with("HTTP/1.1 200"), "{report}");
    assert!(report.contains("content-security-policy: default-src 'none'; style-src"), "{report}");
    assert!(report.contains("<b class=\"equal\">=</b>"), "the ledger adds up");
    assert!(get(&address, "/runs/none").starts_with("HTTP/1.1 404"));
}

#[test]
fn the_page_shows_figures_that_the_daemon_has() {
    let place = Place::new();
    let (_daemon, address) = serve(&place);
    let url = format!("http://{address}/write");
    let output = std::process::Command::new("curl")
        .args(["-sf", "--data-binary", "m v=1i", &url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metrics = get(&address, "/metrics");
    for name in [
        "journal_bytes ",
        "journal_max_bytes ",
        "head_bytes ",
        "head_max_bytes ",
        "full ",
        "oldest_unwritten_seconds ",
        "updates_total ",
        "lines_total{way=\"",
    ] {
        assert!(metrics.contains(&format!("\ntachograph_{name}")), "{name}: {metrics}");
    }
}
