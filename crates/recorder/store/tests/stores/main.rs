//! Every store with the same scripts, and what only a real database can show.

#![allow(clippy::unwrap_used)] // A test that fails to set up has failed.

mod failures;
mod packing;
mod place;
mod plans;
mod recipes;
mod requests;
mod rrd;
mod scan;
mod schemas;
mod script;
mod sealing;
mod values;

use place::{Mode, Place};

/// Runs every script in `tests/scripts`, one after the other, each with a new store.
fn run_all(new: impl Fn(&str) -> Place) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 8, "the scripts are in {folder}");
    let mut failures = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(failure) = script::run(&text, new(&name)) {
            failures.push(format!("{name}.txt:{failure}"));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

#[test]
fn memory_does_what_the_scripts_say() {
    run_all(|_| Place::memory());
}

#[test]
fn sqlite_does_what_the_scripts_say() {
    for mode in Mode::ALL {
        run_all(|_| Place::sqlite_in(mode));
    }
}

#[test]
fn postgresql_does_what_the_scripts_say() {
    for mode in Mode::ALL {
        let called = format!("{mode:?}").to_lowercase();
        run_all(|name| Place::postgres_in(&format!("script_{name}_{called}"), mode));
    }
}
