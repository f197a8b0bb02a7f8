//! The truth table, made in short form by the tools that `make setup` installs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use serde_json::Value;

/// Every request is counted on both ends, with a fault that the tool notices and one that none of
/// these tools checks.
#[test]
fn counts_and_faults_of_wrk_ab_and_h2load() {
    let docs = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(
            "truth --patience 120 --rounds 1 --tool wrk --tool ab --tool h2load --tools nowhere"
                .split(' '),
        )
        .args("--only counts-number --only status-500 --only wrong-body --only unix".split(' '))
        .arg("--docs")
        .arg(docs.path())
        .env("TACHOGRAPH_LOCK_DIR", docs.path().join("locks"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("there is one CPU") {
        return;
    }
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stdout));
    let json = std::fs::read_to_string(docs.path().join("results/truth.json")).unwrap();
    let results: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(results["missing"], Value::Array(Vec::new()));

    for tool in ["ab", "h2load"] {
        let counted = run(&results, "counts-number", tool);
        assert_eq!(counted["truth"]["received"], 20_000, "{counted}");
        assert_eq!(counted["report"]["total"], 20_000, "{counted}");
    }
    for tool in ["wrk", "ab", "h2load"] {
        let refused = run(&results, "status-500", tool);
        let errors = refused["truth"]["errors"].as_u64().unwrap();
        let reported = refused["report"]["failed"].as_u64().unwrap();
        // wrk does not count the responses that arrive after its time.
        assert!((1..=errors).contains(&reported), "{refused}");
        let wrong = run(&results, "wrong-body", tool);
        assert!(wrong["truth"]["corrupt"].as_u64() > Some(0), "{wrong}");
        assert_eq!(wrong["report"]["failed"], 0, "{wrong}");
    }
    assert_eq!(run(&results, "unix", "h2load")["truth"]["received"], 2000);
    assert_eq!(results["scenarios"]["unix"]["runs"].as_array().unwrap().len(), 1);

    let page = std::fs::read_to_string(docs.path().join("truth.md")).unwrap();
    assert!(page.contains("| ab | 20 of 20 | **0** of 20 |"), "{page}");
}

/// The same over TLS and HTTP/2.
#[test]
fn counts_and_faults_over_tls_and_http2() {
    let docs = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args("truth --patience 120 --rounds 1 --tool wrk --tool h2load --tools nowhere".split(' '))
        .args("--only https-counts --only https-status-500 --only h2c-counts".split(' '))
        .args("--only h2c-reset --only h2-counts --only h2-wrong-body".split(' '))
        .arg("--docs")
        .arg(docs.path())
        .env("TACHOGRAPH_LOCK_DIR", docs.path().join("locks"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("there is one CPU") {
        return;
    }
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stdout));
    let json = std::fs::read_to_string(docs.path().join("results/truth.json")).unwrap();
    let results: Value = serde_json::from_str(&json).unwrap();
    for scenario in ["https-counts", "h2c-counts", "h2-counts"] {
        let counted = run(&results, scenario, "h2load");
        assert_eq!(counted["truth"]["received"], 20_000, "{counted}");
        assert_eq!(counted["report"]["total"], 20_000, "{counted}");
    }
    // Two connections with five streams each.
    assert_eq!(run(&results, "h2-counts", "h2load")["truth"]["connections"], 2);
    let refused = run(&results, "https-status-500", "wrk");
    assert!(refused["truth"]["errors"].as_u64() > Some(0), "{refused}");
    let reset = run(&results, "h2c-reset", "h2load");
    assert_eq!((&reset["truth"]["cut"], &reset["report"]["failed"]), (&20.into(), &20.into()));
    let wrong = run(&results, "h2-wrong-body", "h2load");
    assert_eq!((&wrong["truth"]["corrupt"], &wrong["report"]["failed"]), (&20.into(), &0.into()));
    // wrk does not speak HTTP/2.
    assert_eq!(results["scenarios"]["h2-counts"]["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn wrong_options_are_refused_and_nothing_is_written() {
    let docs = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["truth", "--only", "nothing", "--docs"])
        .arg(docs.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("[possible values: delay, stall, counts-time,"), "{text}");
    assert_eq!(std::fs::read_dir(docs.path()).unwrap().count(), 0);
}

fn run<'r>(results: &'r Value, scenario: &str, tool: &str) -> &'r Value {
    let runs = results["scenarios"][scenario]["runs"].as_array().unwrap();
    runs.iter().find(|run| run["tool"] == tool).unwrap()
}
