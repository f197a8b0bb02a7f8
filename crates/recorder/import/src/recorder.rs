//! Gathers the updates of pieces and writes them.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use engine::{Frozen, Head, Place};
use formats::files::Resumed;
use formats::{Book, Malformed, Reason, Update, What};
use series::rrd;
use series::{Accumulator, Interval, Kind, Refusal, Sense, Spec, Step};
use store::{Changes, RrdChange, Store, StoreError, Writer};

mod find;
mod live;

pub use live::{Batch, Live, live};

use crate::advance::Advance;
use crate::placed::Placed;
use crate::store_thread::{self, StoreThread, Stored};
use crate::{BackfillError, Options};

/// A head with fewer updates is not written early.
const ENOUGH: u64 = 200_000;

/// Updates per series that make a head worth writing early.
const ENOUGH_EACH: u64 = 100;

/// Gathers pieces in a head, and hands them to a store, many at once. A separate thread writes to
/// the store meanwhile.
pub(crate) struct Recorder<'s> {
    store_thread: StoreThread<'s>,
    options: Options,
    lane: i32,
    head: Head,
    /// By number in the book.
    known: Vec<Known>,
    rrds: HashMap<Place, Advance>,
    /// Size of the head when it was last taken out.
    bytes_before: usize,
    updates: u64,
    flushed: Instant,
    /// Whether a piece was written: then no later one can be known.
    wrote: bool,
    /// Whether the head contains whole pieces: false while one is being added.
    whole: bool,
    /// Whether a series with RRDtool's semantics is refused, and does not end the stream.
    refuses_mode: bool,
    unstored: Unstored,
}

/// What of accepted updates was not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unstored {
    /// Slots that are older than any retention keeps.
    pub expired: u64,
    /// Points that arrived late after those which another process has written to the same lane.
    pub overtaken: u64,
}

impl std::ops::AddAssign for Unstored {
    fn add_assign(&mut self, other: Unstored) {
        self.expired += other.expired;
        self.overtaken += other.overtaken;
    }
}

/// What is known about a series of the book.
#[derive(Clone, Copy, Debug, Default)]
enum Known {
    #[default]
    New,
    Refused(Reason),
    At(Place),
}

/// Result of a piece.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Updates written.
    pub(crate) updates: u64,
    /// What was not stored, of this piece or of earlier ones.
    pub(crate) unstored: Unstored,
    /// The time range that they cover.
    pub(crate) span_us: Option<(i64, i64)>,
}

impl Written {
    fn count(&mut self, update: &Update) {
        let (from_us, to_us) = update.times_us();
        let (start, end) = self.span_us.unwrap_or((from_us, to_us));
        self.span_us = Some((start.min(from_us), end.max(to_us)));
        self.updates += 1;
    }
}

impl Recorder<'_> {
    /// Runs `work` with a recorder, and writes what remains in the head.
    ///
    /// If `work` fails, whole pieces that the recorder accepted are still written, unless the store
    /// failed.
    pub(crate) fn run<T>(
        store: &mut dyn Store,
        options: Options,
        now_us: i64,
        work: impl FnOnce(&mut Recorder<'_>) -> Result<T, BackfillError>,
    ) -> Result<T, BackfillError> {
        if let Some(definition) = options.definition(Kind::Gauge) {
            definition.checked()?;
        }
        let lane = store.lanes(&[&options.lane])?.first().copied().unwrap_or(0);
        store_thread::with(store, now_us, |store_thread| {
            let mut recorder = Recorder {
                store_thread,
                options,
                lane,
                head: Head::new(lane),
                known: Vec::new(),
                rrds: HashMap::new(),
                bytes_before: 0,
                updates: 0,
                flushed: Instant::now(),
                wrote: false,
                whole: true,
                refuses_mode: false,
                unstored: Unstored::default(),
            };
            let done = work(&mut recorder);
            match &done {
                // After something that the store did not accept, nothing later may be written.
                Ok(_) | Err(BackfillError::Store(_)) => {}
                // The first error is the one to report; the same import continues after what is
                // stored.
                Err(_) if recorder.whole => drop(recorder.settle()),
                Err(_) => {}
            }
            done
        })
    }

    /// End of the latest update in the lane of a series, in microseconds since the epoch.
    pub(crate) fn newest_us(&mut self, id: i64) -> Result<Option<i64>, BackfillError> {
        if self.head.is_touched(id) {
            self.settle()?;
        }
        let rows = self.store_thread.call(move |store| {
            let coarsest = store.retentions()?.into_iter().map(|retention| retention.step).max();
            coarsest.map_or(Ok(Vec::new()), |step| store.slots(step, &[id], i64::MIN, i64::MAX))
        })?;
        let of_lane = rows.iter().filter(|(key, _)| key.lane == self.lane);
        Ok(of_lane.filter_map(|(_, row)| Some(row.last()?.0)).max())
    }

    /// The slots of a series in the written lane, in order.
    pub(crate) fn slots(
        &mut self,
        step: Step,
        id: i64,
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(i64, Accumulator)>, BackfillError> {
        if self.head.is_touched(id) {
            self.settle()?;
        }
        let rows =
            self.store_thread.call(move |store| store.slots(step, &[id], from_us, until_us))?;
        let of_lane = rows.into_iter().filter(|(key, _)| key.lane == self.lane);
        Ok(of_lane.map(|(key, slot)| (key.slot_us, slot)).collect())
    }

    /// Brings a series in RRD mode up to the state of a file, unless it is already there or
    /// further.
    pub(crate) fn resume(
        &mut self,
        writer: Writer,
        id: i64,
        resumed: &Resumed,
    ) -> Result<(), BackfillError> {
        let before_us =
            self.store_thread.call(move |store| store.rrd(id))?.map(|rrd| rrd.last_us());
        if before_us.is_some_and(|before_us| before_us >= resumed.state.last_us()) {
            return Ok(());
        }
        let step_us = resumed.definition.step.us();
        let is_new = |row: &&rrd::Row| {
            let row_us = step_us * resumed.definition.archives[row.archive].steps;
            before_us.is_none_or(|before_us| row.end_us > before_us - before_us.rem_euclid(row_us))
        };
        let rows = resumed.rows.iter().filter(is_new).copied().collect();
        let change = RrdChange { series: id, state: resumed.state.clone(), rows };
        let changes = Changes { rrd: vec![change], ..Changes::default() };
        self.store_thread.call(move |store| store.apply(writer, 1, &changes))?;
        Ok(())
    }

    /// Whether the store has this writer's batch. Once a piece of the stream was written, the store
    /// has no later one, and is not asked.
    pub(crate) fn has(&mut self, writer: Writer) -> Result<bool, StoreError> {
        Ok(!self.wrote && self.store_thread.call(move |store| store.last_batch(writer))? > 0)
    }

    /// Whether this writer's batch was written before, or waits to be: for batches that are not
    /// pieces of one stream, of which a known one may follow a new one.
    pub(crate) fn knows(&mut self, writer: Writer) -> Result<bool, StoreError> {
        Ok(self.head.has_claim(writer)
            || self.store_thread.call(move |store| store.last_batch(writer))? > 0)
    }

    /// The updates that would be refused, by the index of their line.
    pub(crate) fn judge(
        &mut self,
        book: &Book,
        updates: &[Placed],
    ) -> Result<Vec<(usize, Reason)>, BackfillError> {
        self.find(book, updates.iter().map(|placed| (placed.series, placed.update.kind)))?;
        let none = HashSet::new();
        let judge = |line: &[Placed]| {
            let mut reasons = line.iter().map(|placed| self.admits(placed, &none));
            Some((line.first()?.place, reasons.find_map(Result::err)?))
        };
        Ok(updates.chunk_by(|a, b| a.place == b.place).filter_map(judge).collect())
    }

    /// Adds a piece as the one batch of each of these writers. Before anything is written, `refuse`
    /// is called with the refused updates.
    pub(crate) fn write(
        &mut self,
        writers: &[Writer],
        book: &Book,
        updates: &[Placed],
        mut refuse: impl FnMut(&[(usize, Reason)]) -> Result<(), BackfillError>,
    ) -> Result<Written, BackfillError> {
        self.wrote = true;
        self.find(book, updates.iter().map(|placed| (placed.series, placed.update.kind)))?;
        if self.options.head_bytes == 0 || updates.iter().any(|placed| self.is_large(placed)) {
            return self.write_alone(writers, updates, refuse);
        }
        let mut refused = Vec::new();
        self.whole = false;
        let mut written = self.add_all(updates, &HashSet::new(), &HashSet::new(), &mut refused);
        refuse(&refused)?;
        writers.iter().for_each(|writer| self.head.claim(*writer, 1));
        self.whole = true;
        self.updates += written.updates;
        self.flush_if_due()?;
        written.unstored = std::mem::take(&mut self.unstored);
        Ok(written)
    }

    /// Adds a piece whose counts may be too large for their slots: it is written at once and
    /// separately, so that series with an overflowing slot can be refused.
    fn write_alone(
        &mut self,
        writers: &[Writer],
        updates: &[Placed],
        mut refuse: impl FnMut(&[(usize, Reason)]) -> Result<(), BackfillError>,
    ) -> Result<Written, BackfillError> {
        self.settle()?;
        self.whole = false;
        let mut full: HashSet<i64> = HashSet::new();
        // A line that was refused and stored stays refused.
        let mut known_refused: HashSet<usize> = HashSet::new();
        loop {
            let rrds = self.rrds.clone();
            let mut refused = Vec::new();
            let mut written = self.add_all(updates, &full, &known_refused, &mut refused);
            known_refused.extend(refused.iter().map(|(place, _)| *place));
            refuse(&refused)?;
            writers.iter().for_each(|writer| self.head.claim(*writer, 1));
            let frozen = self.freeze();
            match self.store_thread.apply(frozen) {
                Ok(stored) => {
                    self.whole = true;
                    self.stored(stored);
                    written.unstored = std::mem::take(&mut self.unstored);
                    return Ok(written);
                }
                Err((StoreError::Overflow { slots }, frozen)) => {
                    let before = full.len();
                    full.extend(slots.iter().map(|(_, key)| key.series));
                    if full.len() == before {
                        return Err(StoreError::Overflow { slots }.into());
                    }
                    self.head.undo(*frozen);
                    self.rrds = rrds;
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Writes the head, and waits until it is stored; returns what was not.
    pub(crate) fn finish(&mut self) -> Result<Unstored, BackfillError> {
        self.settle()?;
        Ok(std::mem::take(&mut self.unstored))
    }

    fn settle(&mut self) -> Result<(), BackfillError> {
        if !self.head.is_empty() {
            self.send()?;
        }
        let stored = self.store_thread.settle()?;
        self.stored(stored);
        Ok(())
    }

    /// Starts to write the head, once the previous batch is written.
    fn send(&mut self) -> Result<(), BackfillError> {
        let stored = self.store_thread.settle()?;
        self.stored(stored);
        let frozen = self.freeze();
        self.store_thread.begin(Box::new(frozen));
        Ok(())
    }

    /// Notes the result of a batch, and continues from the lanes that another writer had changed.
    fn stored(&mut self, stored: Stored) {
        let Stored { expired, refused, rebased } = stored;
        self.unstored += Unstored { expired, overtaken: refused };
        for (id, lane) in rebased {
            self.unstored.overtaken += self.head.rebase(id, &lane);
        }
    }

    /// Hands the head to the store if it is full, or if the store is idle and it is worthwhile.
    fn flush_if_due(&mut self) -> Result<(), BackfillError> {
        let grown = self.head.bytes().saturating_sub(self.bytes_before);
        let is_full = grown >= self.options.head_bytes / 2;
        if !is_full {
            let stored = self.store_thread.poll()?;
            self.stored(stored);
            let each = self.head.touched() as u64 * ENOUGH_EACH;
            let is_worth_it = self.updates >= ENOUGH.max(each);
            let each = self.options.written_each;
            let is_late = each.is_some_and(|each| self.flushed.elapsed() >= each);
            if !self.store_thread.is_idle() || !is_worth_it && !is_late {
                return Ok(());
            }
        }
        self.send()
    }

    fn freeze(&mut self) -> Frozen {
        let rrd = self.rrds.iter().filter_map(|(place, rrd)| rrd.change(self.head.id(*place)));
        let rrd = rrd.collect();
        self.rrds.values_mut().for_each(Advance::settle);
        let frozen = self.head.freeze().with_rrd(rrd);
        self.bytes_before = self.head.bytes();
        self.updates = 0;
        self.flushed = Instant::now();
        frozen
    }

    fn known(&self, series: formats::Series) -> Known {
        self.known.get(series.0 as usize).copied().unwrap_or_default()
    }

    /// Whether a series that was found accepts updates of a kind.
    pub(crate) fn takes(&self, series: formats::Series, kind: Kind) -> Result<(), Reason> {
        self.place(series, kind).map(|_| ())
    }

    /// The position of a series in the head, if it was found and accepts updates of a kind.
    fn place(&self, series: formats::Series, kind: Kind) -> Result<Place, Reason> {
        match self.known(series) {
            Known::At(place) if self.head.spec(place).kind == kind => Ok(place),
            Known::At(_) => Err(Refusal::WrongKind.into()),
            Known::Refused(reason) => Err(reason),
            Known::New => Err(Malformed::TooManySeries.into()),
        }
    }

    /// The position of an update's series, unless it is one of the full ones, by their numbers in
    /// the store.
    fn place_of(&self, placed: &Placed, full: &HashSet<i64>) -> Result<Place, Reason> {
        let place = self.place(placed.series, placed.update.kind)?;
        if !full.is_empty() && full.contains(&self.head.id(place)) {
            return Err(Refusal::TooLarge.into());
        }
        Ok(place)
    }

    fn is_large(&self, placed: &Placed) -> bool {
        match &placed.update.what {
            What::Interval(interval) => Head::is_large_interval(interval),
            What::Point(point) => {
                let place = || self.place(placed.series, placed.update.kind);
                Head::may_be_large(point)
                    && place().is_ok_and(|place| self.head.is_large(place, point))
            }
        }
    }

    /// Adds updates to the head, except for refused lines: those in `known`, and those that are
    /// added to `refused`.
    fn add_all(
        &mut self,
        updates: &[Placed],
        full: &HashSet<i64>,
        known: &HashSet<usize>,
        refused: &mut Vec<(usize, Reason)>,
    ) -> Written {
        let mut written = Written::default();
        for line in updates.chunk_by(|a, b| a.place == b.place) {
            let place = line[0].place;
            if !known.is_empty() && known.contains(&place) {
                continue;
            }
            match self.add_line(line, full) {
                Ok(()) => line.iter().for_each(|placed| written.count(&placed.update)),
                Err(reason) => refused.push((place, reason)),
            }
        }
        written
    }

    /// Adds all updates of a line to the head, or none.
    fn add_line(&mut self, line: &[Placed], full: &HashSet<i64>) -> Result<(), Reason> {
        // A single update that fails changes nothing, so only several are checked in advance.
        if line.len() > 1 {
            line.iter().try_for_each(|placed| self.admits(placed, full))?;
        }
        line.iter().try_for_each(|placed| self.add(placed, full))
    }

    /// Whether an update would be accepted.
    fn admits(&mut self, placed: &Placed, full: &HashSet<i64>) -> Result<(), Reason> {
        let place = self.place_of(placed, full)?;
        match placed.update.what {
            What::Point(point) => {
                if let Some(rrd) = self.rrds.get(&place) {
                    let start_us = self.options.rrd.as_ref().and_then(|mode| mode.start_us);
                    rrd.clone().admit(point.at_us, start_us)?;
                }
                Ok(self.head.admits(place, point)?)
            }
            What::Interval(interval) => Ok(admits(self.head.spec(place), interval)?),
        }
    }

    /// Adds one update to the head.
    fn add(&mut self, placed: &Placed, full: &HashSet<i64>) -> Result<(), Reason> {
        let place = self.place_of(placed, full)?;
        match placed.update.what {
            What::Point(point) => {
                if self.rrds.is_empty() {
                    return Ok(self.head.point(place, point)?);
                }
                let mut rrd = self.rrds.get_mut(&place);
                if let Some(rrd) = &mut rrd {
                    let start_us = self.options.rrd.as_ref().and_then(|mode| mode.start_us);
                    rrd.admit(point.at_us, start_us)?;
                }
                self.head.point(place, point)?;
                if let Some(rrd) = rrd {
                    rrd.push(point)?;
                }
            }
            What::Interval(interval) => {
                let spec = self.head.spec(place);
                admits(spec, interval)?;
                let own = spec.step;
                let step = placed.step.unwrap_or(own);
                match placed.instead {
                    Some(known) => self.head.interval_instead(place, interval, known, step),
                    None if step != own => self.head.interval_at(place, interval, step),
                    None => self.head.interval(place, interval)?,
                }
            }
        }
        Ok(())
    }
}

/// Whether a series' bounds admit an interval.
pub(crate) fn admits(spec: &Spec, interval: Interval) -> Result<(), Refusal> {
    let cover = interval.cover();
    // A correction may be negative; the bounds apply to what it corrects.
    let rate = match cover.sense {
        Sense::Correct => cover.amount.rate(cover.span).abs(),
        Sense::Add | Sense::Retract => cover.amount.rate(cover.span),
    };
    if spec.admits(rate) { Ok(()) } else { Err(Refusal::OutOfBounds) }
}
