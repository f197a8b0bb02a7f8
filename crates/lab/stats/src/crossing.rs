//! The rate at which conditions stop holding, from trials at several rates.
//!
//! A condition on shares holds while at most a given share of the requests is bad: slower than a
//! limit, or failed. The share at rate r is modelled as logit p = a + b·ln r near the limit, which
//! follows the tail of a queue (its logarithm is nearly linear in the rate) without assuming one.
//! Bad requests come in bursts, so their number varies more than a binomial one; the variance is
//! that of a negative binomial, m + m²/K, so that no trial weighs more than a few independent
//! requests would (McCullagh & Nelder, Generalized Linear Models, 1989, chapter 9: a wrong variance
//! costs precision, not consistency). A condition on a level, such as CPU use, is a straight line
//! between logarithms. The rate is where the first of the conditions crosses its limit.
//!
//! Rates of trials follow the estimate so far, as in Wu's sequential design (Efficient sequential
//! designs with binary data, JASA 80, 1985): see [`Levels`](crate::Levels).
//!
//! [`capacity`] gives the estimate with its interval. [`pseudo_values`] are those of the jackknife (Tukey
//! 1958; Miller, The jackknife – a review, Biometrika 61, 1974), one number per block, from which the
//! number of blocks is planned and verdicts get their second opinion as for every other metric.

use std::collections::{BTreeMap, BTreeSet};

use crate::Estimate;
use crate::stalls::Margins;

/// A trial at one rate, and what it measured for each condition.
#[derive(Clone, Debug, PartialEq)]
pub struct RatePoint {
    /// The block.
    pub block: u32,
    /// Offered requests per second.
    pub rate_per_s: f64,
    /// Requests answered in the window as a share of those due in it. Below one, the queue grew.
    pub answered: f64,
    /// One measure per condition.
    pub measures: Vec<Measure>,
}

/// What a trial measured for a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// `bad` of `all` requests did not meet it.
    Share {
        /// Those that did not.
        bad: f64,
        /// All of them.
        all: f64,
    },
    /// A level, such as the share of CPU time in use.
    Level(f64),
    /// It could not be measured.
    Unknown,
}

impl Measure {
    /// Whether the condition holds at this limit; an unknown measure holds.
    pub fn holds(&self, limit: f64) -> bool {
        match *self {
            Measure::Share { bad, all } => bad <= limit * all,
            Measure::Level(level) => level <= limit,
            Measure::Unknown => true,
        }
    }
}

/// Where conditions stop holding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// The logarithm of the rate.
    pub log_rate: f64,
    /// The first condition that stops holding there.
    pub condition: usize,
    /// How steeply the logit of its share, or the logarithm of its level, rises with ln rate.
    pub slope: f64,
}

/// Slopes outside this range are not believed. The steepest is that of a share which rises by a
/// factor of e within 0.07% of the rate.
const SLOPES: [f64; 2] = [0.5, 1500.0];
/// The dispersion K of the negative binomial: about how many independent bursts a trial contains at most.
const DISPERSION: f64 = 20.0;
/// The crossing may lie this far beyond the lowest and the highest rate of the trials, on the log
/// scale.
const BEYOND: f64 = 0.25;
/// Ends of an interval further away than this are no bounds.
const FAR: f64 = 1.0;
/// Steps of Fisher scoring; it converges within ten, unless nothing determines the slope.
const STEPS: usize = 60;
/// Nothing is estimated if all trials together would contain fewer bad requests than this at the limit:
/// in the simulation, 13 made capacities 9% too high, and one interval in nine missed them. The number
/// does not depend on what the trials showed.
const BAD_MIN: f64 = 40.0;
/// The skewness of a sum of bursts, as a multiple of its standard deviation ÷ mean. With exponential
/// sizes it is 1.5; the bursts of a nearly saturated queue come in bursts themselves, and the
/// simulation (`prove capacity-simulation`) needs this much for its coverage.
const BURST_SKEW: f64 = 4.0;

/// Where the first condition crosses its limit; `None` if all hold at every rate, or if the trials do
/// not determine it. There is one limit for each measure of a trial.
pub fn crossing(points: &[&RatePoint], limits: &[f64]) -> Option<Crossing> {
    let of = |(condition, limit): (usize, &f64)| {
        let curve = Curve::of(points, condition, *limit)?;
        let (log_rate, slope) = curve.fit()?;
        Some(Crossing { log_rate, condition, slope })
    };
    let each = limits.iter().enumerate().filter_map(of);
    each.min_by(|a, b| a.log_rate.total_cmp(&b.log_rate))
}

/// The rate that is answered where the first condition crosses its limit, with its interval, and the
/// crossing.
///
/// The variance of the estimate is the largest of three: from how the scores of blocks differ, from
/// how those of trials differ (both sandwich estimators: White, Maximum likelihood estimation of
/// misspecified models, Econometrica 50, 1982), and from the size of bursts in all trials together
/// (Pearson's dispersion). The interval reaches further down than up: a few bursts are most often
/// fewer and smaller than expected, so that a capacity is more often estimated too high, and seems
/// more certain then. The lower end allows for that skewness by the term of Cornish and Fisher that
/// Hall gives for studentised means (The Bootstrap and Edgeworth Expansion, 1992, section 2.6).
///
/// A queue that is still growing at the end of a short trial has not reached the limit yet, although
/// it would; such a rate is corrected to what the server answered. Where the queue does not grow, both
/// are equal.
///
/// `None` without a crossing, or if all trials together would contain fewer than 40 bad requests at the
/// limit.
///
/// `critical` is the critical value of Student's t, or the larger one of a person who has seen the
/// data.
pub fn capacity(
    points: &[RatePoint],
    limits: &[f64],
    critical: f64,
) -> Option<(Estimate, Crossing)> {
    let all: Vec<&RatePoint> = points.iter().collect();
    let found = crossing(&all, limits)?;
    let at_limit = |point: &RatePoint| match point.measures[found.condition] {
        Measure::Share { all, .. } => all * limits[found.condition],
        Measure::Level(_) | Measure::Unknown => BAD_MIN,
    };
    if points.iter().map(at_limit).sum::<f64>() < BAD_MIN {
        return None;
    }
    let ends = limits.iter().enumerate().filter_map(|(condition, limit)| {
        let curve = Curve::of(&all, condition, *limit)?;
        let (at, slope) = curve.fit()?;
        let margins = curve.margins(at, slope, critical);
        // Far outside the rates that were tried, the curve says nothing.
        let [lowest, highest] = curve.range;
        let (low, high) = (at - margins.below, at + margins.above);
        Some([
            if low < lowest - FAR { f64::NEG_INFINITY } else { low },
            if high > highest + FAR { f64::INFINITY } else { high },
        ])
    });
    let [low, high] =
        ends.fold([f64::INFINITY; 2], |[l, h], [low, high]| [l.min(low), h.min(high)]);
    let (answered, error) = answered_at(&all, &found);
    let widened = |end: f64| ((end - found.log_rate).powi(2) + (critical * error).powi(2)).sqrt();
    let value = found.log_rate + answered;
    let estimate = Estimate {
        value: value.exp(),
        low: (value - widened(low)).exp(),
        high: (value + widened(high)).exp(),
    };
    Some((estimate, found))
}

/// A pseudo-value for each block, whose mean is about the logarithm of the capacity, `None` without a
/// crossing. Blocks without which there is no crossing get that of all.
pub fn pseudo_values(points: &[RatePoint], limits: &[f64]) -> Option<BTreeMap<u32, f64>> {
    let all: Vec<&RatePoint> = points.iter().collect();
    let blocks: BTreeSet<u32> = points.iter().map(|point| point.block).collect();
    let log_capacity = |points: &[&RatePoint]| {
        let found = crossing(points, limits)?;
        Some(found.log_rate + answered_at(points, &found).0)
    };
    let whole = log_capacity(&all)?;
    let n = blocks.len() as f64;
    let value = |block: &u32| {
        let others: Vec<&RatePoint> = points.iter().filter(|p| p.block != *block).collect();
        (*block, n * whole - (n - 1.0) * log_capacity(&others).unwrap_or(whole))
    };
    Some(blocks.iter().map(value).collect())
}

/// The logarithm of the share of requests that is answered at a crossing, and its standard error.
fn answered_at(points: &[&RatePoint], at: &Crossing) -> (f64, f64) {
    let answered: Vec<(f64, f64)> =
        points.iter().map(|point| (point.rate_per_s.ln(), point.answered.max(0.01).ln())).collect();
    let (slope, mean_x, mean_y) = line(&answered);
    let residual = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
    let n = answered.len() as f64;
    let variance = answered.iter().map(residual).sum::<f64>() / (n - 2.0).max(1.0);
    (mean_y + slope * (at.log_rate - mean_x), (variance / n).sqrt())
}

/// The straight line through points by least squares: slope, and the means through which it goes.
fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len().max(1) as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let sxx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (if sxx > 0.0 { sxy / sxx } else { 0.0 }, mean_x, mean_y)
}

/// A condition's measures by ln rate.
struct Curve {
    points: Vec<CurvePoint>,
    /// What the measures are at the crossing: a logit of a share, or a logarithm of a level.
    at_limit: f64,
    /// The lowest and the highest ln rate.
    range: [f64; 2],
}

struct CurvePoint {
    block: u32,
    x: f64,
    /// The number of bad requests, or the logarithm of the level.
    y: f64,
    /// All requests; `None` for a level.
    all: Option<f64>,
}

/// What is expected of a point, how it changes with its place on the curve, and its weight.
struct ExpectedValue {
    mean: f64,
    by_place: f64,
    weight: f64,
}

impl CurvePoint {
    fn expected(&self, place: f64) -> ExpectedValue {
        let Some(all) = self.all else {
            return ExpectedValue { mean: place, by_place: 1.0, weight: 1.0 };
        };
        let p = 1.0 / (1.0 + (-place).exp());
        let v = (all * p * (1.0 - p)).max(1e-9);
        // Divided by the variance v·(1 + v/K) of the negative binomial.
        ExpectedValue { mean: all * p, by_place: v, weight: 1.0 / (v * (1.0 + v / DISPERSION)) }
    }
}

impl Curve {
    fn of(points: &[&RatePoint], condition: usize, limit: f64) -> Option<Curve> {
        let mut curve = Curve {
            points: Vec::new(),
            at_limit: limit.ln(),
            range: [f64::INFINITY, f64::NEG_INFINITY],
        };
        for point in points {
            let (block, x) = (point.block, point.rate_per_s.ln());
            let [low, high] = curve.range;
            curve.range = [low.min(x), high.max(x)];
            match *point.measures.get(condition)? {
                Measure::Share { bad, all } if all > 0.0 => {
                    curve.at_limit = (limit / (1.0 - limit)).ln();
                    curve.points.push(CurvePoint { block, x, y: bad, all: Some(all) });
                }
                Measure::Level(level) if level > 0.0 => {
                    curve.points.push(CurvePoint { block, x, y: level.ln(), all: None });
                }
                _ => {}
            }
        }
        (curve.points.len() > 1 && curve.is_determined()).then_some(curve)
    }

    /// Whether there are bad requests and good ones.
    fn is_determined(&self) -> bool {
        let [bad, all] = self.points.iter().fold([0.0, 0.0], |[bad, all], point| {
            point.all.map_or([bad, all], |of| [bad + point.y, all + of])
        });
        all == 0.0 || (bad > 0.0 && bad < all)
    }

    /// The ln rate of the crossing and the slope, by Fisher scoring for level and slope at the middle
    /// of the points.
    fn fit(&self) -> Option<(f64, f64)> {
        let n = self.points.len() as f64;
        let centre = self.points.iter().map(|point| point.x).sum::<f64>() / n;
        let [bad, all] = self
            .points
            .iter()
            .fold([0.0, 0.0], |[bad, all], point| [bad + point.y, all + point.all.unwrap_or(1.0)]);
        let is_share = self.points[0].all.is_some();
        let (mut a, mut b) = match is_share {
            true => ((bad / (all - bad)).ln(), 20.0),
            false => (bad / n, 1.0),
        };
        for _ in 0..STEPS {
            let (mut sa, mut sb, mut aa, mut ab, mut bb) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for point in &self.points {
                let x = point.x - centre;
                let ExpectedValue { mean, by_place, weight } = point.expected(a + b * x);
                let (score, information) =
                    (weight * by_place * (point.y - mean), weight * by_place * by_place);
                (sa, sb) = (sa + score, sb + score * x);
                (aa, ab, bb) = (aa + information, ab + information * x, bb + information * x * x);
            }
            let determinant = aa * bb - ab * ab;
            let (mut da, mut db) = match determinant > 1e-12 * aa * bb {
                true => ((bb * sa - ab * sb) / determinant, (aa * sb - ab * sa) / determinant),
                false => (sa / aa, 0.0),
            };
            if !(SLOPES[0]..=SLOPES[1]).contains(&(b + db)) {
                // At the end of the range the level alone is fitted.
                db = (b + db).clamp(SLOPES[0], SLOPES[1]) - b;
                da = (sa - ab * db) / aa;
            }
            // Long steps from a poor start overshoot.
            let longest = (da.abs() / 2.0).max(db.abs() / b.max(5.0));
            let damp = if is_share && longest > 1.0 { 1.0 / longest } else { 1.0 };
            (a, b) = (a + damp * da, b + damp * db);
            if !a.is_finite() || !b.is_finite() {
                return None;
            }
            if da.abs() < 1e-9 && db.abs() < 1e-9 * b {
                break;
            }
        }
        let at = centre + (self.at_limit - a) / b;
        let [low, high] = self.range;
        (low - BEYOND..=high + BEYOND).contains(&at).then_some((at, b))
    }

    /// How far the crossing may be below and above `at`, in ln rate.
    fn margins(&self, at: f64, slope: f64, critical: f64) -> Margins {
        let derivatives = |point: &CurvePoint| {
            let away = point.x - at;
            let expected = point.expected(self.at_limit + slope * away);
            (expected.by_place * -slope, expected.by_place * away, expected)
        };
        let (mut at_slope, mut slope_slope) = (0.0, 0.0);
        for point in &self.points {
            let (by_at, by_slope, expected) = derivatives(point);
            at_slope += expected.weight * by_at * by_slope;
            slope_slope += expected.weight * by_slope * by_slope;
        }
        // What the slope explains of the place is taken out of it.
        let share = if slope_slope > 0.0 { at_slope / slope_slope } else { 0.0 };
        let mut blocks: BTreeMap<u32, f64> = BTreeMap::new();
        let (mut information, mut trials, mut total, mut model, mut squares) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        for point in &self.points {
            let (by_at, by_slope, ExpectedValue { mean, weight, by_place }) = derivatives(point);
            let by = by_at - share * by_slope;
            let unit = if point.all.is_some() { by_place } else { 1.0 };
            model += (weight * by).powi(2) * unit;
            squares += (point.y - mean).powi(2) / unit;
            let score = weight * by * (point.y - mean);
            *blocks.entry(point.block).or_default() += score;
            information += weight * by * by;
            trials += score * score;
            total += (weight * by).abs() * mean;
        }
        let (n, points) = (blocks.len() as f64, self.points.len() as f64);
        let between = blocks.values().map(|score| score * score).sum::<f64>() * n / (n - 1.0);
        let bursts = squares / (points - 2.0) * model;
        let spread = between.max(trials * points / (points - 2.0)).max(bursts).sqrt();
        let error = spread / information;
        if !error.is_finite() {
            return Margins { below: f64::INFINITY, above: f64::INFINITY };
        }
        let is_share = self.points[0].all.is_some();
        let skewness = if is_share { BURST_SKEW * spread / total } else { 0.0 };
        let skewed = skewness * (2.0 * critical * critical + 1.0) / 6.0;
        Margins { below: (critical + skewed) * error, above: critical * error }
    }
}

#[cfg(test)]
#[path = "crossing_tests.rs"]
mod tests;
