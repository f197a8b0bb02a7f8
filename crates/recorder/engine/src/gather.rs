//! From updates of named series to the head.

use std::collections::{BTreeMap, HashMap, HashSet};

use formats::text::WindowResult;
use formats::{Book, Malformed, Reason, Update, UpdateContent};
use series::{Interval, Kind, Lane, Point, Refusal, Sense, Spec, rrd};
use store::{NewSeries, NotMade, Series, SeriesLimit, Store, StoreError};

use crate::advance::Advance;
use crate::clock::ArrivalTimes;
use crate::head::{FrozenBatch, Head, Place, STREAM_LANE};
use crate::options::Options;
use crate::placed::PlacedUpdate;
use crate::stored::StoredBatch;
use crate::unstored::UnstoredUpdates;

/// Series of a question at most: while one is answered, the store has their names in memory several
/// times.
const ASKED_MAX: usize = 1 << 16;

/// The number of the book of a source that can be read again, which is its only one.
pub const BOOK: usize = 0;

/// The head, and what is known about the series of each book.
///
/// ```text
///  missing ─→ Question ─→ the store ─→ Found ─→ keep ─→ line, line, … ─→ freeze
/// ```
#[derive(Debug)]
pub struct Gatherer {
    options: Options,
    lane: i32,
    /// The updates.
    pub head: Head,
    /// By number of the book, and by the series' number in it.
    books: Vec<Vec<KnownSeries>>,
    selected: usize,
    /// The series in RRD mode.
    pub(crate) rrds: Rrds,
    /// Series of which nothing is taken, by their numbers in the store, because a slot would overflow.
    full: HashSet<i64>,
    /// Size of what the store has: the head when it was last taken out, and series opened since.
    bytes_before: usize,
}

/// The states of series in RRD mode.
pub(crate) type Rrds = HashMap<Place, Advance>;

/// What is known about a series of a book.
#[derive(Clone, Copy, Debug, Default)]
enum KnownSeries {
    #[default]
    New,
    Refused(Reason),
    At(Place),
}

/// Series of a book that are to be found or created.
#[derive(Debug)]
pub struct Question {
    book: usize,
    wanted: Vec<(formats::Series, NewSeries)>,
    limit: SeriesLimit,
    lane: i32,
}

/// What a store knows of series: the series themselves, their lanes, and RRDtool's states.
#[derive(Debug)]
pub struct FoundSeries {
    book: usize,
    /// Each series of the book, or why nothing is taken of it.
    pub made: Vec<(formats::Series, Result<Series, Reason>)>,
    /// The first series that has RRDtool's semantics and should not, or the other way round. Those
    /// are refused.
    pub of_other_mode: Option<Box<Series>>,
    /// Those of the series that are made.
    lanes: Vec<Lane>,
    /// RRDtool's states, by the series' numbers in the store.
    rrds: HashMap<i64, Option<rrd::State>>,
}

impl Question {
    /// Sets the least heartbeat of the series that are created, in microseconds.
    #[must_use]
    pub fn with_heartbeat(mut self, least_us: i64) -> Question {
        for (_, wanted) in &mut self.wanted {
            wanted.spec.heartbeat_us = wanted.spec.heartbeat_us.max(least_us);
        }
        self
    }

    /// Finds or creates the series, with everything that a head needs to know of them.
    ///
    /// # Errors
    /// Those of the store.
    pub fn ask(self, store: &mut dyn Store) -> Result<FoundSeries, StoreError> {
        let Question { book, wanted, limit, lane } = self;
        let (numbers, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        let (mut made, mut of_other_mode) = (Vec::with_capacity(wanted.len()), None);
        let found = store.series(&wanted, &limit)?;
        for ((number, wanted), found) in numbers.into_iter().zip(wanted).zip(found) {
            let found = match found {
                Ok(series) if series.rrd.is_some() != wanted.rrd.is_some() => {
                    of_other_mode.get_or_insert_with(|| Box::new(series));
                    Err(Malformed::OtherMode.into())
                }
                Ok(series) => Ok(series),
                Err(NotMade::NoRetention) => {
                    return Err(StoreError::NoRetention(wanted.spec.step.us()));
                }
                Err(NotMade::TooMany) => Err(Malformed::TooManySeries.into()),
                Err(NotMade::TooLong) => Err(Malformed::NameTooLong.into()),
                Err(NotMade::Name) => Err(Malformed::EmptyName.into()),
            };
            made.push((number, found));
        }
        let lane_of = |kind: Kind| match kind {
            Kind::Count | Kind::Level => STREAM_LANE,
            _ => lane,
        };
        let found = || made.iter().flat_map(|(_, made)| made);
        let with_lanes: Vec<(i64, i32)> =
            found().map(|series| (series.id, lane_of(series.spec.kind))).collect();
        let lanes = match with_lanes.is_empty() {
            true => Vec::new(),
            false => store.lane_states(&with_lanes)?,
        };
        let mut rrds = HashMap::new();
        for series in found().filter(|series| series.rrd.is_some()) {
            rrds.insert(series.id, store.rrd(series.id)?.map(|rrd| rrd.state().clone()));
        }
        Ok(FoundSeries { book, made, of_other_mode, lanes, rrds })
    }
}

impl Gatherer {
    /// An empty head for a lane, by its number.
    pub fn new(options: Options, lane: i32) -> Gatherer {
        Gatherer {
            options,
            lane,
            head: Head::new(lane),
            books: Vec::new(),
            selected: 0,
            rrds: Rrds::new(),
            full: HashSet::new(),
            bytes_before: 0,
        }
    }

    /// A message arrives. Its time is believed also if a clock that was wrong has left points of the
    /// future.
    pub(crate) fn arrives(&mut self, arrived: ArrivalTimes) {
        let horizon_us = arrived.latest_us.saturating_add(self.options.limits.future_us);
        self.head.believe(arrived.at_us, horizon_us);
    }

    /// Forgets the head, and what is known about series.
    pub(crate) fn forget(&mut self) {
        *self = Gatherer::new(self.options.clone(), self.lane);
    }

    /// Selects a book, by the number that its owner has given it: 0, 1, 2 …
    pub fn select(&mut self, book: usize) {
        if self.books.len() <= book {
            self.books.resize_with(book + 1, Vec::new);
        }
        self.selected = book;
    }

    /// Selects a book, and asks for those of its series that are new, if any are. There may be more
    /// than a question has, so this is to be called again once the answer is [kept](Gatherer::keep).
    pub fn missing(
        &mut self,
        number: usize,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)>,
    ) -> Option<Question> {
        self.select(number);
        let mut new: BTreeMap<formats::Series, NewSeries> = BTreeMap::new();
        for (series, kind) in touched {
            if let KnownSeries::New = self.known(series) {
                new.entry(series).or_insert_with(|| self.options.wanted(book.name(series), kind));
            }
            if new.len() == ASKED_MAX {
                break;
            }
        }
        (!new.is_empty()).then(|| self.question(number, new.into_iter().collect()))
    }

    /// The question for these series of a book.
    pub fn question(&self, book: usize, wanted: Vec<(formats::Series, NewSeries)>) -> Question {
        Question { book, wanted, limit: self.options.series, lane: self.lane }
    }

    /// Adds series to the head.
    pub fn keep(&mut self, mut found: FoundSeries) {
        self.select(found.book);
        let mut lanes = found.lanes.into_iter();
        for (number, made) in found.made {
            let known = match made {
                Err(reason) => KnownSeries::Refused(reason),
                Ok(series) => {
                    let lane = lanes.next().unwrap_or_default();
                    let before = self.head.bytes();
                    let place = self.head.open(series.id, &series.spec, &lane);
                    // The points of the lane are in the store.
                    self.bytes_before += self.head.bytes() - before;
                    if let Some((definition, state)) = series.rrd.zip(found.rrds.remove(&series.id))
                    {
                        let advance = || Advance::new(definition, state);
                        self.rrds.entry(place).or_insert_with(advance);
                    }
                    KnownSeries::At(place)
                }
            };
            let (book, at) = (&mut self.books[found.book], number.0 as usize);
            if book.len() <= at {
                book.resize(at + 1, KnownSeries::New);
            }
            book[at] = known;
        }
    }

    fn known(&self, series: formats::Series) -> KnownSeries {
        let book = self.books.get(self.selected);
        book.and_then(|book| book.get(series.0 as usize)).copied().unwrap_or_default()
    }

    /// The position of a series of the selected book, if it was found.
    fn place(&self, series: formats::Series) -> Option<Place> {
        match self.known(series) {
            KnownSeries::At(place) => Some(place),
            KnownSeries::New | KnownSeries::Refused(_) => None,
        }
    }

    /// The position of a series of the selected book, if it was found and accepts updates of a kind.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes(&self, series: formats::Series, kind: Kind) -> Result<Place, Reason> {
        match self.known(series) {
            KnownSeries::At(place) if self.head.spec(place).kind == kind => {
                let is_full = !self.full.is_empty() && self.full.contains(&self.head.id(place));
                if is_full { Err(Refusal::TooLarge.into()) } else { Ok(place) }
            }
            KnownSeries::At(_) => Err(Refusal::WrongKind.into()),
            KnownSeries::Refused(reason) => Err(reason),
            KnownSeries::New => Err(Malformed::TooManySeries.into()),
        }
    }

    /// The kind of a series of the selected book, if it was found.
    pub fn kind(&self, series: formats::Series) -> Option<Kind> {
        self.place(series).map(|place| self.head.spec(place).kind)
    }

    /// The time of the newest point of a series, in microseconds since the epoch.
    pub fn newest_us(&self, series: formats::Series) -> Option<i64> {
        self.head.newest_us(self.place(series)?)
    }

    /// The value of that point. All recent points are read for it.
    pub fn newest(&self, series: formats::Series) -> Option<f64> {
        self.head.newest(self.place(series)?)
    }

    /// Whether an update may make a count too large to be exact ([`Head::is_large`]).
    fn is_large(&self, series: formats::Series, update: &Update) -> bool {
        match &update.what {
            UpdateContent::Interval(interval) => Head::is_large_interval(interval),
            UpdateContent::Point(point) => {
                let place = || self.takes(series, update.kind);
                Head::may_be_large(point)
                    && place().is_ok_and(|place| self.head.is_large(place, point))
            }
        }
    }

    /// Whether lines can be added only to a batch of their own, because a slot may overflow.
    pub(crate) fn may_overflow(&self, updates: &[PlacedUpdate]) -> bool {
        let mut each = updates.iter();
        self.options.head_bytes == 0
            || each.any(|placed| self.is_large(placed.series, &placed.update))
    }

    /// When series in RRD mode start, if that is known.
    fn start_us(&self) -> Option<i64> {
        self.options.rrd.as_ref().and_then(|mode| mode.start_us)
    }

    /// Whether an update would be accepted.
    fn admits(&mut self, placed: &PlacedUpdate) -> Result<(), Reason> {
        let place = self.takes(placed.series, placed.update.kind)?;
        match placed.update.what {
            UpdateContent::Point(point) => {
                if let Some(rrd) = self.rrds.get(&place) {
                    rrd.clone().admit(point.at_us, self.start_us())?;
                }
                Ok(self.head.admits(place, point)?)
            }
            UpdateContent::Interval(interval) => Ok(admits(self.head.spec(place), interval)?),
        }
    }

    /// Adds an update.
    fn add(&mut self, placed: &PlacedUpdate) -> Result<(), Reason> {
        let place = self.takes(placed.series, placed.update.kind)?;
        match placed.update.what {
            UpdateContent::Point(point) => self.add_point(place, point)?,
            UpdateContent::Interval(interval) => {
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

    fn add_point(&mut self, place: Place, point: Point) -> Result<(), Reason> {
        let start_us = self.start_us();
        let mut rrd = self.rrds.get_mut(&place);
        if let Some(rrd) = &mut rrd {
            rrd.admit(point.at_us, start_us)?;
        }
        self.head.point(place, point)?;
        Ok(rrd.map_or(Ok(()), |rrd| rrd.push(point))?)
    }

    /// Adds the updates of a line, all or none.
    fn add_line(
        &mut self,
        mut line: impl ExactSizeIterator<Item = PlacedUpdate> + Clone,
    ) -> Result<(), Reason> {
        // A single update that fails changes nothing, so only several are checked in advance.
        if line.len() > 1 {
            line.clone().try_for_each(|placed| self.admits(&placed))?;
        }
        line.try_for_each(|placed| self.add(&placed))
    }

    /// Adds the updates of a line, all or none. The series were found in the selected book.
    ///
    /// # Errors
    /// Why the line is refused. A count of 2^40 or more in a single update is [too
    /// large](Refusal::TooLarge), because a slot could overflow after it was acknowledged.
    pub fn line(&mut self, updates: &[(formats::Series, Update)]) -> Result<(), Reason> {
        if updates.iter().any(|(series, update)| self.is_large(*series, update)) {
            return Err(Refusal::TooLarge.into());
        }
        if let [(series, Update { kind, what: UpdateContent::Point(point) })] = updates {
            let place = self.takes(*series, *kind)?;
            return self.add_point(place, *point);
        }
        self.add_line(updates.iter().map(|(series, update)| PlacedUpdate::new(0, *series, *update)))
    }

    /// Adds the updates of lines, of each line all or none, except for those at the places `skipped`;
    /// returns the places of those refused, and why. The series were found in the selected book.
    pub fn lines(
        &mut self,
        updates: &[PlacedUpdate],
        skipped: &HashSet<usize>,
    ) -> Vec<(usize, Reason)> {
        refused(updates, |line| match skipped.contains(&line[0].place) {
            true => Ok(()),
            false => self.add_line(line.iter().copied()),
        })
    }

    /// The places of lines that would be refused, and why.
    pub fn judge(&mut self, updates: &[PlacedUpdate]) -> Vec<(usize, Reason)> {
        refused(updates, |line| line.iter().try_for_each(|placed| self.admits(placed)))
    }

    /// Adds the updates of a delta of OTLP whose time their streams have not counted; returns their
    /// number. The others are repetitions: a part of them may have been left out of a batch, or
    /// another process has written it. The series were found in the selected book.
    ///
    /// # Errors
    /// Those of [`Gatherer::line`], and [`Refusal::Overlaps`] or [`Refusal::Forgotten`] of any series;
    /// then nothing is added.
    pub fn delta(&mut self, updates: &[(formats::Series, Update)]) -> Result<u64, Reason> {
        let mut deltas = Vec::with_capacity(updates.len());
        for (series, update) in updates {
            let place = self.takes(*series, update.kind)?;
            let UpdateContent::Interval(delta) = update.what else {
                return Err(Refusal::WrongKind.into());
            };
            if Head::is_large_interval(&delta) {
                return Err(Refusal::TooLarge.into());
            }
            admits(self.head.spec(place), delta)?;
            if !self.head.has_counted(place, delta)? {
                deltas.push((place, delta));
            }
        }
        for (place, delta) in &deltas {
            self.head.delta(*place, *delta)?;
        }
        Ok(deltas.len() as u64)
    }

    /// Adds the result of a window, in place of its earlier one. If it `is_known` to the store, it is
    /// only checked.
    ///
    /// # Errors
    /// Why it is refused: the bounds of the series.
    pub fn window(&mut self, windowed: &WindowResult, is_known: bool) -> Result<(), Reason> {
        let Some(placed) = PlacedUpdate::windowed(0, windowed) else { return Ok(()) };
        if is_known { self.admits(&placed) } else { self.add(&placed) }
    }

    /// Approximate bytes of updates that wait to be written.
    pub fn bytes(&self) -> usize {
        self.head.bytes().saturating_sub(self.bytes_before)
    }

    /// Takes out everything that no store has ([`Head::freeze`]).
    pub fn freeze(&mut self) -> FrozenBatch {
        let changes = self.rrds.iter();
        let changes = changes.filter_map(|(place, rrd)| rrd.change(self.head.id(*place)));
        let changes = changes.collect();
        self.rrds.values_mut().for_each(Advance::settle);
        let mut frozen = self.head.freeze();
        frozen.rest.rrd = changes;
        self.bytes_before = self.head.bytes();
        frozen
    }

    /// Takes back a batch that was not written, because counts of these series would exceed what is
    /// exact: from now on nothing of them is taken. False if that changes nothing.
    pub(crate) fn undo(&mut self, frozen: FrozenBatch, rrds: Rrds, full: &HashSet<i64>) -> bool {
        self.head.undo(frozen);
        self.rrds = rrds;
        let before = self.full.len();
        self.full.extend(full);
        self.full.len() > before
    }

    /// Continues from the lanes that another writer had changed; returns what was not stored.
    pub fn stored(&mut self, stored: &StoredBatch) -> UnstoredUpdates {
        self.full.clear();
        let mut unstored = stored.unstored;
        for (id, lane) in &stored.rebased {
            unstored += self.head.rebase(*id, lane);
        }
        unstored
    }
}

/// The places of the lines for which `add` gives a reason, and this.
fn refused(
    updates: &[PlacedUpdate],
    mut add: impl FnMut(&[PlacedUpdate]) -> Result<(), Reason>,
) -> Vec<(usize, Reason)> {
    let lines = updates.chunk_by(|a, b| a.place == b.place);
    lines.filter_map(|line| Some((line[0].place, add(line).err()?))).collect()
}

/// Whether a series' bounds admit an interval.
fn admits(spec: &Spec, interval: Interval) -> Result<(), Refusal> {
    let cover = interval.cover();
    // A correction may be negative; the bounds apply to what it corrects.
    let rate = match cover.sense {
        Sense::Correct => cover.amount.rate(cover.span).abs(),
        Sense::Add | Sense::Retract => cover.amount.rate(cover.span),
    };
    if spec.admits(rate) { Ok(()) } else { Err(Refusal::OutOfBounds) }
}

#[cfg(test)]
mod tests {
    use formats::SeriesName;
    use series::{SECOND_US, Step};
    use store::Memory;

    use super::*;

    #[test]
    fn series_beyond_those_of_a_question_are_asked_for_next() {
        let mut book = Book::new(ASKED_MAX + 2);
        let mut number = |i: usize| {
            let name = SeriesName::new("m", [("i".to_owned(), i.to_string())], "value").unwrap();
            (book.number(name).unwrap(), Kind::Gauge)
        };
        let series: Vec<_> = (0..ASKED_MAX + 2).map(&mut number).collect();
        let mut store = Memory::default();
        store.retain(&store::Retention::usual()).unwrap();
        let mut gatherer = Gatherer::new(Options::new(Step::from_secs(10).unwrap()), 1);
        let mut asked = Vec::new();
        while let Some(question) = gatherer.missing(0, &book, series.iter().copied()) {
            let found = question.ask(&mut store).unwrap();
            asked.push(found.made.len());
            assert_eq!(found.of_other_mode, None);
            gatherer.keep(found);
        }
        assert_eq!(asked, [ASKED_MAX, 2]);
        assert!(series.iter().all(|(series, kind)| gatherer.takes(*series, *kind).is_ok()));
    }

    #[test]
    fn each_series_of_a_delta_counts_a_time_once_and_a_refusal_concerns_all() {
        let mut book = Book::new(9);
        let names = ["count", "sum"].map(|field| SeriesName::new("m", [], field).unwrap());
        let [count, sum] = names.map(|name| book.number(name).unwrap());
        let mut store = Memory::default();
        store.retain(&store::Retention::usual()).unwrap();
        let mut gatherer = Gatherer::new(Options::new(Step::from_secs(10).unwrap()), 1);
        let both = [count, sum].map(|series| (series, Kind::Count));
        let question = gatherer.missing(0, &book, both.into_iter()).unwrap();
        gatherer.keep(question.ask(&mut store).unwrap());
        let mut delta = |series: &[formats::Series], from_s: i64, to_s: i64| {
            let interval = Interval::count(from_s * SECOND_US, to_s * SECOND_US, 5).unwrap();
            let update = Update { kind: Kind::Count, what: UpdateContent::Interval(interval) };
            let updates: Vec<_> = series.iter().map(|series| (*series, update)).collect();
            gatherer.delta(&updates)
        };
        assert_eq!(delta(&[count], 0, 10), Ok(1));
        assert_eq!(delta(&[count, sum], 0, 10), Ok(1), "the sum is new");
        assert_eq!(delta(&[count, sum], 0, 10), Ok(0));
        assert_eq!(delta(&[sum], 10, 20), Ok(1));
        assert_eq!(delta(&[count, sum], 10, 20), Ok(1), "the count is new");
        assert_eq!(delta(&[sum], 25, 35), Ok(1));
        assert_eq!(delta(&[count, sum], 20, 30), Err(Refusal::Overlaps.into()));
        assert_eq!(delta(&[count], 20, 30), Ok(1), "the refused point has counted nothing");
    }
}
