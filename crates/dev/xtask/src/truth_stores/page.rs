//! docs/truth-stores.md.

use std::fmt::Write as _;

use base::format_count;

use super::causes::cause;
use super::results::{Cell, Results, StoreResult};
use super::stores::{STORES, StoreKind};
use super::trials::{TRIALS, Trial};

/// What the page says before its tables.
const HEAD: &str = "\
# What time-series stores keep, and what is true

<!-- Made by `make truth` from docs/results/truth-stores.json. Do not edit. -->

The same counts and rates, whose totals are known, are sent to several stores, each by its own protocol; then each is asked for the totals.

- Every trial has a fresh store on loopback, and two series of two hours, a message every four seconds on average, drawn by a seed. A store is asked for the total of each hour by the query that its documents recommend.
- A client repeats what was not acknowledged, and nothing else.
- *true*: the store's total of every hour is that of what happened, to less than one count.
- *refused*: this share of the amount was refused by an error, which the sender sees; the totals are those of what was acknowledged.
- **Bold**: a total is not that of the messages that were acknowledged (of all that were sent, where the protocol acknowledges nothing); by how much all totals together differ. *0%* says that they differ, but not together.
- Where rounds with other messages differ, each has its line.

";

/// The page of these results.
pub(super) fn page(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    let _ = writeln!(out, "## Totals\n\n{}", overview(results));
    for trial in &TRIALS {
        if results.stores.values().any(|store| store.trials.contains_key(trial.id)) {
            let _ = writeln!(out, "## {}\n\n{}", capital(trial.title), details(results, trial));
        }
    }
    let _ = writeln!(out, "## The stores\n\n{}", stores(results));
    out.trim_end().to_owned() + "\n"
}

/// The stores with results, in the order of the page.
fn measured(results: &Results) -> impl Iterator<Item = (&'static StoreKind, &StoreResult)> {
    STORES.iter().filter_map(|kind| {
        let result = results.stores.get(kind.name)?;
        (!result.trials.is_empty()).then_some((kind, result))
    })
}

/// A row for each store, a column for each trial.
fn overview(results: &Results) -> String {
    let titles: Vec<&str> = TRIALS.iter().map(|trial| trial.title).collect();
    let mut out =
        format!("| | {} |\n| --- |{}\n", titles.join(" | "), " ---: |".repeat(TRIALS.len()));
    for (kind, result) in measured(results) {
        let cells = TRIALS.iter().map(|trial| match result.trials.get(trial.id) {
            None => "–".to_owned(),
            Some(cells) => per_round(cells, Cell::difference),
        });
        let _ = writeln!(out, "| {} | {} |", kind.name, cells.collect::<Vec<_>>().join(" | "));
    }
    out
}

/// The counts of a trial.
fn details(results: &Results, trial: &Trial) -> String {
    let mut out = format!(
        "{}.\n\n| store | messages | acknowledged | refused | what happened | acknowledged | stored | reported | wrong totals | wrong slots |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        capital(trial.what)
    );
    let mut remarks = Vec::new();
    for (kind, result) in measured(results) {
        let Some(cells) = result.trials.get(trial.id) else { continue };
        if cells.iter().any(|cell| cell.unconcerned.is_some()) {
            continue;
        }
        let column = |figure: &dyn Fn(&Cell) -> String| per_round(cells, figure);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            kind.name,
            column(&|cell| format_count(cell.messages)),
            column(&|cell| cell.acknowledged.map_or_else(|| "–".to_owned(), format_count)),
            column(&|cell| format_count(cell.refused)),
            column(&|cell| amount(cell.truth)),
            column(&|cell| amount(cell.taken)),
            column(&|cell| amount(cell.stored)),
            column(&|cell| marked(cell, &amount(cell.reported))),
            column(&|cell| format!("{} of {}", cell.wrong_totals, cell.totals)),
            column(&|cell| format!(
                "{} of {}",
                format_count(cell.wrong_slots),
                format_count(cell.slots)
            )),
        );
        let found = cells.iter().find(|cell| !cell.is_complete());
        remarks.extend(found.map(|cell| format!("- {}: {}", kind.name, remark(kind, trial, cell))));
    }
    if !remarks.is_empty() {
        let _ = writeln!(out, "\n{}", remarks.join("\n"));
    }
    out
}

/// Why a store does not have the truth in a trial.
fn remark(kind: &StoreKind, trial: &Trial, cell: &Cell) -> String {
    let why = cell.failure.as_ref().map(|why| format!("it failed: {why}"));
    let why = why.or_else(|| cell.unsayable.clone());
    let why = why.or_else(|| cause(kind.name, trial.id).map(str::to_owned));
    let why = why.unwrap_or_else(|| "the cause is not known".to_owned());
    let refused = cell.refusal.as_ref().map(|error| format!(" (`{}`)", error.replace('\n', " ")));
    format!("{}{}.", why.trim_end_matches('.'), refused.unwrap_or_default())
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
    let machines: std::collections::BTreeSet<String> = measured(results)
        .map(|(_, result)| {
            format!("{} on {}, seed {}", &result.date[..10], result.machine, result.seed)
        })
        .collect();
    for machine in machines {
        let _ = writeln!(out, "\nMeasured {machine}.");
    }
    out
}

impl Cell {
    /// How the reported total differs from the truth.
    fn difference(&self) -> String {
        if self.failure.is_some() {
            return "**failed**".to_owned();
        }
        if self.unconcerned.is_some() {
            return "–".to_owned();
        }
        if self.unsayable.is_some() {
            return "**cannot be said**".to_owned();
        }
        if self.is_complete() {
            return "true".to_owned();
        }
        if self.is_right() {
            return format!("{:.0}% refused", 100.0 * (1.0 - self.taken / self.truth));
        }
        let percent = format!("{:+.2}%", 100.0 * (self.reported - self.taken) / self.taken);
        match percent.replace('-', "−").as_str() {
            "+0.00%" | "−0.00%" => "**0%**".to_owned(),
            percent => format!("**{percent}**"),
        }
    }

    /// The result in a few words.
    pub(super) fn words(&self) -> String {
        match &self.failure {
            Some(failure) => format!("failed: {failure}"),
            None => format!(
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

/// A figure of each round, once if all are alike.
fn per_round(cells: &[Cell], figure: impl Fn(&Cell) -> String) -> String {
    let mut figures: Vec<String> = cells.iter().map(figure).collect();
    figures.dedup();
    figures.join("<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_is_wrong_and_by_how_much() {
        let right = Cell { truth: 200.0, taken: 200.0, reported: 200.0, ..Cell::default() };
        let wrong = |reported| Cell { wrong_totals: 1, reported, ..right.clone() };
        let words = |words: &str| Some(words.to_owned());
        let cells = [
            (right.clone(), "true"),
            (Cell { taken: 150.0, reported: 150.0, ..right.clone() }, "25% refused"),
            (wrong(400.0), "**+100.00%**"),
            (wrong(199.0), "**−0.50%**"),
            (wrong(200.0), "**0%**"),
            (Cell { unsayable: words("no form"), ..right.clone() }, "**cannot be said**"),
            (Cell { unconcerned: words("no connection"), ..right.clone() }, "–"),
            (Cell { failure: words("it hangs"), ..right.clone() }, "**failed**"),
        ];
        for (cell, said) in &cells {
            assert_eq!(cell.difference(), *said);
        }
        assert_eq!(per_round(&[right.clone(), right.clone()], Cell::difference), "true");
        let rounds = [right.clone(), wrong(400.0)];
        assert_eq!(per_round(&rounds, Cell::difference), "true<br>**+100.00%**");
        assert_eq!([1_020.0, 400.04, -75.26, 0.97].map(amount), ["1,020", "400", "−75.3", "1"]);
    }
}
