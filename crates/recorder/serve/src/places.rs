//! How many connections an address may have, in all and from one sender: a machine or a network, or a
//! user of this machine over a Unix socket.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Bits of an IPv6 address that belong to the sender's network: a machine usually has all others.
const V6_NETWORK: u32 = 64;

/// The places of an address. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Mutex<Taken>>,
    places_max: usize,
    of_sender_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_sender: HashMap<Holder, usize>,
}

/// Who holds places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// A sender's network.
    Network(IpAddr),
    /// A user of this machine, by number.
    User(u32),
}

impl Holder {
    pub(crate) fn network(sender: IpAddr) -> Holder {
        Holder::Network(network_of(sender))
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Mutex<Taken>>,
    sender: Option<Holder>,
}

impl Places {
    pub(crate) fn new(places_max: usize, of_sender_max: usize) -> Places {
        Places { shared: Arc::default(), places_max, of_sender_max }
    }

    /// A place for a connection; one of which no sender is known counts only in all.
    ///
    /// # Errors
    /// The reason in `/metrics`, if there is none.
    pub(crate) fn take(&self, sender: Option<Holder>) -> Result<Place, &'static str> {
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.places_max {
            return Err("too_many_connections");
        }
        if let Some(sender) = sender {
            let known = taken.by_sender.get(&sender).copied().unwrap_or_default();
            if known >= self.of_sender_max {
                return Err("too_many_connections_of_sender");
            }
            taken.by_sender.insert(sender, known + 1);
        }
        taken.all += 1;
        Ok(Place { shared: self.shared.clone(), sender })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        let Some(sender) = self.sender else { return };
        let left = taken.by_sender.get(&sender).copied().unwrap_or_default().saturating_sub(1);
        match left {
            0 => taken.by_sender.remove(&sender),
            left => taken.by_sender.insert(sender, left),
        };
    }
}

fn network_of(sender: IpAddr) -> IpAddr {
    match sender.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (128 - V6_NETWORK);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_cannot_take_all_places() {
        let places = Places::new(3, 2);
        let sender = |text: &str| Some(Holder::network(text.parse().unwrap()));
        let first = places.take(sender("192.0.2.1")).unwrap();
        let _second = places.take(sender("::ffff:192.0.2.1")).unwrap();
        let refused = places.take(sender("192.0.2.1")).unwrap_err();
        assert_eq!(refused, "too_many_connections_of_sender");
        let _unix = places.take(None).unwrap();
        assert_eq!(places.take(sender("192.0.2.2")).unwrap_err(), "too_many_connections");
        drop(first);
        let _again = places.take(sender("192.0.2.1")).unwrap();
        assert_eq!(places.shared.lock().unwrap().all, 3);
        drop(_again);
        drop(_second);
        assert!(places.shared.lock().unwrap().by_sender.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_sender() {
        let places = Places::new(3, 1);
        let sender = |text: &str| Some(Holder::network(text.parse().unwrap()));
        let _one = places.take(sender("2001:db8::1")).unwrap();
        assert!(places.take(sender("2001:db8::2")).is_err());
        assert!(places.take(sender("2001:db8:0:1::2")).is_ok());
    }
}
