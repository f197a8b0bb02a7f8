//! What this machine is and how busy it is, read from /proc and /sys.
//!
//! Nothing on the machine is changed. Files are read in one place and
//! understood in another ([`mod@parse`]), so that every format has table tests
//! on sample texts. What a kernel does not offer is `None`, an empty text or a
//! count that never rises; only /proc/stat is required.

mod canary;
mod machine;
pub mod parse;
mod snapshot;

pub use canary::{Canary, canary};
pub use machine::{MachineFacts, machine, online_cpus, usable_cpus};
pub use snapshot::{Change, Conntrack, CpuChange, HostError, Snapshot};
