//! `prove batches`: kill −9 at random moments; acknowledged data is in the database exactly once.

use std::process::{Command, ExitCode};

use base::Seed;
use proofs::batches::{self, Proof, WRITERS};
use throwaway::Throwaway;

use crate::options::Options;
use crate::{say, task, usage_error};

/// Kills the writers, and compares the content of SQLite and PostgreSQL with what was sent.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove batches", Options::parse(words, 500), prove_both)
}

fn prove_both(options: &Options) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let sqlite = folder.path().join("record.sqlite").display().to_string();
    let server = Throwaway::start(&[]).map_err(|e| e.to_string())?;
    let postgresql = server.database("proof").map_err(|e| e.to_string())?;
    say(
        "| database | kills | acknowledged | in the database | killed before the acknowledgement | lost | slots sealed meanwhile | slots compared | wrong |",
    );
    say("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut holds = true;
    for (name, place) in [("SQLite", &sqlite), ("PostgreSQL", &postgresql)] {
        let proof = prove_one(place, options)?;
        let Proof { kills, acknowledged, applied, unacknowledged, lost, sealed, slots, wrong } =
            proof;
        say(&format!(
            "| {name} | {kills} | {acknowledged} | {applied} | {unacknowledged} | {lost} | {sealed} | {slots} | {wrong} |"
        ));
        holds &= proof.holds();
    }
    Ok(holds)
}

fn prove_one(place: &str, options: &Options) -> Result<Proof, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let Seed(seed) = options.seed;
    batches::prove(place, options.seed, u64::from(options.runs), |acknowledged| {
        let mut command = Command::new(&program);
        command.args(["write-batches", place, &seed.to_string()]);
        command.args(acknowledged.map(|seq| seq.to_string()));
        command
    })
}

/// The program to kill.
pub(crate) fn write(words: &[&str]) -> ExitCode {
    let [place, numbers @ ..] = words else { return usage_error("write-batches needs a place") };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let split = numbers.as_ref().ok().and_then(|numbers| numbers.split_first());
    let numbers =
        split.and_then(|(seed, rest)| Some((seed, <[u64; WRITERS]>::try_from(rest).ok()?)));
    let Some((seed, acknowledged)) = numbers else {
        return usage_error("write-batches needs a seed and a number for each writer");
    };
    match batches::write(place, Seed(*seed), acknowledged, std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => usage_error(&what),
    }
}
