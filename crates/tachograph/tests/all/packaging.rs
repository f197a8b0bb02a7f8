//! What packaging/, the manifests and the release workflow must agree on.

use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr::{LoadableYamlNode as _, Yaml};

use crate::support::Place;

/// These are for work on the project, and are not published.
const PRIVATE: &[&str] = &["simulation", "zoo", "throwaway", "proofs", "xtask"];
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(path(""))
        .output()
        .unwrap();
    let mut metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array_mut().map(std::mem::take).unwrap()
}

#[test]
fn every_published_package_is_described_and_requires_exactly_its_own_parts() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let private = package["publish"].as_array().is_some_and(Vec::is_empty);
        assert_eq!(private, PRIVATE.contains(&name), "{name}");
        assert_eq!(package["version"], VERSION, "{name}");
        if private {
            continue;
        }
        assert!(name == "tachograph" || name.starts_with("tachograph-"), "{name} may be taken");
        for field in ["description", "license", "repository", "readme"] {
            assert!(
                package[field].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {field}"
            );
        }
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let kept = std::fs::read_to_string(folder.join(licence)).unwrap();
            assert_eq!(kept, text(licence), "{name}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            if dependency["path"].is_string() && !PRIVATE.contains(&other) {
                assert_eq!(dependency["req"], format!("={VERSION}"), "{name}: {other}");
            }
        }
    }
}

#[test]
fn every_package_has_the_version_and_the_address_of_the_workspace() {
    let ours = packages().into_iter().find(|package| package["name"] == "tachograph").unwrap();
    let address = ours["repository"].as_str().unwrap();
    let formula = text("packaging/homebrew/tachograph.rb");
    assert!(formula.contains(&format!("version \"{VERSION}\"")), "{formula}");
    assert!(formula.contains(&format!("homepage \"{address}\"")), "{formula}");
    let files = format!("{address}/releases/download/v{VERSION}/tachograph-{VERSION}-");
    assert_eq!(formula.matches(&files).count(), 2, "{formula}");
    let wheel = text("packaging/wheel/pyproject.toml");
    assert!(wheel.contains("dynamic = [\"version\"]"), "{wheel}");
    assert!(wheel.contains(&format!("Repository = \"{address}\"")), "{wheel}");
    assert!(text("packaging/debian/control").contains(&format!("Homepage: {address}\n")));
    assert!(text("packaging/debian/copyright.in").contains(&format!("Source: {address}\n")));
    let newest = text("packaging/debian/changelog");
    assert!(newest.starts_with(&format!("tachograph ({VERSION}-1) ")), "{newest}");
}

/// A package of another benchmark was refused because its upstream changelog was empty.
#[test]
fn the_debian_package_has_what_others_were_refused_for() {
    let rules = text("packaging/debian/rules");
    assert!(rules.contains("dh_installchangelogs CHANGELOG.md"), "{rules}");
    assert!(text("CHANGELOG.md").lines().filter(|line| line.starts_with("- ")).count() > 10);
    let rust = format!(">= {}", env!("CARGO_PKG_RUST_VERSION"));
    assert_eq!(text("packaging/debian/control").matches(&rust).count(), 2, "cargo and rustc");
    // Why each complaint of lintian's is no defect stands above it.
    for name in [
        "tachograph.lintian-overrides",
        "tachograph-doc.lintian-overrides",
        "source/lintian-overrides",
    ] {
        let overrides = text(&format!("packaging/debian/{name}"));
        let lines: Vec<&str> = overrides.lines().collect();
        for pair in lines.windows(2).filter(|pair| !pair[1].starts_with('#')) {
            assert!(pair[0].starts_with('#'), "{name}: {}", pair[1]);
        }
        assert!(lines[0].starts_with('#'), "{name}");
    }
}

#[test]
fn the_wheel_contains_the_counter_and_its_page_has_no_relative_links() {
    assert_eq!(
        text("packaging/wheel/data/purelib/tachograph_counter.py"),
        text("python/tachograph_counter.py")
    );
    let page = text("packaging/wheel/README.md");
    let links = page.split("](").skip(1).filter(|link| !link.starts_with("https://"));
    assert_eq!(links.count(), 0, "PyPI does not resolve relative links: {page}");
}

#[test]
fn the_release_workflow_parses_and_what_it_runs_exists() {
    let source = text(".github/workflows/release.yml");
    let documents = Yaml::load_from_str(&source).unwrap();
    let jobs = documents[0]["jobs"].as_mapping().unwrap();
    assert_eq!(documents[0]["permissions"]["contents"].as_str(), Some("read"));
    assert!(jobs.len() >= 4, "{source}");
    for (name, job) in jobs {
        assert!(job["runs-on"].as_str().is_some(), "{name:?}");
        let needs = job.as_mapping_get("needs");
        let needed = needs.and_then(Yaml::as_vec).cloned().unwrap_or_default();
        for other in needed.iter().chain(needs.filter(|need| need.is_string())) {
            assert!(jobs.contains_key(other), "{name:?} needs {other:?}");
        }
        for step in job["steps"].as_vec().unwrap() {
            let does = ["run", "uses"].map(|key| step.as_mapping_get(key).and_then(Yaml::as_str));
            assert!(does.iter().flatten().count() == 1, "{name:?}: {step:?}");
            let run = does[0].unwrap_or_default();
            for word in run.split_whitespace().filter(|word| word.starts_with("packaging/")) {
                assert!(path(word).is_file(), "{name:?} runs {word}");
            }
        }
    }
}

#[test]
fn the_version_is_the_packages_own() {
    let place = Place::new();
    for flag in ["--version", "-V"] {
        let out = place.run(&[flag]).status(0).out.clone();
        let version = out.trim_end().strip_prefix("tachograph ").unwrap();
        let method = format!(", method {}", record::METHOD);
        let commit = version.strip_prefix(VERSION).unwrap().strip_suffix(&method).unwrap();
        assert!(commit.is_empty() || (commit.starts_with(" (") && commit.ends_with(')')), "{out}");
    }
}

/// The lines of a table of the workspace's manifest.
fn table(name: &str) -> Vec<String> {
    let manifest = text("Cargo.toml");
    let (_, rest) = manifest.split_once(&format!("\n[{name}]\n")).unwrap();
    rest.split("\n[").next().unwrap().lines().map(str::to_owned).collect()
}

/// Counts that wrap in silence would add up in a released program only.
#[test]
fn released_programs_wrapped_where_tests_panicked() {
    assert!(table("profile.release").contains(&"overflow-checks = true".to_owned()));
    let dist = table("profile.dist");
    assert!(dist.contains(&"inherits = \"release\"".to_owned()), "{dist:?}");
    assert!(!dist.iter().any(|line| line.starts_with("overflow-checks")), "{dist:?}");
}

/// Profiles inherit what is set for single packages.
#[test]
fn packages_contained_what_was_only_built_quickly() {
    assert!(table("profile.dist").contains(&"opt-level = 3".to_owned()));
    let full = table("profile.dist.package");
    for line in table("profile.release.package") {
        let Some((name, settings)) = line.split_once(" = ") else { continue };
        let reset = full.contains(&format!("{name} = {{ opt-level = 3 }}"));
        assert!(settings.contains("opt-level = 3") || reset, "{line}");
    }
}

/// `make demo` builds the URLs of Docker engines too.
#[test]
fn cargo_update_brought_back_twenty_crates_for_hosts_that_are_not_ascii() {
    let lock = text("Cargo.lock");
    let small = lock.contains("name = \"idna_adapter\"\nversion = \"1.1.");
    assert!(small, "keep it small: cargo update -p idna_adapter --precise 1.1.0");
}
