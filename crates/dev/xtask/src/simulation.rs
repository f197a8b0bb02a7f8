//! `prove simulation`: the coverage of the method's intervals for a known truth.

use simulation::{markdown, run_all};

use crate::options::Options;
use crate::say;

/// Prints the table; whether every scenario meets its goal.
pub(crate) fn prove(options: Options) -> bool {
    let results = run_all(options.runs, options.seed);
    say(&format!(
        "{}\n{} runs per scenario with a difference and as many without, seed {}.",
        markdown(&results),
        options.runs,
        options.seed
    ));
    results.iter().all(|result| result.passed())
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
