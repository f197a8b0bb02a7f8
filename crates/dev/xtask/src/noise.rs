//! `prove noise`: comparisons beside neighbours that the proof starts (docs/method.md).
//!
//! Each profile is measured with two equal servers and with two that differ by a known 5%. Reported
//! are runs with a verdict, false alarms, coverage and width of the intervals, and what two
//! consecutive runs of wrk would have shown.

mod neighbour;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binary::{self, Outcome, TwoFixtures};
use crate::options::{Options, Runs, one_of};
use crate::process::free_port;
use crate::say;
use neighbour::Quota;

pub(crate) use neighbour::{Kind, Neighbour, Neighbours};

/// CPU time per request. The server's own work of about 15 µs per request is the same for both, so
/// a burn of 5% more makes it 1.0493 times as slow.
const BURN: &str = "1ms";
const BURN_MORE: &str = "1050us";
const TRUTH: f64 = 1.0 / 1.0493;
/// The truth is known to a thousandth; an interval that misses it by less counts as containing it.
const TRUTH_OFF: f64 = 0.001;

/// A kind of disturbance.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: &'static str,
    neighbours: &'static [Kind],
    quota: bool,
}

/// CPU 0 is the stack's and CPU 1 the client's, as with `--layout split` on two CPUs.
const PROFILES: [Profile; 12] = [
    Profile { name: "quiet", neighbours: &[], quota: false },
    Profile { name: "stack-30", neighbours: &[Kind::bursts(Some(0), 0.3)], quota: false },
    Profile { name: "stack-60", neighbours: &[Kind::bursts(Some(0), 0.6)], quota: false },
    Profile { name: "client-30", neighbours: &[Kind::bursts(Some(1), 0.3)], quota: false },
    Profile { name: "client-60", neighbours: &[Kind::bursts(Some(1), 0.6)], quota: false },
    Profile {
        name: "both-30",
        neighbours: &[Kind::bursts(Some(0), 0.3), Kind::bursts(Some(1), 0.3)],
        quota: false,
    },
    Profile { name: "unpinned-60", neighbours: &[Kind::bursts(None, 0.6)], quota: false },
    Profile { name: "compiler", neighbours: &[Kind::Compiler], quota: false },
    Profile {
        name: "every-second",
        neighbours: &[Kind::every(Some(0), 1_000, 0.15)],
        quota: false,
    },
    Profile { name: "memory", neighbours: &[Kind::Memory], quota: false },
    Profile { name: "near-the-slice", neighbours: &[Kind::every(Some(0), 50, 0.5)], quota: false },
    Profile { name: "quota", neighbours: &[], quota: true },
];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    #[command(flatten)]
    options: Runs<4>,
    /// Only these neighbours
    #[arg(long, value_name = "NAME", value_parser = one_of(PROFILES, |profile| profile.name))]
    profile: Option<Profile>,
    /// Limit on the time of a comparison
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u32,
    /// Only the closed loop
    #[arg(long)]
    closed_only: bool,
    /// Another build to measure
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Results of one profile.
#[derive(Default)]
struct ProfileResult {
    runs: u32,
    failed: u32,
    invalid: u32,
    alarms: u32,
    equal_runs: u32,
    covered: u32,
    with_interval: u32,
    half_widths: Vec<f64>,
    wrk_off: Vec<f64>,
}

impl ProfileResult {
    fn note(&mut self, outcome: Option<&Outcome>, truth: f64) {
        self.runs += 1;
        self.equal_runs += u32::from(truth == 1.0);
        let Some(o) = outcome else {
            self.failed += 1;
            return;
        };
        if o.verdict == "invalid" {
            self.invalid += 1;
            return;
        }
        self.alarms += u32::from(truth == 1.0 && o.is_different());
        if o.low.is_finite() && o.high.is_finite() && o.low > 0.0 {
            self.with_interval += 1;
            let off = if truth == 1.0 { 0.0 } else { TRUTH_OFF };
            self.covered += u32::from(o.holds(truth, off));
            self.half_widths.push(o.half_width());
        }
    }
}

/// Prints a row per profile; returns whether every profile meets its goals: 95% of runs with a
/// verdict, at most 7 false alarms in 60, and 93% coverage, with a tolerance for few runs.
pub(crate) fn prove(wanted: &Wanted) -> Result<bool, String> {
    let Options { runs, seed } = wanted.options.into();
    let tachograph = wanted.binary.clone().map_or_else(binary::path, Ok)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    say(&format!("{runs} runs of {} s of each kind, seed {seed}", wanted.seconds));
    say(
        "\n| neighbours | runs | no verdict | false alarms | intervals that hold the truth | median half-width | wrk, one after the other, off by |",
    );
    say("| --- | --: | --: | --: | --: | --: | --: |");
    let mut all_well = true;
    for profile in wanted.profile.as_ref().map_or(&PROFILES[..], std::slice::from_ref) {
        let mut result = ProfileResult::default();
        for run in 0..runs {
            for (b, truth) in [(BURN, 1.0), (BURN_MORE, TRUTH)] {
                let seed = seed.derive(profile.name, u64::from(run)).0 >> 12;
                let _neighbours = Neighbours::start(profile.neighbours, seed)?;
                let quota = profile.quota.then(Quota::set).transpose()?;
                let outcome = compare(wanted, &tachograph, folder.path(), b, seed, quota.as_ref());
                result.note(outcome.as_ref().ok(), truth);
                if let Err(what) = outcome {
                    say(&format!("{}: {what}", profile.name));
                }
                if let Some(ratio) = wrk(wanted, &tachograph, folder.path(), b) {
                    result.wrk_off.push((ratio / truth).ln().abs());
                }
            }
        }
        all_well &= print(profile.name, &result);
    }
    Ok(all_well)
}

fn print(name: &str, result: &ProfileResult) -> bool {
    let percent =
        |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{:.2}%", 100.0 * v));
    let without = result.failed + result.invalid;
    say(&format!(
        "| {name} | {} | {without} | {} of {} | {} of {} | ±{} | {} |",
        result.runs,
        result.alarms,
        result.equal_runs,
        result.covered,
        result.with_interval,
        percent(stats::median(&result.half_widths)),
        percent(stats::median(&result.wrk_off)),
    ));
    // One run beyond a goal is chance if there are few.
    let over = |n: u32, share: f64, of: u32| f64::from(n) > share * f64::from(of) + 1.0;
    let missed = result.with_interval - result.covered;
    !over(without, 0.05, result.runs)
        && !over(result.alarms, 7.0 / 60.0, result.equal_runs)
        && !over(missed, 0.07, result.with_interval)
}

fn compare(
    wanted: &Wanted,
    tachograph: &Path,
    folder: &Path,
    b: &str,
    seed: u64,
    quota: Option<&Quota>,
) -> Result<Outcome, String> {
    let offers =
        if wanted.closed_only { "[\"closed\"]" } else { "[\"closed\", { open = \"50%\" }]" };
    let schedule = format!("max_time = \"{}s\"\nprecision = \"0.2%\"", wanted.seconds);
    let flags = [BURN, b].map(|burn| format!("--burn {burn}"));
    let fixtures = TwoFixtures {
        primary: "throughput",
        offers,
        connections: 8,
        schedule: &schedule,
        flags: [&flags[0], &flags[1]],
    };
    let further = ["--quick", "--seed", &seed.to_string()].map(str::to_owned);
    binary::run_experiment(tachograph, folder, &fixtures.toml(), &further, quota.map(Quota::folder))
}

/// The ratio from two consecutive runs of wrk, together as long as a comparison; `None` without
/// wrk.
fn wrk(wanted: &Wanted, tachograph: &Path, folder: &Path, b: &str) -> Option<f64> {
    let a = wrk_rate(wanted, tachograph, folder, BURN)?;
    Some(wrk_rate(wanted, tachograph, folder, b)? / a)
}

fn wrk_rate(wanted: &Wanted, tachograph: &Path, folder: &Path, burn: &str) -> Option<f64> {
    let port = free_port().ok()?;
    let listen = format!("tcp://127.0.0.1:{port}");
    let mut server = Command::new("taskset")
        .args(["-c", "0"])
        .arg(tachograph)
        .args(["serve-fixture", "--listen", &listen, "--burn", burn])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    let listens = (0..10_000).any(|_| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let output = Command::new("taskset")
        .args(["-c", "1", "wrk", "-t1", "-c8"])
        .arg(format!("-d{}", wanted.seconds / 2))
        .arg(format!("http://127.0.0.1:{port}/"))
        .stderr(Stdio::null())
        .output();
    let _ = server.kill();
    let _ = server.wait();
    let text = String::from_utf8(output.ok().filter(|_| listens)?.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(verdict: &str, low: f64, high: f64) -> Outcome {
        let (blocks, reasons) = (8, String::new());
        Outcome {
            verdict: verdict.to_owned(),
            ratio: (low * high).sqrt(),
            low,
            high,
            blocks,
            reasons,
        }
    }

    #[test]
    fn a_result_counts_alarms_misses_and_runs_without_a_verdict() {
        let mut result = ProfileResult::default();
        result.note(Some(&outcome("faster", 1.01, 1.02)), 1.0);
        result.note(Some(&outcome("inconclusive", 0.98, 1.02)), 1.0);
        result.note(Some(&outcome("slower", 0.94, 0.97)), TRUTH);
        result.note(Some(&outcome("invalid", 0.94, 0.97)), TRUTH);
        result.note(None, 1.0);
        assert_eq!((result.runs, result.equal_runs, result.alarms), (5, 3, 1));
        assert_eq!((result.with_interval, result.covered), (3, 2));
        assert_eq!((result.invalid, result.failed), (1, 1));
    }
}
