//! Arrival times of an open loop: pure arithmetic, without a clock.

use base::{Nanos, Rng, Seed};
use rand::Rng as _;
use spec::Arrivals;

/// The instants at which requests are due, as offsets from the start of the load.
///
/// Each instant is computed from the start, so rounding errors do not accumulate.
#[derive(Clone, Debug)]
pub struct Pacer {
    due: DueTimes,
    next: Nanos,
}

#[derive(Clone, Debug)]
enum DueTimes {
    /// The k-th of `threads` interleaved pacers is due at (k + index/threads)/rate.
    Uniform { rate_per_s: f64, index: u64, stride: u64 },
    /// Exponential gaps. Their sum is kept as whole nanoseconds and a fraction, so it is as exact
    /// after an hour as at the start.
    Poisson { mean_gap_ns: f64, whole_ns: u64, fraction_ns: f64, rng: Box<Rng> },
}

impl Pacer {
    /// The arrivals of thread `index` of `threads`, which together have `rate_per_s`.
    ///
    /// Uniform threads interleave to equal gaps. Poisson threads are independent processes with a
    /// `threads`-th of the rate, whose superposition is a Poisson process of the whole rate
    /// (Kingman, Poisson Processes, 1993, section 2.2).
    pub fn new(arrivals: Arrivals, rate_per_s: f64, index: u32, threads: u32, seed: Seed) -> Pacer {
        let threads = threads.max(1);
        let due = match arrivals {
            Arrivals::Uniform => DueTimes::Uniform {
                rate_per_s,
                index: u64::from(index),
                stride: u64::from(threads),
            },
            Arrivals::Poisson => DueTimes::Poisson {
                mean_gap_ns: 1e9 * f64::from(threads) / rate_per_s,
                whole_ns: 0,
                fraction_ns: 0.0,
                rng: Box::new(seed.derive("arrivals", u64::from(index)).rng("arrivals")),
            },
        };
        let mut pacer = Pacer { due, next: Nanos::ZERO };
        pacer.advance();
        pacer
    }

    /// When the next request is due.
    pub fn peek(&self) -> Nanos {
        self.next
    }

    fn advance(&mut self) {
        match &mut self.due {
            DueTimes::Uniform { rate_per_s, index, stride } => {
                self.next = Nanos((*index as f64 * 1e9 / *rate_per_s) as u64);
                *index += *stride;
            }
            DueTimes::Poisson { mean_gap_ns, whole_ns, fraction_ns, rng } => {
                // Uniform in (0, 1], so that the logarithm is finite; the gap is the inverse of the
                // exponential distribution function.
                let u = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                *fraction_ns -= u.ln() * *mean_gap_ns;
                *whole_ns += *fraction_ns as u64;
                *fraction_ns = fraction_ns.fract();
                self.next = Nanos(*whole_ns);
            }
        }
    }
}

impl Iterator for Pacer {
    type Item = Nanos;

    /// The next instant; never `None`.
    fn next(&mut self) -> Option<Nanos> {
        let due = self.next;
        self.advance();
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pacer(arrivals: Arrivals, rate: f64) -> Pacer {
        Pacer::new(arrivals, rate, 0, 1, Seed(1))
    }

    #[test]
    fn uniform_arrivals_are_equally_spaced() {
        for (rate, expected) in [
            (1.0, [0, 1_000_000_000, 2_000_000_000, 3_000_000_000]),
            (1000.0, [0, 1_000_000, 2_000_000, 3_000_000]),
            (3.0, [0, 333_333_333, 666_666_666, 1_000_000_000]),
            (0.5, [0, 2_000_000_000, 4_000_000_000, 6_000_000_000]),
            (500_000.0, [0, 2_000, 4_000, 6_000]),
        ] {
            let due: Vec<u64> =
                pacer(Arrivals::Uniform, rate).take(4).map(|nanos| nanos.0).collect();
            assert_eq!(due, expected, "{rate}");
        }
    }

    #[test]
    fn uniform_arrivals_do_not_drift_in_an_hour() {
        // 7 per second is not a whole number of nanoseconds; the last arrival of an hour must still
        // be exact.
        let last = pacer(Arrivals::Uniform, 7.0).nth(7 * 3600).unwrap();
        assert_eq!(last, Nanos::from_secs(3600));
    }

    #[test]
    fn the_highest_rate_does_not_drift_in_an_hour() {
        // Starts counting in the last second of the hour, where rounding errors would show.
        for rate in [499_999.0, 500_000.0, 333_333.3] {
            let index = (rate * 3600.0) as u64;
            let mut pacer = pacer(Arrivals::Uniform, rate);
            pacer.due = DueTimes::Uniform { rate_per_s: rate, index, stride: 1 };
            pacer.advance();
            let exact = index as f64 / rate * 1e9;
            assert!(
                (pacer.peek().0 as f64 - exact).abs() <= 1.0,
                "{rate}: {} {exact}",
                pacer.peek()
            );
        }
    }

    #[test]
    fn poisson_arrivals_are_as_fine_after_an_hour_as_at_the_beginning() {
        let gaps = |whole: u64| -> Vec<u64> {
            let mut pacer = pacer(Arrivals::Poisson, 500_000.0);
            if let DueTimes::Poisson { whole_ns, .. } = &mut pacer.due {
                *whole_ns += whole;
            }
            pacer.next();
            let due: Vec<Nanos> = pacer.take(1000).collect();
            due.windows(2).map(|pair| (pair[1] - pair[0]).0).collect()
        };
        assert_eq!(gaps(0), gaps(3_600_000_000_000));
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_spread_of_an_exponential() {
        let n = 200_000;
        let mut previous = 0;
        let gaps: Vec<f64> = pacer(Arrivals::Poisson, 1e6)
            .take(n)
            .map(|due| {
                let gap = due.0 - previous;
                previous = due.0;
                gap as f64
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n as f64;
        // An exponential's standard deviation equals its mean; five standard errors are allowed.
        assert!((mean - 1000.0).abs() < 5.0 * 1000.0 / (n as f64).sqrt(), "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt());
        let below_mean = gaps.iter().filter(|gap| **gap < 1000.0).count() as f64 / n as f64;
        assert!((below_mean - (1.0 - (-1f64).exp())).abs() < 0.01, "{below_mean}");
    }

    #[test]
    fn a_seed_replays_and_lanes_differ() {
        let take = |index, seed| -> Vec<Nanos> {
            Pacer::new(Arrivals::Poisson, 1000.0, index, 2, Seed(seed)).take(10).collect()
        };
        assert_eq!(take(0, 1), take(0, 1));
        assert_ne!(take(0, 1), take(1, 1));
        assert_ne!(take(0, 1), take(0, 2));
    }

    proptest! {
        #[test]
        fn instants_never_go_back(rate in 0.1f64..1e6, poisson: bool, threads in 1u32..9, seed: u64) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Uniform };
            let due: Vec<Nanos> =
                Pacer::new(arrivals, rate, threads - 1, threads, Seed(seed)).take(200).collect();
            prop_assert!(due.is_sorted());
        }

        #[test]
        fn uniform_lanes_interleave_to_the_whole(rate in 0.1f64..1e6, threads in 1u32..9) {
            let mut merged: Vec<Nanos> = (0..threads)
                .flat_map(|index| Pacer::new(Arrivals::Uniform, rate, index, threads, Seed(0)).take(20))
                .collect();
            merged.sort();
            let whole: Vec<Nanos> =
                pacer(Arrivals::Uniform, rate).take(20 * threads as usize).collect();
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn a_stretch_holds_rate_times_length(rate in 1.0f64..1e4, seed: u64) {
            let length = Nanos::from_secs(10);
            let count = |arrivals| {
                Pacer::new(arrivals, rate, 0, 1, Seed(seed)).take_while(|due| *due < length).count()
                    as f64
            };
            let expected = rate * 10.0;
            prop_assert!((count(Arrivals::Uniform) - expected).abs() <= 1.0);
            // Six standard deviations of a Poisson count, and a little for small means.
            prop_assert!(
                (count(Arrivals::Poisson) - expected).abs() <= 6.0 * expected.sqrt() + 6.0
            );
        }
    }
}
