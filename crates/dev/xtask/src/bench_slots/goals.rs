//! The goals of the recorder's speed and size, and whether they are met.

use super::points::{Load, Pattern};
use super::table::{Criterion, Table};
use super::{FROM_MEMORY, FillCost, MANY_SERIES, TEXT};

/// What is wanted of a contestant.
enum Want {
    /// At least so many times the rate of another one.
    Times(f64, &'static str, Criterion),
    /// At least so many million points per CPU second.
    PerCpu(f64),
    /// At most so many bytes per slot.
    Bytes(f64),
    /// At most so much memory, in MiB.
    Memory(f64),
}

use Want::{Bytes, Memory, PerCpu, Times};

const TEN_PER_SLOT: Load = Load { per_slot: 10, ..FROM_MEMORY };

/// Contestant, load, what is wanted.
const GOALS: [(&str, Load, Want); 28] = [
    ("sqlite", FROM_MEMORY, Times(1.0, "rrdtool-hundred", Criterion::Cpu)),
    ("sqlite", FROM_MEMORY, Times(1.0, "rrdtool", Criterion::Cpu)),
    ("sqlite", FROM_MEMORY, Times(1.0, "whisper", Criterion::Cpu)),
    ("postgres", FROM_MEMORY, Times(1.0, "rrdtool-hundred", Criterion::Cpu)),
    ("postgres", FROM_MEMORY, Times(1.0, "rrdtool", Criterion::Cpu)),
    ("postgres", FROM_MEMORY, Times(1.0, "whisper", Criterion::Cpu)),
    ("sqlite", FROM_MEMORY, Bytes(8.0)),
    ("sqlite", TEN_PER_SLOT, PerCpu(5.0)),
    ("postgres", TEN_PER_SLOT, PerCpu(5.0)),
    ("sqlite", TEN_PER_SLOT, Bytes(8.0)),
    ("import", TEXT, Times(0.7, "import-series", Criterion::Time)),
    ("import", TEXT, Times(1.0, "whisper", Criterion::Time)),
    ("import", TEXT, Times(1.0, "victoria-lines", Criterion::Cpu)),
    ("import-postgres", TEXT, Times(0.5, "import", Criterion::Time)),
    ("import-postgres", TEXT, Times(0.3, "copy", Criterion::Time)),
    ("serve", TEXT, Times(1.5, "victoria-lines", Criterion::Cpu)),
    ("serve", TEXT, Times(1.0, "victoria-lines", Criterion::Time)),
    ("serve", TEXT, Times(1.0, "victoria-lines", Criterion::Acknowledged)),
    ("serve-postgres", TEXT, Times(0.9, "victoria-lines", Criterion::Cpu)),
    ("serve", TEXT, Times(3.0, "carbon", Criterion::Time)),
    ("serve", TEXT, Times(3.0, "go-carbon", Criterion::Time)),
    ("serve", TEXT, Bytes(6.0)),
    ("serve", MANY_SERIES, Times(1.0, "victoria-lines", Criterion::Cpu)),
    ("serve-postgres", MANY_SERIES, Times(0.9, "victoria-lines", Criterion::Cpu)),
    ("serve", MANY_SERIES, Bytes(12.0)),
    ("serve-postgres", MANY_SERIES, Bytes(12.0)),
    ("serve", MANY_SERIES, Memory(300.0)),
    ("serve-postgres", MANY_SERIES, Memory(300.0)),
];

/// The table of the goals that were measured.
pub(super) fn text(table: &Table) -> String {
    let rows: Vec<String> =
        GOALS.iter().filter_map(|(name, load, want)| row(table, name, load, want)).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n### Goals\n\n| | load | goal | median of the rounds | least to greatest | |\n\
         | --- | --- | --- | ---: | ---: | --- |\n{}",
        rows.concat()
    )
}

fn row(table: &Table, name: &str, load: &Load, want: &Want) -> Option<String> {
    let (goal, found) = match want {
        Times(factor, other, by) => {
            let by_words = match by {
                Criterion::Time => "",
                Criterion::Cpu => ", per CPU second",
                Criterion::Acknowledged => ", until acknowledged",
            };
            (format!("≥ {factor} × `{other}`{by_words}"), table.ratio(name, other, load, *by)?)
        }
        PerCpu(least) => {
            let rate = |filled: &FillCost| Some(filled.per(Criterion::Cpu)? / 1e6);
            (format!("≥ {least} M points per CPU second"), table.rounds(name, load, rate)?)
        }
        Bytes(most) => (format!("≤ {most} bytes per slot"), table.bytes(name, load)?),
        Memory(most) => {
            let found = table.rounds(name, load, |filled| filled.peak_mib.map(|mib| mib as f64))?;
            (format!("≤ {most} MiB of memory"), found)
        }
    };
    let is_met = match want {
        Times(least, ..) | PerCpu(least) => found.median >= *least,
        Bytes(most) | Memory(most) => found.median <= *most,
    };
    let (least, most) = (found.least, found.most);
    let (median, ends) = match want {
        Memory(_) => (format!("{:.0}", found.median), format!("{least:.0}–{most:.0}")),
        _ => (format!("{:.2}", found.median), format!("{least:.2}–{most:.2}")),
    };
    let values = match load.values {
        Pattern::Walk => "levels",
        Pattern::Counts => "counts",
        Pattern::Noise => "noise",
    };
    let verdict = if is_met { "**met**" } else { "missed" };
    Some(format!(
        "| `{name}` | {} series, {} per slot, {values} | {goal} | {median} | {ends} | {verdict} |\n",
        load.series, load.per_slot
    ))
}

#[cfg(test)]
mod tests {
    use super::super::table::{Outcome, Row};
    use super::*;

    #[test]
    fn a_goal_is_met_by_the_median_of_the_rounds() {
        let row = |name: &str, round, cpu_s| Row {
            name: name.to_owned(),
            load: MANY_SERIES,
            round,
            outcome: Outcome::Filled(FillCost::new(10_000_000, 1.0, cpu_s, 100_000_000)),
        };
        let rows = vec![
            row("serve", 1, 4.0),
            row("victoria-lines", 1, 5.0),
            row("serve", 2, 5.0),
            row("victoria-lines", 2, 4.0),
        ];
        let text = text(&Table { rows, ..Table::default() });
        let wanted = [
            "| `serve` | 100000 series, 1 per slot, counts | ≥ 1 × `victoria-lines`, per CPU second \
             | 1.02 | 0.80–1.25 | **met** |",
            "| `serve` | 100000 series, 1 per slot, counts | ≤ 12 bytes per slot \
             | 10.00 | 10.00–10.00 | **met** |",
        ];
        assert_eq!(text.lines().skip(5).collect::<Vec<_>>(), wanted);
    }
}
