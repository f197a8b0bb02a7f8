//! From the blocks of one comparison to its verdict.

use serde::{Deserialize, Serialize};

use crate::anytime::anytime_half_width;
use crate::bias::Bias;
use crate::sign_flip::{sign_flip_p, sign_flip_p_min};
use crate::spread::{Spread, mean};
use crate::stalls::Margins;
use crate::stein::{Aim, half_width};
use crate::{Estimate, Verdict};

/// An interval may exceed the target width by this factor and still count as narrow enough, because
/// the pilot only estimates the variance of later blocks.
const PRECISION_SLACK: f64 = 1.25;

/// With fewer blocks nothing is decided. At 95% the sign-flip test cannot reject below this number,
/// and Student's interval alone trusts the spread of two or three values too much.
pub const DECIDING_BLOCKS_MIN: usize = 6;

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BetterDirection {
    /// Throughput.
    Higher,
    /// Latency, CPU, memory.
    Lower,
}

/// The input of a judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence<'a> {
    /// ln(variant ÷ baseline) of each accepted block, in the order in which they ran.
    pub d: &'a [f64],
    /// The ratio with its interval, if that does not follow from `d` by Student's t, as for a ratio of
    /// quantiles; without biases.
    pub interval: Option<Estimate>,
    /// How many of the first of these were the pilot.
    pub pilot_blocks: usize,
    /// Precision, confidence and the number of comparisons that share it. For a secondary metric
    /// `adjusted_for` is 1, and the report says "unadjusted".
    pub aim: Aim,
    /// The declared margin of equivalence: 0.02 is ±2%.
    pub margin: Option<f64>,
    /// Which direction of the metric is better.
    pub better: BetterDirection,
    /// Whether a person who had seen the data stopped the run early. A limit on time or blocks that
    /// was set in advance is no interruption.
    pub interrupted: bool,
    /// Whether a validity check failed.
    pub invalid: bool,
    /// Bounded biases. The interval is widened by the sum of their bounds.
    pub biases: &'a [Bias],
    /// By how much the mean of `d` may be off because of rare stalls, which their spread over blocks
    /// does not show. The interval contains at least these, and the biases beyond them.
    pub margins: Margins,
}

/// The sign-flip test's second opinion on the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    /// Both detect a difference, or neither does.
    Agrees,
    /// Only one of them detects a difference.
    Disagrees,
    /// There are too few blocks for the test to reject at this confidence (fewer than 6 at 95%), or
    /// there is no interval.
    Unavailable,
}

/// The outcome of one comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// variant ÷ baseline, with its interval.
    pub ratio: Estimate,
    /// The verdict.
    pub verdict: Verdict,
    /// Target precision, as a fraction.
    pub precision: f64,
    /// Confidence of the interval (of all intervals together, if adjusted), such as 0.95.
    pub confidence: f64,
    /// Number of comparisons for which the interval is adjusted.
    pub adjusted_for: u32,
    /// The declared margin of equivalence, if any.
    pub margin: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of adjacent blocks that were merged because of autocorrelation; 1 for none.
    pub merged: u32,
    /// p-value of the sign-flip test.
    pub second_opinion_p: Option<f64>,
    /// How the test compares with the interval.
    pub second_opinion: Opinion,
    /// Whether the interval is anytime-valid, because a person stopped the run.
    pub anytime: bool,
    /// For an inconclusive result: about how many blocks a new run needs to reach the precision. A
    /// new run starts from nothing: adding blocks to this one after having seen its result would
    /// invalidate the confidence.
    pub more_blocks: Option<u32>,
    /// Bounded biases by which the interval was widened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub biases: Vec<Bias>,
}

impl Judgement {
    /// The sum of the bounds of its biases, on the log scale.
    fn bias(&self) -> f64 {
        self.biases.iter().map(|bias| bias.log_bound).sum()
    }

    /// This ratio as a multiple of another comparison's; see [`Estimate::relative_to`]. The bounds of
    /// biases add up, because they are no errors of chance that could cancel.
    pub fn relative_to(&self, other: &Judgement) -> Estimate {
        let by_chance = |judged: &Judgement| judged.ratio.widened(-judged.bias());
        by_chance(self).relative_to(&by_chance(other)).widened(self.bias() + other.bias())
    }
}

/// Judges one comparison.
///
/// - The interval is exp(mean d ± half-width): Stein's, or Student's on all blocks if wider; the
///   anytime-valid one if a person stopped the run.
/// - It contains the margins of rare stalls.
/// - Bounded biases widen the interval by the sum of their bounds, on the log scale, on both sides.
/// - The sign-flip test gives a second opinion at the same error probability: whether what the biases
///   and rare stalls leave of the difference is one.
/// - **Equivalent** if a margin was declared and two one-sided tests put the ratio within it
///   (Schuirmann 1987): the interval at twice the error probability is between 1/(1 + margin) and 1
///   + margin.
/// - **Faster** or **Slower** if the interval excludes 1 and the second opinion does not disagree.
/// - **NoDifference** if it includes 1, has the target precision (25% wider is allowed), and the
///   second opinion does not disagree.
/// - **Inconclusive** otherwise, and always with fewer than 6 blocks.
pub fn judge(evidence: &Evidence) -> Judgement {
    let spread = Spread::of(evidence.d);
    let alpha = evidence.aim.alpha();
    let by_chance = evidence.interval.unwrap_or_else(|| {
        Estimate::from_log(mean(evidence.d), half_width_at(evidence, spread.as_ref(), alpha))
    });
    let ratio = by_chance.at_least(evidence.margins).widened(evidence.bias());
    let half = ratio.half_width_log();
    let (second_opinion_p, second_opinion) =
        second_opinion(evidence, spread.as_ref(), !ratio.holds(1.0));
    let verdict = verdict(evidence, spread.as_ref(), &ratio, half, second_opinion);
    let decided = matches!(verdict, Verdict::Faster | Verdict::Slower | Verdict::NoDifference);
    debug_assert!(
        !decided || evidence.d.len() >= DECIDING_BLOCKS_MIN && second_opinion != Opinion::Disagrees,
        "{verdict:?} after {} blocks, second opinion {second_opinion:?}",
        evidence.d.len()
    );
    let more_blocks = match (verdict, &spread) {
        (Verdict::Inconclusive, Some(spread)) => {
            blocks_of_new_run(evidence, spread, second_opinion)
        }
        _ => None,
    };
    Judgement {
        ratio,
        verdict,
        precision: evidence.aim.precision,
        confidence: evidence.aim.confidence,
        adjusted_for: evidence.aim.adjusted_for.max(1),
        margin: evidence.margin,
        blocks: evidence.d.len() as u32,
        merged: spread.as_ref().map_or(1, |spread| spread.group_size as u32),
        second_opinion_p,
        second_opinion,
        anytime: evidence.interrupted,
        more_blocks,
        biases: evidence.biases.to_vec(),
    }
}

impl Evidence<'_> {
    /// The sum of the bounds of all biases, on the log scale.
    fn bias(&self) -> f64 {
        self.biases.iter().map(|bias| bias.log_bound).sum()
    }
}

/// Half-width of the interval on the log scale, without biases; infinite if unbounded.
fn half_width_at(evidence: &Evidence, spread: Option<&Spread>, alpha: f64) -> f64 {
    let half = match spread {
        Some(spread) if evidence.interrupted => Some(anytime_half_width(spread, alpha)),
        _ => half_width(evidence.d, evidence.pilot_blocks, alpha),
    };
    half.unwrap_or(f64::INFINITY)
}

/// The sign-flip test's p, and how it compares with an interval that excludes 1 or does not.
fn second_opinion(
    evidence: &Evidence,
    spread: Option<&Spread>,
    interval_excludes_one: bool,
) -> (Option<f64>, Opinion) {
    let Some(spread) = spread else { return (None, Opinion::Unavailable) };
    let alpha = evidence.aim.alpha();
    // What would explain the most of the difference, but not more than all of it.
    let Margins { below, above } = evidence.margins;
    let most = evidence.bias() + if spread.mean > 0.0 { below } else { above };
    let explained = spread.mean.signum() * spread.mean.abs().min(most);
    let left: Vec<f64> = spread.groups.iter().map(|d| d - explained).collect();
    let p = sign_flip_p(&left);
    let opinion = if sign_flip_p_min(spread.groups.len()) > alpha {
        Opinion::Unavailable
    } else if interval_excludes_one == (p <= alpha) {
        Opinion::Agrees
    } else if evidence.interrupted && !interval_excludes_one {
        // The test is for a fixed number of blocks; after looking, it may disagree but not confirm.
        Opinion::Agrees
    } else {
        Opinion::Disagrees
    };
    (Some(p), opinion)
}

fn verdict(
    evidence: &Evidence,
    spread: Option<&Spread>,
    ratio: &Estimate,
    half: f64,
    opinion: Opinion,
) -> Verdict {
    if evidence.invalid {
        return Verdict::Invalid;
    }
    if evidence.d.len() < DECIDING_BLOCKS_MIN {
        return Verdict::Inconclusive;
    }
    if evidence.margin.is_some_and(|margin| is_within(evidence, spread, margin)) {
        return Verdict::Equivalent;
    }
    let narrow = half <= PRECISION_SLACK * evidence.aim.half_width_log();
    match (ratio.holds(1.0), opinion) {
        (_, Opinion::Disagrees) => Verdict::Inconclusive,
        (false, _) if (ratio.value > 1.0) == (evidence.better == BetterDirection::Higher) => {
            Verdict::Faster
        }
        // NaN compares as outside, but is not a difference either.
        (false, _) if ratio.value.is_finite() => Verdict::Slower,
        (true, _) if narrow => Verdict::NoDifference,
        _ => Verdict::Inconclusive,
    }
}

/// Two one-sided tests at α each. The anytime-valid interval keeps its full confidence, because its
/// guarantee is for both sides together.
fn is_within(evidence: &Evidence, spread: Option<&Spread>, margin: f64) -> bool {
    let alpha = evidence.aim.alpha();
    let alpha = if evidence.interrupted { alpha } else { 2.0 * alpha };
    if let Some(interval) = evidence.interval {
        // At full confidence, for both sides together.
        let interval = interval.at_least(evidence.margins).widened(evidence.bias());
        return interval.low > 1.0 / (1.0 + margin) && interval.high < 1.0 + margin;
    }
    let half = half_width_at(evidence, spread, alpha) + evidence.bias();
    let most = margin.ln_1p();
    spread.is_some_and(|spread| {
        let rare = evidence.margins.largest() + evidence.bias();
        spread.mean.abs() + half.max(rare) < most
    })
}

/// Blocks that a new run probably needs: what the spread of all blocks requires, and at least twice
/// the current number if the two tests disagree. `None` if biases alone are too wide for the target,
/// or margins have no limit: no number of blocks narrows them.
fn blocks_of_new_run(evidence: &Evidence, spread: &Spread, opinion: Opinion) -> Option<u32> {
    let room = (evidence.aim.half_width_log() - evidence.bias()).exp_m1();
    if room <= 0.0 || evidence.margins.largest().is_infinite() {
        return None;
    }
    let aim = Aim { precision: room, ..evidence.aim };
    let rare = aim.blocks_for_margins(&evidence.margins, evidence.d.len());
    let wanted = u32::try_from(aim.blocks_for(spread).max(rare)).unwrap_or(u32::MAX);
    let doubled = if opinion == Opinion::Disagrees { 2 * evidence.d.len() as u32 } else { 0 };
    let wanted = wanted.max(doubled).max(evidence.pilot_blocks as u32);
    Some(wanted.max(DECIDING_BLOCKS_MIN as u32))
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
