//! The command line: options, defaults and the text of `--help`.

pub(crate) mod capacity;
pub(crate) mod compare;
pub(crate) mod container;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fixture;
pub(crate) mod hive;
pub(crate) mod import;
pub(crate) mod load;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod series;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod shared;

use std::io::Write as _;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::failure::Failure;
use crate::output::{self, ColourWhen};

/// Version and commit of this build.
pub(crate) const VERSION: &str = env!("TACHOGRAPH_VERSION");

/// What `--version` prints after the name. Results of different methods are not comparable.
fn version_and_method() -> String {
    format!("{VERSION}, method {}", record::METHOD)
}

/// Benchmarks whose numbers add up.
///
/// Compares servers on this machine: starts each, loads them in interleaved
/// rounds over TCP or Unix sockets, checks every response, counts every request
/// on both ends, and reports which is faster, by how much, and how certain that
/// is. Records metrics as exact time series in SQLite or PostgreSQL.
#[derive(Debug, Parser)]
#[command(
    name = "tachograph",
    version = version_and_method(),
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Exit status:\n\
\x20 0  measured, and all is well\n\
\x20 1  measured, but a check failed: errors, ledger, --fail-if\n\
\x20 2  could not measure, too few blocks for a verdict, or stopped before every\n\
\x20    comparison had its verdict; also if the result cannot be written\n\
\n\
Environment:\n\
\x20 TACHOGRAPH_<OPTION>   Default of any option, e.g. TACHOGRAPH_CONNECTIONS=64\n\
\x20 TACHOGRAPH_LOCK_DIR   Folder of the CPU locks\n\
\x20                       [default: /tmp/tachograph-UID]\n\
\n\
Ctrl-C or SIGTERM stops a run early and reports the data so far; a second one exits at once.\n\
A second comparison waits for the first unless --cpus gives each its own CPUs.\n\
\n\
Start with: tachograph doctor"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GlobalFlags {
    /// Database of runs and series [default: tachograph/record.sqlite in the XDG data folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) record: Option<std::path::PathBuf>,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: ColourWhen,
    /// Suppress progress output
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load one target, like wrk or oha, and check every response
    #[command(after_help = load::EXAMPLES)]
    Load(load::LoadFlags),
    /// Compare servers: start each command, load them in interleaved rounds
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareFlags),
    /// Find the highest rate at which a condition holds, such as a p99 of 50 ms, with an interval
    #[command(after_help = capacity::EXAMPLES)]
    Capacity(capacity::CapacityFlags),
    /// Compare two commits: check out and build both, and tell whether the later one is slower
    #[command(
        override_usage = "tachograph diff [OPTIONS] [BASE [HEAD]] COMMAND",
        after_help = diff::EXAMPLES
    )]
    Diff(diff::DiffFlags),
    /// Send the requests of a log to two servers, and tell how their answers differ
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayFlags),
    /// Run an experiment, built-in or from a file
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunFlags),
    /// List built-in experiments and recorded runs
    List(report::ListFlags),
    /// Show a recorded run as text, HTML, Markdown, CSV or JSON
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportFlags),
    /// Import series from Graphite, Influx, StatsD, CSV, RRD or whisper files
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportFlags),
    /// Show rates and totals of series as a table, chart, CSV or JSON
    #[command(after_help = series::EXAMPLES)]
    Query(series::QueryFlags),
    /// List recorded series, measurements or tags
    Series(series::SeriesFlags),
    /// Export slots as Parquet files, for Hive, Spark and DuckDB
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportFlags),
    /// Make or update a table in Hive or Spark over exported Parquet files
    #[command(after_help = hive::EXAMPLES)]
    Publish(hive::PublishFlags),
    /// Record metrics as they arrive, and answer Grafana, until SIGTERM or Ctrl-C
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::ServeFlags),
    /// Drop expired data and pack old data, as 'serve' does by itself
    Maintain,
    /// Check this machine: what is missing, and how to install it
    Doctor(doctor::DoctorFlags),
    /// Run the built-in test server: HTTP, raw exchanges, and faults on demand
    ServeFixture(fixture::FixtureFlags),
    /// Run a container, and remove it on exit
    #[command(after_help = container::EXAMPLES)]
    Container(container::ContainerFlags),
    /// Print shell completions
    #[command(
        after_help = "Example: tachograph completions bash > ~/.local/share/bash-completion/completions/tachograph"
    )]
    Completions(doctor::CompletionsFlags),
    /// Print the manual page, or write one per command to a folder
    #[command(after_help = "Example: tachograph man | man -l -")]
    Man(doctor::ManFlags),
}

/// The command line's definition, with an environment variable for every option.
pub(crate) fn definition() -> clap::Command {
    with_environment(Cli::command())
}

fn with_environment(command: clap::Command) -> clap::Command {
    let named = command.mut_args(|arg| match arg.get_long() {
        Some(long) if arg.get_action().takes_values() || is_flag(&arg) => {
            let variable = format!("TACHOGRAPH_{}", long.replace('-', "_").to_uppercase());
            arg.env(variable).hide_env(true)
        }
        _ => arg,
    });
    named.mut_subcommands(with_environment)
}

fn is_flag(arg: &clap::Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::SetTrue)
}

/// Parses the command line; `None` after `--help` and `--version`, which are printed here.
///
/// # Errors
/// If they cannot be printed. On a command line that is wrong, the program ends here, with status 2.
pub(crate) fn parse() -> Result<Option<Cli>, Failure> {
    let parsed = definition().try_get_matches().and_then(|m| Cli::from_arg_matches(&m));
    match parsed {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            output::printed(help.print().and_then(|()| std::io::stdout().flush())).map(|()| None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }
}
