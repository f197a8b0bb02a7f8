//! Stalls of a slice.

use base::Nanos;

/// Requests that end within this part of a stalled request's least time are of the same stall: while
/// a server stops, all connections wait, and then all end within about one service time.
const TOGETHER: u64 = 4;

/// Counts the stalls of a slice: requests that took long, of which those that end together are one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallCount {
    /// A request that takes longer is stalled; nothing is counted if that is unknown.
    after: Option<Nanos>,
    /// When the last stalled request ended.
    last: Option<Nanos>,
    pub(crate) stalls: u64,
}

impl StallCount {
    pub(crate) fn new(after: Option<Nanos>) -> StallCount {
        StallCount { after, ..StallCount::default() }
    }

    /// A request ended at `at` that had waited for so long.
    pub(crate) fn ended(&mut self, waited: Nanos, at: Nanos) {
        let Some(after) = self.after.filter(|after| waited > *after) else { return };
        let is_new = self.last.is_none_or(|last| at.saturating_sub(last).0 > after.0 / TOGETHER);
        self.last = self.last.max(Some(at));
        self.stalls += u64::from(is_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_end_together_are_one_stall() {
        let mut count = StallCount::new(Some(Nanos(40)));
        for (waited, at) in [(300, 1_000), (299, 1_008), (40, 1_009), (300, 1_018), (41, 1_029)] {
            count.ended(Nanos(waited), Nanos(at));
        }
        assert_eq!(count.stalls, 2, "the last one ended 11 after the one before");
        count.ended(Nanos(500), Nanos(1_500));
        assert_eq!(count.stalls, 3);
        let mut unknown = StallCount::new(None);
        unknown.ended(Nanos(500), Nanos(1_500));
        assert_eq!(unknown.stalls, 0);
    }
}
