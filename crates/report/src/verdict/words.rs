//! The sentence of a verdict, from its numbers.
//!
//! A result is never called the same or identical, and no p-value is printed alone: what the data
//! rule out is given as an interval.

use base::Nanos;
use record::{Metric, Offer};
use stats::{BiasCause, DECIDING_BLOCKS_MIN, Estimate, Judgement, Opinion, Verdict};

use crate::text::{self, plural};

/// What is compared, with its wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Verified responses per second.
    Throughput,
    /// Payload bytes per second.
    Bandwidth,
    /// A percentile of latency (open loop), such as `p99`.
    Latency(&'static str),
    /// A percentile of service time (closed loop), such as `p99`.
    ServiceTime(&'static str),
    /// A percentile, such as `p99`, if it is unknown whether of latency or service time.
    Times(&'static str),
    /// CPU time of the stack per served request.
    CpuPerRequest,
    /// Peak memory of the stack.
    PeakMemory,
}

impl Measure {
    /// The measure of a metric under an offer; `bulk` means bytes instead of requests.
    pub(crate) fn of(metric: Metric, offer: Offer, bulk: bool) -> Measure {
        match (metric, offer) {
            (Metric::Throughput, _) if bulk => Measure::Bandwidth,
            (Metric::Throughput, _) => Measure::Throughput,
            (Metric::P50 | Metric::P99, Offer::Open) => Measure::Latency(metric.word()),
            (Metric::P50 | Metric::P99, _) => Measure::ServiceTime(metric.word()),
            (Metric::Cpu, _) => Measure::CpuPerRequest,
            (Metric::Memory, _) => Measure::PeakMemory,
        }
    }

    /// The noun: `p99 latency`, `CPU per request`.
    pub(crate) fn noun(self) -> String {
        match self {
            Measure::Throughput => "requests/s".to_owned(),
            Measure::Bandwidth => "bytes/s".to_owned(),
            Measure::Latency(percentile) => format!("{percentile} latency"),
            Measure::ServiceTime(percentile) => format!("{percentile} service time"),
            Measure::Times(percentile) => percentile.to_owned(),
            Measure::CpuPerRequest => "CPU per request".to_owned(),
            Measure::PeakMemory => "peak memory".to_owned(),
        }
    }

    /// `unix serves 1.14× tcp`.
    pub(crate) fn claim(self, variant: &str, ratio: &str, baseline: &str) -> String {
        match self {
            Measure::Throughput => format!("{variant} serves {ratio}× {baseline}"),
            Measure::Bandwidth => format!("{variant} moves {ratio}× the bytes/s of {baseline}"),
            Measure::Latency(_) | Measure::ServiceTime(_) | Measure::Times(_) => {
                format!("{} of {variant} is {ratio}× {baseline}'s", self.noun())
            }
            Measure::CpuPerRequest => {
                format!("{variant} needs {ratio}× the CPU per request of {baseline}")
            }
            Measure::PeakMemory => {
                format!("{variant} needs {ratio}× the peak memory of {baseline}")
            }
        }
    }

    /// `unix being more than 0.9% slower or 0.4% faster than tcp`.
    fn ruled_out(self, variant: &str, less: &str, more: &str, baseline: &str) -> String {
        match self {
            Measure::Throughput | Measure::Bandwidth => {
                format!("{variant} being more than {less} slower or {more} faster than {baseline}")
            }
            Measure::Latency(_) | Measure::ServiceTime(_) | Measure::Times(_) => format!(
                "the {} of {variant} being more than {less} below or {more} above {baseline}'s",
                self.noun()
            ),
            Measure::CpuPerRequest | Measure::PeakMemory => format!(
                "{variant} needing more than {less} less or {more} more {} than {baseline}",
                self.noun()
            ),
        }
    }
}

/// What a sentence needs besides the judgement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wording<'a> {
    /// Name of the variant.
    pub(crate) variant: &'a str,
    /// Name of the baseline.
    pub(crate) baseline: &'a str,
    /// What is compared.
    pub(crate) measure: Measure,
    /// The circumstances, from [`circumstances`]; empty if they are printed elsewhere.
    pub(crate) circumstances: &'a str,
    /// Duration of a block, if known.
    pub(crate) block_time: Option<Nanos>,
    /// Why the verdict is INVALID, without a full stop.
    pub(crate) because: &'a str,
}

/// The sentence of a comparison.
pub(crate) fn sentence(judgement: &Judgement, wording: &Wording) -> String {
    match judgement.verdict {
        Verdict::Invalid => invalid(wording),
        Verdict::Inconclusive if is_few(judgement.blocks as usize) => too_few(judgement, wording),
        Verdict::Inconclusive => inconclusive(judgement, wording),
        Verdict::NoDifference => no_difference(judgement, wording),
        Verdict::Equivalent => {
            let margin = percent(judgement.margin.unwrap_or(0.0), Rounding::Nearest);
            format!("Equivalent within ±{margin}: {}", claim(judgement, wording))
        }
        Verdict::Faster | Verdict::Slower => claim(judgement, wording),
    }
}

/// Whether there are too few blocks to decide anything.
pub(crate) fn is_few(blocks: usize) -> bool {
    blocks < DECIDING_BLOCKS_MIN
}

/// `24 blocks; adjusted for 3 comparisons; 64 connections, closed loop`; secondary metrics are not
/// adjusted.
pub(crate) fn circumstances(judgement: &Judgement, primary: bool, conditions: &str) -> String {
    let mut parts = vec![plural(judgement.blocks.into(), "block")];
    if judgement.merged > 1 {
        parts[0] +=
            &format!(", merged by {} because neighbouring blocks are correlated", judgement.merged);
    }
    if !primary {
        parts.push(adjustment(judgement));
    } else if judgement.adjusted_for > 1 {
        parts.push(format!("adjusted for {}", plural(judgement.adjusted_for.into(), "comparison")));
    }
    if judgement.anytime {
        parts.push("stopped early, interval widened accordingly".to_owned());
    }
    for bias in &judgement.biases {
        let cause = match bias.cause {
            BiasCause::Steal => "uneven steal",
            BiasCause::OtherProcesses => "other processes that ran beside one variant",
            BiasCause::Lateness => "requests that were sent late to one variant",
        };
        parts.push(format!("interval widened by {} for {cause}", widening(bias.log_bound)));
    }
    if !conditions.is_empty() {
        parts.push(conditions.to_owned());
    }
    parts.join("; ")
}

/// `±9%`: the bound on a bias, as a share of the ratio.
pub(crate) fn widening(log_bound: f64) -> String {
    format!("±{}", percent(log_bound.exp_m1(), Rounding::Up))
}

/// How the interval of a secondary metric is adjusted.
pub(crate) fn adjustment(judgement: &Judgement) -> String {
    match judgement.adjusted_for {
        0 | 1 => "unadjusted".to_owned(),
        count => format!("adjusted for {count} metrics"),
    }
}

fn invalid(wording: &Wording) -> String {
    let Wording { variant, baseline, because, .. } = wording;
    if because.is_empty() {
        format!("INVALID: {variant} ÷ {baseline} failed a validity check.")
    } else {
        format!("INVALID: {}.", because.trim_end_matches('.'))
    }
}

/// ` (95% CI 1.12–1.17; 24 blocks)`; empty without content.
fn bracket(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

fn claim(judgement: &Judgement, wording: &Wording) -> String {
    let Judgement { ratio, .. } = judgement;
    let decimals = ratio_decimals(ratio);
    let value = format!("{:.decimals$}", ratio.value);
    let interval = match text::interval(ratio, |end| format!("{end:.decimals$}")) {
        Some(ends) => {
            format!("{} CI {ends}", percent(judgement.confidence, Rounding::Nearest))
        }
        None => "no interval".to_owned(),
    };
    format!(
        "{}{}.",
        wording.measure.claim(wording.variant, &value, wording.baseline),
        bracket(&[&interval, wording.circumstances])
    )
}

fn no_difference(judgement: &Judgement, wording: &Wording) -> String {
    format!(
        "No difference detected: the data rule out {}{}.",
        wording.measure.ruled_out(
            wording.variant,
            &percent(1.0 - judgement.ratio.low, Rounding::Up),
            &percent(judgement.ratio.high - 1.0, Rounding::Up),
            wording.baseline,
        ),
        bracket(&[&percent(judgement.confidence, Rounding::Nearest), wording.circumstances]),
    )
}

fn inconclusive(judgement: &Judgement, wording: &Wording) -> String {
    let Judgement { ratio, .. } = judgement;
    let subject =
        format!("{} ÷ {} in {}", wording.variant, wording.baseline, wording.measure.noun());
    let subject = bracket(&[&subject, wording.circumstances]);
    let beyond = |end: f64| signed_percent(end - 1.0);
    let interval = match text::bounds(ratio) {
        [Some(low), Some(high)] => format!("{} to {}", beyond(low), beyond(high)),
        [Some(low), None] => format!("{} or more", beyond(low)),
        [None, Some(high)] => format!("{} or less", beyond(high)),
        [None, None] => {
            return format!(
                "Inconclusive: {} give no interval{subject}; a new run with more blocks is needed.",
                plural(judgement.blocks.into(), "block")
            );
        }
    };
    let target = percent(judgement.precision, Rounding::Nearest);
    let doubt = match judgement.second_opinion {
        Opinion::Disagrees if ratio.holds(1.0) => {
            "; the interval contains 1, but a sign-flip test finds a difference"
        }
        Opinion::Disagrees => {
            "; the interval shows a difference, but a sign-flip test does not confirm it"
        }
        _ => "",
    };
    let remedy = remedy(judgement, wording);
    format!("Inconclusive: {interval} with a target of ±{target}{subject}{doubt}{remedy}.")
}

/// Provisional results. Student's interval on two or three blocks can range from nothing to
/// thousands, so it is omitted.
fn too_few(judgement: &Judgement, wording: &Wording) -> String {
    let seen = if judgement.ratio.value.is_finite() {
        format!(": so far {}", provisional(judgement, wording))
    } else {
        format!(" on {} ÷ {}", wording.variant, wording.baseline)
    };
    let few = few_in_words(judgement.blocks);
    format!("{}{seen}{}.", text::capitalised(&few), bracket(&[wording.circumstances]))
}

/// `too few blocks for a verdict (2 of 6)`.
pub(crate) fn few_in_words(blocks: u32) -> String {
    format!("too few blocks for a verdict ({blocks} of {DECIDING_BLOCKS_MIN})")
}

/// A claim without an interval, for provisional results.
pub(crate) fn provisional(judgement: &Judgement, wording: &Wording) -> String {
    let decimals = if judgement.ratio.value < 10.0 { 2 } else { 1 };
    let ratio = format!("{:.decimals$}", judgement.ratio.value);
    wording.measure.claim(wording.variant, &ratio, wording.baseline)
}

/// A remedy longer than a day is not suggested.
const REMEDY_SECS_MAX: f64 = 24.0 * 3600.0;

/// `; a new run would need about 38 blocks (19 min)`.
fn remedy(judgement: &Judgement, wording: &Wording) -> String {
    let Some(blocks) = judgement.more_blocks else { return String::new() };
    let secs = wording.block_time.map(|block| block.as_secs_f64() * f64::from(blocks));
    if secs.is_some_and(|secs| secs > REMEDY_SECS_MAX) {
        return "; a new run would need more than a day: the measurements vary too much, \
                or the difference too small, for this target"
            .to_owned();
    }
    let time = secs.map(|secs| format!(" ({})", duration(secs))).unwrap_or_default();
    format!("; a new run would need about {}{time}", plural(blocks.into(), "block"))
}

/// Enough decimals for the interval's width, and so that an end which excludes 1 is not printed as
/// 1.
fn ratio_decimals(ratio: &Estimate) -> usize {
    const DECIMALS_MAX: usize = 6;
    let half = (ratio.high - ratio.low) / 2.0;
    let by_width =
        if half > 0.0 && half.is_finite() { (-half.log10()).ceil().max(0.0) as usize } else { 2 };
    let largest = if ratio.high.is_finite() { ratio.high } else { ratio.value };
    let least = if largest < 10.0 { 2 } else { 1 };
    let one_is_lost = |decimals: usize| {
        [ratio.low, ratio.high].iter().any(|end| {
            let printed = format!("{end:.decimals$}");
            *end != 1.0 && printed.parse() == Ok(1.0)
        })
    };
    let mut decimals = by_width.clamp(least, DECIMALS_MAX);
    while decimals < DECIMALS_MAX && !ratio.holds(1.0) && one_is_lost(decimals) {
        decimals += 1;
    }
    decimals
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rounding {
    /// To the nearest value.
    Nearest,
    /// Upwards: a claimed bound must not be rounded inwards.
    Up,
}

/// `0.9%`, `4%`, `0.02%`, `95%`: two significant digits below 10%, no trailing zeros.
pub(crate) fn percent(fraction: f64, rounding: Rounding) -> String {
    let value = fraction * 100.0;
    let decimals = match value.abs() {
        value if value < 0.0995 => 2,
        value if value < 9.95 || (rounding == Rounding::Nearest && value < 100.0) => 1,
        _ => 0,
    };
    let scale = 10.0_f64.powi(decimals);
    let value = match rounding {
        Rounding::Nearest => (value * scale).round() / scale,
        // A difference below a billionth of a digit is a rounding error.
        Rounding::Up => (value * scale - 1e-9).max(0.0).ceil() / scale,
    };
    // Rust prints the shortest text that parses as the number: 4, not 4.0.
    format!("{value}%")
}

/// `−4%`, `+6%`, with a typographic minus sign.
pub(crate) fn signed_percent(fraction: f64) -> String {
    let sign = if fraction < 0.0 { '−' } else { '+' };
    format!("{sign}{}", percent(fraction.abs(), Rounding::Nearest))
}

/// `45 s`, `19 min`, `2.5 h`.
fn duration(secs: f64) -> String {
    if secs < 90.0 {
        format!("{} s", secs.ceil())
    } else if secs < 90.0 * 60.0 {
        format!("{} min", (secs / 60.0).round())
    } else {
        format!("{} h", (secs / 360.0).round() / 10.0)
    }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
