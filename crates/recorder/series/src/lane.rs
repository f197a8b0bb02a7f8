//! What a store keeps of one lane for the updates to come: of points the recent ones, each of which
//! covers the time before it, in whatever order they arrive; of deltas the time that they have counted.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::log::{points_of, put_points};
use crate::{
    Accumulator, CountedTime, Cover, Delta, Gap, Point, Reading, Refusal, Sense, Span, Spec,
};

/// The formats of a stored lane.
const POINTS: u8 = 1;
const COUNTED: u8 = 2;

/// Limit on the points that a lane remembers. A longer lateness window ends there.
const POINTS_MAX: usize = 1 << 16;

/// After this many points in order, those that no future point can affect are dropped.
const FORGOTTEN_EACH: usize = 256;

/// The points before which a late one may still arrive. This state must survive a restart; it is
/// plain data, so it can be stored.
///
/// Kept are the points of the lateness window, the one before it, and the rest of that one's slot,
/// so that the bounds of every slot that a late point changes can be recomputed.
///
/// A series of intervals has no points. Its lane has the time that deltas have counted, because that
/// is a state of the same nature: what a batch adds depends on it, so the transaction that writes the
/// batch must compare it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// In order of time, at most one per instant.
    points: VecDeque<Point>,
    /// Whether a point was ever dropped, so that the first one here is not the lane's first.
    forgotten: bool,
    /// The time that deltas have counted; then there are no points.
    #[serde(default)]
    counted: CountedTime,
}

/// Result of an accepted point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the time before it is unknown, if it is.
    pub gap: Option<Gap>,
    /// Whether it arrived after a point of a later time.
    pub late: bool,
}

impl Lane {
    /// Adds a point, and calls `sink` with the change of each slot of the series' finest step.
    ///
    /// The point counts as an update of the slot of the last microsecond before it, like an
    /// interval that ended there. A late point retracts what had covered its time and adds the two
    /// parts. A point at the instant of a known one replaces it; the same point again changes
    /// nothing.
    ///
    /// # Errors
    /// Those of [`Lane::admits`]; then nothing has changed.
    pub fn push(
        &mut self,
        spec: &Spec,
        point: Point,
        mut sink: impl FnMut(i64, Delta),
    ) -> Result<Outcome, Refusal> {
        let (point, place) = self.admitted(spec, point)?;
        let known = self.at(place, point.at_us);
        let before = place.checked_sub(1).and_then(|i| self.points.get(i)).copied();
        let after = self.points.get(place + usize::from(known.is_some())).copied();
        let between = |earlier: Option<Point>, later: Option<Point>| {
            earlier.zip(later).map(|(earlier, later)| spec.between(&earlier, &later))
        };
        let found = between(before, Some(point)).unwrap_or(Err(Gap::First));
        let outcome = Outcome { gap: found.err(), late: after.is_some() };
        if known == Some(point) {
            return Ok(outcome);
        }

        // What covered the time that the point changes.
        let held = match known {
            Some(known) => [between(before, Some(known)), between(Some(known), after)],
            None => [between(before, after), None],
        };
        let held = held.map(|held| held.and_then(Result::ok));
        for (span, amount) in held.into_iter().flatten() {
            cover(spec, Cover { span, amount, sense: Sense::Retract }, &mut sink);
        }
        let given = [found.ok(), between(Some(point), after).and_then(Result::ok)];
        for (span, amount) in given.into_iter().flatten() {
            cover(spec, Cover { span, amount, sense: Sense::Add }, &mut sink);
        }
        let slot_us = spec.step.slot_of(point.at_us.saturating_sub(1));
        let mut mark = mark(&point);
        match self.points.get_mut(place).filter(|_| known.is_some()) {
            Some(known) => {
                // The update was counted when the replaced point arrived, if that had a value.
                mark.n -= self::mark(known).n;
                *known = point;
            }
            None => self.points.insert(place, point),
        }
        sink(slot_us, Delta::widen(mark));
        for (span, _) in held.into_iter().flatten() {
            self.recompute_bounds(spec, span, &mut sink);
        }
        self.forget(spec);
        Ok(outcome)
    }

    /// Checks whether a point would be accepted.
    ///
    /// # Errors
    /// [`Refusal::Late`], and those of [`Reading::checked`](crate::Reading::checked). Horizons are
    /// checked by [`Limits`](crate::Limits).
    pub fn admits(&self, spec: &Spec, point: Point) -> Result<(), Refusal> {
        self.admitted(spec, point).map(|_| ())
    }

    fn admitted(&self, spec: &Spec, point: Point) -> Result<(Point, usize), Refusal> {
        let point = Point { reading: point.reading.checked(spec.kind)?, ..point };
        let place = self.place(spec, point.at_us)?;
        let replaces = self.at(place, point.at_us).is_some_and(|known| known != point);
        if place == 0 && self.forgotten && replaces {
            // What it covered can no longer be retracted.
            return Err(Refusal::Late);
        }
        Ok((point, place))
    }

    /// The point at this position, if it has this time.
    fn at(&self, place: usize, at_us: i64) -> Option<Point> {
        self.points.get(place).filter(|known| known.at_us == at_us).copied()
    }

    /// Calls `sink` with the changes from a point that directly follows `before`: the same as
    /// [`Lane::push`] for points in order.
    ///
    /// # Errors
    /// Why the time before the point is unknown, if it is.
    pub fn follow(
        spec: &Spec,
        before: Option<&Point>,
        point: &Point,
        mut sink: impl FnMut(i64, Delta),
    ) -> Result<(), Gap> {
        let found = before.map_or(Err(Gap::First), |before| spec.between(before, point));
        if let Ok((span, amount)) = found {
            cover(spec, Cover { span, amount, sense: Sense::Add }, &mut sink);
        }
        let slot_us = spec.step.slot_of(point.at_us.saturating_sub(1));
        sink(slot_us, Delta::widen(mark(point)));
        found.map(|_| ())
    }

    /// The lane after these points, which follow those of `earlier` in order of time; the same as
    /// [`Lane::push`] for each of them.
    #[must_use]
    pub fn followed(earlier: Lane, spec: &Spec, points: impl IntoIterator<Item = Point>) -> Lane {
        let mut lane = earlier;
        for point in points {
            lane.points.push_back(point);
            if lane.points.len().is_multiple_of(FORGOTTEN_EACH) {
                lane.forget(spec);
            }
        }
        lane.forget(spec);
        lane
    }

    /// A lane with these points, which are in order of time; `forgotten` means that it had others
    /// before them.
    pub fn remembering(points: impl IntoIterator<Item = Point>, forgotten: bool) -> Lane {
        Lane { points: points.into_iter().collect(), forgotten, counted: CountedTime::default() }
    }

    /// A lane of deltas that have counted this time.
    pub fn counting(counted: CountedTime) -> Lane {
        Lane { counted, ..Lane::default() }
    }

    /// The time that deltas have counted.
    pub fn counted(&self) -> &CountedTime {
        &self.counted
    }

    /// Takes points before the first one that it remembers again, however many it had there. For a
    /// lane all of whose points are those of a clock that was ahead.
    pub fn begin_before(&mut self) {
        self.forgotten = false;
    }

    /// Whether it had points that it no longer remembers.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// The remembered points, in order of time.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }

    /// The lane in compact form, for a store.
    pub fn to_bytes(&self) -> Vec<u8> {
        if !self.counted.is_empty() {
            debug_assert!(self.points.is_empty(), "a lane has points or deltas");
            let mut bytes = vec![COUNTED];
            self.counted.put(&mut bytes);
            return bytes;
        }
        let mut bytes = vec![POINTS, u8::from(self.forgotten)];
        put_points(&mut bytes, self.points.iter());
        bytes
    }

    /// The inverse of [`Lane::to_bytes`]; `None` for invalid bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Lane> {
        let (forgotten, log) = match bytes {
            [POINTS, forgotten @ (0 | 1), log @ ..] => (*forgotten == 1, log),
            [COUNTED, counted @ ..] => return CountedTime::take(counted).map(Lane::counting),
            _ => return None,
        };
        let points = points_of(log)?;
        let in_order = points.windows(2).all(|pair| pair[0].at_us < pair[1].at_us);
        in_order.then(|| Lane::remembering(points, forgotten))
    }

    /// The newest point.
    pub fn newest(&self) -> Option<&Point> {
        self.points.back()
    }

    /// Number of remembered points.
    pub fn remembered(&self) -> usize {
        self.points.len()
    }

    /// The position of a point with this time, existing or to be inserted.
    fn place(&self, spec: &Spec, at_us: i64) -> Result<usize, Refusal> {
        let Some(newest) = self.points.back() else { return Ok(0) };
        if at_us > newest.at_us {
            return Ok(self.points.len());
        }
        if at_us == newest.at_us {
            return Ok(self.points.len() - 1);
        }
        if at_us < newest.at_us.saturating_sub(spec.lateness_us) {
            return Err(Refusal::Late);
        }
        match self.points.binary_search_by_key(&at_us, |p| p.at_us) {
            Ok(place) => Ok(place),
            Err(0) if self.forgotten => Err(Refusal::Late),
            Err(place) => Ok(place),
        }
    }

    /// Recomputes the bounds of every slot of `span` from the points themselves.
    fn recompute_bounds(&self, spec: &Spec, span: Span, sink: &mut impl FnMut(i64, Delta)) {
        for piece in span.pieces(spec.step) {
            let slot_us = piece.slot_us;
            let end_us = slot_us.saturating_add(spec.step.us());
            if self.forgotten && self.points.front().is_none_or(|first| first.at_us > slot_us) {
                // Parts of the slot are no longer remembered: it stays approximate.
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

    /// Drops the points that no future point can affect.
    fn forget(&mut self, spec: &Spec) {
        let Some(newest) = self.points.back() else { return };
        let horizon_us = newest.at_us.saturating_sub(spec.lateness_us);
        let before_window =
            self.points.partition_point(|p| p.at_us <= horizon_us).saturating_sub(1);
        let keep_us = match self.points.get(before_window) {
            Some(point) if spec.lateness_us > 0 => spec.step.slot_of(point.at_us),
            _ => horizon_us,
        };
        // The two newest stay, so that another point at the newest's instant can replace it.
        let is_old = |points: &VecDeque<Point>| {
            points.len() > 2 && points.get(1).is_some_and(|p| p.at_us <= keep_us)
        };
        while self.points.len() > POINTS_MAX || is_old(&self.points) {
            self.points.pop_front();
            self.forgotten = true;
        }
    }
}

/// A point as an update of its slot. One without a value is no update.
fn mark(point: &Point) -> Accumulator {
    match point.reading {
        Reading::Unknown => Accumulator::EMPTY,
        reading => Accumulator::mark(point.at_us, reading.as_f64(), 1),
    }
}

/// Splits known time over the slots of the series' finest step.
fn cover(spec: &Spec, cover: Cover, sink: &mut impl FnMut(i64, Delta)) {
    for (slot_us, part) in cover.split(spec.step) {
        sink(slot_us, Delta::widen(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, SECOND_US, Step};
    use proptest::prelude::*;

    fn point(at_s: i64, value: f64) -> Point {
        Point { at_us: at_s * SECOND_US, reading: Reading::Level(value) }
    }

    proptest! {
        #[test]
        fn points_that_follow_each_other_lead_to_the_lane_that_pushing_them_leads_to(
            waits in prop::collection::vec(1_i64..200, 1..700),
            cut in 0_usize..700,
            lateness_s in prop_oneof![Just(0_i64), 1_i64..1_000],
        ) {
            let spec = Spec {
                lateness_us: lateness_s * SECOND_US,
                ..Spec::new(Kind::Gauge, Step::from_secs(10).unwrap())
            };
            let mut at_s = -500;
            let points: Vec<Point> = waits
                .iter()
                .map(|wait_s| {
                    at_s += wait_s;
                    point(at_s, (at_s % 17) as f64)
                })
                .collect();
            let (mut pushed, mut wanted) = (Lane::default(), Vec::new());
            let (mut followed, mut found) = (Lane::default(), Vec::new());
            let mut before: Option<Point> = None;
            for point in &points {
                pushed.push(&spec, *point, |slot_us, delta| wanted.push((slot_us, delta))).unwrap();
                let sink = |slot_us, delta| found.push((slot_us, delta));
                let _ = Lane::follow(&spec, before.as_ref(), point, sink);
                before = Some(*point);
            }
            let (first, rest) = points.split_at(cut.min(points.len()));
            for part in [first, rest] {
                followed = Lane::followed(followed, &spec, part.iter().copied());
                let forgotten = followed.has_forgotten();
                followed = Lane::remembering(followed.points().copied(), forgotten);
                prop_assert_eq!(Lane::from_bytes(&followed.to_bytes()), Some(followed.clone()));
            }
            prop_assert_eq!(found, wanted);
            prop_assert_eq!(followed, pushed);
        }
    }

    #[test]
    fn a_point_without_a_value_leaves_the_time_around_it_unknown() {
        let spec = Spec::new(Kind::Gauge, Step::from_secs(10).unwrap());
        let unknown = |at_s| Point { reading: Reading::Unknown, ..point(at_s, 0.0) };
        let slots = |points: &[Point]| {
            let (mut lane, mut slot) = (Lane::default(), Accumulator::EMPTY);
            for point in points {
                lane.push(&spec, *point, |_, delta| slot.merge(&delta.add)).unwrap();
            }
            assert_eq!(Lane::from_bytes(&lane.to_bytes()), Some(lane));
            (slot.integral.as_f64(), slot.covered_us / SECOND_US, slot.n, slot.last())
        };
        let last = Some((9 * SECOND_US, 5.0));
        let points = [point(1, 2.0), point(3, 2.0), unknown(5), point(8, 5.0), point(9, 5.0)];
        assert_eq!(slots(&points), (9.0, 3, 4, last));
        // Late, repeated, and in place of a value.
        let mut late = points;
        late.swap(2, 4);
        assert_eq!(slots(&late), (9.0, 3, 4, last));
        let repeated = [points[0], points[1], points[2], points[2], points[3], points[4]];
        assert_eq!(slots(&repeated), (9.0, 3, 4, last));
        let instead = [points[0], points[1], point(5, 7.0), points[2], points[3], points[4]];
        assert_eq!(slots(&instead), (9.0, 3, 4, last));
        let known_after_all = [points[0], points[1], points[2], point(5, 7.0)];
        assert_eq!(slots(&known_after_all), (18.0, 4, 3, Some((5 * SECOND_US, 7.0))));
    }

    #[test]
    fn bytes_of_a_lane_that_are_not_ours_are_refused() {
        let lane = Lane::remembering([point(1, 1.0), point(2, 2.5)], true);
        let bytes = lane.to_bytes();
        assert_eq!(Lane::from_bytes(&bytes), Some(lane));
        assert_eq!(Lane::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Lane::from_bytes(&[]), None);
        assert_eq!(Lane::from_bytes(&[3, 0]), None, "a format to come");
        assert_eq!(Lane::from_bytes(&[1, 2]), None);
        let mut counted = CountedTime::default();
        counted.add(Span::new(5, 9).unwrap()).unwrap();
        let lane = Lane::counting(counted);
        assert_eq!(Lane::from_bytes(&lane.to_bytes()), Some(lane));
        let backwards = Lane::remembering([point(2, 1.0), point(1, 1.0)], false);
        assert_eq!(Lane::from_bytes(&backwards.to_bytes()), None);
    }
}
