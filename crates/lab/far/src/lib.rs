//! Stacks and clients on other machines.
//!
//! [`agent::serve`] is the far end: tachograph's own binary, started over ssh, which owns a stage,
//! its stacks and sessions of load, and does what the near end asks. [`Machine`] is the near end:
//!
//! ```text
//!  conduct ── Machine ══ two byte streams (ssh) ══ agent ─┬─ guard ── stack
//!                                                         └─ client threads
//! ```
//!
//! The agent ends with its channel: when the channel closes, or nothing is heard for
//! [`SILENCE_MAX`], it exits, and the guards stop its stacks. So nothing stays on a machine that the
//! network has cut off.
//!
//! No duration is computed from the clocks of two machines. Their offset is measured only to let
//! the slices of several clients begin together ([`Offset`]).

pub mod agent;
mod clock;
mod error;
mod frame;
mod link;
mod machine;
mod message;
pub mod reach;
mod session;
mod stack;

use std::io;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use drive::RoundTrip;
use host::Way;

pub use clock::Offset;
pub use error::FarError;
pub use frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
pub use link::{Ends, Transport};
pub use machine::{Machine, PendingReading, bracketed};
pub use message::{Claim, ErrandOrder, Facts, Look, MachineReading, StackOptions};
pub use session::{Clients, CombinedSlice};
pub use stack::{CountReader, ProfiledStack, Stack};

/// The way from this machine to a listening server, `HOST:PORT`, and its round trip.
///
/// # Errors
/// If the server cannot be reached.
pub fn way(server: &str) -> io::Result<(Option<Way>, RoundTrip)> {
    let unknown = || io::Error::from(io::ErrorKind::AddrNotAvailable);
    let address = server.to_socket_addrs()?.next().ok_or_else(unknown)?;
    Ok((Way::to(address.ip()), RoundTrip::measure(address, ROUND_TRIPS)?))
}

/// Round trips of one measurement.
const ROUND_TRIPS: u32 = 11;

/// Either end counts as gone when nothing has been heard of it for so long.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How often each end says that it is alive.
const BEAT: Duration = Duration::from_millis(500);
