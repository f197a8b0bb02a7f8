//! `instruments`: what the load generators of published tables print about the published stacks,
//! beside ours and what the stacks count; writes docs/instruments.md.

mod page;
mod results;
mod tables;
mod turns;

use std::path::PathBuf;

use base::Seed;

use self::results::InstrumentResults;
use self::tables::{PublishedTable, TABLES};
use self::turns::Turns;
use crate::options::one_of;
use crate::pages;

/// The command line of `instruments`.
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
    /// docs/instruments.md from the numbers that are kept
    Page,
}

#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Only this table; may be repeated
    #[arg(long, value_name = "TABLE", value_parser = one_of(&TABLES, |table| table.id))]
    only: Vec<&'static PublishedTable>,
    /// Only this stack; may be repeated
    #[arg(long = "stack", value_name = "NAME")]
    stacks: Vec<String>,
    /// Rounds of all tools on each stack
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each load
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Seed of the tools' order
    #[arg(long, value_name = "N", default_value_t = Seed(1))]
    seed: Seed,
    /// A remark on the circumstances, for the page
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Where scripts/truth-tools.sh installed the tools; others are looked for on PATH
    #[arg(long = "tools", value_name = "FOLDER", default_value = "target/truth-tools")]
    installed: PathBuf,
    /// Where the page and its numbers are written
    #[arg(long, value_name = "FOLDER", default_value_os_t = pages::docs())]
    docs: PathBuf,
}

/// Measures the requested tables, keeps the numbers and writes the page; or only writes it.
pub(crate) fn run(Command { page, options }: &Command) -> Result<(), String> {
    let numbers = options.docs.join("results/instruments.json");
    let mut results: InstrumentResults = pages::load(&numbers)?;
    let shown = options.docs.join("instruments.md");
    if page.is_some() {
        return pages::write(&shown, &page::page(&results));
    }
    let turns = Turns::new(options)?;
    turns.tools.note(&mut results.versions, &mut results.missing);
    for table in
        TABLES.iter().filter(|table| options.only.is_empty() || options.only.contains(table))
    {
        let wanted = |variant: &&&str| {
            options.stacks.is_empty() || options.stacks.iter().any(|stack| stack == **variant)
        };
        for variant in table.variants.iter().filter(wanted) {
            let measured = turns.measure(table, variant)?;
            let stacks = results.tables.entry(table.id.to_owned()).or_default();
            stacks.insert((*variant).to_owned(), measured);
            pages::save(&numbers, &results)?;
            pages::write(&shown, &page::page(&results))?;
        }
    }
    Ok(())
}
