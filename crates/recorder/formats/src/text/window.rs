//! Values aggregated over time windows.
//!
//! A window is open until a line arrives that is [`LATE_US`] and two windows after it, so lines may
//! come in any order within that time. A line of a closed window is refused: a window is written as
//! a whole.
//!
//! At the end of a stream, open windows are emitted as they are. If the stream continues later,
//! these values are replaced by the final ones ([`WindowResult`]).
//!
//! A daemon's windows are those of the arrival times, which are in order: there a window is open
//! until a message arrives two windows after it ([`Windows::pass`]). The daemon emits open windows
//! with each batch, and rebuilds them after a restart from the messages in its journal:
//! [`Windows::mark`] tells the position of each, and [`Windows::carried`] what must be known beside
//! them.

use std::collections::{BTreeMap, HashSet};

use series::{Amount, COUNT_MAX, Kind, Refusal, Step};

use super::ParsedLine;
use crate::{Malformed, Reason, Series, Update};

/// The field of timers that counts.
pub(super) const TIMER_COUNT: &str = "n";
/// The other fields of timers, in the order of [`Timer::levels`].
pub(super) const TIMER_LEVELS: [&str; 6] = ["mean", "min", "max", "p50", "p90", "p99"];

/// A window stays open at least until a line arrives this many windows after it.
const OPEN_WINDOWS: i64 = 2;

/// And for this long, in microseconds: how late a line may be.
const LATE_US: i64 = 600_000_000;

/// In a daemon, the number of windows; messages of different senders may be out of order by a
/// moment.
const OPEN_WINDOWS_LIVE: i64 = 1;

/// In a daemon, how far beside the open windows arrival times may go back before that means that
/// the clock was wrong, in microseconds. Messages wait for less than this on their way.
const SET_BACK_US: i64 = 60_000_000;

/// Limit on the bytes of open windows; beyond it the oldest is closed.
const HELD_MAX: usize = 256 << 20;

/// Limit on the values that a window stores; with more it has no percentiles.
const TIMES_MAX: usize = 1 << 16;

/// Limit on the distinct values of a set in a window; with more it reports this number.
const DISTINCT_MAX: usize = 1 << 20;

/// Approximate memory of a series in a window, and overhead of a text.
const ENTRY_BYTES: usize = 96;

/// What a value adds to a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Addend {
    /// An integer.
    Whole(i64),
    /// A fraction, because of a sample rate.
    Part(f64),
}

impl Addend {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Addend::Whole(count) => count as f64,
            Addend::Part(part) => part,
        }
    }
}

/// The series of a timer's fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timer {
    /// That of [`TIMER_COUNT`].
    pub(super) count: Series,
    /// That of the first of [`TIMER_LEVELS`]; the others follow.
    pub(super) first: Series,
}

impl Timer {
    fn levels(self) -> impl Iterator<Item = Series> + Clone {
        (0..TIMER_LEVELS.len() as u32).map(move |place| Series(self.first.0 + place))
    }
}

/// A value of a line that is not applied yet.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldValue {
    pub(super) at_us: i64,
    pub(super) item: Item,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A part of a count.
    Count { series: Series, addend: Addend },
    /// A duration.
    Time { timer: Timer, value: f64, rate: f64 },
    /// A value of a set.
    Distinct { series: Series, value: Box<str> },
    /// A level, or a change of the last one.
    Gauge { series: Series, value: f64, relative: bool },
}

impl HeldValue {
    /// The series that it changes, with the kind required of each.
    pub fn series(&self) -> impl Iterator<Item = (Series, Kind)> + Clone {
        let (first, kind, rest) = match &self.item {
            Item::Count { series, .. } => (*series, Kind::Count, None),
            Item::Time { timer, .. } => (timer.count, Kind::Count, Some(*timer)),
            Item::Distinct { series, .. } => (*series, Kind::Level, None),
            Item::Gauge { series, .. } => (*series, Kind::Gauge, None),
        };
        let rest = rest.into_iter().flat_map(Timer::levels);
        std::iter::once((first, kind)).chain(rest.map(|series| (series, Kind::Level)))
    }

    /// The series of a gauge whose last value is changed by this one.
    pub fn relative_to(&self) -> Option<Series> {
        match self.item {
            Item::Gauge { series, relative: true, .. } => Some(series),
            _ => None,
        }
    }

    /// Moves it to this time, in microseconds since the epoch, if it is earlier.
    pub fn not_before(&mut self, at_us: i64) {
        self.at_us = self.at_us.max(at_us);
    }

    /// Whether it is the value of a gauge, which has no window.
    pub fn is_gauge(&self) -> bool {
        matches!(self.item, Item::Gauge { .. })
    }
}

/// A window's result for a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowResult {
    /// The series.
    pub series: Series,
    /// The result; `None` if it can no longer be represented.
    pub update: Option<Update>,
    /// The earlier result, which it replaces.
    pub instead: Option<Update>,
}

/// What a daemon must know about its windows, beside the messages, to rebuild them.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedWindows {
    /// The first message of which an open window has a part.
    pub from: u64,
    /// The start of the newest window before that message, in microseconds since the epoch.
    pub newest_us: i64,
    /// Windows that start before this were closed before that message.
    pub closed_us: i64,
    /// The fractions that closed windows left to the next window of their series.
    pub owed: Vec<(Series, f64)>,
}

impl Default for CarriedWindows {
    /// That there were no windows yet.
    fn default() -> CarriedWindows {
        CarriedWindows { from: 0, newest_us: i64::MIN, closed_us: i64::MIN, owed: Vec::new() }
    }
}

/// Where windows were when a message began.
#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    newest_us: i64,
    closed_us: i64,
}

const START: Mark = Mark { position: 0, newest_us: i64::MIN, closed_us: i64::MIN };

/// The open windows.
#[derive(Debug)]
pub struct Windows {
    length: Step,
    is_live: bool,
    open: BTreeMap<i64, Window>,
    newest_us: i64,
    /// Windows that start before this are closed.
    closed_us: i64,
    /// When the last message arrived, in a daemon.
    arrived_us: Option<i64>,
    /// The message that is being read.
    mark: Mark,
    /// The fraction carried over to a series' next window, if any: counts are whole.
    owed: OwedFractions,
    /// Approximate bytes of the open windows.
    bytes: usize,
}

type OwedFractions = BTreeMap<Series, f64>;

#[derive(Debug)]
struct Window {
    /// The first message of which it has a part.
    first: Mark,
    counts: BTreeMap<Series, Sum>,
    /// By the series of the count.
    times: BTreeMap<Series, TimerValues>,
    sets: BTreeMap<Series, HashSet<Box<str>>>,
    /// What it emitted while it was open, ordered by series; `None` if that was [not
    /// recorded](Windows::not_given).
    given: Vec<(Series, Option<Amount>)>,
    /// Whether its values may differ from that.
    is_changed: bool,
    bytes: usize,
}

/// A count, its fractions apart.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    whole: i64,
    part: f64,
}

#[derive(Debug)]
struct TimerValues {
    timer: Timer,
    /// Number of values.
    n: Sum,
    sum: f64,
    weight: f64,
    min: f64,
    max: f64,
    /// Each value with its weight, while there are few enough.
    values: Vec<(f64, f64)>,
    seen: usize,
}

impl Windows {
    pub(super) fn new(length: Step, is_live: bool) -> Windows {
        let (newest_us, closed_us) = (i64::MIN, i64::MIN);
        Windows {
            length,
            is_live,
            open: BTreeMap::new(),
            newest_us,
            closed_us,
            arrived_us: None,
            mark: START,
            owed: OwedFractions::new(),
            bytes: 0,
        }
    }

    /// The arrival time of a line in a daemon. A clock that was set back does not reopen windows:
    /// until it is where it was, lines count in the oldest open one.
    pub(super) fn arrives_us(&self, now_us: i64) -> i64 {
        now_us.max(self.closed_us)
    }

    /// The end of the window of this time, in microseconds since the epoch.
    pub(super) fn end_us(&self, at_us: i64) -> i64 {
        self.length.slot_of(at_us).saturating_add(self.length.us())
    }

    /// Tells the position of the message whose lines follow.
    pub fn mark(&mut self, position: u64) {
        let Windows { newest_us, closed_us, .. } = *self;
        self.mark = Mark { position, newest_us, closed_us };
    }

    /// Closes the windows that are over when a message arrives, of any format; all of them if the
    /// clock was set back from a time that was wrong, so that the next ones begin at the right time.
    pub(super) fn pass(&mut self, now_us: i64, out: &mut ParsedLine) {
        let start_us = self.length.slot_of(now_us);
        let arrived_us = self.arrived_us.replace(now_us);
        if !self.is_used() {
            return;
        }
        let back_us = SET_BACK_US.saturating_add(self.length.us().saturating_mul(2));
        let is_before = |us: i64| now_us.saturating_add(back_us) < us;
        if self.is_live && is_before(self.newest_us) && arrived_us.is_none_or(is_before) {
            self.close_before(i64::MAX, out);
            (self.newest_us, self.closed_us) = (start_us, i64::MIN);
        } else if start_us > self.newest_us {
            self.newest_us = start_us;
            self.close_before(self.closes_at(start_us), out);
        }
    }

    /// Emits the current values of open windows, and forgets them: what follows in their time is
    /// added to it, like the values of another sender. Counts stay exact.
    pub(super) fn cut(&mut self, out: &mut ParsedLine) {
        for (start_us, mut window) in std::mem::take(&mut self.open) {
            window.give(start_us, self.length, &mut self.owed, out);
        }
        self.bytes = 0;
    }

    /// The first message of which an open window has a part.
    pub fn first(&self) -> Option<u64> {
        self.open.values().map(|window| window.first.position).min()
    }

    /// Whether there ever was a window.
    pub fn is_used(&self) -> bool {
        self.newest_us > i64::MIN
    }

    /// What is needed to rebuild the open windows beside the messages from [`CarriedWindows::from`] on;
    /// `next` is the position of the next message, if there are none. Fractions of more than
    /// `owed_max` bytes of names, by `bytes_of`, are dropped.
    pub fn carried(
        &mut self,
        next: u64,
        owed_max: usize,
        mut bytes_of: impl FnMut(Series) -> usize,
    ) -> CarriedWindows {
        let mut left = owed_max;
        self.owed.retain(|series, _| {
            let bytes = bytes_of(*series);
            let is_kept = bytes <= left;
            left -= if is_kept { bytes } else { 0 };
            is_kept
        });
        let now = Mark { position: next, newest_us: self.newest_us, closed_us: self.closed_us };
        let first = self.open.values().map(|window| window.first).min_by_key(|mark| mark.position);
        let Mark { position, newest_us, closed_us } = first.unwrap_or(now);
        let owed = self.owed.iter().map(|(series, part)| (*series, *part)).collect();
        CarriedWindows { from: position, newest_us, closed_us, owed }
    }

    /// Goes back to where windows were before the message [`CarriedWindows::from`].
    pub fn go_back(&mut self, carried: &CarriedWindows) {
        self.open.clear();
        self.bytes = 0;
        (self.newest_us, self.closed_us) = (carried.newest_us, carried.closed_us);
        self.arrived_us = None;
    }

    /// Sets the fractions, once the messages up to the last batch are read.
    pub fn owe(&mut self, owed: Vec<(Series, f64)>) {
        self.owed = owed.into_iter().collect();
    }

    /// Tells that the result of a window could not be recorded, and was not.
    pub fn not_given(&mut self, windowed: &WindowResult) {
        let Some((start_us, _)) = windowed.update.map(|update| update.times_us()) else { return };
        if let Some(window) = self.open.get_mut(&start_us) {
            let place = window.given.binary_search_by_key(&windowed.series, |(series, _)| *series);
            if let Ok(place) = place {
                window.given[place].1 = None;
            }
            window.is_changed = true;
        }
    }

    /// Whether all of these values can be applied.
    ///
    /// # Errors
    /// [`Malformed::WindowClosed`], and [`Refusal::TooLarge`] for a count that exceeds what a slot
    /// can hold.
    pub(super) fn admit(&self, held: &[HeldValue]) -> Result<(), Reason> {
        let starts = held.iter().map(|held| self.length.slot_of(held.at_us));
        let newest_us = starts.clone().max().unwrap_or(i64::MIN).max(self.newest_us);
        let closed_us = self.closes_at(newest_us).max(self.closed_us);
        let mut counted: BTreeMap<(i64, Series), f64> = BTreeMap::new();
        for (held, start_us) in held.iter().zip(starts) {
            let (series, more) = match &held.item {
                Item::Count { series, addend } => (*series, addend.as_f64()),
                Item::Time { timer, rate, .. } => (timer.count, 1.0 / rate),
                Item::Distinct { series, .. } => (*series, 0.0),
                Item::Gauge { .. } => continue,
            };
            if start_us < closed_us {
                return Err(Malformed::WindowClosed.into());
            }
            let count = counted.entry((start_us, series)).or_insert_with(|| {
                let window = self.open.get(&start_us);
                let known = window.and_then(|window| match window.times.get(&series) {
                    Some(times) => Some(&times.n),
                    None => window.counts.get(&series),
                });
                known.map_or(0.0, |count| count.whole as f64 + count.part)
            });
            *count += more;
            // The carried fraction may add one.
            if *count >= (COUNT_MAX - 1) as f64 {
                return Err(Refusal::TooLarge.into());
            }
        }
        Ok(())
    }

    /// Applies an admitted value, and emits what closes.
    pub(super) fn take(&mut self, held: &HeldValue, out: &mut ParsedLine) {
        let start_us = self.length.slot_of(held.at_us);
        if start_us > self.newest_us {
            self.newest_us = start_us;
            self.close_before(self.closes_at(start_us), out);
        }
        let room = self.bytes < HELD_MAX;
        let mark = self.mark;
        let window = self.open.entry(start_us).or_insert_with(|| Window::new(mark));
        let before = window.bytes;
        window.take(&held.item, room);
        self.bytes += window.bytes - before;
        while self.bytes >= HELD_MAX && self.open.len() > 1 {
            let Some((oldest_us, _)) = self.open.first_key_value() else { break };
            self.close_before(oldest_us.saturating_add(self.length.us()), out);
        }
    }

    /// Windows that start before this are closed once one starts at `newest_us`.
    fn closes_at(&self, newest_us: i64) -> i64 {
        let (windows, late_us) = match self.is_live {
            true => (OPEN_WINDOWS_LIVE, 0),
            false => (OPEN_WINDOWS, LATE_US),
        };
        let windows_us = windows.saturating_mul(self.length.us());
        newest_us.saturating_sub(windows_us.saturating_add(late_us))
    }

    fn close_before(&mut self, limit_us: i64, out: &mut ParsedLine) {
        self.closed_us = self.closed_us.max(limit_us);
        let mut is_changed = false;
        while let Some(mut entry) = self.open.first_entry() {
            if *entry.key() >= limit_us {
                // The closed ones may leave another fraction to it.
                entry.get_mut().is_changed |= is_changed;
                break;
            }
            let (start_us, mut window) = entry.remove_entry();
            is_changed |= window.is_changed;
            self.bytes -= window.bytes;
            window.give(start_us, self.length, &mut self.owed, out);
        }
    }

    /// Emits the current values of open windows, which stay open. Those before the first window that
    /// has changed are the same as when they were last emitted.
    pub(super) fn flush(&mut self, out: &mut ParsedLine) {
        let mut owed = self.owed.clone();
        let mut is_changed = false;
        for (start_us, window) in &mut self.open {
            is_changed |= std::mem::take(&mut window.is_changed);
            if is_changed {
                window.give(*start_us, self.length, &mut owed, out);
            } else {
                for (series, count) in window.counted() {
                    count.carry(series, &mut owed);
                }
            }
        }
    }
}

impl Window {
    fn new(first: Mark) -> Window {
        Window {
            first,
            counts: BTreeMap::new(),
            times: BTreeMap::new(),
            sets: BTreeMap::new(),
            given: Vec::new(),
            is_changed: true,
            bytes: 0,
        }
    }

    fn take(&mut self, item: &Item, room: bool) {
        self.is_changed = true;
        let (series, times, sets) = (self.counts.len(), self.times.len(), self.sets.len());
        match item {
            Item::Count { series, addend } => {
                self.counts.entry(*series).or_default().add(*addend);
            }
            Item::Time { timer, value, rate } => {
                let times =
                    self.times.entry(timer.count).or_insert_with(|| TimerValues::new(*timer));
                let before = times.values.len();
                times.add(*value, *rate, room);
                let after = times.values.len();
                self.bytes = (self.bytes + after * size_of::<(f64, f64)>())
                    .saturating_sub(before * size_of::<(f64, f64)>());
            }
            Item::Distinct { series, value } => {
                let set = self.sets.entry(*series).or_default();
                if room && set.len() < DISTINCT_MAX && set.insert(value.clone()) {
                    self.bytes += value.len() + ENTRY_BYTES;
                }
            }
            Item::Gauge { .. } => {}
        }
        let entries = (self.counts.len() - series)
            + (self.times.len() - times) * (1 + TIMER_LEVELS.len())
            + (self.sets.len() - sets);
        self.bytes += entries * ENTRY_BYTES;
    }

    /// The series that are counted, with their counts.
    fn counted(&self) -> impl Iterator<Item = (Series, Sum)> {
        let counts = self.counts.iter().map(|(series, count)| (*series, *count));
        counts.chain(self.times.iter().map(|(series, times)| (*series, times.n)))
    }

    /// Its value for each series, in their order.
    fn results(&mut self, owed: &mut OwedFractions) -> Vec<(Series, Option<Amount>)> {
        let most =
            self.counts.len() + self.times.len() * (1 + TIMER_LEVELS.len()) + self.sets.len();
        let mut results = Vec::with_capacity(most);
        for (series, count) in self.counted() {
            results.push((series, Some(Amount::Count(count.carry(series, owed)))));
        }
        let level = |(series, value)| (series, Some(Amount::Level(value)));
        for times in self.times.values_mut() {
            results.extend(times.levels().map(level));
        }
        results.extend(self.sets.iter().map(|(series, set)| level((*series, set.len() as f64))));
        results.sort_unstable_by_key(|(series, _)| *series);
        results
    }

    /// Emits what differs from what was emitted before.
    fn give(
        &mut self,
        start_us: i64,
        length: Step,
        owed: &mut OwedFractions,
        out: &mut ParsedLine,
    ) {
        let results = self.results(owed);
        let end_us = start_us.saturating_add(length.us());
        // Admitted values fit a count and a level, so nothing is dropped here.
        let update = |amount| match amount {
            Amount::Count(count) => Update::count(start_us, end_us, count).ok(),
            Amount::Level(level) => Update::level(start_us, end_us, level).ok(),
        };
        let mut emit = |series, amount: Option<Amount>, instead: Option<Amount>| {
            if amount != instead {
                let (update, instead) = (amount.and_then(update), instead.and_then(update));
                out.windows.push(WindowResult { series, update, instead });
            }
        };
        let mut before = std::mem::take(&mut self.given).into_iter().peekable();
        for (series, amount) in &results {
            while let Some((gone, instead)) = before.next_if(|(known, _)| known < series) {
                emit(gone, None, instead);
            }
            let instead = before.next_if(|(known, _)| known == series);
            emit(*series, *amount, instead.and_then(|(_, instead)| instead));
        }
        before.for_each(|(gone, instead)| emit(gone, None, instead));
        self.given = results;
    }
}

impl Sum {
    /// The whole part; the rest is carried over to the series' next window.
    fn carry(self, series: Series, owed: &mut OwedFractions) -> i64 {
        let part = self.part + owed.remove(&series).unwrap_or_default();
        // Rounded, so that 10 × 0.1 is 1 although it is slightly less in doubles; half upwards, so
        // that the carried rest never makes a count negative.
        let whole = (part + 0.5).floor();
        if part != whole {
            owed.insert(series, part - whole);
        }
        self.whole.saturating_add(whole as i64)
    }

    fn add(&mut self, addend: Addend) {
        match addend {
            Addend::Whole(more) => self.whole = self.whole.saturating_add(more),
            Addend::Part(more) => self.part += more,
        }
    }
}

impl TimerValues {
    fn new(timer: Timer) -> TimerValues {
        TimerValues {
            timer,
            n: Sum::default(),
            sum: 0.0,
            weight: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            values: Vec::new(),
            seen: 0,
        }
    }

    fn add(&mut self, value: f64, rate: f64, room: bool) {
        let weight = 1.0 / rate;
        self.n.add(if rate == 1.0 { Addend::Whole(1) } else { Addend::Part(weight) });
        self.sum += value * weight;
        self.weight += weight;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.seen = if room { self.seen + 1 } else { TIMES_MAX + 1 };
        if self.seen <= TIMES_MAX {
            self.values.push((value, weight));
        } else {
            self.values = Vec::new();
        }
    }

    /// The levels of the window.
    fn levels(&mut self) -> impl Iterator<Item = (Series, f64)> {
        self.values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let known = [self.sum / self.weight, self.min, self.max].map(Some);
        let percentiles = [0.5, 0.9, 0.99].map(|q| self.percentile(q));
        let levels = self.timer.levels().zip(known.into_iter().chain(percentiles));
        levels.filter_map(|(series, level)| Some((series, level?)))
    }

    /// The nearest rank: the smallest value with at least a share `q` of the weight at or below it.
    fn percentile(&self, q: f64) -> Option<f64> {
        let mut below = 0.0;
        let reached = self.values.iter().find(|(_, weight)| {
            below += weight;
            // Tolerance for weights that are not exact in doubles.
            below >= q * self.weight * (1.0 - 1e-12)
        });
        reached.map(|(value, _)| *value)
    }
}
