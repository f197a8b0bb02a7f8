//! What a search for a capacity looks for.

use base::Nanos;

/// The search for the highest rate at which conditions hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityAim {
    /// The quantile of latency and its limit.
    pub latency: Option<LatencyLimit>,
    /// The share of requests that may fail.
    pub errors: Option<f64>,
    /// The share of CPU time that the stack may use.
    pub cpu: Option<f64>,
    /// The highest rate to offer.
    pub rate_max_per_s: f64,
}

/// A limit on a quantile of latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyLimit {
    /// 0.99 for p99.
    pub quantile: f64,
    /// The limit.
    pub limit: Nanos,
}
