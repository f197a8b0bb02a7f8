//! `tachograph compare` on servers that are sometimes slow, beside what is true.

use std::fmt::Write as _;

use zoo::Subject;

use base::format_count;

use super::Options;
use super::comparisons::{COMPARISONS, Comparison};
use super::results::{ComparisonResult, Results};
use super::tables;
use crate::zoo::{ComparisonPlan, Interval, KNOWN_TO, LATENCY_KNOWN_TO_S, compare, true_p99};
use crate::{binary, pages, say, tools};

/// Limit on the time of a comparison.
const SECONDS: u32 = 60;

/// Makes the requested comparisons. To be called while this program may use all CPUs; `save` is
/// called after each of them.
pub(super) fn measure(
    options: &Options,
    results: &mut Results,
    save: impl Fn(&Results) -> Result<(), String>,
) -> Result<(), String> {
    let stop = stage::signals::install().map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tachograph = binary::path()?;
    for comparison in options.comparisons() {
        say(comparison.id);
        let date = pages::now();
        let asked = ComparisonPlan {
            tachograph: &tachograph,
            folder: folder.path(),
            seconds: SECONDS,
            further: &[format!("--seed={}", options.seed)],
            stop: &stop,
        };
        let [even, uneven] = comparison.behaviours();
        let compared = compare(&asked, [("a", even), ("b", uneven)], false)?;
        let p99 = |behaviour, i: usize| {
            compared.levels[i].rate_per_s.map(|rate| true_p99(behaviour, rate, LATENCY_KNOWN_TO_S))
        };
        let told = ComparisonResult {
            date,
            machine: pages::machine(),
            note: options.note.clone(),
            version: tools::version(&tachograph, &["--version"]),
            seed: options.seed.0,
            true_throughput_per_s: [even, uneven]
                .map(|one| one.throughput_per_s(Subject::CONNECTIONS)),
            true_p99_s: [p99(even, 0), p99(uneven, 1)],
            compared,
        };
        results.comparisons.insert(comparison.id.to_owned(), told);
        save(results)?;
    }
    Ok(())
}

/// The section of the page; empty without results.
pub(super) fn section(results: &Results) -> String {
    let told: Vec<(&Comparison, &ComparisonResult)> = COMPARISONS
        .iter()
        .filter_map(|one| Some((one, results.comparisons.get(one.id)?)))
        .collect();
    if told.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n## Comparisons\n\n`tachograph compare --connections {} --max-time {SECONDS}s` on a server A \
         that holds every response for 5 ms, and a server B that is sometimes slow. The throughput \
         is that of the closed loop in the long run, by formula; the 99th percentile is that of the open loop \
         at the rate that `compare` chose, simulated. Each cell has the reported 95% interval; bold: \
         it does not contain the truth (known to ±{:.1}% for throughputs). A figure that was not reported \
         is –.\n",
        Subject::CONNECTIONS,
        100.0 * KNOWN_TO,
    );
    for (comparison, told) in &told {
        let _ = write!(out, "\n**B {}**\n\n{}", comparison.server, table(told));
    }
    out.push_str("\n<details><summary>Circumstances of the comparisons</summary>\n\n");
    for (comparison, told) in &told {
        let note = told.note.as_ref().map_or(String::new(), |note| format!(", {note}"));
        let _ = writeln!(
            out,
            "- {}: {}, {}, seed {}, {}{note}",
            comparison.id, told.date, told.version, told.seed, told.machine
        );
    }
    out.push_str(
        "\nThe servers are those of [the zoo](../crates/dev/zoo/src/server.rs). \
         `cargo run --profile dist -p xtask -- truth --only compare-slow-requests` makes one comparison again.\n\n</details>\n",
    );
    out
}

fn table(told: &ComparisonResult) -> String {
    let ComparisonResult { compared, true_throughput_per_s: [a, b], true_p99_s, .. } = told;
    let known =
        |value: f64| Interval { low: value * (1.0 - KNOWN_TO), high: value * (1.0 + KNOWN_TO) };
    let ratio = compared.ratio.filter(|_| compared.verdict != "invalid");
    let mut out = format!(
        "| | true | `compare` |\n| --- | ---: | ---: |\n| throughput, B ÷ A | {:.2} | {} |\n",
        b / a,
        cell(ratio, known(b / a), |value| format!("{value:.2}"))
    );
    for ((name, truth), level) in [("A", a), ("B", b)].into_iter().zip(&compared.levels) {
        let rate = |value: f64| format_count(value.round() as u64);
        let told = cell(level.throughput_per_s, known(*truth), rate);
        let _ = writeln!(out, "| requests/s of {name} | {} | {told} |", rate(*truth));
    }
    for ((name, truth), level) in ["A", "B"].into_iter().zip(true_p99_s).zip(&compared.levels) {
        let (Some(truth), Some(rate)) = (truth, level.rate_per_s) else { continue };
        let time = |seconds: f64| tables::time(1e3 * seconds);
        let told = cell(level.p99_s, *truth, time);
        let middle = (truth.low * truth.high).sqrt();
        let rate = format_count(rate.round() as u64);
        let _ = writeln!(out, "| p99 of {name} at {rate}/s | {} | {told} |", time(middle));
    }
    let words = |all: &[String]| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let _ = writeln!(
        out,
        "\nVerdict: {}, {} blocks; forbidden by: {}; warnings: {}.",
        compared.verdict.replace('_', " "),
        compared.blocks,
        words(&compared.forbidden_by),
        words(&compared.warnings),
    );
    out
}

/// An interval, bold without the truth.
fn cell(told: Option<Interval>, truth: Interval, words: impl Fn(f64) -> String) -> String {
    let Some(told) = told else { return "–".to_owned() };
    let text = match told.is_unbounded() {
        true => format!("{} or more", words(told.low)),
        false => format!("{} to {}", words(told.low), words(told.high)),
    };
    if told.meets(truth) { text } else { format!("**{text}**") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::zoo::{CompareResult, Level};

    pub(super) fn told() -> ComparisonResult {
        let level = |low: f64, high: f64, p99: Option<Interval>| Level {
            throughput_per_s: Some(Interval { low, high }),
            rate_per_s: Some(495.0),
            p99_s: p99,
        };
        let short = Interval { low: 0.0105, high: 0.122 };
        ComparisonResult {
            date: "2026-01-02T03:04:05Z".to_owned(),
            machine: "a machine".to_owned(),
            note: Some("beside a build".to_owned()),
            version: "tachograph 1".to_owned(),
            seed: 1,
            compared: CompareResult {
                verdict: "faster".to_owned(),
                blocks: 9,
                ratio: Some(Interval { low: 1.17, high: 2.64 }),
                levels: [level(1_990.0, 2_010.0, None), level(1_918.0, 2_750.0, Some(short))],
                warnings: vec!["edges".to_owned()],
                forbidden_by: Vec::new(),
            },
            true_throughput_per_s: [2_000.0, 1_000.0],
            true_p99_s: [None, Some(Interval { low: 0.495, high: 0.506 })],
        }
    }

    #[test]
    fn what_compare_reported_stands_beside_the_truth() {
        let mut results = Results::default();
        assert_eq!(section(&results), "");
        results.comparisons.insert("compare-slow-requests".to_owned(), told());
        let section = section(&results);
        for row in [
            "**B takes 500 ms for 2% of the requests, by independent draws, and answers the others at once**",
            "| throughput, B ÷ A | 0.50 | **1.17 to 2.64** |",
            "| requests/s of A | 2,000 | 1,990 to 2,010 |",
            "| requests/s of B | 1,000 | **1,918 to 2,750** |",
            "| p99 of B at 495/s | 500 ms | **10.5 ms to 122 ms** |",
            "Verdict: faster, 9 blocks; forbidden by: none; warnings: edges.",
            "- compare-slow-requests: 2026-01-02T03:04:05Z, tachograph 1, seed 1, a machine, beside a build",
        ] {
            assert!(section.contains(row), "{row}: {section}");
        }
        assert!(!section.contains("p99 of A"), "{section}");
        let at_least: Interval =
            serde_json::from_value(json!({ "low": 0.5, "high": f64::MAX })).unwrap();
        let words = |seconds: f64| tables::time(1e3 * seconds);
        assert_eq!(cell(Some(at_least), at_least, words), "500 ms or more");
    }

    #[test]
    fn results_are_kept() {
        let text = serde_json::to_string(&told()).unwrap();
        assert_eq!(serde_json::from_str::<ComparisonResult>(&text).unwrap(), told());
    }
}
