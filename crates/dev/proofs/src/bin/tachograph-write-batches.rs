//! Writes batches until it is killed; see `proofs::batches`.

use std::process::ExitCode;

use proofs::batches::{WRITERS, write};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            #[allow(clippy::print_stderr, reason = "whoever called it reads why it ended")]
            {
                eprintln!("{what}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let [place, seed, acknowledged @ ..] = words else {
        return Err("usage: tachograph-write-batches PLACE SEED ACKNOWLEDGED…".to_owned());
    };
    let number = |word: &String| word.parse::<u64>().map_err(|e| format!("{word}: {e}"));
    let seed = seed.parse::<base::Seed>().map_err(|_| format!("{seed}: a seed is a number"))?;
    let acknowledged = acknowledged.iter().map(number).collect::<Result<Vec<u64>, String>>()?;
    let acknowledged = acknowledged.try_into();
    let acknowledged =
        acknowledged.map_err(|_| format!("a number for each of {WRITERS} writers"))?;
    write(place, seed, acknowledged, std::io::stdout())
}
