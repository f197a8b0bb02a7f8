//! The clocks of the machine.

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::Nanos;

/// The kernel's `CLOCK_MONOTONIC`, the same for every process on the machine: nanoseconds since an
/// arbitrary origin, which never decrease.
pub fn monotonic_now() -> Nanos {
    let t = clock_gettime(ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// The wall clock, for records and file names; never for measurements.
pub fn timestamp_now() -> Timestamp {
    Timestamp::now()
}
