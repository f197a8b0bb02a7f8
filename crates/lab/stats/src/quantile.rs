//! Quantiles of all blocks together, with intervals that treat blocks as clusters.
//!
//! The p99 of a block with 400 requests hangs on four of them, and a stop every three seconds is in
//! some blocks and not in others. So all requests are put together, and the interval comes from the
//! share of requests that exceed a value: that share has a standard error between blocks, and the
//! values whose share is compatible with 1 − q are the interval (R. S. Woodruff, JASA 47, 1952; C. A.
//! Francisco and W. A. Fuller, Annals of Statistics 19, 1991, who invert the test at each value).
//!
//! Where few requests exceed a value, the share's interval is that of E. L. Korn and B. I. Graubard
//! (Survey Methodology 24, 1998): Clopper and Pearson's, with as many requests as a simple random
//! sample of the same variance would have.

use statrs::distribution::{Beta, ContinuousCDF, Normal};

use crate::Estimate;
use crate::anytime::anytime_half_width;
use crate::spread::{Spread, lag1_autocorrelation};
use crate::student::t_quantile;

/// The values of one block: each distinct value with its count, in ascending order.
pub type Values = Vec<(u64, u64)>;

/// How sure an interval is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sureness {
    /// Two-sided error probability.
    pub alpha: f64,
    /// Whether a person stopped the run after seeing its data.
    pub interrupted: bool,
}

/// A quantile of all blocks together.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantile {
    /// The quantile with its interval. The upper end is infinite where there are too few requests to
    /// bound it.
    pub estimate: Estimate,
    /// One value per block on a logarithmic scale, whose mean is the logarithm of the quantile and
    /// whose standard error fits the interval's mean half-width; for planning and for the second
    /// opinion.
    pub values: Vec<f64>,
    /// Deviations of the blocks' shares of requests beyond the quantile.
    deviations: Vec<f64>,
}

/// The distribution of one block, added up from its end.
struct Block {
    values: Vec<u64>,
    /// Requests beyond each value.
    beyond: Vec<f64>,
    count: f64,
}

impl Block {
    fn of(values: &Values) -> Block {
        let count = values.iter().map(|(_, n)| *n as f64).sum::<f64>();
        let mut below = 0.0;
        let beyond = values.iter().map(|(_, n)| {
            below += *n as f64;
            count - below
        });
        Block { beyond: beyond.collect(), values: values.iter().map(|(v, _)| *v).collect(), count }
    }

    /// How many of its requests exceed `value`.
    fn beyond(&self, value: u64) -> f64 {
        match self.values.partition_point(|known| *known <= value) {
            0 => self.count,
            n => self.beyond[n - 1],
        }
    }
}

/// The share of requests that exceed a value.
struct Share {
    share: f64,
    /// Of each block, relative to the mean number of requests.
    deviations: Vec<f64>,
    standard_error: f64,
}

struct Blocks {
    blocks: Vec<Block>,
    count: f64,
    critical: f64,
    alpha: f64,
}

impl Blocks {
    fn share_beyond(&self, value: u64) -> Share {
        let beyond: Vec<f64> = self.blocks.iter().map(|block| block.beyond(value)).collect();
        let share = beyond.iter().sum::<f64>() / self.count;
        let n = self.blocks.len() as f64;
        let mean = self.count / n;
        let deviations: Vec<f64> =
            self.blocks.iter().zip(&beyond).map(|(b, x)| (x - share * b.count) / mean).collect();
        let squares: f64 = deviations.iter().map(|d| d * d).sum();
        // Blocks that resemble their neighbours say less than independent ones.
        let alike = lag1_autocorrelation(&deviations);
        let inflation =
            if alike > 2.0 / n.sqrt() { (1.0 + alike) / (1.0 - alike).max(0.1) } else { 1.0 };
        let standard_error = (squares / (n * (n - 1.0)) * inflation).sqrt();
        Share { share, deviations, standard_error }
    }

    /// The interval of the share beyond a value.
    fn bounds(&self, share: &Share) -> (f64, f64) {
        let p = share.share;
        let simple = p * (1.0 - p) / self.count;
        let clustered = share.standard_error.powi(2).max(simple);
        let normal = Normal::standard().inverse_cdf(1.0 - self.alpha / 2.0);
        let worth = if simple > 0.0 { self.count * simple / clustered } else { self.count };
        let n = worth * (normal / self.critical).powi(2);
        clopper_pearson(p * n, n, self.alpha)
    }
}

/// Clopper and Pearson's interval of a proportion; numbers need not be whole.
fn clopper_pearson(hits: f64, n: f64, alpha: f64) -> (f64, f64) {
    let quantile = |a: f64, b: f64, p: f64| match Beta::new(a, b) {
        Ok(beta) => beta.inverse_cdf(p),
        Err(_) => f64::NAN,
    };
    let misses = (n - hits).max(0.0);
    let low = if hits > 0.0 { quantile(hits, misses + 1.0, alpha / 2.0) } else { 0.0 };
    let high = if misses > 0.0 { quantile(hits + 1.0, misses, 1.0 - alpha / 2.0) } else { 1.0 };
    (low, high)
}

/// The quantile `q` of all blocks together; `None` with fewer than two blocks that have requests.
pub fn quantile(blocks: &[Values], q: f64, sureness: Sureness) -> Option<Quantile> {
    let mut all: Values = blocks.iter().flatten().copied().filter(|(_, n)| *n > 0).collect();
    all.sort_unstable();
    all.dedup_by(|b, a| a.0 == b.0);
    let n = blocks.len();
    if n < 2 || all.is_empty() {
        return None;
    }
    let blocks: Vec<Block> = blocks.iter().map(Block::of).collect();
    let count = blocks.iter().map(|block| block.count).sum();
    let blocks = Blocks { blocks, count, critical: critical(n, sureness), alpha: sureness.alpha };
    let first = |is_over: &dyn Fn(u64) -> bool| -> Option<u64> {
        let at = all.partition_point(|(value, _)| !is_over(*value));
        all.get(at).map(|(value, _)| *value)
    };
    let exceeding = 1.0 - q;
    // Shares are counts ÷ counts: as many requests beyond as allowed are still allowed.
    let within = |share: f64| share <= exceeding * (1.0 + 1e-9);
    let value = first(&|value| within(blocks.share_beyond(value).share))?;
    let low = first(&|value| within(blocks.bounds(&blocks.share_beyond(value)).0));
    let high = first(&|value| within(blocks.bounds(&blocks.share_beyond(value)).1));
    let estimate = Estimate {
        value: value as f64,
        low: low.unwrap_or(value).min(value) as f64,
        high: high.map_or(f64::INFINITY, |high| high.max(value) as f64),
    };
    let share = blocks.share_beyond(value);
    let values = values(&estimate, &share, blocks.critical);
    Some(Quantile { estimate, values, deviations: share.deviations })
}

/// The critical value of an interval over `n` blocks.
fn critical(n: usize, sureness: Sureness) -> f64 {
    let t = t_quantile(sureness.alpha, n - 1);
    if !sureness.interrupted {
        return t;
    }
    // The anytime interval's half-width is a multiple of the standard error.
    let alternating: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    Spread::of(&alternating).map_or(f64::INFINITY, |spread| {
        anytime_half_width(&spread, sureness.alpha) / spread.standard_error
    })
}

fn values(estimate: &Estimate, share: &Share, critical: f64) -> Vec<f64> {
    let up = if estimate.high.is_finite() { estimate.high } else { estimate.value };
    let half = (up.max(1.0) / estimate.low.max(1.0)).ln() / 2.0;
    let per_share = match share.standard_error * critical {
        error if error > 0.0 && half.is_finite() => half / error,
        _ => 0.0,
    };
    let logarithm = estimate.value.max(f64::MIN_POSITIVE).ln();
    share.deviations.iter().map(|deviation| logarithm + deviation * per_share).collect()
}

/// The ratio variant ÷ baseline of two quantiles of the same blocks, with an interval from theirs
/// (MOVER: G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008), narrower as far as both
/// quantiles vary together: as far as the correlation of their blocks is more than chance.
pub fn ratio_of_quantiles(baseline: &Quantile, variant: &Quantile) -> Estimate {
    let (a, b) = (&baseline.estimate, &variant.estimate);
    let value = b.value / a.value;
    let apart = |high: f64, low: f64| if low > 0.0 { (high / low).ln() } else { f64::INFINITY };
    let n = baseline.deviations.len() as f64;
    let together =
        (correlation(&baseline.deviations, &variant.deviations) - 1.0 / n.sqrt()).max(0.0);
    let reach = |x: f64, y: f64| {
        if x.is_finite() && y.is_finite() {
            (x * x + y * y - 2.0 * together * x * y).max(0.0).sqrt()
        } else {
            f64::INFINITY
        }
    };
    let down = reach(apart(b.value, b.low), apart(a.high, a.value));
    let up = reach(apart(b.high, b.value), apart(a.value, a.low));
    Estimate { value, low: value * (-down).exp(), high: value * up.exp() }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let squares = sum(a, a) * sum(b, b);
    if squares > 0.0 { sum(a, b) / squares.sqrt() } else { 0.0 }
}

#[cfg(test)]
#[path = "quantile_tests.rs"]
mod tests;
