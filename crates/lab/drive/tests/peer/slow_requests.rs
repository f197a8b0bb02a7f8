//! Closed loops of servers that are sometimes slow.

use crate::helper::*;
use base::Nanos;
use drive::{LoopStart, Slice};
use fixture::{Faults, Service};

/// Requests per second of short slices that follow one another.
fn rate(slow_every: u64, slow_by: Nanos, starts: impl Iterator<Item = LoopStart>) -> f64 {
    let faults = Faults { delay_every: slow_every, delay_every_by: slow_by, ..Faults::default() };
    let rig = rig(On::Unix, Service::hello(), faults);
    let mut session = rig.session();
    let (mut completed, mut seconds, mut sent) = (0, 0.0, 0);
    for start in starts {
        let seen = session.run(&Slice { start, ..for_ms(5, 20) }).unwrap();
        assert_counts(&seen.counts);
        assert_eq!(seen.counts.failed, 0);
        assert!(seen.window.busy_ns <= seen.window.counted_ns, "{:?}", seen.window);
        completed += seen.window.completed;
        seconds += seen.window.length.as_secs_f64();
        sent += seen.counts.sent;
    }
    assert!(completed <= sent, "what a slice carries over completes once");
    completed as f64 / seconds
}

#[test]
fn a_loop_that_began_fresh_in_each_slice_was_too_fast_for_its_slow_requests() {
    // Each of four connections is busy for 100 ms at every fiftieth request: at most 2,000 per second
    // in the long run, however fast the machine is. A slice of 25 ms that begins fresh has 200
    // requests before its connections are busy.
    let spread = LoopStart::Spread(Nanos::from_millis(100));
    let starts = std::iter::once(spread).chain(std::iter::repeat_n(LoopStart::Continued, 60));
    let rate = rate(50, Nanos::from_millis(100), starts);
    assert!(rate < 2.0 * 2_000.0, "{rate}");
    assert!(rate > 0.0, "{rate}");
}

#[test]
fn a_connection_waits_for_as_long_as_its_last_request_exceeded_the_slice() {
    let faults =
        Faults { delay_every: 1, delay_every_by: Nanos::from_millis(100), ..Faults::default() };
    let rig = rig(On::Unix, Service::hello(), faults);
    let mut session = rig.session();
    let slice = |start| Slice { start, ..for_ms(5, 20) };
    // The first request of each connection does not count, so it carries nothing over.
    let first = session.run(&slice(LoopStart::Continued)).unwrap();
    assert_eq!((first.counts.completed, first.window.completed), (4, 0));
    let long = session.run(&Slice { start: LoopStart::Continued, ..for_ms(5, 300) }).unwrap();
    assert!(long.counts.completed >= 8, "{:?}", long.counts);
    // Hardly more than 100 ms is carried over, and twenty slices last for 500 ms.
    let sent: u64 =
        (0..20).map(|_| session.run(&slice(LoopStart::Continued)).unwrap().counts.sent).sum();
    assert!(sent >= 4, "{sent}");
}
