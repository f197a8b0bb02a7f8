//! The page docs/instruments.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base::format_count;

use super::results::{InstrumentResults, InstrumentRun, StackResults};
use super::tables::{PublishedTable, TABLES};
use crate::pages::{middle, per_round};
use crate::tools::{Tool, ours};

type Stacks = BTreeMap<String, StackResults>;

/// The page of the results.
pub(super) fn page(results: &InstrumentResults) -> String {
    let mut out = HEAD.to_owned();
    for table in &TABLES {
        let Some(stacks) = results.tables.get(table.id) else { continue };
        let _ = write!(out, "\n## {}\n\n{}\n", table.title, table.published);
        match table.has_statuses {
            true => stacks.values().for_each(|stack| out += &statuses(table, stack)),
            false => {
                out += &format!("\n{}\n{COUNTS}\n{}", rates(table, stacks), counts(table, stacks))
            }
        }
        if !table.notes.is_empty() {
            let _ = write!(out, "\n{}\n", table.notes);
        }
    }
    out += &circumstances(results);
    out += "\n## Command lines\n";
    for (table, stacks) in
        TABLES.iter().filter_map(|table| Some((table, results.tables.get(table.id)?)))
    {
        for (name, stack) in stacks {
            let first = stack.runs.iter().filter(|run| run.round == 1);
            let lines: Vec<&str> = first.map(|run| run.command.as_str()).collect();
            let _ = write!(
                out,
                "\n<details><summary>{}: {name}</summary>\n\n```\n{}\n```\n\n</details>\n",
                table.title,
                lines.join("\n")
            );
        }
    }
    out
}

const HEAD: &str = "\
# The instruments of the published tables

<!-- Made by `xtask instruments` from docs/results/instruments.json. Do not edit. -->

Published figures are what a load generator printed. Here the stacks of the [experiments](experiments.md) \
are loaded by the generators with which their figures were published, and by tachograph, so that it \
can be seen how much of a figure is its tool. What each tool does with servers of known behaviour is in \
[truth.md](truth.md).

- In every round each stack is started, loaded for a second, and then loaded by every tool in turn, in \
random, then mirrored order. The tools have as many requests as tachograph would complete in 3 s by that \
second; wrk, which knows no number, has 3 s.
- The stack counts what it serves: the application its requests, nginx those for a file, Apache by its \
log. A count is read before and after each tool, once it no longer changes.
- Rates are those that the tool prints, of the median round. Ratios are of the same round, with their \
median, and in brackets the smallest and the largest one. Three rounds are no interval: a ratio whose \
rounds lie on both sides of 1 shows no difference.
";

const COUNTS: &str = "\
Failed requests, as reported; after the slash, requests that the stack served beyond those that the \
tool reports as successful:
";

/// What the tools report beside what nginx answered and the application counted.
fn statuses(table: &PublishedTable, stack: &StackResults) -> String {
    let all = stack.runs.iter().flat_map(|run| run.statuses.keys());
    let all: BTreeSet<&str> = all.map(String::as_str).collect();
    let columns = |word: &str| all.iter().map(|_| word).collect::<String>();
    let named: String = all.iter().map(|status| format!(" nginx: {status} |")).collect();
    let mut out = format!(
        "\n| tool | requests/s | requests | failed |{named} served by the application |\n\
         | --- | ---: | ---: | ---: |{} ---: |\n",
        columns(" ---: |")
    );
    for (tool, runs) in rows(table, stack) {
        let reported = |count: fn(&crate::tools::report::Report) -> u64| {
            cell(&runs, |run| run.report.as_ref().map(|report| format_count(count(report))))
        };
        let statuses: String = all
            .iter()
            .map(|status| {
                let count = |run: &InstrumentRun| run.statuses.get(*status).copied().unwrap_or(0);
                format!(" {} |", cell(&runs, |run| Some(format_count(count(run)))))
            })
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |{statuses} {} |",
            tool.name,
            cell(&runs, |run| run.per_s.map(rate)),
            reported(|report| report.total),
            reported(|report| report.failed),
            cell(&runs, |run| Some(format_count(run.served))),
        );
    }
    // The first tool is the one of the published figure.
    let first = rows(table, stack).next();
    if let Some((tool, run)) = first.and_then(|(tool, runs)| Some((tool, *runs.first()?))) {
        let _ =
            write!(out, "\nIn the first round, {} printed:\n\n```\n{}\n```\n", tool.name, run.said);
    }
    out
}

/// Rates by tool and stack, and by tool the ratios of the stacks.
fn rates(table: &PublishedTable, stacks: &Stacks) -> String {
    let measured = measured(table, stacks);
    let Some(((first, baseline), others)) = measured.split_first() else { return String::new() };
    let names = measured.iter().map(|(name, _)| format!(" {name}, requests/s | ÷ tachograph |"));
    let ratios = others.iter().map(|(name, _)| format!(" {name} ÷ {first} |"));
    let head: String = names.chain(ratios).collect();
    let mut out =
        format!("| tool |{head}\n| --- |{}\n", " ---: |".repeat(head.matches('|').count()));
    for tool in table.tools {
        let own = measured.iter().map(|(_, stack)| {
            let rates = stack.of(tool.name);
            let rate = middle(rates.iter().filter_map(|run| run.per_s)).map(rate);
            let ratio = match tool.name == ours::TOOL.name {
                true => "1".to_owned(),
                false => ratio(&rates, &stack.of(ours::TOOL.name)),
            };
            format!(" {} | {ratio} |", rate.as_deref().unwrap_or("–"))
        });
        let between = others.iter().map(|(_, stack)| {
            format!(" {} |", ratio(&stack.of(tool.name), &baseline.of(tool.name)))
        });
        let cells: String = own.chain(between).collect();
        let _ = writeln!(out, "| {} |{cells}", tool.name);
    }
    out
}

/// The ratio of two rates in the same rounds: the median one, and the smallest and largest.
fn ratio(of: &[&InstrumentRun], to: &[&InstrumentRun]) -> String {
    let mut ratios: Vec<f64> = of
        .iter()
        .filter_map(|run| {
            let other = to.iter().find(|other| other.round == run.round)?;
            Some(run.per_s? / other.per_s.filter(|per_s| *per_s > 0.0)?)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    match (middle(ratios.iter().copied()), ratios.first(), ratios.last()) {
        (Some(middle), Some(least), Some(most)) => format!("{middle:.2}× ({least:.2}–{most:.2})"),
        _ => "–".to_owned(),
    }
}

/// Failures, and what was served beyond the successes.
fn counts(table: &PublishedTable, stacks: &Stacks) -> String {
    let measured = measured(table, stacks);
    let names: String = measured.iter().map(|(name, _)| format!(" {name} |")).collect();
    let mut out = format!("| tool |{names}\n| --- |{}\n", " ---: |".repeat(measured.len()));
    for tool in table.tools {
        let cells = measured.iter().map(|(_, stack)| {
            let counts = |run: &InstrumentRun| {
                let failed = format_count(run.report.as_ref()?.failed);
                let beyond = i128::from(run.served) - i128::from(run.succeeded()?);
                let sign = if beyond < 0 { "−" } else { "" };
                Some(format!("{failed} / {sign}{}", format_count(beyond.unsigned_abs() as u64)))
            };
            format!(" {} |", cell(&stack.of(tool.name), counts))
        });
        let _ = writeln!(out, "| {} |{}", tool.name, cells.collect::<String>());
    }
    out
}

/// The stacks that were measured, in the order of the table.
fn measured<'s>(
    table: &PublishedTable,
    stacks: &'s Stacks,
) -> Vec<(&'static str, &'s StackResults)> {
    table.variants.iter().filter_map(|name| Some((*name, stacks.get(*name)?))).collect()
}

/// The tools that were run on a stack.
fn rows<'s>(
    table: &PublishedTable,
    stack: &'s StackResults,
) -> impl Iterator<Item = (&'static Tool, Vec<&'s InstrumentRun>)> {
    let rows = table.tools.iter().map(|tool| (*tool, stack.of(tool.name)));
    rows.filter(|(_, runs)| !runs.is_empty())
}

/// A cell of all rounds, with a dash for a round without a report.
fn cell(runs: &[&InstrumentRun], of: impl Fn(&InstrumentRun) -> Option<String>) -> String {
    per_round(runs.iter().map(|run| of(run).unwrap_or_else(|| "–".to_owned())))
}

fn rate(per_s: f64) -> String {
    format_count(per_s.round() as u64)
}

/// Versions, machines and dates.
fn circumstances(results: &InstrumentResults) -> String {
    let versions = results.versions.iter();
    let versions: Vec<String> =
        versions.map(|(name, version)| format!("{name} ({version})")).collect();
    let mut out = format!("\n## Measured\n\n- {}\n", versions.join(", "));
    let stacks = || results.tables.values().flat_map(BTreeMap::values);
    let machines: BTreeSet<&str> = stacks().map(|stack| stack.machine.as_str()).collect();
    machines.into_iter().for_each(|machine| out += &format!("- {machine}\n"));
    let dates = stacks().map(|stack| stack.date.as_str());
    if let (Some(first), Some(last)) = (dates.clone().min(), dates.max()) {
        let _ = writeln!(out, "- from {first} to {last}, `xtask instruments`");
    }
    let notes: BTreeSet<&str> = stacks().filter_map(|stack| stack.note.as_deref()).collect();
    notes.into_iter().for_each(|note| out += &format!("- {note}\n"));
    let rounds: BTreeSet<u32> = stacks().map(|stack| stack.rounds).collect();
    let rounds: Vec<String> = rounds.iter().map(u32::to_string).collect();
    let _ = writeln!(out, "- rounds: {}", rounds.join(", "));
    for missing in &results.missing {
        let _ = writeln!(
            out,
            "- {} was not there: `{}` ended with “{}”",
            missing.tool, missing.command, missing.reason
        );
    }
    out.push_str(
        "\nThe numbers of every round are in [`results/instruments.json`](results/instruments.json). \
         `scripts/truth-tools.sh target/truth-tools` installs the tools; \
         `cargo run --profile dist -p xtask -- instruments --only flask` measures one table again and \
         keeps the others.\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::installed::MissingTool;
    use crate::tools::report::Report;

    fn run(tool: &str, round: u32, per_s: f64, served: u64) -> InstrumentRun {
        let report = Report { total: 1000, failed: 10, warmup: 5, ..Report::default() };
        InstrumentRun {
            round,
            tool: tool.to_owned(),
            command: format!("{tool} URL"),
            report: Some(report),
            said: format!("{tool} is done"),
            per_s: Some(per_s),
            served,
            statuses: BTreeMap::from([("502".to_owned(), 10)]),
        }
    }

    #[test]
    fn figures_are_beside_ours_and_what_was_served() {
        let stack = |factor: f64| StackResults {
            runs: (1..=3)
                .flat_map(|round| {
                    let ours = f64::from(round) * 1000.0;
                    let served = 995 + u64::from(round == 2);
                    [run("wrk", round, ours * factor, served), run("tachograph", round, ours, 990)]
                })
                .collect(),
            ..StackResults::default()
        };
        let mut results = InstrumentResults {
            missing: vec![MissingTool {
                tool: "ab".to_owned(),
                command: "apt".to_owned(),
                reason: "no".to_owned(),
            }],
            ..InstrumentResults::default()
        };
        for table in &TABLES {
            let stacks = table.variants.iter().map(|name| ((*name).to_owned(), stack(1.5)));
            results.tables.insert(table.id.to_owned(), stacks.collect());
        }
        let page = page(&results);
        let rows =
            "| wrk | 3,000 | 1.50× (1.50–1.50) | 3,000 | 1.50× (1.50–1.50) | 1.00× (1.00–1.00) |";
        assert!(page.contains(rows), "{page}");
        assert!(page.contains("| wrk | 10 / 0<br>10 / 1<br>10 / 0 |"), "{page}");
        assert!(page.contains("| tachograph | 10 / −5 |"), "{page}");
        assert!(page.contains("| wrk | 1,500<br>3,000<br>4,500 | 1,000 | 10 | 10 |"), "{page}");
        assert!(page.contains("wrk printed:\n\n```\nwrk is done\n```"), "{page}");
        assert!(page.contains("- ab was not there: `apt` ended with “no”"), "{page}");
    }
}
