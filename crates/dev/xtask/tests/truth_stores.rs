//! The page on stores, made in short form by those that `make setup` installs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use serde_json::Value;

#[test]
fn rrdtool_refuses_repetitions_and_a_table_adds_them() {
    let docs = tempfile::tempdir().unwrap();
    let table = "PostgreSQL, upsert";
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args("truth-stores --rounds 1 --only published --only twice --only hour-late".split(' '))
        .args(["--store", "RRDtool", "--store", table, "--docs"])
        .arg(docs.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = std::fs::read_to_string(docs.path().join("results/truth-stores.json")).unwrap();
    let results: Value = serde_json::from_str(&json).unwrap();
    let cell =
        |store: &str, trial: &str| results["stores"][store]["trials"][trial]["rounds"][0].clone();
    let number = |cell: &Value, name: &str| cell[name].as_f64().unwrap();

    let published = cell("RRDtool", "published");
    assert!((number(&published, "reported") - 1_020.0).abs() < 1e-6, "{published}");
    let twice = cell("RRDtool", "twice");
    assert_eq!(2.0 * number(&twice, "refused"), number(&twice, "messages"), "{twice}");
    assert_eq!(number(&twice, "wrong_totals") + number(&twice, "wrong_slots"), 0.0, "{twice}");
    let late = cell("RRDtool", "hour-late");
    assert!(late["refusal"].as_str().unwrap().contains("illegal attempt"), "{late}");
    assert_eq!(number(&late, "wrong_totals"), 0.0, "{late}");
    assert!(number(&late, "taken") < 0.6 * number(&late, "truth"), "{late}");

    let twice = cell(table, "twice");
    assert_eq!(number(&twice, "reported"), 2.0 * number(&twice, "truth"), "{twice}");
    assert_eq!(number(&twice, "wrong_totals"), number(&twice, "totals"), "{twice}");

    let page = std::fs::read_to_string(docs.path().join("truth-stores.md")).unwrap();
    let cause = "- RRDtool: an update at or before the time of the last one is refused";
    assert!(page.contains(cause), "{page}");
    let grid = std::fs::read_to_string(docs.path().join("results/truth-stores.svg")).unwrap();
    for words in [">true<", ">refused<", ">−21%<", ">+100%<"] {
        assert!(grid.contains(words), "{words}: {grid}");
    }
}
