//! Compares `series::rrd` with the real rrdtool over random sequences:
//!
//! ```text
//! cargo run --release -p tachograph-series --example rrd_agreement -- 100000 7
//! ```
//!
//! The arguments are the number of sequences and the seed. Exit status 1 if any differs.

#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

#[path = "../tests/agreement/mod.rs"]
mod agreement;

use std::process::ExitCode;

use base::Seed;

fn main() -> Result<ExitCode, String> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("'{text}' is not a whole number")),
        None => Ok(default),
    };
    let (sequences, seed) = (number(2_000)?, Seed(number(1)?));
    let tally = agreement::compare(seed, sequences)?;
    println!("seed {seed}: {tally}");
    for mismatch in &tally.mismatches {
        println!("{mismatch}\n");
    }
    Ok(if tally.differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
