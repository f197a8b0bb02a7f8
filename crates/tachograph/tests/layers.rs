//! Data flows one way: a crate depends only on crates above it in this list.

use std::process::Command;

const ORDER: &[&str] = &[
    "base",
    "recordfile",
    "ledger",
    "stats",
    "series",
    "formats",
    "graphite",
    "spec",
    "host",
    "stage",
    "netio",
    "drive",
    "fixture",
    "far",
    "record",
    "archive",
    "store",
    "export",
    "engine",
    "import",
    "serve",
    "hive",
    "throwaway",
    "proofs",
    "accuracy",
    "simulation",
    "zoo",
    "conduct",
    "report",
    "web",
];
/// Final products; nothing depends on these.
const ENDS: &[&str] = &["tachograph", "xtask"];

#[test]
fn crates_depend_only_upwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let place = |package: &str| {
        let name = package.strip_prefix("tachograph-").unwrap_or(package);
        ORDER.iter().position(|known| *known == name)
    };
    let mut seen = 0;
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        if ENDS.contains(&name) {
            continue;
        }
        let at = place(name).unwrap_or_else(|| panic!("crate {name} is not in the order"));
        seen += 1;
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let dev = dependency["kind"].as_str() == Some("dev");
            if dependency["source"].is_string() {
                continue; // from a registry
            }
            let other = dependency["name"].as_str().expect("name");
            let above = place(other).unwrap_or_else(|| panic!("{name} depends on {other}"));
            assert!(dev || above < at, "{name} must not depend on {other}");
        }
    }
    assert_eq!(seen, ORDER.len(), "every crate of the order exists");
}
