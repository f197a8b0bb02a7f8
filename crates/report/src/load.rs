//! What `tachograph load` has to say: one target, no comparison.

use base::{Nanos, format_count, format_rate};
use ledger::Ledger;
use record::{Distribution, Run, RunKind};
use serde_json::{Value, json};

use crate::json::{distribution_json, ledger_json};
use crate::text::{Style, bandwidth, fit, left, right, wrap};

/// The name of the machine's fact under which a recorded run of `load` keeps how many threads the client had.
pub const CLIENT_THREADS: &str = "client threads";

/// The name of the machine's fact under which a recorded run keeps what moved the client's bytes.
pub const CLIENT_ENGINE: &str = "client engine";

/// The name of the machine's fact under which a recorded run of `load` keeps the CPU time of each of
/// the client's threads: whole nanoseconds, in order, with spaces between.
pub const CLIENT_THREAD_CPU: &str = "client thread CPU ns";

/// A finished run of `load`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// Where the load went, as written.
    pub target: String,
    /// The load in words: `10 connections, closed loop`.
    pub load: String,
    /// Reasons for which the figures are not to be trusted; empty means `ok`.
    pub reasons: Vec<String>,
    /// What weakens the figures without making them wrong, with what to do about it.
    pub warnings: Vec<String>,
    /// The ledger, lead-in and drain included.
    pub ledger: Ledger,
    /// The measured window.
    pub duration: Nanos,
    /// Requests completed inside the window.
    pub completed_in_window: u64,
    /// Payload bytes of those.
    pub payload_bytes: u64,
    /// What counts is bytes rather than requests.
    pub bulk: bool,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// Done − scheduled, for an open loop. In a closed one a request is due when it is sent, so that
    /// latency and service time are the same.
    pub latency: Option<Distribution>,
    /// Done − sent.
    pub service_time: Distribution,
    /// By how much the client itself was late with its requests, for an open loop: sent − scheduled,
    /// or 0 where a request had to wait for a connection.
    pub lateness: Option<Distribution>,
    /// CPU time of the client's threads.
    pub client_cpu: Nanos,
    /// Threads of the client; 0 if that is not known any more.
    pub client_threads: u32,
    /// CPU time of each of them, in order; empty if that is not known any more.
    pub client_thread_cpu: Vec<Nanos>,
    /// What moved the client's bytes, as `--engine` names it; `None` if that is not known any more.
    pub client_engine: Option<String>,
    /// The length of one step of the series.
    pub step: Nanos,
    /// Requests completed by step; adds up to `ledger.counts.completed`.
    pub completed_by_step: Vec<u64>,
}

impl LoadReport {
    /// The report of a recorded run of `load`; `None` for other runs and for one that was cut off before its end.
    pub fn from_run(run: &Run) -> Option<LoadReport> {
        if run.kind != RunKind::Load {
            return None;
        }
        let part = run.parts.first()?;
        let trial = part.blocks.first()?.trials.first()?;
        let warning = |finding: &&record::Finding| finding.severity == record::Severity::Warning;
        let threads = run.machine.facts.get(CLIENT_THREADS).and_then(|n| n.parse().ok());
        Some(LoadReport {
            target: part.variants.first()?.target.clone(),
            load: part.load.clone(),
            reasons: run.reasons.iter().chain(&part.reasons).cloned().collect(),
            warnings: part.findings.iter().filter(warning).map(|f| f.sentence.clone()).collect(),
            ledger: trial.ledger.clone(),
            duration: trial.window,
            completed_in_window: trial.completed_in_window,
            payload_bytes: trial.payload_bytes,
            bulk: part.bulk,
            offered_per_s: trial.offered_per_s,
            latency: trial.latency.clone(),
            service_time: trial.service_time.clone(),
            lateness: trial.lateness.clone(),
            client_cpu: trial.client_cpu,
            client_threads: threads.unwrap_or(0),
            client_thread_cpu: thread_cpu(run.machine.facts.get(CLIENT_THREAD_CPU)),
            client_engine: run.machine.facts.get(CLIENT_ENGINE).cloned(),
            step: trial.step,
            completed_by_step: trial.completed_by_step.clone(),
        })
    }

    /// Verified responses per second of window; 0 if there was no window.
    pub fn throughput_per_s(&self) -> f64 {
        self.per_second(self.completed_in_window)
    }

    /// Payload bytes per second of window; 0 if there was no window.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.payload_bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.duration.0 == 0 { 0.0 } else { count as f64 / self.duration.as_secs_f64() }
    }

    /// The object that `docs/schema/load-1.json` describes.
    pub fn to_json(&self) -> Value {
        let latency = self.latency.as_ref().unwrap_or(&self.service_time);
        json!({
            "schema": 1,
            "target": self.target,
            "load": self.load,
            "verdict": if self.reasons.is_empty() { "ok" } else { "invalid" },
            "reasons": self.reasons,
            "warnings": self.warnings,
            "ledger": ledger_json(&self.ledger),
            "duration_ns": self.duration.0,
            "throughput_per_s": self.throughput_per_s(),
            "bytes_per_s": self.bytes_per_s(),
            "offered_per_s": self.offered_per_s,
            "latency_ns": distribution_json(latency),
            "service_time_ns": distribution_json(&self.service_time),
            "lateness_ns": self.lateness.as_ref().map(distribution_json),
            "errors": self.ledger.errors,
            "client": {
                "cpu_ns": self.client_cpu.0,
                "threads": self.client_threads,
                "thread_cpu_ns": self.client_thread_cpu.iter().map(|cpu| cpu.0).collect::<Vec<_>>(),
                "engine": self.client_engine,
            },
            "series": { "step_ns": self.step.0, "completed": self.completed_by_step },
        })
    }

    /// One screen of text, ending in a newline.
    pub fn terminal(&self, style: &Style) -> String {
        let mut lines = Vec::new();
        lines.push(style.bold(&fit(&self.target, style.columns())));
        lines.push(style.dim(&format!("{}, measured for {}", self.load, self.duration)));
        for reason in &self.reasons {
            let text = format!("INVALID: {reason}");
            lines.extend(wrap(&text, style.columns(), 2).iter().map(|line| style.bad(line)));
        }
        lines.push(String::new());
        lines.push(self.speed(style));
        lines.push(String::new());
        lines.extend(self.percentiles(style));
        lines.push(String::new());
        lines.extend(self.pictures(style));
        lines.extend(self.accounts(style));
        for warning in &self.warnings {
            lines.extend(labelled(style, "warning", warning));
        }
        let mut out: String = lines.iter().map(|line| format!("{}\n", line.trim_end())).collect();
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out
    }

    fn speed(&self, style: &Style) -> String {
        let rate = format!("{} requests/s", format_rate(self.throughput_per_s()));
        let bytes = bandwidth(self.bytes_per_s());
        let (first, second) = if self.bulk { (bytes, rate) } else { (rate, bytes) };
        let mut line = format!("{}   {second}", style.bold(&first));
        if let Some(offered) = self.offered_per_s {
            line += &format!("   offered {} requests/s", format_rate(offered));
        }
        line
    }

    fn percentiles(&self, style: &Style) -> Vec<String> {
        let heads = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"];
        let cells = |label: &str, cells: &[String]| -> String {
            cells.iter().fold(left(label, 8), |line, cell| line + &right(cell, 9))
        };
        let mut lines = vec![style.dim(&cells("", &heads.map(str::to_owned)))];
        let row = |label: &str, d: &Distribution| {
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
            cells(label, &values.map(|nanos| Nanos(nanos).to_string()))
        };
        if let Some(latency) = &self.latency {
            lines.push(row("latency", latency));
        }
        lines.push(row("service", &self.service_time));
        if let Some(lateness) = &self.lateness {
            lines.push(row("lateness", lateness));
        }
        let words = match &self.latency {
            Some(_) => {
                "latency: done − scheduled; service: done − sent; lateness: sent − scheduled"
            }
            None => "service: done − sent; each connection waits for its answer (closed loop)",
        };
        lines.push(style.dim(words));
        lines
    }

    fn pictures(&self, style: &Style) -> Vec<String> {
        let columns = style.columns().min(80) - 32;
        let mut lines = Vec::new();
        let times = self.latency.as_ref().unwrap_or(&self.service_time);
        if let Ok(Some(histogram)) = times.histogram()
            && let Some((bars, low, high)) = shape_of(&histogram, columns)
        {
            let range = format!("{} – {}", Nanos(low), Nanos(high));
            lines.push(format!("{}{bars}  {}", style.dim(&left("shape", 11)), style.dim(&range)));
        }
        // The last step is seldom whole, so it would look like a fall.
        let whole = &self.completed_by_step[..self.completed_by_step.len().saturating_sub(1)];
        if whole.len() > 1 && self.step.0 > 0 {
            let merged = squeeze(whole, columns);
            let highest = whole.iter().max().copied().unwrap_or(0) as f64 / self.step.as_secs_f64();
            let range = format!("0 – {}/s", format_rate(highest));
            let label = style.dim(&left("over time", 11));
            lines.push(format!("{label}{}  {}", bars(&merged), style.dim(&range)));
        }
        lines
    }

    /// `CPU by thread: 4.2s 4.1s`.
    fn threads(&self) -> String {
        let times: Vec<String> = self.client_thread_cpu.iter().map(|cpu| cpu.to_string()).collect();
        format!("CPU by thread: {}", times.join(" "))
    }

    fn accounts(&self, style: &Style) -> Vec<String> {
        let mut lines = labelled(style, "ledger", &self.ledger.line());
        let errors: Vec<String> = self
            .ledger
            .errors
            .iter()
            .map(|(kind, count)| format!("{} {kind}", format_count(*count)))
            .collect();
        let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
        lines.extend(labelled(style, "errors", &errors));
        let sent = self.ledger.counts.sent;
        if let Some(each) = self.client_cpu.0.checked_div(sent) {
            let each = Nanos(each);
            let mut text = format!("{each} of CPU per request");
            if self.client_threads > 0 {
                let threads = crate::text::plural(self.client_threads as usize, "thread");
                text += &format!(", {threads}");
            }
            if let Some(engine) = &self.client_engine {
                text += &format!(", {engine}");
            }
            lines.extend(labelled(style, "client", &text));
        }
        if self.client_thread_cpu.len() > 1 {
            lines.extend(labelled(style, "", &self.threads()));
        }
        lines
    }
}

/// The times that a recorded run keeps as text.
fn thread_cpu(fact: Option<&String>) -> Vec<Nanos> {
    let times = fact.map(|text| text.split(' ').map(|time| time.parse().map(Nanos)).collect());
    times.and_then(Result::ok).unwrap_or_default()
}

fn labelled(style: &Style, label: &str, text: &str) -> Vec<String> {
    wrap(text, style.columns() - 11, 0)
        .iter()
        .enumerate()
        .map(|(i, line)| format!("{}{line}", style.dim(&left(if i == 0 { label } else { "" }, 11))))
        .collect()
}

/// A histogram's shape in bars of equal width on a logarithmic axis, from its
/// smallest value to its 99.9th percentile, with these two in nanoseconds.
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

/// At most `columns` values, neighbours averaged.
fn squeeze(values: &[u64], columns: usize) -> Vec<u64> {
    let columns = columns.min(values.len());
    (0..columns)
        .map(|i| {
            let range = i * values.len() / columns..(i + 1) * values.len() / columns;
            values[range.clone()].iter().sum::<u64>() / range.len() as u64
        })
        .collect()
}

/// One bar per value, the highest one full; anything above zero shows.
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
