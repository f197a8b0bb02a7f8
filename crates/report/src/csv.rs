//! One row per trial, for spreadsheets and data frames.

use record::Run;

use crate::view;

const COLUMNS: [&str; 33] = [
    "run",
    "part",
    "block",
    "block_state",
    "variant",
    "offer",
    "offered_per_s",
    "started",
    "window_ns",
    "throughput_per_s",
    "bytes_per_s",
    "latency_min_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p99_9_ns",
    "latency_max_ns",
    "service_time_p50_ns",
    "service_time_p99_ns",
    "offered",
    "dropped",
    "sent",
    "completed",
    "failed",
    "in_flight",
    "reconnected",
    "served",
    "discarded",
    "series",
    "stack_cpu_ns",
    "machine_busy_ns",
    "client_cpu_ns",
    "peak_memory_bytes",
];

/// The run's trials as RFC 4180 text with a header; unknown values are empty.
///
/// For a closed loop, latency is the service time.
pub fn csv(run: &Run) -> String {
    let mut table = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(vec![]);
    let mut put = |cells: [String; COLUMNS.len()]| {
        table.write_record(cells).expect("memory takes every record");
    };
    put(COLUMNS.map(str::to_owned));
    for part in &run.parts {
        for block in part.measured_blocks() {
            for trial in block.measured_trials() {
                let (l, s, c) = (view::times(trial), &trial.service_time, &trial.ledger.counts);
                let seconds = trial.window.as_secs_f64();
                put([
                    run.id.to_string(),
                    part.name.clone(),
                    block.index.to_string(),
                    block.state.word().to_owned(),
                    view::name(part, trial.variant).to_owned(),
                    trial.offer.word().to_owned(),
                    maybe(trial.offered_per_s),
                    trial.started.to_string(),
                    trial.window.0.to_string(),
                    number(trial.throughput_per_s()),
                    number(trial.payload_bytes as f64 / seconds),
                    l.min_ns.to_string(),
                    l.p50_ns.to_string(),
                    l.p90_ns.to_string(),
                    l.p99_ns.to_string(),
                    l.p99_9_ns.to_string(),
                    l.max_ns.to_string(),
                    s.p50_ns.to_string(),
                    s.p99_ns.to_string(),
                    c.offered.to_string(),
                    c.dropped.to_string(),
                    c.sent.to_string(),
                    c.completed.to_string(),
                    c.failed.to_string(),
                    c.in_flight.to_string(),
                    c.reconnected.to_string(),
                    maybe(trial.ledger.served),
                    maybe(trial.ledger.discarded),
                    maybe(trial.ledger.series),
                    maybe(trial.stack_cpu.map(|cpu| cpu.0)),
                    maybe(trial.machine_busy.map(|busy| busy.0)),
                    trial.client_cpu().0.to_string(),
                    maybe(trial.peak_memory_bytes),
                ]);
            }
        }
    }
    let bytes = table.into_inner().expect("memory takes every record");
    String::from_utf8(bytes).expect("cells are text")
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { String::new() }
}
