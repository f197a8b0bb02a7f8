//! The ledger: what was offered, sent, completed and served, and whether it adds up.
//!
//! Pure arithmetic over plain counts. The client's count, the server's own
//! count and the recorded series must be equal to the last request; the
//! tolerance is zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The client's side of the ledger.
///
/// Two laws hold for every window that began and ended with nothing unaccounted:
/// `offered = sent + dropped` and `sent = completed + failed + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that the schedule called for.
    pub offered: u64,
    /// Offered but never sent: an open loop that found no free connection in time.
    pub dropped: u64,
    /// Requests of which at least the first byte was handed to the kernel, or a connection attempt was made for them.
    pub sent: u64,
    /// Answers that arrived in full and were what was expected.
    pub completed: u64,
    /// Requests that ended in an error, a timeout or an answer that was not what was expected.
    pub failed: u64,
    /// Sent, and neither completed nor failed when the count was taken.
    pub in_flight: u64,
}

impl Counts {
    /// Adds another window's counts. `in_flight` is a level, so the later window's value stands.
    pub fn extend(&mut self, later: &Counts) {
        self.offered += later.offered;
        self.dropped += later.dropped;
        self.sent += later.sent;
        self.completed += later.completed;
        self.failed += later.failed;
        self.in_flight = later.in_flight;
    }

    /// Adds the counts of another thread or variant over the same time; here `in_flight` adds up too.
    pub fn merge(&mut self, other: &Counts) {
        let in_flight = self.in_flight + other.in_flight;
        self.extend(other);
        self.in_flight = in_flight;
    }
}

/// What each kind of failure is called, and how often it happened.
pub type Errors = BTreeMap<String, u64>;

/// One line of the ledger, complete with the server's count and the recorded series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The client's counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The server's own count over the same life of the stack; `None` where nobody counts there.
    pub served: Option<u64>,
    /// The integral of the recorded series of completed requests; `None` where none was recorded.
    pub series: Option<u64>,
    /// Failures by kind.
    pub errors: Errors,
}

/// How failures count towards a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The largest share of sent requests that may fail: 0 in a closed loop, 0.0001 in an open one.
    pub failed_share: f64,
}

impl Tolerance {
    /// Closed loop: any failure is one too many.
    pub const CLOSED: Tolerance = Tolerance { failed_share: 0.0 };
    /// Open loop: one failure in ten thousand.
    pub const OPEN: Tolerance = Tolerance { failed_share: 1e-4 };
}

/// Something in the ledger that does not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discrepancy {
    /// Which law was broken: `offered`, `sent`, `served`, `series` or `errors`.
    pub check: String,
    /// The sentence that a person reads.
    pub sentence: String,
    /// The size of the difference, in requests.
    pub difference: i64,
}

impl Ledger {
    /// Every way in which this ledger does not add up; empty means that it does.
    ///
    /// `served` is compared with `completed`: whether a request that failed had
    /// reached the server cannot be known from outside, so every difference is
    /// reported and none is explained away.
    pub fn audit(&self, tolerance: Tolerance) -> Vec<Discrepancy> {
        let c = &self.counts;
        let mut found = Vec::new();
        let mut law = |check: &str, left: u64, right: u64, sentence: String| {
            if left != right {
                let difference = left as i64 - right as i64;
                found.push(Discrepancy { check: check.to_owned(), sentence, difference });
            }
        };
        law(
            "offered",
            c.offered,
            c.sent + c.dropped,
            format!("offered {} is not sent {} + dropped {}", c.offered, c.sent, c.dropped),
        );
        law(
            "sent",
            c.sent,
            c.completed + c.failed + c.in_flight,
            format!(
                "sent {} is not completed {} + failed {} + in flight {}",
                c.sent, c.completed, c.failed, c.in_flight
            ),
        );
        if let Some(served) = self.served {
            let (word, difference) = if served < c.completed {
                ("fewer", c.completed - served)
            } else {
                ("more", served - c.completed)
            };
            let requests = if difference == 1 { "request" } else { "requests" };
            law(
                "served",
                served,
                c.completed,
                format!(
                    "the server counted {difference} {requests} {word} than the client completed ({served} against {})",
                    c.completed
                ),
            );
        }
        if let Some(series) = self.series {
            law(
                "series",
                series,
                c.completed,
                format!("the recorded series adds up to {series}, but {} completed", c.completed),
            );
        }
        if c.failed as f64 > tolerance.failed_share * c.sent as f64 {
            let kinds: Vec<String> =
                self.errors.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
            let kinds =
                if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
            found.push(Discrepancy {
                check: "errors".to_owned(),
                sentence: format!("{} of {} requests failed{kinds}", c.failed, c.sent),
                difference: c.failed as i64,
            });
        }
        found
    }

    /// The ledger in one line: `sent 203120 = completed 203120 = served 203120 = series 203120`.
    pub fn line(&self) -> String {
        let c = &self.counts;
        let mut line = String::new();
        if c.dropped > 0 {
            line += &format!("offered {} = dropped {} + ", c.offered, c.dropped);
        }
        line += &format!("sent {} ", c.sent);
        line += if c.sent == c.completed + c.failed + c.in_flight { "=" } else { "≠" };
        line += &format!(" completed {}", c.completed);
        if c.failed > 0 {
            line += &format!(" + failed {}", c.failed);
        }
        if c.in_flight > 0 {
            line += &format!(" + in flight {}", c.in_flight);
        }
        let sign = |equal: bool| if equal { '=' } else { '≠' };
        match self.served {
            Some(served) => line += &format!(" {} served {served}", sign(served == c.completed)),
            None => line += " (nobody counts at the server)",
        }
        if let Some(series) = self.series {
            line += &format!(" {} series {series}", sign(series == c.completed));
        }
        line
    }

    /// Adds the ledger of a later trial of the same variant. A count that one side lacks is lacking in the sum.
    pub fn extend(&mut self, later: &Ledger) {
        self.counts.extend(&later.counts);
        self.served = self.served.zip(later.served).map(|(a, b)| a + b);
        self.series = self.series.zip(later.series).map(|(a, b)| a + b);
        for (kind, n) in &later.errors {
            *self.errors.entry(kind.clone()).or_default() += n;
        }
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
            series: Some(n),
            errors: Errors::new(),
        }
    }

    #[test]
    fn a_sound_ledger_has_nothing_to_say() {
        assert_eq!(sound(1_000_000).audit(Tolerance::CLOSED), []);
        assert_eq!(
            sound(203_120).line(),
            "sent 203120 = completed 203120 = served 203120 = series 203120"
        );
    }

    #[test]
    fn one_in_a_million_is_seen() {
        let mut ledger = sound(1_000_000);
        ledger.served = Some(999_999);
        let found = ledger.audit(Tolerance::CLOSED);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence,
            "the server counted 1 request fewer than the client completed (999999 against 1000000)"
        );
        assert!(ledger.line().contains("≠ served 999999"));
    }

    #[test]
    fn a_failure_is_tolerated_in_an_open_loop_only() {
        let mut ledger = sound(20_000);
        ledger.counts.completed -= 1;
        ledger.counts.failed = 1;
        ledger.served = Some(19_999);
        ledger.series = Some(19_999);
        ledger.errors.insert("timeout".to_owned(), 1);
        assert_eq!(ledger.audit(Tolerance::OPEN), []);
        let found = ledger.audit(Tolerance::CLOSED);
        assert_eq!(found[0].sentence, "1 of 20000 requests failed: 1 timeout");
    }

    #[test]
    fn nobody_counting_is_said() {
        let mut ledger = sound(5);
        ledger.served = None;
        assert_eq!(ledger.audit(Tolerance::CLOSED), []);
        assert!(ledger.line().contains("nobody counts at the server"));
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
            prop_assert!(!ledger.audit(Tolerance::OPEN).is_empty());
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
