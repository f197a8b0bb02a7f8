//! `prove simulation`: the coverage of the method's intervals where the truth is known.

use std::process::ExitCode;

use base::Seed;
use stats::simulate::{markdown, run_all};

use crate::usage_error;

/// How much is simulated.
#[derive(Debug, PartialEq)]
struct Options {
    runs: u32,
    seed: Seed,
}

/// Prints the table; exit status 1 if a scenario misses its goal.
pub(crate) fn prove(options: &[&str]) -> ExitCode {
    match Options::parse(options) {
        Ok(options) => print_table(&options),
        Err(what) => usage_error(&what),
    }
}

impl Options {
    fn parse(mut words: &[&str]) -> Result<Options, String> {
        let mut options = Options { runs: 2000, seed: Seed(1) };
        while let [name, rest @ ..] = words {
            let [value, rest @ ..] = rest else { return Err(format!("{name} lacks its value")) };
            let unfit = || format!("{name} {value}: a whole number above 0 is wanted");
            match *name {
                "--runs" => {
                    options.runs = value.parse().ok().filter(|runs| *runs > 0).ok_or_else(unfit)?;
                }
                "--seed" => options.seed = value.parse().map_err(|_| unfit())?,
                _ => return Err(format!("{name} is no option of prove simulation")),
            }
            words = rest;
        }
        Ok(options)
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
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        assert_eq!(Options::parse(&[]), Ok(Options { runs: 2000, seed: Seed(1) }));
        let both = Options::parse(&["--runs", "10", "--seed", "7"]);
        assert_eq!(both, Ok(Options { runs: 10, seed: Seed(7) }));
        for (words, sentence) in [
            (&["--runs"][..], "--runs lacks its value"),
            (&["--runs", "0"], "--runs 0: a whole number above 0 is wanted"),
            (&["--seed", "x"], "--seed x: a whole number above 0 is wanted"),
            (&["--what", "1"], "--what is no option of prove simulation"),
        ] {
            assert_eq!(Options::parse(words), Err(sentence.to_owned()));
        }
    }

    #[test]
    fn the_published_table_has_the_scenarios_and_goals_of_the_code() {
        let page = include_str!("../../../docs/proofs/simulation.md");
        let (results, _) = page.split_once("## How to read it").unwrap();
        // The name, what disturbs and the goal; the figures take minutes and are not repeated here.
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
