//! What the daemon tells its tasks when it ends, or hands over.

use tokio::time::Instant;

/// What the daemon's tasks are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Run,
    /// HTTP connections end after the request in progress, or without its answer then; everything
    /// else goes on.
    Drain {
        until: Instant,
    },
    /// Nothing is read any more, and sockets and connections are returned.
    HandOver,
    /// What has arrived is read, then everything ends.
    Stop,
}
