//! When expiry and packing are due, and old requests are forgotten. Times are those since the start.

use std::time::Duration;

/// Time between two rounds, and between two parts of one.
const ROUND_EACH: Duration = Duration::from_secs(60);
const PART_EACH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum Upkeep {
    /// No part of a round runs until then.
    Rests(Duration),
    /// One runs that began then.
    Runs(Duration),
}

impl Upkeep {
    /// Begins a part if one is due.
    pub(crate) fn begin(&mut self, passed: Duration) -> bool {
        let is_due = matches!(self, Upkeep::Rests(until) if passed >= *until);
        if is_due {
            *self = Upkeep::Runs(passed);
        }
        is_due
    }

    /// A part has ended, and perhaps there is more to do.
    pub(crate) fn ended(&mut self, is_partial: bool) {
        if let Upkeep::Runs(begun) = *self {
            *self = Upkeep::Rests(begun + if is_partial { PART_EACH } else { ROUND_EACH });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_due_each_minute_and_the_parts_of_one_each_second() {
        let mut upkeep = Upkeep::Rests(Duration::ZERO);
        let begins = |upkeep: &mut Upkeep, seconds| upkeep.begin(Duration::from_secs(seconds));
        assert!(begins(&mut upkeep, 0));
        assert!(!begins(&mut upkeep, 100), "one runs");
        upkeep.ended(true);
        assert!(begins(&mut upkeep, 101), "the next part");
        upkeep.ended(true);
        assert!(begins(&mut upkeep, 102));
        upkeep.ended(false);
        assert!(!begins(&mut upkeep, 161));
        assert!(begins(&mut upkeep, 162), "the next round");
    }
}
