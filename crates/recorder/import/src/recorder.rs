//! Gathers the updates of pieces and writes them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use formats::files::Resumed;
use formats::text::Windowed;
use formats::{Book, Malformed, Reason, SeriesName, Update, What};
use head::{Frozen, Head, Place};
use series::rrd::{self, Archive};
use series::{Accumulator, Interval, Kind, Lane, Limits, Refusal, Sense, Spec, Step};
use store::{
    Changes, Identity, NewSeries, NotMade, RrdChange, Series, SeriesLimit, Store, StoreError,
    Writer,
};

mod live;

pub use live::{Live, live};

use crate::BackfillError;
use crate::advance::Advance;
use crate::store_thread::{self, StoreThread};

/// Options of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Step of new series; a retention must have it.
    pub step: Step,
    /// The heartbeat of new series, in microseconds.
    pub heartbeat_us: i64,
    /// The lateness window of new series, in microseconds.
    pub lateness_us: i64,
    /// Minimum and maximum rate or level of new series.
    pub bounds: (Option<f64>, Option<f64>),
    /// Part of a slot that may be unknown while its rate is shown.
    pub xff: f64,
    /// The lane to write.
    pub lane: String,
    /// Horizons.
    pub limits: Limits,
    /// Limits on the number of series.
    pub series: SeriesLimit,
    /// Whether new series of points are also kept in RRD mode.
    pub rrd: Option<RrdMode>,
    /// Whether the last line of a stream is complete even without its end.
    pub whole: bool,
    /// Approximate memory for updates before they are written, in bytes. Names and recent points of
    /// every series come on top.
    ///
    /// With 0 every piece is written separately, which is slow, but accepts what fits for series in
    /// which a slot overflows ([`StoreError::Overflow`]): in a batch of many pieces it is unknown
    /// which lines to refuse.
    pub head_bytes: usize,
    /// Time after which updates are written even if the head is not full. For a file that is
    /// complete `None` is best: rarer writes give fewer and larger rows.
    pub written_each: Option<Duration>,
}

/// Default of [`Options::head_bytes`]: 64 MiB, about twenty million updates.
pub const HEAD_BYTES: usize = 64 << 20;

/// How new series are kept in RRD mode; step, heartbeat and bounds are those of every new series.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdMode {
    /// The archives of each.
    pub archives: Vec<Archive>,
    /// `rrdtool create --start`, in microseconds since the epoch; by default ten seconds before a
    /// series' first point, as in RRDtool.
    pub start_us: Option<i64>,
}

impl Options {
    /// A heartbeat of two steps, a lateness window of ten minutes, no bounds, the unnamed lane, the
    /// default limits.
    pub fn new(step: Step) -> Options {
        let Spec { heartbeat_us, lateness_us, .. } = Spec::new(Kind::Gauge, step);
        Options {
            step,
            heartbeat_us,
            lateness_us,
            bounds: (None, None),
            xff: 0.5,
            lane: String::new(),
            limits: Limits::DEFAULT,
            series: SeriesLimit::DEFAULT,
            rrd: None,
            whole: false,
            head_bytes: HEAD_BYTES,
            written_each: Some(WRITTEN_EACH),
        }
    }

    pub(crate) fn wanted(&self, name: &SeriesName, kind: Kind) -> NewSeries {
        let identity = Identity {
            measurement: name.measurement().to_owned(),
            field: name.field().to_owned(),
            tags: name.tags().iter().cloned().collect(),
        };
        let spec = Spec {
            heartbeat_us: self.heartbeat_us,
            lateness_us: self.lateness_us,
            min: self.bounds.0,
            max: self.bounds.1,
            ..Spec::new(kind, self.step)
        };
        let rrd = self.definition(kind);
        NewSeries { xff: self.xff, rrd, ..NewSeries::new(identity, spec) }
    }

    /// RRDtool's definition of a new series of this kind, if it is to have one. RRDtool has no
    /// intervals.
    fn definition(&self, kind: Kind) -> Option<rrd::Definition> {
        Some(rrd::Definition {
            kind: match kind {
                Kind::Gauge => rrd::SourceKind::Gauge,
                Kind::Counter => rrd::SourceKind::Counter,
                Kind::Derive => rrd::SourceKind::Derive,
                Kind::Absolute => rrd::SourceKind::Absolute,
                Kind::Total => rrd::SourceKind::Dcounter,
                Kind::Count | Kind::Level => return None,
            },
            step: self.step,
            heartbeat_us: self.heartbeat_us,
            min: self.bounds.0,
            max: self.bounds.1,
            archives: self.rrd.as_ref()?.archives.clone(),
        })
    }
}

/// An update with the index of its line in the piece. Updates of one index are adjacent, and are
/// accepted or refused together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) place: usize,
    pub(crate) series: formats::Series,
    pub(crate) update: Update,
    /// The interval written earlier that this one replaces.
    pub(crate) instead: Option<Interval>,
    /// The step of an interval that is only known coarsely; otherwise that of its series.
    pub(crate) step: Option<Step>,
}

/// The update for the result of a window; `None` if nothing changes.
pub(crate) fn placed(windowed: &Windowed) -> Option<Placed> {
    let Windowed { series, update, instead } = *windowed;
    let interval = |update: Update| match update.what {
        What::Interval(interval) => Some(interval),
        What::Point(_) => None,
    };
    let old = instead.and_then(interval);
    let (update, instead) = match (update, old, instead) {
        (Some(update), old, _) => (update, old),
        (None, Some(old), Some(known)) => {
            (Update { what: What::Interval(old.inverse()), ..known }, None)
        }
        (None, ..) => return None,
    };
    Some(Placed { place: 0, series, update, instead, step: None })
}

/// Default of [`Options::written_each`].
pub const WRITTEN_EACH: Duration = Duration::from_secs(10);

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
    expired: u64,
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
    /// Slots that no retention keeps, of this piece or of earlier ones.
    pub(crate) expired: u64,
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
                expired: 0,
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

    /// The series of a name, created like this if it does not exist.
    pub(crate) fn make(
        &mut self,
        number: formats::Series,
        wanted: NewSeries,
    ) -> Result<Result<Series, Reason>, BackfillError> {
        let in_rrd_mode = wanted.rrd.is_some();
        let limit = self.options.series;
        let made = self.store_thread.call(move |store| store.series(&[wanted], &limit))?.pop();
        let made = made.unwrap_or(Err(NotMade::TooMany)).map_err(reason);
        check_mode(in_rrd_mode, &made)?;
        self.keep(vec![(number, made.clone())])?;
        Ok(made)
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
        written.expired = std::mem::take(&mut self.expired);
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
                Ok(expired) => {
                    self.whole = true;
                    self.expired += expired;
                    written.expired = std::mem::take(&mut self.expired);
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

    /// Writes the head, and waits until it is stored; returns the number of slots that no retention
    /// keeps.
    pub(crate) fn finish(&mut self) -> Result<u64, BackfillError> {
        self.settle()?;
        Ok(std::mem::take(&mut self.expired))
    }

    fn settle(&mut self) -> Result<(), BackfillError> {
        if !self.head.is_empty() {
            let frozen = self.freeze();
            self.expired += self.store_thread.send(frozen)?;
        }
        self.expired += self.store_thread.settle()?;
        Ok(())
    }

    /// Hands the head to the store if it is full, or if the store is idle and it is worthwhile.
    fn flush_if_due(&mut self) -> Result<(), BackfillError> {
        let grown = self.head.bytes().saturating_sub(self.bytes_before);
        let is_full = grown >= self.options.head_bytes / 2;
        if !is_full {
            self.expired += self.store_thread.poll()?;
            let each = self.head.touched() as u64 * ENOUGH_EACH;
            let is_worth_it = self.updates >= ENOUGH.max(each);
            let each = self.options.written_each;
            let is_late = each.is_some_and(|each| self.flushed.elapsed() >= each);
            if !self.store_thread.is_idle() || !is_worth_it && !is_late {
                return Ok(());
            }
        }
        let frozen = self.freeze();
        self.expired += self.store_thread.send(frozen)?;
        Ok(())
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

    /// Finds or creates these series, all new ones at once.
    pub(crate) fn find(
        &mut self,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)>,
    ) -> Result<(), BackfillError> {
        let mut new: BTreeMap<formats::Series, NewSeries> = BTreeMap::new();
        for (series, kind) in touched {
            if let Known::New = self.known(series) {
                new.entry(series).or_insert_with(|| self.options.wanted(book.name(series), kind));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.options.rrd.is_some()
            && let Some(wanted) = new.values().find(|wanted| wanted.rrd.is_none())
        {
            let series = Box::new(wanted.identity.clone());
            return Err(BackfillError::Interval { series });
        }
        let (numbers, wanted): (Vec<_>, Vec<_>) = new.into_iter().unzip();
        let in_rrd_mode: Vec<bool> = wanted.iter().map(|wanted| wanted.rrd.is_some()).collect();
        let limit = self.options.series;
        let made = self.store_thread.call(move |store| store.series(&wanted, &limit))?;
        if made.contains(&Err(NotMade::NoRetention)) {
            return Err(StoreError::NoRetention(self.options.step.us()).into());
        }
        let mut found = Vec::with_capacity(made.len());
        for ((number, in_rrd_mode), made) in numbers.into_iter().zip(in_rrd_mode).zip(made) {
            let made = made.map_err(reason);
            check_mode(in_rrd_mode, &made)?;
            found.push((number, made));
        }
        self.keep(found)
    }

    /// Adds series to the head.
    fn keep(
        &mut self,
        found: Vec<(formats::Series, Result<Series, Reason>)>,
    ) -> Result<(), BackfillError> {
        let is_of_points = |spec: &Spec| !matches!(spec.kind, Kind::Count | Kind::Level);
        let made = found.iter().filter_map(|(_, made)| made.as_ref().ok());
        let of_points = made.filter(|series| is_of_points(&series.spec));
        let wanted: Vec<(i64, i32)> = of_points.map(|series| (series.id, self.lane)).collect();
        let lanes = match wanted.is_empty() {
            true => Vec::new(),
            false => {
                let wanted = wanted.clone();
                self.store_thread.call(move |store| store.lane_states(&wanted))?
            }
        };
        let ids = wanted.into_iter().map(|(id, _)| id);
        let lanes: HashMap<i64, Lane> = ids.zip(lanes).collect();
        for (number, made) in found {
            let known = match made {
                Err(reason) => Known::Refused(reason),
                Ok(series) => {
                    let none = Lane::default();
                    let lane = lanes.get(&series.id).unwrap_or(&none);
                    let place = self.head.open(series.id, &series.spec, lane);
                    if let (Some(definition), true) = (series.rrd, is_of_points(&series.spec)) {
                        let id = series.id;
                        let state = self.store_thread.call(move |store| store.rrd(id))?;
                        let state = state.map(|rrd| rrd.state().clone());
                        self.rrds.entry(place).or_insert_with(|| Advance::new(definition, state));
                    }
                    Known::At(place)
                }
            };
            let at = number.0 as usize;
            if self.known.len() <= at {
                self.known.resize(at + 1, Known::New);
            }
            self.known[at] = known;
        }
        Ok(())
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

/// Checks that a series has RRDtool's semantics if wanted, and not otherwise.
fn check_mode(in_rrd_mode: bool, made: &Result<Series, Reason>) -> Result<(), BackfillError> {
    match made {
        Ok(series) if series.rrd.is_some() != in_rrd_mode => Err(BackfillError::OtherMode {
            series: Box::new(series.identity.clone()),
            exists_in_rrd_mode: series.rrd.is_some(),
        }),
        _ => Ok(()),
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

/// The reason for which a store refused to create a series, as that of a line.
fn reason(not_made: NotMade) -> Reason {
    match not_made {
        NotMade::TooMany | NotMade::NoRetention => Malformed::TooManySeries,
        NotMade::TooLong => Malformed::NameTooLong,
        NotMade::Name => Malformed::EmptyName,
    }
    .into()
}
