//! `bench`: compares our load engine with other clients, line by line, and writes
//! docs/performance.md.

mod calls;
mod clients;
mod lines;
mod native;
mod options;
mod page;
mod process;
mod results;
mod rounds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use calls::{on_path, version};
pub(crate) use native::run as client;
pub(crate) use process::{Pinned, become_pinned};
pub(crate) use results::write;
pub(crate) use rounds::machine;

use crate::bench::lines::LINES;
use crate::bench::options::Options;
use crate::bench::results::Results;
use crate::bench::rounds::Bench;
use crate::{say, usage_error};

/// Measures the requested lines, saves the results and writes the page.
pub(crate) fn bench(words: &[&str]) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(what) => return usage_error(&what),
    };
    match measure(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            say(&format!("bench: {what}"));
            ExitCode::from(2)
        }
    }
}

/// Writes the page from the saved results, without measuring.
pub(crate) fn write_page() -> ExitCode {
    let written = Results::load(&docs().join(NUMBERS)).and_then(|results| save_page(&results));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            say(&format!("bench: {what}"));
            ExitCode::from(2)
        }
    }
}

const NUMBERS: &str = "results/performance.json";

/// The project's docs folder: beside this package under cargo, else below the current folder.
pub(crate) fn docs() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => Path::new(&package).join("../../../docs"),
        None => PathBuf::from("docs"),
    }
}

fn save_page(results: &Results) -> Result<(), String> {
    results::write(&docs().join("performance.md"), &page::page(results))
}

fn measure(options: &Options) -> Result<(), String> {
    let numbers = docs().join(NUMBERS);
    let mut results = Results::load(&numbers)?;
    let bench = Bench::new(options)?;
    for line in LINES.iter().filter(|line| options.wants(line.id)) {
        let measured = bench.measure(line)?;
        page::goals(line, &measured).iter().for_each(|row| say(row.trim_end()));
        say(page::section(line, &measured).trim_end());
        say("");
        results.lines.insert(line.id.to_owned(), measured);
        // After each line, so that a later failure loses nothing.
        results.save(&numbers)?;
        save_page(&results)?;
    }
    Ok(())
}
