//! What a head holds of one series.

use series::{Batch, Kind, Lane, Log, Point, Refusal, SlotKey, Spec};

/// Approximate memory of a slot in a [`Batch`] or in a map.
pub(crate) const SLOT_BYTES: usize = 128;

/// Memory of a point outside a log.
const POINT_BYTES: usize = 32;

/// The position of a series in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(pub(crate) u32);

/// The updates of a series that no store has, and its recent points.
#[derive(Clone, Debug)]
pub(crate) enum Recent {
    /// Intervals; they need no predecessors.
    Intervals(Log),
    /// Points in the order in which they came; a store has the first `known` of them.
    Points {
        log: Log,
        known: usize,
        /// Whether there were others before the first.
        forgotten: bool,
        /// What follows from them, if one of them arrived late.
        late: Option<Box<Late>>,
    },
}

/// A series with a late point: its lane, and the changes of its slots.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) lane: Lane,
    pub(crate) slots: Batch,
}

impl Recent {
    pub(crate) fn new(spec: &Spec, lane: &Lane) -> Recent {
        match spec.kind {
            Kind::Count | Kind::Level => Recent::Intervals(Log::default()),
            _ => {
                let mut log = Log::default();
                lane.points().for_each(|point| log.push_point(*point));
                let forgotten = lane.has_forgotten();
                Recent::Points { known: log.len(), log, forgotten, late: None }
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Recent::Intervals(log) | Recent::Points { log, late: None, .. } => log.size(),
            Recent::Points { log, late: Some(late), .. } => {
                let points = late.lane.remembered() * POINT_BYTES;
                log.size() + size_of::<Late>() + points + late.slots.len() * SLOT_BYTES
            }
        }
    }

    /// The newest point that the store or the head has. Without a late point, all are read for it.
    pub(crate) fn newest(&self) -> Option<Point> {
        match self {
            Recent::Intervals(_) => None,
            Recent::Points { late: Some(late), .. } => late.lane.newest().copied(),
            Recent::Points { log, .. } => log.points().last(),
        }
    }

    /// The lane in the store.
    pub(crate) fn before(&self) -> Lane {
        match self {
            Recent::Intervals(_) => Lane::default(),
            Recent::Points { log, known, forgotten, .. } => {
                Lane::remembering(log.points().take(*known), *forgotten)
            }
        }
    }

    /// The lane after all points.
    pub(crate) fn after(&self, spec: &Spec) -> Lane {
        match self {
            Recent::Intervals(_) => Lane::default(),
            Recent::Points { late: Some(late), .. } => late.lane.clone(),
            Recent::Points { log, forgotten, .. } => {
                Lane::followed(Lane::remembering([], *forgotten), spec, log.points())
            }
        }
    }

    /// Adds a point; `key` returns the key of a slot.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub(crate) fn point(
        &mut self,
        spec: &Spec,
        key: impl Fn(i64) -> SlotKey,
        point: Point,
    ) -> Result<(), Refusal> {
        let point = Point { reading: point.reading.checked(spec.kind)?, ..point };
        if !self.is_next(point) {
            let Late { lane, slots } = self.late(spec, &key)?;
            lane.push(spec, point, |slot_us, delta| slots.add(key(slot_us), delta))?;
        }
        if let Recent::Points { log, .. } = self {
            log.push_point(point);
        }
        Ok(())
    }

    /// Whether a point would be accepted.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub(crate) fn admits(
        &mut self,
        spec: &Spec,
        key: impl Fn(i64) -> SlotKey,
        point: Point,
    ) -> Result<(), Refusal> {
        match self.is_next(point) {
            true => point.reading.checked(spec.kind).map(|_| ()),
            false => self.late(spec, key)?.lane.admits(spec, point),
        }
    }

    /// Whether a point follows all others, none of which was late.
    fn is_next(&self, point: Point) -> bool {
        let Recent::Points { log, late: None, .. } = self else { return false };
        log.last_us().is_none_or(|last_us| point.at_us > last_us)
    }

    /// What follows from the points, for one that arrives late.
    fn late(&mut self, spec: &Spec, key: impl Fn(i64) -> SlotKey) -> Result<&mut Late, Refusal> {
        if let Recent::Points { log, known, forgotten, late } = self
            && late.is_none()
        {
            let mut points = log.points();
            let mut lane = Lane::remembering(points.by_ref().take(*known), *forgotten);
            let mut slots = Batch::default();
            for point in points {
                lane.push(spec, point, |slot_us, delta| slots.add(key(slot_us), delta))?;
            }
            *late = Some(Box::new(Late { lane, slots }));
        }
        match self {
            Recent::Points { late: Some(late), .. } => Ok(late),
            _ => Err(Refusal::WrongKind),
        }
    }

    /// Adds the points that no store has to a lane which another writer has changed; returns the
    /// number of those that it refuses.
    pub(crate) fn rebase(&mut self, spec: &Spec, key: impl Fn(i64) -> SlotKey, lane: &Lane) -> u64 {
        let earlier = std::mem::replace(self, Recent::new(spec, lane));
        let Recent::Points { log, known, .. } = earlier else { return 0 };
        let added = log.points().skip(known).map(|point| self.point(spec, &key, point));
        added.filter(Result::is_err).count() as u64
    }
}
