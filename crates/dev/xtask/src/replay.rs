//! `prove replay`: a hundred differences among as many answers are found, and no other.

use std::process::{Command, Stdio};

use crate::options::Options;
use crate::say;

/// The test, in the program of all tests.
const TEST: &str = "replay::a_hundred_differences_among_many_answers_are_found";

/// Runs the test with so many requests and this seed.
pub(crate) fn prove(Options { runs, seed }: Options) -> Result<bool, String> {
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "-p", "tachograph", "--test", "all", "--"])
        .args([TEST, "--exact"])
        .env("TACHOGRAPH_TEST_REQUESTS", runs.to_string())
        .env("TACHOGRAPH_TEST_SEED", seed.to_string())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    let found = if status.success() { "were found" } else { "were not found" };
    say(&format!("100 differences among {} answers {found}", base::format_count(runs.into())));
    Ok(status.success())
}
