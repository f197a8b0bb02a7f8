//! The offset between the monotonic clocks of two machines.

use base::Nanos;
use serde::{Deserialize, Serialize};

/// How far another machine's monotonic clock is ahead of ours.
///
/// Its clock was read at some instant between our question and the answer; taking the middle, the
/// error is at most half of the round trip. Of several exchanges the one with the shortest round
/// trip counts, as in NTP's clock filter (RFC 5905, section 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Their clock less ours, in nanoseconds.
    pub offset_ns: i64,
    /// The largest error of the offset.
    pub error: Nanos,
}

impl Offset {
    /// From one exchange: our clock before and after it, and theirs in between.
    pub(crate) fn of_exchange(asked: Nanos, theirs: Nanos, answered: Nanos) -> Offset {
        let round_trip = answered.saturating_sub(asked);
        let middle = i128::from(asked.0) + i128::from(round_trip.0 / 2);
        let offset_ns = i128::from(theirs.0) - middle;
        Offset { offset_ns: offset_ns as i64, error: Nanos(round_trip.0.div_ceil(2)) }
    }

    /// The exchange with the shortest round trip.
    pub(crate) fn best(exchanges: impl IntoIterator<Item = Offset>) -> Option<Offset> {
        exchanges.into_iter().min_by_key(|exchange| exchange.error)
    }

    /// Their clock at one of our instants.
    pub fn there(&self, here: Nanos) -> Nanos {
        let there = i128::from(here.0) + i128::from(self.offset_ns);
        Nanos(u64::try_from(there).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_error(
            asked in 0u64..1 << 60, there in 0u64..1_000_000, back in 0u64..1_000_000,
            ahead in -(1i64 << 60)..1 << 60,
        ) {
            let read = i128::from(asked) + i128::from(there) + i128::from(ahead);
            prop_assume!(read >= 0);
            let theirs = Nanos(read as u64);
            let offset = Offset::of_exchange(Nanos(asked), theirs, Nanos(asked + there + back));
            let off = i128::from(offset.offset_ns) - i128::from(ahead);
            prop_assert!(off.unsigned_abs() <= u128::from(offset.error.0), "{offset:?}");
        }
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let of = |trip: u64| Offset::of_exchange(Nanos(1_000), Nanos(5_000), Nanos(1_000 + trip));
        let best = Offset::best([of(900), of(100), of(400)]).unwrap();
        assert_eq!(best, Offset { offset_ns: 3_950, error: Nanos(50) });
        assert_eq!(best.there(Nanos(2_000)), Nanos(5_950));
        assert_eq!(Offset::best([]), None);
    }
}
