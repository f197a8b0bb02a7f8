//! The tables of the page: what is reported beside what is true.

use std::fmt::Write as _;

use base::format_count;

use super::results::{Results, Run, ScenarioResults, Truth};
use super::scenarios::{DELAY, FREEZE, STALL_LOAD};
use super::stall;
use crate::pages::{middle, per_round};
use crate::tools::report::{Latency, Report};
use crate::tools::{TOOLS, Tool};

/// A latency further from the truth than this share of it is marked.
pub(super) const TOLERANCE: f64 = 0.05;

/// Latency under a constant delay, as reported and by the server's log of the same runs.
pub(super) fn delay(measured: &ScenarioResults) -> String {
    let mut out = String::from("| tool | mean | p50 | p99 |\n| --- | ---: | ---: | ---: |\n");
    for (tool, runs) in rows(measured) {
        let cells = cells(&FIGURES[..3], |figure| {
            let held = middle(runs.iter().filter_map(|run| figure(&run.truth.held)))?;
            Some(format!("{} of {}", marked(reported(&runs, figure)?, held), time(held)))
        });
        let _ = writeln!(out, "| {}{cells} |", tool.name);
    }
    out
}

/// Latency at a constant rate of arrivals at a server that stalls.
pub(super) fn stall(measured: &ScenarioResults) -> String {
    let (per_s, seconds) = STALL_LOAD;
    let truth = stall::truth(per_s, seconds, DELAY, FREEZE);
    let mut out = String::from(
        "| tool | rate | requests | mean | p50 | p99 | p99.9 | max |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let count = format_count(u64::from(per_s * seconds));
    let cells_of_truth = cells(&FIGURES, |figure| figure(&truth).map(time));
    let _ = writeln!(out, "| *true* | {per_s}/s | {count}{cells_of_truth} |");
    for (tool, runs) in rows(measured) {
        let requests = per_round(reports(&runs).map(|report| format_count(report.total)));
        let cells =
            cells(&FIGURES, |figure| Some(marked(reported(&runs, figure)?, figure(&truth)?)));
        let _ = writeln!(out, "| {} | {} | {requests}{cells} |", tool.name, tool.rate);
    }
    out
}

type Figure = fn(&Latency) -> Option<f64>;

/// Mean, median, 99th and 99.9th percentile, and maximum.
const FIGURES: [Figure; 5] = [
    |latency| latency.mean,
    |latency| latency.p50,
    |latency| latency.p99,
    |latency| latency.p99_9,
    |latency| latency.max,
];

/// A cell for each figure, or a dash.
fn cells(figures: &[Figure], cell: impl Fn(Figure) -> Option<String>) -> String {
    let cells = figures.iter().map(|figure| cell(*figure));
    cells.map(|cell| format!(" | {}", cell.as_deref().unwrap_or("–"))).collect()
}

/// A figure of the middle round's report.
fn reported(runs: &[&Run], figure: Figure) -> Option<f64> {
    middle(reports(runs).filter_map(|report| figure(&report.latency)))
}

/// Counts on both ends.
pub(super) fn counts(measured: &ScenarioResults) -> String {
    let mut out = String::from(
        "| tool | received by the server | reported | of these failed | reported as warm-up or unfinished | not accounted for | ends with |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (tool, runs) in rows(measured) {
        let column = |count: fn(&Report) -> u64| {
            per_round(runs.iter().map(|run| {
                run.report
                    .as_ref()
                    .map_or_else(|| "–".to_owned(), |report| format_count(count(report)))
            }))
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            tool.name,
            per_round(runs.iter().map(|run| format_count(run.truth.received))),
            column(|report| report.total),
            column(|report| report.failed),
            column(|report| report.warmup + report.unfinished),
            per_round(runs.iter().map(|run| difference(run))),
            per_round(runs.iter().map(|run| run.end.clone())),
        );
    }
    out
}

/// Requests received by the server, less those that the tool reports.
fn difference(run: &Run) -> String {
    let Some(report) = &run.report else { return "–".to_owned() };
    let reported = report.total + report.warmup + report.unfinished;
    match run.truth.received as i128 - reported as i128 {
        0 => "0".to_owned(),
        some if some < 0 => format!("**−{}**", format_count(some.unsigned_abs() as u64)),
        some => format!("**{}**", format_count(some as u64)),
    }
}

/// Failures reported of those that happened, with a column for each scenario.
pub(super) fn faults(columns: &[(&str, &ScenarioResults)]) -> String {
    table(columns, |runs| {
        per_round(runs.iter().map(|run| {
            let happened = run.truth.faults();
            match &run.report {
                None => format!("**no report** of {}", format_count(happened)),
                Some(report) => {
                    let failed = report.failed + report.warmup_failed;
                    let mark = if failed == happened { "" } else { "**" };
                    format!("{mark}{}{mark} of {}", format_count(failed), format_count(happened))
                }
            }
        }))
    })
}

/// How the tools ended, with a column for each scenario.
pub(super) fn endings(columns: &[(&str, &ScenarioResults)]) -> String {
    table(columns, |runs| per_round(runs.iter().map(|run| run.end.clone())))
}

fn table(columns: &[(&str, &ScenarioResults)], cell: impl Fn(&[&Run]) -> String) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut out =
        format!("| tool | {} |\n| --- |{}\n", titles.join(" | "), " --- |".repeat(titles.len()));
    for tool in TOOLS {
        let runs: Vec<Vec<&Run>> =
            columns.iter().map(|(_, measured)| measured.of(tool.name)).collect();
        if runs.iter().all(Vec::is_empty) {
            continue;
        }
        let cells: Vec<String> = runs
            .iter()
            .map(|runs| if runs.is_empty() { "–".to_owned() } else { cell(runs) })
            .collect();
        let _ = writeln!(out, "| {} | {} |", tool.name, cells.join(" | "));
    }
    out
}

/// The tools, their versions and what they support.
pub(super) fn tools(results: &Results) -> String {
    let mut out = String::from(
        "| tool | version | from | Unix socket | interval of the result, for one run |\n| --- | --- | --- | --- | --- |\n",
    );
    let unix = results.scenarios.get("unix");
    for tool in TOOLS {
        let Some(version) = results.versions.get(tool.name) else { continue };
        let runs = unix.map(|measured| measured.of(tool.name)).unwrap_or_default();
        let through = match runs.first() {
            None => "no option".to_owned(),
            Some(run) => {
                format!("yes: {} requests received", format_count(run.truth.received))
            }
        };
        let _ = writeln!(
            out,
            "| {} | {version} | {} | {through} | {} |",
            tool.name, tool.source, tool.uncertainty
        );
    }
    out
}

/// What the tools called failures in the first round.
pub(super) fn words(columns: &[(&str, &ScenarioResults)]) -> String {
    table(columns, |runs| {
        let Some(run) = runs.first() else { return "–".to_owned() };
        match (&run.report, &run.said) {
            (Some(report), _) => {
                let words = report.failures.iter();
                let words: Vec<String> = words
                    .map(|(what, count)| format!("{what}: {}", format_count(*count)))
                    .collect();
                if words.is_empty() { "none".to_owned() } else { cell_text(&words.join("; ")) }
            }
            (None, Some(said)) => {
                cell_text(&said.lines().map(str::trim).collect::<Vec<_>>().join("; "))
            }
            (None, None) => "–".to_owned(),
        }
    })
}

/// A tool's words without what Markdown takes for the end of a cell.
fn cell_text(words: &str) -> String {
    words.replace('|', "\\|")
}

/// What the server counted in the first round.
pub(super) fn server(columns: &[(&str, &ScenarioResults)]) -> String {
    table(columns, |runs| {
        let Some(run) = runs.first() else { return "–".to_owned() };
        let Truth { connections, received, .. } = run.truth;
        format!("{} on {} connections", format_count(received), format_count(connections))
    })
}

fn rows(measured: &ScenarioResults) -> impl Iterator<Item = (&'static Tool, Vec<&Run>)> {
    TOOLS
        .into_iter()
        .map(|tool| (tool, measured.of(tool.name)))
        .filter(|(_, runs)| !runs.is_empty())
}

fn reports<'r>(runs: &'r [&Run]) -> impl Iterator<Item = &'r Report> {
    runs.iter().filter_map(|run| run.report.as_ref())
}

/// A time in milliseconds, bold if it is further from the truth than the tolerance.
fn marked(reported: f64, truth: f64) -> String {
    let text = time(reported);
    if (reported - truth).abs() > TOLERANCE * truth { format!("**{text}**") } else { text }
}

/// A time in milliseconds with three digits or more.
pub(super) fn time(millis: f64) -> String {
    if millis >= 999.5 {
        return format!("{} ms", format_count(millis.round() as u64));
    }
    let digits = if millis >= 100.0 {
        0
    } else if millis >= 10.0 {
        1
    } else {
        2
    };
    format!("{millis:.digits$} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tool: &str, round: u32, received: u64, report: Option<Report>) -> Run {
        Run {
            round,
            tool: tool.to_owned(),
            command: format!("{tool} URL"),
            script: None,
            end: "exit 0".to_owned(),
            said: report.is_none().then(|| "cannot\n go on".to_owned()),
            report,
            truth: Truth {
                received,
                errors: 20,
                held: Latency { p50: Some(5.0), ..Latency::default() },
                ..Truth::default()
            },
        }
    }

    fn report(total: u64, failed: u64, p50: f64) -> Option<Report> {
        let latency = Latency { p50: Some(p50), ..Latency::default() };
        Some(Report { total, failed, unfinished: 1, latency, ..Report::default() })
    }

    fn measured(runs: Vec<Run>) -> ScenarioResults {
        ScenarioResults { runs, ..ScenarioResults::default() }
    }

    #[test]
    fn what_differs_from_the_truth_is_marked() {
        let measured = measured(vec![
            run("wrk", 1, 2001, report(2000, 20, 5.2)),
            run("ab", 1, 2010, report(2000, 0, 6.0)),
            run("hey", 1, 1990, None),
        ]);
        let table = counts(&measured);
        assert!(table.contains("| wrk | 2,001 | 2,000 | 20 | 1 | 0 | exit 0 |"), "{table}");
        assert!(table.contains("| ab | 2,010 | 2,000 | 0 | 1 | **9** | exit 0 |"), "{table}");
        assert!(table.contains("| hey | 1,990 | – | – | – | – | exit 0 |"), "{table}");
        let table = faults(&[("status 500", &measured)]);
        assert!(table.contains("| wrk | 20 of 20 |"), "{table}");
        assert!(table.contains("| ab | **0** of 20 |"), "{table}");
        assert!(table.contains("| hey | **no report** of 20 |"), "{table}");
        let table = delay(&measured);
        assert!(table.contains("| wrk | – | 5.20 ms of 5.00 ms | – |"), "{table}");
        assert!(table.contains("| ab | – | **6.00 ms** of 5.00 ms | – |"), "{table}");
        assert!(words(&[("x", &measured)]).contains("| hey | cannot; go on |"));
    }

    #[test]
    fn the_stall_is_compared_with_its_truth() {
        let table = stall(&measured(vec![run("vegeta", 1, 2000, report(2000, 0, 5.2))]));
        assert!(
            table.contains("| *true* | 200/s | 2,000 | 106 ms | 5.00 ms | 955 ms |"),
            "{table}"
        );
        assert!(table.contains("| vegeta | 200/s | 2,000 | – | 5.20 ms | – | – | – |"), "{table}");
    }

    #[test]
    fn rounds_are_listed_if_they_differ_and_times_are_those_of_the_middle_one() {
        let rounds = |failed: [u64; 3]| {
            let runs = (1..).zip(failed).map(|(round, failed)| {
                run("wrk", round, 2001, report(2000, failed, 5.0 + failed as f64))
            });
            measured(runs.collect())
        };
        let differ = rounds([3, 1, 2]);
        assert!(counts(&differ).contains("| 2,000 | 3<br>1<br>2 | 1 |"), "{}", counts(&differ));
        assert!(delay(&differ).contains("**7.00 ms** of 5.00 ms"), "{}", delay(&differ));
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [5.0, 15.62, 105.9, 999.6].map(time),
            ["5.00 ms", "15.6 ms", "106 ms", "1,000 ms"]
        );
    }
}
