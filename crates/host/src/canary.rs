//! A fixed amount of pure CPU work: where it takes longer, something else had the CPU.

use std::hint::black_box;

use base::{Clock, MonotonicClock, Nanos};

/// What one run of the canary is calibrated to take.
const TARGET: Nanos = Nanos::from_millis(200);

/// A loop whose length was fixed once, so that its runs can be compared.
///
/// It sees what counters of steal do not: a hypervisor that hides it, a
/// neighbour on the same core, a lowered frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    iterations: u64,
}

impl Canary {
    /// Finds how many iterations take about 200 ms on the calling thread's CPU; takes about 100 ms itself.
    pub fn calibrate() -> Canary {
        Canary::calibrate_to(TARGET)
    }

    fn calibrate_to(target: Nanos) -> Canary {
        // Doubled until the time is long against the clock and an interruption,
        // then scaled by the fastest of three runs. 2^40 iterations are beyond any CPU.
        let mut iterations = 1 << 12;
        while canary(iterations).0 < target.0 / 16 && iterations < 1 << 40 {
            iterations *= 2;
        }
        let fastest = (0..3).map(|_| canary(iterations).0).min().unwrap_or(1).max(1);
        let scaled = u128::from(iterations) * u128::from(target.0) / u128::from(fastest);
        Canary { iterations: u64::try_from(scaled).unwrap_or(u64::MAX).max(1) }
    }

    /// Does the work once and tells how long it took.
    pub fn run(&self) -> Nanos {
        canary(self.iterations)
    }

    /// The iterations of one run.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }
}

/// Does a fixed amount of work and tells how long it took by the monotonic clock.
///
/// Each iteration depends on the one before (Marsaglia's xorshift64), in
/// registers only, so that neither memory nor the compiler changes its length.
pub fn canary(iterations: u64) -> Nanos {
    let clock = MonotonicClock;
    let start = clock.now();
    let mut x: u64 = black_box(0x9E37_79B9_7F4A_7C15);
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
    clock.now().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibrated_canary_repeats_the_same_work() {
        let target = Nanos::from_micros(500);
        let canary = Canary::calibrate_to(target);
        assert!(canary.iterations() >= 1);
        assert_eq!(canary, Canary { iterations: canary.iterations() });
        assert!(canary.run() > Nanos::ZERO);
    }

    #[test]
    fn more_work_takes_longer() {
        // Orders of magnitude apart, so that no interruption can turn it round.
        let short = (0..5).map(|_| canary(100)).min();
        let long = (0..5).map(|_| canary(1_000_000)).min();
        assert!(short < long, "{short:?} {long:?}");
    }
}
