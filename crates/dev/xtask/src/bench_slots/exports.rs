//! `bench-series exports`: the same histories as Parquet files.

use std::path::Path;
use std::time::Instant;

use export::{ExportRequest, Summary, export};

use super::cpu;
use super::ours::{self, Database, Make};
use super::points::{Load, Pattern};
use crate::{pages, say};

/// Series of each history.
pub(super) const SERIES: u64 = 10_000;

const DATABASES: [(&str, Make); 2] =
    [("SQLite", Database::sqlite), ("PostgreSQL", Database::postgres)];

/// The lines of the page that enclose the table.
const MARKS: [&str; 2] = ["<!-- bench-exports: begin -->", "<!-- bench-exports: end -->"];

const HEAD: &str = "\
| | slots, M | M slots/s | M slots per CPU second | bytes per slot | unchanged: M slots/s |
| --- | ---: | ---: | ---: | ---: | ---: |
";

/// Exports each of the histories from SQLite and from PostgreSQL.
pub(super) fn bench(points: u64) -> Result<(), String> {
    let mut table = HEAD.to_owned();
    for values in [Pattern::Walk, Pattern::Counts] {
        for per_slot in [1, 10] {
            let load = Load { points, series: SERIES, per_slot, values };
            let title = format!("{per_slot} per slot, {}", values.title());
            let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
            for (name, make) in DATABASES {
                let filled = make(folder.path()).and_then(|database| {
                    ours::fill(&load, "series", &database)?;
                    Ok(database)
                });
                let database = filled.map_err(|why| why.words())?;
                let row = timed(&database, &folder.path().join(name), &format!("{name}, {title}"))?;
                say(&row);
                table.push_str(&row);
                table.push('\n');
            }
        }
    }
    pages::write_between(Path::new(super::PAGE), MARKS, |_| table)
}

/// One export, and one more of the same slots, as a row of the table.
fn timed(database: &Database, to: &Path, title: &str) -> Result<String, String> {
    let mut store = store::open(&database.place).map_err(|e| e.to_string())?;
    let request = ExportRequest { sealed_us: i64::MAX, ..ExportRequest::default() };
    let cpu_s = || cpu::own_s() + database.cpu_s();
    let mut run = || -> Result<(Summary, f64, f64), String> {
        let (began, before_s) = (Instant::now(), cpu_s());
        let done = export(&mut *store, to, &request, &mut |_| {}).map_err(|e| e.to_string())?;
        Ok((done, began.elapsed().as_secs_f64(), cpu_s() - before_s))
    };
    let (whole, wall_s, used_s) = run()?;
    let (again, again_s, _) = run()?;
    if again.written > 0 {
        return Err(format!("{title}: {} files were written again", again.written));
    }
    let slots = whole.slots as f64;
    Ok(format!(
        "| {title} | {:.1} | {:.2} | {:.2} | {:.1} | {:.0} |",
        slots / 1e6,
        slots / wall_s / 1e6,
        slots / used_s.max(0.01) / 1e6,
        whole.bytes as f64 / slots,
        slots / again_s / 1e6
    ))
}
