//! The version that `--version` prints: the package's, and the commit where it is known without git:
//! asking git would compile a checkout again after every commit.

use std::path::Path;

/// Written by cargo into every published package.
const PUBLISHED: &str = ".cargo_vcs_info.json";
/// Set by packaging/build.sh and the release workflow.
const COMMIT: &str = "TACHOGRAPH_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let package = env("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match env(COMMIT).or_else(published) {
        Some(commit) => format!("{package} ({})", commit.get(..12).unwrap_or(&commit)),
        None => package,
    };
    println!("cargo::rustc-env=TACHOGRAPH_VERSION={version}");
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The commit from which this package was published.
fn published() -> Option<String> {
    let text = std::fs::read_to_string(Path::new(PUBLISHED)).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    let commit = after.split('"').nth(1)?;
    let known = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    known.then(|| commit.to_owned())
}
