//! Slices of one variant under one offer, added up to a trial.

use base::{Nanos, Timestamp};
use drive::{Histogram, Observation, ThreadUse, Window};
use ledger::{Counts, Errors, Ledger};
use record::{Distribution, Trial};

use crate::SliceSeen;

/// What the stack and the machine spent while a slice ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) stack_cpu: Option<Nanos>,
    pub(crate) machine_busy: Option<Nanos>,
    /// CPU time that the hypervisor gave to others, and all CPU time there was.
    pub(crate) stolen: Option<(Nanos, Nanos)>,
    pub(crate) peak_memory_bytes: Option<u64>,
}

/// The sum of a trial's slices so far.
pub(crate) struct Tally {
    pub(crate) offer: &'static str,
    pub(crate) offered_per_s: Option<f64>,
    pub(crate) counts: Counts,
    pub(crate) errors: Errors,
    pub(crate) window: Window,
    pub(crate) service_time: Histogram,
    pub(crate) latency: Histogram,
    pub(crate) lateness: Histogram,
    started: Timestamp,
    slices: u32,
    cost: Cost,
    client_cpu: Nanos,
    client_busy_max: f64,
    completed_by_step: Vec<u64>,
    step: Nanos,
    elapsed: Nanos,
    /// Times that a source address ran out of ports.
    pub(crate) source_changes: u64,
    /// Throughput of each slice, for drift within the trial.
    pub(crate) slice_rates: Vec<f64>,
    /// What each slice was seen to do, for the series.
    pub(crate) seen: Vec<SliceSeen>,
}

impl Tally {
    pub(crate) fn new(offer: &'static str, offered_per_s: Option<f64>, step: Nanos) -> Tally {
        let empty = || Histogram::new(3).expect("three significant digits are within 0 to 5");
        Tally {
            offer,
            offered_per_s,
            counts: Counts::default(),
            errors: Errors::new(),
            window: Window::default(),
            service_time: empty(),
            latency: empty(),
            lateness: empty(),
            started: base::timestamp_now(),
            slices: 0,
            cost: Cost {
                stack_cpu: Some(Nanos::ZERO),
                machine_busy: Some(Nanos::ZERO),
                stolen: Some((Nanos::ZERO, Nanos::ZERO)),
                ..Cost::default()
            },
            client_cpu: Nanos::ZERO,
            client_busy_max: 0.0,
            completed_by_step: Vec::new(),
            step,
            elapsed: Nanos::ZERO,
            source_changes: 0,
            slice_rates: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Adds requests that were sent outside any slice: the probes that teach the answer.
    pub(crate) fn add_probes(&mut self, counts: &Counts, errors: &Errors, elapsed: Nanos) {
        self.counts.merge(counts);
        add_errors(&mut self.errors, errors);
        self.completed_by_step.push(counts.completed);
        self.seen.push(SliceSeen::of_probes(self.started, elapsed, counts));
    }

    /// Adds a slice that began at `started` and was measured after `lead_in`.
    pub(crate) fn add(
        &mut self,
        seen: &Observation,
        cost: Cost,
        started: Timestamp,
        lead_in: Nanos,
    ) {
        self.seen.push(SliceSeen::new(started, lead_in, seen));
        // What a slice left in flight is final: its connections are dropped, so it adds up.
        self.counts.merge(&seen.counts);
        add_errors(&mut self.errors, &seen.errors);
        self.window.length += seen.window.length;
        self.window.completed += seen.window.completed;
        self.window.payload_bytes += seen.window.payload_bytes;
        self.window.service_time_sum_ns += seen.window.service_time_sum_ns;
        self.window.busy_ns += seen.window.busy_ns;
        for (sum, part) in [
            (&mut self.service_time, &seen.service_time),
            (&mut self.latency, &seen.latency),
            (&mut self.lateness, &seen.lateness),
        ] {
            sum.add(part).expect("histograms that resize themselves take any value");
        }
        self.slices += 1;
        let plus = |a: Option<Nanos>, b: Option<Nanos>| a.zip(b).map(|(a, b)| a + b);
        self.cost.stack_cpu = plus(self.cost.stack_cpu, cost.stack_cpu);
        self.cost.machine_busy = plus(self.cost.machine_busy, cost.machine_busy);
        self.cost.stolen =
            self.cost.stolen.zip(cost.stolen).map(|((a, of_a), (b, of_b))| (a + b, of_a + of_b));
        self.cost.peak_memory_bytes = self.cost.peak_memory_bytes.max(cost.peak_memory_bytes);
        self.client_cpu += seen.threads.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.cpu);
        let busy = |t: &ThreadUse| t.cpu.0 as f64 / t.wall.0.max(1) as f64;
        self.client_busy_max = seen.threads.iter().map(busy).fold(self.client_busy_max, f64::max);
        self.completed_by_step.extend(&seen.completed_by_step);
        self.elapsed += seen.elapsed;
        self.source_changes += seen.source_changes;
        let seconds = seen.window.length.as_secs_f64().max(1e-9);
        self.slice_rates.push(seen.window.completed as f64 / seconds);
    }

    /// CPU time that neither the stack nor the client used while this variant was
    /// loaded, as a share of one CPU; `None` where it is not known.
    pub(crate) fn foreign_cpu_share(&self) -> Option<f64> {
        let busy = self.cost.machine_busy?.0 as f64;
        let ours = self.cost.stack_cpu?.0 as f64 + self.client_cpu.0 as f64;
        (self.elapsed > Nanos::ZERO).then(|| (busy - ours) / self.elapsed.0 as f64)
    }

    /// Share of all CPU time that the hypervisor gave to others while this variant was
    /// loaded, 0 to 1; `None` where it is not known.
    pub(crate) fn stolen_share(&self) -> Option<f64> {
        let (stolen, all) = self.cost.stolen?;
        (all > Nanos::ZERO).then(|| stolen.0 as f64 / all.0 as f64)
    }

    /// The trial as it is written down.
    pub(crate) fn trial(&self, variant: usize, env_padding_bytes: u32) -> Trial {
        let open = self.offered_per_s.is_some();
        Trial {
            variant: variant as u32,
            offer: self.offer.to_owned(),
            offered_per_s: self.offered_per_s,
            started: self.started,
            slices: self.slices,
            window: self.window.length,
            completed_in_window: self.window.completed,
            payload_bytes: self.window.payload_bytes,
            ledger: Ledger {
                counts: self.counts,
                served: None,
                series: None,
                errors: self.errors.clone(),
            },
            latency: open.then(|| Distribution::from_histogram(&self.latency)),
            service_time: Distribution::from_histogram(&self.service_time),
            lateness: open.then(|| Distribution::from_histogram(&self.lateness)),
            stack_cpu: self.cost.stack_cpu,
            machine_busy: self.cost.machine_busy,
            client_cpu: self.client_cpu,
            client_busy: self.client_busy_max,
            peak_memory_bytes: self.cost.peak_memory_bytes,
            completed_by_step: self.completed_by_step.clone(),
            step: self.step,
            env_padding_bytes,
        }
    }

    /// The share of the window during which a request was under way on `connections`
    /// connections, 0 to 1; the least that it lacks of 1 is what the client takes to go on.
    pub(crate) fn busy_share(&self, connections: u32) -> f64 {
        self.window.busy_ns as f64 / self.connection_ns(connections)
    }

    /// The same share by Little's law from the requests that completed in the window: throughput ×
    /// mean service time ÷ connections. It differs from [`Tally::busy_share`] by the work that
    /// requests brought into the window, less what they took out of it.
    pub(crate) fn share_by_littles_law(&self, connections: u32) -> f64 {
        self.window.service_time_sum_ns as f64 / self.connection_ns(connections)
    }

    fn connection_ns(&self, connections: u32) -> f64 {
        (f64::from(connections) * self.window.length.0 as f64).max(1.0)
    }

    /// The service time beyond which requests take up no more than `share` of the connections' time.
    pub(crate) fn long_service_time(&self, share: f64) -> Nanos {
        long_value(&self.service_time, share)
    }

    /// Completed requests per second of window.
    pub(crate) fn throughput_per_s(&self) -> f64 {
        self.window.completed as f64 / self.window.length.as_secs_f64().max(1e-9)
    }
}

/// The largest value for which the values above it make up no more than `share` of the sum of all.
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

fn add_errors(sum: &mut Errors, part: &Errors) {
    for (kind, n) in part {
        *sum.entry(kind.clone()).or_default() += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_weigh_by_the_time_that_they_take() {
        let of = |values: &[(u64, u64)]| {
            let mut histogram = Histogram::new(3).unwrap();
            for (value, count) in values {
                histogram.record_n(*value, *count).unwrap();
            }
            long_value(&histogram, 0.02)
        };
        // One request in 50 takes 1000, the others 1: they are 95% of the time.
        assert_eq!(of(&[(1, 49), (1000, 1)]), Nanos(1000));
        // One in 100,000 takes 1000: 1% of the time, which is let pass.
        assert_eq!(of(&[(1, 99_999), (1000, 1)]), Nanos(1));
        assert_eq!(of(&[(7, 3)]), Nanos(7));
        assert_eq!(of(&[]), Nanos::ZERO);
    }
}
