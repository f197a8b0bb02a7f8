//! Which engine moves the bytes: what a person asked for, or the better one for the load at hand.

use std::io;

use netio::{Address, NoUring, Uring};
use spec::{EngineChoice, Load};

/// What moves the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Readiness: one system call each to send and to receive.
    Epoll,
    /// Completions: one system call for a batch of connections.
    IoUring,
}

impl EngineKind {
    /// The name as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Epoll => "epoll",
            EngineKind::IoUring => "io-uring",
        }
    }
}

/// The engine for a load on an address. An engine asked for by name that cannot be had is an error;
/// `auto` then takes the other.
pub(crate) fn choose(load: &Load, address: &Address) -> Result<EngineKind, NoUring> {
    match load.engine {
        EngineChoice::Epoll => Ok(EngineKind::Epoll),
        EngineChoice::IoUring => Uring::probe().map(|()| EngineKind::IoUring),
        EngineChoice::Auto if !is_io_uring_better(load, address) => Ok(EngineKind::Epoll),
        EngineChoice::Auto => {
            Ok(if Uring::probe().is_ok() { EngineKind::IoUring } else { EngineKind::Epoll })
        }
    }
}

/// The error when the engine that was asked for cannot be had.
pub(crate) fn unavailable(error: NoUring) -> io::Error {
    io::Error::other(error.to_string())
}

/// Whether io_uring was measured to be the better engine for a load like this one.
fn is_io_uring_better(_load: &Load, _address: &Address) -> bool {
    false
}
