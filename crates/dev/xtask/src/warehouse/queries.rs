//! `query --hive` beside `query` of the records that the table was made of.

use std::collections::BTreeMap;
use std::process::Command;

use rand::RngExt as _;

use super::history::DAYS;
use super::recorders::Recorders;
use crate::process::output;
use crate::say;

/// Queries with ranges that the seed chooses, beside one without a range.
const RANGES: usize = 5;

/// Total and updates, by series and start of the slot. (What is covered is at most the slot, in each
/// record and in the table.)
type Slots = BTreeMap<[String; 2], (f64, u64)>;

/// Asks the server and all records the same, and compares the sums of the records with the answer.
pub(super) fn compare(
    recorders: &mut Recorders<'_>,
    url: &str,
    server: &str,
) -> Result<bool, String> {
    let mut ranges: Vec<Vec<String>> = vec![["--step", "1h"].map(str::to_owned).to_vec()];
    for _ in 0..RANGES {
        let rng = &mut recorders.rng;
        let (step, most_s) =
            [("10s", 3_600), ("1m", 20_000), ("1h", 200_000)][rng.random_range(0..3)];
        let from_s = DAYS[0].1 + rng.random_range(0..200_000);
        let until_s = from_s + rng.random_range(1..most_s);
        let range = format!("--step {step} --from {from_s} --until {until_s}");
        ranges.push(range.split(' ').map(str::to_owned).collect());
    }
    let (mut slots, mut wrong) = (0, 0);
    for range in ranges {
        let mut truth = Slots::new();
        for mut command in recorders.queries() {
            add(&mut truth, &mut command, &range)?;
        }
        let mut found = Slots::new();
        let mut command = recorders.query(0);
        command.args(["--hive", url, "--timeout", "120s", "--statement-timeout", "600s"]);
        add(&mut found, &mut command, &range)?;
        slots += truth.len();
        wrong += truth.iter().filter(|(slot, sums)| found.get(*slot) != Some(sums)).count();
        wrong += found.keys().filter(|slot| !truth.contains_key(*slot)).count();
    }
    say(&format!("query --hive on {server}: {slots} slots, {wrong} wrong"));
    Ok(wrong == 0 && slots > 0)
}

/// Adds the slots that a query prints and that have data.
fn add(slots: &mut Slots, command: &mut Command, range: &[String]) -> Result<(), String> {
    let said = output(command.args(range).args(["--format", "csv"]))?;
    for line in said.lines().skip(1) {
        // The name of a series has no comma.
        let cells: Vec<&str> = line.split(',').collect();
        let [series, start, _, _, total, _, _, _, updates] = cells[..] else {
            return Err(format!("not a line of slots: {line}"));
        };
        let Ok(total) = total.parse::<f64>() else { continue };
        let updates: u64 = updates.parse().map_err(|_| format!("no updates: {line}"))?;
        let sums = slots.entry([series.to_owned(), start.to_owned()]).or_default();
        *sums = (sums.0 + total, sums.1 + updates);
    }
    Ok(())
}
