//! The report of `tachograph load`: one target, no comparison.

use std::collections::BTreeMap;

use base::{Nanos, format_count, format_rate};
use ledger::Ledger;
use record::{Block, Distribution, Offer, Part, Run, RunKind, Severity, ThreadUse, Trial, Variant};
use serde_json::{Value, json};

use crate::json_parts::{
    distribution_json, finding_json, ledger_json, load_json, served_by_json, state_json,
};
use crate::ledger::{self as equations, Account};
use crate::page::{LABEL, Page};
use crate::text::{Style, Tone, bandwidth, fit, left, plural, right, width};
use crate::validity::RunVerdict;
use crate::{
    caveat, fact, finding_lines, handshakes, kinds, place, setting, streams, validity, view, why,
};

/// Column names of [`LoadReport::times_rows`].
pub(crate) const TIMES: [&str; 8] = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"];

/// A recorded run of `load`: one part with one variant, whose first block contains the measured
/// trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadReport<'a> {
    run: &'a Run,
    part: &'a Part,
    variant: &'a Variant,
    trial: &'a Trial,
}

impl<'a> LoadReport<'a> {
    /// The report of a recorded run of `load`; `None` for other runs, and for one that was killed.
    pub fn from_run(run: &'a Run) -> Option<LoadReport<'a>> {
        if run.kind != RunKind::Load {
            return None;
        }
        let part = run.parts.first()?;
        let trial = part.measured_blocks().flat_map(Block::measured_trials).next()?;
        Some(LoadReport { run, part, variant: part.variants.first()?, trial })
    }

    /// The ledger of the measured trial, including lead-in and drain.
    pub fn ledger(&self) -> &'a Ledger {
        &self.trial.ledger
    }

    /// The ledger with the target's name.
    pub(crate) fn account(&self) -> Account<'a> {
        let (name, ledger) = (&self.variant.name, self.ledger());
        Account { index: 0, name, ledger, disrupted: false }
    }

    /// Load and client in a line: `10 connections, closed loop, client not pinned, measured for 5 s`.
    pub(crate) fn setting(&self) -> String {
        let Trial { offer, offered_per_s, window, .. } = self.trial;
        let load = setting::load(&self.part.load, &[(*offer, *offered_per_s)]);
        format!("{load}, {}, measured for {window}", setting::part_layout(self.part))
    }

    /// The times in the report: latency of an open loop, service time of a closed one.
    pub(crate) fn times(&self) -> &'a Distribution {
        view::times(self.trial)
    }

    /// Busy share of the busiest client thread; `None` if unknown, and for threads that spin, which
    /// are always busy.
    fn busiest(&self) -> Option<f64> {
        let threads = &self.trial.client;
        let busiest = threads.iter().map(ThreadUse::busy).reduce(f64::max);
        // For a slice of milliseconds, a thread's work before and after it exceeds the slice.
        busiest.map(|share| share.min(1.0)).filter(|_| !self.part.load.busy_poll)
    }

    /// Verified responses per second of window; 0 without a window.
    pub(crate) fn throughput_per_s(&self) -> f64 {
        self.per_second(self.trial.completed_in_window)
    }

    /// Payload bytes per second of window; 0 without a window.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        self.per_second(self.trial.payload_bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        let seconds = self.trial.window.as_secs_f64();
        if seconds == 0.0 { 0.0 } else { count as f64 / seconds }
    }

    /// The object described in `docs/schema/load-2.json`.
    pub(crate) fn json(&self) -> Value {
        let LoadReport { run, part, variant, trial } = *self;
        let lines_of = |severity: Severity| -> Vec<String> {
            let lines = finding_lines::all(part).into_iter();
            lines.filter(|line| line.severity == severity).map(|line| line.line()).collect()
        };
        let threads = &trial.client;
        json!({
            "schema": 2,
            "run": run.id.as_str(),
            "state": state_json(run.state),
            "verdict": RunVerdict::of(run).word(),
            "reasons": validity::reasons(run),
            "warnings": lines_of(Severity::Warning),
            "notes": lines_of(Severity::Note),
            "target": variant.target,
            "load": load_json(&part.load),
            "layout": part.layout,
            "served_by": variant.served_by.as_ref().map(served_by_json),
            "ledger": ledger_json(&trial.ledger),
            "warm_up": self.warm_up().map(ledger_json),
            "errors": trial.ledger.errors,
            "statuses": self.statuses(),
            "duration_ns": trial.window.0,
            "throughput_per_s": self.throughput_per_s(),
            "bytes_per_s": self.bytes_per_s(),
            "offered_per_s": trial.offered_per_s,
            "latency_ns": distribution_json(self.times()),
            "service_time_ns": distribution_json(&trial.service_time),
            "lateness_ns": trial.lateness.as_ref().map(distribution_json),
            "client": {
                "cpu_ns": (!threads.is_empty()).then(|| trial.client_cpu().0),
                "threads": part.load.threads,
                "thread_cpu_ns": threads.iter().map(|thread| thread.cpu.0).collect::<Vec<_>>(),
                "thread_wall_ns": threads.iter().map(|thread| thread.wall.0).collect::<Vec<_>>(),
                "busiest": self.busiest(),
            },
            "handshakes": handshakes::of_trial(trial.handshakes.as_ref()),
            "series": { "step_ns": trial.step.0, "completed": trial.completed_by_step },
            "why": part.why,
            "kinds": kinds::of_trial(part, trial),
            "stream": streams::of_trial(trial.stream.as_ref()),
            "validity": part.findings.iter().map(|f| finding_json(part, f)).collect::<Vec<_>>(),
        })
    }

    /// One screen of text, ending in a newline.
    pub(crate) fn terminal(&self, style: &Style) -> String {
        let mut page = Page::new(style);
        page.line(style.paint(Tone::Bold, &fit(&self.variant.target, style.columns())));
        page.paragraph(Tone::Dim, 2, self.setting());
        place::lines(self.run).into_iter().for_each(|line| page.paragraph(Tone::Dim, 2, line));
        for (word, rest) in view::forewords(self.run) {
            page.paragraph(Tone::Warn, 2, format!("{word}: {rest}"));
        }
        for reason in self.run.error.iter().cloned().chain(validity::of_part(self.part)) {
            page.paragraph(Tone::Bad, 2, format!("INVALID: {reason}"));
        }
        page.blank();
        let mut speed = self.speed();
        let fits = width(&speed.join("   ")) <= style.columns();
        speed[0] = style.paint(Tone::Bold, &speed[0]);
        page.line(speed.join(if fits { "   " } else { "\n" }));
        page.caveats(&caveat::lines(self.part));
        page.blank();
        self.percentiles(&mut page);
        page.blank();
        self.pictures(&mut page);
        self.accounts(&mut page);
        let tables = kinds::largest(self.part).into_iter().chain(streams::table(self.part));
        tables.for_each(|table| table.on_page(&mut page));
        why::on_page(&mut page, self.part);
        for finding in caveat::elsewhere(self.part) {
            page.beside(LABEL, fact::severity(finding.severity), Tone::Plain, &finding.line());
        }
        if let Some(words) = setting::disturbance(self.part, &self.run.machine) {
            page.beside(LABEL, "disturbed", Tone::Plain, &words);
        }
        page.finish()
    }

    /// The main figure, then its details.
    pub(crate) fn speed(&self) -> Vec<String> {
        let rate = |rate: f64| format!("{} requests/s", format_rate(rate));
        let mut figures = vec![rate(self.throughput_per_s()), bandwidth(self.bytes_per_s())];
        if self.part.is_bulk() {
            figures.reverse();
        }
        figures
            .extend(self.trial.offered_per_s.map(|offered| format!("offered {}", rate(offered))));
        figures
    }

    fn percentiles(&self, page: &mut Page<'_>) {
        let cells = |label: &str, cells: &[String]| -> String {
            cells.iter().fold(left(label, 8), |line, cell| line + &right(cell, 9))
        };
        // A terminal too narrow for all of them shows them one below the other.
        let beside = ((page.style.columns() - 8) / 9).clamp(1, TIMES.len());
        let heads = TIMES.map(str::to_owned);
        for first in (0..TIMES.len()).step_by(beside) {
            let range = first..(first + beside).min(TIMES.len());
            page.line(page.style.paint(Tone::Dim, &cells("", &heads[range.clone()])));
            for (label, values) in self.times_rows() {
                let label = label.strip_suffix(" time").unwrap_or(label);
                page.line(cells(label, &values[range.clone()]));
            }
        }
        for text in self.times_in_words() {
            page.paragraph(Tone::Dim, 2, text);
        }
    }

    /// The measured times by name, each with the figures of [`TIMES`].
    pub(crate) fn times_rows(&self) -> Vec<(&'static str, [String; 8])> {
        let row = |d: &Distribution| {
            let values = [
                d.min_ns,
                d.p50_ns,
                d.p90_ns,
                d.p99_ns,
                d.p99_9_ns,
                d.p99_99_ns,
                d.max_ns,
                d.mean_ns.round() as u64,
            ];
            values.map(|nanos| Nanos(nanos).to_string())
        };
        let mut rows = Vec::new();
        rows.extend(self.trial.latency.as_ref().map(|latency| ("latency", row(latency))));
        rows.push(("service time", row(&self.trial.service_time)));
        rows.extend(self.trial.lateness.as_ref().map(|lateness| ("lateness", row(lateness))));
        rows
    }

    /// Describes the times and their requests.
    pub(crate) fn times_in_words(&self) -> [String; 2] {
        let words = match self.trial.offer {
            Offer::Open => {
                "latency: done − scheduled; service: done − sent; lateness: sent − scheduled"
            }
            _ => "service: done − sent; each connection waits for its answer (closed loop)",
        };
        let counts = &self.trial.ledger.counts;
        let of = match (counts.dropped, counts.failed) {
            (0, 0) => String::new(),
            (0, _) => "; excludes failed requests".to_owned(),
            (_, 0) => "; excludes dropped requests".to_owned(),
            _ => "; excludes dropped and failed requests".to_owned(),
        };
        let requests = plural(self.times().count, "completed request");
        [words.to_owned(), format!("of {requests}{of}")]
    }

    fn pictures(&self, page: &mut Page<'_>) {
        let columns = page.style.columns().min(80) - 32;
        let mut draw = |label: &str, bars: String, range: String| {
            let range = page.style.paint(Tone::Dim, &range);
            page.line_beside(LABEL, label, &format!("{bars}  {range}"));
        };
        if let Ok(Some(histogram)) = self.times().histogram()
            && let Some((bars, low, high)) = shape_of(&histogram, columns)
        {
            draw("shape", bars, format!("{} – {}", Nanos(low), Nanos(high)));
        }
        // The last step is rarely whole, so it would look like a drop.
        let steps = &self.trial.completed_by_step;
        let whole = &steps[..steps.len().saturating_sub(1)];
        if whole.len() > 1 && self.trial.step.0 > 0 {
            let highest = whole.iter().max().copied().unwrap_or(0) as f64;
            let highest = format_rate(highest / self.trial.step.as_secs_f64());
            draw("over time", bars(&squeeze(whole, columns)), format!("0 – {highest}/s"));
        }
    }

    fn accounts(&self, page: &mut Page<'_>) {
        page.account(LABEL, "ledger", &self.account());
        let failures = equations::failures(&self.ledger().errors);
        let failures = if failures.is_empty() { "none".to_owned() } else { failures };
        for (label, words) in [
            ("before", self.warm_up_in_words()),
            ("errors", Some(failures)),
            ("statuses", self.statuses_in_words()),
            ("client", Some(self.client())),
            ("TLS", handshakes::in_words(self.part).pop()),
            ("events", streams::in_words(self.part)),
        ] {
            if let Some(words) = words {
                page.beside(LABEL, label, Tone::Plain, &words);
            }
        }
    }

    /// The requests before the measured ones: the three probes, and the warm-up.
    fn warm_up(&self) -> Option<&'a Ledger> {
        let mut trials = self.part.measured_blocks().flat_map(|block| &block.trials);
        trials.find(|trial| trial.offer == Offer::WarmUp).map(|trial| &trial.ledger)
    }

    /// `3 requests as probes and warm-up`; they are not in the ledger.
    fn warm_up_in_words(&self) -> Option<String> {
        let sent = self.warm_up()?.counts.sent;
        Some(format!("{} as probes and warm-up", plural(sent, "request")))
    }

    /// Requests by HTTP status: completed ones under the expected status, failed ones under theirs.
    fn statuses(&self) -> BTreeMap<String, u64> {
        let ledger = &self.trial.ledger;
        let mut statuses = BTreeMap::new();
        if let Some(status) = self.part.load.status {
            statuses.insert(status.to_string(), ledger.counts.completed);
        }
        for (kind, count) in &ledger.errors {
            if let Some(status) = kind.strip_prefix("status ") {
                *statuses.entry(status.to_owned()).or_default() += count;
            }
        }
        statuses.retain(|_, count| *count > 0);
        statuses
    }

    /// `200: 59,354, 502: 3`; `None` if no status is known.
    pub(crate) fn statuses_in_words(&self) -> Option<String> {
        let statuses = self.statuses();
        let words = statuses.iter().map(|(status, n)| format!("{status}: {}", format_count(*n)));
        (!statuses.is_empty()).then(|| words.collect::<Vec<_>>().join(", "))
    }

    /// `9.40 µs of CPU per request, 2 threads, the busiest 14% busy, epoll`.
    pub(crate) fn client(&self) -> String {
        let load = &self.part.load;
        let mut words = Vec::new();
        let sent = self.trial.ledger.counts.sent;
        words.push(match self.trial.client_cpu().0.checked_div(sent) {
            Some(each) if !self.trial.client.is_empty() => {
                format!("{} of CPU per request", Nanos(each))
            }
            _ => "CPU per request unknown".to_owned(),
        });
        // With several clients, each has as many as the load says.
        let threads = u64::from(load.threads).max(self.trial.client.len() as u64);
        words.push(plural(threads, "thread"));
        if let Some(busiest) = self.busiest() {
            let share = format!("{:.0}%", 100.0 * busiest);
            let which = if self.trial.client.len() > 1 { "the busiest " } else { "" };
            words.push(format!("{which}{share} busy"));
        }
        words.push(match load.engines.as_slice() {
            [] => "I/O backend unknown".to_owned(),
            engines => setting::engines(engines),
        });
        words.join(", ")
    }
}

/// A histogram as bars of equal width on a logarithmic axis, from its smallest value to its 99.9th
/// percentile, with these two values in nanoseconds.
fn shape_of(
    histogram: &hdrhistogram::Histogram<u64>,
    columns: usize,
) -> Option<(String, u64, u64)> {
    let (low, high) = (histogram.min().max(1), histogram.value_at_quantile(0.999));
    if histogram.is_empty() || high <= low {
        return None;
    }
    let mut counts = vec![0u64; columns];
    let span = (high as f64 / low as f64).ln();
    for value in histogram.iter_recorded() {
        let at = (value.value_iterated_to().max(1) as f64 / low as f64).ln() / span;
        let column = (at * columns as f64).clamp(0.0, columns as f64 - 1.0) as usize;
        if value.value_iterated_to() <= high {
            counts[column] += value.count_at_value();
        }
    }
    Some((bars(&counts), low, high))
}

/// At most `columns` values; neighbours are averaged.
fn squeeze(values: &[u64], columns: usize) -> Vec<u64> {
    let columns = columns.min(values.len());
    (0..columns)
        .map(|i| {
            let range = i * values.len() / columns..(i + 1) * values.len() / columns;
            values[range.clone()].iter().sum::<u64>() / range.len() as u64
        })
        .collect()
}

/// One bar per value, the highest one full; anything above zero is visible.
fn bars(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().max().copied().unwrap_or(0).max(1);
    let bar = |value: &u64| match value {
        0 => ' ',
        _ => BARS[((value * 8).div_ceil(highest) as usize).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_nothing_to_the_highest() {
        assert_eq!(bars(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(bars(&[0, 0]), "  ");
        assert_eq!(bars(&[1, 1_000_000]), "▁█");
    }

    #[test]
    fn neighbours_are_averaged_and_none_is_lost() {
        assert_eq!(squeeze(&[1, 3, 5, 7], 2), [2, 6]);
        assert_eq!(squeeze(&[1, 2, 3], 9), [1, 2, 3]);
        assert_eq!(squeeze(&[], 9), [] as [u64; 0]);
    }
}
