//! The experiment `series-accuracy`: the same updates through the real rrdtool, the real whisper
//! and tachograph, and the results of all three.
//!
//! An [`Experiment`] is a file; [`run`] prints the results, table by table, with published figures
//! beside them. A recorder that is not installed is skipped.
//!
//! Not here: the arithmetic (series), storage (slots), and printing.

mod experiment;
mod ours;
mod peers;
mod table;

use base::Seed;
use rand::RngExt as _;

pub use experiment::{Correction, Experiment, ExperimentHead, Peer, PublishedRates, Updates};
pub use peers::{PROGRAMS, REQUIREMENTS};

use peers::{PeerRates, Peers};
use table::{Table, figure};

/// Rates by the start of the slot in seconds since 1970; `None` is unknown.
pub(crate) type Rates = Vec<(i64, Option<f64>)>;

/// Why the experiment failed, in a sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct AccuracyError(pub(crate) String);

impl AccuracyError {
    fn new(cause: impl std::fmt::Display) -> AccuracyError {
        AccuracyError(cause.to_string())
    }
}

/// Result of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Incorrect figures, in words.
    pub wrong: Vec<String>,
    /// Skipped recorders, with reason and remedy.
    pub skipped: Vec<String>,
}

/// Runs an experiment and prints its results, table by table.
///
/// # Errors
/// [`AccuracyError`] when our own record cannot be written or read, or a peer fails.
pub fn run(
    experiment: &Experiment,
    seed: Seed,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome, AccuracyError> {
    let peers = Peers::find(say);
    let outcome = Outcome { wrong: Vec::new(), skipped: peers.skipped() };
    let mut trial = Trial { experiment, peers, outcome, say };
    trial.same_updates()?;
    trial.late()?;
    trial.correction()?;
    trial.random(seed)?;
    Ok(trial.outcome)
}

/// An experiment in progress.
struct Trial<'a> {
    experiment: &'a Experiment,
    peers: Peers,
    outcome: Outcome,
    say: &'a mut dyn FnMut(&str),
}

impl Trial<'_> {
    fn series(&self) -> &Updates {
        &self.experiment.series
    }

    fn say_table(&mut self, title: &str, table: &Table) {
        (self.say)(&format!("\n{title}\n\n{}", table.text().trim_end()));
    }

    /// A figure; if it is not the expected one, it is marked and noted in the result.
    fn cell(&mut self, what: &str, found: Option<f64>, wanted: Option<f64>) -> String {
        let same = match (found, wanted) {
            (Some(found), Some(wanted)) => (found - wanted).abs() <= 1e-9 * wanted.abs(),
            (found, wanted) => found == wanted,
        };
        if same {
            return figure(found);
        }
        let (found, wanted) = (figure(found), figure(wanted));
        self.outcome.wrong.push(format!("{what}: {found} instead of {wanted}"));
        format!("{found} ≠ {wanted}")
    }

    /// A row of rates; `wanted` if there is something to compare them with.
    fn rates(
        &mut self,
        table: &mut Table,
        who: &str,
        slots: &[i64],
        rates: &Rates,
        wanted: Option<&[Option<f64>]>,
    ) {
        let mut row = vec![who.to_owned()];
        for (i, slot) in slots.iter().enumerate() {
            let found = rates.iter().find(|(at, _)| at == slot).and_then(|(_, rate)| *rate);
            row.push(match wanted {
                Some(wanted) => self.cell(
                    &format!("{who}, slot {slot}"),
                    found,
                    wanted.get(i).copied().flatten(),
                ),
                None => figure(found),
            });
        }
        table.row(row);
    }

    /// Rates by slot and their totals, for slots of one step and of two.
    fn same_updates(&mut self) -> Result<(), AccuracyError> {
        let series = self.series().clone();
        let mut seen = Vec::new();
        for peer in [Peer::Graphite, Peer::Rrdtool] {
            let found = self.peers.see(peer, &series, &series.updates)?;
            seen.push((peer, found));
        }
        let mut store = ours::Record::new(&series)?;
        store.points("same", &series.updates)?;
        for (times, title) in
            [(1, "Rate per second, by slot"), (2, "The same in slots twice as long")]
        {
            let slots = series.whole(times);
            let mut heads = vec![format!("slots of {} s", series.step * times)];
            heads.extend(slots.iter().map(i64::to_string));
            let mut table = Table::new(heads);
            let mut amounts = Table::new(["rate × time", "in these slots"]);
            let seconds = (series.step * times) as f64;
            for (peer, found) in &seen {
                self.peer_rows(&mut table, &mut amounts, *peer, found.as_ref(), times, &slots);
            }
            let mine = store.rates("same", series.step * times)?;
            let right = series.right(&series.updates, times);
            let wanted: Vec<_> = right.iter().map(|(_, rate)| *rate).collect();
            self.rates(&mut table, "tachograph", &slots, &mine, Some(&wanted));
            let (found, wanted) = (amount(&slots, &mine, seconds), amount(&slots, &right, seconds));
            let cell = self.cell("tachograph, rate × time", Some(found), Some(wanted));
            amounts.row(["tachograph".to_owned(), cell]);
            amounts.row(["what is right".to_owned(), figure(Some(wanted))]);
            self.say_table(title, &table);
            self.say_table("What that amounts to", &amounts);
        }
        Ok(())
    }

    /// The published figures of a recorder, and its results here.
    fn peer_rows(
        &mut self,
        table: &mut Table,
        amounts: &mut Table,
        peer: Peer,
        found: Option<&PeerRates>,
        times: i64,
        slots: &[i64],
    ) {
        let (name, here) = match peer {
            Peer::Graphite => ("Graphite", "whisper"),
            Peer::Rrdtool => ("RRDtool", "rrdtool"),
        };
        let seconds = (self.series().step * times) as f64;
        let published = self.experiment.published.iter().find(|published| published.of == peer);
        let published: Option<Vec<Option<f64>>> = published.map(|published| {
            let rates = if times == 1 { &published.rates } else { &published.coarse };
            rates.iter().map(|rate| Some(*rate).filter(|rate| !rate.is_nan())).collect()
        });
        if let Some(rates) = &published {
            let rates: Rates = slots.iter().copied().zip(rates.iter().copied()).collect();
            let who = format!("{name}, published");
            self.rates(table, &who, slots, &rates, None);
            amounts.row([who, figure(Some(amount(slots, &rates, seconds)))]);
        }
        let who = format!("{here}, here");
        match found {
            Some(seen) => {
                let rates = if times == 1 { &seen.fine } else { &seen.coarse };
                self.rates(table, &who, slots, rates, published.as_deref());
                amounts.row([who, figure(Some(amount(slots, rates, seconds)))]);
            }
            None => table.row([who, "skipped".to_owned()]),
        }
    }

    /// Late updates, which only tachograph accepts.
    fn late(&mut self) -> Result<(), AccuracyError> {
        let series = self.series().clone();
        let (slots, without) = (series.whole(1), series.without_late());
        let late: Vec<_> =
            series.updates.iter().filter(|(at, _)| *at == series.late).copied().collect();
        let wanted = |updates: &[(i64, f64)]| -> Vec<Option<f64>> {
            series.right(updates, 1).into_iter().map(|(_, rate)| rate).collect()
        };
        let (lacking, right) = (wanted(&without), wanted(&series.updates));
        let mut heads = vec![format!("slots of {} s", series.step)];
        heads.extend(slots.iter().map(i64::to_string));
        let mut table = Table::new(heads);
        let mut refusal = None;
        if let Some(seen) = self.peers.see(Peer::Rrdtool, &series, &without)? {
            self.rates(&mut table, "rrdtool without it", &slots, &seen.fine, Some(&lacking));
            refusal = Some(self.peers.rrdtool_refuses_late(&series, &without, &late)?);
            table.row(["rrdtool, given it late", "refuses"]);
        }
        let mut store = ours::Record::new(&series)?;
        store.points("late", &without)?;
        let mine = store.rates("late", series.step)?;
        self.rates(&mut table, "tachograph without it", &slots, &mine, Some(&lacking));
        store.points_only("late", &late)?;
        let mine = store.rates("late", series.step)?;
        self.rates(&mut table, "tachograph, given it late", &slots, &mine, Some(&right));
        // The same as counts over intervals, which do not depend on other updates.
        let intervals = intervals(&series);
        let (missing, others): (Vec<_>, Vec<_>) =
            intervals.iter().partition(|(_, end, _)| *end == series.late);
        store.counts("count", &others)?;
        store.counts("count", &missing)?;
        let mine = store.rates("count", series.step)?;
        self.rates(&mut table, "as intervals, it last", &slots, &mine, Some(&right));
        let value = late.first().map_or(0.0, |(_, value)| *value);
        self.say_table(
            &format!("Without the {value} of {}, and then with it", series.late),
            &table,
        );
        if let Some(refusal) = refusal {
            (self.say)(&format!("\nrrdtool says: {refusal}"));
        }
        Ok(())
    }

    /// A late count increases every resolution by itself, and by nothing else.
    fn correction(&mut self) -> Result<(), AccuracyError> {
        let series = self.series().clone();
        let Correction { start, end, count } = series.correction;
        let mut store = ours::Record::new(&series)?;
        store.counts("count", &intervals(&series))?;
        let steps = ours::steps(&series);
        let mut before = Vec::new();
        for step in steps {
            before.push(store.total("count", step)?);
        }
        store.counts("count", &[(start, end, count)])?;
        let mut table = Table::new(["resolution", "total before", "total after", "difference"]);
        for (step, before) in steps.into_iter().zip(before) {
            let after = store.total("count", step)?;
            let what = format!("the correction in slots of {step} s");
            let cell = self.cell(&what, Some(after - before), Some(count as f64));
            table.row([format!("{step} s"), figure(Some(before)), figure(Some(after)), cell]);
        }
        self.say_table(&format!("{count} more are found between {start} and {end}"), &table);
        Ok(())
    }

    /// A random stream, and the total of each of the three.
    fn random(&mut self, seed: Seed) -> Result<(), AccuracyError> {
        let series = self.series().clone();
        let (updates, truth) = random(&series, seed);
        let count = series.random;
        let stream = Updates { updates, ..series.clone() };
        let mut table = Table::new(["recorder", "total", "of the truth"]);
        let share = |total: f64| format!("{:.6}%", 100.0 * total / truth as f64);
        table.row(["the truth".to_owned(), truth.to_string(), String::new()]);
        let step = series.step as f64;
        for (peer, who) in [(Peer::Graphite, "whisper"), (Peer::Rrdtool, "rrdtool")] {
            match self.peers.see(peer, &stream, &stream.updates)? {
                Some(seen) => {
                    let total = seen.fine.iter().filter_map(|(_, rate)| *rate).sum::<f64>() * step;
                    table.row([who.to_owned(), figure(Some(total)), share(total)]);
                }
                None => table.row([who, "skipped"]),
            }
        }
        let mut store = ours::Record::new(&series)?;
        store.points("random", &stream.updates)?;
        for step in ours::steps(&series) {
            let mine = store.total("random", step)?;
            let who = format!("tachograph, slots of {step} s");
            let cell = self.cell(&who, Some(mine), Some(truth as f64));
            table.row([who, cell, share(mine)]);
        }
        let Seed(number) = seed;
        self.say_table(
            &format!("{count} random updates, 1 to 12 s apart (--seed {number})"),
            &table,
        );
        Ok(())
    }
}

/// The updates as counts over the time since the previous update.
fn intervals(series: &Updates) -> Vec<(i64, i64, i64)> {
    let mut previous = series.start;
    let updates = series.updates.iter().map(|(at, value)| {
        let start = std::mem::replace(&mut previous, *at);
        (start, *at, (*value * (at - start) as f64) as i64)
    });
    updates.collect()
}

/// Random updates with their total.
fn random(series: &Updates, seed: Seed) -> (Vec<(i64, f64)>, i64) {
    let mut random = seed.rng("series-accuracy");
    let (mut at, mut truth) = (series.start, 0_i64);
    let mut updates = Vec::new();
    for _ in 0..series.random {
        let seconds = random.random_range(1..=12_i64);
        let value = random.random_range(0..=1_000_i64);
        at += seconds;
        truth += value * seconds;
        updates.push((at, value as f64));
    }
    // A last update of 0 at the end of its slot closes the last slot in RRDtool.
    updates.push(((at / series.step + 1) * series.step, 0.0));
    (updates, truth)
}

/// Rate × time over the known ones of these slots.
fn amount(slots: &[i64], rates: &Rates, step_s: f64) -> f64 {
    let known = rates.iter().filter(|(at, _)| slots.contains(at));
    known.filter_map(|(_, rate)| *rate).sum::<f64>() * step_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_reproduced_and_our_totals_are_the_truth() {
        // On a fresh machine this installs whisper, whose output is not part of the tables.
        Peers::find(&mut |_| {});
        let mut experiment = experiment::tests::built_in();
        experiment.series.random = 500;
        let mut text = String::new();
        let outcome = run(&experiment, Seed(7), &mut |line| text += &format!("{line}\n"));
        assert_eq!(outcome, Ok(Outcome::default()), "{text}");
        let rows: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for row in [
            "Graphite, published N/A 10 30",
            "whisper, here N/A 10 30",
            "RRDtool, published 50 22 30",
            "rrdtool, here 50 22 30",
            "tachograph 50 22 30",
            "rrdtool, here 1020",
            "whisper, here 400",
            "rrdtool, here 26",
            "whisper, here 20",
            "rrdtool without it 50 34 30",
            "rrdtool, given it late refuses",
            "tachograph without it 50 34 30",
            "tachograph, given it late 50 22 30",
            "as intervals, it last 50 22 30",
            "3600 s 1050 1125 75",
        ] {
            assert!(rows.iter().any(|found| found == row), "{row} is not in\n{text}");
        }
        let tables = text.lines().filter(|line| !line.starts_with("rrdtool says: "));
        assert!(tables.clone().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_wrong_figure_is_marked_and_reported() {
        let mut experiment = experiment::tests::built_in();
        experiment.series.random = 10;
        experiment.published[1].rates[1] = 23.0;
        let mut text = String::new();
        let outcome = run(&experiment, Seed(7), &mut |line| text += line).unwrap();
        assert_eq!(outcome.wrong, ["rrdtool, here, slot 1430701280: 22 instead of 23"]);
        assert!(text.contains("22 ≠ 23"), "{text}");
    }
}
