//! Runs with findings that weaken or forbid a verdict.

use super::*;

/// Makes the comparisons of some metrics INVALID because of a new finding.
pub(crate) fn forbid(part: &mut Part, finding: Finding, metrics: &[Metric]) {
    let index = part.findings.len() as u32;
    part.findings.push(finding);
    for comparison in part.comparisons.iter_mut().filter(|c| metrics.contains(&c.metric)) {
        comparison.judgement.verdict = Verdict::Invalid;
        comparison.because.push(index);
    }
}

/// All metrics: those forbidden by a ledger that does not add up.
pub(crate) const ALL: [Metric; 5] =
    [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu, Metric::Memory];

/// The server counted three requests fewer than the client.
pub(crate) fn invalid() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-090000-bad1".to_owned());
    let part = &mut run.parts[0];
    let ledger = &mut part.variants[1].ledger;
    let completed = ledger.counts.completed;
    ledger.served = Some(completed - 3);
    let gap = Discrepancy { law: Law::Served, left: completed - 3, right: completed };
    forbid(part, Finding::of_variant(Severity::Invalid, 1, Fact::Ledger { gap }), &ALL);
    run
}

/// The client was late with one variant's requests: only its latency is INVALID.
pub(crate) fn late() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-091500-late".to_owned());
    let fact = Fact::Uneven {
        source: Disturber::Lateness,
        other: 0,
        here: 0.003,
        there: 0.000_04,
        p: 0.000_2,
        log_bound: None,
    };
    let finding = Finding::of_variant(Severity::Invalid, 1, fact);
    forbid(&mut run.parts[0], finding, &[Metric::P50, Metric::P99]);
    run
}

/// Other processes ran whenever one variant did.
pub(crate) fn uneven() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-093000-even".to_owned());
    let fact = Fact::Uneven {
        source: Disturber::OtherProcesses,
        other: 0,
        here: 0.62,
        there: 0.03,
        p: 0.000_1,
        log_bound: None,
    };
    forbid(&mut run.parts[0], Finding::of_variant(Severity::Invalid, 1, fact), &ALL);
    run
}

/// A valid part beside one in which a short backlog made requests fail, with the same message in
/// every block.
pub(crate) fn refused() -> Run {
    let mut run = tcp_unix();
    run.parts[0].findings.clear();
    run.parts[0].published.clear();
    run.parts[0].name = "sockets".to_owned();
    let mut part = run.parts[0].clone();
    part.name = "short-backlog".to_owned();
    part.question = "What becomes of a short backlog of unix?".to_owned();
    part.blocks.truncate(7);
    for block in part.blocks.iter().filter(|block| block.is_complete()) {
        for offer in [Offer::WarmUp, Offer::Closed] {
            part.findings.push(Finding {
                severity: Severity::Invalid,
                block: Some(block.index),
                variant: Some(1),
                fact: Fact::Failures {
                    offer,
                    failed: 10_007,
                    sent: 18_452,
                    kinds: [("status 502".to_owned(), 10_007)].into(),
                    log: Some(
                        "nginx: connect() to unix:/1.sock failed (11: Resource temporarily unavailable)"
                            .to_owned(),
                    ),
                },
            });
        }
    }
    let because: Vec<u32> = (0..part.findings.len() as u32).collect();
    let ledger = &mut part.variants[1].ledger;
    ledger.counts.completed -= 58_889;
    ledger.counts.failed = 58_889;
    ledger.served = Some(ledger.counts.completed);
    ledger.series = Some(ledger.counts.completed);
    ledger.errors.insert("status 502".to_owned(), 58_889);
    part.comparisons.retain(|c| c.primary);
    for comparison in &mut part.comparisons {
        comparison.judgement.verdict = Verdict::Invalid;
        comparison.judgement.blocks = 6;
        comparison.because = because.clone();
    }
    run.parts.push(part);
    run.plan = "[experiment]\nname = \"x\"\nabout = \"\"\"\nOne *socket* of two kinds.\n\"\"\"\n"
        .to_owned();
    run
}

/// One variant did not sustain the rate of the open loop, so percentiles are not compared.
pub(crate) fn overloaded() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-094500-over".to_owned());
    let part = &mut run.parts[0];
    part.published.clear();
    part.findings.clear();
    part.comparisons.retain(|c| c.offer == Offer::Closed);
    let fact =
        Fact::Unsustained { achieved: 0.84, limit: 0.99, dropped: 7_823, connections_cap: None };
    part.findings.push(Finding::of_variant(Severity::Warning, 0, fact));
    run
}

/// The p99 of one variant is only known to be long: its interval and that of the ratio have no
/// upper end, and the other variant's p50 has no lower one.
pub(crate) fn unbounded() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-094800-endl".to_owned());
    let part = &mut run.parts[0];
    part.published.clear();
    part.findings.clear();
    for summary in part.variants[1].summaries.iter_mut().filter(|s| s.offer == Offer::Open) {
        summary.p99_ns = Estimate { value: 480e6, low: 410e6, high: f64::INFINITY };
        summary.p90_ns = Estimate { value: f64::INFINITY, low: 37e6, high: f64::INFINITY };
    }
    for summary in part.variants[0].summaries.iter_mut().filter(|s| s.offer == Offer::Open) {
        summary.p50_ns.low = 0.0;
        summary.p90_ns = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    for comparison in part.comparisons.iter_mut().filter(|c| c.metric == Metric::P99) {
        comparison.judgement.ratio = Estimate { value: 193.0, low: 140.0, high: f64::INFINITY };
        comparison.judgement.verdict = Verdict::Slower;
    }
    run
}
