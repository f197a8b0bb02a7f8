//! The slots of a series and lane in a span.

use series::{Accumulator, SlotKey};

use super::{PackedSlots, pack};
use crate::stored_retention::{SPAN_SLOTS, StoredRetention};

/// A series and lane in a span: the key of a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StretchKey {
    /// The start of the span, microseconds since the epoch.
    pub(crate) span_us: i64,
    /// The series' number.
    pub(crate) series: i64,
    /// The lane's number.
    pub(crate) lane: i32,
}

impl StretchKey {
    /// The stretch that contains a slot.
    pub(crate) fn of(kept: &StoredRetention, key: &SlotKey) -> StretchKey {
        StretchKey { span_us: kept.span_of(key.slot_us), series: key.series, lane: key.lane }
    }
}

/// The slots of a series and lane in a span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Which.
    pub(crate) key: StretchKey,
    pub(super) step_us: i64,
    /// Up to the last slot that was changed.
    rows: Vec<Option<Accumulator>>,
}

impl Stretch {
    /// An empty stretch.
    pub(crate) fn new(kept: &StoredRetention, key: StretchKey) -> Stretch {
        let rows = Vec::with_capacity(SPAN_SLOTS as usize);
        Stretch { key, step_us: kept.step().us(), rows }
    }

    /// The position of a slot; `None` if it is outside.
    fn place(&mut self, slot_us: i64) -> Option<&mut Option<Accumulator>> {
        let place = slot_us.checked_sub(self.key.span_us)?.div_euclid(self.step_us);
        let place = usize::try_from(place).ok().filter(|place| *place < SPAN_SLOTS as usize)?;
        if self.rows.len() <= place {
            self.rows.resize(place + 1, None);
        }
        self.rows.get_mut(place)
    }

    /// The content of a slot, mutable.
    ///
    /// # Errors
    /// A message for a slot outside: its change would be lost.
    pub(crate) fn slot(&mut self, slot_us: i64) -> Result<&mut Accumulator, String> {
        let StretchKey { span_us, series, .. } = self.key;
        match self.place(slot_us) {
            Some(place) => Ok(place.get_or_insert(Accumulator::EMPTY)),
            None => Err(format!(
                "the slot at {slot_us} µs of series {series} lies outside its span, which starts at {span_us} µs"
            )),
        }
    }

    /// The existing slots, in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotKey, &Accumulator)> {
        let StretchKey { span_us, series, lane } = self.key;
        let places = self.rows.iter().enumerate();
        places.filter_map(move |(place, row)| {
            let slot_us = span_us + place as i64 * self.step_us;
            row.as_ref().map(|row| (SlotKey { slot_us, series, lane }, row))
        })
    }

    /// Packs the slots; `None` if there are none, or if they cannot be packed exactly.
    pub(crate) fn pack(&self) -> Option<PackedSlots> {
        let first = self.rows.iter().position(Option::is_some)?;
        let last = self.rows.iter().rposition(Option::is_some)?;
        let rows = self.rows.get(first..=last)?;
        let slot0_us = self.key.span_us + first as i64 * self.step_us;
        let slots = rows.iter().flatten().count();
        if slots * 4 >= rows.len() {
            return pack(first, rows, None, slot0_us, self.step_us);
        }
        let present = rows.iter().enumerate().filter(|(_, row)| row.is_some());
        let (places, rows): (Vec<usize>, Vec<_>) =
            present.map(|(place, row)| (place, *row)).unzip();
        pack(first, &rows, Some(&places), slot0_us, self.step_us)
    }
}
