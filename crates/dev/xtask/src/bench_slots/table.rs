//! The results, kept from piece to piece and written as a table of the page.

use std::path::Path;

use serde_json::{Value, json};

use super::Filled;
use super::points::{Load, Pattern};

/// The lines of the page that enclose the tables.
const BEGIN: &str = "<!-- bench-series: begin -->";
const END: &str = "<!-- bench-series: end -->";

/// One contestant under one load.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) load: Load,
    /// The cost of filling it, or why it was not filled.
    pub(super) outcome: Result<Filled, String>,
}

impl Row {
    /// The result in one line, for progress output.
    pub(super) fn line(&self) -> String {
        let Load { per_slot, values, .. } = self.load;
        format!("{per_slot} per slot, {}: {}", values.name(), self.cells())
    }

    fn cells(&self) -> String {
        match &self.outcome {
            Err(why) => format!("{} | {why} | | | ", self.title),
            Ok(filled) => {
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

    fn json(&self) -> Value {
        let Load { points, series, per_slot, values } = self.load;
        let outcome = match &self.outcome {
            Err(why) => json!({ "why": why }),
            Ok(Filled { points, wall_s, cpu_s, bytes }) => {
                json!({ "points": points, "wall_s": wall_s, "cpu_s": cpu_s, "bytes": bytes })
            }
        };
        json!({
            "name": self.name, "title": self.title, "points": points, "series": series,
            "per_slot": per_slot, "values": values.name(), "outcome": outcome
        })
    }

    fn from_json(row: &Value) -> Option<Row> {
        let number = |value: &Value, key: &str| value[key].as_u64();
        let outcome = &row["outcome"];
        Some(Row {
            name: row["name"].as_str()?.to_owned(),
            title: row["title"].as_str()?.to_owned(),
            load: Load {
                points: number(row, "points")?,
                series: number(row, "series")?,
                per_slot: number(row, "per_slot")?,
                values: Pattern::named(row["values"].as_str()?)?,
            },
            outcome: match outcome["why"].as_str() {
                Some(why) => Err(why.to_owned()),
                None => Ok(Filled {
                    points: number(outcome, "points")?,
                    wall_s: outcome["wall_s"].as_f64()?,
                    cpu_s: outcome["cpu_s"].as_f64()?,
                    bytes: number(outcome, "bytes")?,
                }),
            },
        })
    }
}

/// The rates of an import in arrival order ÷ those of the others of the same run.
pub(super) fn ratios(run: &[Row]) -> Vec<String> {
    let rates = |row: &Row| {
        let filled = row.outcome.as_ref().ok()?;
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

/// The rows of earlier pieces.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, String> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let all: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let rows = all.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(rows.iter().filter_map(Row::from_json).collect())
}

/// Adds a row; of the same contestant under the same load the faster one stays.
pub(super) fn add(rows: &mut Vec<Row>, row: Row) {
    let same = |known: &Row| known.name == row.name && known.load == row.load;
    let rate =
        |row: &Row| row.outcome.as_ref().map_or(0.0, |f| f.points as f64 / f.cpu_s.max(0.01));
    match rows.iter_mut().find(|known| same(known)) {
        Some(known) if rate(known) > rate(&row) => {}
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

/// Keeps the rows, and writes them into the page.
pub(super) fn write(rows: &[Row], kept: &Path, page: &Path) -> Result<(), String> {
    let wrong = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    let all: Vec<Value> = rows.iter().map(Row::json).collect();
    let text = serde_json::to_string_pretty(&all).map_err(|e| e.to_string())?;
    std::fs::write(kept, text).map_err(wrong(kept))?;
    write_between(page, [BEGIN, END], |_| tables(rows))
}

/// Replaces the text between two lines of a page.
pub(super) fn write_between(
    page: &Path,
    [begin, end]: [&str; 2],
    text: impl FnOnce(&str) -> String,
) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", page.display());
    let before = std::fs::read_to_string(page).map_err(wrong)?;
    let parts = before.split_once(begin).and_then(|(head, rest)| {
        let (known, tail) = rest.split_once(end)?;
        Some((head, known, tail))
    });
    let Some((head, known, tail)) = parts else {
        return Err(format!("{} lacks the lines {begin} and {end}", page.display()));
    };
    let after = format!("{head}{begin}\n{}\n{end}{tail}", text(known));
    std::fs::write(page, after).map_err(wrong)
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
    use super::*;

    fn row(cpu_s: f64) -> Row {
        let load = Load { points: 2_000_000, series: 10, per_slot: 10, values: Pattern::Walk };
        let filled = Filled { points: 2_000_000, wall_s: 2.0, cpu_s, bytes: 800_000 };
        Row { name: "sqlite".to_owned(), title: "ours".to_owned(), load, outcome: Ok(filled) }
    }

    #[test]
    fn a_row_says_rates_and_bytes_and_comes_back() {
        let row = row(1.0);
        assert_eq!(row.line(), "10 per slot, walk: ours | 2.0 | 1.00 | 2.00 | 4.0");
        let back = Row::from_json(&row.json());
        assert_eq!(back.map(|back| back.line()), Some(row.line()));
        let missing = Row { outcome: Err("not installed: apt-get install x".to_owned()), ..row };
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
    fn the_page_keeps_what_stands_around_the_tables() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let (kept, page) = (folder.path().join("kept"), folder.path().join("page"));
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        assert!(std::fs::write(&page, format!("a\n{BEGIN}\nold\n{END}\nb\n")).is_ok());
        assert_eq!(write(&[row(1.0)], &kept, &page), Ok(()));
        let found = text(&page);
        assert!(found.starts_with("a\n") && found.ends_with("\nb\n"), "{found}");
        assert!(found.contains("| ours | 2.0 | 1.00 | 2.00 | 4.0 |") && !found.contains("old"));
        assert_eq!(read(&kept).map(|rows| rows.len()), Ok(1));
        assert!(std::fs::write(&page, "nothing").is_ok());
        assert!(write(&[], &kept, &page).is_err());
    }
}
