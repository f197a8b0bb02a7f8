//! `prove power-cuts`: what a power cut may leave of the files of the daemon.

use std::process::ExitCode;

use proofs::power_cuts::{Omission, Proof, Recording, Size, is_available};

use crate::options::Options;
use crate::{binary, say, task};

/// The recording: all ways in which a life ends, twice, and hundreds of commits in each.
const SIZE: Size = Size { lives: 7, counts: 60 };

/// Of a cut with more states than these, as many are drawn.
const EACH: usize = 64;

/// Starts daemons on what power cuts leave, and shows what each kind of sync is needed for.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove power-cuts", Options::parse(words, 500), prove_both)
}

fn prove_both(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    if !is_available() {
        return Err("strace is not installed, or may not trace here".to_owned());
    }
    let recording = Recording::make(&tachograph, options.seed, SIZE)?;
    let proof = recording.prove(&tachograph, options.seed, options.runs as usize, EACH)?;
    let Proof { calls, acknowledged, cuts, made, exhausted, states, wrong } = &proof;
    say(
        "| calls | acknowledged | possible cuts | made | of these with all states | states | lost, doubled or not started |",
    );
    say("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let count = wrong.len();
    say(&format!(
        "| {calls} | {acknowledged} | {cuts} | {made} | {exhausted} | {states} | {count} |"
    ));
    wrong.iter().for_each(|wrong| say(wrong));
    say("\n| without the sync of | what goes wrong |");
    say("| --- | --- |");
    let mut holds = proof.holds();
    for omission in Omission::ALL {
        let found = recording.without(&tachograph, omission)?;
        holds &= found.is_some();
        let found = found.unwrap_or_else(|| "nothing".to_owned());
        say(&format!("| {omission:?} | {found} |"));
    }
    Ok(holds)
}
