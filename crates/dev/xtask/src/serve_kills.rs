//! `prove serve-kills`: kill −9 of the daemon under load; what it acknowledged is stored once.

use std::path::Path;
use std::process::{Command, ExitCode};

use proofs::counts::Tally;
use proofs::serve_kills::{self, Proof};
use proofs::statsd_kills;
use throwaway::Throwaway;

use crate::options::Options;
use crate::{binary, say, task};

/// Kills daemons, and compares what they acknowledged with the content of SQLite and PostgreSQL.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove serve-kills", Options::parse(words, 500), prove_both)
}

fn prove_both(options: &Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let server = Throwaway::start(&[]).map_err(|e| e.to_string())?;
    let postgresql = server.database("proof").map_err(|e| e.to_string())?;
    say(
        "| database | kills | acknowledged | missing or wrong | not answered | of these stored | doubled |",
    );
    say("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut holds = true;
    for name in ["SQLite", "PostgreSQL"] {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let place = match name {
            "SQLite" => folder.path().join("record.sqlite").display().to_string(),
            _ => postgresql.clone(),
        };
        let journal = folder.path().join("journal");
        let kills = u64::from(options.runs);
        let proof = serve_kills::prove(&place, options.seed, kills, |sockets| {
            let mut command = Command::new(&tachograph);
            // Some daemons die before, some after a batch.
            command.args(["serve", "--write-each", "100ms", "--journal"]).arg(&journal);
            command.args(sockets).env("TACHOGRAPH_RECORD", &place);
            command
        })?;
        let Proof { kills, tally } = proof;
        let Tally { acknowledged, wrong, unanswered, stored, foreign, .. } = tally;
        say(&format!(
            "| {name} | {kills} | {acknowledged} | {wrong} | {unanswered} | {stored} | {foreign} |"
        ));
        holds &= proof.holds();
    }
    Ok(holds & prove_windows(options, &tachograph)?)
}

/// The same for StatsD, whose windows are in memory, with restarts between the kills.
fn prove_windows(options: &Options, tachograph: &Path) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let place = folder.path().join("record.sqlite").display().to_string();
    let proof = statsd_kills::prove(&place, options.seed, u64::from(options.runs), |sockets| {
        let mut command = Command::new(tachograph);
        command.args(["serve", "--write-each", "100ms"]).args(sockets);
        command.env("TACHOGRAPH_RECORD", &place);
        command
    })?;
    let statsd_kills::Proof { kills, replaced, acknowledged, unanswered, stored, wrong } = &proof;
    say(
        "\n| StatsD | kills | restarts | acknowledged | not answered | of these stored | wrong totals |",
    );
    say("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let count = wrong.len();
    say(&format!(
        "| SQLite | {kills} | {replaced} | {acknowledged} | {unanswered} | {stored} | {count} |"
    ));
    wrong.iter().for_each(|wrong| say(wrong));
    Ok(proof.holds())
}
