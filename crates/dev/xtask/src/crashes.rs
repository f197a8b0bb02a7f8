//! `prove crashes`: the simulators of the engine, on every CPU, for as many seeds as wanted.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::options::Options;
use crate::process::output;
use crate::say;

/// Seeds of one process; each seed is a run of every simulator.
const CHUNK: u64 = 20_000;

/// The tests that run seeds. The others run the same ones each time.
const TESTS: [&str; 6] = [
    "a_journal_keeps_its_laws_on_a_disk_that_fails",
    "a_clock_that_jumps_moves_nothing_that_it_should_not",
    "what_is_acknowledged_is_in_the_store_once",
    "two_processes_on_one_lane_write_the_sums_of_one",
    "each_time_of_a_stream_counts_once",
    "each_line_of_an_import_counts_once_or_is_refused",
];

/// How often each accident happened, by simulator and kind.
type Accidents = BTreeMap<(String, String), u64>;

/// Runs `--runs` seeds, in whole chunks, from `--seed` on.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    // Builds, so that the time is that of the seeds.
    output(test(0..0).arg("--list"))?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let chunks = u64::from(options.runs).div_ceil(CHUNK);
    let (begun, mut accidents) = (Instant::now(), Accidents::new());
    for first in (0..chunks).step_by(cpus as usize) {
        let mut running = Vec::new();
        for chunk in first..chunks.min(first + cpus) {
            let from = options.seed.0 + chunk * CHUNK;
            let mut command = test(from..from + CHUNK);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            running.push(command.spawn().map_err(|error| error.to_string())?);
        }
        for process in running {
            let output = process.wait_with_output().map_err(|error| error.to_string())?;
            if !count(&output, &mut accidents) {
                say(&String::from_utf8_lossy(&output.stderr));
                return Ok(false);
            }
        }
    }
    let seeds = chunks * CHUNK;
    let each_second = seeds as f64 / begun.elapsed().as_secs_f64() / cpus as f64;
    say("| simulator | what | times |");
    say("| --- | --- | ---: |");
    for ((simulator, what), times) in &accidents {
        say(&format!("| {simulator} | {what} | {times} |"));
    }
    say(&format!(
        "\n{seeds} seeds from {} on in every simulator: {each_second:.0} a second and CPU.",
        options.seed
    ));
    Ok(true)
}

/// The test with these seeds.
fn test(seeds: std::ops::Range<u64>) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["test", "--release", "--locked", "--quiet", "-p", "tachograph-engine"]);
    command.args(["--test", "simulation", "--", "--exact", "--nocapture", "--test-threads=1"]);
    command.args(TESTS).env("TACHOGRAPH_SEEDS", format!("{}..{}", seeds.start, seeds.end));
    command
}

/// Adds what a process tells; false if a law was broken.
fn count(output: &Output, accidents: &mut Accidents) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines() {
        // The dot of the test before it may stand on the same line.
        let Some((_, told)) = line.split_once("simulated: ") else { continue };
        let mut parts = told.split(": ");
        let (Some(simulator), Some(what), Some(times)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let times: u64 = times.parse().unwrap_or_default();
        *accidents.entry((simulator.to_owned(), what.to_owned())).or_default() += times;
    }
    output.status.success()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn accidents_are_added_over_processes() {
        let mut accidents = Accidents::new();
        let text = "running 4 tests\nsimulated: journal: kills: 5\n.simulated: journal: kills: 7\n";
        let output = |status| Output {
            status: ExitStatus::from_raw(status),
            stdout: text.into(),
            stderr: Vec::new(),
        };
        assert!(count(&output(0), &mut accidents));
        assert!(!count(&output(256), &mut accidents));
        let all: Vec<_> = accidents.into_iter().collect();
        assert_eq!(all, [(("journal".to_owned(), "kills".to_owned()), 24)]);
    }

    #[test]
    fn the_tests_are_those_of_the_simulators() {
        let main = include_str!("../../../recorder/engine/tests/simulation/main.rs");
        for test in TESTS {
            assert!(main.contains(&format!("fn {test}()")), "{test}");
        }
    }
}
