//! Data flows one way: a crate depends only on crates above it in this list, and the recorder on none of
//! the lab.

use std::process::Command;

const ORDER: &[&str] = &[
    "base",
    "recordfile",
    "trust",
    "ledger",
    "stats",
    "series",
    "formats",
    "graphite",
    "spec",
    "grpc",
    "record",
    "host",
    "profile",
    "netio",
    "tls",
    "http2",
    "stage",
    "drive",
    "fixture",
    "far",
    "replay",
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
    "zoo",
    "simulation",
    "conduct",
    "report",
    "web",
];
/// Final products; nothing depends on these.
const ENDS: &[&str] = &["tachograph", "xtask"];

/// A crate of the workspace.
struct Package {
    /// Its name, without the prefix of published packages.
    name: String,
    /// The half that its folder belongs to: `recorder` for `crates/recorder/store`.
    half: String,
    /// The crates of the workspace that it is built with.
    needs: Vec<String>,
    /// Those that only its tests are built with.
    tests_need: Vec<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let short = |package: &serde_json::Value| {
        let name = package["name"].as_str().expect("name");
        name.strip_prefix("tachograph-").unwrap_or(name).to_owned()
    };
    let read = |package: &serde_json::Value| {
        let path = package["manifest_path"].as_str().expect("path");
        let half = path.rsplit('/').nth(2).expect("a folder").to_owned();
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let ours = dependencies.filter(|dependency| dependency["source"].is_null());
        let (tests, others): (Vec<_>, Vec<_>) =
            ours.partition(|dependency| dependency["kind"].as_str() == Some("dev"));
        let names = |of: Vec<&serde_json::Value>| of.into_iter().map(short).collect();
        Package { name: short(package), half, needs: names(others), tests_need: names(tests) }
    };
    metadata["packages"].as_array().expect("packages").iter().map(read).collect()
}

#[test]
fn crates_depend_only_upwards() {
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    let mut seen = 0;
    for Package { name, needs, tests_need, .. } in packages() {
        if ENDS.contains(&name.as_str()) {
            continue;
        }
        let at = place(&name).unwrap_or_else(|| panic!("crate {name} is not in the order"));
        seen += 1;
        for other in needs.iter().chain(&tests_need) {
            assert!(place(other).is_some(), "{name} depends on {other}");
        }
        for other in &needs {
            assert!(place(other) < Some(at), "{name} must not depend on {other}");
        }
    }
    assert_eq!(seen, ORDER.len(), "every crate of the order exists");
}

#[test]
fn the_recorder_is_built_without_the_lab() {
    let all = packages();
    let find = |name: &String| all.iter().find(|package| package.name == *name).expect("a crate");
    // `accuracy` starts other programs, as the lab does.
    let recorder = all.iter().filter(|one| one.half == "recorder" && one.name != "accuracy");
    let mut needed: Vec<&Package> = recorder.collect();
    assert!(needed.iter().any(|one| one.name == "serve"), "the folder of the recorder");
    let mut at = 0;
    while let Some(one) = needed.get(at).copied() {
        assert_ne!(one.half, "lab", "the recorder needs {}", one.name);
        for other in one.needs.iter().map(find) {
            if needed.iter().all(|known| known.name != other.name) {
                needed.push(other);
            }
        }
        at += 1;
    }
}
