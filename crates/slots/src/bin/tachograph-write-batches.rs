//! Writes batches until it is killed; see `tachograph_slots::proof`.

use std::process::ExitCode;

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
    let [place, seed, first, second] = words else {
        return Err(
            "usage: tachograph-write-batches PLACE SEED ACKNOWLEDGED ACKNOWLEDGED".to_owned()
        );
    };
    let number = |word: &String| word.parse::<u64>().map_err(|e| format!("{word}: {e}"));
    let seed = seed.parse::<base::Seed>().map_err(|_| format!("{seed}: a seed is a number"))?;
    let acknowledged = [number(first)?, number(second)?];
    tachograph_slots::proof::write(place, seed, acknowledged, std::io::stdout())
}
