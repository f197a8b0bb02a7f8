//! `prove graphite`: our functions against the real graphite-web.

use std::process::ExitCode;

use proofs::render;

use crate::options::Options;
use crate::say;

/// Number of random ranges for each target.
const RANGES: u32 = 20;

/// Compares every target in random ranges; fails if an answer differs.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    crate::task("prove graphite", Options::parse(words, RANGES), |options| {
        let agreement = render::compare(options.seed, options.runs, &mut say)?;
        agreement.different.iter().for_each(|different| say(&format!("differs: {different}")));
        say(&format!(
            "{} targets, {} series: {} values are equal, {} more are equal once ours are rounded \
             to six decimal places, {} targets differ",
            agreement.targets,
            agreement.series,
            agreement.values,
            agreement.rounded,
            agreement.different.len()
        ));
        Ok(agreement.different.is_empty())
    })
}
