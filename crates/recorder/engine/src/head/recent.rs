//! What a head holds of one series.

use series::{Batch, CountedTime, Interval, Kind, Lane, Log, Point, Refusal, SlotKey, Span, Spec};

use crate::unstored::UnstoredUpdates;

/// The lane of a stream's counted time, whatever the lanes of those who receive its deltas: it has one
/// writer, whose repetitions may reach another process.
pub(crate) const STREAM_LANE: i32 = 0;

/// Approximate memory of a slot in a [`Batch`] or in a map.
pub(crate) const SLOT_BYTES: usize = 128;

/// Memory of a point outside a log.
const POINT_BYTES: usize = 32;

/// The position of a series in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(pub(crate) u32);

/// What a head believes of the time, in microseconds since the epoch. Points after its horizon come
/// from a clock that was wrong: they would be refused now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) now_us: i64,
    pub(crate) horizon_us: i64,
}

impl Default for Belief {
    /// Believes every point.
    fn default() -> Belief {
        Belief { now_us: i64::MAX, horizon_us: i64::MAX }
    }
}

impl Belief {
    /// Makes a lane ready for a point. If it has points of the future, a point is late by the time
    /// that is believed, and all points since then are remembered, so that each time is covered once
    /// when it comes.
    fn prepare(self, lane: &mut Lane, spec: &Spec) -> Spec {
        let is_future = |point: &&Point| point.at_us > self.horizon_us;
        let Some(newest) = lane.newest().filter(is_future) else { return *spec };
        let ahead_us = newest.at_us.saturating_sub(self.now_us);
        if lane.points().next().filter(is_future).is_some() {
            lane.begin_before();
        }
        Spec { lateness_us: spec.lateness_us.saturating_add(ahead_us), ..*spec }
    }
}

/// The series whose updates they are, and what is believed of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) series: i64,
    pub(crate) lane: i32,
    pub(crate) believed: Belief,
}

impl Context<'_> {
    fn key(self, slot_us: i64) -> SlotKey {
        SlotKey { slot_us, series: self.series, lane: self.lane }
    }
}

/// The updates of a series that no store has, and its recent points.
#[derive(Clone, Debug)]
pub(crate) enum RecentUpdates {
    /// Intervals; they need no predecessors. Deltas are apart, if there are any.
    Intervals { log: Log, stream: Option<Box<Stream>> },
    /// Points in the order in which they came; a store has the first `known` of them.
    Points {
        log: Log,
        known: usize,
        /// Whether there were others before the first.
        forgotten: bool,
        /// What follows from them, if one of them arrived late.
        late: Option<Box<LateSeries>>,
    },
}

/// A series with a late point: its lane, and the changes of its slots.
#[derive(Clone, Debug)]
pub(crate) struct LateSeries {
    pub(crate) lane: Lane,
    pub(crate) slots: Batch,
}

/// A stream of deltas, each of whose times counts once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// The time that it has counted in the store.
    stored: CountedTime,
    /// The same with the deltas that no store has.
    counted: CountedTime,
    /// These deltas.
    pub(crate) deltas: Log,
}

impl Stream {
    fn new(stored: &CountedTime) -> Stream {
        Stream { stored: stored.clone(), counted: stored.clone(), deltas: Log::default() }
    }

    fn bytes(&self) -> usize {
        let spans = self.stored.spans().len() + self.counted.spans().len();
        size_of::<Stream>() + spans * size_of::<Span>() + self.deltas.size()
    }
}

impl RecentUpdates {
    pub(crate) fn new(spec: &Spec, lane: &Lane) -> RecentUpdates {
        match spec.kind {
            Kind::Count | Kind::Level => {
                let stored = Some(lane.counted()).filter(|stored| !stored.is_empty());
                let stream = stored.map(|stored| Box::new(Stream::new(stored)));
                RecentUpdates::Intervals { log: Log::default(), stream }
            }
            _ => {
                let mut log = Log::default();
                lane.points().for_each(|point| log.push_point(*point));
                let forgotten = lane.has_forgotten();
                RecentUpdates::Points { known: log.len(), log, forgotten, late: None }
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            RecentUpdates::Intervals { log, stream } => {
                log.size() + stream.as_ref().map_or(0, |stream| stream.bytes())
            }
            RecentUpdates::Points { log, late: None, .. } => log.size(),
            RecentUpdates::Points { log, late: Some(late), .. } => {
                let points = late.lane.remembered() * POINT_BYTES;
                log.size() + size_of::<LateSeries>() + points + late.slots.len() * SLOT_BYTES
            }
        }
    }

    /// The newest point up to `until_us` that the store or the head has. Without a late point, all are
    /// read for it.
    pub(crate) fn newest(&self, until_us: i64) -> Option<Point> {
        let is_before = |point: &Point| point.at_us <= until_us;
        match self {
            RecentUpdates::Intervals { .. } => None,
            RecentUpdates::Points { late: Some(late), .. } => {
                late.lane.points().copied().filter(is_before).last()
            }
            RecentUpdates::Points { log, .. } => log.points().filter(is_before).last(),
        }
    }

    /// The time of that point.
    pub(crate) fn newest_us(&self, until_us: i64) -> Option<i64> {
        let newest_us = match self {
            RecentUpdates::Intervals { .. } => None,
            RecentUpdates::Points { late: Some(late), .. } => {
                late.lane.newest().map(|point| point.at_us)
            }
            RecentUpdates::Points { log, .. } => log.last_us(),
        };
        match newest_us {
            Some(newest_us) if newest_us > until_us => {
                self.newest(until_us).map(|point| point.at_us)
            }
            newest_us => newest_us,
        }
    }

    /// The lane in the store.
    pub(crate) fn before(&self) -> Lane {
        match self {
            RecentUpdates::Intervals { stream, .. } => {
                Lane::counting(stream.as_ref().map(|s| s.stored.clone()).unwrap_or_default())
            }
            RecentUpdates::Points { log, known, forgotten, .. } => {
                Lane::remembering(log.points().take(*known), *forgotten)
            }
        }
    }

    /// The lane after all points and deltas.
    pub(crate) fn after(&self, spec: &Spec) -> Lane {
        match self {
            RecentUpdates::Intervals { stream, .. } => {
                Lane::counting(stream.as_ref().map(|s| s.counted.clone()).unwrap_or_default())
            }
            RecentUpdates::Points { late: Some(late), .. } => late.lane.clone(),
            RecentUpdates::Points { log, forgotten, .. } => {
                Lane::followed(Lane::remembering([], *forgotten), spec, log.points())
            }
        }
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub(crate) fn point(&mut self, context: Context<'_>, point: Point) -> Result<(), Refusal> {
        let point = Point { reading: point.reading.checked(context.spec.kind)?, ..point };
        if !self.is_next(point) {
            let LateSeries { lane, slots } = self.late(context)?;
            let spec = context.believed.prepare(lane, context.spec);
            lane.push(&spec, point, |slot_us, delta| slots.add(context.key(slot_us), delta))?;
        }
        if let RecentUpdates::Points { log, .. } = self {
            log.push_point(point);
        }
        Ok(())
    }

    /// Whether a point would be accepted.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub(crate) fn admits(&mut self, context: Context<'_>, point: Point) -> Result<(), Refusal> {
        if self.is_next(point) {
            return point.reading.checked(context.spec.kind).map(|_| ());
        }
        let lane = &mut self.late(context)?.lane;
        let spec = context.believed.prepare(lane, context.spec);
        lane.admits(&spec, point)
    }

    /// Whether a point follows all others, none of which was late.
    fn is_next(&self, point: Point) -> bool {
        let RecentUpdates::Points { log, late: None, .. } = self else { return false };
        log.last_us().is_none_or(|last_us| point.at_us > last_us)
    }

    /// What follows from the points, for one that arrives late.
    fn late(&mut self, context: Context<'_>) -> Result<&mut LateSeries, Refusal> {
        if let RecentUpdates::Points { log, known, forgotten, late } = self
            && late.is_none()
        {
            let mut points = log.points();
            let mut lane = Lane::remembering(points.by_ref().take(*known), *forgotten);
            let mut slots = Batch::default();
            for point in points {
                let sink = |slot_us, delta| slots.add(context.key(slot_us), delta);
                lane.push(context.spec, point, sink)?;
            }
            *late = Some(Box::new(LateSeries { lane, slots }));
        }
        match self {
            RecentUpdates::Points { late: Some(late), .. } => Ok(late),
            _ => Err(Refusal::WrongKind),
        }
    }

    /// Whether the stream has counted the time of a delta.
    ///
    /// # Errors
    /// Those of [`CountedTime::has`].
    pub(crate) fn has_counted(&self, delta: Interval) -> Result<bool, Refusal> {
        match self {
            RecentUpdates::Intervals { stream: Some(stream), .. } => {
                stream.counted.has(delta.cover().span)
            }
            RecentUpdates::Intervals { stream: None, .. } => Ok(false),
            RecentUpdates::Points { .. } => Err(Refusal::WrongKind),
        }
    }

    /// Adds a delta; false if the stream has counted its time.
    ///
    /// # Errors
    /// Those of [`CountedTime::has`].
    pub(crate) fn delta(&mut self, delta: Interval) -> Result<bool, Refusal> {
        if self.has_counted(delta)? {
            return Ok(false);
        }
        let RecentUpdates::Intervals { stream, .. } = self else { return Err(Refusal::WrongKind) };
        let stream = stream.get_or_insert_default();
        // A delta adds, and what adds has a form.
        if !stream.deltas.push_interval(delta) {
            return Err(Refusal::WrongKind);
        }
        stream.counted.add(delta.cover().span)
    }

    /// Adds the points or deltas that no store has to a lane which another writer has changed; returns
    /// what it does not take.
    pub(crate) fn rebase(&mut self, context: Context<'_>, lane: &Lane) -> UnstoredUpdates {
        let mut unstored = UnstoredUpdates::default();
        match std::mem::replace(self, RecentUpdates::new(context.spec, lane)) {
            RecentUpdates::Points { log, known, .. } => {
                let added = log.points().skip(known).map(|point| self.point(context, point));
                unstored.overtaken = added.filter(Result::is_err).count() as u64;
            }
            RecentUpdates::Intervals { log: others, stream } => {
                for delta in stream.iter().flat_map(|stream| stream.deltas.intervals()) {
                    match self.delta(delta) {
                        Ok(is_new) => unstored.repeated += u64::from(!is_new),
                        Err(_) => unstored.overtaken += 1,
                    }
                }
                if let RecentUpdates::Intervals { log, .. } = self {
                    *log = others;
                }
            }
        }
        unstored
    }
}
