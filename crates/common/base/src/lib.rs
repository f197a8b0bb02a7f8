//! Units, ids, clocks and seeded randomness that every other crate shares.
//!
//! No I/O happens here beyond reading a clock. A quantity carries its unit in
//! its type ([`Nanos`], [`Bytes`]) or, where it is a bare number, in its name
//! (`throughput_per_s`, `cpu_ns`).

mod clock;
mod cpus;
mod id;
mod machine;
mod memory;
mod secrets;
mod seed;
mod units;

pub use clock::{monotonic_now, timestamp_now};
pub use cpus::{CpuSet, CpuSetError};
pub use id::RunId;
pub use jiff::Timestamp;
pub use machine::{Machine, WakeCost};
pub use memory::give_back_memory;
pub use secrets::{is_secret_name, redact, redact_arguments, redact_body, redact_header};
pub use seed::{Rng, Seed};
pub use units::{Bytes, Nanos, UnitError, format_count, format_rate, parse_fraction, parse_rate};
