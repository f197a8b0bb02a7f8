//! The reference loop: a fixed amount of work whose duration shows whether the machine is
//! disturbed.
//!
//! If a hypervisor hides steal time, or a CPU changes its clock frequency, the loop's duration
//! changes.

use base::{CpuSet, Nanos, monotonic_now};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

/// Target duration of one loop at calibration. A busy machine takes several times as long, which
/// adds to every block.
const LOOP: Nanos = Nanos::from_millis(20);

/// A loop of a fixed number of rounds.
#[derive(Clone, Debug)]
pub struct Canary {
    rounds: u64,
    cpus: CpuSet,
}

impl Canary {
    /// Chooses the number of rounds so that a loop takes about 20 ms now, on each of `cpus` at
    /// once.
    pub fn calibrate(cpus: &CpuSet) -> Canary {
        let sample = 1 << 20;
        // The fastest of several was disturbed least.
        let fastest = (0..8).map(|_| timed(sample).0).min().unwrap_or(1).max(1);
        let rounds = (u128::from(sample) * u128::from(LOOP.0) / u128::from(fastest)) as u64;
        Canary { rounds: rounds.max(1), cpus: cpus.clone() }
    }

    /// Runs the loop on all its CPUs at once; returns the longest duration.
    pub fn run(&self) -> Nanos {
        let cpus: Vec<Option<usize>> = match self.cpus.is_empty() {
            true => vec![None],
            false => self.cpus.iter().map(Some).collect(),
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = cpus
                .iter()
                .map(|cpu| {
                    scope.spawn(move || {
                        if let Some(cpu) = cpu {
                            pin(*cpu);
                        }
                        timed(self.rounds)
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or_default()
        })
    }
}

/// Pins this thread. If that is not allowed, the loop still measures wherever it runs.
pub(crate) fn pin(cpu: usize) {
    let mut set = KernelCpuSet::new();
    set.set(cpu);
    let _refused = sched_setaffinity(None, &set);
}

fn timed(rounds: u64) -> Nanos {
    let began = monotonic_now();
    std::hint::black_box(work(std::hint::black_box(rounds)));
    monotonic_now().saturating_sub(began)
}

/// xorshift64* (Vigna 2016): each round depends on the previous one, so none can be skipped or run
/// in parallel.
fn work(rounds: u64) -> u64 {
    (0..rounds).fold(0x9E37_79B9_7F4A_7C15, |mut x: u64, _| {
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_takes_time_and_more_rounds_take_more() {
        let canary = Canary { rounds: 100_000, cpus: CpuSet::default() };
        assert!(canary.run() > Nanos::ZERO);
        assert_ne!(work(10), work(11));
    }
}
