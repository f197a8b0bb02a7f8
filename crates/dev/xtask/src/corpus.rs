//! `prove corpus`: inputs from other projects' tests through our parsers.

use std::path::Path;
use std::process::ExitCode;

use proofs::{corpus, tables};

use crate::{say, usage_error};

/// Prints the number of inputs by outcome; fails if numbers differ, or if we accept something that
/// the other project refuses.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    let [path] = words else { return usage_error("prove corpus needs the path of a file") };
    let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let compare =
        |text: String| tables::compare(&name, &text).unwrap_or_else(|| corpus::compare(&text));
    match text.and_then(compare) {
        Err(what) => usage_error(&format!("{path}: {what}")),
        Ok(outcomes) => {
            say("| outcome | inputs | such as |");
            say("| --- | ---: | --- |");
            for (outcome, (inputs, example)) in &outcomes {
                let example: String = example.chars().take(60).collect();
                say(&format!("| {outcome} | {inputs} | {example:?} |"));
            }
            let wrong =
                ["other numbers", "only the decoder refuses", "only the other project refuses"];
            match wrong.iter().any(|outcome| outcomes.contains_key(*outcome)) {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            }
        }
    }
}
