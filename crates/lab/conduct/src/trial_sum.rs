//! Adds up the slices of one variant under one offer to a trial.

use base::{Nanos, Timestamp};
use drive::{
    ConnectionsLimit, Handshakes, Histogram, KindCounts, Life, Observation, Slice, SparseHistogram,
    StreamTimes, Window,
};
use ledger::{Counts, Errors, Ledger, add_errors};
use record::{Disruption, Distribution, Offer, ThreadUse, Trial};
use stage::server_count::Count;

use crate::SliceSeen;
use crate::machine_activity::Activity;

/// Minimum cost of a lost packet: Linux retransmits after 200 ms (TCP_RTO_MIN), a SYN after a
/// second (RFC 6298). The counters cover the whole machine, and also rise when a port is reused
/// whose old connection still lingers, which resolves at once.
const RESENT_AFTER: Nanos = Nanos::from_millis(200);

/// Stalled requests of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StalledRequests {
    pub(crate) round: u32,
    pub(crate) requests: u64,
    /// The stalls: requests that ended together are of the same one.
    pub(crate) stalls: u64,
    /// What they took beyond the limit, added up.
    pub(crate) beyond: Nanos,
    /// The longest of these times.
    pub(crate) longest: Nanos,
    /// All requests of the slice.
    pub(crate) of: u64,
}

/// CPU time of the stack during a slice, and the machine's activity activity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) stack_cpu: Option<Nanos>,
    pub(crate) activity: Activity,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Number of times that a quota throttled client and stack; `None` if unknown.
    pub(crate) throttled: Option<u64>,
}

/// One slice of a trial.
#[derive(Debug, Default)]
pub(crate) struct TrialSlice {
    pub(crate) round: u32,
    pub(crate) window: Window,
    pub(crate) cost: Cost,
    /// How long the slice waited for its last requests.
    drain: Nanos,
    /// For how long no request ended around the end of its window, unless all connections only waited:
    /// [`Observation::last_before`] and [`Observation::first_after`].
    pub(crate) stopped: Option<Nanos>,
    /// Lead-in and window.
    pub(crate) length: Nanos,
    /// Connections opened in it.
    pub(crate) connects: u64,
    /// Whether a request failed, or took as long as a lost packet costs.
    pub(crate) stalled: bool,
    /// [`Observation::stalls`].
    stalls: u64,
    service_time: SparseHistogram,
    latency: SparseHistogram,
    lateness: SparseHistogram,
    /// Times of each kind of request, if there are several.
    kind_times: Vec<SparseHistogram>,
    /// When the parts of responses arrived, if that was of interest.
    stream: Option<Box<StreamTimes>>,
}

/// The increase of one of the kernel's counters during a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) counter: &'static str,
    pub(crate) rise: u64,
    /// Whether it can have hit the slice's own connections.
    pub(crate) ours: bool,
}

/// Whether an increase of a counter, which is that of the whole machine, can have hit the connections
/// of a slice that opened `connects` of them. Trouble with opening connections can only hit a slice
/// that opened some, and all trouble makes requests wait or fail (`stalled`).
fn may_be_ours(counter: &str, connects: u64, stalled: bool) -> bool {
    stalled && (counter == "TCPTimeouts" || connects > 0)
}

impl TrialSlice {
    /// Increases of the kernel's counters of connection trouble during it.
    pub(crate) fn trouble(&self) -> impl Iterator<Item = Trouble> + '_ {
        let change = self.cost.activity.counters.iter();
        change.flat_map(|change| change.tcp_trouble()).filter_map(|(counter, rise)| {
            let ours = may_be_ours(counter, self.connects, self.stalled);
            Some(Trouble { counter, rise: rise?, ours })
        })
    }
}

pub(crate) fn empty() -> Histogram {
    Histogram::new(3).expect("three significant digits are within 0 to 5")
}

/// The sum of a trial's slices so far.
#[derive(Debug)]
pub(crate) struct TrialSum {
    pub(crate) offer: Offer,
    pub(crate) offered_per_s: Option<f64>,
    pub(crate) counts: Counts,
    pub(crate) errors: Errors,
    /// Sum of all windows, including those of rounds that are left out.
    pub(crate) window: Window,
    pub(crate) slices: Vec<TrialSlice>,
    /// Most connections in use at once, and their limit.
    pub(crate) connections_used: u32,
    pub(crate) connections_limit: ConnectionsLimit,
    /// Requests dropped because every allowed connection was busy.
    pub(crate) waiting_for_connections: u64,
    /// Counts and errors of each kind of request, if there are several.
    pub(crate) kinds: Vec<(Counts, Errors)>,
    /// TLS handshakes, if there were any.
    handshakes: Option<Handshakes>,
    /// Times that a source address ran out of ports.
    pub(crate) source_changes: u64,
    /// Observations of each slice, for the series.
    pub(crate) seen: Vec<SliceSeen>,
    /// What was done to the stack meanwhile, if anything.
    pub(crate) disruption: Option<Disruption>,
    /// Where the CPU time of the stack went, if that was sampled.
    pub(crate) profile: Option<record::Profile>,
    /// What the server's side has counted of its slices: `None` if it counts only whole lives, an
    /// inner `None` if a slice's count did not add up.
    pub(crate) arrivals: Option<Option<Count>>,
    started: Timestamp,
    client: Vec<ThreadUse>,
    completed_by_step: Vec<u64>,
    step: Nanos,
}

impl TrialSum {
    pub(crate) fn new(offer: Offer, offered_per_s: Option<f64>, step: Nanos) -> TrialSum {
        TrialSum {
            offer,
            offered_per_s,
            counts: Counts::default(),
            errors: Errors::new(),
            window: Window::default(),
            slices: Vec::new(),
            connections_used: 0,
            connections_limit: ConnectionsLimit::default(),
            waiting_for_connections: 0,
            kinds: Vec::new(),
            handshakes: None,
            source_changes: 0,
            seen: Vec::new(),
            disruption: None,
            profile: None,
            arrivals: None,
            started: base::timestamp_now(),
            client: Vec::new(),
            completed_by_step: Vec::new(),
            step,
        }
    }

    /// Adds requests outside any complete slice, such as the probes, that began at `started`.
    pub(crate) fn add_life(&mut self, life: &Life, started: Timestamp, elapsed: Nanos) {
        let Life { counts, errors, kinds } = life;
        self.counts.merge(counts);
        self.add_kinds(kinds);
        add_errors(&mut self.errors, errors);
        self.completed_by_step.push(counts.completed);
        self.seen.push(SliceSeen::of_life(started, elapsed, counts));
    }

    /// Adds a slice of `round` that began at `started`.
    pub(crate) fn add(
        &mut self,
        seen: &Observation,
        cost: Cost,
        round: u32,
        started: Timestamp,
        slice: &Slice,
    ) {
        if self.slices.is_empty() && self.seen.is_empty() {
            self.started = started;
        }
        self.seen.push(SliceSeen::new(started, slice.lead_in, seen));
        // What a slice left in flight is final, because its connections are closed, so it is added
        // up.
        self.counts.merge(&seen.counts);
        add_errors(&mut self.errors, &seen.errors);
        add_window(&mut self.window, &seen.window);
        self.slices.push(TrialSlice {
            round,
            window: seen.window,
            connects: seen.connects,
            stalled: seen.counts.failed > 0 || seen.service_time.max() >= RESENT_AFTER.0,
            stalls: seen.stalls,
            cost,
            drain: seen.elapsed.saturating_sub(slice.lead_in + slice.window),
            stopped: seen
                .first_after
                .map(|after| after + seen.last_before.unwrap_or(slice.lead_in + slice.window)),
            length: slice.lead_in + slice.window,
            service_time: SparseHistogram::of(&seen.service_time),
            latency: SparseHistogram::of(&seen.latency),
            lateness: SparseHistogram::of(&seen.lateness),
            kind_times: seen.kinds.iter().map(|kind| kind.times.clone()).collect(),
            stream: seen.stream.clone(),
        });
        self.add_kinds(&seen.kinds);
        self.client.resize(self.client.len().max(seen.threads.len()), ThreadUse::default());
        for (sum, thread) in self.client.iter_mut().zip(&seen.threads) {
            sum.cpu += thread.cpu;
            sum.wall += thread.wall;
        }
        self.completed_by_step.extend(&seen.completed_by_step);
        self.source_changes += seen.source_changes;
        match (&mut self.handshakes, &seen.handshakes) {
            (Some(sum), Some(part)) => sum.merge(part),
            (sum, Some(part)) => *sum = Some((**part).clone()),
            (_, None) => {}
        }
        self.connections_used = self.connections_used.max(seen.connections_max_used);
        self.connections_limit = seen.connections_limit;
        self.waiting_for_connections += seen.waiting_for_connections;
    }

    /// Adds what the server's side has counted of a slice; `None` if that did not add up.
    pub(crate) fn add_arrivals(&mut self, of_slice: Option<Count>) {
        let before = self.arrivals.unwrap_or(Some(Count::default()));
        self.arrivals = Some(before.zip(of_slice).map(|(a, b)| Count {
            served: a.served + b.served,
            discarded: a.discarded + b.discarded,
        }));
    }

    /// Moves the requests from completed to failed that the session moved between two looks at its
    /// life: closing the connections revealed unexpected bytes after their responses, or their
    /// bodies differed although the body does not vary.
    pub(crate) fn retract_between(&mut self, before: &Life, after: &Life) {
        if after.counts.completed >= before.counts.completed {
            return;
        }
        let errors = difference(&after.errors, &before.errors);
        self.retract(before.counts.completed - after.counts.completed, &errors);
        for ((counts, errors), (before, after)) in
            self.kinds.iter_mut().zip(before.kinds.iter().zip(&after.kinds))
        {
            let retracted = before.counts.completed.saturating_sub(after.counts.completed);
            let retracted = retracted.min(counts.completed);
            counts.completed -= retracted;
            counts.failed += retracted;
            add_errors(errors, &difference(&after.errors, &before.errors));
        }
    }

    fn add_kinds(&mut self, kinds: &[KindCounts]) {
        self.kinds.resize(self.kinds.len().max(kinds.len()), Default::default());
        for ((counts, errors), kind) in self.kinds.iter_mut().zip(kinds) {
            counts.merge(&kind.counts);
            add_errors(errors, &kind.errors);
        }
    }

    /// Moves requests from completed to failed.
    fn retract(&mut self, requests: u64, errors: &Errors) {
        let mut left = requests.min(self.counts.completed);
        self.counts.completed -= left;
        self.counts.failed += left;
        add_errors(&mut self.errors, errors);
        self.seen.iter_mut().rev().fold(left, |left, seen| seen.retract(left));
        // They are the last ones that completed.
        for step in self.completed_by_step.iter_mut().rev() {
            let taken = left.min(*step);
            *step -= taken;
            left -= taken;
        }
    }

    /// CPUs that others and the hypervisor used during each slice; zero if unknown.
    pub(crate) fn taken_cpus(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.slices_with_others().map(|(slice, other_cpus)| {
            let stolen = slice.cost.activity.stolen_cpus.unwrap_or(0.0);
            (slice.round, other_cpus.unwrap_or(0.0) + stolen)
        })
    }

    /// Each slice with the CPUs that others used during it; `None` if unknown.
    ///
    /// Interrupts that the kernel charges to no process are the load's own. They are known in ticks of
    /// 10 ms, nearly half a slice, so each slice is assumed to have its part of the trial's.
    pub(crate) fn slices_with_others(&self) -> impl Iterator<Item = (&TrialSlice, Option<f64>)> {
        let sum = |of: fn(&Activity) -> Nanos| -> u64 {
            self.slices.iter().map(|slice| of(&slice.cost.activity).0).sum()
        };
        let interrupts = sum(|a| a.interrupts) as f64 / sum(|a| a.elapsed).max(1) as f64;
        self.slices.iter().map(move |slice| {
            let Cost { activity, stack_cpu, .. } = &slice.cost;
            (slice, activity.other_cpus(*stack_cpu, interrupts))
        })
    }

    /// Throughput of each slice, to detect drift within the trial, without slices of a continued loop
    /// in which hardly any time counted.
    pub(crate) fn slice_rates(&self) -> Vec<f64> {
        let mean = self.window.length.as_secs_f64() / self.slices.len().max(1) as f64;
        let rate = |slice: &TrialSlice| {
            slice.window.completed as f64 / slice.window.length.as_secs_f64().max(1e-9)
        };
        let counts = |slice: &&TrialSlice| slice.window.length.as_secs_f64() >= mean / 2.0;
        self.slices.iter().filter(counts).map(rate).collect()
    }

    /// The trial to record; rounds for which `kept` is false are in its ledger but in none of its
    /// figures.
    pub(crate) fn trial(
        &self,
        variant: usize,
        env_padding_bytes: u32,
        kept: &dyn Fn(u32) -> bool,
    ) -> Trial {
        let open = self.offered_per_s.is_some();
        let mut window = Window::default();
        let (mut service_time, mut latency, mut lateness) = (empty(), empty(), empty());
        let mut slices = Vec::with_capacity(self.slices.len());
        for (slice, other_cpus) in self.slices_with_others() {
            let kept = kept(slice.round);
            slices.push(record::Slice {
                round: slice.round,
                window: slice.window.length,
                completed: slice.window.completed,
                other_cpus,
                stolen: slice.cost.activity.stolen,
                kept,
            });
            if kept {
                add_window(&mut window, &slice.window);
                slice.service_time.add_to(&mut service_time);
                slice.latency.add_to(&mut latency);
                slice.lateness.add_to(&mut lateness);
            }
        }
        let sum = |of: &dyn Fn(&TrialSlice) -> Option<Nanos>| -> Option<Nanos> {
            self.slices.iter().try_fold(Nanos::ZERO, |sum, slice| Some(sum + of(slice)?))
        };
        let arrivals = self.arrivals.flatten();
        Trial {
            variant: variant as u32,
            offer: self.offer,
            offered_per_s: self.offered_per_s,
            started: self.started,
            slices,
            window: window.length,
            completed_in_window: window.completed,
            payload_bytes: window.payload_bytes,
            ledger: Ledger {
                counts: self.counts,
                served: arrivals.map(|count| count.served),
                discarded: arrivals.map(|count| count.discarded),
                series: None,
                errors: self.errors.clone(),
            },
            latency: open.then(|| Distribution::from_histogram(&latency)),
            service_time: Distribution::from_histogram(&service_time),
            lateness: open.then(|| Distribution::from_histogram(&lateness)),
            stack_cpu: sum(&|slice| slice.cost.stack_cpu),
            machine_busy: sum(&|slice| slice.cost.activity.busy).map(|busy| {
                let of = |slice: &TrialSlice| slice.cost.activity.interrupts;
                self.slices.iter().fold(busy, |busy, slice| busy.saturating_sub(of(slice)))
            }),
            client: self.client.clone(),
            peak_memory_bytes: self.slices.iter().filter_map(|s| s.cost.peak_memory_bytes).max(),
            completed_by_step: self.completed_by_step.clone(),
            step: self.step,
            env_padding_bytes,
            handshakes: self.handshakes.as_ref().map(|of| record::Handshakes {
                version: of.version.clone(),
                cipher: of.cipher.clone(),
                took: Distribution::from_histogram(&of.took),
                resumed: of.resumed,
            }),
            disruption: self.disruption.clone(),
            profile: self.profile.clone(),
            kinds: self.kinds(kept),
            stream: self.stream(kept),
        }
    }

    /// Events and the parts of responses: all events, and the rest of rounds that are kept.
    fn stream(&self, kept: &dyn Fn(u32) -> bool) -> Option<record::StreamTimes> {
        let mut sum: Option<StreamTimes> = None;
        let mut events = 0;
        for slice in &self.slices {
            let Some(stream) = &slice.stream else { continue };
            let sum = sum.get_or_insert_default();
            events += stream.events;
            if kept(slice.round) {
                sum.merge(stream);
            }
        }
        let sum = sum?;
        Some(record::StreamTimes {
            events,
            events_in_window: sum.events_in_window,
            first_byte: Distribution::from_histogram(&sum.first_byte),
            first_event: Distribution::from_histogram(&sum.first_event),
            gaps: Distribution::from_histogram(&sum.gaps),
        })
    }

    /// Each kind of request: all counts, and the times of rounds that are kept.
    fn kinds(&self, kept: &dyn Fn(u32) -> bool) -> Vec<record::KindTrial> {
        let times = |kind: usize| {
            let mut sum = empty();
            let kept = self.slices.iter().filter(|slice| kept(slice.round));
            kept.filter_map(|slice| slice.kind_times.get(kind)).for_each(|t| t.add_to(&mut sum));
            Distribution::from_histogram(&sum)
        };
        let kinds = self.kinds.iter().enumerate();
        kinds
            .map(|(kind, (counts, errors))| record::KindTrial {
                counts: *counts,
                errors: errors.clone(),
                times: times(kind),
            })
            .collect()
    }

    /// The share of the window in which a request was outstanding, over all `connections`, 0 to 1;
    /// the difference from 1 is at least the time that the client needs between requests.
    pub(crate) fn busy_share(&self, connections: u32) -> f64 {
        self.window.busy_ns as f64 / self.connection_ns(connections)
    }

    /// The same share by Little's law from the requests that completed in the window: throughput ×
    /// mean service time ÷ connections. It differs from [`TrialSum::busy_share`] by the work that
    /// requests brought into the window, less what they took out.
    pub(crate) fn share_by_littles_law(&self, connections: u32) -> f64 {
        self.window.service_time_sum_ns as f64 / self.connection_ns(connections)
    }

    fn connection_ns(&self, connections: u32) -> f64 {
        (f64::from(connections) * self.window.length.0 as f64).max(1.0)
    }

    /// The service time beyond which requests take at most `share` of the connections' time.
    pub(crate) fn long_service_time(&self, share: f64) -> Nanos {
        long_value(&self.service_times(), share)
    }

    /// The median service time.
    pub(crate) fn median_service_time(&self) -> Nanos {
        Nanos(self.service_times().value_at_quantile(0.5))
    }

    fn service_times(&self) -> Histogram {
        let mut all = empty();
        self.slices.iter().for_each(|slice| slice.service_time.add_to(&mut all));
        all
    }

    /// The median over the slices of their own long service times.
    pub(crate) fn usual_long_service_time(&self, share: f64) -> Nanos {
        usual_long_value(self.slices.iter().map(|slice| &slice.service_time), share)
    }

    /// Whether most requests failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.counts.failed > self.counts.completed
    }

    /// The mean service time, whenever its requests completed; zero without requests.
    pub(crate) fn mean_service_time(&self) -> Nanos {
        let values = self.slices.iter().flat_map(|slice| slice.service_time.counts());
        let (sum, count) = values.fold((0.0, 0), |(sum, n), (value, count)| {
            (sum + *value as f64 * *count as f64, n + count)
        });
        Nanos((sum / count.max(1) as f64) as u64)
    }

    /// The mean time that slices waited for their last requests, without the longest tenth of these
    /// times: a machine that stops once says nothing about the server.
    pub(crate) fn usual_drain(&self) -> Nanos {
        let mut drains: Vec<u64> = self.slices.iter().map(|slice| slice.drain.0).collect();
        drains.sort_unstable();
        drains.truncate((drains.len() * 9).div_ceil(10));
        Nanos(drains.iter().sum::<u64>() / drains.len().max(1) as u64)
    }

    /// A quantile of the latencies of all slices.
    pub(crate) fn latency_at(&self, quantile: f64) -> Nanos {
        let mut all = empty();
        self.slices.iter().for_each(|slice| slice.latency.add_to(&mut all));
        Nanos(all.value_at_quantile(quantile))
    }

    /// The share of the requests due in an open loop's windows that are outstanding at their ends
    /// although the rate is sustained, because they take longer than the lead-in.
    pub(crate) fn outstanding_share(&self) -> f64 {
        let values = self.slices.iter().flat_map(|slice| slice.latency.counts());
        let latencies: Vec<(f64, u64)> =
            values.map(|(value, count)| (*value as f64, *count)).collect();
        let lead_in = |slice: &TrialSlice| slice.length.saturating_sub(slice.window.length);
        let slices: Vec<(f64, f64)> = self
            .slices
            .iter()
            .map(|slice| (lead_in(slice).0 as f64, slice.length.0 as f64))
            .collect();
        stats::outstanding_share(&latencies, &slices)
    }

    /// Stalled requests of each slice: those that took longer than `limit`, in an open loop from the
    /// instant at which they were due.
    pub(crate) fn stalled(&self, limit: Nanos) -> impl Iterator<Item = StalledRequests> + '_ {
        self.slices.iter().map(move |slice| {
            let beyond = |value: u64| Nanos(value.saturating_sub(limit.0));
            let is_open = !slice.latency.counts().is_empty();
            let times = if is_open { slice.latency.counts() } else { slice.service_time.counts() };
            let of = times.iter().map(|(_, count)| count).sum();
            let long = times.iter().filter(move |(value, _)| *value > limit.0);
            let (round, stalls) = (slice.round, slice.stalls);
            let none = StalledRequests { round, stalls, of, ..StalledRequests::default() };
            long.fold(none, |sum, (value, count)| StalledRequests {
                requests: sum.requests + count,
                beyond: sum.beyond + beyond(*value) * *count,
                longest: sum.longest.max(beyond(*value)),
                ..sum
            })
        })
    }

    /// Requests completed in each step of all slices.
    pub(crate) fn completed_by_step(&self) -> &[u64] {
        &self.completed_by_step
    }

    /// The 99th percentile of lateness and the median latency of all slices; `None` without
    /// requests.
    pub(crate) fn lateness(&self) -> Option<(Nanos, Nanos)> {
        let (mut lateness, mut latency) = (empty(), empty());
        for slice in &self.slices {
            slice.lateness.add_to(&mut lateness);
            slice.latency.add_to(&mut latency);
        }
        let at = |histogram: &Histogram, q| Nanos(histogram.value_at_quantile(q));
        (!lateness.is_empty()).then(|| (at(&lateness, 0.99), at(&latency, 0.5)))
    }

    /// Completed requests per second of window.
    pub(crate) fn throughput_per_s(&self) -> f64 {
        self.window.completed as f64 / self.window.length.as_secs_f64().max(1e-9)
    }
}

/// The median of the histograms' long values. While the machine stops, every request takes long: that
/// says nothing about the server.
fn usual_long_value<'a>(
    histograms: impl Iterator<Item = &'a SparseHistogram>,
    share: f64,
) -> Nanos {
    let mut values: Vec<Nanos> = histograms
        .map(|sparse| {
            let mut histogram = empty();
            sparse.add_to(&mut histogram);
            long_value(&histogram, share)
        })
        .collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(Nanos::ZERO)
}

/// The largest value such that the values above it make up at most `share` of the total.
fn long_value(histogram: &Histogram, share: f64) -> Nanos {
    let recorded: Vec<(u64, f64)> = histogram
        .iter_recorded()
        .map(|step| {
            let value = step.value_iterated_to();
            (value, value as f64 * step.count_at_value() as f64)
        })
        .collect();
    let allowed = share * recorded.iter().map(|(_, sum)| sum).sum::<f64>();
    let mut beyond = 0.0;
    for (value, sum) in recorded.into_iter().rev() {
        beyond += sum;
        if beyond > allowed {
            return Nanos(value);
        }
    }
    Nanos::ZERO
}

/// By how much each count of errors rose; those that did not are left out.
pub(crate) fn difference(after: &Errors, before: &Errors) -> Errors {
    let rise = |kind: &str, n: u64| n.saturating_sub(before.get(kind).copied().unwrap_or(0));
    let all = after.iter().map(|(kind, n)| (kind.clone(), rise(kind, *n)));
    all.filter(|(_, n)| *n > 0).collect()
}

fn add_window(sum: &mut Window, part: &Window) {
    sum.length += part.length;
    sum.completed += part.completed;
    sum.due += part.due;
    sum.waiting += part.waiting;
    sum.payload_bytes += part.payload_bytes;
    sum.service_time_sum_ns += part.service_time_sum_ns;
    sum.busy_ns += part.busy_ns;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(counts: &[(u64, u64)]) -> SparseHistogram {
        let mut all = empty();
        counts.iter().for_each(|(value, n)| all.record_n(*value, *n).unwrap());
        SparseHistogram::of(&all)
    }

    #[test]
    fn rounds_with_a_tick_of_the_loads_own_interrupts_were_left_out() {
        let ms = Nanos::from_millis;
        let mut sum = TrialSum::new(Offer::Closed, None, ms(100));
        // Of slices of 25 ms, client and stack use 20, and interrupts 4 more: a tick of 10 ms in two
        // slices of five.
        for (round, ticks) in [1, 0, 0, 1, 0].repeat(12).into_iter().enumerate() {
            let activity = Activity {
                elapsed: ms(25),
                busy: Some(ms(24)),
                interrupts: ms(10 * ticks),
                own_cpu: ms(8),
                ..Activity::default()
            };
            let cost = Cost { stack_cpu: Some(ms(12)), activity, ..Cost::default() };
            sum.slices.push(TrialSlice { round: round as u32, cost, ..TrialSlice::default() });
        }
        let taken: Vec<f64> = sum.taken_cpus().map(|(_, cpus)| cpus).collect();
        assert!(taken.iter().all(|cpus| cpus.abs() < 1e-9), "{taken:?}");
        let trial = sum.trial(0, 0, &|_| true);
        assert_eq!(trial.machine_busy, Some(ms(60 * 20)));
    }

    #[test]
    fn ten_kept_connections_are_not_turned_away() {
        assert!(!may_be_ours("ListenOverflows", 0, true), "it opened none");
        assert!(!may_be_ours("ListenDrops", 40, false), "none of them waited");
        assert!(may_be_ours("ListenOverflows", 40, true));
        assert!(!may_be_ours("TCPSynRetrans", 0, true));
        assert!(may_be_ours("TCPTimeouts", 0, true), "kept connections lose packets too");
        assert!(!may_be_ours("TCPTimeouts", 0, false));
    }

    #[test]
    fn long_requests_weigh_by_the_time_that_they_take() {
        let of = |values: &[(u64, u64)]| {
            let mut histogram = Histogram::new(3).unwrap();
            for (value, count) in values {
                histogram.record_n(*value, *count).unwrap();
            }
            long_value(&histogram, 0.02)
        };
        // One request in 50 takes 1000, the others 1: it takes 95% of the time.
        assert_eq!(of(&[(1, 49), (1000, 1)]), Nanos(1000));
        // One in 100,000 takes 1000: 1% of the time, which is tolerated.
        assert_eq!(of(&[(1, 99_999), (1000, 1)]), Nanos(1));
        assert_eq!(of(&[(7, 3)]), Nanos(7));
        assert_eq!(of(&[]), Nanos::ZERO);
    }

    #[test]
    fn a_machine_that_stopped_during_the_calibration_made_every_window_short() {
        let usual = sparse(&[(2, 100), (3, 20)]);
        let stopped = sparse(&[(2, 60), (26, 10)]);
        let usual_of = |slices: &[&SparseHistogram]| usual_long_value(slices.iter().copied(), 0.02);
        assert_eq!(usual_of(&[&usual, &stopped, &usual, &usual]), Nanos(3));
        assert_eq!(usual_of(&[&stopped, &usual, &stopped]), Nanos(26), "the server is like that");
        assert_eq!(usual_of(&[]), Nanos::ZERO);
    }
}
