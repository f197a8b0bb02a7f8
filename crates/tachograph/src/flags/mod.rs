//! The command line: what may be typed, what it means by default, and the text of `--help`.

pub(crate) mod compare;
pub(crate) mod container;
pub(crate) mod doctor;
pub(crate) mod fixture;
pub(crate) mod import;
pub(crate) mod load;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod series;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::output::ColourWhen;

/// Benchmarks whose numbers add up.
///
/// Give tachograph commands that start servers. It starts each, loads each in
/// interleaved rounds over TCP or Unix sockets, checks every response, counts
/// every request on both ends, and says which is faster, by how much, and how
/// sure it is.
#[derive(Debug, Parser)]
#[command(
    name = "tachograph",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Every option can also be set by an environment variable: TACHOGRAPH_ and its name in \
capitals, e.g. TACHOGRAPH_CONNECTIONS=64.\n\
Exit status: 0 measured and all well; 1 measured, but a verdict failed; 2 could not measure.\n\
Start with: tachograph doctor"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// The database of runs [default: tachograph/record.sqlite in the XDG data folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) record: Option<std::path::PathBuf>,
    /// When to colour the output
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: ColourWhen,
    /// Print no progress
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load one target, as wrk or oha would, and check every answer
    #[command(after_help = load::EXAMPLES)]
    Load(load::LoadFlags),
    /// Start each command, load each in interleaved rounds, and say which is faster
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareFlags),
    /// Run an experiment: a built-in one by name, or a file
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunFlags),
    /// List the built-in experiments and the recorded runs
    List(report::ListFlags),
    /// Show a recorded run again: terminal, HTML, Markdown, CSV or JSON
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportFlags),
    /// Read files of other programs into the record: Graphite, Influx, StatsD, CSV, RRD, whisper
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportFlags),
    /// Show series: their rate and total over time, as a table, a picture, CSV or JSON
    #[command(after_help = series::EXAMPLES)]
    Query(series::QueryFlags),
    /// List the series of the record, their measurements or tags
    Series(series::SeriesFlags),
    /// Say what this machine has, what each experiment still needs, and the command that installs it
    Doctor(doctor::DoctorFlags),
    /// The built-in native server: null server, raw exchanges, and faults on demand
    ServeFixture(fixture::FixtureFlags),
    /// Start a container, look after it, and remove it when asked to stop
    #[command(after_help = container::EXAMPLES)]
    Container(container::ContainerFlags),
    /// Print completions for a shell
    #[command(
        after_help = "Example: tachograph completions bash > ~/.local/share/bash-completion/completions/tachograph"
    )]
    Completions(doctor::CompletionsFlags),
    /// Print the manual page, or write one per command into a folder
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

/// Reads the command line; on `--help`, `--version` and errors the program ends here, with status 0 or 2.
pub(crate) fn parse() -> Cli {
    let matches = definition().get_matches();
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
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
