//! What it costs to wake a thread, on the same CPU and on another one.
//!
//! Two threads send a byte back and forth through two pipes, and each sleeps until the byte arrives.
//! On a virtual machine, waking an idle CPU needs the hypervisor and takes ten times as long as
//! switching threads on one CPU; how long differs between machines of one kind.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _, pipe};

use base::{CpuSet, Nanos, WakeCost, monotonic_now};

use crate::canary::pin;

/// Round trips in a batch, and the number of batches of which the median counts.
const TRIPS: u64 = 40;
const BATCHES: usize = 11;

/// Measures on the first two of these CPUs; `None` if there are fewer, or without pipes.
///
/// It takes about 30 ms where waking another CPU takes 30 µs.
pub fn wake_cost(cpus: &CpuSet) -> Option<WakeCost> {
    let mut cpus = cpus.iter();
    let (first, second) = (cpus.next()?, cpus.next()?);
    Some(WakeCost {
        same_cpu: one_way(first, first).ok()?,
        other_cpu: one_way(first, second).ok()?,
    })
}

/// Half a round trip between threads on two CPUs.
fn one_way(here: usize, there: usize) -> io::Result<Nanos> {
    let (asked, mut ask) = pipe()?;
    let (mut answered, answer) = pipe()?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(there);
            echo(asked, answer);
        });
        // A thread of its own, because the caller's must not stay pinned.
        let measured = scope.spawn(move || {
            pin(here);
            let mut batches = Vec::with_capacity(BATCHES);
            for _ in 0..BATCHES {
                let began = monotonic_now();
                for _ in 0..TRIPS {
                    ask.write_all(b"?")?;
                    answered.read_exact(&mut [0])?;
                }
                batches.push(monotonic_now().saturating_sub(began));
            }
            batches.sort_unstable();
            Ok(Nanos(batches[BATCHES / 2].0 / (2 * TRIPS)))
        });
        measured.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    })
}

/// Sends every byte back, until the other side is gone.
fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_is_measured_where_there_are_two_cpus() {
        assert_eq!(wake_cost(&CpuSet::default()), None);
        assert_eq!(wake_cost(&CpuSet::one(0)), None);
        let online = crate::online_cpus().unwrap();
        if online.iter().count() > 1 {
            let cost = wake_cost(&online).unwrap();
            assert!(cost.same_cpu > Nanos::ZERO && cost.other_cpu > Nanos::ZERO, "{cost:?}");
        }
    }
}
