//! The points for all contestants.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// 2026-01-01T00:00:00Z, the start of the points.
pub(super) const START_S: u64 = 1_767_225_600;

/// The length of a slot.
pub(super) const STEP_S: u64 = 10;

/// Number of points and series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(super) points: u64,
    pub(super) series: u64,
    pub(super) per_slot: u64,
    /// The pattern of the values.
    pub(super) values: Pattern,
}

/// Patterns of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pattern {
    /// A level with two decimals, from 0 to 100, that moves by up to half a unit.
    Walk,
    /// Counts from 0 to 1,000 that move by up to twenty.
    Counts,
    /// A level with two decimals, anything up to 167,772.15.
    Noise,
}

impl Pattern {
    pub(super) const ALL: [Pattern; 3] = [Pattern::Walk, Pattern::Counts, Pattern::Noise];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pattern::Walk => "walk",
            Pattern::Counts => "counts",
            Pattern::Noise => "noise",
        }
    }

    /// Its description.
    pub(super) fn title(self) -> &'static str {
        match self {
            Pattern::Walk => "levels that walk between 0.00 and 100.00",
            Pattern::Counts => "counts that walk between 0 and 1,000",
            Pattern::Noise => "levels without a pattern, up to 167,772.15",
        }
    }
}

impl Load {
    /// The points of each series.
    pub(super) fn each(&self) -> u64 {
        self.points / self.series
    }

    /// All slots of all series.
    pub(super) fn slots(&self) -> u64 {
        self.each().div_ceil(self.per_slot) * self.series
    }

    /// The same with at most this many points, of as many series or fewer.
    pub(super) fn at_most(&self, points: u64) -> Load {
        if self.points <= points {
            return *self;
        }
        let series = (points / self.each().max(1)).clamp(1, self.series);
        Load { points: series * self.each(), series, ..*self }
    }

    /// The end of a point, in milliseconds since 1970.
    pub(super) fn at_ms(&self, point: u64) -> u64 {
        START_S * 1_000 + (point + 1) * STEP_S * 1_000 / self.per_slot
    }

    /// Writes a file of points, series by series.
    pub(super) fn write(
        &self,
        path: &Path,
        mut line: impl FnMut(&mut String, u64, &[(u64, f64)]),
    ) -> std::io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
        let mut values = Values::new(self.values);
        let (mut text, mut points) = (String::new(), Vec::new());
        for series in 0..self.series {
            points.clear();
            points.extend((0..self.each()).map(|point| (self.at_ms(point), values.next())));
            text.clear();
            line(&mut text, series, &points);
            file.write_all(text.as_bytes())?;
        }
        file.flush()
    }
}

/// A reproducible sequence of values.
pub(super) struct Values {
    state: u64,
    now: i64,
    pattern: Pattern,
}

impl Values {
    pub(super) fn new(pattern: Pattern) -> Values {
        Values { state: 1, now: 500, pattern }
    }

    /// The next value.
    pub(super) fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = self.state >> 40;
        let mut walk = |most: i64, pace: i64| {
            let pace = (random % (2 * pace as u64 + 1)) as i64 - pace;
            self.now = (self.now + pace).clamp(0, most);
            self.now as f64
        };
        match self.pattern {
            Pattern::Walk => walk(10_000, 50) / 100.0,
            Pattern::Counts => walk(1_000, 20),
            Pattern::Noise => random as f64 / 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_load_has_as_many_points_of_fewer_series() {
        let load = Load { points: 10_000_000, series: 10_000, per_slot: 10, values: Pattern::Walk };
        assert_eq!((load.each(), load.slots()), (1_000, 1_000_000));
        let less = load.at_most(1_000_000);
        assert_eq!((less.points, less.series, less.each()), (1_000_000, 1_000, 1_000));
        assert_eq!(load.at_ms(0), START_S * 1_000 + 1_000);
    }

    #[test]
    fn values_have_two_decimals_and_stay_within_their_bounds() {
        let bounds =
            [(Pattern::Walk, 100.0), (Pattern::Counts, 1_000.0), (Pattern::Noise, 167_772.15)];
        for (pattern, most) in bounds {
            let mut values = Values::new(pattern);
            for _ in 0..10_000 {
                let value = values.next();
                assert!((0.0..=most).contains(&value), "{value}");
                assert_eq!((value * 100.0).round() / 100.0, value);
            }
        }
    }
}
