//! The content of a line or a file.

use series::{Interval, Kind, Limits, Point, Refusal};

/// An update, and the kind of series that accepts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The kind with which the series is created, and which it must have afterwards.
    pub kind: Kind,
    /// The update.
    pub what: UpdateContent,
}

/// A point or an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateContent {
    /// A value at an instant.
    Point(Point),
    /// An amount over an interval.
    Interval(Interval),
}

impl Update {
    /// A count over an interval; a negative one corrects an earlier count and leaves the covered
    /// time unchanged.
    ///
    /// # Errors
    /// Those of [`Interval::count`].
    pub fn count(start_us: i64, end_us: i64, count: i64) -> Result<Update, Refusal> {
        let interval = match count {
            ..0 => Interval::correction(start_us, end_us, count)?,
            _ => Interval::count(start_us, end_us, count)?,
        };
        Ok(Update { kind: Kind::Count, what: UpdateContent::Interval(interval) })
    }

    /// A level over an interval.
    ///
    /// # Errors
    /// Those of [`Interval::level`].
    pub fn level(start_us: i64, end_us: i64, value: f64) -> Result<Update, Refusal> {
        let interval = Interval::level(start_us, end_us, value)?;
        Ok(Update { kind: Kind::Level, what: UpdateContent::Interval(interval) })
    }

    /// Its start and end in microseconds since the epoch; equal for a point.
    pub fn times_us(&self) -> (i64, i64) {
        match self.what {
            UpdateContent::Point(point) => (point.at_us, point.at_us),
            UpdateContent::Interval(interval) => {
                let span = interval.cover().span;
                (span.start_us(), span.end_us())
            }
        }
    }

    /// The update, if it is within the horizons.
    ///
    /// # Errors
    /// Those of [`Limits::admit`].
    pub fn within(self, limits: &Limits, now_us: i64) -> Result<Update, Refusal> {
        let (from_us, to_us) = self.times_us();
        limits.admit(now_us, from_us, to_us).map(|()| self)
    }
}
