//! Slots of series for a stretch of time, at a step that was asked for or suits it.

use std::collections::BTreeMap;

use series::{Accumulator, Combined, SECOND_US, Step, combine};
use slots::{Series, Store};

use crate::failure::Failure;
use crate::flags::series::QueryFlags;

/// The most slots of a series.
const SLOTS_MAX: i64 = 100_000;

/// Lengths that people think in, in seconds.
const NICE_S: [i64; 22] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600,
    43_200, 86_400, 604_800, 2_592_000,
];

/// What is asked for. Times in microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) from_us: Option<i64>,
    pub(super) until_us: Option<i64>,
    pub(super) step_us: Option<i64>,
    pub(super) points: i64,
    pub(super) xff: Option<f64>,
}

impl Request {
    pub(super) fn of(flags: &QueryFlags) -> Request {
        Request {
            from_us: flags.from,
            until_us: flags.until,
            step_us: flags.step.map(|step| (step.0 / 1_000) as i64),
            points: i64::from(flags.points.max(1)),
            xff: flags.xff,
        }
    }
}

/// What was found.
pub(super) struct Found {
    /// The length of a slot.
    pub(super) step: Step,
    /// Each series with every slot of the time, in order; those of which nothing is known included.
    pub(super) series: Vec<(Series, Vec<(i64, Combined)>)>,
}

/// Reads the slots.
pub(super) fn read(
    store: &mut dyn Store,
    wanted: &[Series],
    request: &Request,
) -> Result<Found, Failure> {
    let steps: Vec<Step> = store.retentions()?.into_iter().map(|r| r.step).collect();
    let (Some(_), Some(coarsest)) = (steps.first(), steps.last().copied()) else {
        return Err(Failure::new("the record has no series yet; 'tachograph import' makes some"));
    };
    let ids: Vec<i64> = wanted.iter().map(|series| series.id).collect();
    let (from_us, until_us) = span(store, &ids, coarsest, request)?;
    let (base, step) = choose(store, &ids, &steps, (from_us, until_us), request)?;
    let first_us = step.slot_of(from_us);
    let count = (until_us - first_us).div_euclid(step.us()) + 1;
    if count > SLOTS_MAX {
        return Err(Failure::new(format!(
            "that would be {count} slots, and {SLOTS_MAX} are the most; give a longer --step or less time"
        )));
    }
    let rows = store.slots(base, &ids, first_us, until_us)?;
    let mut by_slot: BTreeMap<(i64, i64, i32), Accumulator> = BTreeMap::new();
    for (key, row) in rows {
        let key = (key.series, step.slot_of(key.slot_us), key.lane);
        by_slot.entry(key).or_default().merge(&row);
    }
    // Unless a beginning was asked for, it is the first slot of which anything is known.
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
    Ok(Found { step, series: series.collect() })
}

/// The time that is asked for, or that is known.
fn span(
    store: &mut dyn Store,
    ids: &[i64],
    coarsest: Step,
    request: &Request,
) -> Result<(i64, i64), Failure> {
    let (mut from_us, mut until_us) = (request.from_us, request.until_us);
    if from_us.is_none() || until_us.is_none() {
        let begin = from_us.map_or(i64::MIN, |us| coarsest.slot_of(us));
        let rows = store.slots(coarsest, ids, begin, until_us.unwrap_or(i64::MAX))?;
        let first = rows.first().map(|(key, _)| key.slot_us);
        let last = rows.iter().filter_map(|(_, row)| Some(row.last()?.0)).max();
        from_us = from_us.or(first);
        until_us = until_us.or(last.map(|us| us.max(from_us.unwrap_or(us) + 1)));
    }
    match (from_us, until_us) {
        (Some(from_us), Some(until_us)) if from_us < until_us => Ok((from_us, until_us)),
        (Some(_), Some(_)) => Err(Failure::new("--until must be after --from")),
        _ => Err(Failure::new("nothing is known of that time; leave --from and --until out")),
    }
}

/// The retention to read, and the step to show, of which the retention's is a divisor.
///
/// Fine slots that have expired are in the coarser ones, and so is history that was
/// never finer: the finest retention that knows the beginning is read.
fn choose(
    store: &mut dyn Store,
    ids: &[i64],
    steps: &[Step],
    (from_us, until_us): (i64, i64),
    request: &Request,
) -> Result<(Step, Step), Failure> {
    let coarsest = steps.last().copied().ok_or_else(|| Failure::new("no retention"))?;
    let wanted = match request.step_us {
        Some(us) => Step::from_micros(us),
        None => {
            let us = (until_us - from_us) / request.points;
            let nice = NICE_S.iter().map(|s| s * SECOND_US).find(|nice_us| *nice_us >= us);
            Step::from_micros(nice.unwrap_or(us).max(steps[0].us()))
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
            "no slots of {} s are kept of that time; leave --step out, or give a multiple of {}",
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

fn first_known(
    store: &mut dyn Store,
    ids: &[i64],
    step: Step,
    from_us: i64,
    until_us: i64,
) -> Result<Option<i64>, Failure> {
    let rows = store.slots(step, ids, step.slot_of(from_us), until_us)?;
    Ok(rows.first().map(|(key, _)| key.slot_us))
}
