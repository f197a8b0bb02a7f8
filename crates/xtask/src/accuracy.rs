//! Experiment `series-accuracy`: the same updates through the real rrdtool, the
//! real whisper and ours, and what each of the three makes of them.

mod ours;
mod peers;

use std::process::ExitCode;

use base::Seed;
use rand::RngExt as _;

use crate::options::Options;
use crate::say;

/// The updates that the tables are published for: seconds since 1970, value.
const UPDATES: [(i64, f64); 4] =
    [(1_430_701_282, 50.0), (1_430_701_288, 10.0), (1_430_701_293, 30.0), (1_430_701_301, 30.0)];

/// Where they begin.
const START_S: i64 = 1_430_701_270;

/// The slots that the tables show.
const SLOTS_S: [i64; 3] = [1_430_701_270, 1_430_701_280, 1_430_701_290];

/// How many random updates the three are given.
const RANDOM: u32 = 1_000_000;

/// Rates by slot; `None` is unknown.
pub(crate) type Rates = Vec<(i64, Option<f64>)>;

/// Runs the experiment; fails if a published figure is not reproduced, or a total of ours is not the truth.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    let options = match Options::parse(words, RANDOM) {
        Ok(options) => options,
        Err(sentence) => return crate::usage_error(&sentence),
    };
    match run(&options) {
        Ok(0) => {
            say("\nEvery published figure is reproduced, and every total of ours is the truth.");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            say(&format!("\n{wrong} figures are not as they should be."));
            ExitCode::FAILURE
        }
        Err(sentence) => {
            say(&sentence);
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<u32, String> {
    let mut check = Check(0);
    published(&mut check)?;
    late(&mut check)?;
    random(options, &mut check)?;
    Ok(check.0)
}

/// Counts the figures that are not as they should be.
struct Check(u32);

impl Check {
    /// A figure in a table, with a mark if it is not the one that is wanted.
    fn cell(&mut self, found: Option<f64>, wanted: Option<f64>) -> String {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let same = match (found, wanted) {
            (Some(found), Some(wanted)) => near(found, wanted),
            (found, wanted) => found == wanted,
        };
        self.0 += u32::from(!same);
        let text = found.map_or_else(|| "N/A".to_owned(), |value| format!("{value}"));
        if same { text } else { format!("{text} (wanted {})", wanted.unwrap_or(f64::NAN)) }
    }

    fn rates(&mut self, rates: &Rates, wanted: [Option<f64>; 3]) -> String {
        let cells = SLOTS_S.iter().zip(wanted).map(|(slot, wanted)| {
            let found = rates.iter().find(|(at, _)| at == slot).and_then(|(_, rate)| *rate);
            self.cell(found, wanted)
        });
        cells.collect::<Vec<_>>().join(" | ")
    }
}

/// The two published tables, and the merge of the last two slots.
fn published(check: &mut Check) -> Result<(), String> {
    let (rrd, whisper) = (peers::rrdtool(&UPDATES)?, peers::whisper(&UPDATES)?);
    let mut store = ours::Record::new()?;
    store.points("sold", &UPDATES)?;
    let mine = store.rates("sold", 10)?;
    let right = [Some(50.0), Some(22.0), Some(30.0)];

    say("## Rate by slot of 10 s\n");
    say("| slot | 1430701270 | 1430701280 | 1430701290 |\n| --- | --- | --- | --- |");
    say(&format!(
        "| Graphite (whisper) | {} |",
        check.rates(&whisper.fine, [None, Some(10.0), Some(30.0)])
    ));
    say(&format!("| RRDtool | {} |", check.rates(&rrd.fine, right)));
    say(&format!("| tachograph | {} |", check.rates(&mine, right)));

    say("\n## As trinkets sold: rate × time\n");
    say("| | trinkets in the three slots |\n| --- | --- |");
    for (name, rates, wanted) in [
        ("Graphite (whisper)", &whisper.fine, 400.0),
        ("RRDtool", &rrd.fine, 1020.0),
        ("tachograph", &mine, 1020.0),
    ] {
        say(&format!("| {name} | {} |", check.cell(Some(total(rates, 10)), Some(wanted))));
    }

    say("\n## The last two slots as one of 20 s\n");
    say("| | per second | trinkets |\n| --- | --- | --- |");
    let coarse = store.rates("sold", 20)?;
    for (name, rates, wanted) in [
        ("Graphite (whisper)", &whisper.coarse, 20.0),
        ("RRDtool", &rrd.coarse, 26.0),
        ("tachograph", &coarse, 26.0),
    ] {
        let rate = rates.iter().find(|(at, _)| *at == 1_430_701_280).and_then(|(_, rate)| *rate);
        let trinkets = rate.map(|rate| rate * 20.0);
        let cells = (check.cell(rate, Some(wanted)), check.cell(trinkets, Some(wanted * 20.0)));
        say(&format!("| {name} | {} | {} |", cells.0, cells.1));
    }
    Ok(())
}

/// What only ours can take: what comes late.
fn late(check: &mut Check) -> Result<(), String> {
    let without: Vec<(i64, f64)> =
        UPDATES.iter().filter(|(_, value)| *value != 10.0).copied().collect();
    let rrd = peers::rrdtool(&without)?;
    let mut store = ours::Record::new()?;
    store.points("late", &without)?;
    say("\n## Without the 10, and then with it\n");
    say("| | 1430701270 | 1430701280 | 1430701290 |\n| --- | --- | --- | --- |");
    let wrong = [Some(50.0), Some(34.0), Some(30.0)];
    say(&format!("| RRDtool without it | {} |", check.rates(&rrd.fine, wrong)));
    say(&format!("| tachograph without it | {} |", check.rates(&store.rates("late", 10)?, wrong)));
    let refusal = peers::rrdtool_refuses_late(&without)?;
    say(&format!("| RRDtool, given it late | refused: {refusal} | | |"));
    store.points_only("late", &[(1_430_701_288, 10.0)])?;
    let right = [Some(50.0), Some(22.0), Some(30.0)];
    say(&format!(
        "| tachograph, given it late | {} |",
        check.rates(&store.rates("late", 10)?, right)
    ));

    // The same as counts over intervals, which need no neighbours at all.
    let mut previous_s = START_S;
    let intervals: Vec<(i64, i64, i64)> = UPDATES
        .iter()
        .map(|(at_s, value)| {
            let start_s = std::mem::replace(&mut previous_s, *at_s);
            (start_s, *at_s, (*value * (at_s - start_s) as f64) as i64)
        })
        .collect();
    let (missing, others): (Vec<_>, Vec<_>) =
        intervals.iter().partition(|(_, end_s, _)| *end_s == 1_430_701_288);
    store.counts("count", &others)?;
    store.counts("count", &missing)?;
    say(&format!(
        "| tachograph, as intervals, the missing one last | {} |",
        check.rates(&store.rates("count", 10)?, right)
    ));

    say("\n## 75 more trinkets are found to have been sold in the second slot\n");
    say("| resolution | total before | total after | difference |\n| --- | --- | --- | --- |");
    let steps = [10, 20, 60, 3600];
    let before = steps.map(|step| store.total("count", step));
    store.counts("count", &[(1_430_701_280, 1_430_701_290, 75)])?;
    for (step, before) in steps.into_iter().zip(before) {
        let (before, after) = (before?, store.total("count", step)?);
        let difference = check.cell(Some(after - before), Some(75.0));
        say(&format!("| {step} s | {before} | {after} | {difference} |"));
    }
    Ok(())
}

/// A random stream, and the total that each of the three ends with.
fn random(options: &Options, check: &mut Check) -> Result<(), String> {
    let mut random = options.seed.rng("series-accuracy");
    let (mut at_s, mut truth) = (START_S, 0_i64);
    let mut updates = Vec::new();
    for _ in 0..options.runs {
        let seconds = random.random_range(1..=12_i64);
        let value = random.random_range(0..=1_000_i64);
        at_s += seconds;
        truth += value * seconds;
        updates.push((at_s, value as f64));
    }
    // A last update of 0 up to the end of its slot closes the last one for RRDtool.
    let end_s = (at_s / 10 + 1) * 10;
    updates.push((end_s, 0.0));
    let Seed(seed) = options.seed;
    say(&format!("\n## {} random updates (seed {seed}), 1 to 12 s apart\n", options.runs));
    say("| | trinkets | of the truth |\n| --- | --- | --- |");
    say(&format!("| truth | {truth} | |"));
    let mut store = ours::Record::new()?;
    store.points("random", &updates)?;
    let share = |total: f64| format!("{:.6}%", 100.0 * total / truth as f64);
    let whisper = total(&peers::whisper(&updates)?.fine, 10);
    say(&format!("| Graphite (whisper) | {whisper} | {} |", share(whisper)));
    let rrd = total(&peers::rrdtool(&updates)?.fine, 10);
    say(&format!("| RRDtool | {rrd} | {} |", share(rrd)));
    for step in [10, 60, 3600] {
        let mine = store.total("random", step)?;
        let cell = check.cell(Some(mine), Some(truth as f64));
        say(&format!("| tachograph, slots of {step} s | {cell} | {} |", share(mine)));
    }
    Ok(())
}

/// Rate × time over the slots that are known.
fn total(rates: &Rates, step_s: i64) -> f64 {
    rates.iter().filter(|(at, _)| *at < i64::MAX).filter_map(|(_, rate)| *rate).sum::<f64>()
        * step_s as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_reproduced_and_our_totals_are_the_truth() {
        let options = Options { runs: 500, seed: Seed(7) };
        assert_eq!(run(&options), Ok(0), "figures are not as they should be");
    }
}
