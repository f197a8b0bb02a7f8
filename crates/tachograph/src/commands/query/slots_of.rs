//! Slots of series in a time range, at the requested or a suitable step.

use std::collections::BTreeMap;

use series::{Accumulator, CombinedSlot, SECOND_US, SlotKey, Step, combine};
use store::{Series, Store};

use crate::failure::Failure;
use crate::flags::series::QueryFlags;

/// Limit on the slots of a series.
const SLOTS_MAX: i64 = 100_000;

/// Round lengths, in seconds.
const NICE_S: [i64; 25] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600,
    43_200, 86_400, 172_800, 345_600, 604_800, 1_209_600, 2_592_000,
];

/// The request. Times are in microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotsRequest {
    pub(super) from_us: Option<i64>,
    pub(super) until_us: Option<i64>,
    pub(super) step_us: Option<i64>,
    pub(super) points: i64,
    /// Whether the number of slots is a limit.
    pub(super) at_most: bool,
    pub(super) xff: Option<f64>,
}

impl SlotsRequest {
    pub(super) fn of(flags: &QueryFlags) -> SlotsRequest {
        SlotsRequest {
            from_us: flags.from,
            until_us: flags.until,
            step_us: flags.step.map(|step| (step.0 / 1_000) as i64),
            points: i64::from(flags.points.max(1)),
            at_most: false,
            xff: flags.xff,
        }
    }
}

/// Where slots come from.
pub(super) trait SlotSource {
    /// The steps of the slots, the shortest first.
    fn steps(&mut self) -> Result<Vec<Step>, Failure>;

    /// The slots of `step` that start at or after `from_us` and before `until_us` (microseconds
    /// since the epoch), ordered by time.
    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, Failure>;

    /// The start of the first of them; `None` without any.
    fn first_us(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Option<i64>, Failure> {
        let rows = self.slots(step, series, from_us, until_us)?;
        Ok(rows.first().map(|(key, _)| key.slot_us))
    }

    /// The start of the first of them and the end of their data; `None` without any. `step` is the
    /// longest, which reaches furthest back.
    fn extent_us(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Option<[i64; 2]>, Failure>;
}

impl SlotSource for dyn Store + '_ {
    fn steps(&mut self) -> Result<Vec<Step>, Failure> {
        Ok(self.retentions()?.into_iter().map(|r| r.step).collect())
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, Failure> {
        Ok(Store::slots(self, step, series, from_us, until_us)?)
    }

    fn extent_us(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Option<[i64; 2]>, Failure> {
        let rows = Store::slots(self, step, series, from_us, until_us)?;
        let last = rows.iter().filter_map(|(_, row)| Some(row.last()?.0)).max();
        Ok(rows.first().zip(last).map(|((key, _), last)| [key.slot_us, last]))
    }
}

/// The result.
pub(super) struct QueryResult {
    /// The length of a slot.
    pub(super) step: Step,
    /// Each series with every slot of the range, in order, including unknown ones.
    pub(super) series: Vec<(Series, Vec<(i64, CombinedSlot)>)>,
}

/// Reads the slots.
pub(super) fn read(
    store: &mut (impl SlotSource + ?Sized),
    wanted: &[Series],
    request: &SlotsRequest,
) -> Result<QueryResult, Failure> {
    let steps: Vec<Step> = store.steps()?;
    let (Some(_), Some(coarsest)) = (steps.first(), steps.last().copied()) else {
        return Err(Failure::new("the record has no series yet; 'tachograph import' adds some"));
    };
    let ids: Vec<i64> = wanted.iter().map(|series| series.id).collect();
    let (from_us, until_us) = span(store, &ids, coarsest, request)?;
    let (base, step) = choose(store, &ids, &steps, from_us, until_us, request)?;
    let first_us = step.slot_of(from_us);
    let count = (until_us - first_us).div_euclid(step.us()) + 1;
    if count > SLOTS_MAX {
        return Err(Failure::new(format!(
            "that would be {count} slots, but the limit is {SLOTS_MAX}; use a longer --step or a \
             shorter range"
        )));
    }
    let rows = store.slots(base, &ids, first_us, until_us)?;
    let mut by_slot: BTreeMap<(i64, i64, i32), Accumulator> = BTreeMap::new();
    for (key, row) in rows {
        let key = (key.series, step.slot_of(key.slot_us), key.lane);
        by_slot.entry(key).or_default().merge(&row);
    }
    // Without a requested start, it is the first known slot.
    let first_known_us = by_slot.keys().map(|(_, at_us, _)| *at_us).min().unwrap_or(first_us);
    let skipped =
        if request.from_us.is_some() { 0 } else { (first_known_us - first_us) / step.us() };
    let series = wanted.iter().map(|series| {
        let slots = (skipped..count).map(|i| first_us + i * step.us()).filter(|at| *at < until_us);
        let slots = slots.map(|at_us| {
            let lanes = by_slot.range((series.id, at_us, i32::MIN)..=(series.id, at_us, i32::MAX));
            let xff = request.xff.unwrap_or(series.xff);
            let flavor = series.spec.kind.flavor();
            (at_us, combine(flavor, step, xff, lanes.map(|(_, row)| row)))
        });
        (series.clone(), slots.collect())
    });
    Ok(QueryResult { step, series: series.collect() })
}

/// The requested range, or that of the data.
fn span(
    store: &mut (impl SlotSource + ?Sized),
    ids: &[i64],
    coarsest: Step,
    request: &SlotsRequest,
) -> Result<(i64, i64), Failure> {
    let (mut from_us, mut until_us) = (request.from_us, request.until_us);
    if from_us.is_none() || until_us.is_none() {
        let begin = from_us.map_or(i64::MIN, |us| coarsest.slot_of(us));
        let known = store.extent_us(coarsest, ids, begin, until_us.unwrap_or(i64::MAX))?;
        from_us = from_us.or(known.map(|[first, _]| first));
        until_us = until_us.or(known.map(|[_, end]| end.max(from_us.unwrap_or(end) + 1)));
    }
    match (from_us, until_us) {
        (Some(from_us), Some(until_us)) if from_us < until_us => Ok((from_us, until_us)),
        (Some(_), Some(_)) => Err(Failure::new("--until must be after --from")),
        _ => Err(Failure::new("no data in that range; omit --from and --until")),
    }
}

/// The retention to read, and the step to show, a multiple of the retention's.
///
/// Expired fine slots are in the coarser ones, as is history that was never finer, so the finest
/// retention that covers the start is used.
fn choose(
    store: &mut (impl SlotSource + ?Sized),
    ids: &[i64],
    steps: &[Step],
    from_us: i64,
    until_us: i64,
    request: &SlotsRequest,
) -> Result<(Step, Step), Failure> {
    let coarsest = steps.last().copied().ok_or_else(|| Failure::new("no retention"))?;
    let wanted = match request.step_us {
        Some(us) => Step::from_micros(us),
        None => {
            let us = nice((until_us - from_us) / request.points, request.at_most);
            Step::from_micros(us.max(steps[0].us()))
        }
    };
    let wanted =
        wanted.ok_or_else(|| Failure::new("--step must be from a microsecond to ten years"))?;
    let known = first_known(store, ids, coarsest, from_us, until_us)?;
    for base in steps.iter().rev().filter(|base| base.divides(wanted)) {
        let first = first_known(store, ids, *base, from_us, until_us)?;
        let reaches = match (first, known) {
            (Some(first), Some(known)) => coarsest.slot_of(first) <= known,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        if reaches {
            return Ok((*base, wanted));
        }
    }
    if let Some(us) = request.step_us {
        return Err(Failure::new(format!(
            "no {} s resolution is stored; omit --step, or use a multiple of {}",
            us as f64 / 1e6,
            steps
                .iter()
                .map(|s| format!("{} s", s.us() as f64 / 1e6))
                .collect::<Vec<_>>()
                .join(" or ")
        )));
    }
    let base = steps.iter().copied().find(|base| {
        let first = first_known(store, ids, *base, from_us, until_us).ok().flatten();
        first.zip(known).is_some_and(|(first, known)| coarsest.slot_of(first) <= known)
    });
    let base = base.unwrap_or(coarsest);
    Ok((base, base))
}

/// The round length nearest to `us` by ratio; not a shorter one if the number of slots is a limit.
fn nice(us: i64, at_most: bool) -> i64 {
    let all = || NICE_S.iter().map(|s| s * SECOND_US);
    let ratio = |nice: i64| (nice as f64 / us.max(1) as f64).ln().abs();
    match at_most {
        true => all().find(|nice| *nice >= us).unwrap_or(us),
        false => all().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b))).unwrap_or(us),
    }
}

fn first_known(
    store: &mut (impl SlotSource + ?Sized),
    ids: &[i64],
    step: Step,
    from_us: i64,
    until_us: i64,
) -> Result<Option<i64>, Failure> {
    store.first_us(step, ids, step.slot_of(from_us), until_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_sixty_points_gave_eleven_rows() {
        // 60 to 90 days: a week was the next usual length above a day.
        let day = 86_400 * SECOND_US;
        for days in 1..400 {
            let rows = days * day / nice(days * day / 60, false);
            assert!((40..=90).contains(&rows) || days > 240, "{rows} rows for {days} days");
            assert!(days * day / nice(days * day / 60, true) <= 60);
        }
    }
}
