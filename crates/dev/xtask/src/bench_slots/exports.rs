//! `bench-series exports`: the same histories as Parquet files.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use export::{Request, Summary, export};
use store::Store;

use super::points::{Load, Pattern};
use super::{cpu, ours};
use crate::{say, usage_error};

/// Exports each of the histories from SQLite and from PostgreSQL.
pub(super) fn bench(words: &[&str]) -> ExitCode {
    let points = match words {
        [] => 10_000_000,
        ["--points", points] => match points.parse() {
            Ok(points) if points >= SERIES => points,
            _ => return usage_error(&format!("--points {points}: {SERIES} or more are wanted")),
        },
        _ => return usage_error("bench-series exports: --points N is the only option"),
    };
    match run(points) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            say(&format!("bench-series exports: {what}"));
            ExitCode::FAILURE
        }
    }
}

const SERIES: u64 = 10_000;

fn run(points: u64) -> Result<(), String> {
    say(
        "| | slots, M | M slots/s | M slots per CPU second | bytes per slot | unchanged: M slots/s |",
    );
    say("| --- | ---: | ---: | ---: | ---: | ---: |");
    for values in [Pattern::Walk, Pattern::Counts] {
        for per_slot in [1, 10] {
            let load = Load { points, series: SERIES, per_slot, values };
            let title = format!("{per_slot} per slot, {}", values.title());
            let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
            let place = folder.path().join("record.sqlite").display().to_string();
            ours::fill_place(&load, &place, 0)?;
            let mut sqlite = store::Sqlite::open(&place).map_err(|e| e.to_string())?;
            say(&timed(&mut sqlite, folder.path(), 0, &format!("SQLite, {title}"))?);
            let server = ours::start().map_err(unfilled)?;
            let pid = cpu::postgres_pid(server.folder())?;
            let url = server.database("bench").map_err(|e| e.to_string())?;
            ours::fill_place(&load, &url, pid)?;
            let mut postgres = store::Postgres::open(&url).map_err(|e| e.to_string())?;
            let row = timed(&mut postgres, folder.path(), pid, &format!("PostgreSQL, {title}"))?;
            say(&row);
        }
    }
    Ok(())
}

fn unfilled(why: super::Unfilled) -> String {
    match why {
        super::Unfilled::Missing(how) => format!("not installed: {how}"),
        super::Unfilled::Failed(why) => why,
    }
}

/// One export, and one more of the same slots, as a row of the table.
fn timed(store: &mut dyn Store, folder: &Path, server: u32, title: &str) -> Result<String, String> {
    let to = folder.join("slots");
    let request = Request { sealed_us: i64::MAX, ..Request::default() };
    let cpu_s = || cpu::own_s() + if server == 0 { 0.0 } else { cpu::server_s(server) };
    let mut run = || -> Result<(Summary, f64, f64), String> {
        let (began, before_s) = (Instant::now(), cpu_s());
        let done = export(store, &to, &request, &mut |_| {}).map_err(|e| e.to_string())?;
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
