//! The end of a part: what its blocks say together.

use std::collections::BTreeSet;

use base::Nanos;
use record::{Fact, Finding, Offer, Part, Severity, Trial};
use stats::Sureness;

use crate::analyse::{add_up_ledgers, compare, disturbance, quantile, summarise, trial_of};
use crate::means::{compare_kinds, compare_streams};
use crate::validity::CLIENT_BUSY_MAX;
use crate::why::{nothing_sampled, profile_differs, why};

/// A variant whose level changes within more than this share of its trials is not steady.
const NOT_STEADY_SHARE: f64 = 0.25;

/// Completes a part after its last block: ledgers, summaries, comparisons, findings about the whole
/// part.
pub(crate) fn conclude(plan: &spec::Part, part: &mut Part, interrupted: bool) {
    add_up_ledgers(part);
    let sureness = Sureness { alpha: 1.0 - plan.schedule.confidence, interrupted };
    let variants = 0..part.variants.len();
    let short: Vec<Finding> = variants.filter_map(|v| short_slices(part, v, sureness)).collect();
    part.findings.extend(short);
    summarise(plan, part, sureness);
    findings_of_the_whole(plan, part);
    part.comparisons = compare(plan, part, interrupted);
    part.kinds = compare_kinds(plan, part, sureness);
    part.streams = compare_streams(plan, part, sureness);
    let found = profile_differs(part);
    part.findings.extend(found);
    part.why = why(plan, part, sureness);
    part.findings.extend(nothing_sampled(part));
    part.disturbance = disturbance(plan, part);
}

/// Findings that need the trials of all blocks.
fn findings_of_the_whole(plan: &spec::Part, part: &mut Part) {
    let mut found = Vec::new();
    for v in 0..part.variants.len() {
        let trials = |offer: Offer| -> Vec<&Trial> {
            part.complete_blocks().filter_map(|block| trial_of(block, v, offer)).collect()
        };
        let (closed, open) = (trials(Offer::Closed), trials(Offer::Open));
        found.extend(client_busy(plan, v, &closed));
        found.extend([&closed, &open].into_iter().filter_map(|trials| discarded(v, trials)));
        let served = part.variants[v].ledger.served.is_some();
        if part.variants[v].skipped.is_none() && !served && !closed.is_empty() {
            found.push(Finding::of_variant(Severity::Note, v, Fact::NotServed));
        }
    }
    found.extend(not_steady(part));
    part.findings.extend(found);
}

/// What the server's kernel discarded in these trials of a variant.
fn discarded(v: usize, trials: &[&Trial]) -> Option<Finding> {
    let offer = trials.first()?.offer;
    let discarded = trials.iter().filter_map(|trial| trial.ledger.discarded).sum();
    let completed = trials.iter().map(|trial| trial.ledger.counts.completed).sum();
    let fact = Fact::Discarded { offer, discarded, completed };
    (discarded > 0).then(|| Finding::of_variant(Severity::Note, v, fact))
}

fn client_busy(plan: &spec::Part, v: usize, closed: &[&Trial]) -> Option<Finding> {
    let share = closed.iter().map(|trial| trial.client_busy()).fold(0.0, f64::max);
    let load = &plan.variants[v].load;
    // A client that spins is always busy.
    (share > CLIENT_BUSY_MAX && !load.busy_poll).then(|| {
        let fact = Fact::ClientBusy { share, threads: load.threads };
        Finding::of_variant(Severity::Warning, v, fact)
    })
}

/// The finding about an open loop whose windows are shorter than its p99: stops that follow each other
/// closely are met too seldom, because each slice begins with an empty queue.
fn short_slices(part: &Part, v: usize, sureness: Sureness) -> Option<Finding> {
    let blocks = part.complete_blocks();
    let open: Vec<&Trial> = blocks.filter_map(|block| trial_of(block, v, Offer::Open)).collect();
    let kept = || open.iter().flat_map(|trial| &trial.slices).filter(|slice| slice.kept);
    let total = kept().fold(Nanos::ZERO, |sum, slice| sum + slice.window);
    let window = Nanos(total.0.checked_div(kept().count() as u64)?);
    let p99 = Nanos(quantile(&open, 0.99, sureness)?.estimate.value as u64);
    let fact = Fact::ShortSlices { window, p99 };
    (p99 > window).then(|| Finding::of_variant(Severity::Warning, v, fact))
}

/// Finds variants whose level changes within many of their trials, unless all other variants'
/// levels change in the same blocks: then the machine is the cause.
fn not_steady(part: &Part) -> Vec<Finding> {
    let drifting = |v: usize| -> BTreeSet<u32> {
        let drifts = part.findings.iter().filter(|f| matches!(f.fact, Fact::Drift { .. }));
        drifts.filter(|f| f.variant == Some(v as u32)).filter_map(|f| f.block).collect()
    };
    let all: Vec<BTreeSet<u32>> = (0..part.variants.len()).map(drifting).collect();
    let blocks = part.measured_blocks().count();
    let of_variant = |(v, mine): (usize, &BTreeSet<u32>)| {
        let others = all.iter().enumerate().filter(|(w, _)| *w != v);
        let by_itself = |block: &&u32| others.clone().all(|(_, theirs)| !theirs.contains(block));
        let trials = mine.iter().filter(by_itself).count();
        (trials >= 2 && trials as f64 > NOT_STEADY_SHARE * blocks as f64).then(|| {
            let fact = Fact::NotSteady { trials: trials as u32, of: blocks as u32 };
            Finding::of_variant(Severity::Warning, v, fact)
        })
    };
    all.iter().enumerate().filter_map(of_variant).collect()
}
