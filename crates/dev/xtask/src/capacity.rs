//! `prove capacity`: `tachograph capacity` with servers whose capacity is known by formula, drawn by the
//! seed; and `prove capacity-simulation`: the same searches in simulated time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base::Seed;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use simulation::{capacity_markdown, run_capacity};
use zoo::Queue;

use crate::kept::ResultsFile;
use crate::options::{Options, Runs};
use crate::{binary, say};

/// The share of intervals that have to hold the truth.
const HELD_MIN: f64 = 0.93;
/// A limit of p99.
const SHARE: f64 = 0.01;
/// The way over loopback and the waking of processes add this much to every latency.
const OVERHEAD_S: f64 = 0.000_3;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct CapacityOptions {
    #[command(flatten)]
    options: Runs<60>,
    /// Time of a search
    #[arg(long, value_name = "S", default_value_t = 180, value_parser = clap::value_parser!(u32).range(20..=3_600))]
    seconds: u32,
    /// Keep the results in this file, a line of JSON each, and continue after those that it has
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

/// One search.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Search {
    run: u32,
    seed: Seed,
    server: String,
    limit_s: f64,
    truth_per_s: f64,
    seconds: u32,
    outcome: String,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    blocks: u64,
}

impl Search {
    fn holds(&self) -> bool {
        let found = self.outcome == "found" && self.value.is_some();
        let low = self.low.unwrap_or(0.0);
        let high = self.high.unwrap_or(f64::INFINITY);
        found && low <= self.truth_per_s && self.truth_per_s <= high
    }

    fn row(&self) -> String {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.1}"));
        format!(
            "| {} | {} | {:.0} ms | {:.1} | {} | {}–{} | {} | {} |",
            self.run + 1,
            self.server,
            1e3 * self.limit_s,
            self.truth_per_s,
            number(self.value),
            number(self.low),
            number(self.high),
            self.blocks,
            if self.holds() { "held" } else { self.outcome.as_str() },
        )
    }
}

/// A server, and the limit on its p99.
struct Subject {
    queue: Queue,
    flags: String,
    name: String,
    limit_s: f64,
}

impl Subject {
    /// One of three kinds; 300 to 2,000 requests per second, and limits of 6 to 30 service times, so that a
    /// search of minutes sees enough of the queue.
    fn draw(run: u32, seed: Seed) -> Subject {
        let mut rng = seed.rng("subject");
        let service_us = (rng.random_range(0.5_f64..3.0) * 1000.0).round();
        let service_s = service_us / 1e6;
        let times = rng.random_range(6.0_f64..30.0);
        let (queue, flags, name) = match run % 3 {
            0 => (
                Queue::Exponential { service_s },
                format!("--service {service_us}us --exponential"),
                format!("M/M/1, {service_us} µs"),
            ),
            1 => {
                let workers = rng.random_range(2..=8);
                (
                    Queue::Constant { service_s: service_s * f64::from(workers), workers },
                    format!("--service {}us --workers {workers}", service_us * f64::from(workers)),
                    format!("M/D/{workers}, {} µs", service_us * f64::from(workers)),
                )
            }
            _ => {
                let per_s = (1.0 / service_s).round();
                (
                    Queue::Bucket { gap_s: 1.0 / per_s },
                    format!("--limit {per_s}"),
                    format!("token bucket, {per_s}/s"),
                )
            }
        };
        let longest = match queue {
            Queue::Constant { service_s, .. } => service_s,
            _ => 0.0,
        };
        // Pauses of the machine have to be rare beside the limit.
        let limit_s = (times * service_s).max(1.5 * longest).max(0.02);
        Subject { queue, flags, name, limit_s: (limit_s * 1e3).round() / 1e3 }
    }

    fn truth_per_s(&self) -> f64 {
        self.queue.capacity_per_s(self.limit_s - OVERHEAD_S, SHARE)
    }
}

/// Searches for the capacities; whether enough intervals hold them.
pub(crate) fn prove(wanted: &CapacityOptions) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let options: Options = wanted.options.into();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut results: ResultsFile<Search> = ResultsFile::open(wanted.keep.as_deref())?;
    say("| run | server | p99 | truth | capacity | interval | blocks | outcome |");
    say("| --: | --- | --: | --: | --: | --- | --: | --- |");
    results.entries.iter().for_each(|search| say(&search.row()));
    for run in results.entries.len() as u32..options.runs {
        let seed = options.seed.derive("capacity", u64::from(run));
        let subject = Subject::draw(run, seed);
        let search = search(&tachograph, folder.path(), run, seed, &subject, wanted.seconds)?;
        say(&search.row());
        results.add(search)?;
    }
    let all = results.entries.len();
    let held = results.entries.iter().filter(|search| search.holds()).count();
    say(&format!("\n{held} of {all} intervals hold the capacity; wanted {:.0}%", 100.0 * HELD_MIN));
    Ok(held as f64 >= HELD_MIN * all as f64)
}

fn search(
    tachograph: &Path,
    folder: &Path,
    run: u32,
    seed: Seed,
    subject: &Subject,
    seconds: u32,
) -> Result<Search, String> {
    let command = format!(
        "'{}' serve-fixture --listen tcp://127.0.0.1:$PORT --served-file $DIR/served {}",
        tachograph.display(),
        subject.flags
    );
    let output = Command::new(tachograph)
        .args(["capacity", "--quiet", "--json", &command])
        .args(["--p99", &format!("{}us", subject.limit_s * 1e6)])
        .args(["--max-time", &format!("{seconds}s")])
        .args(["--served-by", "counter_file=$DIR/served"])
        .args(["--seed", &(seed.0 >> 12).to_string()])
        .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&text)
        .map_err(|_| format!("no result: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let variant = &json["variants"][0];
    let end = |name: &str| variant["capacity_per_s"][name].as_f64();
    Ok(Search {
        run,
        seed,
        server: subject.name.clone(),
        limit_s: subject.limit_s,
        truth_per_s: subject.truth_per_s(),
        seconds,
        outcome: variant["outcome"].as_str().unwrap_or("none").to_owned(),
        value: end("value"),
        low: end("low"),
        high: end("high"),
        blocks: json["blocks"].as_u64().unwrap_or(0),
    })
}

/// Prints the table of the simulation; whether every world meets its goal.
pub(crate) fn prove_simulation(options: Options) -> bool {
    let results = run_capacity(options.runs, options.seed);
    let table = capacity_markdown(&results);
    say(&format!("{table}\n{} searches per world, seed {}.", options.runs, options.seed));
    results.iter().all(|result| result.passed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_table_has_the_worlds_of_the_code() {
        let page = include_str!("../../../../docs/capacity.md");
        let row = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.trim().to_owned()).skip(1).take(2).collect()
        };
        let published: Vec<Vec<String>> = page
            .lines()
            .skip_while(|line| !line.starts_with("| world |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(row)
            .collect();
        let current: Vec<Vec<String>> = simulation::capacity_worlds()
            .iter()
            .map(|world| vec![world.name.to_owned(), world.about.to_owned()])
            .collect();
        assert_eq!(published, current);
    }

    #[test]
    fn drawn_servers_have_a_capacity_below_their_highest_rate() {
        for run in 0..30 {
            let subject = Subject::draw(run, Seed(7).derive("capacity", u64::from(run)));
            let (truth, most) = (subject.truth_per_s(), subject.queue.most_per_s());
            assert!(0.2 * most < truth && truth < most, "{}: {truth} of {most}", subject.name);
        }
    }
}
