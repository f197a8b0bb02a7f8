//! `prove imports`: kill −9 during imports; when repeated, each line is stored once.

use std::process::{Command, ExitCode};

use proofs::imports::{self, Proof, Size};
use throwaway::Throwaway;

use crate::options::Options;
use crate::{binary, say, task};

/// Large enough for an import to take a few tenths of a second.
const SIZE: Size = Size { least: 2_000, most: 40_000 };

/// Kills imports, and compares the content of SQLite and PostgreSQL with the files.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove imports", Options::parse(words, 500), prove_both)
}

fn prove_both(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let server = Throwaway::start(&[]).map_err(|e| e.to_string())?;
    let postgresql = server.database("proof").map_err(|e| e.to_string())?;
    say(
        "| database | kills | files | lines | counted | in the database | slots compared | wrong | refused lines not kept aside |",
    );
    say("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut holds = true;
    for name in ["SQLite", "PostgreSQL"] {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let place = match name {
            "SQLite" => folder.path().join("record.sqlite").display().to_string(),
            _ => postgresql.clone(),
        };
        let kills = u64::from(options.runs);
        let proof = imports::prove(&place, folder.path(), options.seed, kills, SIZE, |file| {
            let mut command = Command::new(&tachograph);
            command.args(["import", "--quiet", "--format", "influx", "--precision", "s"]);
            // A small head, so that much is written before the kill.
            command.args(["--head-memory", "16KiB"]);
            command.arg(file).env("TACHOGRAPH_RECORD", &place);
            command
        })?;
        let Proof { kills, files, lines, counted, stored, slots, wrong, not_kept } = proof;
        say(&format!(
            "| {name} | {kills} | {files} | {lines} | {counted} | {stored} | {slots} | {wrong} | {not_kept} |"
        ));
        holds &= proof.holds();
    }
    Ok(holds)
}
