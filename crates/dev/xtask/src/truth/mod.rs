//! `truth`: what load generators, and `compare`, report about servers of known behaviour, beside
//! what is true; writes docs/truth.md.

mod comparing;
mod comparisons;
mod load;
mod options;
mod page;
mod report;
mod results;
mod rounds;
mod scenarios;
mod stall;
mod tables;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::options::Options;
use self::results::Results;
use self::rounds::Rounds;
use crate::{bench, say, usage_error};

pub(crate) use self::comparisons::subjects;

/// Measures the requested scenarios, saves the results and writes the page.
pub(crate) fn measure(words: &[&str]) -> ExitCode {
    with(words, run)
}

/// Writes the page from the saved results, without measuring.
pub(crate) fn write_page(words: &[&str]) -> ExitCode {
    with(words, |options| save_page(&options.docs, &Results::load(&numbers(&options.docs))?))
}

fn with(words: &[&str], task: impl FnOnce(&Options) -> Result<(), String>) -> ExitCode {
    match Options::parse(words).map(|options| task(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(what)) => {
            say(&format!("truth: {what}"));
            ExitCode::from(2)
        }
        Err(what) => usage_error(&what),
    }
}

fn numbers(docs: &Path) -> PathBuf {
    docs.join("results/truth.json")
}

fn save_page(docs: &Path, results: &Results) -> Result<(), String> {
    bench::write(&docs.join("truth.md"), &page::page(results))
}

fn run(options: &Options) -> Result<(), String> {
    let mut results = Results::load(&numbers(&options.docs))?;
    // Before anything is measured that could then not be saved.
    let folder = options.docs.join("results");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
    let save = |results: &Results| {
        results.save(&numbers(&options.docs))?;
        save_page(&options.docs, results)
    };
    comparing::measure(options, &mut results, save)?;
    if options.scenarios.is_empty() {
        return Ok(());
    }
    // From now on this program is limited to one CPU.
    let rounds = Rounds::new(options)?;
    results.missing = rounds.missing.clone();
    results.versions.extend(rounds.versions());
    for scenario in &options.scenarios {
        let measured = rounds.measure(scenario)?;
        results.scenarios.insert(scenario.id.to_owned(), measured);
        // After each scenario, so that a later failure loses nothing.
        save(&results)?;
    }
    Ok(())
}
