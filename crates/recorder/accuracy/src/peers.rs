//! The real rrdtool and the real whisper.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::{AccuracyError, Peer, Rates, Updates};

/// Required programs, with the command that installs each.
pub const PROGRAMS: [(&str, &str); 2] =
    [("rrdtool", "sudo apt install rrdtool"), ("python3", "sudo apt install python3 python3-venv")];

/// Required Python packages, pinned.
pub const REQUIREMENTS: [&str; 2] = ["whisper==1.1.10", "six==1.17.0"];

/// Results of a recorder.
pub(crate) struct PeerRates {
    /// Rates by the start of slots of one step.
    pub(crate) fine: Rates,
    /// The same for two steps.
    pub(crate) coarse: Rates,
}

/// The installed recorders.
pub(crate) struct Peers {
    rrdtool: Result<(), String>,
    /// The interpreter with whisper.
    whisper: Result<PathBuf, String>,
}

impl Peers {
    /// Looks for both; `say` receives progress messages.
    pub(crate) fn find(say: &mut dyn FnMut(&str)) -> Peers {
        let version = Command::new("rrdtool").arg("--version").output();
        let rrdtool = match version {
            Ok(output) if output.status.success() => Ok(()),
            Ok(_) => Err("rrdtool, because `rrdtool --version` fails".to_owned()),
            Err(error) => {
                Err(format!("rrdtool, because it cannot be run ({error}): {}", PROGRAMS[0].1))
            }
        };
        let requirements = REQUIREMENTS.map(str::to_owned);
        let whisper = stage::python::ensure_env(&requirements, None, say)
            .map(|bin| bin.join("python"))
            .map_err(|error| format!("whisper, because {error}"));
        Peers { rrdtool, whisper }
    }

    /// The missing ones, with the reason.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let reasons = [self.rrdtool.as_ref().err(), self.whisper.as_ref().err()];
        reasons.into_iter().flatten().cloned().collect()
    }

    /// The results of a recorder; `None` if it is skipped.
    pub(crate) fn see(
        &self,
        peer: Peer,
        series: &Updates,
        updates: &[(i64, f64)],
    ) -> Result<Option<PeerRates>, AccuracyError> {
        let seen = match (peer, &self.rrdtool, &self.whisper) {
            (Peer::Rrdtool, Ok(()), _) => rrdtool(series, updates),
            (Peer::Graphite, _, Ok(python)) => whisper(python, series, updates),
            _ => return Ok(None),
        };
        seen.map(Some).map_err(AccuracyError)
    }

    /// rrdtool's response to late updates.
    pub(crate) fn rrdtool_refuses_late(
        &self,
        series: &Updates,
        updates: &[(i64, f64)],
        late: &[(i64, f64)],
    ) -> Result<String, AccuracyError> {
        refuses_late(series, updates, late).map_err(AccuracyError)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs a program with this standard input.
fn run(command: &mut Command, input: &str) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends early reports why; the closed pipe is irrelevant.
            stdin.map(|mut stdin| stdin.write_all(input.as_bytes()))
        });
        child.wait_with_output()
    });
    output.map_err(text)
}

fn rrd(folder: &Path, commands: &str) -> Result<String, String> {
    let mut command = Command::new("rrdtool");
    command.arg("-").current_dir(folder).env("LC_ALL", "C").env("TZ", "UTC");
    let output = run(&mut command, commands)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Commands that create the file and apply the updates, many per line.
fn updated(series: &Updates, updates: &[(i64, f64)]) -> String {
    let Updates { step, start, .. } = *series;
    let end = updates.last().map_or(start, |(at, _)| *at);
    let (rows, heartbeat) = ((end - start) / step + 10, 2 * step);
    let mut commands = format!(
        "create a.rrd --start {start} --step {step} DS:sold:GAUGE:{heartbeat}:U:U \
         RRA:AVERAGE:0.5:1:{rows} RRA:AVERAGE:0.5:2:{rows}\n"
    );
    for some in updates.chunks(100) {
        commands += "update a.rrd";
        commands.extend(some.iter().map(|(at, value)| format!(" {at}:{value}")));
        commands.push('\n');
    }
    commands
}

/// The results of rrdtool.
fn rrdtool(series: &Updates, updates: &[(i64, f64)]) -> Result<PeerRates, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let said = rrd(folder.path(), &updated(series, updates))?;
    if let Some(error) = said.lines().find(|line| line.starts_with("ERROR")) {
        return Err(format!("rrdtool: {error}"));
    }
    let end = updates.last().map_or(series.start, |(at, _)| *at);
    let fetch = |step: i64| -> Result<Rates, String> {
        let (start, end) = (series.start / step * step, end / step * step - 1);
        let said = rrd(
            folder.path(),
            &format!("fetch a.rrd AVERAGE --resolution {step} --start {start} --end {end}\n"),
        )?;
        let rows = said.lines().filter_map(|line| line.split_once(": "));
        let rows = rows.filter_map(|(row_end, value)| {
            // rrdtool labels a row with its end.
            let start = row_end.trim().parse::<i64>().ok()? - step;
            let rate = value.trim().parse::<f64>().ok()?;
            Some((start, Some(rate).filter(|rate| !rate.is_nan())))
        });
        Ok(rows.collect())
    };
    Ok(PeerRates { fine: fetch(series.step)?, coarse: fetch(2 * series.step)? })
}

fn refuses_late(
    series: &Updates,
    updates: &[(i64, f64)],
    late: &[(i64, f64)],
) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let mut commands = updated(series, updates);
    commands.extend(late.iter().map(|(at, value)| format!("update a.rrd {at}:{value}\n")));
    let said = rrd(folder.path(), &commands)?;
    let error = said.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.map(str::to_owned).ok_or_else(|| "rrdtool took an update that came late".to_owned())
}

/// Reads `time value` lines, applies them one at a time or, if there are many, all at once, and
/// prints the content of each archive.
const SCRIPT: &str = r#"
import os, sys, warnings
warnings.simplefilter("ignore")
import whisper
folder, start, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
updates = [(int(t), float(v)) for t, v in (line.split() for line in sys.stdin)]
now = updates[-1][0]
points = (now - start) // step + 20
path = os.path.join(folder, "a.wsp")
whisper.create(path, [(step, points), (2 * step, points)], xFilesFactor=0.5, aggregationMethod="average")
if len(updates) <= 100:
    for t, v in updates:
        whisper.update(path, v, t, now=t)
else:
    for i in range(0, len(updates), 10000):
        part = updates[i:i + 10000]
        whisper.update_many(path, part, now=now)
for step in (step, 2 * step):
    begin = start - start % step - step
    (begin, end, step), values = whisper.fetch(path, begin, now, now=now, archiveToSelect=step)
    for i, v in enumerate(values):
        print(step, begin + i * step, v)
"#;

/// The results of whisper.
fn whisper(python: &Path, series: &Updates, updates: &[(i64, f64)]) -> Result<PeerRates, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let input: String = updates.iter().map(|(at, value)| format!("{at} {value}\n")).collect();
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(folder.path());
    command.args([series.start, series.step].map(|number| number.to_string()));
    let output = run(&mut command, &input)?;
    if !output.status.success() {
        return Err(format!("whisper: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let last = updates.last().map_or(0, |(at, _)| *at);
    let of = |step: i64| -> Rates {
        let rows = said.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let row_step: i64 = words.next()?.parse().ok()?;
            let at: i64 = words.next()?.parse().ok()?;
            // As for rrdtool: the slot of the last update is incomplete.
            (row_step == step && at + step <= last)
                .then(|| (at, words.next().and_then(|value| value.parse().ok())))
        });
        rows.collect()
    };
    Ok(PeerRates { fine: of(series.step), coarse: of(2 * series.step) })
}
