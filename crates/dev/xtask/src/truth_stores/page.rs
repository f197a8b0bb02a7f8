//! docs/truth-stores.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::format_count;

use super::causes::cause;
use super::results::{Cell, Results, StoreResult, TrialResult, worst};
use super::stores::{STORES, StoreKind, Times};
use super::trials::{PRICED, TRIALS, Trial};

/// What the page says before its tables.
const HEAD: &str = "\
# What time-series stores keep, and what is true

<!-- Made by `make truth` from docs/results/truth-stores.json. Do not edit. -->

![A row for each store, a column for each trial](results/truth-stores.svg)

The same counts and rates, whose totals are known, are sent to several stores, each by its own protocol; then each is asked for the total of every hour, by the query that its documents recommend.

- Each trial starts a fresh store on loopback and sends it two hours of two series, with a message every four seconds on average. Intervals and counts are drawn from a seed, and are different in each round; picture and tables show the worst round. [The stores](#the-stores) lists how each store is configured and queried.
- The live trial is made of all stores at the same time, the others of four; that of [the price](#price) of one.
- A client repeats what was not acknowledged, and nothing else.
- **true**: every total is that of what happened, to less than one count.
- **refused**: some messages were refused by an error, which the sender sees; every total is that of the others.
- **A difference**: a total is not that of the messages that were acknowledged, or that were sent, if the protocol acknowledges nothing. The picture has the difference of all totals together; in the tables, such a total is bold.
- StatsD and our own datagrams keep no time of a message but that of its arrival, so the only total that is compared is that of everything. Prometheus by scrape reads a counter when it wants to, so only the live trial can be made.
- *In the slots* is the sum of the slots of ten seconds, or of the points in them; *by the query* is the total of the hour, from the store's own hours where it makes them of its slots.
- \\*: only in some rounds; *right rounds* tells how many.
- *slots*: every total of an hour is true, but not that of every slot.
- *moved*: of an hour's total, some is in another hour.
- Below each table stands why, with the place in documents or source where one is named; otherwise it is concluded from the figures.

";

/// What it says before the prices.
const PRICES: &str = "\
## Price

What exactness costs: the counts of [the third trial](#counts), one message in each request. The CPU time is that of all processes of the store from its start up to the moment at which everything can be read, without its start and without the client; the bytes are what its files take of the disk more than those of an empty store. RRDtool's files have their full size from the beginning. Of messages that are sent in batches, [series-performance.md](series-performance.md) has the speed.

";

/// What it says of stores that are not measured.
const ABSENT: &str = "
Not measured, because they are neither in Debian nor in a registry of packages that was at hand:

- InfluxDB 2 and 3: `apt-get install influxdb2`, or `influxdb3-core`, from InfluxData's own repository.
- TimescaleDB: `apt-get install timescaledb-2-postgresql-15` from its own repository.
";

/// The page of these results.
pub(super) fn page(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    for trial in &TRIALS {
        if results.stores.values().any(|store| store.trials.contains_key(trial.id)) {
            let _ = writeln!(out, "## {}\n\n{}", capital(trial.title), details(results, trial));
        }
    }
    let _ = writeln!(out, "{PRICES}{}", prices(results));
    let _ = writeln!(out, "## The stores\n\n{}", stores(results));
    out += ABSENT;
    out.trim_end().to_owned() + "\n"
}

/// The stores with results, in the order of the page.
pub(super) fn measured(
    results: &Results,
) -> impl Iterator<Item = (&'static StoreKind, &StoreResult)> {
    STORES.iter().filter_map(|kind| {
        let result = results.stores.get(kind.name)?;
        (!result.trials.is_empty()).then_some((kind, result))
    })
}

/// The counts of a trial.
fn details(results: &Results, trial: &Trial) -> String {
    let mut out = format!(
        "{}.\n\n| store | messages | acknowledged | refused | true total | of these messages | in the slots | by the query | wrong totals | wrong slots | right rounds |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        capital(trial.what)
    );
    let mut remarks = Vec::new();
    for (kind, result) in measured(results) {
        let Some(TrialResult { rounds, .. }) = result.trials.get(trial.id) else { continue };
        if let Some(why) = rounds.iter().find_map(|cell| cell.unconcerned.as_ref()) {
            // Of those that can only be read live, the table of stores says so once.
            if kind.times == Times::Message {
                remarks.push(format!("- {}: not tried, because {why}.", kind.name));
            }
            continue;
        }
        let Some(cell) = worst(rounds) else { continue };
        let acknowledged = cell.acknowledged.map_or_else(|| "–".to_owned(), format_count);
        let wrong_slots = match cell.slots {
            0 => "–".to_owned(),
            slots => format!("{} of {}", format_count(cell.wrong_slots), format_count(slots)),
        };
        let right = rounds.iter().filter(|cell| cell.is_right()).count();
        let _ = writeln!(
            out,
            "| {} | {} | {acknowledged} | {} | {} | {} | {} | {} | {} of {} | {wrong_slots} | {right} of {} |",
            kind.name,
            format_count(cell.messages),
            format_count(cell.refused),
            amount(cell.truth),
            amount(cell.taken),
            amount(cell.stored),
            marked(cell, &amount(cell.reported)),
            cell.wrong_totals,
            cell.totals,
            rounds.len(),
        );
        if !cell.is_complete() || cell.wrong_slots > 0 {
            remarks.push(format!("- {}: {}", kind.name, remark(kind, trial, cell)));
        }
    }
    if !remarks.is_empty() {
        let _ = writeln!(out, "\n{}", remarks.join("\n"));
    }
    out
}

/// Why a store does not have the truth in a trial.
fn remark(kind: &StoreKind, trial: &Trial, cell: &Cell) -> String {
    let why = cell.unsayable.as_deref().or_else(|| cause(kind.name, trial.id));
    let error = cell.failure.as_ref().or(cell.refusal.as_ref());
    let error = error.map(|error| format!(" (`{}`)", error.replace('\n', " ")));
    let unknown = if cell.failure.is_some() { "it failed" } else { "the cause is not known" };
    format!("{}{}.", why.unwrap_or(unknown), error.unwrap_or_default())
}

/// How the stores were used, and those that are not there.
fn stores(results: &Results) -> String {
    let mut out = String::from(
        "| store | version | protocol | settings | query for a total |\n| --- | --- | --- | --- | --- |\n",
    );
    for (kind, result) in measured(results) {
        let StoreKind { name, protocol, settings, query, .. } = kind;
        let _ =
            writeln!(out, "| {name} | {} | {protocol} | {settings} | {query} |", result.version);
    }
    for (name, result) in &results.stores {
        if let Some(command) = &result.missing {
            let _ = writeln!(out, "\n{name} was not measured; `{command}` installs it.");
        }
    }
    let mut conditions: BTreeMap<String, usize> = BTreeMap::new();
    for trial in measured(results).flat_map(|(_, result)| result.trials.values()) {
        let TrialResult { date, machine, note, seed, .. } = trial;
        let note = note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        *conditions
            .entry(format!("{} on {machine}, seed {seed}{note}", &date[..10]))
            .or_default() += 1;
    }
    for (measured, cells) in conditions {
        let _ = writeln!(out, "\n{cells} cells of the picture were measured {measured}.");
    }
    out
}

/// What it costs to keep the counts.
fn prices(results: &Results) -> String {
    let mut out =
        String::from("| store | CPU time per message | bytes per slot |\n| --- | ---: | ---: |\n");
    for (kind, result) in measured(results) {
        let Some(trial) = result.trials.get(PRICED) else { continue };
        let prices = || trial.rounds.iter().filter_map(|cell| Some((cell, cell.price?)));
        let per_message = prices().map(|(cell, price)| 1e6 * price.cpu_s / cell.messages as f64);
        let per_slot = prices().map(|(_, price)| price.bytes as f64 / FILLED_SLOTS);
        if let (Some(cpu_us), Some(bytes)) = (median(per_message), median(per_slot)) {
            let bytes = match bytes.round() as u64 {
                0 => "in memory".to_owned(),
                bytes => format_count(bytes),
            };
            let cpu_us = format_count(cpu_us.round() as u64);
            let _ = writeln!(out, "| {} | {cpu_us} µs | {bytes} |", kind.name);
        }
    }
    out
}

/// The slots that [`PRICED`] fills: two hours of two series.
const FILLED_SLOTS: f64 = 1_440.0;

/// The middle one.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Cell {
    /// The result in a few words.
    pub(super) fn words(&self) -> String {
        match (&self.failure, &self.unconcerned) {
            (Some(failure), _) => format!("failed: {failure}"),
            (None, Some(why)) => format!("not tried: {why}"),
            (None, None) => format!(
                "{} of {} (taken {}, stored {}), {} of {} totals and {} of {} slots wrong, {} refused",
                amount(self.reported),
                amount(self.truth),
                amount(self.taken),
                amount(self.stored),
                self.wrong_totals,
                self.totals,
                self.wrong_slots,
                self.slots,
                self.refused
            ),
        }
    }
}

fn marked(cell: &Cell, text: &str) -> String {
    if cell.is_right() { text.to_owned() } else { format!("**{text}**") }
}

/// A total: counts are whole, estimates have a decimal.
fn amount(total: f64) -> String {
    let whole = format_count(total.abs().trunc() as u64);
    let sign = if total < 0.0 { "−" } else { "" };
    match (total.fract().abs() * 10.0).round() as u64 {
        0 | 10 => format!("{sign}{}", format_count(total.abs().round() as u64)),
        tenth => format!("{sign}{whole}.{tenth}"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_whole_but_for_estimates_and_what_is_wrong_is_bold() {
        assert_eq!([1_020.0, 400.04, -75.26, 0.97].map(amount), ["1,020", "400", "−75.3", "1"]);
        let right = Cell { truth: 200.0, taken: 200.0, reported: 200.0, ..Cell::default() };
        let wrong = Cell { wrong_totals: 1, reported: 400.0, ..right.clone() };
        let reported = |cell: &Cell| marked(cell, &amount(cell.reported));
        assert_eq!([&right, &wrong].map(reported), ["200", "**400**"]);
        let rounds = [right.clone(), wrong.clone(), right];
        assert_eq!(worst(&rounds), Some(&wrong));
    }
}
