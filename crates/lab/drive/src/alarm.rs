//! Waking up in time for the next arrival: sleep, then spin for the last microseconds.
//!
//! How long it spins follows from how late the kernel has woken it. While spinning it yields, so that a
//! server on the same CPU can work.

use base::Nanos;

/// Initial margin: about what a virtual machine needs to wake a sleeping CPU.
const MARGIN_FIRST: Nanos = Nanos::from_micros(60);

/// Smallest margin: sleeping and waking up costs that much CPU time itself.
const MARGIN_MIN: Nanos = Nanos::from_micros(5);

/// Largest margin, so that occasional pauses of the machine do not make the client spin for good.
/// At 1,000 arrivals per second it is a fifth of a CPU.
const MARGIN_MAX: Nanos = Nanos::from_micros(200);

/// Change of the margin after a sleep.
const STEP: Nanos = Nanos(250);

/// Target percentage of sleeps that end too late.
const LATE_PER_CENT: u64 = 2;

/// Longer sleeps may have a resolution of whole milliseconds (epoll_wait(2)), so they are done in
/// two steps.
const FINE_MAX: Nanos = Nanos::from_millis(15);

/// How much earlier a long sleep ends.
const COARSE: Nanos = Nanos::from_millis(2);

/// How a thread waits for an instant.
///
/// ```text
///   now                                   due
///    ├──────── asleep ────────┬── awake ───┤
///                             └─ margin ───┘
/// ```
///
/// The kernel wakes a thread a few microseconds late if the CPU is awake, and 50 to 100 late if a
/// virtual CPU has to be woken first. The margin tracks the 98th percentile of this delay: after a
/// sleep that ended too late it grows by 49 steps, after any other it shrinks by one, so it settles
/// where one in fifty is late (the "frugal" estimate of Ma, Muthukrishnan & Sandler, Frugal
/// Streaming for Estimating Quantiles, 2013).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    margin: Nanos,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { margin: MARGIN_FIRST }
    }

    /// How long before the instant a sleep ends.
    pub(crate) fn margin(&self) -> Nanos {
        self.margin
    }

    /// How long to sleep first, if nothing is due for `wait`.
    pub(crate) fn nap(&self, wait: Nanos) -> Nanos {
        if wait < FINE_MAX { wait } else { wait - COARSE }
    }

    /// Adjusts the margin after an uneventful sleep of `slept` instead of `wanted`.
    pub(crate) fn slept(&mut self, wanted: Nanos, slept: Nanos) {
        if wanted >= FINE_MAX {
            return;
        }
        // A sleep that ended early was interrupted and carries no information.
        let Some(late) = slept.0.checked_sub(wanted.0) else { return };
        self.margin = if late > self.margin.0 {
            let step = Nanos(STEP.0 * (100 - LATE_PER_CENT) / LATE_PER_CENT);
            MARGIN_MAX.min(self.margin + step)
        } else {
            MARGIN_MIN.max(self.margin.saturating_sub(STEP))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacer::Pacer;
    use crate::schedule::ArrivalQueue;
    use base::{Rng, Seed};
    use proptest::prelude::*;
    use rand::Rng as _;
    use spec::Arrivals;

    /// A machine whose clock advances only with events.
    struct Machine {
        now: Nanos,
        rng: Rng,
        /// The usual delay of a sleep.
        late_ns: u64,
        /// Duration of a poll of the sockets.
        look_ns: u64,
        /// Duration of a request.
        request_ns: u64,
    }

    impl Machine {
        /// Half to one and a half times the usual delay; one sleep in 16,000 ends a millisecond
        /// late.
        fn sleep(&mut self, wanted: Nanos) -> Nanos {
            let draw = self.rng.next_u64();
            let late = self.late_ns / 2 + draw % self.late_ns.max(1);
            let coarse = wanted >= Nanos::from_millis(20);
            let wanted = if coarse { Nanos(wanted.0.next_multiple_of(1_000_000)) } else { wanted };
            let stall = if draw >> 32 & 16383 == 0 { 1_000_000 } else { 0 };
            let slept = wanted + Nanos(late + stall);
            self.now += slept;
            slept
        }
    }

    #[derive(Default)]
    struct Paced {
        /// Lateness of every request, in nanoseconds.
        late: Vec<u64>,
        asleep: Nanos,
    }

    /// Paces `seconds` of arrivals as a worker does.
    fn pace(pacer: Pacer, seconds: u64, machine: &mut Machine) -> Paced {
        let (end, begin) = (machine.now + Nanos::from_secs(seconds), machine.now);
        let (mut arriving, mut alarm, mut seen) =
            (ArrivalQueue::new(pacer, None), Alarm::new(), Paced::default());
        while machine.now < end {
            arriving.pull(machine.now.saturating_sub(begin));
            while let Some(due) = arriving.pop() {
                seen.late.push(machine.now.saturating_sub(begin + due).0);
                machine.now += Nanos(machine.request_ns);
            }
            let Some(due) = arriving.next_due() else { break };
            let wait = (begin + due).saturating_sub(machine.now).saturating_sub(alarm.margin());
            if wait > Nanos::ZERO {
                let wait = alarm.nap(wait);
                let slept = machine.sleep(wait);
                seen.asleep += slept;
                alarm.slept(wait, slept);
            } else {
                machine.now += Nanos(machine.look_ns);
            }
        }
        seen
    }

    fn machine(late_us: u64, seed: u64) -> Machine {
        Machine {
            now: Nanos::from_secs(1000),
            rng: Seed(seed).rng("machine"),
            late_ns: late_us * 1000,
            look_ns: 400,
            request_ns: 1500,
        }
    }

    fn p99(late: &[u64]) -> u64 {
        let mut sorted = late.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(0)
    }

    #[test]
    fn every_rate_is_kept_without_drift() {
        for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
            for (rate, seconds) in [
                (1.0, 600),
                (10.0, 100),
                (1000.0, 20),
                (20_000.0, 4),
                (100_000.0, 2),
                (500_000.0, 1),
            ] {
                for late_us in [3, 60, 110] {
                    let pacer = || Pacer::new(arrivals, rate, 0, 1, Seed(7));
                    let seen = pace(pacer(), seconds, &mut machine(late_us, 1));
                    let end = Nanos::from_secs(seconds);
                    let offered = pacer().take_while(|due| *due < end).count();
                    let what = format!("{arrivals:?} at {rate}/s, woken {late_us} µs late");
                    // Arrivals due while the last request is being sent are beyond the end.
                    assert!(
                        offered.abs_diff(seen.late.len()) <= 4,
                        "{what}: {} of {offered}",
                        seen.late.len()
                    );
                    let (first, second) = seen.late.split_at(seen.late.len() / 2);
                    assert!(p99(first) <= 100_000, "{what}: {}", p99(first));
                    assert!(p99(second) <= 100_000, "{what}: {}", p99(second));
                }
            }
        }
    }

    #[test]
    fn at_low_rates_the_thread_sleeps() {
        for (rate, asleep_s) in [(1.0, 59.9), (100.0, 59.0), (1000.0, 50.0)] {
            let pacer = Pacer::new(Arrivals::Uniform, rate, 0, 1, Seed(7));
            let seen = pace(pacer, 60, &mut machine(60, 2));
            assert!(seen.asleep.as_secs_f64() > asleep_s, "{rate}/s: {}", seen.asleep);
        }
    }

    #[test]
    fn the_margin_follows_the_machine_within_its_limits() {
        let after = |late_us: u64| {
            let mut alarm = Alarm::new();
            for _ in 0..2000 {
                alarm.slept(Nanos::from_millis(1), Nanos::from_micros(1000 + late_us));
            }
            alarm.margin()
        };
        assert_eq!(after(0), MARGIN_MIN);
        assert_eq!(after(10_000), MARGIN_MAX);
        assert!(
            (Nanos::from_micros(79)..Nanos::from_micros(93)).contains(&after(80)),
            "{}",
            after(80)
        );
    }

    #[test]
    fn a_sleep_that_was_interrupted_teaches_nothing() {
        let mut alarm = Alarm::new();
        alarm.slept(Nanos::from_millis(5), Nanos::from_millis(1));
        assert_eq!(alarm.margin(), MARGIN_FIRST);
    }

    proptest! {
        #[test]
        fn one_sleep_in_fifty_ends_too_late(late_us in 10u64..120, seed: u64) {
            let (mut alarm, mut machine, mut late) = (Alarm::new(), machine(late_us, seed), 0);
            for n in 0..20_000 {
                let slept = machine.sleep(Nanos::from_millis(1));
                late += u32::from(n >= 2000 && slept > Nanos::from_millis(1) + alarm.margin());
                alarm.slept(Nanos::from_millis(1), slept);
            }
            prop_assert!((180..=540).contains(&late), "{late} of 18000");
        }
    }
}
