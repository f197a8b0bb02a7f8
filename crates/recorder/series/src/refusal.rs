//! Reasons for refusing updates, and their counts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an update was refused. Nothing of it was recorded.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Later than the clock by more than the future horizon.
    #[error(
        "the time lies further in the future than the horizon allows; check the sender's clock"
    )]
    Future,
    /// Earlier than the past horizon.
    #[error(
        "the time lies further in the past than the horizon allows; check its unit and its clock"
    )]
    Past,
    /// A point that arrived after its lateness window.
    #[error("the point is older than the lateness window; send late data as intervals")]
    Late,
    /// A point of a series in RRD mode at or before the last one.
    #[error(
        "rrdtool refuses an update at or before the last one, and the series was imported with \
         --rrd"
    )]
    NotAfter,
    /// Not a number.
    #[error("the value is NaN; omit the update if the value is unknown")]
    NotANumber,
    /// Positive or negative infinity.
    #[error("the value is infinite")]
    Infinite,
    /// A counter, or a count since the last reading, below zero.
    #[error("a counter cannot be negative; use derive for values that also decrease")]
    NegativeCounter,
    /// A count with a fraction.
    #[error("a count must be a whole number; use a level or a rate for fractions")]
    Fraction,
    /// A count beyond 2^53, or a level beyond 10^200.
    #[error("the value is too large: a count may be up to 2^53, a level up to 1e200")]
    TooLarge,
    /// A value outside the series' bounds.
    #[error("the value is outside the series' bounds")]
    OutOfBounds,
    /// An interval that does not end after it starts.
    #[error("the interval does not end after it starts")]
    EmptyInterval,
    /// An interval longer than the limit.
    #[error("the interval is longer than the limit; send it in parts")]
    TooLong,
    /// An update of a different kind than the series.
    #[error("the series is of another kind; a series keeps its original kind")]
    WrongKind,
    /// A delta of a stream that has counted a part of its time.
    #[error(
        "a part of the time was counted already; a stream of deltas has one writer, so give each \
         process its own service.instance.id"
    )]
    Overlaps,
    /// A delta from a time so long ago that it is not known whether it was counted.
    #[error(
        "the stream has had more than 128 gaps since then, so it is not known whether this time was \
         counted; send each delta soon"
    )]
    Forgotten,
}

impl Refusal {
    /// All reasons, in the order of display.
    pub const ALL: [Refusal; 15] = [
        Refusal::Future,
        Refusal::Past,
        Refusal::Late,
        Refusal::NotAfter,
        Refusal::NotANumber,
        Refusal::Infinite,
        Refusal::NegativeCounter,
        Refusal::Fraction,
        Refusal::TooLarge,
        Refusal::OutOfBounds,
        Refusal::EmptyInterval,
        Refusal::TooLong,
        Refusal::WrongKind,
        Refusal::Overlaps,
        Refusal::Forgotten,
    ];

    /// A stable name for metrics and files: `late`, `not_a_number`.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Future => "future",
            Refusal::Past => "past",
            Refusal::Late => "late",
            Refusal::NotAfter => "not_after",
            Refusal::NotANumber => "not_a_number",
            Refusal::Infinite => "infinite",
            Refusal::NegativeCounter => "negative_counter",
            Refusal::Fraction => "fraction",
            Refusal::TooLarge => "too_large",
            Refusal::OutOfBounds => "out_of_bounds",
            Refusal::EmptyInterval => "empty_interval",
            Refusal::TooLong => "too_long",
            Refusal::WrongKind => "wrong_kind",
            Refusal::Overlaps => "overlaps",
            Refusal::Forgotten => "forgotten",
        }
    }
}

/// Number of refused updates by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Counts one refusal.
    pub fn add(&mut self, reason: Refusal) {
        self.0[reason as usize] += 1;
    }

    /// Adds the counts of another writer.
    pub fn merge(&mut self, other: &Refusals) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Counts the refusal in `result`, if it is one, and returns the accepted value.
    pub fn note<T>(&mut self, result: Result<T, Refusal>) -> Option<T> {
        result.map_err(|reason| self.add(reason)).ok()
    }

    /// The count for `reason`.
    pub fn count(&self, reason: Refusal) -> u64 {
        self.0[reason as usize]
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason with its count, including zeros.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.into_iter().map(|reason| (reason, self.count(reason)))
    }
}

impl fmt::Display for Refusals {
    /// The counts: `3 late, 1 not_a_number`; `none` without refusals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| format!("{count} {}", reason.name()))
            .collect();
        f.pad(&if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
    }
}

/// The limits on the times of updates, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How far after the clock an update may end.
    pub future_us: i64,
    /// The earliest time at which an update may start, since the epoch. It does not depend on the
    /// clock, which may begin in 1970 and be set right later.
    pub earliest_us: i64,
    /// Maximum interval length. With the step it limits how many slots one update changes.
    pub span_us: i64,
}

impl Limits {
    /// Ten minutes ahead, unlimited past, intervals of up to 400 days.
    pub const DEFAULT: Limits =
        Limits { future_us: 600_000_000, earliest_us: i64::MIN, span_us: 400 * 86_400_000_000 };

    /// Checks whether an update from `from_us` to `to_us` (equal for a point) is acceptable at
    /// `now_us`.
    ///
    /// # Errors
    /// [`Refusal::Future`], [`Refusal::Past`] or [`Refusal::TooLong`].
    pub fn admit(&self, now_us: i64, from_us: i64, to_us: i64) -> Result<(), Refusal> {
        if to_us > now_us.saturating_add(self.future_us) {
            Err(Refusal::Future)
        } else if from_us < self.earliest_us {
            Err(Refusal::Past)
        } else if to_us.saturating_sub(from_us) > self.span_us {
            Err(Refusal::TooLong)
        } else {
            Ok(())
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_counted_apart() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.to_string(), "none");
        for (i, reason) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i, "ALL lists the reasons in the order of their numbers");
            for _ in 0..=i {
                refusals.add(reason);
            }
        }
        for (i, (_, count)) in refusals.iter().enumerate() {
            assert_eq!(count, i as u64 + 1);
        }
        assert_eq!(refusals.total(), 120);
        let mut twice = refusals;
        twice.merge(&refusals);
        assert_eq!(twice.total(), 240);
        assert!(refusals.to_string().starts_with("1 future, 2 past, 3 late, 4 not_after,"));
    }

    #[test]
    fn names_are_those_of_the_serialised_form() {
        for reason in Refusal::ALL {
            let debug = format!("{reason:?}");
            let mut snake = String::new();
            for c in debug.chars() {
                if c.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.extend(c.to_lowercase());
            }
            assert_eq!(snake, reason.name());
        }
    }

    #[test]
    fn the_texts_say_what_to_do() {
        assert_eq!(
            Refusal::Late.to_string(),
            "the point is older than the lateness window; send late data as intervals"
        );
        assert_eq!(
            Refusal::Future.to_string(),
            "the time lies further in the future than the horizon allows; check the sender's clock"
        );
        assert_eq!(
            Refusal::TooLarge.to_string(),
            "the value is too large: a count may be up to 2^53, a level up to 1e200"
        );
    }

    #[test]
    fn limits_are_inclusive_and_the_earliest_time_does_not_move_with_the_clock() {
        let limits = Limits { future_us: 10, earliest_us: 900, span_us: 50 };
        assert_eq!(limits.admit(1000, 1010, 1010), Ok(()));
        assert_eq!(limits.admit(1000, 1011, 1011), Err(Refusal::Future));
        assert_eq!(limits.admit(1000, 900, 900), Ok(()));
        assert_eq!(limits.admit(1000, 899, 899), Err(Refusal::Past));
        assert_eq!(limits.admit(1_000_000, 900, 900), Ok(()));
        assert_eq!(limits.admit(0, 899, 899), Err(Refusal::Future));
        assert_eq!(limits.admit(1000, 900, 950), Ok(()));
        assert_eq!(limits.admit(1000, 900, 951), Err(Refusal::TooLong));
        assert_eq!(Limits::DEFAULT.admit(0, i64::MIN, i64::MIN), Ok(()));
        assert_eq!(Limits::DEFAULT.admit(0, i64::MAX, i64::MAX), Err(Refusal::Future));
    }
}
