//! The calibration block: which variants can run, their responses, their capacity, their warm-up,
//! and whether the client could have been faster.
//!
//! Its trials are recorded but never analysed, so that what it determines (the open loop's rate,
//! the warm-up) does not depend on the analysed data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::{Nanos, Seed};
use drive::Learned;
use record::Offer;
use spec::{Endpoint, Exchange, Mode, Part, Process, Ready, Stack, Target, Variant};

use crate::block::slice_of;
use crate::running_variant::{RunningVariant, Setting, StartError, VariantResult};
use crate::watch::{Doing, Event, Watcher};

/// Buckets for finding the end of the warm-up: 250 ms in a full run, less in a quick one.
const BUCKETS: u64 = 16;

/// How many times longer the second attempt with a slow server takes.
const SLOW_FACTOR: u64 = 6;

/// The share of the connections' time that long requests may take without extending the lead-in:
/// the tolerance of Little's law.
const LONG_SHARE: f64 = 0.02;

/// Calibration of one variant.
pub(crate) struct Calibrated {
    pub(crate) variant: usize,
    pub(crate) learned: Option<Learned>,
    /// Verified responses per second in the closed loop; see [`capacity`].
    pub(crate) capacity_per_s: f64,
    /// The longest service time, except for requests that take a fiftieth of the connections' time.
    pub(crate) long_service_time: Nanos,
    /// When the level last changed, if the variant settled at all.
    pub(crate) settled_after: Option<Nanos>,
    /// Throughput of the null server on the same transport, if there is one for this exchange.
    pub(crate) null_capacity_per_s: Option<f64>,
    pub(crate) ended: VariantResult,
}

/// Calibration of all variants.
pub(crate) struct Calibration {
    pub(crate) variants: Vec<Calibrated>,
    /// Variants that could not start, with the reason.
    pub(crate) skipped: BTreeMap<usize, String>,
}

/// How long a full run's calibration loads each variant, and a quick run's.
const WATCHED: Nanos = Nanos::from_secs(4);
const WATCHED_QUICK: Nanos = Nanos::from_secs(1);

/// How long the calibration of a part loads each variant.
pub(crate) fn watched(part: &Part) -> Nanos {
    if part.schedule.quick { WATCHED_QUICK } else { WATCHED }
}

/// Tries every variant alone. One that cannot start is skipped, unless `all` are needed.
pub(crate) fn calibrate(
    part: &Part,
    all: bool,
    around: &Setting<'_>,
    seed: Seed,
    watcher: &mut dyn Watcher,
) -> Calibration {
    watcher.event(&Event::Calibrating);
    let mut calibration = Calibration { variants: Vec::new(), skipped: BTreeMap::new() };
    let mut null_capacities: Vec<(NullKey, Option<f64>)> = Vec::new();
    let count = part.variants.len() as f64;
    for (index, variant) in part.variants.iter().enumerate() {
        if around.stop.load(Ordering::Relaxed) {
            break;
        }
        let share_done = index as f64 / count;
        watcher.event(&Event::Doing {
            what: Doing::Trying,
            variant: variant.name.clone(),
            share_done,
        });
        match calibrate_one(part, index, variant, around, seed.derive("calibrate", index as u64)) {
            Err(_) if around.stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                calibration.skipped.insert(index, error.to_string());
                if all {
                    break;
                }
            }
            Ok(mut calibrated) => {
                if let Some(key) = null_key(variant, calibrated.learned.as_ref()) {
                    let known = null_capacities.iter().find(|(k, _)| *k == key).map(|(_, c)| *c);
                    let capacity = known.unwrap_or_else(|| {
                        let capacity =
                            null_capacity(part, &key, variant, around, seed.derive("null", 0)).ok();
                        null_capacities.push((key, capacity));
                        capacity
                    });
                    calibrated.null_capacity_per_s = capacity;
                }
                calibration.variants.push(calibrated);
            }
        }
    }
    calibration
}

fn calibrate_one(
    part: &Part,
    index: usize,
    variant: &Variant,
    around: &Setting<'_>,
    seed: Seed,
) -> Result<Calibrated, StartError> {
    let mut running = RunningVariant::start(index, variant, around, seed)?;
    let learned = running.learned.clone();
    let refusal = learned.as_ref().and_then(|learned| wrong_answer(variant, learned));
    if let Some(sentence) = refusal {
        running.end();
        return Err(StartError::Unfit(sentence));
    }
    let length = watched(part);
    let mut slice = slice_of(variant, Mode::Closed, length, Nanos::ZERO);
    slice.lead_in = Nanos::ZERO;
    let bucket = Nanos(length.0 / BUCKETS);
    let trial_sum = running.load(Offer::Calibration, 0, &slice, around.meter)?;
    let first = trial_sum.window;
    let trial = trial_sum.trial(index, 0, &|_| true);
    let mut long_service_time = trial_sum.long_service_time(LONG_SHARE);
    // Rates of whole buckets; the last bucket may contain only the drain.
    let steps_per_bucket = (bucket.0 / around.step.0.max(1)).max(1) as usize;
    let rates: Vec<f64> = trial
        .completed_by_step
        .chunks(steps_per_bucket)
        .take((length.0 / (around.step.0 * steps_per_bucket as u64)) as usize)
        .map(|steps| steps.iter().sum::<u64>() as f64)
        .collect();
    let bucket = around.step * steps_per_bucket as u64;
    let settled_after = stats::steady_state(&rates).map(|at| bucket * at as u64);
    let mut capacity_per_s = capacity(&rates) / bucket.as_secs_f64();
    let connections = u64::from(variant.load.connections);
    if trial.ledger.counts.completed < 4 * connections {
        // Such slow requests that the first attempt saw little more than the start of the loop.
        slice.window = Nanos(SLOW_FACTOR * length.0);
        let trial_sum = running.load(Offer::Calibration, 1, &slice, around.meter)?;
        let seconds = (trial_sum.window.length - first.length).as_secs_f64();
        capacity_per_s = (trial_sum.window.completed - first.completed) as f64 / seconds.max(1e-9);
        long_service_time = trial_sum.long_service_time(LONG_SHARE);
    }
    running.check_alive()?;
    let ended = running.end();
    Ok(Calibrated {
        variant: index,
        learned,
        capacity_per_s,
        long_service_time,
        settled_after,
        null_capacity_per_s: None,
        ended,
    })
}

/// Requests per bucket that the server can take: those of the second half, when it has warmed up, or
/// those of the whole time if they are more. A neighbour that stops the server for half a second
/// must not make it seem fifty times as slow as it is: windows would be made for that server.
fn capacity(rates: &[f64]) -> f64 {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    mean(&rates[rates.len() / 2..]).max(mean(rates))
}

/// A first response that should not be measured by accident.
fn wrong_answer(variant: &Variant, learned: &Learned) -> Option<String> {
    let status = learned.status?;
    (status >= 400 && variant.load.expect.status.is_none()).then(|| {
        format!(
            "the first answer was status {status}; if that is expected, add --expect-status \
             {status}"
        )
    })
}

/// Variants with equal keys share a null server.
#[derive(Clone, Debug, PartialEq)]
struct NullKey {
    unix: bool,
    oneshot: bool,
    new_connection: bool,
    body_bytes: u64,
}

fn null_key(variant: &Variant, learned: Option<&Learned>) -> Option<NullKey> {
    // The variables in a target never change the kind of socket.
    let shape = variant.target.replace("$PORT", "1").replace("${PORT}", "1");
    let shape = shape.replace("$SOCKET", "/s").replace("${SOCKET}", "/s");
    let unix = match Target::parse(&shape).ok()?.endpoint() {
        Endpoint::Tcp { .. } => false,
        Endpoint::Unix(_) | Endpoint::Abstract(_) => true,
        _ => return None,
    };
    let oneshot = match variant.load.exchange {
        Exchange::Http(_) => false,
        Exchange::Oneshot => true,
        Exchange::Echo { .. } | Exchange::Bulk { .. } => return None,
    };
    let body_bytes = learned.and_then(|l| l.length).unwrap_or(12).min(1 << 20);
    Some(NullKey { unix, oneshot, new_connection: variant.load.new_connection, body_bytes })
}

/// Throughput of the client with a server that does next to nothing.
fn null_capacity(
    part: &Part,
    key: &NullKey,
    like: &Variant,
    around: &Setting<'_>,
    seed: Seed,
) -> Result<f64, StartError> {
    let (listen, scheme) = match (key.unix, key.oneshot) {
        (false, false) => ("tcp://127.0.0.1:$PORT", "http://127.0.0.1:$PORT/"),
        (true, false) => ("unix:$SOCKET", "http://unix:$SOCKET:/"),
        (false, true) => ("tcp://127.0.0.1:$PORT", "tcp://127.0.0.1:$PORT"),
        (true, true) => ("unix:$SOCKET", "unix:$SOCKET"),
    };
    let mode = if key.oneshot { "oneshot" } else { "http" };
    let ready =
        if key.unix { Ready::Socket("$SOCKET".into()) } else { Ready::Port("$PORT".into()) };
    let process = Process {
        name: "null server".into(),
        command: format!(
            "$TACHOGRAPH serve-fixture --listen {listen} --mode {mode} --body-size {}",
            key.body_bytes
        ),
        env: BTreeMap::new(),
        ready: vec![ready],
        ready_timeout: Nanos::from_secs(5),
        stop_signal: spec::StopSignal::Term,
        stop_timeout: Nanos::from_secs(2),
    };
    let mut variant = Variant {
        name: "null server".into(),
        stack: Stack { processes: vec![process], ..Stack::default() },
        target: scheme.into(),
        served_by: None,
        ..like.clone()
    };
    variant.load.expect = spec::Expect::default();
    let mut running = RunningVariant::start(0, &variant, around, seed)?;
    let length = if part.schedule.quick { 400 } else { 800 };
    let slice = slice_of(&variant, Mode::Closed, Nanos::from_millis(length), Nanos::ZERO);
    let rate = running.load(Offer::Calibration, 0, &slice, around.meter)?.throughput_per_s();
    running.end();
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_stopped_for_a_while_seemed_fifty_times_as_slow() {
        assert_eq!(capacity(&[50.0, 90.0, 100.0, 100.0]), 100.0, "it warms up");
        assert_eq!(capacity(&[100.0, 100.0, 4.0, 0.0]), 51.0);
        assert_eq!(capacity(&[]), 0.0);
    }
}
