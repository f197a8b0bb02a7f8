//! `prove corpus`: the official inputs of Influx's line protocol through our parser.

use std::process::ExitCode;

use crate::{say, usage_error};

/// Prints how many inputs of a corpus came out how; fails where numbers differ, or where
/// something is taken that the official decoder refuses.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    let [path] = words else { return usage_error("prove corpus needs the path of corpus.json") };
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    match text.and_then(|text| proofs::corpus::compare(&text)) {
        Err(what) => usage_error(&format!("{path}: {what}")),
        Ok(outcomes) => {
            say("| outcome | inputs | such as |");
            say("| --- | ---: | --- |");
            for (outcome, (inputs, example)) in &outcomes {
                let example: String = example.chars().take(60).collect();
                say(&format!("| {outcome} | {inputs} | {example:?} |"));
            }
            let wrong = ["other numbers", "only the decoder refuses"];
            match wrong.iter().any(|outcome| outcomes.contains_key(*outcome)) {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            }
        }
    }
}
