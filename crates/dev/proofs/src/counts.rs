//! What senders of a proof were told about their counts, and what the store has of them.
//!
//! Each sender has a measurement of its own, and each count a slot of its own, so a count that is
//! missing, wrong or doubled is found by its slot. After a number of slots a new series follows.

use std::collections::BTreeMap;
use std::fmt::Debug;

use series::{SECOND_US, Step};
use store::{Retention, Selector};

/// Length of a slot in seconds.
const STEP_S: i64 = 10;

/// A count: the number of its series, its slot in microseconds since the epoch, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    part: i64,
    slot_us: i64,
    value: i64,
}

/// Counts by the number of their series and their slot.
type Counts = BTreeMap<(i64, i64), i64>;

/// The counts of a sender.
#[derive(Clone, Debug)]
pub struct Ledger {
    measurement: String,
    start_s: i64,
    slots: i64,
    next: i64,
    acknowledged: Counts,
    unanswered: Counts,
}

/// How the counts of several ledgers agree with a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Acknowledged counts.
    pub acknowledged: u64,
    /// Their sum.
    pub sum: i64,
    /// Of these, counts that are missing or wrong.
    pub wrong: u64,
    /// Counts that were not answered.
    pub unanswered: u64,
    /// Of these, counts in the store.
    pub stored: u64,
    /// The sum of those in the store.
    pub stored_sum: i64,
    /// Slots that were never sent, slots with two updates, and slots whose count is not the one
    /// sent.
    pub foreign: u64,
}

impl Count {
    /// What is counted.
    pub(crate) fn value(&self) -> i64 {
        self.value
    }

    /// A text that no other count of its ledger has.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.part, self.slot_us)
    }

    /// The line of Influx line protocol with times in milliseconds: an interval of a slot.
    pub fn influx(&self, ledger: &Ledger) -> String {
        let Count { part, slot_us, value } = self;
        let (from, to) = (slot_us / 1_000, (slot_us + STEP_S * SECOND_US) / 1_000);
        format!("{},part={part} n={value}i,_start={from},_end={to}\n", ledger.measurement)
    }

    /// The line of Graphite plaintext: a point within a slot.
    pub fn graphite(&self, ledger: &Ledger) -> String {
        let Count { part, slot_us, value } = self;
        format!("{};part={part} {value} {}\n", ledger.measurement, slot_us / SECOND_US + STEP_S / 2)
    }
}

impl Ledger {
    /// Counts for the slots of 10 s before `end_us`, in microseconds since the epoch; so many
    /// slots of each series.
    pub fn new(measurement: &str, slots: i64, end_us: i64) -> Ledger {
        let start_s = (end_us / SECOND_US - slots * STEP_S) / STEP_S * STEP_S;
        Ledger {
            measurement: measurement.to_owned(),
            start_s,
            slots,
            next: 0,
            acknowledged: Counts::new(),
            unanswered: Counts::new(),
        }
    }

    /// The next count to send.
    pub fn count(&mut self) -> Count {
        let number = self.next;
        self.next += 1;
        let (part, slot) = (number / self.slots, number % self.slots);
        let slot_us = (self.start_s + slot * STEP_S) * SECOND_US;
        Count { part, slot_us, value: number % 997 + 1 }
    }

    /// Notes whether a count was acknowledged.
    pub fn note(&mut self, count: &Count, is_acknowledged: bool) {
        let counts = if is_acknowledged { &mut self.acknowledged } else { &mut self.unanswered };
        counts.insert((count.part, count.slot_us), count.value);
    }

    /// Notes counts that were sent together.
    pub fn note_all(&mut self, counts: &[Count], is_acknowledged: bool) {
        counts.iter().for_each(|count| self.note(count, is_acknowledged));
    }
}

/// The most slots to print.
const SHOWN_MAX: u64 = 3;

/// Number of missing, surplus or different slots, of which the first are printed to standard error.
#[expect(clippy::print_stderr, reason = "without the slots, a failed proof cannot be explained")]
pub(crate) fn differences<K: Ord + Debug, V: PartialEq + Debug>(
    wanted: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
) -> u64 {
    let mut count = 0;
    for key in wanted.keys().chain(found.keys().filter(|key| !wanted.contains_key(key))) {
        let (wanted, found) = (wanted.get(key), found.get(key));
        if wanted != found {
            count += 1;
            if count <= SHOWN_MAX {
                eprintln!("{key:?}: {found:?} instead of {wanted:?}");
            }
        }
    }
    count
}

/// The steps of the stores that are filled and compared.
pub(crate) fn steps() -> Vec<Retention> {
    [10, 60, 3_600].into_iter().filter_map(|s| Retention::from_secs(s, None)).collect()
}

/// Compares the counts with those in a store.
///
/// # Errors
/// What prevented it, in words.
pub fn compare<'a>(
    place: &str,
    ledgers: impl IntoIterator<Item = &'a Ledger>,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for ledger in ledgers {
        let (mut stored, doubled) = stored(place, &ledger.measurement)?;
        tally.foreign += doubled;
        tally.acknowledged += ledger.acknowledged.len() as u64;
        tally.unanswered += ledger.unanswered.len() as u64;
        for (key, count) in &ledger.acknowledged {
            tally.sum += count;
            tally.wrong += u64::from(stored.remove(key) != Some(*count));
        }
        for (key, count) in &ledger.unanswered {
            match stored.remove(key) {
                None => {}
                Some(found) if found == *count => {
                    tally.stored += 1;
                    tally.stored_sum += count;
                }
                Some(_) => tally.foreign += 1,
            }
        }
        tally.foreign += stored.len() as u64;
    }
    Ok(tally)
}

/// The counts of a measurement in a store, and the number of slots with more than one update.
fn stored(place: &str, measurement: &str) -> Result<(Counts, u64), String> {
    let words = |error: store::StoreError| error.to_string();
    let mut store = store::open_read_only(place).map_err(words)?;
    let step = Step::from_secs(STEP_S).ok_or("no step")?;
    let selector = Selector { measurement: Some(measurement.to_owned()), ..Selector::default() };
    let (mut counts, mut doubled) = (Counts::new(), 0);
    for series in store.find(&selector).map_err(words)? {
        let part = series.identity.tags.get("part").and_then(|part| part.parse().ok());
        let part = part.ok_or_else(|| format!("{} was never sent", series.identity))?;
        for (key, slot) in store.slots(step, &[series.id], i64::MIN, i64::MAX).map_err(words)? {
            doubled += u64::from(slot.n > 1);
            let value = match series.spec.kind {
                series::Kind::Count => slot.integral.as_f64() as i64,
                _ if slot.n == 0 => continue,
                _ => slot.last().map_or(0, |(_, value)| value as i64),
            };
            counts.insert((part, key.slot_us), value);
        }
    }
    Ok((counts, doubled))
}
