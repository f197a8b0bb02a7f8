//! `truth`: what load generators, and `compare`, report about servers of known behaviour, beside
//! what is true; writes docs/truth.md.

mod comparing;
mod comparisons;
mod page;
mod results;
mod rounds;
mod scenarios;
mod stall;
mod tables;

use std::path::PathBuf;

use base::Seed;
use clap::builder::PossibleValuesParser;

use self::comparisons::{COMPARISONS, Comparison};
use self::results::Results;
use self::rounds::Turns;
use self::scenarios::{SCENARIOS, Scenario};
use crate::options::one_of;
use crate::pages;
use crate::tools::{TOOLS, Tool};

pub(crate) use self::comparisons::subjects;

/// The command line of `truth`.
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
    /// docs/truth.md from the numbers that are kept
    Page {
        #[arg(long, value_name = "FOLDER", default_value_os_t = pages::docs())]
        docs: PathBuf,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Only this scenario or comparison; may be repeated
    #[arg(long, value_name = "SCENARIO", value_parser = PossibleValuesParser::new(ids()))]
    only: Vec<String>,
    /// Only this tool, beside the earlier runs of others; may be repeated
    #[arg(long = "tool", value_name = "NAME", value_parser = one_of(TOOLS, |tool| tool.name))]
    tools: Vec<&'static Tool>,
    /// Rounds of all tools
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How much longer than its load a tool may take, in seconds
    #[arg(long, value_name = "S", default_value_t = 20)]
    patience: u64,
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

fn ids() -> impl Iterator<Item = &'static str> {
    let scenarios = SCENARIOS.iter().map(|scenario| scenario.id);
    scenarios.chain(COMPARISONS.iter().map(|comparison| comparison.id))
}

impl Options {
    fn tools(&self) -> Vec<&'static Tool> {
        if self.tools.is_empty() { TOOLS.to_vec() } else { self.tools.clone() }
    }

    fn scenarios(&self) -> impl Iterator<Item = &'static Scenario> {
        SCENARIOS.iter().filter(|scenario| self.wants(scenario.id))
    }

    /// Only ours compares.
    fn comparisons(&self) -> impl Iterator<Item = &'static Comparison> {
        let is_ours = self.tools().iter().any(|tool| tool.name == "tachograph");
        COMPARISONS.iter().filter(move |comparison| {
            self.wants(comparison.id) && (is_ours || !self.only.is_empty())
        })
    }

    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == id)
    }
}

/// Measures the requested scenarios, keeps the numbers and writes the page; or only writes it.
pub(crate) fn run(Command { page, options }: &Command) -> Result<(), String> {
    let docs = match page {
        Some(Page::Page { docs }) => docs,
        None => &options.docs,
    };
    let numbers = docs.join("results/truth.json");
    let mut results: Results = pages::load(&numbers)?;
    let save_page = |results: &Results| pages::write(&docs.join("truth.md"), &page::page(results));
    if page.is_some() {
        return save_page(&results);
    }
    // Before anything is measured that could then not be saved.
    let folder = docs.join("results");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
    let save = |results: &Results| {
        pages::save(&numbers, results)?;
        save_page(results)
    };
    comparing::measure(options, &mut results, save)?;
    if options.scenarios().next().is_none() {
        return Ok(());
    }
    // From now on this program is limited to one CPU.
    let turns = Turns::new(options)?;
    turns.tools.note(&mut results.versions, &mut results.missing);
    for scenario in options.scenarios() {
        let measured = turns.measure(scenario)?;
        let earlier = results.scenarios.remove(scenario.id).unwrap_or_default();
        results.scenarios.insert(scenario.id.to_owned(), measured.beside(earlier));
        // After each scenario, so that a later failure loses nothing.
        save(&results)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn what_is_measured_depends_on_scenarios_and_tools() {
        let wanted = |words: &[&str]| {
            let words = [&["truth"], words].concat();
            let Line { options } = Line::try_parse_from(words).unwrap();
            let counts = (options.scenarios().count(), options.comparisons().count());
            (counts.0, counts.1, options.tools().len())
        };
        let (scenarios, comparisons) = (SCENARIOS.len(), COMPARISONS.len());
        assert_eq!(wanted(&[]), (scenarios, comparisons, TOOLS.len()));
        assert_eq!(wanted(&["--tool", "wrk"]), (scenarios, 0, 1));
        assert_eq!(wanted(&["--only", "stall", "--only", "unix"]), (2, 0, TOOLS.len()));
        assert_eq!(wanted(&["--only", "compare-stops-by-time"]), (0, 1, TOOLS.len()));
        assert!(Line::try_parse_from(["truth", "--only", "x"]).is_err());
    }
}
