//! Checks of one block: what breaks the ledger, what rejects the block, what weakens the result.

use base::Nanos;
use ledger::Tolerance;
use record::{Finding, Severity};
use spec::{Mode, Part};

use crate::block::{BlockOutcome, SettledOffer};
use crate::resident::{Ended, WARM_UP};
use crate::tally::Tally;

/// The largest share of the window in which a closed loop's connections may be without a request.
const IDLE_MAX: f64 = 0.02;
/// Share of CPU time that other guests of the same host may take.
const STEAL_MAX: f64 = 0.02;
/// How much more of the CPU time may be stolen from one variant than from another.
const STEAL_SPREAD_MAX: f64 = 0.01;
/// CPU time, as a share of one CPU, that somebody else may use while a variant is loaded.
const FOREIGN_CPU_MAX: f64 = 0.15;
/// How far the canary loop may be off the run's median. On an idle virtual machine of two
/// CPUs, loops of 100 ms were 5 to 9% off their median every few blocks.
const CANARY_OFF_MAX: f64 = 0.15;
/// What the loss of a packet costs at least: Linux sends again after 200 ms (TCP_RTO_MIN), a
/// SYN after a second (RFC 6298). The counters are the whole machine's, and they also rise
/// when a port is used again that an old connection still held, which is settled at once.
const RESENT_AFTER: Nanos = Nanos::from_millis(200);
/// Share of the connection-tracking table that may be in use.
const CONNTRACK_MAX: f64 = 0.5;
/// A client thread busier than this is the limit itself.
pub(crate) const CLIENT_BUSY_MAX: f64 = 0.9;
/// An open loop that achieves less than this share of its offered rate is unsustained.
pub(crate) const ACHIEVED_MIN: f64 = 0.99;

/// Collects findings about one block.
pub(crate) struct Inspector<'a> {
    pub(crate) part: &'a Part,
    pub(crate) block: u32,
    /// Whether the client has no CPU to itself.
    pub(crate) client_shares: bool,
    pub(crate) findings: Vec<Finding>,
}

impl Inspector<'_> {
    fn find(
        &mut self,
        check: &str,
        severity: Severity,
        variant: Option<usize>,
        (value, limit): (f64, f64),
        sentence: String,
    ) {
        self.findings.push(Finding {
            check: check.to_owned(),
            severity,
            block: Some(self.block),
            variant: variant.map(|v| v as u32),
            value,
            limit,
            sentence,
        });
    }

    /// Everything that can be told from a block on its own.
    pub(crate) fn inspect(
        &mut self,
        outcome: &BlockOutcome,
        offers: &[SettledOffer],
        change: Option<&host::Change>,
    ) {
        for ended in &outcome.ended {
            self.errors(ended, offers);
            self.ledger(ended);
            for tally in &ended.tallies {
                self.little(ended, tally, offers);
                self.lateness(ended, tally);
                self.foreign_cpu(ended, tally);
                self.drift(ended, tally);
                self.ports(ended, tally);
            }
            for killed in &ended.killed {
                let sentence = format!("{}: {killed}", self.name(ended));
                let v = Some(ended.life.variant as usize);
                self.find("stop", Severity::Note, v, (1.0, 0.0), sentence);
            }
        }
        for trouble in &outcome.trouble {
            let v = Some(trouble.variant);
            self.find("stack", Severity::Rejected, v, (1.0, 0.0), trouble.sentence.clone());
        }
        if outcome.throttled {
            let sentence = "a CPU quota throttled the client and the stacks".to_owned();
            self.find("throttling", Severity::Rejected, None, (1.0, 0.0), sentence);
        }
        for sentence in &outcome.unpinned {
            self.find("pinning", Severity::Rejected, None, (1.0, 0.0), sentence.clone());
        }
        for offer in offers {
            self.steal_spread(outcome, offer);
        }
        if let Some((before, after)) = &outcome.governors {
            let sentence = format!(
                "the CPU frequency governor changed from {} to {}",
                before.join(", "),
                after.join(", ")
            );
            self.find("governor", Severity::Rejected, None, (1.0, 0.0), sentence);
        }
        if let Some(change) = change {
            self.machine(change, longest_request(outcome));
        }
    }

    fn name(&self, ended: &Ended) -> &str {
        &self.part.variants[ended.life.variant as usize].name
    }

    fn ledger(&mut self, ended: &Ended) {
        let v = Some(ended.life.variant as usize);
        if let Some(error) = &ended.served_error {
            let sentence =
                format!("{}: the server's count cannot be read: {error}", self.name(ended));
            self.find("ledger", Severity::Invalid, v, (1.0, 0.0), sentence);
        }
        if !ended.trials_add_up {
            let sentence = format!("{}: the trials do not add up to the session", self.name(ended));
            self.find("ledger", Severity::Invalid, v, (1.0, 0.0), sentence);
        }
        // Failures are judged per offer, below; here only sums count.
        for gap in ended.life.ledger.audit(Tolerance { failed_share: 1.0 }) {
            let sentence = format!("{}: {}", self.name(ended), gap.sentence);
            self.find("ledger", Severity::Invalid, v, (gap.difference as f64, 0.0), sentence);
        }
    }

    fn errors(&mut self, ended: &Ended, offers: &[SettledOffer]) {
        let v = Some(ended.life.variant as usize);
        for trial in &ended.trials {
            let open =
                offers.iter().any(|o| o.name == trial.offer && matches!(o.mode, Mode::Open { .. }));
            let tolerance = if open { Tolerance::OPEN } else { Tolerance::CLOSED };
            for gap in trial.ledger.audit(tolerance).iter().filter(|gap| gap.check == "errors") {
                let mut sentence =
                    format!("{}, {}: {}", self.name(ended), trial.offer, gap.sentence);
                if !ended.log_tail.trim().is_empty() {
                    let last = ended.log_tail.trim().lines().last().unwrap_or_default();
                    sentence += &format!(" (last line of its log: {last})");
                }
                self.find("errors", Severity::Invalid, v, (gap.difference as f64, 0.0), sentence);
            }
        }
    }

    fn little(&mut self, ended: &Ended, tally: &Tally, offers: &[SettledOffer]) {
        let closed = offers.iter().any(|o| o.name == tally.offer && o.mode == Mode::Closed);
        let variant = &self.part.variants[ended.life.variant as usize];
        let bulk = matches!(variant.load.exchange, spec::Exchange::Bulk { .. });
        // What failed kept connections busy too; that is told, and condemned, by itself.
        if !closed || bulk || tally.window.completed == 0 || tally.counts.failed > 0 {
            return;
        }
        // Little's law, L = λW, on the window itself: L is the time that requests were under way,
        // whatever their edges, so that nothing blurs it. W of the requests that *ended* in the
        // window would: see `edges`.
        let connections = variant.load.connections;
        let idle = 1.0 - tally.busy_share(connections);
        if idle > IDLE_MAX {
            let sentence = format!(
                "{}: a request was under way on its {connections} connections for only {:.1}% of the time; the client did not keep them busy",
                variant.name,
                100.0 * (1.0 - idle)
            );
            let v = Some(ended.life.variant as usize);
            self.find("little", Severity::Rejected, v, (idle, IDLE_MAX), sentence);
        }
    }

    fn lateness(&mut self, ended: &Ended, tally: &Tally) {
        if tally.offered_per_s.is_none() || tally.offer == WARM_UP || tally.lateness.is_empty() {
            return;
        }
        let late = tally.lateness.value_at_quantile(0.99) as f64;
        let limit = 100_000f64.max(0.05 * tally.latency.value_at_quantile(0.5) as f64);
        if late > limit {
            let mut sentence = format!(
                "{}: the client sent one request in a hundred more than {} late",
                self.name(ended),
                Nanos(late as u64)
            );
            // Whoever lets them share CPUs wants to see them wait for each other, and a latency
            // counts from the instant at which its request was due.
            let severity = if self.client_shares {
                sentence += ", for it shares its CPUs with the stack";
                Severity::Warning
            } else {
                Severity::Rejected
            };
            let v = Some(ended.life.variant as usize);
            self.find("lateness", severity, v, (late, limit), sentence);
        }
    }

    /// Something else on the machine, or another stack that is not idle, took CPU time from this one.
    fn foreign_cpu(&mut self, ended: &Ended, tally: &Tally) {
        let Some(share) = tally.foreign_cpu_share() else { return };
        if tally.offer == WARM_UP || share <= FOREIGN_CPU_MAX {
            return;
        }
        let sentence = format!(
            "while {} was loaded, something other than it and the client used {:.0}% of a CPU",
            self.name(ended),
            100.0 * share
        );
        let v = Some(ended.life.variant as usize);
        self.find("foreign_cpu", Severity::Rejected, v, (share, FOREIGN_CPU_MAX), sentence);
    }

    /// The hypervisor took more from one variant than from another, so they did not run on the same machine.
    fn steal_spread(&mut self, outcome: &BlockOutcome, offer: &SettledOffer) {
        let shares: Vec<(f64, usize)> = outcome
            .ended
            .iter()
            .flat_map(|ended| ended.tallies.iter().map(move |tally| (ended, tally)))
            .filter(|(_, tally)| tally.offer == offer.name)
            .filter_map(|(ended, tally)| Some((tally.stolen_share()?, ended.life.variant as usize)))
            .collect();
        let by_share = |a: &&(f64, usize), b: &&(f64, usize)| a.0.total_cmp(&b.0);
        let (Some(&(least, from_least)), Some(&(most, from_most))) =
            (shares.iter().min_by(by_share), shares.iter().max_by(by_share))
        else {
            return;
        };
        let spread = most - least;
        if spread > STEAL_SPREAD_MAX {
            let name = |v: usize| &self.part.variants[v].name;
            let sentence = format!(
                "other guests of this host took {:.1}% of the CPU time from {} and {:.1}% from {}",
                100.0 * most,
                name(from_most),
                100.0 * least,
                name(from_least)
            );
            self.find("steal", Severity::Rejected, None, (spread, STEAL_SPREAD_MAX), sentence);
        }
    }

    fn ports(&mut self, ended: &Ended, tally: &Tally) {
        if tally.source_changes == 0 {
            return;
        }
        let sentence = format!(
            "{}: one source address ran out of ports, so connections came from several addresses in 127.0.0.0/27",
            self.name(ended)
        );
        let v = Some(ended.life.variant as usize);
        self.find("ports", Severity::Note, v, (tally.source_changes as f64, 0.0), sentence);
    }

    fn drift(&mut self, ended: &Ended, tally: &Tally) {
        if tally.offer != "closed" {
            return;
        }
        if let Some(drift) = stats::drift(&tally.slice_rates) {
            let sentence = format!(
                "{}: throughput changed by {:+.0}% within the block",
                self.name(ended),
                100.0 * drift.change
            );
            let v = Some(ended.life.variant as usize);
            self.find("drift", Severity::Note, v, (drift.change, 0.05), sentence);
        }
    }

    fn machine(&mut self, change: &host::Change, longest: Nanos) {
        if change.steal > STEAL_MAX {
            let sentence = format!(
                "{:.1}% of the CPU time was taken by other guests of this host",
                100.0 * change.steal
            );
            self.find("steal", Severity::Rejected, None, (change.steal, STEAL_MAX), sentence);
        }
        for (counter, rise) in change.tcp_trouble() {
            if rise > 0 && counter == "TCPTimeWaitOverflow" {
                let sentence = format!(
                    "{rise} closed connections skipped TIME_WAIT, because the kernel keeps no more of them"
                );
                self.find("time_wait", Severity::Note, None, (rise as f64, 0.0), sentence);
            } else if rise > 0 && is_resent(counter) && longest < RESENT_AFTER {
                let sentence = format!(
                    "the kernel's {counter} rose by {rise}, though no request took the {RESENT_AFTER} that a lost packet costs"
                );
                self.find("tcp", Severity::Note, None, (rise as f64, 0.0), sentence);
            } else if rise > 0 {
                let sentence = format!("the kernel's {counter} rose by {rise}");
                self.find("tcp", Severity::Rejected, None, (rise as f64, 0.0), sentence);
            }
        }
        if let Some(share) = change.conntrack_share
            && share > CONNTRACK_MAX
        {
            let sentence = format!(
                "the connection-tracking table is {:.0}% full; when it is full, new connections stall",
                100.0 * share
            );
            self.find("conntrack", Severity::Rejected, None, (share, CONNTRACK_MAX), sentence);
        }
    }
}

/// Whether a counter counts packets that were sent again.
fn is_resent(counter: &str) -> bool {
    ["TCPTimeouts", "TCPSynRetrans"].contains(&counter)
}

/// The longest time that a request took in a block, failed ones included.
fn longest_request(outcome: &BlockOutcome) -> Nanos {
    let tallies = outcome.ended.iter().flat_map(|ended| &ended.tallies);
    let failed = tallies.clone().any(|tally| tally.counts.failed > 0);
    let longest = tallies.map(|tally| Nanos(tally.service_time.max())).max();
    if failed { Nanos(u64::MAX) } else { longest.unwrap_or(Nanos::ZERO) }
}

/// Canary loops that are off the median of all loops of the run so far: (index of the block, share off).
///
/// With fewer than four loops there is no median to speak of.
pub(crate) fn canaries_off(canaries: &[[Nanos; 2]]) -> Vec<(usize, f64)> {
    let mut all: Vec<u64> = canaries.iter().flatten().map(|loop_time| loop_time.0).collect();
    if all.len() < 4 {
        return Vec::new();
    }
    all.sort_unstable();
    let median = all[all.len() / 2] as f64;
    let off = |pair: &[Nanos; 2]| {
        pair.iter().map(|t| (t.0 as f64 / median - 1.0).abs()).fold(0.0, f64::max)
    };
    canaries
        .iter()
        .enumerate()
        .map(|(i, pair)| (i, off(pair)))
        .filter(|(_, off)| *off > CANARY_OFF_MAX)
        .collect()
}

/// The sentence and numbers for a canary that was off.
pub(crate) fn canary_finding(block: u32, off: f64) -> Finding {
    Finding {
        check: "canary".to_owned(),
        severity: Severity::Rejected,
        block: Some(block),
        variant: None,
        value: off,
        limit: CANARY_OFF_MAX,
        sentence: format!(
            "a fixed loop took {:.1}% more or less time than usual: the machine was not itself",
            100.0 * off
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_canary_is_told_by_the_median() {
        let usual = [Nanos::from_millis(200), Nanos::from_millis(201)];
        assert_eq!(canaries_off(&[usual]), []);
        let slow = [Nanos::from_millis(200), Nanos::from_millis(260)];
        let off = canaries_off(&[usual, slow, usual, usual]);
        assert_eq!(off.len(), 1);
        assert_eq!(off[0].0, 1);
    }
}
