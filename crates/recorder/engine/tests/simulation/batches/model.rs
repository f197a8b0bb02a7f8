//! What the messages that a store has mean, computed without a journal, batches, lanes or windows:
//! the points of a series in order of time, the counts of a slot, the values of a window.

use std::collections::{BTreeMap, BTreeSet};

use engine::ArrivalTimes;
use formats::RefusalCounts;
use series::{Kind, Lane, Point, Reading, Refusal, SECOND_US, Spec, Step};

use super::messages::{Said, Sample, Sent};

/// The step of all series.
pub(crate) const STEP_US: i64 = 10 * SECOND_US;

/// How late a point may be, and how far in the future.
const LATENESS_US: i64 = 600 * SECOND_US;
pub(super) const FUTURE_US: i64 = 600 * SECOND_US;

/// The slots of a series by their starts.
pub(crate) type Rows = BTreeMap<i64, Row>;

/// What is known about a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) integral: f64,
    pub(crate) covered_us: i64,
    /// Number of updates; those of windows are not compared.
    pub(crate) n: Option<i64>,
}

impl Row {
    /// A slot of which nothing is known.
    pub(crate) const NOTHING: Row = Row { integral: 0.0, covered_us: 0, n: Some(0) };

    pub(crate) fn add(&mut self, other: Row) {
        self.integral += other.integral;
        self.covered_us += other.covered_us;
        self.n = self.n.zip(other.n).map(|(a, b)| a + b);
    }

    /// Whether two rows tell the same; areas are doubles.
    pub(crate) fn is_like(&self, other: &Row) -> bool {
        let largest = self.integral.abs().max(other.integral.abs()).max(1.0);
        let is_near = (self.integral - other.integral).abs() <= 1e-9 * largest;
        let is_same_n = self.n.zip(other.n).is_none_or(|(a, b)| a == b);
        is_near && self.covered_us == other.covered_us && is_same_n
    }
}

/// The slots of a coarser step.
pub(crate) fn coarsened(rows: &Rows, step_us: i64) -> Rows {
    let mut coarse = Rows::new();
    for (slot_us, row) in rows {
        let slot_us = slot_us - slot_us.rem_euclid(step_us);
        coarse.entry(slot_us).and_modify(|known| known.add(*row)).or_insert(*row);
    }
    coarse
}

/// A window of StatsD.
#[derive(Debug, Default)]
struct Window {
    hits: i64,
    times: Vec<u64>,
    users: BTreeSet<u64>,
}

/// A series of points.
#[derive(Debug)]
struct Points {
    is_total: bool,
    heartbeat_us: i64,
    points: BTreeMap<i64, Option<f64>>,
    /// What a process remembers of them at least.
    lane: Lane,
    /// Whether a clock was ahead for so long that points before that are forgotten.
    is_forgotten: bool,
}

/// What the messages mean.
#[derive(Debug, Default)]
pub(crate) struct Model {
    points: BTreeMap<&'static str, Points>,
    counts: BTreeMap<&'static str, Rows>,
    windows: BTreeMap<i64, Window>,
    /// What the series of fractions holds in all.
    pub(crate) fractions: f64,
}

impl Model {
    /// Adds a message after all those before it; returns what of it is refused.
    pub(crate) fn take(&mut self, sent: &Sent) -> RefusalCounts {
        let mut refused = RefusalCounts::default();
        let arrived = sent.arrived;
        let arrival_us = arrived.at_us;
        let until_us = arrived.latest_us.saturating_add(FUTURE_US);
        let window_us = arrival_us - arrival_us.rem_euclid(STEP_US);
        let is_future = |us: i64| us > until_us;
        let gauge = |series, at_us, value| Sample {
            series,
            is_total: false,
            heartbeat_us: 2 * STEP_US,
            at_us,
            value: Some(value),
            since_us: None,
        };
        for said in &sent.said {
            let taken = match *said {
                Said::Unreadable => {
                    refused.add(sent.given.format.unreadable().1.into());
                    continue;
                }
                Said::Point(Sample { is_total: true, value: Some(value), .. }) if value < 0 => {
                    Err(Refusal::NegativeCounter)
                }
                Said::Point(point) if is_future(point.at_us) => Err(Refusal::Future),
                Said::Count { end_us, .. } if is_future(end_us) => Err(Refusal::Future),
                Said::Point(point) => self.point(arrived, point),
                Said::Now => self.point(arrived, gauge("now", arrival_us, 7)),
                Said::Level(level) => self.point(arrived, gauge("gauge", arrival_us, level)),
                Said::Change(change) => {
                    let points = self.points.get("gauge");
                    // A change is not one of a value that a wrong clock has left in the future.
                    let newest =
                        points.and_then(|known| known.points.range(..=until_us).next_back());
                    let (newest_us, level) = newest.map_or((i64::MIN, 0.0), |(at_us, level)| {
                        (*at_us, level.unwrap_or_default())
                    });
                    let level = level as i64 + change;
                    self.point(arrived, gauge("gauge", arrival_us.max(newest_us), level))
                }
                Said::Count { series, start_us, .. } => {
                    let one = Row { integral: 1.0, covered_us: STEP_US, n: Some(1) };
                    let rows = self.counts.entry(series).or_default();
                    rows.entry(start_us).and_modify(|row| row.add(one)).or_insert(one);
                    Ok(())
                }
                Said::Hit => {
                    self.windows.entry(window_us).or_default().hits += 1;
                    Ok(())
                }
                Said::Time(ms) => {
                    self.windows.entry(window_us).or_default().times.push(ms);
                    Ok(())
                }
                Said::User(user) => {
                    self.windows.entry(window_us).or_default().users.insert(user);
                    Ok(())
                }
                Said::Fraction => {
                    self.fractions += 2.5;
                    Ok(())
                }
            };
            if let Err(refusal) = taken {
                refused.add(refusal.into());
            }
        }
        refused
    }

    fn point(&mut self, arrived: ArrivalTimes, point: Sample) -> Result<(), Refusal> {
        let Sample { series, is_total, heartbeat_us, at_us, value, since_us } = point;
        let known = self.points.entry(series).or_insert_with(|| Points {
            is_total,
            heartbeat_us,
            points: BTreeMap::new(),
            lane: Lane::default(),
            is_forgotten: false,
        });
        let until_us = arrived.latest_us.saturating_add(FUTURE_US);
        let newest_us = known.points.range(..=until_us).next_back().map(|(us, _)| *us);
        if let Some(since_us) = since_us
            && newest_us.is_none_or(|newest_us| newest_us < since_us)
            && known.remember(arrived, since_us, Some(0)).is_ok()
        {
            known.points.insert(since_us, Some(0.0));
        }
        known.remember(arrived, at_us, value)?;
        known.points.insert(at_us, value.map(|value| value as f64));
        Ok(())
    }

    /// The slots of every series with an exact content, by its name. Windows have one if every
    /// message arrived after those before it (`in_order`), and levels of windows if none was cut in
    /// two.
    pub(crate) fn rows(&self, in_order: bool, is_cut: bool) -> BTreeMap<String, Rows> {
        let points = self
            .points
            .iter()
            .filter(|(name, points)| !points.is_forgotten && (in_order || **name != "gauge"));
        let points = points.map(|(name, points)| (*name, points.rows()));
        let counts = self.counts.iter().map(|(name, rows)| (*name, rows.clone()));
        let mut all: BTreeMap<String, Rows> =
            points.chain(counts).map(|(name, rows)| (name.to_owned(), rows)).collect();
        for (start_us, window) in self.windows.iter().filter(|_| in_order) {
            let mut put = |name: &str, integral: f64| {
                let row = Row { integral, covered_us: STEP_US, n: None };
                all.entry(name.to_owned()).or_default().insert(*start_us, row);
            };
            put("hits:count", window.hits as f64);
            put("times:n", window.times.len() as f64);
            if is_cut {
                continue;
            }
            let area = |level: f64| level * (STEP_US / SECOND_US) as f64;
            let sum: u64 = window.times.iter().sum();
            let bounds = window.times.iter().min().zip(window.times.iter().max());
            if let Some((min, max)) = bounds {
                put("times:mean", area(sum as f64 / window.times.len() as f64));
                put("times:min", area(*min as f64));
                put("times:max", area(*max as f64));
            }
            put("users:distinct", area(window.users.len() as f64));
        }
        all
    }

    /// How many times StatsD has counted one.
    pub(crate) fn hits(&self) -> i64 {
        self.windows.values().map(|window| window.hits).sum()
    }
}

impl Points {
    /// Whether a point is late: by the newest one, unless that is in the future of its arrival.
    fn remember(
        &mut self,
        arrived: ArrivalTimes,
        at_us: i64,
        value: Option<i64>,
    ) -> Result<(), Refusal> {
        let ArrivalTimes { at_us: arrival_us, latest_us } = arrived;
        let Points { is_total, heartbeat_us, lane, is_forgotten, .. } = self;
        let kind = if *is_total { Kind::Total } else { Kind::Gauge };
        let step = Step::from_micros(STEP_US).ok_or(Refusal::WrongKind)?;
        let mut spec = Spec { heartbeat_us: *heartbeat_us, ..Spec::new(kind, step) };
        spec.lateness_us = LATENESS_US;
        let (first, newest) = (lane.points().next().copied(), lane.newest().copied());
        if let (Some(first), Some(newest)) = (first, newest)
            && newest.at_us > latest_us + FUTURE_US
        {
            spec.lateness_us += newest.at_us - arrival_us;
            if first.at_us > latest_us + FUTURE_US {
                *is_forgotten |= lane.has_forgotten();
                lane.begin_before();
            }
        }
        let reading = match value {
            None => Reading::Unknown,
            Some(value) => Reading::Level(value as f64),
        };
        lane.push(&spec, Point { at_us, reading }, |_, _| ()).map(|_| ())
    }

    /// Each point covers the time since the one before it, unless that is too long, or one of the two
    /// has no value, or a total has become smaller.
    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        let mut add = |slot_us: i64, row: Row| {
            rows.entry(slot_us).or_insert(Row::NOTHING).add(row);
        };
        let slot_of = |us: i64| us - us.rem_euclid(STEP_US);
        let mut before: Option<(i64, Option<f64>)> = None;
        for (at_us, value) in &self.points {
            if value.is_some() {
                add(slot_of(at_us - 1), Row { n: Some(1), ..Row::NOTHING });
            }
            let known = before.replace((*at_us, *value));
            let Some(((from_us, Some(from)), to)) = known.zip(*value) else { continue };
            let us = at_us - from_us;
            if us > self.heartbeat_us || self.is_total && to < from {
                continue;
            }
            let mut at = from_us;
            while at < *at_us {
                let end_us = (slot_of(at) + STEP_US).min(*at_us);
                // A count is split in whole parts, each up to the next slot.
                let upto = |until_us: i64| (to - from) as i64 * (until_us - from_us) / us;
                let integral = match self.is_total {
                    true => (upto(end_us) - upto(at)) as f64,
                    false => to * (end_us - at) as f64 / SECOND_US as f64,
                };
                add(slot_of(at), Row { integral, covered_us: end_us - at, n: Some(0) });
                at = end_us;
            }
        }
        rows
    }
}
