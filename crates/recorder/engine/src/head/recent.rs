//! What a head holds of one series.

use series::{Batch, Kind, Lane, Log, Refusal, SlotKey, Spec};

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
    /// Points in order of time; a store has the first `known` of them.
    Points {
        log: Log,
        known: usize,
        /// Whether there were others before the first.
        forgotten: bool,
    },
    /// Points, one of which arrived late.
    Late(Box<Late>),
}

/// A series with a late point: its lane, and the changes of its slots.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    /// The recent points that a store has.
    before: Lane,
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
                Recent::Points { known: log.len(), log, forgotten: lane.has_forgotten() }
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Recent::Intervals(log) | Recent::Points { log, .. } => log.size(),
            Recent::Late(late) => {
                let points = late.lane.remembered() + late.before.remembered();
                size_of::<Late>() + points * POINT_BYTES + late.slots.len() * SLOT_BYTES
            }
        }
    }

    /// The lane in the store.
    pub(crate) fn before(&self) -> Lane {
        match self {
            Recent::Intervals(_) => Lane::default(),
            Recent::Points { log, known, forgotten } => {
                Lane::remembering(log.points().take(*known), *forgotten)
            }
            Recent::Late(late) => late.before.clone(),
        }
    }

    /// The lane after all points.
    pub(crate) fn after(&self, spec: &Spec) -> Lane {
        match self {
            Recent::Intervals(_) => Lane::default(),
            Recent::Points { log, forgotten, .. } => {
                Lane::followed(Lane::remembering([], *forgotten), spec, log.points())
            }
            Recent::Late(late) => late.lane.clone(),
        }
    }

    /// Converts it to one that accepts late points; `key` returns the key of a slot.
    pub(crate) fn late(
        &mut self,
        spec: &Spec,
        key: impl Fn(i64) -> SlotKey,
    ) -> Result<&mut Late, Refusal> {
        if let Recent::Points { log, known, .. } = &*self {
            let before = self.before();
            let (mut lane, mut slots) = (before.clone(), Batch::default());
            for point in log.points().skip(*known) {
                lane.push(spec, point, |slot_us, delta| slots.add(key(slot_us), delta))?;
            }
            *self = Recent::Late(Box::new(Late { before, lane, slots }));
        }
        match self {
            Recent::Late(late) => Ok(late),
            _ => Err(Refusal::WrongKind),
        }
    }
}
