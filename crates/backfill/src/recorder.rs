//! Updates of a piece, made into one batch.

use std::collections::{BTreeMap, HashMap, HashSet};

use ingest::files::Resumed;
use ingest::{Book, Malformed, Reason, SeriesName, Update, What};
use series::rrd::{self, Archive};
use series::{Delta, Interval, Kind, Lane, Limits, Refusal, SlotKey, Spec, Step};
use slots::{
    Applied, Changes, Identity, NewSeries, NotMade, RrdChange, Series, SeriesLimit, Store,
    StoreError, Writer,
};

use crate::BackfillError;
use crate::advance::Advance;

/// How what is read is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The step of new series; a retention must have it.
    pub step: Step,
    /// The heartbeat of new series, in microseconds.
    pub heartbeat_us: i64,
    /// The lateness window of new series, in microseconds.
    pub lateness_us: i64,
    /// The least and the greatest rate or level of new series.
    pub bounds: (Option<f64>, Option<f64>),
    /// The part of a slot that may be unknown while its rate is shown.
    pub xff: f64,
    /// The lane that is written.
    pub lane: String,
    /// Horizons.
    pub limits: Limits,
    /// How many series there may be.
    pub series: SeriesLimit,
    /// Whether new series of points are also kept as RRDtool would keep them.
    pub rrd: Option<RrdMode>,
}

/// How new series are kept as RRDtool would keep them; the step, the heartbeat and the bounds
/// are those of every new series.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdMode {
    /// What is kept of each.
    pub archives: Vec<Archive>,
    /// `rrdtool create --start`, in microseconds since the epoch; ten seconds before a series'
    /// first point if it is not given, as RRDtool has it.
    pub start_us: Option<i64>,
}

impl Options {
    /// A heartbeat of two steps, a lateness window of ten minutes, no bounds, the
    /// lane without a name, the default limits.
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

    /// RRDtool's definition of a new series of this kind, if it is to have one. Intervals are
    /// nothing that RRDtool knows.
    fn definition(&self, kind: Kind) -> Option<rrd::Definition> {
        Some(rrd::Definition {
            kind: match kind {
                Kind::Gauge => rrd::SourceKind::Gauge,
                Kind::Counter => rrd::SourceKind::Counter,
                Kind::Derive => rrd::SourceKind::Derive,
                Kind::Absolute => rrd::SourceKind::Absolute,
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

/// An update with the place of its line in the piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) place: usize,
    pub(crate) series: ingest::Series,
    pub(crate) update: Update,
    /// The step of an interval that is known only coarsely; otherwise that of its series.
    pub(crate) step: Option<Step>,
}

/// Writes pieces to a store, and remembers what it needs of the store for that.
pub(crate) struct Recorder<'s> {
    store: &'s mut dyn Store,
    options: Options,
    lane: i32,
    /// By the number in the book.
    known: HashMap<ingest::Series, Result<Series, Reason>>,
    lanes: HashMap<i64, Lane>,
    rrds: HashMap<i64, Advance>,
    now_us: i64,
    maintained: bool,
}

/// What updates move on: the state of each series that they are of, before and then after them.
#[derive(Clone, Debug, Default)]
struct States {
    lanes: HashMap<i64, Lane>,
    rrds: HashMap<i64, Advance>,
}

/// What became of a piece.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Updates that were written.
    pub(crate) updates: u64,
    /// Slots that no retention keeps.
    pub(crate) expired: u64,
    /// The time that they speak for.
    pub(crate) span_us: Option<(i64, i64)>,
}

/// A batch that is ready to be applied.
#[derive(Debug, Default)]
struct Prepared {
    changes: Changes,
    refused: Vec<(usize, Reason)>,
    written: Written,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(
        store: &'s mut dyn Store,
        options: Options,
        now_us: i64,
    ) -> Result<Self, BackfillError> {
        if let Some(definition) = options.definition(Kind::Gauge) {
            definition.checked()?;
        }
        let lane = store.lanes(&[&options.lane])?.first().copied().unwrap_or(0);
        let (known, lanes, rrds) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Recorder { store, options, lane, known, lanes, rrds, now_us, maintained: false })
    }

    /// The series of a name, made like this on first sight.
    pub(crate) fn make(
        &mut self,
        number: ingest::Series,
        wanted: NewSeries,
    ) -> Result<Result<Series, Reason>, BackfillError> {
        let in_rrd_mode = wanted.rrd.is_some();
        let made = self.store.series(&[wanted], &self.options.series)?.pop();
        let made = made.unwrap_or(Err(NotMade::TooMany)).map_err(reason);
        check_mode(in_rrd_mode, &made)?;
        self.known.insert(number, made.clone());
        Ok(made)
    }

    /// The end of the latest update that the lane of a series has, microseconds since the epoch.
    pub(crate) fn newest_us(&mut self, id: i64) -> Result<Option<i64>, StoreError> {
        let coarsest = self.store.retentions()?.into_iter().map(|retention| retention.step).max();
        let Some(step) = coarsest else { return Ok(None) };
        let rows = self.store.slots(step, &[id], i64::MIN, i64::MAX)?;
        let of_lane = rows.iter().filter(|(key, _)| key.lane == self.lane);
        Ok(of_lane.filter_map(|(_, row)| Some(row.last()?.0)).max())
    }

    /// Brings a series in RRD mode to where a file stands, unless it is there or further.
    pub(crate) fn resume(
        &mut self,
        writer: Writer,
        id: i64,
        resumed: &Resumed,
    ) -> Result<(), StoreError> {
        let before_us = self.store.rrd(id)?.map(|rrd| rrd.last_us());
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
        self.store.apply(writer, 1, &changes).map(|_| ())
    }

    /// Whether the store has this writer's batch.
    pub(crate) fn has(&mut self, writer: Writer) -> Result<bool, StoreError> {
        Ok(self.store.last_batch(writer)? > 0)
    }

    /// Writes a piece as the one batch of its writer. `refuse` is told, before
    /// anything is written, which updates are not taken.
    pub(crate) fn write(
        &mut self,
        writer: Writer,
        book: &Book,
        updates: &[Placed],
        mut refuse: impl FnMut(&[(usize, Reason)]) -> Result<(), BackfillError>,
    ) -> Result<Written, BackfillError> {
        self.find(book, updates)?;
        let mut full: HashSet<i64> = HashSet::new();
        let mut told: HashSet<(usize, Reason)> = HashSet::new();
        loop {
            let mut states = self.states_of(updates)?;
            let mut prepared = self.prepare(updates, &mut states, &full);
            prepared.refused.retain(|refused| told.insert(*refused));
            refuse(&prepared.refused)?;
            match self.store.apply(writer, 1, &prepared.changes) {
                Ok(applied) => {
                    self.lanes.extend(states.lanes);
                    self.rrds.extend(states.rrds.into_iter().map(|(id, rrd)| (id, rrd.settled())));
                    let expired = if let Applied::Now { expired } = applied { expired } else { 0 };
                    return Ok(Written { expired, ..prepared.written });
                }
                Err(StoreError::Overflow { slots }) => {
                    let before = full.len();
                    full.extend(slots.iter().map(|(_, key)| key.series));
                    if full.len() == before {
                        return Err(StoreError::Overflow { slots }.into());
                    }
                }
                // Old slots of a retention with an age are not kept, and need no partitions.
                Err(StoreError::TooManyPartitions { .. }) if !self.maintained => {
                    self.maintained = true;
                    self.store.maintain(self.now_us)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Finds or makes the series of these updates, all new ones at once.
    fn find(&mut self, book: &Book, updates: &[Placed]) -> Result<(), BackfillError> {
        let mut new: BTreeMap<ingest::Series, NewSeries> = BTreeMap::new();
        for placed in updates.iter().filter(|placed| !self.known.contains_key(&placed.series)) {
            new.entry(placed.series).or_insert_with(|| {
                self.options.wanted(book.name(placed.series), placed.update.kind)
            });
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
        let made = self.store.series(&wanted, &self.options.series)?;
        if made.contains(&Err(NotMade::NoRetention)) {
            return Err(StoreError::NoRetention(self.options.step.us()).into());
        }
        for ((number, wanted), made) in numbers.into_iter().zip(wanted).zip(made) {
            let made = made.map_err(reason);
            check_mode(wanted.rrd.is_some(), &made)?;
            self.known.insert(number, made);
        }
        Ok(())
    }

    /// The state of the series and lanes that points of this piece are of.
    fn states_of(&mut self, updates: &[Placed]) -> Result<States, StoreError> {
        let points = updates.iter().filter(|placed| matches!(placed.update.what, What::Point(_)));
        let of: HashMap<i64, &Series> = points
            .filter_map(|placed| self.known.get(&placed.series)?.as_ref().ok())
            .map(|series| (series.id, series))
            .collect();
        let mut rrds = HashMap::new();
        for (id, series) in &of {
            let Some(definition) = &series.rrd else { continue };
            let rrd = match self.rrds.get(id) {
                Some(rrd) => rrd.clone(),
                None => {
                    let state = self.store.rrd(*id)?.map(|rrd| rrd.state().clone());
                    Advance::new(definition.clone(), state)
                }
            };
            rrds.insert(*id, rrd);
        }
        let mut lanes = HashMap::new();
        let mut missing = Vec::new();
        for id in of.into_keys() {
            match self.lanes.get(&id) {
                Some(lane) => {
                    lanes.insert(id, lane.clone());
                }
                None => missing.push((id, self.lane)),
            }
        }
        missing.sort_unstable();
        let states = self.store.lane_states(&missing)?;
        lanes.extend(missing.into_iter().map(|(id, _)| id).zip(states));
        Ok(States { lanes, rrds })
    }

    fn prepare(&self, updates: &[Placed], states: &mut States, full: &HashSet<i64>) -> Prepared {
        let mut prepared = Prepared::default();
        for placed in updates {
            match self.add(placed, states, full, &mut prepared.changes) {
                Ok(()) => {
                    let (from_us, to_us) = placed.update.times_us();
                    let written = &mut prepared.written;
                    let (start, end) = written.span_us.unwrap_or((from_us, to_us));
                    written.span_us = Some((start.min(from_us), end.max(to_us)));
                    written.updates += 1;
                }
                Err(reason) => prepared.refused.push((placed.place, reason)),
            }
        }
        let lanes = states.lanes.iter().map(|(id, lane)| ((*id, self.lane), lane.clone()));
        prepared.changes.lanes = lanes.collect();
        prepared.changes.rrd = states.rrds.iter().filter_map(|(id, rrd)| rrd.change(*id)).collect();
        prepared
    }

    /// Adds one update to the batch.
    fn add(
        &self,
        placed: &Placed,
        states: &mut States,
        full: &HashSet<i64>,
        changes: &mut Changes,
    ) -> Result<(), Reason> {
        let series = match self.known.get(&placed.series) {
            Some(Ok(series)) => series,
            Some(Err(reason)) => return Err(*reason),
            None => return Err(Malformed::TooManySeries.into()),
        };
        if series.spec.kind != placed.update.kind {
            return Err(Refusal::WrongKind.into());
        }
        if full.contains(&series.id) {
            return Err(Refusal::TooLarge.into());
        }
        let step = series.spec.step;
        let key = |slot_us| SlotKey { slot_us, series: series.id, lane: self.lane };
        match placed.update.what {
            What::Point(point) => {
                let mut rrd = states.rrds.get_mut(&series.id);
                if let Some(rrd) = &mut rrd {
                    let start_us = self.options.rrd.as_ref().and_then(|mode| mode.start_us);
                    rrd.admit(point.at_us, start_us)?;
                }
                let lane = states.lanes.entry(series.id).or_default();
                let sink = |slot_us, delta| changes.add(step, key(slot_us), delta);
                lane.push(&series.spec, point, sink)?;
                if let Some(rrd) = rrd {
                    rrd.push(point)?;
                }
            }
            What::Interval(interval) => {
                admits(&series.spec, interval)?;
                let step = placed.step.unwrap_or(step);
                for (slot_us, part) in interval.slots(step) {
                    changes.add(step, key(slot_us), Delta::widen(part));
                }
            }
        }
        Ok(())
    }
}

/// Whether a series is kept as it is wanted: with RRDtool's semantics or without.
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
    let rate = cover.amount.rate(cover.span);
    if spec.admits(rate) { Ok(()) } else { Err(Refusal::OutOfBounds) }
}

/// The reason for which a store makes no series, as a line's.
fn reason(not_made: NotMade) -> Reason {
    match not_made {
        NotMade::TooMany | NotMade::NoRetention => Malformed::TooManySeries,
        NotMade::TooLong => Malformed::NameTooLong,
        NotMade::Name => Malformed::EmptyName,
    }
    .into()
}
