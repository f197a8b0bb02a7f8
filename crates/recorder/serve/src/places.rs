//! How many connections an address may have, in all and from one sender: a machine or a network, or a
//! user of this machine over a Unix socket or a loopback address.
//!
//! When no place is left, a new connection takes the place of the one that has been idle longest.
//! Otherwise connections that send nothing could lock others out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Bits of an IPv6 address that belong to the sender's network: a machine usually has all others.
const V6_NETWORK: u32 = 64;

/// How long a connection must have sent nothing complete before it gives way to a new one. Agents
/// such as Telegraf and collectd send every 10 s.
const IDLE: Duration = Duration::from_secs(20);

/// The reason in `/metrics` for closing a connection whose place a new one has got.
pub(crate) const GAVE_WAY: &str = "idle_connection";

/// The places of an address. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Mutex<TakenPlaces>>,
    places_max: usize,
    of_sender_max: usize,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    /// By number, in the order in which they were taken.
    held: HashMap<u64, HeldPlace>,
    by_sender: HashMap<Holder, usize>,
    next: u64,
}

/// A place that a connection holds.
#[derive(Debug)]
struct HeldPlace {
    sender: Option<Holder>,
    /// Since when nothing complete has arrived; `None` while a request is answered.
    idle_since: Option<Instant>,
    lost: Arc<Notify>,
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

/// A connection's place, until it is dropped, or another connection gets it.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Mutex<TakenPlaces>>,
    number: u64,
    sender: Option<Holder>,
    lost: Arc<Notify>,
}

impl Places {
    pub(crate) fn new(places_max: usize, of_sender_max: usize) -> Places {
        Places { shared: Arc::default(), places_max, of_sender_max }
    }

    /// A place for a new connection; one of which no sender is known counts only in all.
    ///
    /// # Errors
    /// The reason in `/metrics`, if there is none, and no connection that has been [`IDLE`].
    pub(crate) fn take(&self, sender: Option<Holder>) -> Result<Place, &'static str> {
        let mut taken = lock(&self.shared);
        let of_sender = sender.and_then(|sender| taken.by_sender.get(&sender).copied());
        if of_sender.is_some_and(|known| known >= self.of_sender_max)
            && !taken.take_from_idle(|held| held.sender == sender)
        {
            return Err("too_many_connections_of_sender");
        }
        if taken.held.len() >= self.places_max && !taken.take_from_idle(|_| true) {
            return Err("too_many_connections");
        }
        Ok(self.add(&mut taken, sender))
    }

    /// A place for a connection that a predecessor has accepted, also beyond the limits.
    pub(crate) fn keep(&self, sender: Option<Holder>) -> Place {
        self.add(&mut lock(&self.shared), sender)
    }

    fn add(&self, taken: &mut TakenPlaces, sender: Option<Holder>) -> Place {
        let (number, lost) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        if let Some(sender) = sender {
            *taken.by_sender.entry(sender).or_default() += 1;
        }
        let held = HeldPlace { sender, idle_since: Some(Instant::now()), lost: lost.clone() };
        taken.held.insert(number, held);
        Place { shared: self.shared.clone(), number, sender, lost }
    }
}

impl TakenPlaces {
    /// Takes the place of the connection that has been idle for the longest time, if that is long
    /// enough.
    fn take_from_idle(&mut self, may: impl Fn(&HeldPlace) -> bool) -> bool {
        let able = self.held.iter().filter(|(_, held)| may(held));
        let idle = able.filter_map(|(number, held)| Some((held.idle_since?, *number)));
        let oldest = idle.min().filter(|(since, _)| since.elapsed() >= IDLE);
        let lost = oldest.and_then(|(_, number)| self.remove(number));
        lost.map(|held| held.lost.notify_one()).is_some()
    }

    fn remove(&mut self, number: u64) -> Option<HeldPlace> {
        let held = self.held.remove(&number)?;
        if let Some(sender) = held.sender {
            let left = self.by_sender.get(&sender).copied().unwrap_or_default().saturating_sub(1);
            match left {
                0 => self.by_sender.remove(&sender),
                left => self.by_sender.insert(sender, left),
            };
        }
        Some(held)
    }
}

impl Place {
    /// Whose connection it is, if that is known.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.sender
    }

    /// Something complete has arrived, or was answered.
    pub(crate) fn rests(&self) {
        self.set(Some(Instant::now()));
    }

    /// A whole request has arrived. Until [`Place::rests`] the place is not lost.
    pub(crate) fn works(&self) {
        self.set(None);
    }

    fn set(&self, idle_since: Option<Instant>) {
        if let Some(held) = lock(&self.shared).held.get_mut(&self.number) {
            held.idle_since = idle_since;
        }
    }

    /// Whether another connection has got the place.
    pub(crate) fn is_lost(&self) -> bool {
        !lock(&self.shared).held.contains_key(&self.number)
    }

    /// Waits until another connection has got the place. Then this one is to end.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // `None` if it is lost.
        let _ = lock(&self.shared).remove(self.number);
    }
}

fn lock(shared: &Mutex<TakenPlaces>) -> MutexGuard<'_, TakenPlaces> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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
    use futures_util::FutureExt as _;

    use super::*;

    fn sender(text: &str) -> Option<Holder> {
        Some(Holder::network(text.parse().unwrap()))
    }

    #[test]
    fn one_sender_cannot_take_all_places() {
        let places = Places::new(3, 2);
        let first = places.take(sender("192.0.2.1")).unwrap();
        let _second = places.take(sender("::ffff:192.0.2.1")).unwrap();
        let refused = places.take(sender("192.0.2.1")).unwrap_err();
        assert_eq!(refused, "too_many_connections_of_sender");
        let _unix = places.take(None).unwrap();
        assert_eq!(places.take(sender("192.0.2.2")).unwrap_err(), "too_many_connections");
        drop(first);
        let _again = places.take(sender("192.0.2.1")).unwrap();
        assert_eq!(lock(&places.shared).held.len(), 3);
        drop(_again);
        drop(_second);
        assert!(lock(&places.shared).by_sender.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_sender() {
        let places = Places::new(3, 1);
        let _one = places.take(sender("2001:db8::1")).unwrap();
        assert!(places.take(sender("2001:db8::2")).is_err());
        assert!(places.take(sender("2001:db8:0:1::2")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn six_hundred_idle_connections_do_not_lock_others_of_this_machine_out() {
        let places = Places::new(1_000, 500);
        let local = || sender("127.0.0.1");
        let remote = places.take(sender("192.0.2.1")).unwrap();
        let idle: Vec<Place> = (0..600).filter_map(|_| places.take(local()).ok()).collect();
        assert_eq!(idle.len(), 500);
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(places.take(local()).unwrap_err(), "too_many_connections_of_sender");
        // The oldest sends a line, and the next one a whole request, which is being answered.
        idle[0].rests();
        idle[1].works();
        tokio::time::advance(IDLE / 2).await;
        let new: Vec<Place> = (0..100).map(|_| places.take(local()).unwrap()).collect();
        let lost = |place: &Place| (place.is_lost(), place.lost().now_or_never().is_some());
        let expected = |number: usize| (2..102).contains(&number);
        for (number, place) in idle.iter().enumerate() {
            assert_eq!(lost(place), (expected(number), expected(number)), "{number}");
        }
        assert!(!new.iter().any(Place::is_lost));
        assert!(!remote.is_lost(), "it belongs to another sender");
        // A lost place is given up once.
        assert_eq!(lock(&places.shared).held.len(), 501);
        drop(idle);
        assert_eq!(lock(&places.shared).held.len(), 101);
        assert_eq!(lock(&places.shared).by_sender[&local().unwrap()], 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_address_takes_the_place_of_any_sender_that_is_idle() {
        let places = Places::new(2, 2);
        let first = places.take(sender("192.0.2.1")).unwrap();
        let second = places.take(sender("192.0.2.2")).unwrap();
        // A predecessor's connections stay, even if there are too many.
        let kept = places.keep(sender("192.0.2.2"));
        tokio::time::advance(IDLE).await;
        second.rests();
        assert!(places.take(None).is_ok_and(|place| !place.is_lost()));
        assert_eq!((first.is_lost(), second.is_lost(), kept.is_lost()), (true, false, false));
    }
}
