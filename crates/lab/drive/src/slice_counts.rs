//! One thread's counts of one slice.

use std::collections::BTreeMap;

use base::Nanos;
use ledger::Counts;
use netio::{Handshake, Traffic};

use crate::Fault;
use crate::events::Arrival;
use crate::histogram::{Histogram, histogram};
use crate::kinds::{KindCounts, KindTimes};
use crate::observe::{ConnectionsLimit, Handshakes, Observation, StreamTimes, ThreadUse, Window};
use crate::stall_count::StallCount;

/// The instants of a slice on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceTimes {
    pub(crate) start: Nanos,
    /// Start of the window.
    pub(crate) lead_end: Nanos,
    /// End of the window; far in the future if only the last response ends it.
    pub(crate) window_end: Nanos,
    pub(crate) step: Nanos,
    /// Whether the window ends only with the last request, though none is sent after `window_end`.
    pub(crate) until_last: bool,
}

impl SliceTimes {
    pub(crate) fn in_window(&self, at: Nanos) -> bool {
        self.lead_end <= at && (self.until_last || at < self.window_end)
    }

    /// How much of a stretch is in the window.
    pub(crate) fn overlap(&self, from: Nanos, to: Nanos) -> Nanos {
        let end = if self.until_last { to } else { to.min(self.window_end) };
        end.saturating_sub(from.max(self.lead_end))
    }
}

/// When a request was due and when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTimes {
    pub(crate) scheduled: Nanos,
    pub(crate) sent: Nanos,
    /// Its kind.
    pub(crate) kind: u32,
}

/// One completed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) since: RequestTimes,
    pub(crate) done: Nanos,
    pub(crate) payload_bytes: u64,
}

/// A completed request that took longer than its slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRequest {
    pub(crate) service_time: Nanos,
    pub(crate) payload_bytes: u64,
}

/// One thread's counts of one slice.
#[derive(Debug)]
pub(crate) struct SliceCounts {
    pub(crate) counts: Counts,
    pub(crate) closed_idle: u64,
    pub(crate) waiting_for_connections: u64,
    pub(crate) errors: BTreeMap<Fault, u64>,
    /// Of each kind of request, if there are several.
    kinds: Vec<KindCounts>,
    kind_times: KindTimes,
    window: Window,
    latency: Histogram,
    service_time: Histogram,
    lateness: Histogram,
    by_step: Vec<u64>,
    handshakes: Option<Box<Handshakes>>,
    stream: Option<Box<StreamTimes>>,
    open_loop: bool,
    longest_wait: Nanos,
    stalls: StallCount,
    first_after: Option<Nanos>,
    /// When the last request ended that ended before the end of the window.
    last_before: Option<Nanos>,
    /// When the last request completed or failed.
    last: Nanos,
}

fn record(histogram: &mut Histogram, nanos: Nanos) {
    // An auto-resizing histogram accepts every u64 (its documentation), so this cannot fail.
    let _ = histogram.record(nanos.0);
}

impl SliceCounts {
    /// Counts of a slice with so many kinds of request; of a continued loop if it has `continued`
    /// connections.
    pub(crate) fn new(
        open_loop: bool,
        continued: usize,
        stalls: StallCount,
        kinds: usize,
    ) -> SliceCounts {
        let kinds = if kinds > 1 { vec![KindCounts::default(); kinds] } else { Vec::new() };
        SliceCounts {
            kinds,
            kind_times: KindTimes::default(),
            counts: Counts::default(),
            closed_idle: 0,
            waiting_for_connections: 0,
            errors: BTreeMap::new(),
            window: Window { connections: continued as u32, ..Window::default() },
            latency: histogram(),
            service_time: histogram(),
            lateness: histogram(),
            by_step: Vec::new(),
            handshakes: None,
            stream: None,
            open_loop,
            longest_wait: Nanos::ZERO,
            stalls,
            first_after: None,
            last_before: None,
            last: Nanos::ZERO,
        }
    }

    /// A new connection has agreed on its keys.
    pub(crate) fn agreed(&mut self, handshake: &Handshake) {
        let all = self.handshakes.get_or_insert_with(|| Box::new(Handshakes::like(handshake)));
        record(&mut all.took, handshake.took);
        all.resumed += u64::from(handshake.resumed);
    }

    /// A request is sent that could have been sent at `ready`. In a closed loop, offered equals sent.
    pub(crate) fn sent(
        &mut self,
        times: &SliceTimes,
        RequestTimes { scheduled, sent: at, kind }: RequestTimes,
        ready: Nanos,
    ) {
        self.counts.sent += 1;
        if let Some(kind) = self.kinds.get_mut(kind as usize) {
            kind.counts.offered += 1;
            kind.counts.sent += 1;
        }
        if !self.open_loop {
            self.counts.offered += 1;
        } else if times.in_window(scheduled) {
            self.window.due += 1;
            record(&mut self.lateness, at.saturating_sub(ready));
        }
    }

    /// A connection of a continued loop spent `counted` time in the window, `busy` of it with a
    /// request that it had sent in an earlier slice.
    pub(crate) fn continued(&mut self, counted: Nanos, busy: Nanos) {
        self.window.counted_ns += u128::from(counted.0);
        self.window.busy_ns += u128::from(busy.0);
    }

    /// A request of an earlier slice completed in the window, in the time of a continued loop.
    pub(crate) fn carried(&mut self, carried: &LongRequest) {
        self.window.completed += 1;
        self.window.payload_bytes += carried.payload_bytes;
        self.window.service_time_sum_ns += u128::from(carried.service_time.0);
    }

    /// So many requests were waiting when the window ended; all for a connection if none was free.
    pub(crate) fn waiting(&mut self, requests: usize, is_full: bool) {
        self.window.waiting += requests as u64;
        self.waiting_for_connections += if is_full { requests as u64 } else { 0 };
    }

    /// Waiting requests that were due at `scheduled` were dropped after the timeout.
    pub(crate) fn not_sent(&mut self, times: &SliceTimes, scheduled: Nanos, timeout: Nanos) {
        self.counts.dropped += 1;
        if times.in_window(scheduled) {
            self.window.due += 1;
            record(&mut self.latency, timeout);
        }
    }

    /// A request completed that counts from an instant on. One that does not is in the ledger only.
    pub(crate) fn completed(
        &mut self,
        times: &SliceTimes,
        completion: Completion,
        counted: Option<Nanos>,
    ) {
        let Completion { since: RequestTimes { scheduled, sent, kind }, done, payload_bytes } =
            completion;
        self.counts.completed += 1;
        if let Some(kind) = self.kinds.get_mut(kind as usize) {
            kind.counts.completed += 1;
        }
        self.last = done;
        self.ended(times, scheduled, done);
        let step = (done.saturating_sub(times.start).0 / times.step.0.max(1)) as usize;
        if step >= self.by_step.len() {
            self.by_step.resize(step + 1, 0);
        }
        self.by_step[step] += 1;
        let Some(from) = counted else { return };
        self.busy(times, sent.max(from), done);
        let service_time = done.saturating_sub(sent);
        if times.in_window(scheduled) {
            record(&mut self.service_time, service_time);
            let mut waited = service_time;
            if self.open_loop {
                waited = done.saturating_sub(scheduled);
                record(&mut self.latency, waited);
            }
            self.stalls.ended(waited, done);
            if !self.kinds.is_empty() {
                self.kind_times.add(&mut self.kinds, kind, waited);
            }
        }
        if times.in_window(done) {
            self.window.completed += 1;
            self.window.payload_bytes += payload_bytes;
            self.window.service_time_sum_ns += u128::from(service_time.0);
        }
    }

    /// Events arrived at `at`, the first of them so long after the one before.
    pub(crate) fn arrived(
        &mut self,
        times: &SliceTimes,
        at: Nanos,
        events: u64,
        gap: Option<Nanos>,
    ) {
        if events == 0 {
            return;
        }
        let of = self.stream.get_or_insert_default();
        of.events += events;
        if times.in_window(at) {
            of.events_in_window += events;
            gap.iter().for_each(|gap| record(&mut of.gaps, *gap));
            // An auto-resizing histogram accepts every value.
            let _ = of.gaps.record_n(0, events - 1);
        }
    }

    /// A response that is recorded arrived in these parts.
    pub(crate) fn streamed(&mut self, times: &SliceTimes, since: RequestTimes, parts: &Arrival) {
        if times.in_window(since.scheduled) {
            let of = self.stream.get_or_insert_default();
            let took = |at: &Nanos| at.saturating_sub(since.sent);
            parts.first_byte.iter().for_each(|at| record(&mut of.first_byte, took(at)));
            parts.first_event.iter().for_each(|at| record(&mut of.first_event, took(at)));
        }
    }

    /// Requests that had completed on this side were acknowledged at `at`.
    pub(crate) fn acknowledged(&mut self, at: Nanos) {
        self.last = self.last.max(at);
    }

    /// A request failed at `at`.
    pub(crate) fn failed(
        &mut self,
        times: &SliceTimes,
        fault: Fault,
        RequestTimes { scheduled, sent, kind }: RequestTimes,
        at: Nanos,
        counted: Option<Nanos>,
    ) {
        self.counts.failed += 1;
        if let Some(kind) = self.kinds.get_mut(kind as usize) {
            kind.counts.failed += 1;
            *kind.errors.entry(fault.kind()).or_default() += 1;
        }
        self.last = at;
        self.ended(times, scheduled, at);
        if let Some(from) = counted {
            self.busy(times, sent.max(from), at);
            if fault == Fault::Timeout {
                self.unanswered(times, scheduled, kind, at);
            }
        }
        *self.errors.entry(fault).or_default() += 1;
    }

    /// A request was given up at `at`.
    pub(crate) fn abandoned(&mut self, times: &SliceTimes, since: RequestTimes, at: Nanos) {
        self.counts.in_flight += 1;
        if let Some(kind) = self.kinds.get_mut(since.kind as usize) {
            kind.counts.in_flight += 1;
        }
        self.ended(times, since.scheduled, at);
        self.busy(times, since.sent, at);
        self.unanswered(times, since.scheduled, since.kind, at);
    }

    /// A request without an answer took at least until `at`.
    fn unanswered(&mut self, times: &SliceTimes, scheduled: Nanos, kind: u32, at: Nanos) {
        if times.in_window(scheduled) {
            let waited = at.saturating_sub(scheduled);
            record(&mut self.service_time, waited);
            if self.open_loop {
                record(&mut self.latency, waited);
            }
            self.stalls.ended(waited, at);
            if !self.kinds.is_empty() {
                self.kind_times.add(&mut self.kinds, kind, waited);
            }
        }
    }

    /// A request that waited from an instant on ended at `at`.
    fn ended(&mut self, times: &SliceTimes, from: Nanos, at: Nanos) {
        self.longest_wait = self.longest_wait.max(at.saturating_sub(from));
        if at >= times.window_end {
            let after = at.saturating_sub(times.window_end);
            self.first_after = Some(self.first_after.map_or(after, |first| first.min(after)));
        } else {
            self.last_before = self.last_before.max(Some(at));
        }
    }

    fn busy(&mut self, times: &SliceTimes, from: Nanos, to: Nanos) {
        self.window.busy_ns += u128::from(times.overlap(from, to).0);
    }

    /// The thread's observation of the whole slice, which ended at `end`.
    pub(crate) fn finish(
        mut self,
        times: &SliceTimes,
        end: Nanos,
        before: Traffic,
        after: Traffic,
        cpu: Nanos,
    ) -> Observation {
        // The other side of this boundary is the ledger, which reports what does not add up. A
        // client thread that panics ends the run with an error.
        assert!(self.counts.add_up(), "a thread's counts: {:?}", self.counts);
        assert_eq!(self.errors.values().sum::<u64>(), self.counts.failed, "one kind each");
        self.kind_times.sort_into(&mut self.kinds);
        let of_kinds = |column: fn(&Counts) -> u64| {
            let sum: u64 = self.kinds.iter().map(|kind| column(&kind.counts)).sum();
            self.kinds.is_empty() || sum == column(&self.counts)
        };
        let columns: [fn(&Counts) -> u64; 4] =
            [|c| c.sent, |c| c.completed, |c| c.failed, |c| c.in_flight];
        assert!(columns.into_iter().all(of_kinds), "one kind of request each");
        assert_eq!(self.by_step.iter().sum::<u64>(), self.counts.completed, "one step each");
        let is_part = self.window.completed <= self.counts.completed;
        assert!(is_part || self.window.connections > 0, "the window is a part of its slice");
        let window_end = match times.window_end {
            Nanos(u64::MAX) => self.last,
            end if times.until_last => end.max(self.last),
            end => end,
        };
        self.window.length = window_end.saturating_sub(times.lead_end);
        self.window.settle();
        let elapsed = end.saturating_sub(times.start);
        Observation {
            counts: self.counts,
            errors: self.errors.into_iter().map(|(fault, n)| (fault.kind(), n)).collect(),
            kinds: self.kinds,
            window: self.window,
            latency: self.latency,
            service_time: self.service_time,
            lateness: self.lateness,
            longest_wait: self.longest_wait,
            stalls: self.stalls.stalls,
            first_after: self.first_after,
            last_before: self.last_before.map(|at| times.window_end.saturating_sub(at)),
            completed_by_step: self.by_step,
            step: times.step,
            bytes_received: after.received - before.received,
            bytes_sent: after.sent - before.sent,
            connects: after.connects - before.connects,
            handshakes: self.handshakes,
            stream: self.stream,
            source_changes: after.source_changes - before.source_changes,
            connections_max_used: 0,
            connections_limit: ConnectionsLimit::default(),
            waiting_for_connections: self.waiting_for_connections,
            closed_idle: self.closed_idle,
            elapsed,
            threads: vec![ThreadUse { cpu, wall: elapsed }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SliceTimes = SliceTimes {
        start: Nanos(0),
        lead_end: Nanos(100),
        window_end: Nanos(200),
        step: Nanos(50),
        until_last: false,
    };

    fn busy(request: impl Fn(&mut SliceCounts, &SliceTimes)) -> u128 {
        let mut slice_counts = SliceCounts::new(false, 0, StallCount::default(), 1);
        request(&mut slice_counts, &TIMES);
        slice_counts.window.busy_ns
    }

    fn since(scheduled: u64, sent: u64) -> RequestTimes {
        RequestTimes { scheduled: Nanos(scheduled), sent: Nanos(sent), kind: 0 }
    }

    fn at(scheduled: u64, sent: u64, done: u64) -> Completion {
        Completion { since: since(scheduled, sent), done: Nanos(done), payload_bytes: 0 }
    }

    fn done(sent: u64, done: u64) -> u128 {
        let completion = at(sent, sent, done);
        busy(|slice_counts, times| slice_counts.completed(times, completion, Some(Nanos::ZERO)))
    }

    #[test]
    fn requests_keep_a_connection_busy_only_within_the_window() {
        assert_eq!(done(110, 150), 40);
        assert_eq!(done(10, 99), 0, "over before it");
        assert_eq!(done(60, 130), 30, "begun before it");
        assert_eq!(done(170, 260), 30, "ended in the drain");
        assert_eq!(done(20, 900), 100, "longer than the window");
        assert_eq!(done(200, 210), 0, "after it");
    }

    #[test]
    fn a_request_keeps_its_connection_busy_however_it_ends() {
        let (since, to) = (since(150, 150), Nanos(300));
        assert_eq!(
            busy(|counts, times| counts.failed(
                times,
                Fault::Timeout,
                since,
                to,
                Some(Nanos::ZERO)
            )),
            50
        );
        assert_eq!(busy(|counts, times| counts.abandoned(times, since, to)), 50);
    }

    #[test]
    fn the_longest_wait_is_that_of_any_request_however_it_ended() {
        let mut counts = SliceCounts::new(true, 0, StallCount::default(), 1);
        counts.completed(&TIMES, at(110, 130, 150), Some(Nanos::ZERO));
        assert_eq!(counts.longest_wait, Nanos(40), "since it was due");
        counts.failed(&TIMES, Fault::Timeout, since(10, 60), Nanos(95), Some(Nanos::ZERO));
        assert_eq!(counts.longest_wait, Nanos(85), "also before the window");
        counts.abandoned(&TIMES, since(190, 190), Nanos(400));
        assert_eq!(counts.longest_wait, Nanos(210), "also in the drain");
        counts.completed(&TIMES, at(120, 120, 121), Some(Nanos::ZERO));
        assert_eq!(counts.longest_wait, Nanos(210));
    }

    #[test]
    fn one_connection_without_a_pause_is_busy_all_the_time() {
        let mut slice_counts = SliceCounts::new(false, 0, StallCount::default(), 1);
        let mut sent = 3;
        for length in [90, 1, 22, 7, 60, 5, 80, 40] {
            let done = sent + length;
            slice_counts.completed(&TIMES, at(sent, sent, done), Some(Nanos::ZERO));
            sent = done;
        }
        assert_eq!(slice_counts.window.busy_ns, 100);
        // The requests that ended in the window are different: they brought in 6 ns and took out
        // 12.
        assert_eq!(slice_counts.window.completed, 4);
        assert_eq!(slice_counts.window.service_time_sum_ns, 22 + 7 + 60 + 5);
    }

    #[test]
    fn latency_belongs_to_the_window_in_which_its_request_was_due() {
        let mut counts = SliceCounts::new(true, 0, StallCount::default(), 1);
        counts.completed(&TIMES, at(90, 90, 150), Some(Nanos::ZERO));
        counts.completed(&TIMES, at(150, 150, 900), Some(Nanos::ZERO));
        counts.failed(&TIMES, Fault::Timeout, since(160, 160), Nanos(2_160), Some(Nanos::ZERO));
        counts.abandoned(&TIMES, since(170, 170), Nanos(1_170));
        counts.not_sent(&TIMES, Nanos(180), Nanos(2_000));
        counts.not_sent(&TIMES, Nanos(80), Nanos(2_000));
        let lengths: Vec<u64> =
            counts.latency.iter_recorded().map(|step| step.value_iterated_to()).collect();
        assert_eq!(lengths, [750, 1_000, 2_000]);
        assert_eq!(counts.latency.len(), 4, "two took 2,000");
        assert_eq!(counts.window.completed, 1, "throughput counts what ends in the window");
    }
}
