//! Findings of one kind in one line.

use std::collections::BTreeSet;

use record::{Fact, Finding, NetworkLimit, Part, Severity};

use crate::text::{listed, plural};
use crate::{fact, view};

/// One line for all findings of one kind: the worst one, and where else it occurred.
pub(crate) struct FindingLine {
    /// Severity.
    pub(crate) severity: Severity,
    /// The text, without a full stop.
    pub(crate) words: String,
    /// The last line of the stack's log, if requests failed.
    pub(crate) log: Option<String>,
    /// Indices of these findings in [`Part::findings`].
    pub(crate) findings: Vec<u32>,
}

impl FindingLine {
    /// The whole line, without a full stop.
    pub(crate) fn line(&self) -> String {
        match &self.log {
            Some(log) => format!("{}; last line of its log: {log}", self.words),
            None => self.words.clone(),
        }
    }

    /// The line after its severity: `warning: unix is client-limited: …`.
    pub(crate) fn labelled(&self) -> String {
        format!("{}: {}", fact::severity(self.severity), self.line())
    }
}

/// All findings of a part, most severe first.
pub(crate) fn all(part: &Part) -> Vec<FindingLine> {
    those(part, |_, _| true)
}

/// The findings selected by index, grouped by kind, most severe first.
pub(crate) fn those(part: &Part, wanted: impl Fn(u32, &Finding) -> bool) -> Vec<FindingLine> {
    let mut kinds: Vec<Vec<(u32, &Finding)>> = Vec::new();
    for (index, finding) in (0..).zip(&part.findings).filter(|(i, finding)| wanted(*i, finding)) {
        match kinds.iter_mut().find(|kind| is_one_kind(kind[0].1, finding)) {
            Some(kind) => kind.push((index, finding)),
            None => kinds.push(vec![(index, finding)]),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind[0].1.severity));
    kinds.iter().map(|kind| in_one(part, kind)).collect()
}

/// Whether two findings share a line: same check, and same variant unless they only describe the
/// machine or the requests.
fn is_one_kind(a: &Finding, b: &Finding) -> bool {
    let same_source = match (&a.fact, &b.fact) {
        (Fact::Ledger { gap: a }, Fact::Ledger { gap: b }) => a.law == b.law,
        (Fact::Discarded { offer: a, .. }, Fact::Discarded { offer: b, .. }) => a == b,
        (Fact::Uneven { source: a, .. }, Fact::Uneven { source: b, .. }) => a == b,
        (Fact::AcceptQueue { counter: a, .. }, Fact::AcceptQueue { counter: b, .. }) => a == b,
        (Fact::Resent { counter: a, .. }, Fact::Resent { counter: b, .. }) => a == b,
        (Fact::Unchecked { what: a }, Fact::Unchecked { what: b }) => a == b,
        (a, b) => a.check() == b.check(),
    };
    let same_variant = a.variant == b.variant || (!a.is_invalid() && is_shared(&a.fact));
    same_source && a.severity == b.severity && same_variant
}

/// Whether variants share a line about this fact.
fn is_shared(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Drift { .. }
            | Fact::NotServed
            | Fact::BodyVaries { .. }
            | Fact::Unchecked { .. }
            | Fact::FewRequests { .. }
            | Fact::Ports { .. }
            | Fact::TimeWait { .. }
            | Fact::Resent { .. }
            | Fact::Killed { .. }
            | Fact::Tracked
    )
}

fn in_one(part: &Part, kind: &[(u32, &Finding)]) -> FindingLine {
    let (_, first) = kind[0];
    let findings = || kind.iter().map(|(_, finding)| *finding);
    // The first of equals, so that the line names the earliest block.
    let worst = findings().fold(first, |worst, finding| {
        if size(&finding.fact) > size(&worst.fact) { finding } else { worst }
    });
    let blocks: BTreeSet<u32> = findings().filter_map(|finding| finding.block).collect();
    let others: BTreeSet<String> = findings()
        .filter(|finding| finding.variant != worst.variant)
        .filter_map(|finding| Some(view::name(part, finding.variant?).to_owned()))
        .collect();
    let total = total_failures(part, kind, worst);
    let mut words = total.clone().unwrap_or_else(|| fact::clause(part, worst));
    if !others.is_empty() {
        words += &format!("; also {}", listed(&Vec::from_iter(others)));
    }
    // A part of one block needs no block number.
    if let Some(block) = worst.block.filter(|_| total.is_none() && part.blocks.len() > 1) {
        words += &match block {
            0 => " (calibration".to_owned(),
            block => format!(" (block {block}"),
        };
        words += &match blocks.len() as u64 {
            1 => ")".to_owned(),
            n => format!(", and in {})", plural(n - 1, "more block")),
        };
    }
    let log = match &worst.fact {
        Fact::Failures { log, .. } => log.clone(),
        _ => None,
    };
    FindingLine {
        severity: worst.severity,
        words,
        log,
        findings: kind.iter().map(|(index, _)| *index).collect(),
    }
}

/// Failures in several blocks are shown with the variant's whole ledger.
fn total_failures(part: &Part, kind: &[(u32, &Finding)], worst: &Finding) -> Option<String> {
    let Fact::Failures { .. } = worst.fact else { return None };
    let variant = part.variants.get(worst.variant? as usize).filter(|_| kind.len() > 1)?;
    let (counts, errors) = (&variant.ledger.counts, &variant.ledger.errors);
    let failed = fact::failed(counts.failed, counts.sent, errors) + fact::may_vary(errors);
    (counts.failed > 0).then(|| match part.variants.len() {
        1 => failed,
        _ => format!("{}: {failed}", variant.name),
    })
}

/// The size of a finding, compared with others of its kind.
fn size(fact: &Fact) -> f64 {
    match fact {
        Fact::WarmUp { watched } => watched.0 as f64,
        Fact::NullServer { factor, .. } => -factor,
        Fact::NetworkLimited { by: NetworkLimit::Bytes { used_per_s, carried_per_s } } => {
            used_per_s / carried_per_s
        }
        Fact::NetworkLimited { by: NetworkLimit::RoundTrip { round_trip, .. } } => {
            round_trip.0 as f64
        }
        Fact::ClientBusy { share, .. }
        | Fact::Idle { share, .. }
        | Fact::Conntrack { share, .. } => *share,
        Fact::Ledger { gap } => gap.difference().unsigned_abs() as f64,
        Fact::TrialsDiffer { trials, session } => trials.abs_diff(*session) as f64,
        Fact::SeriesChanged { now, before, .. } => now.abs_diff(*before) as f64,
        Fact::Failures { failed, .. } => *failed as f64,
        Fact::Discarded { discarded, .. } => *discarded as f64,
        Fact::Lateness { p99, .. } => p99.0 as f64,
        Fact::Uneven { here, there, .. } => (here - there).abs(),
        Fact::Throttled { times } => *times as f64,
        Fact::Neighbours { cpus, .. } => *cpus,
        Fact::AcceptQueue { rise, .. } | Fact::Resent { rise, .. } | Fact::TimeWait { rise } => {
            *rise as f64
        }
        Fact::Ports { changes } => *changes as f64,
        Fact::Drift { change } => change.abs(),
        Fact::NotSteady { trials, of } => f64::from(*trials) / f64::from((*of).max(1)),
        Fact::Unsustained { achieved, .. } => -achieved,
        Fact::FewRequests { fewest, .. } => -(*fewest as f64),
        Fact::Edges { mean, .. } => mean.abs(),
        Fact::LongStops { stopped, slice, .. } => stopped.0 as f64 / (slice.0 as f64).max(1.0),
        Fact::ShortSlices { p99, .. } => p99.0 as f64,
        Fact::RareStalls { longest, .. } => longest.0 as f64,
        Fact::TimeWaitSockets { more, .. } => *more as f64,
        Fact::Baseline { .. }
        | Fact::ServedUnreadable { .. }
        | Fact::Uncounted { .. }
        | Fact::StackFailed { .. }
        | Fact::MachineLost { .. }
        | Fact::ActionFailed { .. }
        | Fact::Killed { .. }
        | Fact::Unpinned { .. }
        | Fact::Governor { .. }
        | Fact::NotServed
        | Fact::Answers { .. }
        | Fact::BodyVaries { .. }
        | Fact::ErrorPage { .. }
        | Fact::Unchecked { .. }
        | Fact::Standing
        | Fact::NotProfiled { .. }
        | Fact::NothingSampled { .. }
        | Fact::Tracked => 0.0,
        Fact::ProfileDiffers { sampled, counted, .. } => sampled.0.abs_diff(counted.0) as f64,
    }
}
