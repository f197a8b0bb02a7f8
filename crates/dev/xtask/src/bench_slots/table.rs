//! The results, kept from piece to piece and written as a table of the page.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Filled;
use super::points::Load;
use crate::pages;

/// The lines of the page that enclose the tables.
const BEGIN: &str = "<!-- bench-series: begin -->";
const END: &str = "<!-- bench-series: end -->";

/// One contestant under one load.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) title: String,
    #[serde(flatten)]
    pub(super) load: Load,
    pub(super) outcome: Outcome,
}

/// The cost of filling one, or why it was not filled.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Filled(Filled),
    Not { why: String },
}

impl Outcome {
    fn filled(&self) -> Option<&Filled> {
        match self {
            Outcome::Filled(filled) => Some(filled),
            Outcome::Not { .. } => None,
        }
    }
}

impl Row {
    /// The result in one line, for progress output.
    pub(super) fn line(&self) -> String {
        let Load { per_slot, values, .. } = self.load;
        format!("{per_slot} per slot, {}: {}", values.name(), self.cells())
    }

    fn cells(&self) -> String {
        match &self.outcome {
            Outcome::Not { why } => format!("{} | {why} | | | ", self.title),
            Outcome::Filled(filled) => {
                let slots = filled.points.div_ceil(self.load.per_slot) as f64;
                format!(
                    "{} | {:.1} | {:.2} | {:.2} | {:.1}",
                    self.title,
                    filled.points as f64 / 1e6,
                    filled.points as f64 / filled.wall_s / 1e6,
                    filled.points as f64 / filled.cpu_s.max(0.01) / 1e6,
                    filled.bytes as f64 / slots
                )
            }
        }
    }
}

/// The rates of an import in arrival order ÷ those of the others of the same run.
pub(super) fn ratios(run: &[Row]) -> Vec<String> {
    let rates = |row: &Row| {
        let filled = row.outcome.filled()?;
        let points = filled.points as f64;
        Some((points / filled.wall_s, points / filled.cpu_s.max(0.01)))
    };
    let ours = run.iter().find(|row| row.name == super::ARRIVAL).and_then(rates);
    let Some((ours, ours_cpu)) = ours else { return Vec::new() };
    let others = run.iter().filter(|row| row.name != super::ARRIVAL);
    let ratio = |row: &Row| {
        let (rate, rate_cpu) = rates(row)?;
        let title = &row.title;
        Some(format!(
            "import in arrival order ÷ {title}: {:.2}, per CPU second {:.2}",
            ours / rate,
            ours_cpu / rate_cpu
        ))
    };
    others.filter_map(ratio).collect()
}

/// Adds a row; of the same contestant under the same load the faster one stays.
pub(super) fn add(rows: &mut Vec<Row>, row: Row) {
    let same = |known: &Row| known.name == row.name && known.load == row.load;
    let rate =
        |row: &Row| row.outcome.filled().map_or(0.0, |f| f.points as f64 / f.cpu_s.max(0.01));
    match rows.iter_mut().find(|known| same(known)) {
        Some(known) if rate(known) > rate(&row) => {}
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

/// Writes the rows into the page.
pub(super) fn write(rows: &[Row], page: &Path) -> Result<(), String> {
    pages::write_between(page, [BEGIN, END], |_| tables(rows))
}

fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut loads: Vec<Load> = Vec::new();
    for row in rows {
        if !loads.contains(&row.load) {
            loads.push(row.load);
        }
    }
    loads.sort_by_key(|load| (load.values, load.per_slot, load.points));
    for load in loads {
        let values = load.values.title();
        text.push_str(&format!(
            "\n### {} per slot, {:.1} million points of {} series, {values}\n\n\
             | | points, M | M points/s | M points per CPU second | bytes per slot |\n\
             | --- | ---: | ---: | ---: | ---: |\n",
            if load.per_slot == 1 {
                "One point".to_owned()
            } else {
                format!("{} points", load.per_slot)
            },
            load.points as f64 / 1e6,
            load.series
        ));
        for (name, ..) in super::CONTESTANTS {
            let of = |row: &&Row| row.name == name && row.load == load;
            if let Some(row) = rows.iter().find(of) {
                text.push_str(&format!("| {} |\n", row.cells()));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::points::Pattern;
    use super::*;

    fn row(cpu_s: f64) -> Row {
        let load = Load { points: 2_000_000, series: 10, per_slot: 10, values: Pattern::Walk };
        let filled = Filled { points: 2_000_000, wall_s: 2.0, cpu_s, bytes: 800_000 };
        Row {
            name: "sqlite".to_owned(),
            title: "ours".to_owned(),
            load,
            outcome: Outcome::Filled(filled),
        }
    }

    #[test]
    fn a_row_says_rates_and_bytes_and_comes_back() {
        let row = row(1.0);
        assert_eq!(row.line(), "10 per slot, walk: ours | 2.0 | 1.00 | 2.00 | 4.0");
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!(back.line(), row.line());
        let why = "not installed: apt-get install x".to_owned();
        let missing = Row { outcome: Outcome::Not { why }, ..row };
        assert_eq!(
            missing.line(),
            "10 per slot, walk: ours | not installed: apt-get install x | | | "
        );
    }

    #[test]
    fn ratios_are_those_of_one_run() {
        let import = Row { name: super::super::ARRIVAL.to_owned(), ..row(0.5) };
        let wanted = "import in arrival order ÷ ours: 1.00, per CPU second 2.00";
        assert_eq!(ratios(&[import, row(1.0)]), [wanted]);
        assert_eq!(ratios(&[row(1.0)]), Vec::<String>::new());
    }

    #[test]
    fn the_faster_of_two_stays() {
        let mut rows = vec![row(1.0)];
        add(&mut rows, row(0.5));
        add(&mut rows, row(2.0));
        assert_eq!(rows.iter().map(Row::line).collect::<Vec<_>>(), [row(0.5).line()]);
    }

    #[test]
    fn the_page_has_a_table_of_each_load() {
        let text = tables(&[row(1.0)]);
        assert!(text.contains("### 10 points per slot, 2.0 million points of 10 series"), "{text}");
        assert!(text.contains("| ours | 2.0 | 1.00 | 2.00 | 4.0 |"), "{text}");
    }
}
