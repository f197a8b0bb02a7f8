//! `prove database-kills`: kill −9 of the PostgreSQL server while a daemon receives.

use std::process::{Command, ExitCode};

use base::format_count;
use proofs::counts::Tally;
use proofs::database_kills::{self, Proof};

use crate::options::Options;
use crate::{binary, say, task};

/// Kills the server, and compares what the daemon acknowledged with what the database has.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove database-kills", Options::parse(words, 200), prove_it)
}

fn prove_it(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let kills = u64::from(options.runs);
    let proof = database_kills::prove(folder.path(), options.seed, kills, |place, sockets| {
        let mut command = Command::new(&tachograph);
        command.args(["serve", "--write-each", "100ms", "--head-memory", "1MiB", "--journal"]);
        command.arg(folder.path().join("journal")).args(sockets);
        command.env("TACHOGRAPH_RECORD", place);
        command
    })?;
    let Proof { kills, tally, without, sum, peak } = proof;
    let Tally { acknowledged, sum: sent, wrong, unanswered, foreign, .. } = tally;
    say(
        "| kills | acknowledged | of these without a server | missing or wrong | not answered | doubled | their sum | in SQL | peak memory, MiB |",
    );
    say("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mib = peak.0 >> 20;
    say(&format!(
        "| {kills} | {acknowledged} | {without} | {wrong} | {unanswered} | {foreign} | {} | {} | {mib} |",
        format_count(sent.unsigned_abs()),
        format_count(sum as u64),
    ));
    Ok(proof.holds())
}
