//! From a run that fails to the fewest events that fail.
//!
//! An event has a number, from which everything comes that it leaves to chance. So an event does the
//! same when others are left out.

use crate::random::Random;

/// Events of a run, unless it says otherwise.
const EVENTS: u64 = 50;

/// Runs that may be tried to make one shorter.
const ATTEMPTS: usize = 2_000;

/// The numbers of the events of a seed.
pub(crate) fn events(seed: u64) -> Vec<u64> {
    let first = Random::new(seed).next() >> 40 << 8;
    (first..first + EVENTS).collect()
}

/// Events that fail like more of them, as `fails` tells, and of which none can be left out.
pub(crate) fn shrink<T: Clone>(mut events: Vec<T>, fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut attempts = 0;
    let mut length = events.len().div_ceil(2);
    loop {
        let (mut at, before) = (0, events.len());
        while at < events.len() {
            let mut candidate = events.clone();
            candidate.drain(at..(at + length).min(events.len()));
            attempts += 1;
            if attempts <= ATTEMPTS && fails(&candidate) {
                events = candidate;
            } else {
                at += length;
            }
        }
        match length {
            1 if events.len() == before => return events,
            _ => length = length.div_ceil(2),
        }
    }
}
