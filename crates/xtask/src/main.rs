//! Tasks of the project itself: `cargo run --release -p xtask -- prove simulation`.

mod simulation;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p xtask -- TASK

tasks:
  prove simulation [--runs N] [--seed N]
        play the method's scenarios (2,000 runs each by default) and print
        their coverage as a Markdown table; fails if a goal is missed
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["prove", "simulation", options @ ..] => simulation::prove(options),
        _ => usage_error("no such task"),
    }
}

/// Says what is wrong and what can be asked for; exit status 2.
#[allow(clippy::print_stderr, reason = "a task speaks to the person who called it")]
fn usage_error(what: &str) -> ExitCode {
    eprint!("{what}\n\n{USAGE}");
    ExitCode::from(2)
}
