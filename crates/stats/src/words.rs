//! The sentence that a person reads.
//!
//! A result is never called the same or identical, and no p-value stands alone:
//! what the data rule out is said as an interval.

use base::{Bytes, Nanos, format_rate};

use crate::judge::{Better, DECIDING_BLOCKS_MIN, Judgement, Opinion};
use crate::{Estimate, Verdict};

/// What is compared, with the words for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Verified responses per second.
    Throughput,
    /// Payload bytes per second.
    Bandwidth,
    /// A percentile of latency (open loop) in nanoseconds: 99.0 is p99.
    Latency(f64),
    /// A percentile of service time (closed loop) in nanoseconds.
    ServiceTime(f64),
    /// CPU time of the stack per served request in nanoseconds.
    CpuPerRequest,
    /// Peak memory of the stack in bytes.
    PeakMemory,
}

impl Measure {
    /// Which way it is better.
    pub fn better(self) -> Better {
        match self {
            Measure::Throughput | Measure::Bandwidth => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// The noun: `p99 latency`, `CPU per request`.
    fn noun(self) -> String {
        match self {
            Measure::Throughput => "requests/s".to_owned(),
            Measure::Bandwidth => "bytes/s".to_owned(),
            Measure::Latency(percentile) => format!("p{percentile} latency"),
            Measure::ServiceTime(percentile) => format!("p{percentile} service time"),
            Measure::CpuPerRequest => "CPU per request".to_owned(),
            Measure::PeakMemory => "peak memory".to_owned(),
        }
    }

    /// `unix serves 1.14× tcp`.
    fn claim(self, variant: &str, ratio: &str, baseline: &str) -> String {
        match self {
            Measure::Throughput => format!("{variant} serves {ratio}× {baseline}"),
            Measure::Bandwidth => format!("{variant} moves {ratio}× the bytes/s of {baseline}"),
            Measure::Latency(_) | Measure::ServiceTime(_) => {
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
            Measure::Latency(_) | Measure::ServiceTime(_) => format!(
                "the {} of {variant} being more than {less} below or {more} above {baseline}'s",
                self.noun()
            ),
            Measure::CpuPerRequest | Measure::PeakMemory => format!(
                "{variant} needing more than {less} less or {more} more {} than {baseline}",
                self.noun()
            ),
        }
    }

    /// `a serves 12,345 requests/s`.
    fn statement(self, variant: &str, value: f64) -> String {
        let amount = self.amount(value);
        match self {
            Measure::Throughput => format!("{variant} serves {amount} requests/s"),
            Measure::Bandwidth => format!("{variant} moves {amount}"),
            Measure::Latency(_) | Measure::ServiceTime(_) => {
                format!("{} of {variant} is {amount}", self.noun())
            }
            Measure::CpuPerRequest => format!("{variant} needs {amount} of CPU per request"),
            Measure::PeakMemory => format!("{variant} needs {amount} of memory at its peak"),
        }
    }

    fn amount(self, value: f64) -> String {
        let whole = value.max(0.0).round() as u64;
        match self {
            Measure::Throughput => format_rate(value),
            Measure::Bandwidth => format!("{}/s", Bytes(whole)),
            Measure::PeakMemory => Bytes(whole).to_string(),
            Measure::Latency(_) | Measure::ServiceTime(_) | Measure::CpuPerRequest => {
                Nanos(whole).to_string()
            }
        }
    }
}

/// What a sentence needs beside the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Wording<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// Name of the baseline.
    pub baseline: &'a str,
    /// What is compared.
    pub measure: Measure,
    /// Load and layout: `64 connections, closed loop; client on CPU 1, stack on CPU 0`; may be empty.
    pub conditions: &'a str,
    /// How long one block takes; `None` if that is unknown.
    pub block_time: Option<Nanos>,
    /// A secondary metric, whose interval is not adjusted for how many there are.
    pub unadjusted: bool,
    /// Why the result is invalid, for the verdict that says so:
    /// `the server counted 3 requests fewer than the client sent`.
    pub invalid_because: &'a str,
}

/// The sentence of a comparison.
pub fn sentence(judgement: &Judgement, wording: &Wording) -> String {
    match judgement.verdict {
        Verdict::Invalid => invalid(wording),
        Verdict::Inconclusive => inconclusive(judgement, wording),
        Verdict::NoDifference => no_difference(judgement, wording),
        Verdict::Equivalent => {
            let margin = percent(judgement.margin.unwrap_or(0.0), Rounding::Nearest);
            format!("Equivalent within ±{margin}: {}", claim(judgement, wording))
        }
        Verdict::Faster | Verdict::Slower => claim(judgement, wording),
    }
}

fn invalid(wording: &Wording) -> String {
    let reason = wording.invalid_because.trim().trim_end_matches('.');
    if reason.is_empty() {
        "INVALID: a validity check failed; see the findings.".to_owned()
    } else {
        format!("INVALID: {reason}.")
    }
}

fn claim(judgement: &Judgement, wording: &Wording) -> String {
    let decimals = ratio_decimals(&judgement.ratio);
    let ratio = &judgement.ratio;
    format!(
        "{} ({} CI {:.decimals$}–{:.decimals$}; {}).",
        wording.measure.claim(
            wording.variant,
            &format!("{:.decimals$}", ratio.value),
            wording.baseline
        ),
        percent(judgement.confidence, Rounding::Nearest),
        ratio.low,
        ratio.high,
        circumstances(judgement, wording),
    )
}

fn no_difference(judgement: &Judgement, wording: &Wording) -> String {
    format!(
        "No difference detected: the data rule out {} ({}; {}).",
        wording.measure.ruled_out(
            wording.variant,
            &percent(1.0 - judgement.ratio.low, Rounding::Up),
            &percent(judgement.ratio.high - 1.0, Rounding::Up),
            wording.baseline,
        ),
        percent(judgement.confidence, Rounding::Nearest),
        circumstances(judgement, wording),
    )
}

fn inconclusive(judgement: &Judgement, wording: &Wording) -> String {
    let Judgement { ratio, .. } = judgement;
    if (judgement.blocks as usize) < DECIDING_BLOCKS_MIN {
        return too_few_blocks(judgement, wording);
    }
    let subject =
        format!("{} ÷ {} in {}", wording.variant, wording.baseline, wording.measure.noun());
    if !ratio.is_bounded() {
        let stopped = if judgement.anytime { "; stopped early" } else { "" };
        return format!(
            "Inconclusive: {} give no interval ({subject}{stopped}); \
             a new run with more blocks is needed.",
            count(judgement.blocks, "block")
        );
    }
    let subject = format!("({subject}; {})", circumstances(judgement, wording));
    let target = percent(judgement.precision, Rounding::Nearest);
    let interval = format!(
        "{} to {} with a target of ±{target}",
        signed_percent(ratio.low - 1.0),
        signed_percent(ratio.high - 1.0)
    );
    let doubt = match judgement.second_opinion {
        Opinion::Disagrees if ratio.holds(1.0) => {
            "; the interval holds no difference, but flipping signs at random says otherwise"
        }
        Opinion::Disagrees => {
            "; the interval shows a difference, but flipping signs at random does not confirm it"
        }
        _ => "",
    };
    format!("Inconclusive: {interval} {subject}{doubt}{}.", remedy(judgement, wording))
}

/// What was seen before anything may be decided. Student's interval on two or three blocks can
/// reach from nothing to thousands, so it is left out.
fn too_few_blocks(judgement: &Judgement, wording: &Wording) -> String {
    let decimals = if judgement.ratio.value < 10.0 { 2 } else { 1 };
    let ratio = format!("{:.decimals$}", judgement.ratio.value);
    let seen = if judgement.ratio.value.is_finite() {
        format!(": so far {}", wording.measure.claim(wording.variant, &ratio, wording.baseline))
    } else {
        format!(" of {} ÷ {}", wording.variant, wording.baseline)
    };
    format!(
        "Too few blocks for a verdict ({} of {DECIDING_BLOCKS_MIN}){seen} ({}).",
        judgement.blocks,
        circumstances(judgement, wording)
    )
}

/// Nobody waits longer than this for a verdict.
const REMEDY_SECS_MAX: f64 = 24.0 * 3600.0;

/// `; about 38 more blocks (19 min) in a new run`.
fn remedy(judgement: &Judgement, wording: &Wording) -> String {
    let Some(blocks) = judgement.more_blocks else { return String::new() };
    let secs = wording.block_time.map(|block| block.as_secs_f64() * f64::from(blocks));
    if secs.is_some_and(|secs| secs > REMEDY_SECS_MAX) {
        return "; more than a day of blocks would be needed: the machine is too noisy, \
                or the difference too small, for this target"
            .to_owned();
    }
    let time = secs.map(|secs| format!(" ({})", duration(secs))).unwrap_or_default();
    let more = if blocks == 1 { "more block" } else { "more blocks" };
    format!("; about {} {more}{time} in a new run", base::format_count(u64::from(blocks)))
}

/// `24 blocks; adjusted for 3 comparisons; 64 connections, closed loop`.
fn circumstances(judgement: &Judgement, wording: &Wording) -> String {
    let mut parts = vec![count(judgement.blocks, "block")];
    if judgement.merged > 1 {
        parts[0] +=
            &format!(", merged by {} because neighbours resemble each other", judgement.merged);
    }
    if wording.unadjusted {
        parts.push("unadjusted".to_owned());
    } else if judgement.adjusted_for > 1 {
        parts.push(format!("adjusted for {}", count(judgement.adjusted_for, "comparison")));
    }
    if judgement.anytime {
        parts.push("stopped early, and the interval allows for that".to_owned());
    }
    if !wording.conditions.is_empty() {
        parts.push(wording.conditions.to_owned());
    }
    parts.join("; ")
}

/// The sentence of a variant that is compared with nothing:
/// `a serves 12,345 requests/s (95% CI 12,001–12,690; 10 blocks; 64 connections, closed loop).`
pub fn sentence_alone(
    variant: &str,
    measure: Measure,
    estimate: &Estimate,
    confidence: f64,
    blocks: u32,
    conditions: &str,
) -> String {
    let statement = measure.statement(variant, estimate.value);
    let interval = if estimate.is_bounded() {
        let (low, high) = (measure.amount(estimate.low), measure.amount(estimate.high));
        format!("{} CI {low}–{high}; ", percent(confidence, Rounding::Nearest))
    } else {
        "no interval yet; ".to_owned()
    };
    let conditions = if conditions.is_empty() { String::new() } else { format!("; {conditions}") };
    format!("{statement} ({interval}{}{conditions}).", count(blocks, "block"))
}

fn count(n: u32, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", base::format_count(u64::from(n)))
}

/// As many decimals as show the interval's width, and never so few that an
/// end which excludes 1 is printed as 1.
fn ratio_decimals(ratio: &Estimate) -> usize {
    const DECIMALS_MAX: usize = 6;
    let half = (ratio.high - ratio.low) / 2.0;
    let by_width = if half > 0.0 { (-half.log10()).ceil().max(0.0) as usize } else { 2 };
    let least = if ratio.high < 10.0 { 2 } else { 1 };
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
enum Rounding {
    Nearest,
    /// A bound that is claimed must not be rounded inwards.
    Up,
}

/// `0.9%`, `4%`, `0.02%`, `95%`: two significant digits below 10%, no trailing zeros.
fn percent(fraction: f64, rounding: Rounding) -> String {
    let value = fraction * 100.0;
    let decimals = match value.abs() {
        value if value < 0.0995 => 2,
        value if value < 9.95 || (rounding == Rounding::Nearest && value < 100.0) => 1,
        _ => 0,
    };
    let scale = 10.0_f64.powi(decimals);
    let value = match rounding {
        Rounding::Nearest => (value * scale).round() / scale,
        // Less than a billionth beyond a digit is an error of the last bit.
        Rounding::Up => (value * scale - 1e-9).max(0.0).ceil() / scale,
    };
    // Rust prints the shortest text that reads back as the number: 4, not 4.0.
    format!("{value}%")
}

/// `−4%`, `+6%`, with the sign that typesetters use.
fn signed_percent(fraction: f64) -> String {
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
