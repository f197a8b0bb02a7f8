//! Slices, and how much of each is loaded but not measured.

use base::Nanos;
use drive::{LoopStart, Slice};
use spec::Mode;

/// The share of a slice that is loaded but not measured while caches and queues fill: at least the
/// first value, and at most the second for slow requests. In a continued loop the first is no more
/// than the length below: what is left out of long slices would be left out of stops.
const LEAD_IN_SHARE: f64 = 0.2;
const LEAD_IN_SHARE_MAX: f64 = 0.5;
const LEAD_IN_CONTINUED: Nanos = Nanos::from_millis(5);

/// How long to wait for outstanding requests after a slice; the load's own timeout limits it too.
fn drain_of(variant: &spec::Variant) -> Nanos {
    variant.load.timeout
}

/// A slice of this length, with a lead-in as long as `wanted` within limits, or without one if
/// requests have no response.
pub(crate) fn slice_of(
    variant: &spec::Variant,
    mode: Mode,
    start: LoopStart,
    length: Nanos,
    wanted: Nanos,
) -> Slice {
    let (drain, stalled_after) = (drain_of(variant), None);
    if variant.is_one_way() {
        // When a single message arrived is unknown, so the whole slice is the window.
        let start = LoopStart::Fresh;
        let lead_in = Nanos::ZERO;
        return Slice {
            mode,
            start,
            lead_in,
            window: length,
            requests: None,
            drain,
            stalled_after,
        };
    }
    let share = |share: f64| Nanos((length.0 as f64 * share) as u64);
    let lead_in = wanted.max(shortest_lead_in(mode, start, length)).min(share(LEAD_IN_SHARE_MAX));
    let window = length - lead_in;
    Slice { mode, start, lead_in, window, requests: None, drain, stalled_after }
}

/// The shortest lead-in of slices of this mean length.
pub(crate) fn shortest_lead_in(mode: Mode, start: LoopStart, mean: Nanos) -> Nanos {
    let share = Nanos((mean.0 as f64 * LEAD_IN_SHARE) as u64);
    let continued = matches!(mode, Mode::Closed) && start != LoopStart::Fresh;
    if continued { share.min(LEAD_IN_CONTINUED) } else { share }
}
