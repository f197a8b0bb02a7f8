//! The results of all rounds, kept in a file and shown as tables of the page.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::points::Load;
use super::{CONTESTANTS, FillCost, FillFailure};
use crate::pages;

/// The lines of the page that enclose the tables.
const MARKS: [&str; 2] = ["<!-- bench-series: begin -->", "<!-- bench-series: end -->"];

/// What was measured in one go.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Table {
    /// When it began, and on what.
    pub(super) began: String,
    pub(super) machine: String,
    pub(super) rows: Vec<Row>,
}

/// One contestant under one load in one round.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) load: Load,
    pub(super) round: u32,
    pub(super) outcome: Outcome,
}

/// The cost of filling one, or why it was not filled.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Filled(FillCost),
    Unfilled(FillFailure),
}

/// What a contestant is measured by; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Criterion {
    /// Points per second until the database has them.
    Time,
    /// Points per CPU second of all processes involved.
    Cpu,
    /// Points per second until they are acknowledged.
    Acknowledged,
}

/// The least, the median and the greatest of all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rounds {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
}

impl Rounds {
    fn of(values: Vec<f64>) -> Option<Rounds> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Rounds { least, median: stats::median(&values)?, most })
    }
}

impl FillCost {
    pub(super) fn per(&self, by: Criterion) -> Option<f64> {
        let seconds = match by {
            Criterion::Time => self.wall_s,
            Criterion::Cpu => self.cpu_s.max(0.01),
            Criterion::Acknowledged => self.acknowledged_s?,
        };
        Some(self.points as f64 / seconds)
    }

    fn bytes_per_slot(&self, load: &Load) -> f64 {
        self.bytes as f64 / self.points.div_ceil(load.per_slot) as f64
    }
}

impl Row {
    pub(super) fn filled(&self) -> Option<&FillCost> {
        match &self.outcome {
            Outcome::Filled(filled) => Some(filled),
            Outcome::Unfilled(_) => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Unfilled(FillFailure::Failed { .. }))
    }

    /// The result in one line, for progress output.
    pub(super) fn line(&self) -> String {
        format!("round {}: {}", self.round, cells(&[self]))
    }
}

impl Table {
    /// Where it is kept: beside the page, which is made of it.
    pub(super) fn path() -> PathBuf {
        pages::docs().join("results/series-performance.json")
    }

    fn of<'a>(&'a self, name: &'a str, load: &'a Load) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.name == name && row.load == *load)
    }

    /// A figure of a contestant over the rounds.
    pub(super) fn rounds(
        &self,
        name: &str,
        load: &Load,
        figure: impl Fn(&FillCost) -> Option<f64>,
    ) -> Option<Rounds> {
        Rounds::of(self.of(name, load).filter_map(|row| figure(row.filled()?)).collect())
    }

    /// Bytes per slot.
    pub(super) fn bytes(&self, name: &str, load: &Load) -> Option<Rounds> {
        self.rounds(name, load, |filled| Some(filled.bytes_per_slot(load)))
    }

    /// One contestant's rate ÷ that of another in the same round; acknowledged points are compared with
    /// what the other one needs until it has them.
    pub(super) fn ratio(
        &self,
        name: &str,
        other: &str,
        load: &Load,
        by: Criterion,
    ) -> Option<Rounds> {
        let theirs = if by == Criterion::Acknowledged { Criterion::Time } else { by };
        let ratio = |row: &Row| {
            let mut others = self.of(other, load).filter(|other| other.round == row.round);
            Some(row.filled()?.per(by)? / others.next()?.filled()?.per(theirs)?)
        };
        Rounds::of(self.of(name, load).filter_map(ratio).collect())
    }

    /// Writes the tables into the page, and what follows them.
    pub(super) fn write(&self, page: &Path, goals: &str) -> Result<(), String> {
        pages::write_between(page, MARKS, |_| self.text() + goals)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "Measured from {} on {}. The numbers of every round are in \
             [results/series-performance.json](results/series-performance.json).\n",
            self.began, self.machine
        );
        let mut loads: Vec<Load> = Vec::new();
        for row in &self.rows {
            if !loads.contains(&row.load) {
                loads.push(row.load);
            }
        }
        for load in loads {
            text.push_str(&format!(
                "\n### {} per slot, {:.1} million points of {} series, {}\n\n\
                 | | rounds | points, M | acknowledged, M/s | in the database, M/s | per CPU second, M | bytes per slot | memory, MiB |\n\
                 | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
                if load.per_slot == 1 {
                    "One point".to_owned()
                } else {
                    format!("{} points", load.per_slot)
                },
                load.points as f64 / 1e6,
                load.series,
                load.values.title(),
            ));
            for (name, ..) in CONTESTANTS {
                let rows: Vec<&Row> = self.of(name, &load).collect();
                if !rows.is_empty() {
                    text.push_str(&format!("| {} |\n", cells(&rows)));
                }
            }
        }
        text
    }
}

/// A contestant's cells: the medians of its rounds.
fn cells(rows: &[&Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let title = CONTESTANTS.iter().find(|(name, ..)| *name == first.name);
    let title = title.map_or(first.name.as_str(), |(_, title, _)| title);
    let median = |figure: &dyn Fn(&FillCost) -> Option<f64>, digits: usize| {
        let figures = rows.iter().filter_map(|row| figure(row.filled()?)).collect();
        Rounds::of(figures).map_or(String::new(), |rounds| format!("{:.digits$}", rounds.median))
    };
    let why = rows.iter().find_map(|row| match &row.outcome {
        Outcome::Filled(_) => None,
        Outcome::Unfilled(why) => Some(why.words()),
    });
    if let Some(why) = why {
        return format!("{title} | {} | {why} | | | | | ", rows.len());
    }
    let rate = |by: Criterion| median(&move |filled| filled.per(by).map(|rate| rate / 1e6), 2);
    [
        title.to_owned(),
        rows.len().to_string(),
        median(&|filled| Some(filled.points as f64 / 1e6), 1),
        rate(Criterion::Acknowledged),
        rate(Criterion::Time),
        rate(Criterion::Cpu),
        median(&|filled| Some(filled.bytes_per_slot(&first.load)), 1),
        median(&|filled| filled.peak_mib.map(|mib| mib as f64), 0),
    ]
    .join(" | ")
}

#[cfg(test)]
mod tests {
    use super::super::points::Pattern;
    use super::*;

    fn row(name: &str, round: u32, wall_s: f64) -> Row {
        let load = Load { points: 2_000_000, series: 10, per_slot: 10, values: Pattern::Walk };
        let filled = FillCost::new(2_000_000, wall_s, 1.0, 800_000);
        Row { name: name.to_owned(), load, round, outcome: Outcome::Filled(filled) }
    }

    #[test]
    fn a_row_says_rates_and_bytes_and_comes_back() {
        let line =
            "round 1: tachograph, SQLite, points in memory | 1 | 2.0 |  | 1.00 | 2.00 | 4.0 | ";
        let row = row("sqlite", 1, 2.0);
        assert_eq!(row.line(), line);
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!(back.line(), line);
        let outcome = Outcome::Unfilled(FillFailure::missing("apt-get install x"));
        let missing = serde_json::to_value(Row { outcome, ..row }).unwrap();
        assert_eq!(missing["outcome"], serde_json::json!({"how": "apt-get install x"}));
        let missing: Row = serde_json::from_value(missing).unwrap();
        assert!(missing.line().contains("| not installed: apt-get install x |"));
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let rows = [("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 4.0), ("b", 2, 12.0), ("a", 3, 1.0)];
        let rows = rows.map(|(name, round, wall_s)| row(name, round, wall_s)).to_vec();
        let load = rows[0].load;
        let table = Table { rows, ..Table::default() };
        let wanted = Rounds { least: 2.0, median: 2.5, most: 3.0 };
        assert_eq!(table.ratio("a", "b", &load, Criterion::Time), Some(wanted));
        let rate = table.rounds("a", &load, |filled| filled.per(Criterion::Time));
        assert_eq!(rate.map(|rate| rate.median), Some(2e6));
        assert_eq!(table.ratio("a", "c", &load, Criterion::Time), None);
        let text = table.text();
        assert!(text.contains("### 10 points per slot, 2.0 million points of 10 series"), "{text}");
    }
}
