//! Gathers the updates of pieces and writes them.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use engine::gather::{Found, reason};
use engine::{Frozen, Gatherer, Place, Placed, Stored, Unstored};
use formats::files::Resumed;
use formats::{Book, Reason, Update, What};
use series::rrd;
use series::{Accumulator, Kind, Lane, Refusal, Step};
use store::{Changes, NewSeries, NotMade, RrdChange, Series, Store, StoreError, Writer};

use crate::advance::Advance;
use crate::store_thread::{self, StoreThread};
use crate::{BackfillError, Options};

/// The number of an import's only book.
const BOOK: usize = 0;

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
    gatherer: Gatherer,
    rrds: HashMap<Place, Advance>,
    updates: u64,
    flushed: Instant,
    /// Whether a piece was written: then no later one can be known.
    wrote: bool,
    /// Whether the head contains whole pieces: false while one is being added.
    whole: bool,
    unstored: Unstored,
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
                gatherer: Gatherer::new(options.clone(), lane),
                options,
                lane,
                rrds: HashMap::new(),
                updates: 0,
                flushed: Instant::now(),
                wrote: false,
                whole: true,
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
        if self.gatherer.head.is_touched(id) {
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
        if self.gatherer.head.is_touched(id) {
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
        Ok(self.gatherer.head.has_claim(writer)
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
        if self.options.head_bytes == 0
            || updates.iter().any(|placed| self.gatherer.is_large(placed))
        {
            return self.write_alone(writers, updates, refuse);
        }
        let mut refused = Vec::new();
        self.whole = false;
        let mut written = self.add_all(updates, &HashSet::new(), &HashSet::new(), &mut refused);
        refuse(&refused)?;
        writers.iter().for_each(|writer| self.gatherer.head.claim(*writer, 1));
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
            writers.iter().for_each(|writer| self.gatherer.head.claim(*writer, 1));
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
                    self.gatherer.head.undo(*frozen);
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
        if !self.gatherer.head.is_empty() {
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
        self.unstored += self.gatherer.stored(&stored);
    }

    /// Hands the head to the store if it is full, or if the store is idle and it is worthwhile.
    fn flush_if_due(&mut self) -> Result<(), BackfillError> {
        let is_full = self.gatherer.bytes() >= self.options.head_bytes / 2;
        if !is_full {
            let stored = self.store_thread.poll()?;
            self.stored(stored);
            let each = self.gatherer.head.touched() as u64 * ENOUGH_EACH;
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
        let rrd =
            self.rrds.iter().filter_map(|(place, rrd)| rrd.change(self.gatherer.head.id(*place)));
        let rrd = rrd.collect();
        self.rrds.values_mut().for_each(Advance::settle);
        let frozen = self.gatherer.freeze().with_rrd(rrd);
        self.updates = 0;
        self.flushed = Instant::now();
        frozen
    }

    /// The series of a name, created like this if it does not exist.
    pub(crate) fn make(
        &mut self,
        number: formats::Series,
        wanted: NewSeries,
    ) -> Result<Result<Series, Reason>, BackfillError> {
        let question = self.gatherer.question(BOOK, vec![(number, wanted)]);
        let found = self.store_thread.call(move |store| question.ask(store))?;
        let made = found.made.first().cloned().unwrap_or(Err(NotMade::TooMany)).map_err(reason);
        self.keep(found)?;
        Ok(made)
    }

    /// Finds or creates these series.
    pub(crate) fn find(
        &mut self,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)> + Clone,
    ) -> Result<(), BackfillError> {
        while let Some(question) = self.gatherer.missing(BOOK, book, touched.clone()) {
            if self.options.rrd.is_some()
                && let Some(series) = question.without_rrd()
            {
                return Err(BackfillError::Interval { series: Box::new(series.clone()) });
            }
            let found = self.store_thread.call(move |store| question.ask(store))?;
            self.keep(found)?;
        }
        Ok(())
    }

    /// Adds series to the head.
    fn keep(&mut self, mut found: Found) -> Result<(), BackfillError> {
        if let Some(series) = self.gatherer.keep(&found) {
            let exists_in_rrd_mode = series.rrd.is_some();
            let series = Box::new(series.identity);
            return Err(BackfillError::OtherMode { series, exists_in_rrd_mode });
        }
        for series in found.made.into_iter().flatten() {
            if let (Some(definition), Some(state)) = (series.rrd, found.rrds.remove(&series.id)) {
                let place = self.gatherer.head.open(series.id, &series.spec, &Lane::default());
                self.rrds.entry(place).or_insert_with(|| Advance::new(definition, state));
            }
        }
        Ok(())
    }

    /// Whether a series that was found accepts updates of a kind.
    pub(crate) fn takes(&self, series: formats::Series, kind: Kind) -> Result<(), Reason> {
        self.gatherer.takes(series, kind).map(|_| ())
    }

    /// The position of an update's series, unless it is one of the full ones, by their numbers in
    /// the store.
    fn place_of(&self, placed: &Placed, full: &HashSet<i64>) -> Result<Place, Reason> {
        let place = self.gatherer.takes(placed.series, placed.update.kind)?;
        if !full.is_empty() && full.contains(&self.gatherer.head.id(place)) {
            return Err(Refusal::TooLarge.into());
        }
        Ok(place)
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

    /// When series in RRD mode start, if that is known.
    fn start_us(&self) -> Option<i64> {
        self.options.rrd.as_ref().and_then(|mode| mode.start_us)
    }

    /// Whether an update would be accepted.
    fn admits(&mut self, placed: &Placed, full: &HashSet<i64>) -> Result<(), Reason> {
        let place = self.place_of(placed, full)?;
        if let (What::Point(point), Some(rrd)) = (placed.update.what, self.rrds.get(&place)) {
            rrd.clone().admit(point.at_us, self.start_us())?;
        }
        self.gatherer.admits(place, placed)
    }

    /// Adds one update to the head.
    fn add(&mut self, placed: &Placed, full: &HashSet<i64>) -> Result<(), Reason> {
        let (place, start_us) = (self.place_of(placed, full)?, self.start_us());
        let point = match placed.update.what {
            What::Point(point) if !self.rrds.is_empty() => point,
            _ => return self.gatherer.add(place, placed),
        };
        let mut rrd = self.rrds.get_mut(&place);
        if let Some(rrd) = &mut rrd {
            rrd.admit(point.at_us, start_us)?;
        }
        self.gatherer.add(place, placed)?;
        rrd.map_or(Ok(()), |rrd| Ok(rrd.push(point)?))
    }
}
