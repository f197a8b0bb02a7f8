//! Runs of `load`.

use super::*;

/// One target, as `load` records it: a warm-up and a measured trial in one block.
pub(super) fn load_of(open: Option<f64>) -> Run {
    let mut part = part(5, &[TCP], 1, open, at());
    let variant = &mut part.variants[0];
    variant.commands.clear();
    variant.name = "http://127.0.0.1:8000/".to_owned();
    variant.target = "http://127.0.0.1:8000/".to_owned();
    variant.served_by = None;
    variant.summaries.clear();
    let block = &mut part.blocks[0];
    // The maker makes a closed and an open trial; the last one is used.
    let mut trial = block.trials.pop().unwrap();
    trial.ledger.served = None;
    trial.stack_cpu = None;
    trial.machine_busy = None;
    trial.peak_memory_bytes = None;
    variant.ledger = trial.ledger.clone();
    let warm_up = Trial { offer: Offer::WarmUp, offered_per_s: None, ..trial.clone() };
    block.trials = vec![warm_up, trial];
    part.layout.stack = CpuSet::default();
    part.load.status = Some(200);
    part.question = "How fast is http://127.0.0.1:8000/?".to_owned();
    part.name = "load".to_owned();
    part.disturbance = None;
    part.findings.push(Finding::of_variant(Severity::Note, 0, Fact::NotServed));
    run(
        "20261121-120000-load",
        RunKind::Load,
        "load",
        "http://127.0.0.1:8000/",
        "How fast is http://127.0.0.1:8000/?",
        vec![part],
    )
}

/// One target in a closed loop.
pub(crate) fn load() -> Run {
    load_of(None)
}

/// One target in an open loop that it did not sustain, on two client threads.
pub(crate) fn load_unsustained() -> Run {
    let mut run = load_of(Some(2_000.0));
    run.id = RunId("20261121-121500-open".to_owned());
    let part = &mut run.parts[0];
    part.load.threads = 2;
    part.load.engines = vec![Engine::IoUring];
    let trial = &mut part.blocks[0].trials[1];
    let other = ThreadUse { cpu: Nanos::from_millis(310), ..trial.client[0] };
    trial.client.push(other);
    let counts = &mut trial.ledger.counts;
    counts.dropped = 7_823;
    counts.offered += counts.dropped;
    counts.failed = 2;
    counts.completed -= 2;
    counts.reconnected = 4;
    trial.ledger.series = Some(counts.completed);
    trial.completed_by_step[0] -= 2;
    trial.ledger.errors.insert("timeout".to_owned(), 2);
    part.variants[0].ledger = trial.ledger.clone();
    let counts = trial.ledger.counts;
    let fact = Fact::Unsustained {
        achieved: counts.completed as f64 / counts.offered as f64,
        limit: 0.99,
        dropped: counts.dropped,
        connections_cap: Some(10),
    };
    part.findings.insert(0, Finding::of_variant(Severity::Invalid, 0, fact));
    let busy = Fact::ClientBusy { share: 0.97, threads: 2 };
    part.findings.push(Finding::of_variant(Severity::Warning, 0, busy));
    run
}
