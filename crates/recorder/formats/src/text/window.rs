//! Values aggregated over time windows.
//!
//! A window is open until a line arrives that is [`LATE_US`] and two windows after it, so lines may
//! come in any order within that time. A line of a closed window is refused: a window is written as
//! a whole.
//!
//! At the end of a stream, open windows are emitted as they are. If the stream continues later,
//! these values are replaced by the final ones ([`Windowed`]).
//!
//! A daemon's windows are those of the arrival times, which are in order: there a window is open
//! until a message arrives two windows after it ([`Windows::pass`]). The daemon emits open windows
//! with each batch, and rebuilds them after a restart from the messages in its journal:
//! [`Windows::mark`] tells the position of each, and [`Windows::carried`] what must be known beside
//! them.

use std::collections::{BTreeMap, HashMap, HashSet};

use series::{COUNT_MAX, Kind, Refusal, Step};

use super::Parsed;
use crate::{Malformed, Reason, Series, Update};

/// The fields of timers, in the order of [`Item::Time`].
pub(super) const TIMED: [&str; 7] = ["n", "mean", "min", "max", "p50", "p90", "p99"];

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

/// An amount added to a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// An integer.
    Whole(i64),
    /// A fraction, because of a sample rate.
    Part(f64),
}

impl Amount {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Amount::Whole(count) => count as f64,
            Amount::Part(part) => part,
        }
    }
}

/// A value of a line that is not applied yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub(super) at_us: i64,
    pub(super) item: Item,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// An amount of a count.
    Count { series: Series, amount: Amount },
    /// A duration, with the series of its fields.
    Time { fields: [Series; TIMED.len()], value: f64, rate: f64 },
    /// A value of a set.
    Distinct { series: Series, value: Box<str> },
    /// A level, or a change of the last one.
    Gauge { series: Series, value: f64, relative: bool },
}

impl Held {
    /// The series that it changes, with the kind required of each.
    pub fn series(&self) -> impl Iterator<Item = (Series, Kind)> + Clone {
        let (first, kind, rest) = match &self.item {
            Item::Count { series, .. } => (*series, Kind::Count, None),
            Item::Time { fields, .. } => (fields[0], Kind::Count, Some(*fields)),
            Item::Distinct { series, .. } => (*series, Kind::Level, None),
            Item::Gauge { series, .. } => (*series, Kind::Gauge, None),
        };
        let rest = rest.into_iter().flat_map(|fields| fields.into_iter().skip(1));
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
pub struct Windowed {
    /// The series.
    pub series: Series,
    /// The result; `None` if it can no longer be represented.
    pub update: Option<Update>,
    /// The earlier result, which it replaces.
    pub instead: Option<Update>,
}

/// What a daemon must know about its windows, beside the messages, to rebuild them.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// The first message of which an open window has a part.
    pub from: u64,
    /// The start of the newest window before that message, in microseconds since the epoch.
    pub newest_us: i64,
    /// Windows that start before this were closed before that message.
    pub closed_us: i64,
    /// The fractions that closed windows left to the next window of their series.
    pub owed: Vec<(Series, f64)>,
}

impl Default for Carried {
    /// That there were no windows yet.
    fn default() -> Carried {
        Carried { from: 0, newest_us: i64::MIN, closed_us: i64::MIN, owed: Vec::new() }
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
    /// The fraction carried over to each series' next window: counts are whole.
    owed: HashMap<Series, f64>,
    /// Approximate bytes of the open windows.
    bytes: usize,
}

#[derive(Debug)]
struct Window {
    /// The first message of which it has a part.
    first: Mark,
    counts: HashMap<Series, Amounts>,
    /// By the series of the first field.
    times: HashMap<Series, Times>,
    sets: HashMap<Series, HashSet<Box<str>>>,
    /// What it emitted while it was open.
    given: HashMap<Series, Update>,
    /// Whether its values may differ from that.
    is_changed: bool,
    bytes: usize,
}

/// The sum of amounts, its fractions apart.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    whole: i64,
    part: f64,
}

#[derive(Debug)]
struct Times {
    fields: [Series; TIMED.len()],
    /// Number of values.
    n: Amounts,
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
            owed: HashMap::new(),
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
    pub(super) fn pass(&mut self, now_us: i64, out: &mut Parsed) {
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
    pub(super) fn cut(&mut self, out: &mut Parsed) {
        for (start_us, mut window) in std::mem::take(&mut self.open) {
            let updates = window.updates(start_us, self.length, &mut self.owed);
            window.give(updates, out);
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

    /// What is needed to rebuild the open windows beside the messages from [`Carried::from`] on;
    /// `next` is the position of the next message, if there are none. Fractions of more than
    /// `owed_max` bytes of names, by `bytes_of`, are dropped.
    pub fn carried(
        &mut self,
        next: u64,
        owed_max: usize,
        mut bytes_of: impl FnMut(Series) -> usize,
    ) -> Carried {
        let mut left = owed_max;
        self.owed.retain(|series, part| {
            let bytes = bytes_of(*series);
            let is_kept = *part != 0.0 && bytes <= left;
            left -= if is_kept { bytes } else { 0 };
            is_kept
        });
        let now = Mark { position: next, newest_us: self.newest_us, closed_us: self.closed_us };
        let first = self.open.values().map(|window| window.first).min_by_key(|mark| mark.position);
        let Mark { position, newest_us, closed_us } = first.unwrap_or(now);
        let owed = self.owed.iter().map(|(series, part)| (*series, *part)).collect();
        Carried { from: position, newest_us, closed_us, owed }
    }

    /// Goes back to where windows were before the message [`Carried::from`].
    pub fn go_back(&mut self, carried: &Carried) {
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
    pub fn not_given(&mut self, windowed: &Windowed) {
        let Some((start_us, _)) = windowed.update.map(|update| update.times_us()) else { return };
        if let Some(window) = self.open.get_mut(&start_us) {
            window.given.remove(&windowed.series);
            window.is_changed = true;
        }
    }

    /// Whether all of these values can be applied.
    ///
    /// # Errors
    /// [`Malformed::WindowClosed`], and [`Refusal::TooLarge`] for a count that exceeds what a slot
    /// can hold.
    pub(super) fn admit(&self, held: &[Held]) -> Result<(), Reason> {
        let starts = held.iter().map(|held| self.length.slot_of(held.at_us));
        let newest_us = starts.clone().max().unwrap_or(i64::MIN).max(self.newest_us);
        let closed_us = self.closes_at(newest_us).max(self.closed_us);
        let mut counted: HashMap<(i64, Series), f64> = HashMap::new();
        for (held, start_us) in held.iter().zip(starts) {
            let (series, more) = match &held.item {
                Item::Count { series, amount } => (*series, amount.as_f64()),
                Item::Time { fields, rate, .. } => (fields[0], 1.0 / rate),
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
    pub(super) fn take(&mut self, held: &Held, out: &mut Parsed) {
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

    fn close_before(&mut self, limit_us: i64, out: &mut Parsed) {
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
            let updates = window.updates(start_us, self.length, &mut self.owed);
            window.give(updates, out);
        }
    }

    /// Emits the current values of open windows, which stay open. Those before the first window that
    /// has changed are the same as when they were last emitted.
    pub(super) fn flush(&mut self, out: &mut Parsed) {
        let mut owed = HashMap::new();
        let mut is_changed = false;
        for (start_us, window) in &mut self.open {
            for (series, _) in window.counted() {
                let of_closed = || self.owed.get(&series).copied().unwrap_or_default();
                owed.entry(series).or_insert_with(of_closed);
            }
            is_changed |= std::mem::take(&mut window.is_changed);
            if is_changed {
                let updates = window.updates(*start_us, self.length, &mut owed);
                window.give(updates, out);
            } else {
                for (series, count) in window.counted() {
                    count.carry(owed.entry(series).or_default());
                }
            }
        }
    }
}

impl Window {
    fn new(first: Mark) -> Window {
        Window {
            first,
            counts: HashMap::new(),
            times: HashMap::new(),
            sets: HashMap::new(),
            given: HashMap::new(),
            is_changed: true,
            bytes: 0,
        }
    }

    fn take(&mut self, item: &Item, room: bool) {
        self.is_changed = true;
        let (series, times, sets) = (self.counts.len(), self.times.len(), self.sets.len());
        match item {
            Item::Count { series, amount } => {
                self.counts.entry(*series).or_default().add(*amount);
            }
            Item::Time { fields, value, rate } => {
                let times = self.times.entry(fields[0]).or_insert_with(|| Times::new(*fields));
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
            + (self.times.len() - times) * TIMED.len()
            + (self.sets.len() - sets);
        self.bytes += entries * ENTRY_BYTES;
    }

    /// The series that are counted, with their counts.
    fn counted(&self) -> impl Iterator<Item = (Series, Amounts)> {
        let counts = self.counts.iter().map(|(series, count)| (*series, *count));
        counts.chain(self.times.iter().map(|(series, times)| (*series, times.n)))
    }

    /// Its values for each series, in an order that depends only on the lines.
    fn updates(
        &mut self,
        start_us: i64,
        length: Step,
        owed: &mut HashMap<Series, f64>,
    ) -> Vec<(Series, Update)> {
        let end_us = start_us.saturating_add(length.us());
        let mut counts: Vec<_> = self.counted().collect();
        let mut times: Vec<_> = self.times.values_mut().collect();
        let mut sets: Vec<_> = self.sets.iter().map(|(series, set)| (*series, set.len())).collect();
        counts.sort_unstable_by_key(|(series, _)| *series);
        times.sort_unstable_by_key(|times| times.fields[0]);
        sets.sort_unstable_by_key(|(series, _)| *series);
        let mut updates = Vec::new();
        // Admitted values fit a count and a level, so nothing is dropped here.
        for (series, count) in counts {
            let count = count.carry(owed.entry(series).or_default());
            updates.extend(Update::count(start_us, end_us, count).map(|update| (series, update)));
        }
        let levels = times.into_iter().flat_map(|times| times.levels());
        let levels = levels.chain(sets.into_iter().map(|(series, n)| (series, n as f64)));
        for (series, level) in levels {
            updates.extend(Update::level(start_us, end_us, level).map(|update| (series, update)));
        }
        updates
    }

    /// Emits what differs from what was emitted before.
    fn give(&mut self, updates: Vec<(Series, Update)>, out: &mut Parsed) {
        for (series, update) in &updates {
            let instead = self.given.insert(*series, *update);
            if instead != Some(*update) {
                let update = Some(*update);
                out.windows.push(Windowed { series: *series, update, instead });
            }
        }
        if self.given.len() == updates.len() {
            return;
        }
        let known: HashSet<Series> = updates.iter().map(|(series, _)| *series).collect();
        let mut gone: Vec<_> = self.given.extract_if(|series, _| !known.contains(series)).collect();
        gone.sort_unstable_by_key(|(series, _)| *series);
        let gone = gone.into_iter().map(|(series, instead)| Windowed {
            series,
            update: None,
            instead: Some(instead),
        });
        out.windows.extend(gone);
    }
}

impl Amounts {
    /// The whole part; the rest is carried over to the series' next window.
    fn carry(self, owed: &mut f64) -> i64 {
        let part = self.part + *owed;
        // Rounded, so that 10 × 0.1 is 1 although it is slightly less in doubles; half upwards, so
        // that the carried rest never makes a count negative.
        let whole = (part + 0.5).floor();
        *owed = part - whole;
        self.whole.saturating_add(whole as i64)
    }

    fn add(&mut self, amount: Amount) {
        match amount {
            Amount::Whole(more) => self.whole = self.whole.saturating_add(more),
            Amount::Part(more) => self.part += more,
        }
    }
}

impl Times {
    fn new(fields: [Series; TIMED.len()]) -> Times {
        Times {
            fields,
            n: Amounts::default(),
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
        self.n.add(if rate == 1.0 { Amount::Whole(1) } else { Amount::Part(weight) });
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

    /// The levels of the window, in the order of [`TIMED`] after `n`.
    fn levels(&mut self) -> Vec<(Series, f64)> {
        let [_, mean, min, max, percentiles @ ..] = self.fields;
        let mut levels = vec![(mean, self.sum / self.weight), (min, self.min), (max, self.max)];
        self.values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (series, q) in percentiles.into_iter().zip([0.5, 0.9, 0.99]) {
            levels.extend(self.percentile(q).map(|value| (series, value)));
        }
        levels
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
