//! `bench`: compares our load engine with other clients, line by line, and writes
//! docs/performance.md.

mod calls;
mod clients;
mod lines;
mod native;
mod page;
mod results;
mod rounds;

use base::Seed;
use clap::builder::PossibleValuesParser;

pub(crate) use native::OwnClient;

use crate::bench::lines::LINES;
use crate::bench::results::Results;
use crate::bench::rounds::Bench;
use crate::{pages, say};

/// The command line of `bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    page: Option<Page>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Subcommand)]
enum Page {
    /// docs/performance.md from the numbers that are kept
    Page,
}

#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Only this line; may be repeated
    #[arg(long, value_name = "LINE", value_parser = PossibleValuesParser::new(LINES.iter().map(|line| line.id)))]
    only: Vec<String>,
    /// Rounds of all clients
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Duration of one client's turn, from 0.2 to 60
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Seed of the clients' order
    #[arg(long, value_name = "N", default_value_t = Seed(1))]
    seed: Seed,
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.2..=60.0).contains(seconds));
    seconds.ok_or("a number from 0.2 to 60 is wanted")
}

/// Measures the requested lines, keeps the numbers and writes the page; or only writes it.
pub(crate) fn bench(Command { page, options }: &Command) -> Result<(), String> {
    let numbers = pages::docs().join("results/performance.json");
    let mut results: Results = pages::load(&numbers)?;
    if page.is_some() {
        return save_page(&results);
    }
    let bench = Bench::new(options)?;
    // A machine may have too few files or ports for some of them.
    let mut failed = Vec::new();
    let is_wanted = |id: &str| options.only.is_empty() || options.only.iter().any(|one| one == id);
    for line in LINES.iter().filter(|line| is_wanted(line.id)) {
        let measured = match bench.measure(line) {
            Err(what) if !bench.is_stopped() => {
                say(&format!("{}: {what}", line.id));
                failed.push(line.id);
                continue;
            }
            measured => measured?,
        };
        page::goals(line, &measured).iter().for_each(|row| say(row.trim_end()));
        say(page::section(line, &measured).trim_end());
        say("");
        results.lines.insert(line.id.to_owned(), measured);
        // After each line, so that a later failure loses nothing.
        pages::save(&numbers, &results)?;
        save_page(&results)?;
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("not measured: {}", failed.join(", "))),
    }
}

fn save_page(results: &Results) -> Result<(), String> {
    pages::write(&pages::docs().join("performance.md"), &page::page(results))
}
