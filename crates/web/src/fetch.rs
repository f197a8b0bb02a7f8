//! Series of a query, read from a store at the resolution that serves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use graphite::{Entry, GraphiteError, Selection, Series, SeriesSource};
use series::{Accumulator, Flavor, SECOND_US, Step, combine};
use store::{Abandonment, Retention, Store, StoreError};

use crate::budget::{Budget, SLOTS_BESIDE_OTHERS, Turn};
use crate::catalogue::Names;
use crate::sql::ReadSlots;

/// Limit on the series of one selection.
const SERIES_MAX: usize = 20_000;

/// Limit on the slots that a query reads.
pub(crate) const SLOTS_MAX: usize = 10_000_000;

/// Slots that are read at a time, which bounds the memory for them.
const SLOTS_AT_ONCE: usize = 500_000;

/// Limit on the values that are kept in case the same series are selected again.
const KEPT_MAX: usize = 2_000_000;

/// Limit on what is remembered of the series that were read.
const READ_MAX: usize = 1_000;

/// The slots of a series.
type Rows = Vec<(i64, Accumulator)>;

/// A selection in a range, as a key.
type Key = (String, i64, i64);

/// Reads series from a store, for one query.
pub(crate) struct SeriesReader<'s> {
    store: &'s mut dyn Store,
    budget: &'s Budget,
    /// Held by a query that reads many slots.
    turn: Option<Turn>,
    names: Arc<Names>,
    retentions: Vec<Retention>,
    now_us: i64,
    /// The number of points that are wanted, if not all.
    points: Option<usize>,
    slots_left: usize,
    kept: HashMap<Key, Vec<Series>>,
    kept_values: usize,
    /// What was read, for the statements that are shown.
    read: Vec<ReadSlots>,
    /// The kinds of the series, by the names that they have in a query.
    flavors: HashMap<String, Flavor>,
    /// The error of the store, which ended the query.
    pub(crate) failure: Option<StoreError>,
}

impl<'s> SeriesReader<'s> {
    /// A reader for a query that wants so many points.
    pub(crate) fn new(
        store: &'s mut dyn Store,
        budget: &'s Budget,
        names: Arc<Names>,
        now_s: i64,
        points: Option<usize>,
    ) -> Result<SeriesReader<'s>, StoreError> {
        let retentions = store.retentions()?;
        Ok(SeriesReader {
            store,
            budget,
            turn: None,
            names,
            retentions,
            now_us: now_s.saturating_mul(SECOND_US),
            points,
            slots_left: SLOTS_MAX,
            kept: HashMap::new(),
            kept_values: 0,
            read: Vec::new(),
            flavors: HashMap::new(),
            failure: None,
        })
    }

    /// Tells whether the client still waits.
    pub(crate) fn client(&self) -> Abandonment {
        self.store.abandonment()
    }

    /// What was read, without repetitions.
    pub(crate) fn read_series(&self) -> &[ReadSlots] {
        &self.read
    }

    /// The kind of a series that was read; `None` for the result of a function.
    pub(crate) fn flavor(&self, name: &str) -> Option<Flavor> {
        self.flavors.get(name).copied()
    }

    /// The retentions of series with this step, finest first, from the coarsest one that has a slot
    /// for every point, if one has.
    fn candidates(&self, own: Step, range_us: i64) -> Vec<Retention> {
        let mut of_series = self.retentions.clone();
        of_series.retain(|retention| own.divides(retention.step));
        let Some(points) = self.points else { return of_series };
        let point_us = range_us / points.max(1) as i64;
        let first = of_series.iter().rposition(|retention| retention.step.us() <= point_us);
        of_series.split_off(first.unwrap_or(0))
    }

    /// The slots of series, in the retention that reaches furthest back, or in the first of those
    /// that reach equally far.
    fn rows(
        &mut self,
        candidates: &[Retention],
        ids: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<HashMap<i64, (Step, Rows)>, GraphiteError> {
        let mut found: HashMap<i64, (Step, Rows)> = HashMap::new();
        let mut open: Vec<i64> = ids.to_vec();
        for retention in candidates {
            let mut read = self.slots(retention.step, &open, from_us, until_us)?;
            let reaches = retention.age_us.is_none_or(|age_us| self.now_us - age_us <= from_us);
            let mut still_open = Vec::new();
            for id in open {
                let rows = read.remove(&id).unwrap_or_default();
                let first = rows.first().map(|(at_us, _)| retention.step.slot_of(*at_us));
                let before =
                    found.get(&id).and_then(|(_, rows)| rows.first()).map(|(at_us, _)| *at_us);
                // Expired fine slots are in the coarse ones, as is history that was never finer.
                let is_longer = match (before, first) {
                    (Some(before), Some(first)) => first < retention.step.slot_of(before),
                    (before, _) => before.is_none(),
                };
                let is_known = first.is_some();
                if is_longer {
                    found.insert(id, (retention.step, rows));
                }
                if !(reaches && is_known) {
                    still_open.push(id);
                }
            }
            open = still_open;
            if open.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn slots(
        &mut self,
        step: Step,
        ids: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<HashMap<i64, Rows>, GraphiteError> {
        let each = usize::try_from((until_us - from_us) / step.us() + 1).unwrap_or(usize::MAX);
        let slots = each.saturating_mul(ids.len());
        let Some(left) = self.slots_left.checked_sub(slots) else {
            return Err(GraphiteError::Limit {
                what: format!("would read {slots} slots"),
                limit: SLOTS_MAX as u64,
                remedy: "select fewer series or a shorter range, or set maxDataPoints",
            });
        };
        self.slots_left = left;
        if SLOTS_MAX - left > SLOTS_BESIDE_OTHERS && self.turn.is_none() {
            let turn = self.budget.turn(&self.client());
            self.turn = Some(turn.map_err(|error| self.failed(error))?);
        }
        let mut rows: HashMap<i64, Rows> = HashMap::new();
        for some in ids.chunks((SLOTS_AT_ONCE / each.max(1)).max(1)) {
            let read = self.store.slots(step, some, from_us, until_us);
            for (key, row) in read.map_err(|error| self.failed(error))? {
                rows.entry(key.series).or_default().push((key.slot_us, row));
            }
        }
        Ok(rows)
    }

    fn failed(&mut self, error: StoreError) -> GraphiteError {
        let shown = error.to_string();
        self.failure = Some(error);
        GraphiteError::Source(shown)
    }

    fn read(
        &mut self,
        entries: &[Entry],
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let (from_us, until_us) = (micros(from_s), micros(until_s));
        let mut by_step: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for entry in entries {
            if let Some(series) = self.names.series.get(&entry.id) {
                by_step.entry(series.spec.step.us()).or_default().push(entry.id);
            }
        }
        let mut rows = HashMap::new();
        for (own_us, ids) in by_step {
            let Some(own) = Step::from_micros(own_us) else { continue };
            let candidates = self.candidates(own, until_us - from_us);
            rows.extend(self.rows(&candidates, &ids, from_us, until_us)?);
        }
        let names = self.names.clone();
        let series = entries.iter().filter_map(|entry| {
            let (step, rows) = rows.remove(&entry.id)?;
            let stored = names.series.get(&entry.id)?;
            if self.read.len() < READ_MAX {
                let identity = stored.identity.clone();
                self.read.push(ReadSlots { identity, step, from_us, until_us });
            }
            self.flavors.insert(entry.full.clone(), stored.spec.kind.flavor());
            Some(series_of(entry, stored, step, &rows, from_us, until_us))
        });
        Ok(series.collect())
    }
}

impl SeriesSource for SeriesReader<'_> {
    fn fetch(
        &mut self,
        selection: &Selection<'_>,
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let key = (format!("{selection:?}"), from_s, until_s);
        if let Some(known) = self.kept.get(&key) {
            return Ok(known.clone());
        }
        let names = self.names.clone();
        let entries = names.index.select(selection)?;
        if entries.len() > SERIES_MAX {
            return Err(GraphiteError::Limit {
                what: format!("selects {} series at once", entries.len()),
                limit: SERIES_MAX as u64,
                remedy: "use a narrower pattern",
            });
        }
        let entries: Vec<Entry> = entries.into_iter().cloned().collect();
        let found = self.read(&entries, from_s, until_s)?;
        let values: usize = found.iter().map(|series| series.values.len()).sum();
        if self.kept_values + values <= KEPT_MAX {
            self.kept_values += values;
            self.kept.insert(key, found.clone());
        }
        Ok(found)
    }
}

/// Limit on the series whose range is looked up.
const SPAN_SERIES_MAX: usize = 500;

/// Finds the series of a query without reading any of their slots.
pub(crate) struct Finder {
    names: Arc<Names>,
    found: Vec<i64>,
}

impl Finder {
    pub(crate) fn new(names: Arc<Names>) -> Finder {
        Finder { names, found: Vec::new() }
    }

    /// The range of all data of the series that were found, in whole seconds.
    pub(crate) fn span(mut self, store: &mut dyn Store) -> Result<Option<(i64, i64)>, StoreError> {
        self.found.truncate(SPAN_SERIES_MAX);
        let retentions = store.retentions()?;
        let Some(coarsest) = retentions.last() else { return Ok(None) };
        let rows = store.slots(coarsest.step, &self.found, i64::MIN, i64::MAX)?;
        let Some(first_us) = rows.iter().map(|(key, _)| key.slot_us).min() else {
            return Ok(None);
        };
        let end_us = |at_us: i64, row: &Accumulator| match row.last() {
            Some((last_us, _)) => last_us,
            None => at_us.saturating_add(coarsest.step.us()),
        };
        let last_us = rows.iter().map(|(key, row)| end_us(key.slot_us, row)).max();
        let mut from_us = first_us;
        // The coarsest slot may be much longer than the part of it that is known.
        let until_us = first_us.saturating_add(coarsest.step.us());
        for retention in &retentions {
            let fine = store.slots(retention.step, &self.found, first_us, until_us)?;
            if let Some(at_us) = fine.iter().map(|(key, _)| key.slot_us).min() {
                from_us = at_us;
                break;
            }
        }
        let until_s = last_us.unwrap_or(until_us).saturating_add(SECOND_US - 1) / SECOND_US;
        let from_s = from_us.div_euclid(SECOND_US);
        Ok(Some((from_s, until_s.max(from_s + 1))))
    }
}

impl SeriesSource for Finder {
    fn fetch(
        &mut self,
        selection: &Selection<'_>,
        _from_s: i64,
        _until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let entries = self.names.index.select(selection)?;
        self.found.extend(entries.iter().map(|entry| entry.id));
        Ok(Vec::new())
    }
}

fn micros(seconds: i64) -> i64 {
    seconds.saturating_mul(SECOND_US)
}

/// The shortest multiple of a step in whole seconds: Graphite's times have no fractions.
fn whole_seconds(step: Step) -> Step {
    let (mut divisor, mut rest) = (step.us(), SECOND_US);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    Step::from_micros((step.us() / divisor).saturating_mul(SECOND_US)).unwrap_or(step)
}

/// A series with a value for each slot of the range, weighted by its known time.
fn series_of(
    entry: &Entry,
    stored: &store::Series,
    step: Step,
    rows: &[(i64, Accumulator)],
    from_us: i64,
    until_us: i64,
) -> Series {
    let step = whole_seconds(step);
    let step_us = step.us();
    let first_us = -(-from_us).div_euclid(step_us) * step_us;
    let count = usize::try_from(-(first_us - until_us).div_euclid(step_us)).unwrap_or(0);
    let (mut values, mut known_s) = (vec![f64::NAN; count], vec![0.0; count]);
    let flavor = stored.spec.kind.flavor();
    let slots = rows.chunk_by(|(a, _), (b, _)| step.slot_of(*a) == step.slot_of(*b));
    for lanes in slots {
        let slot_us = lanes.first().map_or(i64::MIN, |(at_us, _)| step.slot_of(*at_us));
        let place = (slot_us.saturating_sub(first_us)).div_euclid(step_us);
        let Some(place) = usize::try_from(place).ok().filter(|place| *place < count) else {
            continue;
        };
        let slot = combine(flavor, step, 1.0, lanes.iter().map(|(_, row)| row));
        if let Some(rate) = slot.rate {
            values[place] = rate;
            known_s[place] = slot.covered_us as f64 / SECOND_US as f64;
        }
    }
    let mut series = Series::new(&entry.full, first_us / SECOND_US, step_us / SECOND_US, values);
    series.known_s = Some(known_s);
    series.least_known = 1.0 - stored.xff;
    series.tags.clone_from(&entry.tags);
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole_seconds() {
        for (step_us, whole_us) in [
            (10_000_000, 10_000_000),
            (100_000, 1_000_000),
            (300_000, 3_000_000),
            (1_500_000, 3_000_000),
        ] {
            let step = whole_seconds(Step::from_micros(step_us).unwrap());
            assert_eq!(step.us(), whole_us, "{step_us}");
        }
    }
}
