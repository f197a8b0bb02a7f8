//! A store in memory: the simplest one, which serves as the reference for the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use series::{Accumulator, Integral, Lane, SlotKey, Step, rrd};

use crate::known_times::{RetentionTimes, known_times};
use crate::plan::{self, Plan};
use crate::scan::{Gather, row_bytes};
use crate::store::{FORGOTTEN_MAX, day_of};
use crate::stored_retention::StoredRetention;
use crate::{
    BatchResult, Changes, Digests, Identity, KnownTimes, MaintenanceResult, NewSeries, NotMade,
    Retention, Selector, Series, SeriesLimit, SlotSum, Source, Store, StoreError, Take, Writer,
};

type Rows = BTreeMap<SlotKey, Accumulator>;

/// Series and slots in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kept: Vec<StoredRetention>,
    series: Vec<Series>,
    by_identity: BTreeMap<Identity, usize>,
    lanes: Vec<String>,
    lane_states: HashMap<(i64, i32), Lane>,
    rrd: HashMap<i64, rrd::Rrd>,
    writers: HashMap<Writer, u64>,
    /// When they arrived.
    requests: HashMap<Writer, i64>,
    /// By step.
    slots: BTreeMap<i64, Rows>,
    /// The starts of existing partitions, by step; only counted in memory.
    partitions: BTreeMap<i64, std::collections::BTreeSet<i64>>,
    recorder: Option<String>,
}

impl Memory {
    /// An empty store without retentions.
    pub fn new() -> Memory {
        Memory { lanes: vec![String::new()], ..Memory::default() }
    }

    /// The rows that a plan changes, with their new content.
    fn changed(&self, plan: &Plan) -> Result<BTreeMap<i64, Rows>, StoreError> {
        let mut changed: BTreeMap<i64, Rows> = BTreeMap::new();
        let mut over = Vec::new();
        for part in &plan.parts {
            let step_us = part.kept.step().us();
            let mut rows = Rows::new();
            for (key, delta) in part.rows.iter() {
                let mut row = self.row(step_us, *key).unwrap_or_default();
                delta.apply(&mut row);
                if plan::overflows(delta, row.integral.as_f64()) {
                    over.push((step_us, *key));
                }
                rows.insert(*key, row);
            }
            for slot in &part.recomputed {
                let fine = self.fine(&changed, slot, part.kept.step());
                if let Some(row) = rows.get_mut(&slot.key) {
                    plan::bounds_of(&fine).apply(row);
                }
            }
            changed.insert(step_us, rows);
        }
        if over.is_empty() { Ok(changed) } else { Err(StoreError::Overflow { slots: over }) }
    }

    /// The slots of a step that start in a time.
    fn in_time(
        &self,
        step: Step,
        from_us: i64,
        until_us: i64,
    ) -> impl Iterator<Item = (&SlotKey, &Accumulator)> {
        let at = |slot_us| SlotKey { slot_us, series: i64::MIN, lane: i32::MIN };
        let rows = self.slots.get(&step.us()).filter(|_| from_us < until_us);
        rows.into_iter().flat_map(move |rows| rows.range(at(from_us)..at(until_us)))
    }

    fn row(&self, step_us: i64, key: SlotKey) -> Option<Accumulator> {
        self.slots.get(&step_us).and_then(|rows| rows.get(&key)).copied()
    }

    /// The fine slots of a coarse one, with their new content.
    fn fine(
        &self,
        changed: &BTreeMap<i64, Rows>,
        slot: &plan::RecomputedSlot,
        coarse: Step,
    ) -> Vec<Accumulator> {
        let changed = changed.get(&slot.from_step_us);
        let starts = (0..coarse.us() / slot.from_step_us).map(|i| i * slot.from_step_us);
        starts
            .filter_map(|offset_us| {
                let key = SlotKey { slot_us: slot.key.slot_us + offset_us, ..slot.key };
                let new = changed.and_then(|rows| rows.get(&key)).copied();
                new.or_else(|| self.row(slot.from_step_us, key))
            })
            .collect()
    }

    fn make(&mut self, wanted: &NewSeries, limit: &SeriesLimit) -> Result<Series, NotMade> {
        if let Some(index) = self.by_identity.get(&wanted.identity) {
            return Ok(self.series[*index].clone());
        }
        limit.admit(wanted)?;
        if !self.kept.iter().any(|kept| kept.step() == wanted.spec.step) {
            return Err(NotMade::NoRetention);
        }
        if self.series.len() as i64 >= limit.series {
            return Err(NotMade::TooMany);
        }
        let made = Series {
            id: self.series.len() as i64 + 1,
            identity: wanted.identity.clone(),
            spec: wanted.spec,
            xff: wanted.xff,
            rrd: wanted.rrd.clone(),
        };
        self.by_identity.insert(made.identity.clone(), self.series.len());
        self.series.push(made.clone());
        Ok(made)
    }
}

/// All pieces of a batch combined.
fn together(source: &mut dyn Source) -> Changes {
    let mut all = Changes::default();
    source.restart();
    while let Some(piece) = source.next() {
        for (step_us, batch) in &piece.slots {
            let known = all.slots.entry(*step_us).or_default();
            batch.iter().for_each(|(key, delta)| known.add(*key, *delta));
        }
        all.lanes.extend(piece.lanes.iter().map(|(lane, change)| (*lane, change.clone())));
        all.rrd.extend(piece.rrd.iter().cloned());
        all.requests.extend(&piece.requests);
    }
    all
}

impl Store for Memory {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError> {
        Ok(self.kept.iter().map(|kept| kept.retention).collect())
    }

    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError> {
        self.kept = plan::retained(&self.kept, retentions);
        Ok(())
    }

    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError> {
        Ok(wanted.iter().map(|wanted| self.make(wanted, limit)).collect())
    }

    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError> {
        let known = self.by_identity.iter().filter(|(identity, _)| selector.matches(identity));
        Ok(known.map(|(_, index)| self.series[*index].clone()).collect())
    }

    fn series_count(&mut self) -> Result<i64, StoreError> {
        Ok(self.series.len() as i64)
    }

    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError> {
        let number = |name: &&str| {
            let known = self.lanes.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                self.lanes.push((*name).to_owned());
                self.lanes.len() - 1
            }) as i32
        };
        Ok(names.iter().map(number).collect())
    }

    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError> {
        let state = |lane| self.lane_states.get(lane).cloned().unwrap_or_default();
        Ok(lanes.iter().map(state).collect())
    }

    fn rrd(&mut self, series: i64) -> Result<Option<rrd::Rrd>, StoreError> {
        Ok(self.rrd.get(&series).cloned())
    }

    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError> {
        Ok(self.writers.get(&writer).copied().unwrap_or(0))
    }

    fn has_request(&mut self, key: Writer) -> Result<bool, StoreError> {
        Ok(self.requests.contains_key(&key))
    }

    fn forget_requests(&mut self, until_us: i64) -> Result<u64, StoreError> {
        let is_old = |at_us: i64| day_of(at_us) < day_of(until_us);
        let old = self.requests.iter().filter(|(_, at_us)| is_old(**at_us)).map(|(key, _)| *key);
        let old: Vec<Writer> = old.take(FORGOTTEN_MAX as usize).collect();
        old.iter().for_each(|key| _ = self.requests.remove(key));
        Ok(old.len() as u64)
    }

    fn known_times(&mut self) -> Result<KnownTimes, StoreError> {
        let mut all = Vec::new();
        for kept in &self.kept {
            let step_us = kept.step().us();
            let slots = self.slots.get(&step_us).into_iter().flat_map(BTreeMap::keys);
            let filled: BTreeSet<i64> = slots.map(|key| kept.partition_of(key.slot_us)).collect();
            let made = self.partitions.get(&step_us).into_iter().flatten().copied();
            let partitions = filled.iter().copied().chain(made).collect();
            all.push(RetentionTimes::new(*kept, &partitions, |start_us| {
                Ok::<_, StoreError>(filled.contains(&start_us))
            })?);
        }
        Ok(known_times(&all))
    }

    fn apply_all(
        &mut self,
        claims: &[(Writer, u64)],
        source: &mut dyn Source,
    ) -> Result<BatchResult, StoreError> {
        let mut new = 0;
        for (writer, seq) in claims {
            let last = self.writers.get(writer).copied().unwrap_or(0);
            if *seq > last + 1 {
                return Err(StoreError::Missing { writer: *writer, sent: *seq, last });
            }
            new += usize::from(*seq > last);
        }
        match new {
            0 if !claims.is_empty() => return Ok(BatchResult::Before),
            new if new < claims.len() => return Err(StoreError::Overtaken),
            _ => {}
        }
        let changes = together(source);
        if changes.requests.iter().any(|request| self.requests.contains_key(&request.key)) {
            return Err(StoreError::Overtaken);
        }
        let stale = changes.lanes.iter().filter_map(|(lane, change)| {
            let now = self.lane_states.get(lane).cloned().unwrap_or_default();
            (now != change.before).then_some((*lane, now))
        });
        let lanes: Vec<_> = stale.collect();
        if !lanes.is_empty() {
            return Err(StoreError::Stale { lanes });
        }
        let plan = Plan::new(&changes, &self.kept)?;
        let changed = self.changed(&plan)?;
        self.writers.extend(claims.iter().copied());
        self.requests.extend(changes.requests.iter().map(|request| (request.key, request.at_us)));
        for (step_us, rows) in changed {
            self.slots.entry(step_us).or_default().extend(rows);
        }
        for part in &plan.parts {
            self.partitions.entry(part.kept.step().us()).or_default().extend(part.partitions());
        }
        for (lane, change) in &changes.lanes {
            self.lane_states.insert(*lane, change.after.clone());
        }
        for change in &changes.rrd {
            let definition = self.series.iter().find(|s| s.id == change.series);
            if let Some(definition) = definition.and_then(|s| s.rrd.clone()) {
                self.rrd
                    .entry(change.series)
                    .or_insert_with(|| rrd::Rrd::restore(definition, change.state.clone(), []))
                    .advance(change.state.clone(), change.rows.iter().copied());
            }
        }
        Ok(BatchResult::Now { expired: plan.expired })
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError> {
        let level = |id: i64| {
            let known = self.series.iter().find(|s| s.id == id);
            known.is_some_and(|s| s.spec.kind.flavor() == series::Flavor::Level)
        };
        let levels: HashMap<i64, bool> = series.iter().map(|id| (*id, level(*id))).collect();
        let Some(rows) = self.slots.get(&step.us()).filter(|_| from_us < until_us) else {
            return Ok(Vec::new());
        };
        let at = |slot_us| SlotKey { slot_us, series: i64::MIN, lane: i32::MIN };
        let wanted = rows.range(at(from_us)..at(until_us)).filter_map(|(key, row)| {
            let mut row = *row;
            if *levels.get(&key.series)? {
                row.integral = Integral::Area(row.integral.as_f64());
            }
            Some((*key, row))
        });
        Ok(wanted.collect())
    }

    fn scan(
        &mut self,
        step: Step,
        from_us: i64,
        until_us: i64,
        take: &mut Take<'_>,
    ) -> Result<i64, StoreError> {
        let Some(kept) = self.kept.iter().find(|kept| kept.step() == step) else {
            return Ok(i64::MIN);
        };
        let mut of_series: BTreeMap<i64, Gather> = BTreeMap::new();
        for (key, row) in self.in_time(step, from_us, until_us) {
            let slots = of_series.entry(key.series).or_default().slots();
            slots.push(SlotSum::new(key.slot_us, key.lane, row));
        }
        for (series, mut gather) in of_series {
            if gather.give(series, kept.horizon_us, take).is_break() {
                break;
            }
        }
        Ok(kept.horizon_us)
    }

    fn digests(&mut self, step: Step, from_us: i64, until_us: i64) -> Result<Digests, StoreError> {
        let Some(kept) = self.kept.iter().find(|kept| kept.step() == step) else {
            return Ok(Digests::default());
        };
        let mut digests = Digests { horizon_us: kept.horizon_us, spans: BTreeMap::new() };
        let Some((from_us, until_us)) = kept.spans_over(from_us, until_us) else {
            return Ok(digests);
        };
        let mut bytes = Vec::new();
        for (key, row) in self.in_time(step, from_us, until_us) {
            row_bytes(&mut bytes, key, row);
            digests.row(kept, key.slot_us, &bytes);
        }
        Ok(digests)
    }

    fn recorder(&mut self) -> Result<String, StoreError> {
        let made = || {
            // Each state is seeded at random.
            let random = || u128::from(RandomState::new().hash_one(0));
            Writer(random() << 64 | random()).to_string()
        };
        Ok(self.recorder.get_or_insert_with(made).clone())
    }

    fn seal(&mut self, _until_us: i64) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn maintain_while(
        &mut self,
        now_us: i64,
        _goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<MaintenanceResult, StoreError> {
        let mut maintained = MaintenanceResult::default();
        for kept in &mut self.kept {
            kept.horizon_us = kept.horizon_at(now_us);
            let horizon_us = kept.horizon_us;
            let step_us = kept.step().us();
            let partitions = self.partitions.entry(step_us).or_default();
            let before = partitions.len();
            partitions.retain(|start_us| *start_us >= horizon_us);
            maintained.dropped += (before - partitions.len()) as u64;
            let ahead = kept.ahead(now_us);
            maintained.made += ahead.difference(partitions).count() as u64;
            partitions.extend(ahead);
            if let Some(rows) = self.slots.get_mut(&step_us) {
                rows.retain(|key, _| key.slot_us >= horizon_us);
            }
        }
        Ok(maintained)
    }
}
