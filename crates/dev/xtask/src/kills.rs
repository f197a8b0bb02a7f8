//! `prove kills`: kill −9 at random moments; nothing may remain.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::options::Options;
use crate::{binary, say, task};

/// How long guards may take to stop stubborn stacks.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kills runs and looks for leftovers.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove kills", Options::parse(words, 100), |options| {
        Ok(kill_often(options, &Awkward)? == 0)
    })
}

/// The run to kill.
pub(crate) trait Victim {
    /// The arguments of tachograph; additional files can be put into `folder`.
    fn arguments(&self, folder: &Path) -> Result<Vec<String>, String>;

    /// Leftovers other than processes and folders.
    fn left(&self) -> Result<Vec<String>, String>;
}

/// A comparison of a stack that ignores SIGTERM and one that forks a daemon.
struct Awkward;

impl Victim for Awkward {
    fn arguments(&self, _: &Path) -> Result<Vec<String>, String> {
        let server =
            format!("{} serve-fixture --listen tcp://127.0.0.1:$PORT", binary::path()?.display());
        let stubborn = format!("sh -c 'trap \"\" TERM; {server} & wait; wait'");
        let forks_away = format!("sh -c 'setsid sleep 500 & {server}'");
        let words = ["compare", "--quick", "--closed-only", "-n", "a", "-n", "b"];
        Ok(words.into_iter().map(str::to_owned).chain([stubborn, forks_away]).collect())
    }

    fn left(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// Kills a run as often as the options say; returns how many left something behind.
pub(crate) fn kill_often(options: &Options, victim: &dyn Victim) -> Result<u32, String> {
    let mut rng = options.seed.rng("kills");
    let mut dirty = 0;
    for run in 1..=options.runs {
        let after = Duration::from_millis(rng.random_range(10..6000));
        // Every third one gets Ctrl-C, to test the orderly stop at random moments too.
        let signal = if run % 3 == 0 { Signal::INT } else { Signal::KILL };
        let left = kill_one(victim, after, signal, run)?;
        if !left.is_empty() {
            dirty += 1;
            say(&format!("run {run}, {signal:?} after {after:?}: left behind {}", left.join(", ")));
        }
    }
    say(&format!(
        "left something behind: {dirty} of {} runs killed at random moments",
        options.runs
    ));
    Ok(dirty)
}

/// Starts a run, kills it, and returns its leftovers.
fn kill_one(
    victim: &dyn Victim,
    after: Duration,
    signal: Signal,
    run: u32,
) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| error.to_string();
    let place = tempfile::Builder::new().prefix("tgk").tempdir_in("/tmp").map_err(wrong)?;
    let temp = place.path().join("t");
    std::fs::create_dir(&temp).map_err(wrong)?;
    let marker = format!("tachograph-proof-{}-{run}", std::process::id());
    let mut child = Command::new(binary::path()?)
        .args(victim.arguments(place.path())?)
        .env("TMPDIR", &temp)
        .env("TACHOGRAPH_RECORD", place.path().join("record.sqlite"))
        .env("TACHOGRAPH_TEST_MARKER", &marker)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(wrong)?;
    std::thread::sleep(after);
    kill_process(Pid::from_child(&child), signal).map_err(|error| error.to_string())?;
    child.wait().map_err(wrong)?;
    let began = Instant::now();
    loop {
        let mut left = left_behind(&temp, &marker);
        left.extend(victim.left()?);
        if left.is_empty() || began.elapsed() > PATIENCE {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Folders in `temp`, and processes with the marker in their environment.
pub(crate) fn left_behind(temp: &Path, marker: &str) -> Vec<String> {
    let folders = std::fs::read_dir(temp).into_iter().flatten().flatten();
    let mut left: Vec<String> = folders.map(|entry| entry.path().display().to_string()).collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in processes {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environ).contains(marker) {
            left.push(format!("process {}", entry.file_name().to_string_lossy()));
        }
    }
    left
}
