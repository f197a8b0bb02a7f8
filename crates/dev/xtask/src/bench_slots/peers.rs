//! The real rrdtool and the real whisper: one file per series.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::points::{Load, START_S, STEP_S};
use super::{FillCost, FillFailure, cpu};
use crate::process::output;

/// Limit on points written one at a time.
const SINGLE_MAX: u64 = 500_000;

/// Limit on points written a hundred at a time.
const HUNDRED_MAX: u64 = 5_000_000;

/// rrdtool and whisper only support whole seconds, so ten points per slot are a second apart.
fn whole_seconds(load: &Load) -> Result<(), String> {
    match STEP_S % load.per_slot {
        0 => Ok(()),
        _ => Err("it knows whole seconds only".to_owned()),
    }
}

/// All updates of a series in one command.
pub(super) fn rrdtool(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    rrd(load, folder, usize::MAX)
}

/// A hundred updates per command.
pub(super) fn rrdtool_hundred(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    rrd(&load.at_most(HUNDRED_MAX), folder, 100)
}

/// One update per command.
pub(super) fn rrdtool_single(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    rrd(&load.at_most(SINGLE_MAX), folder, 1)
}

/// Fills files with this many updates per command.
fn rrd(load: &Load, folder: &Path, at_once: usize) -> Result<FillCost, FillFailure> {
    whole_seconds(load)?;
    let files = folder.join("files");
    std::fs::create_dir(&files)?;
    let rows = load.slots() / load.series + 2;
    let create: String = (0..load.series)
        .map(|series| {
            format!(
                "create {series}.rrd --start {START_S} --step {STEP_S} \
                 DS:level:GAUGE:{STEP_S}:U:U RRA:AVERAGE:0.5:1:{rows}\n"
            )
        })
        .collect();
    std::fs::write(folder.join("create"), create)?;
    run_rrdtool(&files, &folder.join("create"))?;
    load.write(&folder.join("updates"), |text, series, points| {
        for points in points.chunks(at_once) {
            let _ = write!(text, "update {series}.rrd");
            for (at_ms, value) in points {
                let _ = write!(text, " {}:{value}", at_ms / 1_000);
            }
            text.push('\n');
        }
    })?;
    let (began, before_s) = (Instant::now(), cpu::children_s());
    run_rrdtool(&files, &folder.join("updates"))?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), cpu::children_s() - before_s);
    Ok(FillCost::new(load.points, wall_s, cpu_s, cpu::bytes(&files)))
}

fn run_rrdtool(files: &Path, commands: &Path) -> Result<(), FillFailure> {
    let said = files.with_extension("said");
    let ran = Command::new("rrdtool")
        .arg("-")
        .current_dir(files)
        .env("LC_ALL", "C")
        .stdin(File::open(commands)?)
        .stdout(File::create(&said)?)
        .stderr(Stdio::null())
        .status();
    if ran.is_err() {
        return Err(FillFailure::missing("apt-get install rrdtool"));
    }
    let said = std::fs::read_to_string(&said)?;
    match said.lines().find(|line| line.starts_with("ERROR")) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Creates a file per series, and then fills each at once. Only the filling is timed.
const SCRIPT: &str = r#"
import os, sys, time
import whisper
folder, series, each, per_slot, start, step = sys.argv[1], *map(int, sys.argv[2:7])
slots = -(-each // per_slot) + 2
now = start + slots * step
for s in range(series):
    whisper.create(os.path.join(folder, str(s)), [(step, slots)], aggregationMethod="average")
points = [(start + (i + 1) * step // per_slot, (i * 7919 % 10007) / 100.0) for i in range(each)]
wall, cpu = time.perf_counter(), time.process_time()
for s in range(series):
    whisper.update_many(os.path.join(folder, str(s)), points, now=now)
print(time.perf_counter() - wall, time.process_time() - cpu)
"#;

pub(super) fn whisper(load: &Load, folder: &Path) -> Result<FillCost, FillFailure> {
    whole_seconds(load)?;
    let requirements = ["whisper==1.1.10".to_owned(), "six==1.17.0".to_owned()];
    let bin = stage::python::ensure_env(&requirements, None, &mut |_| {})
        .map_err(|error| FillFailure::missing(error.to_string()))?;
    let numbers = [load.series, load.each(), load.per_slot, START_S, STEP_S];
    let mut command = Command::new(bin.join("python"));
    command.args(["-c", SCRIPT]).arg(folder).args(numbers.map(|number| number.to_string()));
    let said = output(&mut command)?;
    let times: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match times[..] {
        [wall_s, cpu_s] => Ok(FillCost::new(load.points, wall_s, cpu_s, cpu::bytes(folder))),
        _ => Err(said.into()),
    }
}
