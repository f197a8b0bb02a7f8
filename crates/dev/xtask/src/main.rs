//! Tasks for development: `cargo run --release -p xtask -- prove simulation`, `… -- bench`.

mod aa;
mod bench;
mod bench_render;
mod bench_slots;
mod binary;
mod capacity;
mod carbon;
mod crashes;
mod cut_connections;
mod diff;
mod faults;
mod http;
mod injection;
mod instruments;
mod kept;
mod kills;
mod noise;
mod options;
mod pages;
mod process;
mod recorder;
mod replay;
mod server;
mod simulation;
mod tools;
mod truth;
mod truth_stores;
mod warehouse;
mod why;
mod zoo;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use options::Runs;

/// Tasks for development
///
/// All but the simulation, the crashes and the batches run target/release/tachograph: build it
/// first.
#[derive(Debug, Parser)]
#[command(name = "xtask", disable_help_subcommand = true)]
enum Task {
    /// Proofs of what the method and the recorder promise
    #[command(subcommand)]
    Prove(Proof),
    /// Our load engine beside wrk, ab, h2load, oha, hey and iperf3, whichever are on PATH: into
    /// docs/performance.md and its numbers beside it
    Bench(bench::Command),
    /// What load generators report about servers of known behaviour, and compare about three that
    /// are sometimes slow: into docs/truth.md and its numbers beside it
    Truth(truth::Command),
    /// What the load generators of published tables print about the published stacks, beside ours and
    /// what the stacks count: into docs/instruments.md and its numbers beside it
    Instruments(instruments::Command),
    /// What time-series stores keep of counts and rates with known totals: into docs/truth-stores.md and
    /// its numbers beside it
    TruthStores(truth_stores::Command),
    /// The same history filled into ours, rrdtool, whisper and others: into
    /// docs/series-performance.md
    BenchSeries(bench_slots::Command),
    /// /render of 50 series over a day of 10-second slots, from tachograph serve and from the real
    /// graphite-web
    BenchRender(Runs<20>),
    #[command(flatten)]
    Own(OwnTask),
}

/// The proofs.
#[derive(Debug, Subcommand)]
enum Proof {
    /// The method's scenarios and their coverage, as a table; fails if a goal is missed
    Simulation(Runs<2000>),
    /// Searches for the capacity of simulated queues, and their coverage, as a table; fails if a goal is
    /// missed
    CapacitySimulation(Runs<2000>),
    /// tachograph capacity on servers whose capacity is known by formula, drawn by the seed: M/M/1, M/D/c
    /// and token buckets
    Capacity(capacity::CapacityOptions),
    /// The same gunicorn compared with itself: false alarms
    Aa(Runs<60>),
    /// Gunicorn compared with itself for 60 seconds, and two servers of which one needs 1% more CPU
    /// time: false alarms, coverage, half-width, power
    Sixty(aa::Sixty),
    /// Servers with exactly known differences of 2, 5 and 20%
    Injection(Runs<60>),
    /// Two equal servers, and two that differ by 5%, beside neighbours that the proof starts itself:
    /// runs with a verdict, false alarms, coverage and half-widths, beside wrk
    Noise(noise::NoiseOptions),
    /// Servers that are uneven in known ways, drawn by the seed, each compared with an even one and
    /// with itself 5% worse: intervals that hold the truth, wrong signs, half-widths
    Zoo(zoo::ZooOptions),
    /// Servers with fifty functions, one of which costs twice as much: whether --why names it first, and
    /// none where both are equal
    Why(why::WhyOptions),
    /// tachograph diff on a repository whose head is equal, and on one whose head is 5% slower,
    /// beside a neighbour that uses a third of a CPU
    Diff(Runs<10>),
    /// Servers that lie or are slow, a throttled client, a CPU hog: how often each is caught (about
    /// two minutes each time)
    Faults(Runs<20>),
    /// tachograph replay of as many requests to two servers whose answers differ in a hundred places that
    /// the seed chooses
    Replay(Runs<1_000_000>),
    /// kill -9 at random moments; nothing may stay behind
    Kills(Runs<100>),
    /// The same for runs whose stacks are containers; call it by scripts/with-docker.sh where no
    /// Docker Engine runs
    ContainerKills(Runs<30>),
    /// Comparisons over ssh that are cut at random moments, by kill -9 at either end and of ssh and
    /// by taking the link down (as root); nothing may stay behind at either end after ten seconds
    CutConnections(Runs<50>),
    /// The simulators of the recorder's engine, on every CPU, for as many seeds: torn writes, failing
    /// disks, power cuts, a store that loses answers, clocks that jump
    Crashes(Runs<1_000_000>),
    /// kill -9 of a program with ten writers of series, in SQLite and in PostgreSQL; what was
    /// acknowledged must be there once
    Batches(Runs<500>),
    /// kill -9 of tachograph import, into SQLite and into PostgreSQL; called again, every line must be
    /// there once
    Imports(Runs<500>),
    /// tachograph serve replaced under load: requests failed, points lost or doubled, the longest
    /// pause
    Restarts(Runs<1_000>),
    /// kill -9 of tachograph serve under load, with SQLite and with PostgreSQL; what was acknowledged
    /// must be there once
    ServeKills(Runs<500>),
    /// kill -9 of the PostgreSQL server of tachograph serve under load; what was acknowledged, also
    /// without the server, must be there once
    DatabaseKills(Runs<200>),
    /// A daemon started on every state of its files that a power cut may leave, at as many moments of
    /// a recording by strace; what was acknowledged must be there once, and without each kind of sync
    /// it must not be
    PowerCuts(Runs<500>),
    /// Inputs of another project's tests through our parsers, compared with what it makes of them
    Corpus {
        /// corpus.json of influxdata/line-protocol, lexer_test.go of gostatsd, statsd_msg.c of
        /// brubeck, plain_test.go of go-carbon or test_protocols.py of carbon
        file: PathBuf,
    },
    /// The experiment series-accuracy: the same updates through the real rrdtool, the real whisper and
    /// ours, then as many random ones
    Accuracy(Runs<1_000_000>),
    /// Every function of docs/graphite.md over random series in as many ranges, ours and the real
    /// graphite-web's over whisper files
    Graphite(Runs<20>),
    /// Three recorders of as many intervals each and round, with files imported twice and kills while
    /// they import and export, published to a real Spark cluster, once more with a real KDC; installs
    /// Spark in target/warehouse (400 MB)
    Warehouse(Runs<3_000>),
    /// Three recorders with random histories of as many days (at most 10) export to one folder while
    /// they grow: the totals of DuckDB and pyarrow are those of the stores
    Parquet(Runs<4>),
    /// All of these but container-kills, cut-connections and corpus, one after the other
    All,
}

/// What the tasks start themselves.
#[derive(Debug, Subcommand)]
enum OwnTask {
    #[command(hide = true)]
    Neighbour(noise::Neighbour),
    #[command(hide = true)]
    ZooServer { port: u16, file: PathBuf },
    #[command(hide = true)]
    HiveLogins { url: hive::Address, principal: Option<String> },
    #[command(hide = true)]
    FillSeries(bench_slots::FillSeries),
    #[command(hide = true)]
    BenchPinned(process::Pin),
    #[command(hide = true)]
    BenchClient(bench::OwnClient),
    #[command(hide = true)]
    WriteBatches(recorder::Batches),
}

/// The proofs of `prove all`.
const ALL: &str = "simulation capacity-simulation crashes accuracy graphite parquet kills batches imports restarts \
                   serve-kills power-cuts database-kills warehouse sixty aa injection noise zoo capacity why \
                   diff faults replay";

/// Exit status 1 if a proof does not hold or a bench is incomplete, 2 if it could not be made.
#[allow(clippy::print_stderr, reason = "a task speaks to the person who called it")]
fn main() -> ExitCode {
    match Task::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

impl Task {
    /// Whether what was to be shown is true.
    fn run(self) -> Result<bool, String> {
        let done = match self {
            Task::Prove(proof) => return proof.run(),
            Task::BenchSeries(command) => return bench_slots::bench(&command),
            Task::Bench(command) => bench::bench(&command),
            Task::Truth(command) => truth::run(&command),
            Task::Instruments(command) => instruments::run(&command),
            Task::TruthStores(command) => command.run(),
            Task::BenchRender(runs) => bench_render::run(runs.into()),
            Task::Own(own) => own.run(),
        };
        done.map(|()| true)
    }
}

impl Proof {
    fn run(self) -> Result<bool, String> {
        match self {
            Proof::Simulation(runs) => Ok(simulation::prove(runs.into())),
            Proof::CapacitySimulation(runs) => Ok(capacity::prove_simulation(runs.into())),
            Proof::Capacity(wanted) => capacity::prove(&wanted),
            Proof::Aa(runs) => aa::prove(runs.into()),
            Proof::Sixty(sixty) => aa::prove_sixty(&sixty),
            Proof::Injection(runs) => injection::prove(runs.into()),
            Proof::Noise(wanted) => noise::prove(&wanted),
            Proof::Zoo(wanted) => zoo::prove(&wanted),
            Proof::Why(wanted) => why::prove(&wanted),
            Proof::Diff(runs) => diff::prove(runs.into()),
            Proof::Faults(runs) => faults::prove(runs.into()),
            Proof::Replay(runs) => replay::prove(runs.into()),
            Proof::Kills(runs) => kills::prove(runs.into()),
            Proof::ContainerKills(runs) => kills::prove_containers(runs.into()),
            Proof::CutConnections(runs) => cut_connections::prove(runs.into()),
            Proof::Crashes(runs) => crashes::prove(runs.into()),
            Proof::Batches(runs) => recorder::batches(runs.into()),
            Proof::Imports(runs) => recorder::imports(runs.into()),
            Proof::Restarts(runs) => recorder::restarts(runs.into()),
            Proof::ServeKills(runs) => recorder::serve_kills(runs.into()),
            Proof::DatabaseKills(runs) => recorder::database_kills(runs.into()),
            Proof::PowerCuts(runs) => recorder::power_cuts(runs.into()),
            Proof::Corpus { file } => recorder::corpus(&file),
            Proof::Accuracy(runs) => recorder::accuracy(runs.into()),
            Proof::Graphite(runs) => recorder::graphite(runs.into()),
            Proof::Warehouse(runs) => warehouse::prove(runs.into()),
            Proof::Parquet(runs) => recorder::parquet(runs.into()),
            Proof::All => Ok(all()),
        }
    }
}

impl OwnTask {
    fn run(self) -> Result<(), String> {
        match self {
            OwnTask::Neighbour(neighbour) => neighbour.run(),
            OwnTask::ZooServer { port, file } => zoo::serve(port, &file),
            OwnTask::HiveLogins { url, principal } => warehouse::log_in(&url, principal.as_deref()),
            OwnTask::FillSeries(filling) => filling.run(),
            OwnTask::BenchPinned(pin) => pin.run(),
            OwnTask::BenchClient(client) => client.run(),
            OwnTask::WriteBatches(batches) => batches.write(),
        }
    }
}

/// Makes every proof with its usual options, even after failures; whether all hold.
fn all() -> bool {
    let failed = ALL.split_whitespace().filter(|name| {
        let done = Task::parse_from(["xtask", "prove", name]).run();
        if let Err(what) = &done {
            say(&format!("prove {name}: {what}"));
        }
        done != Ok(true)
    });
    failed.count() == 0
}

/// Prints a line of output.
#[allow(clippy::print_stdout, reason = "the result of a task is what it prints")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::options::Options;

    #[test]
    fn the_command_line_is_sound_and_every_proof_of_all_exists() {
        Task::command().debug_assert();
        for name in ALL.split_whitespace() {
            assert!(Task::try_parse_from(["xtask", "prove", name]).is_ok(), "{name}");
        }
    }

    #[test]
    fn each_proof_has_its_own_number_of_runs() {
        let options = |words: &[&str]| -> Result<Options, clap::Error> {
            match Task::try_parse_from([&["xtask", "prove"], words].concat())? {
                Task::Prove(Proof::Simulation(runs)) => Ok(runs.into()),
                Task::Prove(Proof::Batches(runs)) => Ok(runs.into()),
                other => panic!("{other:?}"),
            }
        };
        let is = |words: &[&str], runs, seed| {
            assert_eq!(options(words).unwrap(), Options { runs, seed: base::Seed(seed) });
        };
        is(&["simulation"], 2000, 1);
        is(&["batches", "--seed", "7"], 500, 7);
        is(&["batches", "--runs", "3"], 3, 1);
        for words in [["--runs", "0"], ["--seed", "x"], ["--what", "1"]] {
            assert!(options(&[&["batches"], &words[..]].concat()).is_err(), "{words:?}");
        }
    }
}
