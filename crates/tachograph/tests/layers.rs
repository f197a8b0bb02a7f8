//! Data flows one way: a crate depends only on crates above it in this list.

use std::process::Command;

const ORDER: &[&str] = &[
    "base", "ledger", "stats", "series", "ingest", "spec", "host", "stage", "netio", "drive",
    "fixture", "record", "slots", "backfill", "accuracy", "lab", "report",
];

#[test]
fn crates_depend_only_upwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    let mut seen = 0;
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        let Some(short) = name.strip_prefix("tachograph-") else { continue };
        let at = place(short).unwrap_or_else(|| panic!("crate {short} is not in the order"));
        seen += 1;
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let dev = dependency["kind"].as_str() == Some("dev");
            let name = dependency["name"].as_str().expect("name");
            let Some(short_dependency) = name.strip_prefix("tachograph-") else { continue };
            let above = place(short_dependency).expect("known crate");
            assert!(dev || above < at, "{short} must not depend on {short_dependency}");
        }
    }
    assert_eq!(seen, ORDER.len(), "every crate of the order exists");
}
