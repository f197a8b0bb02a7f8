//! `prove restarts`: a daemon is replaced under load; no request fails, no point is lost or doubled.

use std::process::{Command, ExitCode};

use proofs::restarts::{self, Proof};

use crate::options::Options;
use crate::{binary, say, task};

/// Replaces a daemon, and compares what was sent with the content of SQLite.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove restarts", Options::parse(words, 1_000), prove_sqlite)
}

fn prove_sqlite(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let record = folder.path().join("record.sqlite").display().to_string();
    let proof = restarts::prove(&record, folder.path(), options.runs, |sockets| {
        let mut command = Command::new(&tachograph);
        command.args(["serve", "--write-each", "1s"]).args(sockets);
        command.env("TACHOGRAPH_RECORD", &record);
        command
    })?;
    let Proof { restarts, requests, failed, longest, points } = &proof;
    say(&format!(
        "{restarts} restarts, {requests} HTTP requests, {failed} failed, the longest took {} ms",
        longest.as_millis()
    ));
    say("| sender | points sent | in the record |");
    say("| --- | ---: | ---: |");
    for (sender, sent, stored) in points {
        say(&format!("| {sender} | {sent} | {stored} |"));
    }
    Ok(proof.holds())
}
