//! Validity checks of a block or a whole part: findings that forbid a verdict, weaken it, or
//! inform.
//!
//! What affects one variant can bias a ratio, so it forbids the verdicts that it affects. What
//! disturbs every variant alike does not: the rounds of slices distribute it, and the rest is in
//! the interval.
//!
//! TCPTimeouts and TCPSynRetrans are counters of the whole machine, which also rise when a port is
//! reused whose old connection still lingers. A lost packet costs 200 ms, a lost SYN a second, so they
//! forbid a verdict only if they affect a single variant. Full accept queues always do: connections
//! were turned away from that variant.

use base::Nanos;
use ledger::{Law, Tolerance};
use record::{Disturber, Fact, Finding, Metric, Offer, Part, Severity, UncheckedInput};
use spec::Mode;
use stats::{Bias, BiasCause};

use crate::acting::failures;
use crate::block::{BlockFailure, BlockOutcome, SettledOffer};
use crate::running_variant::VariantResult;
use crate::trial_sum::{TrialSlice, TrialSum, Trouble};

/// The largest share of the window in which a closed loop's connections may be idle.
const IDLE_MAX: f64 = 0.02;
/// If packets were retransmitted in this many slices of one variant and in none of the others', the
/// cause is that variant.
const RESENT_SLICES_MIN: usize = 3;
/// Tolerated usage of the connection-tracking table.
const CONNTRACK_MAX: f64 = 0.5;
/// A client thread busier than this is itself the limit.
pub(crate) const CLIENT_BUSY_MAX: f64 = 0.9;
/// An open loop that achieves less than this share of its offered rate is unsustained.
pub(crate) const ACHIEVED_MIN: f64 = 0.99;
/// Tolerated 99th percentile of the client's lateness, absolute or as a share of the median
/// latency.
const LATENESS_MAX: Nanos = Nanos::from_micros(100);
const LATENESS_SHARE_MAX: f64 = 0.05;
/// Changes of level are looked for if slices have at least this many requests on average.
const DRIFT_REQUESTS_MIN: f64 = 50.0;

/// Collects findings about one block.
pub(crate) struct Inspector {
    pub(crate) block: u32,
    /// Whether the client shares its CPUs.
    pub(crate) client_shares: bool,
    pub(crate) findings: Vec<Finding>,
}

impl Inspector {
    pub(crate) fn find(&mut self, severity: Severity, variant: Option<usize>, fact: Fact) {
        let variant = variant.map(|v| v as u32);
        self.findings.push(Finding { severity, block: Some(self.block), variant, fact });
    }

    /// All checks of a single block; `compared` says whether the part compares its variants.
    pub(crate) fn inspect(
        &mut self,
        outcome: &BlockOutcome,
        offers: &[SettledOffer],
        change: Option<&host::SnapshotChange>,
        compared: bool,
    ) {
        let is_lost = |failure: &BlockFailure| matches!(failure.fact, Fact::MachineLost { .. });
        for ended in &outcome.ended {
            let v = Some(ended.life.variant as usize);
            let first = self.findings.len();
            self.failures(ended, offers, compared);
            if outcome.failure.as_ref().is_some_and(is_lost) {
                // Servers on a machine that was lost are stopped there.
                self.soften(first);
            }
            self.actions(ended);
            self.ledger(ended);
            for trial_sum in &ended.trial_sums {
                self.lateness(v, trial_sum);
                self.drift(v, trial_sum);
                let first = self.findings.len();
                self.counters(v, trial_sum);
                if trial_sum.disruption.is_some() && !compared {
                    self.soften(first);
                }
            }
            for killed in &ended.killed {
                self.find(Severity::Note, v, Fact::Killed { message: killed.clone() });
            }
        }
        if let Some(BlockFailure { variant, fact }) = &outcome.failure {
            self.find(Severity::Invalid, Some(*variant), fact.clone());
        }
        for (variant, process) in &outcome.unpinned {
            let fact = Fact::Unpinned { process: process.clone() };
            self.find(Severity::Invalid, Some(*variant), fact);
        }
        if let Some((before, after)) = &outcome.governors {
            let (before, after) = (before.clone(), after.clone());
            self.find(Severity::Note, None, Fact::Governor { before, after });
        }
        if let Some(share) = change.and_then(|change| change.conntrack_share)
            && share > CONNTRACK_MAX
        {
            let fact = Fact::Conntrack { share, limit: CONNTRACK_MAX };
            self.find(Severity::Invalid, None, fact);
        }
    }

    /// Makes the findings from `first` on notes.
    fn soften(&mut self, first: usize) {
        for finding in &mut self.findings[first..] {
            finding.severity = Severity::Note;
        }
    }

    fn ledger(&mut self, ended: &VariantResult) {
        let v = Some(ended.life.variant as usize);
        if let Some(error) = &ended.served_error {
            let fact = Fact::ServedUnreadable { error: error.clone() };
            self.find(Severity::Invalid, v, fact);
        }
        let (trials, session) = (&ended.by_trials, &ended.life.ledger.counts);
        if (trials.sent, trials.completed, trials.failed)
            != (session.sent, session.completed, session.failed)
        {
            let fact = Fact::TrialsDiffer { trials: trials.sent, session: session.sent };
            self.find(Severity::Invalid, v, fact);
        }
        for gap in ended.life.ledger.audit() {
            if gap.law == Law::Served && ended.is_within_losses(gap.left) {
                continue;
            }
            self.find(Severity::Invalid, v, Fact::Ledger { gap });
        }
        self.arrivals(ended);
    }

    /// Trials of which the server's side counted something else, although its count of their sum is
    /// right.
    fn arrivals(&mut self, ended: &VariantResult) {
        let of_life = ended.life.ledger.audit();
        if of_life.iter().any(|gap| gap.law == Law::Served) || ended.life.ledger.served.is_none() {
            return;
        }
        let v = Some(ended.life.variant as usize);
        for trial_sum in ended.trial_sums.iter().filter(|sum| sum.arrivals == Some(None)) {
            let fact = Fact::Uncounted { offer: trial_sum.offer };
            self.find(Severity::Invalid, v, fact);
        }
    }

    /// Steps of actions that did not do what they were to do: the trial is not what the plan says.
    fn actions(&mut self, ended: &VariantResult) {
        let v = Some(ended.life.variant as usize);
        for disruption in ended.trial_sums.iter().filter_map(|sum| sum.disruption.as_ref()) {
            for fact in failures(&disruption.actions, ended.commands_said.as_ref()) {
                self.find(Severity::Invalid, v, fact);
            }
        }
    }

    fn failures(&mut self, ended: &VariantResult, offers: &[SettledOffer], compared: bool) {
        let v = Some(ended.life.variant as usize);
        for trial_sum in &ended.trial_sums {
            let open = offers
                .iter()
                .any(|o| o.offer == trial_sum.offer && matches!(o.mode, Mode::Open { .. }));
            let first = self.findings.len();
            self.failures_of(v, trial_sum, open, ended.last_log_line());
            // What an action costs is the result, unless figures of the variants are compared.
            let caused = trial_sum.disruption.as_ref().is_some_and(|d| d.failed_before == 0);
            if caused && !compared {
                self.soften(first);
            }
        }
    }

    /// Failures of one trial beyond what its loop tolerates.
    pub(crate) fn failures_of(
        &mut self,
        v: Option<usize>,
        trial_sum: &TrialSum,
        open: bool,
        log: Option<String>,
    ) {
        let tolerance = if open { Tolerance::OPEN } else { Tolerance::CLOSED };
        let ledger = ledger::Ledger { counts: trial_sum.counts, ..ledger::Ledger::default() };
        if ledger.fails(tolerance) {
            let fact = Fact::Failures {
                offer: trial_sum.offer,
                failed: trial_sum.counts.failed,
                sent: trial_sum.counts.sent,
                kinds: trial_sum.errors.clone(),
                log,
            };
            self.find(Severity::Invalid, v, fact);
        }
    }

    /// Late sending affects only the latency of an open loop, which is measured from the due
    /// instant and so includes the lateness: a warning. Whether it affects one variant only is
    /// checked over all blocks.
    pub(crate) fn lateness(&mut self, v: Option<usize>, trial_sum: &TrialSum) {
        if trial_sum.offered_per_s.is_none() {
            return;
        }
        let Some((p99, median)) = trial_sum.lateness() else { return };
        let limit = LATENESS_MAX.max(Nanos((median.0 as f64 * LATENESS_SHARE_MAX) as u64));
        if p99 > limit {
            let fact = Fact::Lateness { p99, limit, shared_cpus: self.client_shares };
            self.find(Severity::Warning, v, fact);
        }
    }

    fn drift(&mut self, v: Option<usize>, trial_sum: &TrialSum) {
        if trial_sum.offer != Offer::Closed {
            return;
        }
        if let Some(change) = drift_of_slices(&trial_sum.slice_rates(), trial_sum.window.completed)
        {
            self.find(Severity::Note, v, Fact::Drift { change });
        }
    }

    /// Increases of the kernel's counters of connection trouble during this variant's slices.
    pub(crate) fn counters(&mut self, v: Option<usize>, trial_sum: &TrialSum) {
        if trial_sum.source_changes > 0 {
            self.find(Severity::Note, v, Fact::Ports { changes: trial_sum.source_changes });
        }
        for Rise { counter, all, ours } in
            rises(trial_sum.slices.iter().flat_map(TrialSlice::trouble))
        {
            let (severity, fact) = trouble(counter, if ours > 0 { ours } else { all }, ours > 0);
            self.find(severity, v, fact);
        }
    }
}

/// The meaning of an increase; `waited` says whether a request took as long as such trouble takes, in
/// a slice that it can have hit. The counters cover the whole machine, so without such a request the
/// connection was another program's.
fn trouble(counter: &str, rise: u64, waited: bool) -> (Severity, Fact) {
    let counter = counter.to_owned();
    match counter.as_str() {
        "TCPTimeWaitOverflow" => (Severity::Note, Fact::TimeWait { rise }),
        "ListenOverflows" | "ListenDrops" => {
            let severity = if waited { Severity::Invalid } else { Severity::Note };
            (severity, Fact::AcceptQueue { counter, rise, waited })
        }
        _ => (Severity::Note, Fact::Resent { counter, rise, waited }),
    }
}

/// The change of level over these slice rates; `None` without one, or if slices have so few
/// requests that their number alone makes the rates jump.
pub(crate) fn drift_of_slices(rates: &[f64], completed: u64) -> Option<f64> {
    let enough = completed as f64 >= DRIFT_REQUESTS_MIN * rates.len() as f64;
    // From nothing at all, no share of change can be told.
    enough
        .then(|| stats::drift(rates))
        .flatten()
        .map(|drift| drift.change)
        .filter(|c| c.is_finite())
}

/// The increase of one of the kernel's counters over the slices of a trial.
#[derive(Debug, PartialEq)]
struct Rise {
    counter: &'static str,
    /// Its increase in all slices.
    all: u64,
    /// Its increase in slices whose own connections it can have hit.
    ours: u64,
}

/// The counters that increased over the slices with this trouble.
fn rises(slices: impl Iterator<Item = Trouble>) -> Vec<Rise> {
    let mut sums: Vec<Rise> = Vec::new();
    for Trouble { counter, rise: all, ours } in slices {
        let ours = if ours { all } else { 0 };
        match sums.iter_mut().find(|sum| sum.counter == counter) {
            Some(sum) => (sum.all, sum.ours) = (sum.all + all, sum.ours + ours),
            None => sums.push(Rise { counter, all, ours }),
        }
    }
    // A connection that finds the queue full is counted as both overflow and drop.
    let overflows = sums.iter().find(|sum| sum.counter == "ListenOverflows").map_or(0, |s| s.all);
    sums.retain(|sum| sum.all > if sum.counter == "ListenDrops" { overflows } else { 0 });
    sums
}

/// One variant's data over all blocks that the checks need.
#[derive(Clone, Debug, Default)]
pub(crate) struct VariantTotals {
    /// Sums of time with an outstanding request, and of connections × window, in the closed loop.
    pub(crate) busy: (f64, f64),
    /// Slices in which packets were retransmitted and a request waited for it.
    pub(crate) resent_slices: usize,
    /// Number of times that a CPU quota throttled client and stack.
    pub(crate) throttled: u64,
    /// Whether any counter of connection trouble could be read.
    pub(crate) counters_seen: bool,
    /// Whether CPU time of the machine and of the stack could be read.
    pub(crate) machine_seen: bool,
    pub(crate) stack_seen: bool,
}

impl VariantTotals {
    pub(crate) fn note(&mut self, ended: &VariantResult, variant: &spec::Variant) {
        let bulk =
            matches!(variant.load.exchange, spec::Exchange::Bulk { .. }) || variant.is_one_way();
        let connections = variant.load.connections;
        for trial_sum in &ended.trial_sums {
            let failed = trial_sum.counts.failed > 0;
            // Failed requests kept connections busy too; there is a separate finding about them.
            if trial_sum.offer == Offer::Closed
                && !bulk
                && !failed
                && trial_sum.window.completed > 0
            {
                let all = f64::from(connections) * trial_sum.window.length.0 as f64;
                self.busy.0 += trial_sum.busy_share(connections) * all;
                self.busy.1 += all;
            }
            for slice in &trial_sum.slices {
                for Trouble { counter, rise, ours } in slice.trouble() {
                    self.counters_seen = true;
                    let resent = matches!(counter, "TCPTimeouts" | "TCPSynRetrans") && rise > 0;
                    self.resent_slices += usize::from(resent && ours);
                }
                self.throttled += slice.cost.throttled.unwrap_or(0);
                self.machine_seen |= slice.cost.activity.busy.is_some();
                self.stack_seen |= slice.cost.stack_cpu.is_some();
            }
        }
    }
}

/// Checks of all blocks together.
pub(crate) fn over_all_blocks(part: &spec::Part, all_totals: &[VariantTotals]) -> Vec<Finding> {
    let mut found = Vec::new();
    let ran = |totals: &VariantTotals| totals.busy.1 > 0.0 || totals.stack_seen;
    for (v, totals) in all_totals.iter().enumerate().filter(|(_, totals)| ran(totals)) {
        // Little's law, L = λW, measured directly on the windows: L is the time that requests were
        // outstanding, whatever their edges, so it is exact.
        let idle = 1.0 - totals.busy.0 / totals.busy.1;
        if idle > IDLE_MAX {
            let connections = part.variants[v].load.connections;
            let fact = Fact::Idle { connections, share: idle, limit: IDLE_MAX };
            found.push(Finding::of_variant(Severity::Invalid, v, fact));
        }
        let others = all_totals.iter().enumerate().filter(|(w, _)| *w != v);
        let alone = others.map(|(_, other)| other.resent_slices).sum::<usize>() == 0;
        if totals.resent_slices >= RESENT_SLICES_MIN && alone && all_totals.len() > 1 {
            let rise = totals.resent_slices as u64;
            let counter = "TCPTimeouts".to_owned();
            let fact = Fact::Resent { counter, rise, waited: true };
            found.push(Finding::of_variant(Severity::Invalid, v, fact));
        }
    }
    let throttled: u64 = all_totals.iter().map(|totals| totals.throttled).sum();
    if throttled > 0 {
        let (severity, fact) = (Severity::Warning, Fact::Throttled { times: throttled });
        found.push(Finding { severity, block: None, variant: None, fact });
    }
    let any = |seen: fn(&VariantTotals) -> bool| all_totals.iter().any(seen);
    let unseen = [
        (any(|c| c.counters_seen), UncheckedInput::TcpCounters),
        (any(|c| c.machine_seen), UncheckedInput::MachineCpu),
        (any(|c| c.stack_seen), UncheckedInput::StackCpu),
    ];
    let ran = all_totals.iter().any(ran);
    found.extend(unseen.into_iter().filter(|(seen, _)| !seen && ran).map(|(_, what)| Finding {
        severity: Severity::Note,
        block: None,
        variant: None,
        fact: Fact::Unchecked { what },
    }));
    found
}

/// Whether a finding that forbids verdicts affects this metric under this offer.
pub(crate) fn touches(fact: &Fact, metric: Metric, offer: Offer) -> bool {
    match fact {
        Fact::Idle { .. } => offer == Offer::Closed && metric != Metric::Memory,
        Fact::Edges { .. } | Fact::LongStops { .. } => {
            offer == Offer::Closed && metric == Metric::Throughput
        }
        Fact::Lateness { .. } | Fact::Unsustained { .. } => {
            offer == Offer::Open && matches!(metric, Metric::P50 | Metric::P99)
        }
        Fact::Uneven { source: Disturber::Lateness, .. } => {
            offer == Offer::Open && matches!(metric, Metric::P50 | Metric::P99)
        }
        Fact::Uneven { .. } => metric != Metric::Memory,
        _ => true,
    }
}

/// The bias of a metric that a finding bounds.
fn bounded(fact: &Fact, metric: Metric, offer: Offer) -> Option<Bias> {
    let Fact::Uneven { source, log_bound: Some(log_bound), .. } = fact else { return None };
    // What is taken delays whole requests, so it can move a percentile by any factor. CPU time per
    // request contains at most what the hypervisor took, if the kernel charges that to the stack;
    // what other processes do to caches has no bound.
    let cause = match (source, metric) {
        (Disturber::Steal, Metric::Throughput | Metric::Cpu) => BiasCause::Steal,
        (Disturber::OtherProcesses, Metric::Throughput) => BiasCause::OtherProcesses,
        (Disturber::Lateness, Metric::P50) if offer == Offer::Open => BiasCause::Lateness,
        _ => return None,
    };
    Some(Bias { cause, log_bound: *log_bound })
}

/// Whether disturbances of this kind can be bounded for this metric.
pub(crate) fn is_boundable(source: Disturber, metric: Metric, offer: Offer) -> bool {
    let fact =
        Fact::Uneven { source, other: 0, here: 0.0, there: 0.0, p: 0.0, log_bound: Some(0.0) };
    !touches(&fact, metric, offer) || bounded(&fact, metric, offer).is_some()
}

/// The findings about the comparison of two variants that affect this metric, by index.
fn affecting(
    part: &Part,
    sides: [u32; 2],
    metric: Metric,
    offer: Offer,
) -> impl Iterator<Item = (u32, &Finding)> {
    let concerns = move |finding: &Finding| match (&finding.fact, finding.variant) {
        (Fact::Uneven { other, .. }, Some(v)) => sides.contains(&v) && sides.contains(other),
        (_, variant) => variant.is_none_or(|v| sides.contains(&v)),
    };
    (0..).zip(&part.findings).filter(move |(_, f)| concerns(f) && touches(&f.fact, metric, offer))
}

/// The findings that forbid a verdict on this metric between two variants, by index. A bias forbids
/// the metrics for which it has no bound, whatever it does to others.
pub(crate) fn forbidding(part: &Part, sides: [u32; 2], metric: Metric, offer: Offer) -> Vec<u32> {
    let forbids = |finding: &Finding| match &finding.fact {
        fact @ Fact::Uneven { .. } => bounded(fact, metric, offer).is_none(),
        _ => finding.is_invalid(),
    };
    affecting(part, sides, metric, offer)
        .filter(|(_, f)| forbids(f))
        .map(|(index, _)| index)
        .collect()
}

/// The bounded biases of this metric between two variants.
pub(crate) fn biases(part: &Part, sides: [u32; 2], metric: Metric, offer: Offer) -> Vec<Bias> {
    affecting(part, sides, metric, offer)
        .filter_map(|(_, finding)| bounded(&finding.fact, metric, offer))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_constant_server_does_not_drift() {
        // 10 connections, 50 ms per request: slices of 100 ms contain 10, 20 or 30 requests.
        let rates: Vec<f64> = (0..40).map(|i| if i < 20 { 200.0 } else { 300.0 }).collect();
        assert_eq!(drift_of_slices(&rates, 800), None);
        assert!(drift_of_slices(&rates, 80_000).is_some());
    }

    #[test]
    fn lateness_of_the_open_loop_never_touches_throughput() {
        let late = Fact::Uneven {
            source: Disturber::Lateness,
            other: 1,
            here: 1e-3,
            there: 1e-4,
            p: 1e-6,
            log_bound: None,
        };
        assert!(touches(&late, Metric::P99, Offer::Open));
        assert!(!touches(&late, Metric::Throughput, Offer::Closed));
        assert!(!touches(&late, Metric::Cpu, Offer::Closed));
        let gap = ledger::Discrepancy { law: ledger::Law::Served, left: 1, right: 2 };
        assert!(touches(&Fact::Ledger { gap }, Metric::Throughput, Offer::Closed));
    }

    #[test]
    fn connections_turned_away_while_a_variant_opened_none_are_not_blamed_on_it() {
        let trouble = |counter, rise, ours| Trouble { counter, rise, ours };
        // A full queue counts as overflow and drop; ten connections were kept in all but one slice.
        let slices = [
            trouble("ListenOverflows", 58, false),
            trouble("ListenDrops", 58, false),
            trouble("ListenOverflows", 0, true),
            trouble("TCPTimeouts", 2, true),
        ];
        let rise = |counter, all, ours| Rise { counter, all, ours };
        let found = rises(slices.into_iter());
        assert_eq!(found, [rise("ListenOverflows", 58, 0), rise("TCPTimeouts", 2, 2)]);
        let own = rises([trouble("ListenDrops", 3, true)].into_iter());
        assert_eq!(own, [rise("ListenDrops", 3, 3)]);
    }

    #[test]
    fn a_full_queue_of_another_program_forbids_nothing() {
        assert_eq!(trouble("ListenOverflows", 5, true).0, Severity::Invalid);
        assert_eq!(trouble("ListenDrops", 5, true).0, Severity::Invalid);
        assert_eq!(trouble("ListenOverflows", 5, false).0, Severity::Note);
    }
}
