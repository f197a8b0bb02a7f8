//! Ours as users use it: Graphite lines in a file, through `tachograph import`, until SQL sees
//! them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use series::Step;
use store::Selector;

use super::ours::{Make, TABLES};
use super::points::{Load, STEP_S, Values};
use super::{FillCost, FillFailure, cpu};
use crate::{binary, say};

/// The order of the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Slot by slot over all series, as data arrives.
    Arrival,
    /// Series by series.
    Series,
}

/// Imports a file, and checks that every point is stored.
pub(super) fn import(
    load: &Load,
    folder: &Path,
    order: Order,
    make: Make,
) -> Result<FillCost, FillFailure> {
    let database = make(folder)?;
    if !STEP_S.is_multiple_of(load.per_slot) {
        return Err("Graphite's times are whole seconds".into());
    }
    let lines = folder.join("lines.txt");
    say(&format!("  writing {:.1} M lines of {} series", load.points as f64 / 1e6, load.series));
    write(load, &lines, order, 0..load.each())?;
    say("  importing them");
    let cpu_s = || cpu::children_s() + database.cpu_s();
    let (began, before_s) = (Instant::now(), cpu_s());
    let child = command(&lines, &database.place)?.spawn()?;
    let peak = cpu::peak_of(child.id());
    ended(child)?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s() - before_s);
    let peak_mib = peak.join().ok().map(|kib| kib / 1_024);
    say("  counting the points");
    let found = all_points(load, &database.place, 3_600)?;
    Ok(FillCost { peak_mib, ..FillCost::new(found, wall_s, cpu_s, database.bytes(TABLES)?) })
}

/// The command that imports a file.
pub(super) fn command(lines: &Path, place: &str) -> Result<Command, String> {
    let mut command = Command::new(binary::path()?);
    command.args(["import", "--quiet", "--format", "graphite"]).arg(lines);
    command.env("TACHOGRAPH_RECORD", place).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Waits for an import, which must succeed.
pub(super) fn ended(import: Child) -> Result<(), FillFailure> {
    let output = import.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

/// The name of a series.
pub(super) fn name(of: u64) -> String {
    format!("servers.rack{}.host{of}.load", of % 100)
}

/// The number of updates in all slots of a step, if it is that of all points.
pub(super) fn all_points(load: &Load, place: &str, step_s: u64) -> Result<u64, FillFailure> {
    let mut store = store::open(place)?;
    let series = store.find(&Selector::default())?;
    let ids: Vec<i64> = series.iter().map(|series| series.id).collect();
    let step = Step::from_secs(step_s as i64).ok_or_else(|| format!("{step_s} s is no step"))?;
    let mut n = 0;
    for ids in ids.chunks(1_000) {
        let slots = store.slots(step, ids, i64::MIN, i64::MAX)?;
        n += slots.iter().map(|(_, slot)| slot.n as u64).sum::<u64>();
    }
    match n == load.each() * load.series {
        true => Ok(n),
        false => Err(format!("{n} of {} points are there", load.points).into()),
    }
}

/// Writes the same lines in one order or the other: these points of every series.
pub(super) fn write(
    load: &Load,
    path: &Path,
    order: Order,
    points: Range<u64>,
) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut values = Values::new(load.values);
    let (series, each) = (load.series as usize, load.each() as usize);
    let values: Vec<f64> = (0..series * each).map(|_| values.next()).collect();
    let names: Vec<String> = (0..load.series).map(name).collect();
    let mut line = |of: usize, point: u64| {
        let value = values[of * each + point as usize];
        writeln!(file, "{} {value} {}", names[of], load.at_ms(point) / 1_000)
    };
    match order {
        Order::Series => {
            (0..series).try_for_each(|of| points.clone().try_for_each(|at| line(of, at)))?;
        }
        Order::Arrival => {
            points.clone().try_for_each(|at| (0..series).try_for_each(|of| line(of, at)))?;
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::super::points::Pattern;
    use super::*;

    #[test]
    fn both_orders_have_the_same_lines() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let load = Load { points: 60, series: 3, per_slot: 2, values: Pattern::Walk };
        let lines = |order| {
            let path = folder.path().join("lines");
            write(&load, &path, order, 0..20).unwrap_or_else(|e| panic!("{e}"));
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (mut arrival, mut series) = (lines(Order::Arrival), lines(Order::Series));
        assert!(arrival[0].starts_with("servers.rack0.host0.load "), "{}", arrival[0]);
        assert!(arrival[0].ends_with(" 1767225605") && arrival[1].ends_with(" 1767225605"));
        assert!(series[1].ends_with(" 1767225610"));
        assert_ne!(arrival, series);
        arrival.sort();
        series.sort();
        assert_eq!((arrival.len(), arrival), (60, series));
    }
}
