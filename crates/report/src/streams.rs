//! Responses that arrive in parts: server-sent events, the first byte, and gaps.

use base::{Nanos, format_rate};
use record::{Distribution, Part, StreamComparison, StreamPart, StreamTimes, Trial};
use serde_json::{Value, json};

use crate::json_parts::distribution_json;
use crate::means::{self, MeansTable, mean, offer, ratio_cell};
use crate::page::TableRow;
use crate::view;

/// A part of responses in words.
fn words(part: StreamPart) -> &'static str {
    match part {
        StreamPart::FirstByte => "first byte",
        StreamPart::FirstEvent => "first event",
        StreamPart::Gap => "gap",
    }
}

/// The streams of a variant's trials under an offer.
fn streams(part: &Part, variant: usize) -> Option<Vec<(&Trial, &StreamTimes)>> {
    let offer = offer(part)?;
    let trials = part.measured_blocks().flat_map(|block| block.measured_trials());
    let ours = trials.filter(|trial| trial.variant as usize == variant && trial.offer == offer);
    Some(ours.filter_map(|trial| Some((trial, trial.stream.as_ref()?))).collect())
}

/// Events per second of the measured time.
fn events_per_s(streams: &[(&Trial, &StreamTimes)]) -> f64 {
    let events: u64 = streams.iter().map(|(_, stream)| stream.events_in_window).sum();
    let seconds: f64 = streams.iter().map(|(trial, _)| trial.window.as_secs_f64()).sum();
    events as f64 / seconds.max(f64::MIN_POSITIVE)
}

/// The table of a part; `None` if events were not counted.
pub(crate) fn table(part: &Part) -> Option<MeansTable> {
    if !part.load.events || part.capacity.is_some() {
        return None;
    }
    let variants: Vec<usize> =
        (0..part.variants.len()).filter(|v| part.variants[*v].skipped.is_none()).collect();
    let all: Vec<_> = variants.iter().map(|v| streams(part, *v)).collect::<Option<_>>()?;
    let (heads, rows) = match all.as_slice() {
        [alone] => alone_rows(alone),
        _ => compared_rows(part, &variants, &all),
    };
    let legend =
        "first byte and first event: since the request was sent; gap: from one event to the \
        next, 0 if both arrived together"
            .to_owned();
    let legend = match all.len() {
        1 => legend,
        _ => format!("means, and ratios whose intervals hold together; {legend}"),
    };
    Some(MeansTable {
        title: "Events and the parts of responses",
        first: "time",
        heads,
        rows,
        legend,
    })
}

/// A single variant: percentiles of each part.
fn alone_rows(streams: &[(&Trial, &StreamTimes)]) -> (Vec<String>, Vec<TableRow>) {
    let heads = ["number", "mean", "p50", "p99", "max"].map(str::to_owned).to_vec();
    let row = |part: StreamPart| {
        let all = || streams.iter().map(|(_, stream)| stream.times(part));
        let percentile = |of: fn(&Distribution) -> u64| {
            let known = all().filter(|times| times.count > 0).map(|times| of(times) as f64);
            match view::geometric_mean(known) {
                mean if mean.is_finite() => Nanos(mean.round() as u64).to_string(),
                _ => "–".to_owned(),
            }
        };
        let count: u64 = all().map(|times| times.count).sum();
        let max = all().filter(|times| times.count > 0).map(|times| times.max_ns).max();
        TableRow {
            name: words(part).to_owned(),
            cells: vec![
                base::format_count(count),
                mean(all()),
                percentile(|times| times.p50_ns),
                percentile(|times| times.p99_ns),
                max.map_or("–".to_owned(), |max| Nanos(max).to_string()),
            ],
            is_bad: false,
        }
    };
    (heads, StreamPart::ALL.map(row).into())
}

/// Several variants: the mean of each part, and its ratios.
fn compared_rows(
    part: &Part,
    variants: &[usize],
    all: &[Vec<(&Trial, &StreamTimes)>],
) -> (Vec<String>, Vec<TableRow>) {
    let pairs = means::pairs(part.streams.iter().map(|one| (one.baseline, one.variant)));
    let mut heads: Vec<String> = variants.iter().map(|v| part.variants[*v].name.clone()).collect();
    heads.extend(pairs.iter().map(|pair| means::sides(part, *pair)));
    let mut rows = vec![TableRow {
        name: "events/s".to_owned(),
        cells: all
            .iter()
            .map(|streams| format_rate(events_per_s(streams)))
            .chain(pairs.iter().map(|_| String::new()))
            .collect(),
        is_bad: false,
    }];
    rows.extend(StreamPart::ALL.map(|of| {
        let means = all.iter().map(|streams| mean(streams.iter().map(|(_, s)| s.times(of))));
        let ratios = pairs.iter().map(|pair| {
            let is_this =
                |one: &&StreamComparison| (one.baseline, one.variant) == *pair && one.part == of;
            ratio_cell(part, *pair, part.streams.iter().find(is_this).map(|one| &one.ratio))
        });
        TableRow { name: words(of).to_owned(), cells: means.chain(ratios).collect(), is_bad: false }
    }));
    (heads, rows)
}

/// `12,345 events, 1,234/s`, of a single variant whose events were counted.
pub(crate) fn in_words(part: &Part) -> Option<String> {
    let streams = streams(part, 0).filter(|_| part.load.events)?;
    let events: u64 = streams.iter().map(|(_, stream)| stream.events).sum();
    let rate = format_rate(events_per_s(&streams));
    Some(format!("{}, {rate}/s", crate::text::plural(events, "event")))
}

/// The events of a trial; null if they were not counted.
pub(crate) fn of_trial(stream: Option<&StreamTimes>) -> Value {
    stream.map_or(Value::Null, |of| {
        json!({
            "events": of.events,
            "events_in_window": of.events_in_window,
            "first_byte_ns": distribution_json(&of.first_byte),
            "first_event_ns": distribution_json(&of.first_event),
            "gap_ns": distribution_json(&of.gaps),
        })
    })
}

/// The ratios of the parts of responses.
pub(crate) fn comparisons(part: &Part) -> Value {
    let one = |of: &StreamComparison| {
        json!({
            "baseline": view::name(part, of.baseline),
            "variant": view::name(part, of.variant),
            "offer": of.offer,
            "part": of.part,
            "ratio": of.ratio.value,
            "low": of.ratio.low,
            "high": of.ratio.high,
        })
    };
    part.streams.iter().map(one).collect()
}
