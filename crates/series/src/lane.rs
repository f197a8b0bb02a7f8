//! The points of one lane: what each says of the time before it, in whatever order they come.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Accumulator, Cover, Delta, Gap, Point, Refusal, Sense, Span, Spec};

/// The most points a lane remembers. A longer lateness window ends where they end.
const POINTS_MAX: usize = 1 << 16;

/// The points that a late one may still come between. This is the state that
/// must survive a restart; it is plain data, so it can be stored.
///
/// Kept are the points of the lateness window, the one before it, and the rest
/// of that one's slot, so that the bounds of every slot that a late point
/// changes can be found anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// In order of time, without two at the same instant.
    points: VecDeque<Point>,
    /// Whether a point was ever let go, so that the first one here is not the lane's first.
    forgotten: bool,
}

/// What became of a point that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the time before it is unknown, if it is.
    pub gap: Option<Gap>,
    /// Whether it came after a point of a later time.
    pub late: bool,
}

impl Lane {
    /// Takes a point, and hands `sink` what to add to which slot of the series' finest step.
    ///
    /// The point counts as an update of the slot of the last microsecond before
    /// it, as an interval that ended there would. A late point takes back what
    /// had covered it and gives the two parts.
    ///
    /// # Errors
    /// [`Refusal::Late`], [`Refusal::SameInstant`], and those of [`Reading::checked`](crate::Reading::checked).
    /// Horizons are [`Limits`](crate::Limits)'.
    pub fn push(
        &mut self,
        spec: &Spec,
        point: Point,
        mut sink: impl FnMut(i64, Delta),
    ) -> Result<Outcome, Refusal> {
        let point = Point { reading: point.reading.checked(spec.kind)?, ..point };
        let place = self.place(spec, point.at_us)?;
        let before = place.checked_sub(1).and_then(|i| self.points.get(i)).copied();
        let after = self.points.get(place).copied();

        let held = before.zip(after).and_then(|(a, b)| spec.between(&a, &b).ok());
        if let Some((span, amount)) = held {
            cover(spec, Cover { span, amount, sense: Sense::Retract }, &mut sink);
        }
        let found = before.map_or(Err(Gap::First), |before| spec.between(&before, &point));
        if let Ok((span, amount)) = found {
            cover(spec, Cover { span, amount, sense: Sense::Add }, &mut sink);
        }
        if let Some(Ok((span, amount))) = after.map(|after| spec.between(&point, &after)) {
            cover(spec, Cover { span, amount, sense: Sense::Add }, &mut sink);
        }
        let slot_us = spec.step.slot_of(point.at_us.saturating_sub(1));
        let mark = Accumulator::mark(point.at_us, point.reading.as_f64(), 1);
        sink(slot_us, Delta::widen(mark));

        self.points.insert(place, point);
        if let Some((span, _)) = held {
            self.find_bounds_anew(spec, span, &mut sink);
        }
        self.forget(spec);
        Ok(Outcome { gap: found.err(), late: after.is_some() })
    }

    /// The newest point.
    pub fn newest(&self) -> Option<&Point> {
        self.points.back()
    }

    /// How many points are remembered.
    pub fn remembered(&self) -> usize {
        self.points.len()
    }

    /// Where a point of this instant belongs among those remembered.
    fn place(&self, spec: &Spec, at_us: i64) -> Result<usize, Refusal> {
        let Some(newest) = self.points.back() else { return Ok(0) };
        if at_us > newest.at_us {
            return Ok(self.points.len());
        }
        if at_us == newest.at_us {
            return Err(Refusal::SameInstant);
        }
        if at_us < newest.at_us.saturating_sub(spec.lateness_us) {
            return Err(Refusal::Late);
        }
        match self.points.binary_search_by_key(&at_us, |p| p.at_us) {
            Ok(_) => Err(Refusal::SameInstant),
            Err(0) if self.forgotten => Err(Refusal::Late),
            Err(place) => Ok(place),
        }
    }

    /// Finds the bounds of every slot of `span` from the points themselves.
    fn find_bounds_anew(&self, spec: &Spec, span: Span, sink: &mut impl FnMut(i64, Delta)) {
        for piece in span.pieces(spec.step) {
            let slot_us = piece.slot_us;
            let end_us = slot_us.saturating_add(spec.step.us());
            if self.forgotten && self.points.front().is_none_or(|first| first.at_us > slot_us) {
                // The slot has parts that are no longer remembered: it stays approximate.
                continue;
            }
            let first = self.points.partition_point(|p| p.at_us <= slot_us).saturating_sub(1);
            let (mut vmin, mut vmax) = (f64::INFINITY, f64::NEG_INFINITY);
            for (earlier, later) in self.points.range(first..).zip(self.points.range(first + 1..)) {
                if earlier.at_us >= end_us {
                    break;
                }
                if let Ok((span, amount)) = spec.between(earlier, later) {
                    vmin = vmin.min(amount.rate(span));
                    vmax = vmax.max(amount.rate(span));
                }
            }
            sink(slot_us, Delta::replace_bounds(vmin, vmax));
        }
    }

    /// Lets go of the points that no point to come can touch.
    fn forget(&mut self, spec: &Spec) {
        let Some(newest) = self.points.back() else { return };
        let horizon_us = newest.at_us.saturating_sub(spec.lateness_us);
        let before_window =
            self.points.partition_point(|p| p.at_us <= horizon_us).saturating_sub(1);
        let keep_us = match self.points.get(before_window) {
            Some(point) if spec.lateness_us > 0 => spec.step.slot_of(point.at_us),
            _ => horizon_us,
        };
        while self.points.len() > POINTS_MAX
            || self.points.get(1).is_some_and(|p| p.at_us <= keep_us)
        {
            self.points.pop_front();
            self.forgotten = true;
        }
    }
}

/// Cuts known time over the slots of the series' finest step.
fn cover(spec: &Spec, cover: Cover, sink: &mut impl FnMut(i64, Delta)) {
    for (slot_us, part) in cover.split(spec.step) {
        sink(slot_us, Delta::widen(part));
    }
}
