//! `prove faults`: each fault of the method, caught every time.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use crate::options::Options;
use crate::{say, usage_error};

/// Runs the tests of faults again and again and counts how often each was caught.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    let options = match Options::parse(words, 20) {
        Ok(options) => options,
        Err(what) => return usage_error(&what),
    };
    match count(options.runs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            say(&format!("prove faults: {what}"));
            ExitCode::FAILURE
        }
    }
}

fn count(runs: u32) -> Result<bool, String> {
    let mut caught: BTreeMap<String, u32> = BTreeMap::new();
    for run in 1..=runs {
        let tests = ["test", "--release", "-p", "tachograph", "--test", "faults"];
        let output = Command::new(env!("CARGO"))
            .args(tests)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let outcomes: Vec<(&str, bool)> = text.lines().filter_map(outcome).collect();
        if outcomes.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        if !output.status.success() {
            say(&format!("pass {run}:\n{text}"));
        }
        for (name, ok) in outcomes {
            *caught.entry(name.replace('_', " ")).or_default() += u32::from(ok);
        }
    }
    say("| fault | caught | of |");
    say("| --- | --: | --: |");
    for (name, times) in &caught {
        say(&format!("| {name} | {times} | {runs} |"));
    }
    Ok(caught.values().all(|times| *times == runs))
}

/// The name of a test and whether it passed, from a line of the test harness.
fn outcome(line: &str) -> Option<(&str, bool)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name, outcome == "ok"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_harness_are_read() {
        assert_eq!(outcome("test a_truncated_body ... ok"), Some(("a_truncated_body", true)));
        assert_eq!(outcome("test a_truncated_body ... FAILED"), Some(("a_truncated_body", false)));
        for line in ["running 11 tests", "test x has been running for over 60 seconds", ""] {
            assert_eq!(outcome(line), None, "{line}");
        }
    }
}
