//! The ledger: requests offered, sent, completed and served, and whether they add up.
//!
//! Pure arithmetic on counts. The client's count, the server-side count and the recorded series
//! must be equal to the last request; the tolerance is zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The client's side of the ledger.
///
/// Two laws hold for every window: `offered = sent + dropped` and `sent = completed + failed +
/// in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests due according to the schedule.
    pub offered: u64,
    /// Offered but never sent: no connection of the open loop was free in time.
    pub dropped: u64,
    /// Requests of which at least one byte was handed to the kernel, or for which a connection was
    /// attempted.
    pub sent: u64,
    /// Requests with a complete response that is the expected one.
    pub completed: u64,
    /// Requests that ended with an error, a timeout or an unexpected response.
    pub failed: u64,
    /// Requests sent, but neither completed nor failed at the time of counting.
    pub in_flight: u64,
    /// Requests sent over a new connection because the server had closed an idle one. They are
    /// counted once in `sent`, and appear in no equation.
    #[serde(default)]
    pub reconnected: u64,
}

impl Counts {
    /// Adds a later window's counts. `in_flight` is a level, so the later value replaces the
    /// earlier one. Sums end at [`FULL`].
    pub fn extend(&mut self, later: &Counts) {
        self.offered = self.offered.saturating_add(later.offered);
        self.dropped = self.dropped.saturating_add(later.dropped);
        self.sent = self.sent.saturating_add(later.sent);
        self.completed = self.completed.saturating_add(later.completed);
        self.failed = self.failed.saturating_add(later.failed);
        self.in_flight = later.in_flight;
        self.reconnected = self.reconnected.saturating_add(later.reconnected);
    }

    /// Adds another thread's or variant's counts for the same time; here `in_flight` is added too.
    pub fn merge(&mut self, other: &Counts) {
        let add_up = self.add_up() && other.add_up();
        let in_flight = self.in_flight.saturating_add(other.in_flight);
        self.extend(other);
        self.in_flight = in_flight;
        let is_full = self.equations().iter().any(Discrepancy::is_full);
        debug_assert!(
            self.add_up() || !add_up || is_full,
            "sums of equations are equations: {self:?}"
        );
    }

    /// What was counted after `earlier`, of the same requests; nothing where that is more.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            offered: self.offered.saturating_sub(earlier.offered),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            sent: self.sent.saturating_sub(earlier.sent),
            completed: self.completed.saturating_sub(earlier.completed),
            failed: self.failed.saturating_sub(earlier.failed),
            in_flight: self.in_flight.saturating_sub(earlier.in_flight),
            reconnected: self.reconnected.saturating_sub(earlier.reconnected),
        }
    }

    /// Whether both laws hold.
    pub fn add_up(&self) -> bool {
        self.equations().iter().all(Discrepancy::holds)
    }

    /// Both sides of the two laws.
    fn equations(&self) -> [Discrepancy; 2] {
        let right = self.sent.saturating_add(self.dropped);
        let offered = Discrepancy { law: Law::Offered, left: self.offered, right };
        let right = self.completed.saturating_add(self.failed).saturating_add(self.in_flight);
        [offered, Discrepancy { law: Law::Sent, left: self.sent, right }]
    }
}

/// A count that is this large could not be added up: counts come from servers and other machines,
/// and their sum may exceed 64 bits. No equation with such a side holds.
pub const FULL: u64 = u64::MAX;

/// Number of failures by kind.
pub type Errors = BTreeMap<String, u64>;

/// Adds counts of errors. Sums end at [`FULL`].
pub fn add_errors(sum: &mut Errors, part: &Errors) {
    for (kind, count) in part {
        let sum = sum.entry(kind.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// One row of the ledger, with the server-side count and the recorded series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The client's counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The server-side count over the same life of the stack, if there is one.
    pub served: Option<u64>,
    /// Completed messages that the server's kernel discarded before the server read them, as counted
    /// there, if they are counted. Only datagrams are discarded.
    #[serde(default)]
    pub discarded: Option<u64>,
    /// The integral of the recorded series of completed requests, if there is one.
    pub series: Option<u64>,
    /// Failures by kind.
    pub errors: Errors,
}

/// How many failures a verdict tolerates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The largest share of sent requests that may fail: 0 in a closed loop, 0.0001 in an open one.
    pub failed_share: f64,
}

impl Tolerance {
    /// Closed loop: no failures.
    pub const CLOSED: Tolerance = Tolerance { failed_share: 0.0 };
    /// Open loop: one failure in ten thousand.
    pub const OPEN: Tolerance = Tolerance { failed_share: 1e-4 };
}

/// An equation of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// offered = sent + dropped.
    Offered,
    /// sent = completed + failed + in flight.
    Sent,
    /// served + discarded = completed.
    Served,
    /// The integral of the recorded series = completed.
    Series,
}

/// An equation that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discrepancy {
    /// The equation.
    pub law: Law,
    /// Its left-hand side.
    pub left: u64,
    /// Its right-hand side.
    pub right: u64,
}

impl Discrepancy {
    /// Whether both sides are equal, and neither is a sum that was too large.
    pub fn holds(&self) -> bool {
        self.left == self.right && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.left == FULL || self.right == FULL
    }

    /// Left-hand side minus right-hand side, in requests.
    pub fn difference(&self) -> i128 {
        i128::from(self.left) - i128::from(self.right)
    }
}

impl Ledger {
    /// Both sides of each equation whose counts are known.
    ///
    /// `served` is compared with `completed`: whether a failed request had reached the server
    /// cannot be known from outside, so every difference is reported and none is explained away.
    pub fn equations(&self) -> Vec<Discrepancy> {
        let mut equations = self.counts.equations().to_vec();
        let discarded = self.discarded.unwrap_or(0);
        let arrived = self.served.map(|served| served.saturating_add(discarded));
        let known = [(Law::Served, arrived), (Law::Series, self.series)];
        equations.extend(known.into_iter().filter_map(|(law, left)| {
            Some(Discrepancy { law, left: left?, right: self.counts.completed })
        }));
        equations
    }

    /// The equations that do not hold; if there are none, the ledger adds up.
    pub fn audit(&self) -> Vec<Discrepancy> {
        self.equations().into_iter().filter(|gap| !gap.holds()).collect()
    }

    /// Whether more requests failed than tolerated.
    pub fn fails(&self, tolerance: Tolerance) -> bool {
        self.counts.failed as f64 > tolerance.failed_share * self.counts.sent as f64
    }

    /// Adds the ledger of a later trial of the same variant. If a count is missing on one side, the
    /// sum has none.
    pub fn extend(&mut self, later: &Ledger) {
        self.counts.extend(&later.counts);
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        self.served = sum(self.served, later.served);
        self.discarded = sum(self.discarded, later.discarded);
        self.series = sum(self.series, later.series);
        add_errors(&mut self.errors, &later.errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sound(n: u64) -> Ledger {
        Ledger {
            counts: Counts { offered: n, sent: n, completed: n, ..Counts::default() },
            served: Some(n),
            discarded: None,
            series: Some(n),
            errors: Errors::new(),
        }
    }

    #[test]
    fn what_the_kernel_discarded_is_not_served_and_not_lost_unnoticed() {
        let mut ledger = Ledger { served: Some(93), discarded: Some(7), ..sound(100) };
        assert_eq!(ledger.audit(), []);
        ledger.discarded = Some(6);
        let gap = Discrepancy { law: Law::Served, left: 99, right: 100 };
        assert_eq!(ledger.audit(), [gap], "one message that nothing counted");
        ledger.extend(&Ledger { served: Some(1), discarded: Some(2), ..sound(3) });
        assert_eq!((ledger.served, ledger.discarded), (Some(94), Some(8)));
    }

    #[test]
    fn a_sound_ledger_has_no_discrepancy() {
        assert_eq!(sound(1_000_000).audit(), []);
        assert_eq!(sound(7).equations().len(), 4);
    }

    #[test]
    fn a_sum_that_exceeded_64_bits_wrapped_and_added_up() {
        let half = 1 << 63;
        let mut ledger = sound(half);
        ledger.extend(&sound(half));
        assert_eq!((ledger.counts.completed, ledger.served), (FULL, Some(FULL)));
        let laws: Vec<Law> = ledger.audit().iter().map(|gap| gap.law).collect();
        assert_eq!(laws, [Law::Offered, Law::Sent, Law::Served, Law::Series]);
        let mut counts = sound(half).counts;
        counts.merge(&sound(half).counts);
        assert!(!counts.add_up());
    }

    #[test]
    fn one_in_a_million_is_seen() {
        let mut ledger = sound(1_000_000);
        ledger.served = Some(999_999);
        let gap = Discrepancy { law: Law::Served, left: 999_999, right: 1_000_000 };
        assert_eq!(ledger.audit(), [gap]);
        assert_eq!(gap.difference(), -1);
    }

    #[test]
    fn requests_over_new_connections_add_up_and_are_in_no_equation() {
        let mut sum =
            Counts { sent: 5, completed: 5, offered: 5, reconnected: 2, ..Default::default() };
        let other = sum;
        sum.extend(&other);
        sum.merge(&other);
        assert_eq!((sum.sent, sum.reconnected), (15, 6));
        let ledger = Ledger { counts: sum, ..Ledger::default() };
        assert_eq!(ledger.audit(), []);
    }

    #[test]
    fn a_failure_is_tolerated_in_an_open_loop_only() {
        let mut ledger = sound(20_000);
        ledger.counts.completed -= 1;
        ledger.counts.failed = 1;
        ledger.served = Some(19_999);
        ledger.series = Some(19_999);
        ledger.errors.insert("timeout".to_owned(), 1);
        assert_eq!(ledger.audit(), []);
        assert!(!ledger.fails(Tolerance::OPEN));
        assert!(ledger.fails(Tolerance::CLOSED));
    }

    #[test]
    fn a_count_that_is_unknown_is_in_no_equation() {
        let ledger = Ledger { served: None, series: None, ..sound(5) };
        assert_eq!(ledger.audit(), []);
        assert_eq!(ledger.equations().len(), 2);
    }

    proptest! {
        #[test]
        fn any_single_difference_is_found(n in 1u64..1 << 40, column in 0usize..5, by in 1u64..1000) {
            let mut ledger = sound(n);
            match column {
                0 => ledger.counts.offered += by,
                1 => ledger.counts.completed += by,
                2 => ledger.served = Some(n + by),
                3 => ledger.series = Some(n + by),
                _ => ledger.counts.in_flight += by,
            }
            prop_assert!(!ledger.audit().is_empty());
        }

        #[test]
        fn sound_ledgers_add_up_to_sound_ledgers(parts in prop::collection::vec(0u64..1 << 30, 1..20)) {
            let mut sum = sound(0);
            for part in &parts {
                sum.extend(&sound(*part));
            }
            prop_assert_eq!(sum, sound(parts.iter().sum()));
        }
    }
}
