//! One row per trial, for spreadsheets and data frames.

use record::{Block, Distribution, Part, Run, Trial};

use crate::view;

/// A trial with what it belongs to.
struct Row<'a> {
    run: &'a Run,
    part: &'a Part,
    block: &'a Block,
    trial: &'a Trial,
}

impl Row<'_> {
    fn times(&self) -> &Distribution {
        view::times(self.trial)
    }
}

/// A column: its name, and its cell in a row.
type Column = (&'static str, fn(&Row<'_>) -> String);

const COLUMNS: [Column; 33] = [
    ("run", |row| row.run.id.to_string()),
    ("part", |row| row.part.name.clone()),
    ("block", |row| row.block.index.to_string()),
    ("block_state", |row| row.block.state.word().to_owned()),
    ("variant", |row| view::name(row.part, row.trial.variant).to_owned()),
    ("offer", |row| row.trial.offer.word().to_owned()),
    ("offered_per_s", |row| maybe(row.trial.offered_per_s)),
    ("started", |row| row.trial.started.to_string()),
    ("window_ns", |row| row.trial.window.0.to_string()),
    ("throughput_per_s", |row| number(row.trial.throughput_per_s())),
    ("bytes_per_s", |row| number(row.trial.payload_bytes as f64 / row.trial.window.as_secs_f64())),
    ("latency_min_ns", |row| row.times().min_ns.to_string()),
    ("latency_p50_ns", |row| row.times().p50_ns.to_string()),
    ("latency_p90_ns", |row| row.times().p90_ns.to_string()),
    ("latency_p99_ns", |row| row.times().p99_ns.to_string()),
    ("latency_p99_9_ns", |row| row.times().p99_9_ns.to_string()),
    ("latency_max_ns", |row| row.times().max_ns.to_string()),
    ("service_time_p50_ns", |row| row.trial.service_time.p50_ns.to_string()),
    ("service_time_p99_ns", |row| row.trial.service_time.p99_ns.to_string()),
    ("offered", |row| row.trial.ledger.counts.offered.to_string()),
    ("dropped", |row| row.trial.ledger.counts.dropped.to_string()),
    ("sent", |row| row.trial.ledger.counts.sent.to_string()),
    ("completed", |row| row.trial.ledger.counts.completed.to_string()),
    ("failed", |row| row.trial.ledger.counts.failed.to_string()),
    ("in_flight", |row| row.trial.ledger.counts.in_flight.to_string()),
    ("reconnected", |row| row.trial.ledger.counts.reconnected.to_string()),
    ("served", |row| maybe(row.trial.ledger.served)),
    ("discarded", |row| maybe(row.trial.ledger.discarded)),
    ("series", |row| maybe(row.trial.ledger.series)),
    ("stack_cpu_ns", |row| maybe(row.trial.stack_cpu.map(|cpu| cpu.0))),
    ("machine_busy_ns", |row| maybe(row.trial.machine_busy.map(|busy| busy.0))),
    ("client_cpu_ns", |row| row.trial.client_cpu().0.to_string()),
    ("peak_memory_bytes", |row| maybe(row.trial.peak_memory_bytes)),
];

/// The run's trials as RFC 4180 text with a header; unknown values are empty.
///
/// For a closed loop, latency is the service time.
pub fn csv(run: &Run) -> String {
    let mut table = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(vec![]);
    let mut put = |cells: [String; COLUMNS.len()]| {
        table.write_record(cells).expect("memory takes every record");
    };
    put(COLUMNS.map(|(name, _)| name.to_owned()));
    for part in &run.parts {
        for block in part.measured_blocks() {
            for trial in block.measured_trials() {
                put(COLUMNS.map(|(_, cell)| cell(&Row { run, part, block, trial })));
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
