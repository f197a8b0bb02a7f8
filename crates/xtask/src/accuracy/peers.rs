//! The real rrdtool and the real whisper.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{Rates, START_S};

/// What one of them makes of the updates.
pub(super) struct Peer {
    /// Rates by the start of slots of 10 s.
    pub(super) fine: Rates,
    /// The same for 20 s.
    pub(super) coarse: Rates,
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
        .map_err(|error| {
            format!("{name} cannot be run ({error}): apt install rrdtool python3-venv")
        })?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends early says why on its own; its closed pipe is no news.
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

/// Commands that make the file and give it the updates, many to a line.
fn updated(updates: &[(i64, f64)]) -> String {
    let end_s = updates.last().map_or(START_S, |(at_s, _)| *at_s);
    let rows = (end_s - START_S) / 10 + 10;
    let mut commands = format!(
        "create a.rrd --start {START_S} --step 10 DS:sold:GAUGE:20:U:U \
         RRA:AVERAGE:0.5:1:{rows} RRA:AVERAGE:0.5:2:{rows}\n"
    );
    for some in updates.chunks(100) {
        commands += "update a.rrd";
        commands.extend(some.iter().map(|(at_s, value)| format!(" {at_s}:{value}")));
        commands.push('\n');
    }
    commands
}

/// What rrdtool makes of the updates.
pub(super) fn rrdtool(updates: &[(i64, f64)]) -> Result<Peer, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let said = rrd(folder.path(), &updated(updates))?;
    if let Some(error) = said.lines().find(|line| line.starts_with("ERROR")) {
        return Err(format!("rrdtool: {error}"));
    }
    let end_s = updates.last().map_or(START_S, |(at_s, _)| *at_s);
    let fetch = |step: i64| -> Result<Rates, String> {
        let end_s = end_s / step * step - 1;
        let start_s = START_S / step * step;
        let said = rrd(
            folder.path(),
            &format!("fetch a.rrd AVERAGE --resolution {step} --start {start_s} --end {end_s}\n"),
        )?;
        let rows = said.lines().filter_map(|line| line.split_once(": "));
        let rows = rows.filter_map(|(row_end, value)| {
            // rrdtool labels a row with its end.
            let start_s = row_end.trim().parse::<i64>().ok()? - step;
            let rate = value.trim().parse::<f64>().ok()?;
            Some((start_s, Some(rate).filter(|rate| !rate.is_nan())))
        });
        Ok(rows.collect())
    };
    Ok(Peer { fine: fetch(10)?, coarse: fetch(20)? })
}

/// What rrdtool says to the 10 that comes late.
pub(super) fn rrdtool_refuses_late(updates: &[(i64, f64)]) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let said = rrd(folder.path(), &(updated(updates) + "update a.rrd 1430701288:10\n"))?;
    let error = said.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.map(str::to_owned).ok_or_else(|| "rrdtool took an update that came late".to_owned())
}

/// Reads `time value` lines, updates a file one at a time or all at once where they
/// are many, and prints what each archive holds.
const SCRIPT: &str = r#"
import os, sys, warnings
warnings.simplefilter("ignore")
import whisper
folder, start = sys.argv[1], int(sys.argv[2])
updates = [(int(t), float(v)) for t, v in (line.split() for line in sys.stdin)]
now = updates[-1][0]
points = (now - start) // 10 + 20
path = os.path.join(folder, "a.wsp")
whisper.create(path, [(10, points), (20, points)], xFilesFactor=0.5, aggregationMethod="average")
if len(updates) <= 100:
    for t, v in updates:
        whisper.update(path, v, t, now=t)
else:
    for i in range(0, len(updates), 10000):
        part = updates[i:i + 10000]
        whisper.update_many(path, part, now=now)
for step in (10, 20):
    begin = start - start % step - step
    (begin, end, step), values = whisper.fetch(path, begin, now, now=now, archiveToSelect=step)
    for i, v in enumerate(values):
        print(step, begin + i * step, v)
"#;

/// What whisper makes of the updates.
pub(super) fn whisper(updates: &[(i64, f64)]) -> Result<Peer, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let requirements = ["whisper==1.1.10".to_owned(), "six==1.17.0".to_owned()];
    let bin = stage::python::ensure_env(&requirements, None, &mut |_| {}).map_err(text)?;
    let input: String = updates.iter().map(|(at_s, value)| format!("{at_s} {value}\n")).collect();
    let mut command = Command::new(bin.join("python"));
    command.args(["-c", SCRIPT]).arg(folder.path()).arg(START_S.to_string());
    let output = run(&mut command, &input)?;
    if !output.status.success() {
        return Err(format!("whisper: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let last_s = updates.last().map_or(0, |(at_s, _)| *at_s);
    let of = |step: i64| -> Rates {
        let rows = said.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let row_step: i64 = words.next()?.parse().ok()?;
            let at_s: i64 = words.next()?.parse().ok()?;
            // As for rrdtool: the slot of the last update is not complete.
            (row_step == step && at_s + step <= last_s)
                .then(|| (at_s, words.next().and_then(|value| value.parse().ok())))
        });
        rows.collect()
    };
    Ok(Peer { fine: of(10), coarse: of(20) })
}
