//! Sockets without a slot that wait for their peer to close first.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Limit on the sockets of one engine that wait for their peer to close; beyond it the oldest is
/// closed from this side.
pub const RETIRED_MAX: usize = 256;

/// Retired sockets, by the token of their events.
#[derive(Debug)]
pub(crate) struct RetiredSockets {
    /// Each with its position in the order of retirement.
    sockets: HashMap<u64, (u64, OwnedFd)>,
    kept: u64,
}

impl RetiredSockets {
    /// Room for [`RETIRED_MAX`] sockets, so that keeping one never allocates.
    pub(crate) fn new() -> RetiredSockets {
        // A table at most half full never grows, however its entries come and go.
        RetiredSockets { sockets: HashMap::with_capacity(2 * RETIRED_MAX), kept: 0 }
    }

    /// Keeps a socket. Returns the oldest if there are too many.
    pub(crate) fn keep(&mut self, token: u64, socket: OwnedFd) -> Option<(u64, OwnedFd)> {
        let evicted = if self.sockets.len() >= RETIRED_MAX { self.oldest() } else { None };
        self.kept += 1;
        let before = self.sockets.insert(token, (self.kept, socket));
        debug_assert!(before.is_none(), "a token belongs to one socket");
        debug_assert!(self.sockets.len() <= RETIRED_MAX, "the table never grows");
        evicted
    }

    /// Takes out the socket with this token, if present.
    pub(crate) fn release(&mut self, token: u64) -> Option<OwnedFd> {
        self.sockets.remove(&token).map(|(_, socket)| socket)
    }

    /// The number of sockets kept.
    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Takes out the oldest socket. The search is only necessary if a server leaves closing to its
    /// clients.
    pub(crate) fn oldest(&mut self) -> Option<(u64, OwnedFd)> {
        let (token, _) = self.sockets.iter().min_by_key(|(_, (place, _))| *place)?;
        let token = *token;
        self.release(token).map(|socket| (token, socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::os::unix::net::UnixDatagram::unbound().unwrap().into()
    }

    #[test]
    fn a_socket_is_not_evicted_because_others_came_and_went() {
        let mut retired = RetiredSockets::new();
        assert!(retired.keep(0, socket()).is_none());
        for token in 1..=4 * RETIRED_MAX as u64 {
            assert!(retired.keep(token, socket()).is_none(), "two are here");
            assert!(retired.release(token).is_some());
        }
        assert!(retired.release(0).is_some());
    }

    #[test]
    fn with_too_many_the_oldest_goes() {
        let mut retired = RetiredSockets::new();
        let most = RETIRED_MAX as u64;
        for token in 0..most {
            assert!(retired.keep(token, socket()).is_none());
        }
        assert!(retired.release(0).is_some(), "it was the oldest");
        assert!(retired.keep(most, socket()).is_none());
        for oldest in 1..5 {
            let (token, _) = retired.keep(most + oldest, socket()).unwrap();
            assert_eq!(token, oldest);
        }
    }
}
