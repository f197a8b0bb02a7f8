//! `prove accuracy`: the built-in experiment `series-accuracy` with a given number of random
//! updates.

use std::process::ExitCode;

use accuracy::Experiment;

use crate::options::Options;
use crate::say;

/// Number of random updates.
const RANDOM: u32 = 1_000_000;

/// Runs the experiment; fails if a published figure is not reproduced, a recorder is missing, or
/// one of our totals is wrong.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    let options = match Options::parse(words, RANDOM) {
        Ok(options) => options,
        Err(sentence) => return crate::usage_error(&sentence),
    };
    let text = include_str!("../../../../experiments/series-accuracy.toml");
    let outcome = Experiment::parse(text, "series-accuracy.toml").and_then(|mut experiment| {
        experiment.series.random = options.runs;
        accuracy::run(&experiment, options.seed, &mut say)
    });
    match outcome {
        Ok(outcome) if outcome.wrong.is_empty() && outcome.skipped.is_empty() => {
            say("\nEvery published figure is reproduced, and every total of ours is the truth.");
            ExitCode::SUCCESS
        }
        Ok(outcome) => {
            outcome.wrong.iter().for_each(|wrong| say(&format!("wrong: {wrong}")));
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(2)
        }
    }
}
