//! `prove faults`: every fault of the method is caught every time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::options::Options;
use crate::say;

/// Names a file to which tests that cannot run here write their names, and why (`tests/all/support`),
/// because the test harness only knows passed and failed.
const NOT_RUN: &str = "TACHOGRAPH_TEST_NOT_RUN";

/// How rarely the tests of rare faults break a response; the default is more frequent.
const FAULT_EVERY: (&str, &str) = ("TACHOGRAPH_TEST_FAULT_EVERY", "10000");

/// The tests of faults, in the program of all tests.
const MODULE: &str = "faults::";

/// Runs the tests of faults repeatedly and counts how often each was caught.
pub(crate) fn prove(Options { runs, .. }: Options) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let listed = test(&["--list"], None)?;
    let mut counts =
        CaughtCounts::new(String::from_utf8_lossy(&listed.stdout).lines().filter_map(listed_name));
    if counts.0.is_empty() {
        return Err(String::from_utf8_lossy(&listed.stderr).trim().to_owned());
    }
    for run in 1..=runs {
        let skipped = folder.path().join(run.to_string());
        let output = test(&[], Some(&skipped))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            say(&format!("pass {run}:\n{text}"));
        }
        // Without skipped tests there is no file.
        let skipped = std::fs::read_to_string(&skipped).unwrap_or_default();
        counts.add(&text, &skipped);
    }
    say(counts.table(runs).trim_end());
    Ok(counts.all_caught(runs))
}

fn test(args: &[&str], not_run: Option<&Path>) -> Result<Output, String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--release", "-p", "tachograph", "--test", "all", "--", MODULE])
        // One of them needs a machine on which nothing else runs.
        .args(["--include-ignored", "--test-threads=1"])
        .args(args);
    command.env(FAULT_EVERY.0, FAULT_EVERY.1);
    match not_run {
        Some(file) => command.env(NOT_RUN, file),
        None => command.env_remove(NOT_RUN),
    };
    command.stdin(Stdio::null()).output().map_err(|error| error.to_string())
}

/// How often each fault was caught and missed. The rest did not run.
struct CaughtCounts(BTreeMap<String, (u32, u32)>);

impl CaughtCounts {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> CaughtCounts {
        CaughtCounts(names.map(|name| (name.to_owned(), (0, 0))).collect())
    }

    /// Adds one pass: the harness's output, and the tests that could not run, with the reasons.
    fn add(&mut self, text: &str, skipped: &str) {
        for (name, passed) in text.lines().filter_map(outcome) {
            if skipped.lines().any(|skipped| skipped.split(": ").next() == Some(name)) {
                continue;
            }
            let (caught, missed) = self.0.entry(name.to_owned()).or_default();
            *caught += u32::from(passed);
            *missed += u32::from(!passed);
        }
    }

    fn table(&self, runs: u32) -> String {
        let mut text =
            "| fault | caught | missed | not run | of |\n| --- | --: | --: | --: | --: |\n"
                .to_owned();
        for (name, (caught, missed)) in &self.0 {
            let not_run = runs.saturating_sub(caught + missed);
            let name = name.trim_start_matches(MODULE).replace('_', " ");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {name} | {caught} | {missed} | {not_run} | {runs} |");
        }
        text
    }

    fn all_caught(&self, runs: u32) -> bool {
        self.0.values().all(|(caught, missed)| *caught == runs && *missed == 0)
    }
}

/// The name of a test in the harness's list.
fn listed_name(line: &str) -> Option<&str> {
    line.strip_suffix(": test")
}

/// The name of a test, and whether it passed, from the harness's output.
fn outcome(line: &str) -> Option<(&str, bool)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match outcome {
        "ok" => Some((name, true)),
        // Ignored, with or without a reason.
        _ if outcome.starts_with("ignored") => None,
        _ => Some((name, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_harness_are_read() {
        assert_eq!(outcome("test a_truncated_body ... ok"), Some(("a_truncated_body", true)));
        assert_eq!(outcome("test a_truncated_body ... FAILED"), Some(("a_truncated_body", false)));
        for line in [
            "running 11 tests",
            "test x has been running for over 60 seconds",
            "test x ... ignored",
            "test x ... ignored, needs root",
            "",
        ] {
            assert_eq!(outcome(line), None, "{line}");
        }
        assert_eq!(listed_name("a_truncated_body: test"), Some("a_truncated_body"));
        assert_eq!(listed_name("3 tests, 0 benchmarks"), None);
    }

    #[test]
    fn a_proof_that_did_not_run_was_counted_as_caught() {
        let names = ["faults::root_only", "faults::sound", "faults::never_reached"];
        let mut counts = CaughtCounts::new(names.into_iter());
        let passed = "test faults::root_only ... ok\ntest faults::sound ... ok\n";
        counts.add(passed, "faults::root_only\n");
        counts.add(&passed.replace("sound ... ok", "sound ... FAILED"), "");
        assert_eq!(
            counts.table(2),
            "| fault | caught | missed | not run | of |\n\
             | --- | --: | --: | --: | --: |\n\
             | never reached | 0 | 0 | 2 | 2 |\n\
             | root only | 1 | 0 | 1 | 2 |\n\
             | sound | 1 | 1 | 0 | 2 |\n"
        );
        assert!(!counts.all_caught(2));
        let mut all = CaughtCounts::new(["sound"].into_iter());
        all.add("test sound ... ok\n", "");
        assert!(all.all_caught(1) && !all.all_caught(2));
    }
}
