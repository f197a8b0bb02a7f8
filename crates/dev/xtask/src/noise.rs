//! `prove noise`: comparisons beside neighbours that the proof starts (docs/method.md).
//!
//! Each profile is measured with two equal servers and with two that differ by a known 5%. Reported
//! are runs with a verdict, false alarms, coverage and width of the intervals, and what two
//! consecutive runs of wrk would have shown.

mod neighbour;
mod page;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::binary::{self, Outcome, TwoFixtures};
use crate::kept::ResultsFile;
use crate::options::{Options, Runs, one_of};
use crate::process::{PinnedProcess, free_port, listens};
use crate::say;
use crate::tools::report::ToolOutput;
use crate::tools::{self, wrk};
use neighbour::Quota;
use tally::{Conditions, Entry};

pub(crate) use neighbour::{Kind, Neighbour, Neighbours};

/// CPU time per request. The server's own work of about 15 µs per request is the same for both, so
/// a burn of 5% more makes it 1.0493 times as slow.
const BURN: &str = "1ms";
const BURN_MORE: &str = "1050us";
const TRUTH: f64 = 1.0 / 1.0493;
/// The truth is known to a thousandth; an interval that misses it by less counts as containing it.
const TRUTH_OFF: f64 = 0.001;

/// Comparisons of at most as many seconds have the short blocks of `--quick`.
const QUICK_S: u32 = 60;

/// wrk shows what it shows in a few runs.
const WRK_RUNS: u32 = 5;
/// Additional time for wrk, and time for its server to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A kind of disturbance.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: &'static str,
    neighbours: &'static [Kind],
    quota: bool,
}

/// CPU 0 is the stack's and CPU 1 the client's, as with `--layout split` on two CPUs.
const PROFILES: [Profile; 12] = [
    beside("quiet", &[]),
    beside("stack-30", &[Kind::bursts(Some(0), 0.3)]),
    beside("stack-60", &[Kind::bursts(Some(0), 0.6)]),
    beside("client-30", &[Kind::bursts(Some(1), 0.3)]),
    beside("client-60", &[Kind::bursts(Some(1), 0.6)]),
    beside("both-30", &[Kind::bursts(Some(0), 0.3), Kind::bursts(Some(1), 0.3)]),
    beside("unpinned-60", &[Kind::bursts(None, 0.6)]),
    beside("compiler", &[Kind::Compiler]),
    beside("every-second", &[Kind::every(Some(0), 1_000, 0.15)]),
    beside("memory", &[Kind::Memory]),
    beside("near-the-slice", &[Kind::every(Some(0), 50, 0.5)]),
    Profile { quota: true, ..beside("quota", &[]) },
];

const fn beside(name: &'static str, neighbours: &'static [Kind]) -> Profile {
    Profile { name, neighbours, quota: false }
}

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct NoiseOptions {
    #[command(flatten)]
    options: Runs<4>,
    /// Only these neighbours
    #[arg(long, value_name = "NAME", value_parser = one_of(PROFILES, |profile| profile.name))]
    profile: Option<Profile>,
    /// Limit on the time of a comparison; up to a minute, it is `--quick`
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u32,
    /// Only the closed loop
    #[arg(long)]
    closed_only: bool,
    /// Another build to measure
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Continue with what is in this file
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Write docs/proofs/noise.md
    #[arg(long)]
    page: bool,
}

/// Prints a row per profile; returns whether every profile meets its goals.
pub(crate) fn prove(wanted: &NoiseOptions) -> Result<bool, String> {
    let Options { runs, seed } = wanted.options.into();
    let tachograph = wanted.binary.clone().map_or_else(binary::path, Ok)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let conditions = Conditions {
        seed: seed.0,
        seconds: wanted.seconds,
        closed_only: wanted.closed_only,
        version: tools::version(&tachograph, &["--version"]),
    };
    let mut kept: ResultsFile<Entry> = ResultsFile::open(wanted.keep.as_deref())?;
    // Profile by profile within each run, so that a proof that is interrupted has seen them all.
    for run in 0..runs {
        for profile in wanted.profile.as_ref().map_or(&PROFILES[..], std::slice::from_ref) {
            for (b, truth) in [(BURN, 1.0), (BURN_MORE, TRUTH)] {
                let known = |entry: &Entry| {
                    entry.conditions == conditions && entry.is(profile.name, truth, run)
                };
                if kept.entries.iter().any(known) {
                    continue;
                }
                let seed = seed.derive(profile.name, u64::from(run)).0 >> 12;
                let _neighbours = Neighbours::start(profile.neighbours, seed)?;
                let quota = profile.quota.then(Quota::set).transpose()?;
                let outcome = compare(wanted, &tachograph, folder.path(), b, seed, quota.as_ref());
                let wrk_off = (run < WRK_RUNS)
                    .then(|| wrk_ratio(wanted, &tachograph, folder.path(), b))
                    .flatten()
                    .map(|ratio| (ratio / truth).ln().abs());
                let (profile, conditions) = (profile.name.to_owned(), conditions.clone());
                let entry = Entry { conditions, profile, truth, run, outcome, wrk_off };
                say(&entry.line());
                kept.add(entry)?;
            }
        }
    }
    let of_these: Vec<&Entry> =
        kept.entries.iter().filter(|entry| entry.conditions == conditions).collect();
    say(&tally::table(&of_these));
    if wanted.page {
        page::write(&kept.entries)?;
    }
    Ok(tally::results(&of_these).iter().all(|(_, result)| result.meets_its_goals()))
}

fn compare(
    wanted: &NoiseOptions,
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
    let seed = seed.to_string();
    let mut further = vec!["--seed", &seed];
    if wanted.seconds <= QUICK_S {
        further.push("--quick");
    }
    binary::run_experiment(tachograph, folder, &fixtures.toml(), &further, quota.map(Quota::folder))
}

/// The ratio from two consecutive runs of wrk, together as long as a comparison; `None` without
/// wrk.
fn wrk_ratio(wanted: &NoiseOptions, tachograph: &Path, folder: &Path, b: &str) -> Option<f64> {
    let a = wrk_rate(wanted, tachograph, folder, BURN)?;
    Some(wrk_rate(wanted, tachograph, folder, b)? / a)
}

fn wrk_rate(wanted: &NoiseOptions, tachograph: &Path, folder: &Path, burn: &str) -> Option<f64> {
    let start = |cpu, program: &Path, words: &str| {
        PinnedProcess::start(cpu, program, words.split(' '), folder).ok()
    };
    let (port, seconds) = (free_port().ok()?, wanted.seconds / 2);
    let serve = format!("serve-fixture --listen tcp://127.0.0.1:{port} --burn {burn}");
    let _server = start(0, tachograph, &serve)?;
    if !listens(port, PATIENCE) {
        return None;
    }
    let load = format!("-t1 -c8 -d{seconds} http://127.0.0.1:{port}/");
    let limit = Duration::from_secs(seconds.into()) + PATIENCE;
    let ended = start(1, Path::new("wrk"), &load)?.finish(limit, &AtomicBool::new(false));
    (wrk::TOOL.read)(&ToolOutput::new(ended.ok()?.0, None))?.per_s
}
