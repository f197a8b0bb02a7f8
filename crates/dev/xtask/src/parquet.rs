//! `prove parquet`: exported files as DuckDB and pyarrow read them.

use std::process::ExitCode;

use crate::options::Options;
use crate::say;

/// Days of each history.
const DAYS: u32 = 4;

/// Compares the totals by step, day and series; fails if one differs. `--runs` is the number of days.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    crate::task("prove parquet", Options::parse(words, DAYS), |options| {
        let found = proofs::parquet::compare(options.seed, options.runs.min(10), &mut say)?;
        found.different.iter().for_each(|different| say(&format!("differs: {different}")));
        say(&format!(
            "{} recorders, {} slots, {} totals by step, day and series: {} differ in DuckDB or \
             pyarrow",
            found.recorders,
            base::format_count(found.slots),
            found.totals,
            found.different.len()
        ));
        Ok(found.different.is_empty())
    })
}
