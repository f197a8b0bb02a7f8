//! Series that are being written to.

use std::collections::BTreeMap;

use series::{
    Batch, Cover, Delta, Interval, Kind, Lane, Point, Reading, Refusal, SlotKey, Spec, Step,
};
use store::{Changes, Request, Writer};

use super::FrozenBatch;
use super::frozen::WrittenSeries;
use super::recent::{Belief, Context, Place, RecentUpdates, SLOT_BYTES};
use crate::unstored::UnstoredUpdates;

/// A count of this size may lead to one that a double does not hold exactly. Smaller counts would
/// need thousands in one slot.
const LARGE: u64 = 1 << 40;

/// Approximate memory of a request, here and with its caller.
const REQUEST_BYTES: usize = 128;

/// Updates of one lane of many series that no store has yet, and their recent points.
#[derive(Debug, Default)]
pub struct Head {
    lane: i32,
    believed: Belief,
    specs: Vec<Spec>,
    series: Vec<OpenSeries>,
    places: BTreeMap<i64, Place>,
    /// Series with updates that no store has.
    touched: Vec<Place>,
    /// What belongs to no log: requests, and slots of intervals with another step than that of their
    /// series, or that replace others. They are written after all logs.
    rest: Changes,
    claims: Vec<(Writer, u64)>,
    /// Memory of logs and slots in bytes.
    bytes: usize,
}

/// A series being written.
#[derive(Clone, Debug)]
struct OpenSeries {
    id: i64,
    /// Index of its spec.
    spec: u32,
    touched: bool,
    /// Whether bounds of its slots were replaced since the last freeze: later intervals must be
    /// written after that, and so go into slots as well.
    replaced: bool,
    recent: RecentUpdates,
}

impl Head {
    /// An empty head for one lane, by its number.
    pub fn new(lane: i32) -> Head {
        Head { lane, ..Head::default() }
    }

    /// Points arrive now, and those after a horizon come from a clock that was wrong, both in
    /// microseconds since the epoch. By default, every clock is believed.
    pub fn believe(&mut self, now_us: i64, horizon_us: i64) {
        self.believed = Belief { now_us, horizon_us };
    }

    /// Bytes of the updates and recent points of all series. The allocated memory may be twice as
    /// much.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of series with updates that no store has.
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Whether a series, by its number in the store, has updates that no store has.
    pub fn is_touched(&self, id: i64) -> bool {
        let open = self.places.get(&id).map(|place| &self.series[place.0 as usize]);
        open.is_some_and(|open| open.touched)
    }

    /// Whether a store has everything.
    pub fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.rest.is_empty() && self.claims.is_empty()
    }

    /// The position of a series, by its number in the store. `lane` contains the recent points in
    /// the store.
    pub fn open(&mut self, id: i64, spec: &Spec, lane: &Lane) -> Place {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let known = self.specs.iter().rposition(|known| known == spec);
        let spec = known.unwrap_or_else(|| {
            self.specs.push(*spec);
            self.specs.len() - 1
        }) as u32;
        let recent = RecentUpdates::new(&self.specs[spec as usize], lane);
        self.bytes += recent.bytes();
        let place = Place(self.series.len() as u32);
        self.series.push(OpenSeries { id, spec, touched: false, replaced: false, recent });
        self.places.insert(id, place);
        place
    }

    /// The spec of a series.
    pub fn spec(&self, place: Place) -> &Spec {
        &self.specs[self.series[place.0 as usize].spec as usize]
    }

    /// The series' number in the store.
    pub fn id(&self, place: Place) -> i64 {
        self.series[place.0 as usize].id
    }

    /// The time of the newest point that the store or the head has, in microseconds since the epoch;
    /// none from a clock that [was wrong](Head::believe).
    pub fn newest_us(&self, place: Place) -> Option<i64> {
        self.series[place.0 as usize].recent.newest_us(self.believed.horizon_us)
    }

    /// The value of that point. All recent points are read for it.
    pub fn newest(&self, place: Place) -> Option<f64> {
        let newest = self.series[place.0 as usize].recent.newest(self.believed.horizon_us);
        // One without a value is NaN.
        newest.map(|point| point.reading.as_f64()).filter(|value| !value.is_nan())
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub fn point(&mut self, place: Place, point: Point) -> Result<(), Refusal> {
        self.change(place, |recent, context| recent.point(context, point))?;
        self.touch(place);
        Ok(())
    }

    /// Whether a point would be accepted.
    ///
    /// # Errors
    /// Those of [`Lane::push`].
    pub fn admits(&mut self, place: Place, point: Point) -> Result<(), Refusal> {
        self.change(place, |recent, context| recent.admits(context, point))
    }

    /// Adds an interval.
    ///
    /// # Errors
    /// [`Refusal::WrongKind`] for a series of points.
    pub fn interval(&mut self, place: Place, interval: Interval) -> Result<(), Refusal> {
        let open = &mut self.series[place.0 as usize];
        let RecentUpdates::Intervals { log, .. } = &mut open.recent else {
            return Err(Refusal::WrongKind);
        };
        let before = log.size();
        if open.replaced || !log.push_interval(interval) {
            self.interval_at(place, interval, self.spec(place).step);
            return Ok(());
        }
        self.bytes += log.size() - before;
        self.touch(place);
        Ok(())
    }

    /// Whether a stream has counted the time of a delta.
    ///
    /// # Errors
    /// Those of [`CountedTime::has`](series::CountedTime::has).
    pub fn has_counted(&self, place: Place, delta: Interval) -> Result<bool, Refusal> {
        self.series[place.0 as usize].recent.has_counted(delta)
    }

    /// Adds a delta of a stream; false if the stream has counted its time.
    ///
    /// # Errors
    /// Those of [`Head::has_counted`].
    pub fn delta(&mut self, place: Place, delta: Interval) -> Result<bool, Refusal> {
        let taken = self.change(place, |recent, _| recent.delta(delta));
        if taken == Ok(true) {
            self.touch(place);
        }
        taken
    }

    /// Adds an interval to the slots of `step`, which may differ from that of the series.
    pub fn interval_at(&mut self, place: Place, interval: Interval, step: Step) {
        self.slots_of(place, step, |sink| {
            interval.slots(step).for_each(|(slot_us, part)| sink(slot_us, Delta::widen(part)));
        });
    }

    /// Adds an interval to the slots of `step` in place of `known`, which was added earlier. Slots
    /// that the interval covers completely have no other content, so they get its bounds.
    pub fn interval_instead(
        &mut self,
        place: Place,
        interval: Interval,
        known: Interval,
        step: Step,
    ) {
        self.slots_of(place, step, |sink| {
            let parts = known.inverse().slots(step).chain(interval.slots(step));
            parts.for_each(|(slot_us, part)| sink(slot_us, Delta::widen(part)));
            let Cover { span, amount, .. } = interval.cover();
            let whole = |us: i64| step.slot_of(us) == us;
            if whole(span.start_us()) && whole(span.end_us()) {
                let rate = amount.rate(span);
                for (slot_us, _) in interval.slots(step) {
                    sink(slot_us, Delta::replace_bounds(rate, rate));
                }
            }
        });
        self.series[place.0 as usize].replaced = true;
    }

    /// Adds to slots of `step` of a series.
    fn slots_of(&mut self, place: Place, step: Step, add: impl FnOnce(&mut dyn FnMut(i64, Delta))) {
        self.touch(place);
        let (series, lane) = (self.id(place), self.lane);
        let batch = self.rest.slots.entry(step.us()).or_default();
        let before = batch.len();
        add(&mut |slot_us, delta| batch.add(SlotKey { slot_us, series, lane }, delta));
        self.bytes += (batch.len() - before) * SLOT_BYTES;
    }

    /// Declares that everything since the last freeze is this batch of a writer.
    pub fn claim(&mut self, writer: Writer, seq: u64) {
        self.claims.push((writer, seq));
    }

    /// Declares that updates since the last freeze are those of a request.
    pub fn request(&mut self, request: Request) {
        self.rest.requests.push(request);
        self.bytes += REQUEST_BYTES;
    }

    /// Whether this writer's batch was claimed since the last freeze.
    pub fn has_claim(&self, writer: Writer) -> bool {
        self.claims.iter().any(|(claimed, _)| *claimed == writer)
    }

    /// Whether a single update may make a count too large to be exact: a store reports the slots,
    /// but not the update.
    pub fn is_large(&self, place: Place, point: &Point) -> bool {
        let open = &self.series[place.0 as usize];
        let kind = self.specs[open.spec as usize].kind;
        let last = match &open.recent {
            RecentUpdates::Points { late: Some(late), .. } => {
                late.lane.newest().map(|point| match point.reading {
                    Reading::Unsigned(value) => value as i64,
                    Reading::Signed(value) => value,
                    Reading::Level(_) | Reading::Unknown => 0,
                })
            }
            RecentUpdates::Points { log, .. } if !log.is_empty() => Some(log.last_whole()),
            _ => None,
        };
        match (kind, point.reading) {
            (Kind::Absolute, Reading::Unsigned(count)) => count >= LARGE,
            (_, Reading::Unsigned(value)) => {
                last.is_some_and(|last| value.abs_diff(last as u64) >= LARGE)
            }
            (_, Reading::Signed(value)) => last.is_some_and(|last| value.abs_diff(last) >= LARGE),
            (_, Reading::Level(_) | Reading::Unknown) => false,
        }
    }

    /// Whether [`Head::is_large`] may be true for a point in any series.
    pub fn may_be_large(point: &Point) -> bool {
        match point.reading {
            Reading::Level(_) | Reading::Unknown => false,
            Reading::Unsigned(value) => value >= LARGE,
            Reading::Signed(value) => value.unsigned_abs() >= LARGE / 2,
        }
    }

    /// The same of an interval.
    pub fn is_large_interval(interval: &Interval) -> bool {
        match interval.cover().amount {
            series::Amount::Count(count) => count.unsigned_abs() >= LARGE,
            series::Amount::Level(_) => false,
        }
    }

    /// Takes out everything that no store has, for writing; recent points stay.
    pub fn freeze(&mut self) -> FrozenBatch {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable_by_key(|place| self.series[place.0 as usize].id);
        let mut written = Vec::with_capacity(touched.len());
        for place in touched {
            let open = &mut self.series[place.0 as usize];
            (open.touched, open.replaced) = (false, false);
            let (id, spec) = (open.id, open.spec);
            let recent = self.change(place, |recent, Context { spec, .. }| {
                let next = RecentUpdates::new(spec, &recent.after(spec));
                std::mem::replace(recent, next)
            });
            written.push(WrittenSeries { place, id, spec, recent });
        }
        let rest = std::mem::take(&mut self.rest);
        let slots: usize = rest.slots.values().map(Batch::len).sum();
        let bytes = slots * SLOT_BYTES + rest.requests.len() * REQUEST_BYTES;
        self.bytes = self.bytes.saturating_sub(bytes);
        FrozenBatch {
            lane: self.lane,
            believed: self.believed,
            specs: self.specs.clone(),
            written,
            rest,
            claims: std::mem::take(&mut self.claims),
            ..FrozenBatch::default()
        }
    }

    /// Continues a series, by its number in the store, from the lane that a store has after another
    /// writer has changed it; returns what that lane does not take.
    pub fn rebase(&mut self, id: i64, lane: &Lane) -> UnstoredUpdates {
        let Some(place) = self.places.get(&id) else { return UnstoredUpdates::default() };
        self.change(*place, |recent, context| recent.rebase(context, lane))
    }

    /// Resets the recent points to those of a store, if a frozen batch was not written.
    pub fn undo(&mut self, frozen: FrozenBatch) {
        for WrittenSeries { place, recent: written, .. } in frozen.written {
            self.change(place, |recent, context| {
                *recent = RecentUpdates::new(context.spec, &written.before());
            });
        }
    }

    /// Changes what is held of a series, and counts its memory.
    fn change<T>(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut RecentUpdates, Context<'_>) -> T,
    ) -> T {
        let open = &mut self.series[place.0 as usize];
        let spec = &self.specs[open.spec as usize];
        let context = Context { spec, series: open.id, lane: self.lane, believed: self.believed };
        let before = open.recent.bytes();
        let done = change(&mut open.recent, context);
        self.bytes = (self.bytes + open.recent.bytes()).saturating_sub(before);
        done
    }

    /// A series has updates that no store has.
    fn touch(&mut self, place: Place) {
        let open = &mut self.series[place.0 as usize];
        if !std::mem::replace(&mut open.touched, true) {
            self.touched.push(place);
        }
    }
}

#[cfg(test)]
mod tests;
