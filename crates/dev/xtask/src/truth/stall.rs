//! The latency of requests that arrive at a constant rate at a server that stalls.

use base::Nanos;
use fixture::Freeze;

use super::results::millis;
use crate::tools::report::Latency;

/// The latencies of `per_s` × `seconds` requests that arrive at equal gaps, the first of them at 0,
/// at a server that holds every response for `delay`, has room for any number of requests, and
/// sends nothing while it is frozen: response sent − arrival, in milliseconds.
pub(super) fn latencies(per_s: u32, seconds: u32, delay: Nanos, freeze: Freeze) -> Vec<f64> {
    let gap_ns = 1_000_000_000 / u64::from(per_s);
    let arrivals = (0..u64::from(per_s) * u64::from(seconds)).map(|i| Nanos(i * gap_ns));
    arrivals.map(|arrival| millis(freeze.sent_at(arrival + delay) - arrival)).collect()
}

/// Mean and quantiles of these latencies.
pub(super) fn truth(per_s: u32, seconds: u32, delay: Nanos, freeze: Freeze) -> Latency {
    Latency::of(latencies(per_s, seconds, delay, freeze))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn every_request_of_a_stall_waits_for_its_end() {
        // 10 requests, one per 100 ms; frozen from 300 to 600 ms; no delay otherwise but 1 ms.
        let freeze = Freeze { first: MS(300), every: MS(10_000), length: MS(300) };
        assert_eq!(
            latencies(10, 1, MS(1), freeze),
            [1.0, 1.0, 1.0, 300.0, 200.0, 100.0, 1.0, 1.0, 1.0, 1.0]
        );
    }

    #[test]
    fn the_quantiles_are_those_of_the_closed_form() {
        // A fifth of the requests waits between 0 and 1 s, uniformly: the quantile q above 0.8 is
        // (q − 0.8) / 0.2 of a second, and the mean is a fifth of half a second.
        let freeze = Freeze { first: MS(2000), every: MS(5000), length: MS(1000) };
        let truth = truth(200, 10, MS(5), freeze);
        for (value, expected) in [
            (truth.mean, 105.0),
            (truth.p50, 5.0),
            (truth.p99, 955.0),
            (truth.p99_9, 1000.0),
            (truth.max, 1005.0),
        ] {
            let value = value.expect("a value");
            // Within one gap between arrivals.
            assert!((value - expected).abs() <= 5.0, "{value} is not {expected}");
        }
    }
}
