//! How much memory the bodies of one sender may take while they arrive.
//!
//! All messages together have a limit. Without one for each sender, a few bodies that arrive slowly
//! would keep all of it from others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::places::Holder;

/// Bytes of bodies that arrive, by those who send them. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares(Arc<Mutex<HashMap<Option<Holder>, usize>>>);

impl Shares {
    /// The share of a body of a sender, which is empty.
    pub(crate) fn of(&self, holder: Option<Holder>) -> Share {
        Share { shares: self.clone(), holder, bytes: 0 }
    }
}

/// What a body has of its sender's share, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Shares,
    holder: Option<Holder>,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more; false if the sender would have more than `bytes_max` then.
    pub(crate) fn take(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = shares.entry(self.holder).or_default();
        let has_room = *taken + bytes <= bytes_max;
        if has_room {
            *taken += bytes;
            self.bytes += bytes;
        }
        has_room
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = shares.get(&self.holder).copied().unwrap_or_default().saturating_sub(self.bytes);
        match left {
            0 => shares.remove(&self.holder),
            left => shares.insert(self.holder, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_one_sender_leave_room_for_others_and_give_theirs_back() {
        let shares = Shares::default();
        let [one, other] = [1, 2].map(|user| Some(Holder::User(user)));
        let (mut first, mut second) = (shares.of(one), shares.of(one));
        assert!(first.take(6, 10) && second.take(4, 10) && !second.take(1, 10));
        assert!(shares.of(other).take(10, 10) && shares.of(None).take(10, 10));
        drop(first);
        assert!(second.take(6, 10));
        drop(second);
        assert!(shares.0.lock().unwrap().is_empty());
    }
}
