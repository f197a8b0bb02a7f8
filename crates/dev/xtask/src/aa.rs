//! `prove aa` and `prove sixty`: gunicorn compared with itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::binary::{self, Outcome, TwoFixtures, run_experiment};
use crate::kept::ResultsFile;
use crate::options::{Options, Runs};
use crate::say;
use crate::tools;

/// Maximum false alarms in 60 runs; proportional for other numbers. Binomial(60, 0.05) exceeds 7
/// once in a hundred times.
const ALARMS_MAX_OF_60: f64 = 7.0;
/// Goals after a minute: the median half-width between equal servers, the share of false alarms (5 of
/// 60), the share of intervals that hold the truth, and of differences of 1% that are found.
const SIXTY_HALF_WIDTH: f64 = 0.005;
const SIXTY_ALARMS_MAX: f64 = 5.0 / 60.0;
const COVERAGE_MIN: f64 = 0.93;
const POWER_MIN: f64 = 0.9;

/// Two equal variants, without their schedule.
const GUNICORN: &str = r#"
[experiment]
name = "aa"
title = "gunicorn against itself"
question = "Is a server faster than itself?"
python = ["gunicorn==27.0.1"]
baseline = "a"
offers = ["closed"]

[schedule]
@@SCHEDULE@@

[stack.hello]
target = "http://127.0.0.1:$PORT/"
served_by = "wsgi"
files."hello.py" = """
from tachograph_counter import count
def app(environ, start_response):
    start_response('200 OK', [('Content-Length', '12')])
    return [b'Hello World!']
app = count(app)
"""
process.command = "gunicorn --bind 127.0.0.1:$PORT --workers 1 --pythonpath $DIR hello:app"
process.ready = "127.0.0.1:$PORT"

[[variant]]
name = "a"
stack = "hello"

[[variant]]
name = "b"
stack = "hello"
"#;

/// Blocks as with `--quick`, without a target precision, so that each run costs the same.
const SHORT: &str =
    "pilot_blocks = 6\nmax_blocks = 6\nwindow = \"800ms\"\nwarmup = \"300ms\"\nprecision = \"1%\"";
/// The default schedule, limited to a minute.
const MINUTE: &str = "max_time = \"60s\"\nprecision = \"0.5%\"";

/// Counts how often a server seems to differ from itself.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    let mut kept = ResultsFile::open(None)?;
    let outcomes = series(options, &gunicorn(SHORT), &["--quick"], &mut kept)?;
    let alarms = outcomes.iter().filter(|o| o.is_different()).count();
    let allowed = ALARMS_MAX_OF_60 / 60.0 * outcomes.len() as f64;
    summary(&outcomes);
    say(&format!("false alarms: {alarms} of {}, allowed {allowed:.0}", outcomes.len()));
    Ok(alarms as f64 <= allowed)
}

fn gunicorn(schedule: &str) -> String {
    GUNICORN.replace("@@SCHEDULE@@", schedule)
}

/// The options of `prove sixty`.
#[derive(Debug, clap::Args)]
pub(crate) struct Sixty {
    /// Only the equal servers
    #[arg(long, conflicts_with = "slower")]
    equal: bool,
    /// Only the servers of which one is slower
    #[arg(long)]
    slower: bool,
    /// Continue with what is in this file
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    runs: Runs<60>,
}

/// A comparison that was made.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    version: String,
    experiment: String,
    seed: String,
    outcome: Outcome,
}

/// Two servers that burn CPU time for each request, the second 1% more of it.
const SLOWER: TwoFixtures<'_> = TwoFixtures {
    primary: "throughput",
    offers: r#"["closed"]"#,
    connections: 10,
    schedule: MINUTE,
    flags: ["--burn 1ms", "--burn 1010us"],
};

/// Throughput of the slower one. The server's own work of about 15 µs per request is the same for
/// both; 5 µs more or less of it would change the ratio by less than the second value.
const SLOWER_RATIO: f64 = 1_015.0 / 1_025.0;
const SLOWER_RATIO_OFF: f64 = 0.000_1;

/// Two equal servers, and two that differ by 1%, compared for 60 seconds each.
pub(crate) fn prove_sixty(wanted: &Sixty) -> Result<bool, String> {
    let options = wanted.runs.into();
    let mut kept = ResultsFile::open(wanted.keep.as_deref())?;
    let mut series = |experiment: &str| series(options, experiment, &[], &mut kept);
    let equal = wanted.slower || equal_servers(&series(&gunicorn(MINUTE))?);
    let slower = wanted.equal || slower_servers(&series(&SLOWER.toml())?);
    Ok(equal && slower)
}

/// Whether equal servers rarely seem to differ, and how well they can be told apart.
fn equal_servers(outcomes: &[Outcome]) -> bool {
    summary(outcomes);
    let of = outcomes.len();
    let alarms = outcomes.iter().filter(|o| o.is_different()).count();
    let held = outcomes.iter().filter(|o| o.holds(1.0, 0.0)).count();
    let median = stats::median(&widths(outcomes)).unwrap_or(f64::INFINITY);
    say(&format!(
        "gunicorn and itself: false alarms {alarms} of {of}, intervals that hold 1: {held} of {of}; \
         median half-width {:.2}%, goal {:.1}%",
        100.0 * median,
        100.0 * SIXTY_HALF_WIDTH
    ));
    alarms as f64 <= SIXTY_ALARMS_MAX * of as f64 && covers(held, of) && median <= SIXTY_HALF_WIDTH
}

/// Whether a difference of 1% is found, with the right sign and size.
fn slower_servers(outcomes: &[Outcome]) -> bool {
    summary(outcomes);
    let of = outcomes.len();
    let found = outcomes.iter().filter(|o| o.verdict == "slower").count();
    let wrong = outcomes.iter().filter(|o| o.verdict == "faster").count();
    let held = outcomes.iter().filter(|o| o.holds(SLOWER_RATIO, SLOWER_RATIO_OFF)).count();
    let median = stats::median(&widths(outcomes)).unwrap_or(f64::INFINITY);
    say(&format!(
        "1% slower: found {found} of {of}, wrong sign {wrong}, intervals that hold \
         {SLOWER_RATIO:.4}: {held} of {of}; median half-width {:.2}%",
        100.0 * median
    ));
    found as f64 >= POWER_MIN * of as f64 && wrong == 0 && covers(held, of)
}

fn widths(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(Outcome::half_width).filter(|width| width.is_finite()).collect()
}

/// Whether no more intervals miss the truth than the goal allows.
fn covers(held: usize, of: usize) -> bool {
    held as f64 >= COVERAGE_MIN * of as f64
}

fn series(
    options: Options,
    experiment: &str,
    flags: &[&str],
    kept: &mut ResultsFile<Entry>,
) -> Result<Vec<Outcome>, String> {
    let tachograph = binary::path()?;
    let version = tools::version(&tachograph, &["--version"]);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    say("| run | verdict | ratio | interval | half-width | blocks |");
    say("| --: | --- | --: | --- | --: | --: |");
    let mut outcomes = Vec::new();
    for run in 0..options.runs {
        let seed = (options.seed.derive("run", u64::from(run)).0 >> 12).to_string();
        let further = [&["--seed", &seed], flags].concat();
        let known = kept.entries.iter().find(|known| {
            (&known.version, &*known.experiment, &known.seed) == (&version, experiment, &seed)
        });
        let o = match known {
            Some(known) => known.outcome.clone(),
            None => run_experiment(&tachograph, folder.path(), experiment, &further, None)?,
        };
        if known.is_none() {
            let (version, experiment) = (version.clone(), experiment.to_owned());
            kept.add(Entry { version, experiment, seed: seed.clone(), outcome: o.clone() })?;
        }
        let (cells, width) = (o.cells(), 100.0 * o.half_width());
        say(&format!("| {} | {cells} | {width:.2}% | {} |", run + 1, o.blocks));
        outcomes.push(o);
    }
    Ok(outcomes)
}

fn summary(outcomes: &[Outcome]) {
    let invalid: Vec<&Outcome> = outcomes.iter().filter(|o| o.verdict == "invalid").collect();
    say(&format!("\ninvalid runs: {} of {}", invalid.len(), outcomes.len()));
    for outcome in invalid {
        say(&format!("- {}", outcome.reasons));
    }
}
