//! The calibration block: which variants can run, their responses, their capacity, their warm-up,
//! and whether the client could have been faster.
//!
//! Its trials are recorded but never analysed, so that what it determines (the open loop's rate,
//! the warm-up) does not depend on the analysed data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::{Nanos, Seed};
use drive::{LearnedResponse, LoopStart, Window};
use record::Offer;
use spec::{Endpoint, Exchange, HttpVersion, Load, Mode, Part, Target, Variant};

use crate::error::{ErrorPage, StartError};
use crate::lead_in::slice_of;
use crate::network;
use crate::null_server::{null_variant, slice_of_null};
use crate::running_variant::{RunningVariant, Setting, StartSeeds, VariantResult};
use crate::trial_sum::TrialSum;
use crate::watch::{Event, StackActivity, Watcher};

/// Slices per variant, of 250 ms in a full run. The end of the warm-up lies between two of them.
const SLICES: u64 = 16;

/// A server is loaded in short slices if each connection completes this many requests in one.
const FAST_FACTOR: u64 = 8;

/// How many times longer the second attempt with a slow server takes.
const SLOW_FACTOR: u64 = 6;

/// The share of the connections' time that long requests may take without extending the lead-in:
/// the tolerance of Little's law.
const LONG_SHARE: f64 = 0.02;

/// Calibration of one variant.
pub(crate) struct VariantCalibration {
    pub(crate) variant: usize,
    pub(crate) learned: Option<LearnedResponse>,
    /// The load with messages that were encoded as the server describes them, if they were.
    pub(crate) encoded: Option<Load>,
    /// Verified responses per second in the closed loop; see [`capacity`].
    pub(crate) capacity_per_s: f64,
    /// Whether most requests failed: then the capacity says nothing about how long they take.
    pub(crate) is_failing: bool,
    /// The longest service time, except for requests that take a fiftieth of the connections' time.
    pub(crate) long_service_time: Nanos,
    /// The same without that exception for a busy machine: over all slices together.
    pub(crate) longest_usual: Nanos,
    /// How long a slice usually waits for its last requests.
    pub(crate) drain: Nanos,
    /// When the level last changed, if the variant settled at all.
    pub(crate) settled_after: Option<Nanos>,
    /// Throughput of the null server on the same transport, if there is one for this exchange.
    pub(crate) null_capacity_per_s: Option<f64>,
    /// Results of its starts: one, or two if the first seemed to warm up for long.
    pub(crate) ended: Vec<VariantResult>,
}

/// Calibration of all variants.
pub(crate) struct Calibration {
    pub(crate) variants: Vec<VariantCalibration>,
    /// Variants that could not start, with the reason.
    pub(crate) skipped: BTreeMap<usize, String>,
    /// The networks between clients and stacks.
    pub(crate) links: Vec<record::Link>,
}

/// How long a full run's calibration loads each variant, a quick run's, and that of a run whose time
/// does not suffice for a verdict in any case.
const WATCHED: Nanos = Nanos::from_secs(4);
const WATCHED_QUICK: Nanos = Nanos::from_secs(1);
const WATCHED_IN_A_HURRY: Nanos = Nanos::from_millis(250);

/// No blocks for a verdict fit into less time than this for each variant.
const HURRY: Nanos = Nanos::from_secs(1);

/// The share of a part's limited time that the calibration may spend loading variants.
const WATCHED_SHARE: f64 = 1.0 / 15.0;

/// The share of a part's limited time that the calibration may spend on second starts as well.
const WATCHED_SHARE_MAX: f64 = 0.25;

/// How much the calibration of a part watches of each variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effort {
    /// How long it loads a start.
    pub(crate) length: Nanos,
    /// The number of starts if the first one seems to warm up for long.
    pub(crate) starts: u32,
}

impl Effort {
    /// Less if little of the part's time is `left`, but at least one start for as long as in a quick
    /// run; or for a quarter of that if no verdict is possible in the time.
    pub(crate) fn of(part: &Part, left: Option<Nanos>) -> Effort {
        let longest = if part.schedule.quick { WATCHED_QUICK } else { WATCHED };
        let Some(left) = left else { return Effort { length: longest, starts: 2 } };
        let of_each = left.as_secs_f64() / part.variants.len().max(1) as f64;
        let seconds = Nanos::from_secs_f64;
        if seconds(of_each) < HURRY {
            return Effort { length: WATCHED_IN_A_HURRY, starts: 1 };
        }
        let length = seconds(of_each * WATCHED_SHARE).clamp(WATCHED_QUICK, longest);
        let fit = length * 2 <= seconds(of_each * WATCHED_SHARE_MAX);
        Effort { length, starts: if fit { 2 } else { 1 } }
    }
}

/// Tries every variant alone. One that cannot start is skipped, unless `all` are needed.
pub(crate) fn calibrate(
    part: &Part,
    all: bool,
    effort: Effort,
    around: &Setting<'_>,
    seed: Seed,
    watcher: &mut dyn Watcher,
) -> Calibration {
    watcher.event(&Event::Calibrating);
    let mut calibration =
        Calibration { variants: Vec::new(), skipped: BTreeMap::new(), links: Vec::new() };
    let mut null_capacities: Vec<(NullKey, Option<f64>)> = Vec::new();
    let count = part.variants.len() as f64;
    for (index, variant) in part.variants.iter().enumerate() {
        if around.stop.load(Ordering::Relaxed) {
            break;
        }
        let share_done = index as f64 / count;
        watcher.event(&Event::Doing {
            what: StackActivity::Trying,
            variant: variant.name.clone(),
            share_done,
        });
        let seed_here = seed.derive("calibrate", index as u64);
        match calibrate_one(index, variant, effort, part.schedule.warmup, around, seed_here) {
            Err(_) if around.stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                calibration.skipped.insert(index, base::redact(&error.to_string()));
                if all {
                    break;
                }
            }
            Ok(mut calibrated) => {
                let key = null_key(variant, calibrated.learned.as_ref());
                if let Some(key) = key.filter(|_| limits(part)) {
                    let known = null_capacities.iter().find(|(k, _)| *k == key).map(|(_, c)| *c);
                    let capacity = known.unwrap_or_else(|| {
                        let capacity =
                            null_capacity(part, &key, variant, around, seed.derive("null", 0)).ok();
                        null_capacities.push((key.clone(), capacity));
                        capacity
                    });
                    calibrated.null_capacity_per_s = capacity;
                    if !key.unix && calibration.links.iter().all(|link| link.server != key.on) {
                        let links = network::measure(variant, around, seed.derive("network", 0));
                        // What could not be measured is not known, as without a network.
                        calibration.links.extend(links.unwrap_or_default());
                    }
                }
                calibration.variants.push(calibrated);
            }
        }
    }
    calibration
}

/// Calibrates a variant, with a second start if the first seems to need more than `short_warmup` and
/// there is time for it: a server that has to warm up does so again, and a disturbance of the machine
/// rarely repeats.
fn calibrate_one(
    index: usize,
    variant: &Variant,
    effort: Effort,
    short_warmup: Nanos,
    around: &Setting<'_>,
    seed: Seed,
) -> Result<VariantCalibration, StartError> {
    let Effort { length, starts } = effort;
    let mut calibrated = calibrate_start(index, variant, length, around, seed)?;
    let needed = calibrated.settled_after.map(warmup_for);
    let seems_long = needed.is_none_or(|needed| needed > short_warmup);
    if seems_long && starts > 1 && !around.stop.load(Ordering::Relaxed) {
        let seed = seed.derive("again", 0);
        let again = calibrate_start(index, variant, length, around, seed)?;
        calibrated.settled_after = match (calibrated.settled_after, again.settled_after) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        calibrated.ended.extend(again.ended);
    }
    Ok(calibrated)
}

/// The warm-up for a level that settles after this.
pub(crate) fn warmup_for(settled_after: Nanos) -> Nanos {
    Nanos(settled_after.0 * 3 / 2)
}

fn calibrate_start(
    index: usize,
    variant: &Variant,
    length: Nanos,
    around: &Setting<'_>,
    seed: Seed,
) -> Result<VariantCalibration, StartError> {
    let mut running = RunningVariant::start(index, variant, around, StartSeeds::alone(seed))?;
    let refusal = running.learned.as_ref().and_then(|learned| wrong_answer(variant, learned));
    if let Some(sentence) = refusal {
        running.end();
        return Err(StartError::Unfit(sentence));
    }
    running.keep_learning()?;
    let connections = u64::from(variant.load.connections);
    let short =
        slice_of(variant, Mode::Closed, LoopStart::Fresh, Nanos(length.0 / SLICES), Nanos::ZERO);
    let mut trial_sum = running.load(Offer::Calibration, 0, &short, around.meter)?;
    let mut seen = if trial_sum.window.completed >= FAST_FACTOR * connections {
        for round in 1..SLICES {
            trial_sum = running.load(Offer::Calibration, round as u32, &short, around.meter)?;
        }
        CalibrationSlices::of_slices(trial_sum, short.lead_in + short.window)
    } else {
        let mut long = slice_of(variant, Mode::Closed, LoopStart::Fresh, length, Nanos::ZERO);
        long.lead_in = Nanos::ZERO;
        let before = PriorSlices::of(trial_sum);
        trial_sum = running.load(Offer::Calibration, 1, &long, around.meter)?;
        let mut seen = CalibrationSlices::of_last_slice(trial_sum, &before, around.step);
        if trial_sum.counts.completed < 4 * connections && !trial_sum.is_failing() {
            // Such slow requests that the loop had hardly begun.
            let before = PriorSlices::of(trial_sum);
            long.window = Nanos(SLOW_FACTOR * length.0);
            trial_sum = running.load(Offer::Calibration, 2, &long, around.meter)?;
            let settled_after = seen.settled_after;
            seen = CalibrationSlices::of_last_slice(trial_sum, &before, around.step);
            seen.settled_after = settled_after;
        }
        seen
    };
    let (mean, drain) = (trial_sum.mean_service_time(), trial_sum.usual_drain());
    let longest_usual = trial_sum.long_service_time(LONG_SHARE);
    let is_failing = trial_sum.is_failing();
    if mean > Nanos::ZERO {
        // A loop that begins fresh is faster than its server in the long run.
        let sustained = connections as f64 / mean.as_secs_f64();
        seen.capacity_per_s = seen.capacity_per_s.min(sustained);
    }
    running.check_alive()?;
    let learned = running.settle(Offer::Calibration)?;
    let encoded = running.encoded.take();
    let ended = running.end();
    Ok(VariantCalibration {
        variant: index,
        learned,
        encoded,
        capacity_per_s: seen.capacity_per_s,
        is_failing,
        long_service_time: seen.long_service_time,
        longest_usual,
        drain,
        settled_after: seen.settled_after,
        null_capacity_per_s: None,
        ended: vec![ended],
    })
}

/// What the calibration learns of one variant.
struct CalibrationSlices {
    capacity_per_s: f64,
    long_service_time: Nanos,
    settled_after: Option<Nanos>,
}

/// What a trial contained before its last slice.
struct PriorSlices {
    window: Window,
    steps: usize,
}

impl PriorSlices {
    fn of(trial_sum: &TrialSum) -> PriorSlices {
        PriorSlices { window: trial_sum.window, steps: trial_sum.completed_by_step().len() }
    }
}

impl CalibrationSlices {
    /// From many slices of `length`.
    fn of_slices(trial_sum: &TrialSum, length: Nanos) -> CalibrationSlices {
        let rates = trial_sum.slice_rates();
        CalibrationSlices {
            capacity_per_s: capacity(&rates),
            long_service_time: trial_sum.usual_long_service_time(LONG_SHARE),
            settled_after: stats::warmed_up_after(&rates).map(|at| length * at as u64),
        }
    }

    /// From the last slice, for a server too slow for short ones; its `steps` are put together to as
    /// many buckets as there would be slices.
    fn of_last_slice(trial_sum: &TrialSum, before: &PriorSlices, step: Nanos) -> CalibrationSlices {
        let length = trial_sum.window.length - before.window.length;
        let completed = trial_sum.window.completed - before.window.completed;
        let steps_per_bucket = (length.0 / SLICES / step.0.max(1)).max(1);
        let bucket = step * steps_per_bucket;
        // The last bucket may contain only the drain.
        let rates: Vec<f64> = trial_sum.completed_by_step()[before.steps..]
            .chunks(steps_per_bucket as usize)
            .take((length.0 / bucket.0.max(1)) as usize)
            .map(|steps| steps.iter().sum::<u64>() as f64 / bucket.as_secs_f64())
            .collect();
        let all = completed as f64 / length.as_secs_f64().max(1e-9);
        CalibrationSlices {
            capacity_per_s: capacity(&rates).max(all),
            long_service_time: trial_sum.long_service_time(LONG_SHARE),
            settled_after: stats::warmed_up_after(&rates).map(|at| bucket * at as u64),
        }
    }
}

/// The rate that the server can take: that of the second half, when it has warmed up, or that of the
/// whole time if it is more. A neighbour that stops the server for half a second
/// must not make it seem fifty times as slow as it is: windows would be made for that server.
fn capacity(rates: &[f64]) -> f64 {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    mean(&rates[rates.len() / 2..]).max(mean(rates))
}

/// A first response that should not be measured by accident.
fn wrong_answer(variant: &Variant, learned: &LearnedResponse) -> Option<String> {
    ErrorPage::of(&variant.load, learned).map(|page| page.to_string())
}

/// Whether the client may limit the result: not where requests come at a given rate and the result is
/// what actions cost.
fn limits(part: &Part) -> bool {
    !part.has_actions() || part.offers.contains(&spec::Offer::Closed)
}

/// Variants with equal keys share a null server.
#[derive(Clone, Debug, PartialEq)]
struct NullKey {
    /// The machine of the stack.
    on: Option<String>,
    unix: bool,
    oneshot: bool,
    tls: bool,
    http: HttpVersion,
    new_connection: bool,
    body_bytes: u64,
}

fn null_key(variant: &Variant, learned: Option<&LearnedResponse>) -> Option<NullKey> {
    // The variables in a target never change the kind of socket.
    let shape = variant.target.replace("$PORT", "1").replace("${PORT}", "1");
    let shape = shape.replace("$HOST", "host").replace("${HOST}", "host");
    let shape = shape.replace("$SOCKET", "/s").replace("${SOCKET}", "/s");
    let target = Target::parse(&shape).ok()?;
    let tls = target.server_name().is_some();
    let unix = match target.endpoint() {
        Endpoint::Tcp { .. } => false,
        Endpoint::Unix(_) | Endpoint::Abstract(_) => true,
        _ => return None,
    };
    let oneshot = match variant.load.exchange {
        Exchange::Http(_) => false,
        Exchange::Oneshot => true,
        Exchange::Echo { .. } | Exchange::Bulk { .. } | Exchange::Lines(_) => return None,
    };
    let body_bytes = learned.and_then(|l| l.length).unwrap_or(12).min(1 << 20);
    let on = variant.on.clone();
    let new_connection = variant.load.new_connection;
    let http = variant.load.http;
    Some(NullKey { on, unix, oneshot, tls, http, new_connection, body_bytes })
}

/// Throughput of the client with a server that does next to nothing.
fn null_capacity(
    part: &Part,
    key: &NullKey,
    like: &Variant,
    around: &Setting<'_>,
    seed: Seed,
) -> Result<f64, StartError> {
    let scheme = if key.tls { "https" } else { "http" };
    let (listen, target) = match (key.unix, key.oneshot) {
        (false, false) => ("tcp://$HOST:$PORT", format!("{scheme}://$HOST:$PORT/")),
        (true, false) => ("unix:$SOCKET", format!("{scheme}://unix:$SOCKET:/")),
        (false, true) => ("tcp://$HOST:$PORT", "tcp://$HOST:$PORT".to_owned()),
        (true, true) => ("unix:$SOCKET", "unix:$SOCKET".to_owned()),
    };
    let mode = if key.oneshot { "oneshot" } else { "http" };
    let variant = null_variant(like, listen, &target, mode, key.body_bytes);
    let mut running = RunningVariant::start(0, &variant, around, StartSeeds::alone(seed))?;
    let slice = slice_of_null(&variant, part);
    let rate = running.load(Offer::Calibration, 0, &slice, around.meter)?.throughput_per_s();
    running.end();
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_starts_left_no_time_for_blocks() {
        let part = |quick| {
            let mut part = crate::part::tests::plan();
            part.schedule.quick = quick;
            part
        };
        let seconds = |s| Some(Nanos::from_secs(s));
        let effort = |length_s, starts| Effort { length: Nanos::from_secs(length_s), starts };
        let hurried = Effort { length: WATCHED_IN_A_HURRY, starts: 1 };
        assert_eq!(Effort::of(&part(true), seconds(1)), hurried);
        assert_eq!(Effort::of(&part(true), seconds(6)), effort(1, 1));
        assert_eq!(Effort::of(&part(true), seconds(20)), effort(1, 2));
        assert_eq!(Effort::of(&part(false), seconds(60)), effort(2, 2));
        assert_eq!(Effort::of(&part(false), seconds(600)), effort(4, 2));
        assert_eq!(Effort::of(&part(false), None), effort(4, 2));
    }

    #[test]
    fn a_server_that_was_stopped_for_a_while_seemed_fifty_times_as_slow() {
        assert_eq!(capacity(&[50.0, 90.0, 100.0, 100.0]), 100.0, "it warms up");
        assert_eq!(capacity(&[100.0, 100.0, 4.0, 0.0]), 51.0);
        assert_eq!(capacity(&[]), 0.0);
    }
}
