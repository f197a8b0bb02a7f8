//! The proofs of the recorder: their sizes, and the tables of what they found.

use std::path::Path;
use std::process::Command;

use accuracy::Experiment;
use base::{Seed, format_count};
use proofs::counts::Tally;
use proofs::power_cuts::{self, Omission, Recording};
use proofs::{batches, database_kills, imports, restarts, serve_kills, statsd_kills};
use throwaway::Throwaway;

use crate::options::Options;
use crate::{binary, say};

/// Large enough for an import to take a few tenths of a second.
const IMPORT: imports::Size = imports::Size { least: 2_000, most: 40_000 };

/// All ways in which a life ends, twice, and hundreds of commits in each.
const RECORDING: power_cuts::Size = power_cuts::Size { lives: 7, counts: 60 };

/// Of a power cut with more states than these, as many are drawn.
const STATES: usize = 64;

/// Makes a proof in SQLite and in PostgreSQL, each with a name, a place and a folder, and prints a
/// row of each below the head; whether it holds in both.
fn in_both(
    head: &str,
    mut prove: impl FnMut(&str, &Path) -> Result<(String, bool), String>,
) -> Result<bool, String> {
    let server = Throwaway::start(&[]).map_err(|error| error.to_string())?;
    say(&format!("| database | {head} |"));
    say(&format!("| --- |{}", " ---: |".repeat(head.split('|').count())));
    let mut holds = true;
    for name in ["SQLite", "PostgreSQL"] {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let place = match name {
            "SQLite" => folder.path().join("record.sqlite").display().to_string(),
            _ => server.database("proof").map_err(|error| error.to_string())?,
        };
        let (row, held) = prove(&place, folder.path())?;
        say(&format!("| {name} | {row} |"));
        holds &= held;
    }
    Ok(holds)
}

/// The program to kill by `prove batches`.
#[derive(Debug, clap::Args)]
pub(crate) struct Batches {
    place: String,
    seed: Seed,
    /// The last batch that each writer was told of.
    #[arg(num_args = batches::WRITERS)]
    acknowledged: Vec<u64>,
}

impl Batches {
    pub(crate) fn write(self) -> Result<(), String> {
        let acknowledged = self.acknowledged.try_into().map_err(|_| "a number for each writer")?;
        batches::write(&self.place, self.seed, acknowledged, std::io::stdout())
    }
}

/// Kills writers, and compares the content of both databases with what was sent.
pub(crate) fn batches(options: Options) -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let head = "kills | acknowledged | in the database | killed before the acknowledgement | lost | slots sealed meanwhile | slots compared | wrong";
    in_both(head, |place, _| {
        let proof = batches::prove(place, options.seed, options.runs.into(), |acknowledged| {
            let mut command = Command::new(&program);
            command.args(["write-batches", place, &options.seed.to_string()]);
            command.args(acknowledged.map(|seq| seq.to_string()));
            command
        })?;
        let batches::Proof { kills, acknowledged, applied, unacknowledged, .. } = proof;
        let batches::Proof { lost, sealed, slots, wrong, .. } = proof;
        let row = format!(
            "{kills} | {acknowledged} | {applied} | {unacknowledged} | {lost} | {sealed} | {slots} | {wrong}"
        );
        Ok((row, proof.holds()))
    })
}

/// Kills imports, and compares the content of both databases with the files.
pub(crate) fn imports(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let head = "kills | files | lines | counted | in the database | slots compared | wrong | refused lines not kept aside";
    in_both(head, |place, folder| {
        let kills = options.runs.into();
        let proof = imports::prove(place, folder, options.seed, kills, IMPORT, |file| {
            let mut command = Command::new(&tachograph);
            command.args(["import", "--quiet", "--format", "influx", "--precision", "s"]);
            // A small head, so that much is written before the kill.
            command.args(["--head-memory", "16KiB"]);
            command.arg(file).env("TACHOGRAPH_RECORD", place);
            command
        })?;
        let imports::Proof { kills, files, lines, counted, stored, slots, wrong, not_kept } = proof;
        let row = format!(
            "{kills} | {files} | {lines} | {counted} | {stored} | {slots} | {wrong} | {not_kept}"
        );
        Ok((row, proof.holds()))
    })
}

/// Kills daemons, and compares what they acknowledged with the content of both databases; then the
/// same for StatsD, whose windows are in memory, with restarts between the kills.
pub(crate) fn serve_kills(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let head = "kills | acknowledged | missing or wrong | not answered | of these stored | doubled";
    let holds = in_both(head, |place, folder| {
        let proof = serve_kills::prove(place, options.seed, options.runs.into(), |sockets| {
            // Some daemons die before, some after a batch.
            let mut command = serve(&tachograph, place, &["--write-each", "100ms"]);
            command.arg("--journal").arg(folder.join("journal")).args(sockets);
            command
        })?;
        let Tally { acknowledged, wrong, unanswered, stored, foreign, .. } = proof.tally;
        let kills = proof.kills;
        let row =
            format!("{kills} | {acknowledged} | {wrong} | {unanswered} | {stored} | {foreign}");
        Ok((row, proof.holds()))
    })?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let place = folder.path().join("record.sqlite").display().to_string();
    let proof = statsd_kills::prove(&place, options.seed, options.runs.into(), |sockets| {
        let mut command = serve(&tachograph, &place, &["--write-each", "100ms"]);
        command.args(sockets);
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
    Ok(holds & proof.holds())
}

/// A daemon with this record.
fn serve(tachograph: &Path, place: &str, options: &[&str]) -> Command {
    let mut command = Command::new(tachograph);
    command.arg("serve").args(options).env("TACHOGRAPH_RECORD", place);
    command
}

/// Kills the server of a daemon, and compares what the daemon acknowledged with what the database has.
pub(crate) fn database_kills(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let kills = options.runs.into();
    let proof = database_kills::prove(folder.path(), options.seed, kills, |place, sockets| {
        let usual = ["--write-each", "100ms", "--head-memory", "1MiB", "--journal"];
        let mut command = serve(&tachograph, place, &usual);
        command.arg(folder.path().join("journal")).args(sockets);
        command
    })?;
    let database_kills::Proof { kills, tally, without, sum, peak } = proof;
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

/// Replaces a daemon, and compares what was sent with the content of SQLite.
pub(crate) fn restarts(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let record = folder.path().join("record.sqlite").display().to_string();
    let proof = restarts::prove(&record, folder.path(), options.runs, |sockets| {
        let mut command = serve(&tachograph, &record, &["--write-each", "1s"]);
        command.args(sockets);
        command
    })?;
    let restarts::Proof { restarts, requests, failed, longest, longest_afterwards, points } =
        &proof;
    say(&format!(
        "{restarts} restarts, {requests} HTTP requests, {failed} failed, the longest took {} ms, \
         and {} ms in as long without restarts",
        longest.as_millis(),
        longest_afterwards.as_millis()
    ));
    say("| sender | points sent | in the record |\n| --- | ---: | ---: |");
    for (sender, sent, stored) in points {
        say(&format!("| {sender} | {sent} | {stored} |"));
    }
    Ok(proof.holds())
}

/// Starts daemons on what power cuts leave, and shows what each kind of sync is needed for.
pub(crate) fn power_cuts(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    if !power_cuts::is_available() {
        return Err("strace is not installed, or may not trace here".to_owned());
    }
    let recording = Recording::make(&tachograph, options.seed, RECORDING)?;
    let proof = recording.prove(&tachograph, options.seed, options.runs as usize, STATES)?;
    let power_cuts::Proof { calls, acknowledged, cuts, made, exhausted, states, wrong } = &proof;
    say(
        "| calls | acknowledged | possible cuts | made | of these with all states | states | lost, doubled or not started |",
    );
    say("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let count = wrong.len();
    say(&format!(
        "| {calls} | {acknowledged} | {cuts} | {made} | {exhausted} | {states} | {count} |"
    ));
    wrong.iter().for_each(|wrong| say(wrong));
    say("\n| without the sync of | what goes wrong |\n| --- | --- |");
    let mut holds = proof.holds();
    for omission in Omission::ALL {
        let found = recording.without(&tachograph, omission)?;
        holds &= found.is_some();
        say(&format!("| {omission:?} | {} |", found.as_deref().unwrap_or("nothing")));
    }
    Ok(holds)
}

/// Prints the number of inputs by outcome; whether no numbers differ, and we accept nothing that the
/// other project refuses.
pub(crate) fn corpus(file: &Path) -> Result<bool, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unfit = |what: String| format!("{}: {what}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| unfit(error.to_string()))?;
    let outcomes = proofs::tables::compare(&name, &text);
    let outcomes = outcomes.unwrap_or_else(|| proofs::corpus::compare(&text)).map_err(unfit)?;
    say("| outcome | inputs | such as |\n| --- | ---: | --- |");
    for (outcome, (inputs, example)) in &outcomes {
        let example: String = example.chars().take(60).collect();
        say(&format!("| {outcome} | {inputs} | {example:?} |"));
    }
    let wrong = ["other numbers", "only the decoder refuses", "only the other project refuses"];
    Ok(!wrong.iter().any(|outcome| outcomes.contains_key(*outcome)))
}

/// Runs the experiment; fails if a published figure is not reproduced, a recorder is missing, or
/// one of our totals is wrong.
pub(crate) fn accuracy(options: Options) -> Result<bool, String> {
    let text = include_str!("../../../../experiments/series-accuracy.toml");
    let outcome = Experiment::parse(text, "series-accuracy.toml").and_then(|mut experiment| {
        experiment.series.random = options.runs;
        accuracy::run(&experiment, options.seed, &mut say)
    });
    let outcome = outcome.map_err(|error| error.to_string())?;
    outcome.wrong.iter().for_each(|wrong| say(&format!("wrong: {wrong}")));
    let holds = outcome.wrong.is_empty() && outcome.skipped.is_empty();
    if holds {
        say("\nEvery published figure is reproduced, and every total of ours is the truth.");
    }
    Ok(holds)
}

/// Compares every function in random ranges; whether no answer differs.
pub(crate) fn graphite(options: Options) -> Result<bool, String> {
    let found = proofs::render::compare(options.seed, options.runs, &mut say)?;
    Ok(are_none(&found.different, |differ| {
        let proofs::render::Agreement { targets, series, values, rounded, .. } = &found;
        format!(
            "{targets} targets, {series} series: {values} values are equal, {rounded} more are equal \
             once ours are rounded to six decimal places, {differ} targets differ"
        )
    }))
}

/// Compares the totals of exported files by step, day and series; whether none differs.
pub(crate) fn parquet(options: Options) -> Result<bool, String> {
    let found = proofs::parquet::compare(options.seed, options.runs.min(10), &mut say)?;
    Ok(are_none(&found.different, |differ| {
        format!(
            "{} recorders, {} slots, {} totals by step, day and series: {differ} differ in DuckDB or \
             pyarrow",
            found.recorders,
            format_count(found.slots),
            found.totals,
        )
    }))
}

/// Prints what differs, and a sentence with their number; whether there are none.
fn are_none(different: &[String], sentence: impl FnOnce(usize) -> String) -> bool {
    different.iter().for_each(|different| say(&format!("differs: {different}")));
    say(&sentence(different.len()));
    different.is_empty()
}
