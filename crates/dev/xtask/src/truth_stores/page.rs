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

![A row for each store, a column for each trial](results/truth-stores.svg)

The same counts and rates, whose totals are known, are sent to several stores, each by its own protocol; then each is asked for the total of every hour, by the query that its documents recommend.

- Every trial has a fresh store on loopback, and two series of two hours, a message every four seconds on average. A seed draws intervals and counts. [The stores](#the-stores) tells how each is used.
- A client repeats what was not acknowledged, and nothing else.
- **true**: every total is that of what happened, to less than one count.
- **refused**: some messages were refused by an error, which the sender sees; every total is that of the others.
- **A difference**: a total is not that of the messages that were acknowledged, or that were sent, if the protocol acknowledges nothing. The picture has the difference of all totals together, in the worst round; in the tables, such a total is bold.
- Where rounds differ, each has its line.

";

/// The page of these results.
pub(super) fn page(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    for trial in &TRIALS {
        if results.stores.values().any(|store| store.trials.contains_key(trial.id)) {
            let _ = writeln!(out, "## {}\n\n{}", capital(trial.title), details(results, trial));
        }
    }
    let _ = writeln!(out, "## The stores\n\n{}", stores(results));
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
        "{}.\n\n| store | messages | acknowledged | refused | true total | of these messages | in the slots | by the query | wrong totals | wrong slots |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        capital(trial.what)
    );
    let mut remarks = Vec::new();
    for (kind, result) in measured(results) {
        let Some(cells) = result.trials.get(trial.id) else { continue };
        if let Some(why) = cells.iter().find_map(|cell| cell.unconcerned.as_ref()) {
            remarks.push(format!("- {}: not tried, because {why}.", kind.name));
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
    fn rounds_that_differ_have_a_line_each_and_what_is_wrong_is_bold() {
        let right = Cell { truth: 200.0, taken: 200.0, reported: 200.0, ..Cell::default() };
        let wrong = Cell { wrong_totals: 1, reported: 400.04, ..right.clone() };
        let reported =
            |cells: &[Cell]| per_round(cells, |cell| marked(cell, &amount(cell.reported)));
        assert_eq!(reported(&[right.clone(), right.clone()]), "200");
        assert_eq!(reported(&[right, wrong]), "200<br>**400**");
        assert_eq!([1_020.0, 400.04, -75.26, 0.97].map(amount), ["1,020", "400", "−75.3", "1"]);
    }
}
