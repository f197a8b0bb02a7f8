//! Sockets without a slot, waiting for their peer to close first.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

/// Sockets that one engine keeps aside until their peer closes; beyond it the oldest is closed from this side.
pub const RETIRED_MAX: usize = 256;

/// Sockets that were kept aside, by the token under which their events come.
#[derive(Debug)]
pub(crate) struct Retired {
    sockets: HashMap<u64, OwnedFd>,
    order: VecDeque<u64>,
}

impl Retired {
    /// Room for [`RETIRED_MAX`] sockets, so that keeping one never allocates.
    pub(crate) fn new() -> Retired {
        Retired {
            // A table at most half full never grows, however its entries come and go.
            sockets: HashMap::with_capacity(2 * RETIRED_MAX),
            order: VecDeque::with_capacity(RETIRED_MAX),
        }
    }

    /// Keeps a socket aside. Returns the oldest where there are too many.
    pub(crate) fn keep(&mut self, token: u64, socket: OwnedFd) -> Option<(u64, OwnedFd)> {
        let oldest = if self.order.len() >= RETIRED_MAX { self.order.pop_front() } else { None };
        let evicted =
            oldest.and_then(|oldest| self.sockets.remove(&oldest).map(|socket| (oldest, socket)));
        self.order.push_back(token);
        self.sockets.insert(token, socket);
        evicted
    }

    /// Takes back the socket with this token, if it is here.
    pub(crate) fn release(&mut self, token: u64) -> Option<OwnedFd> {
        self.sockets.remove(&token)
    }
}
