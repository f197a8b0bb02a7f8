//! All parts of a run in one picture: their ratios below each other, and, where
//! several parts compare the same variants, as a grid.

use record::{Comparison, Part, Run};
use stats::Verdict;

use super::{both, charts};
use crate::chart::{self, Forest, Heat, HeatCell, HeatRow};
use crate::text::ratio;
use crate::view;

/// More ratios than this in one picture are not read any more.
const ROWS_MAX: usize = 30;

/// The section before the parts; nothing for a run of one part.
pub(super) fn section(run: &Run) -> String {
    let mut out = String::new();
    if let Some(grid) = heat(run) {
        out += &format!(
            "<section><h3>All parts at a glance</h3>\n{}<p class=\"small muted\">Throughput as a multiple of each part's baseline, which is 1×. Bold: the interval leaves 1 out. Blue is faster, orange slower.</p></section>\n",
            both(|w| chart::heat(&grid, w))
        );
    }
    if let Some(data) = forest(run) {
        out += &format!(
            "<section><h3>The ratio, part by part</h3>\n{}{}</section>\n",
            both(|w| chart::forest(&data, w)),
            charts::forest_legend(&data)
        );
    }
    out
}

/// The primary ratios of all parts, in their order.
pub(super) fn forest(run: &Run) -> Option<Forest> {
    if run.parts.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for part in &run.parts {
        let (primary, _) = view::split_comparisons(part);
        let mut data = charts::forest(part, &primary);
        for row in &mut data.rows {
            row.label = match primary.len() {
                1 => part.name.clone(),
                _ => format!("{}: {}", part.name, row.label),
            };
        }
        rows.extend(data.rows);
    }
    let words: Vec<String> =
        rows.iter().map(|row| format!("{}: {}", row.label, row.words)).collect();
    (2..=ROWS_MAX).contains(&rows.len()).then(|| Forest {
        title: "Ratios of all parts".to_owned(),
        description: words.join(". "),
        below: "less than its baseline".to_owned(),
        above: "more than its baseline".to_owned(),
        rows,
    })
}

/// A row for each variant and a column for each part, if at least three variants are in two parts or more.
pub(super) fn heat(run: &Run) -> Option<Heat> {
    let mut names: Vec<&str> = Vec::new();
    for variant in run.parts.iter().flat_map(|part| &part.variants) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    let has = |part: &&Part, name: &str| part.variants.iter().any(|v| v.name == name);
    let shared = |name: &&&str| run.parts.iter().filter(|part| has(part, name)).count() > 1;
    if run.parts.len() < 2 || names.iter().filter(shared).count() < 3 {
        return None;
    }
    let rows: Vec<HeatRow> = names
        .iter()
        .map(|name| HeatRow {
            label: (*name).to_owned(),
            cells: run.parts.iter().map(|part| cell(part, name)).collect(),
        })
        .collect();
    let words = |row: &HeatRow| {
        let cells = row.cells.iter().zip(&run.parts);
        let cells: Vec<String> =
            cells.map(|(cell, part)| format!("{} {}", part.name, cell.words)).collect();
        format!("{}: {}", row.label, cells.join(", "))
    };
    Some(Heat {
        title: "Throughput as a multiple of each part's baseline".to_owned(),
        description: rows.iter().map(words).collect::<Vec<_>>().join(". "),
        columns: run.parts.iter().map(|part| part.name.clone()).collect(),
        rows,
    })
}

fn cell(part: &Part, name: &str) -> HeatCell {
    let empty = HeatCell { words: "–".to_owned(), ..HeatCell::default() };
    let Some(index) = part.variants.iter().position(|variant| variant.name == name) else {
        return HeatCell { words: String::new(), ..HeatCell::default() };
    };
    let throughput = |c: &&Comparison| c.metric == "throughput";
    let comparisons = || part.comparisons.iter().filter(throughput);
    if let Some(comparison) = comparisons().find(|c| c.variant as usize == index) {
        let estimate = &comparison.ratio;
        if comparison.verdict == Verdict::Invalid || !estimate.value.is_finite() {
            return empty;
        }
        let (value, interval) = ratio(estimate);
        return HeatCell {
            ratio: Some(estimate.value),
            tip: format!("{name}, {}: {value} ({interval})", part.name),
            words: value,
            decided: estimate.low > 1.0 || estimate.high < 1.0,
        };
    }
    if comparisons().any(|c| c.baseline as usize == index) {
        return HeatCell {
            ratio: Some(1.0),
            words: "1×".to_owned(),
            decided: false,
            tip: format!("{name} is the baseline of {}", part.name),
        };
    }
    empty
}
