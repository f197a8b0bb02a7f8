//! `prove simulation`: the coverage of the method's intervals for a known truth.

use std::process::ExitCode;

use simulation::{markdown, run_all};

use crate::options::Options;
use crate::usage_error;

/// Prints the table; exit status 1 if a scenario misses its goal.
pub(crate) fn prove(options: &[&str]) -> ExitCode {
    match Options::parse(options, 2000) {
        Ok(options) => print_table(&options),
        Err(what) => usage_error(&what),
    }
}

#[allow(clippy::print_stdout, reason = "the table is what the task is for")]
fn print_table(options: &Options) -> ExitCode {
    let results = run_all(options.runs, options.seed);
    print!("{}", markdown(&results));
    println!(
        "\n{} runs per scenario with a difference and as many without, seed {}.",
        options.runs, options.seed
    );
    ExitCode::from(u8::from(!results.iter().all(|result| result.passed())))
}

#[cfg(test)]
mod tests {
    use base::Seed;

    use super::*;

    #[test]
    fn the_published_table_has_the_scenarios_and_goals_of_the_code() {
        let page = include_str!("../../../../docs/proofs/simulation.md");
        let (results, _) = page.split_once("## How to read it").unwrap();
        // The name, the disturbance and the goal; the figures take minutes and are not repeated
        // here.
        let definition = |row: &str| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            [1, 2, 4].map(|i| cells[i].trim_end_matches(" **missed**").to_owned())
        };
        let published: Vec<_> =
            results.lines().filter(|line| line.starts_with('|')).map(definition).collect();
        let current: Vec<_> = markdown(&run_all(1, Seed(1))).lines().map(definition).collect();
        assert_eq!(published, current);
    }
}
