//! Remote write and OTLP: what the elements of messages become.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

#[path = "messages/types.rs"]
mod types;

use formats::{
    Arrival, ELEMENTS_MAX, ElementKind, MessageContent, MessageError, Messages, Protocol,
    UpdateContent, check_message,
};
use prost::Message as _;
use series::{Amount, Limits, Reading};
use types::*;

/// 2026-01-01, in microseconds since the epoch.
const NOW_US: i64 = 1_767_225_600_000_000;
const NOW_MS: i64 = NOW_US / 1_000;
const NOW_NS: u64 = NOW_US as u64 * 1_000;
const SECOND_NS: u64 = 1_000_000_000;

const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// What a message becomes, one text per element and update.
fn shown(messages: &mut Messages, protocol: Protocol, message: &[u8]) -> Vec<String> {
    check_message(protocol, message).unwrap();
    let mut taken = MessageContent::default();
    messages.read(protocol, message, Arrival::live(NOW_US), &mut taken).unwrap();
    let since = |at_us: i64| (at_us - NOW_US) as f64 / 1e6;
    let (mut shown, mut updates) = (Vec::new(), taken.updates.iter());
    for element in &taken.elements {
        if let Some(reason) = element.refused {
            shown.push(format!("! {} {}", reason.name(), taken.first_refused));
        }
        for (series, update) in updates.by_ref().take(element.updates) {
            let name = messages.book().name(*series);
            let kind = format!("{name} {:?}", update.kind);
            let text = match update.what {
                UpdateContent::Point(point) => {
                    let start = element
                        .start_us
                        .map_or(String::new(), |start_us| format!(" since {}", since(start_us)));
                    let value = match point.reading {
                        Reading::Unknown => "unknown".to_owned(),
                        reading => reading.as_f64().to_string(),
                    };
                    format!("{kind} {value} @{}{start}", since(point.at_us))
                }
                UpdateContent::Interval(interval) => {
                    let span = interval.cover().span;
                    let amount = match interval.cover().amount {
                        Amount::Count(count) => count.to_string(),
                        Amount::Level(rate) => format!("{rate}/s"),
                    };
                    let (start, end) = (since(span.start_us()), since(span.end_us()));
                    format!("{kind} {amount} {start}..{end}")
                }
            };
            shown.push(text);
        }
    }
    assert_eq!(updates.count(), 0);
    shown
}

fn messages() -> Messages {
    Messages::new(Limits::DEFAULT, 1_000)
}

fn sample(value: f64) -> Sample {
    Sample { value, timestamp: NOW_MS, start_timestamp: 0 }
}

fn series_1(labels: &[(&str, &str)], samples: Vec<Sample>) -> TimeSeries1 {
    let label =
        |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    TimeSeries1 { labels: labels.iter().map(label).collect(), samples, histograms: Vec::new() }
}

#[test]
fn the_names_and_metadata_of_1_0_tell_counters() {
    let mut messages = messages();
    let named = |name: &str| series_1(&[("__name__", name), ("job", "a")], vec![sample(0.5)]);
    let names = ["up", "hits_total", "rpc_sum", "rpc_count", "rpc_bucket", "size", "odd_total"];
    let request = WriteRequest {
        timeseries: names.map(named).into(),
        metadata: vec![
            Metadata1 { kind: 1, family: "size".into() },
            Metadata1 { kind: 2, family: "odd_total".into() },
        ],
    };
    let found = shown(&mut messages, Protocol::RemoteWrite1, &request.encode_to_vec());
    assert_eq!(
        found,
        [
            "up{job=a} Gauge 0.5 @0",
            "hits_total{job=a} Total 0.5 @0",
            "rpc_sum{job=a} Total 0.5 @0",
            "rpc_count{job=a} Total 0.5 @0",
            "rpc_bucket{job=a} Total 0.5 @0",
            "size{job=a} Total 0.5 @0",
            "odd_total{job=a} Gauge 0.5 @0",
        ]
    );
    // Metadata come in requests of their own, and are remembered.
    let types = [(2, "requests_total"), (5, "rpc")]
        .map(|(kind, family)| Metadata1 { kind, family: family.into() });
    let request = WriteRequest { metadata: types.into(), ..WriteRequest::default() };
    assert!(shown(&mut messages, Protocol::RemoteWrite1, &request.encode_to_vec()).is_empty());
    let request = WriteRequest {
        timeseries: ["requests_total", "rpc", "rpc_sum"].map(named).into(),
        ..WriteRequest::default()
    };
    assert_eq!(
        shown(&mut messages, Protocol::RemoteWrite1, &request.encode_to_vec()),
        [
            "requests_total{job=a} Gauge 0.5 @0",
            "rpc{job=a} Gauge 0.5 @0",
            "rpc_sum{job=a} Total 0.5 @0"
        ]
    );
}

#[test]
fn the_metadata_and_start_times_of_2_0_are_those_of_its_series() {
    let mut request = Request::default();
    let typed = |kind| Some(Metadata2 { kind, ..Metadata2::default() });
    let series = request.series(&[("__name__", "hits"), ("instance", "b"), ("job", "a")]);
    series.metadata = typed(1);
    let at = |value, start_ms: i64| Sample { start_timestamp: start_ms, ..sample(value) };
    series.samples = vec![at(7.0, NOW_MS - 5_000), at(9.0, NOW_MS), at(9.0, 0), at(STALE, 0)];
    let series = request.series(&[("__name__", "level_total")]);
    series.metadata = typed(2);
    series.samples = vec![at(-1.0, NOW_MS - 5_000)];
    let series = request.series(&[("__name__", "old_total")]);
    series.created_timestamp = NOW_MS - 9_000;
    series.samples = vec![sample(3.0)];
    let found = shown(&mut messages(), Protocol::RemoteWrite2, &request.encode_to_vec());
    assert_eq!(
        found,
        [
            "hits{instance=b,job=a} Total 7 @0 since -5",
            "hits{instance=b,job=a} Total 9 @0",
            "hits{instance=b,job=a} Total 9 @0",
            "hits{instance=b,job=a} Total unknown @0",
            "level_total Gauge -1 @0",
            "old_total Total 3 @0 since -9",
        ]
    );
}

#[test]
fn samples_are_refused_one_by_one() {
    let mut request = Request::default();
    let mut add = |labels: &[(&str, &str)], value: f64| {
        request.series(labels).samples = vec![sample(value)];
    };
    add(&[("job", "a")], 1.0);
    add(&[], 1.0);
    add(&[("__name__", "up"), ("job", "a"), ("job", "b")], 1.0);
    add(&[("__name__", "up"), ("__name__", "down")], 1.0);
    add(&[("__name__", "up"), ("", "b")], 1.0);
    add(&[("__name__", "up"), ("job", "")], 1.0);
    add(&[("__name__", "up"), ("job", "a\nb")], 1.0);
    add(&[("__name__", "up")], f64::INFINITY);
    add(&[("__name__", "up")], f64::NAN);
    add(&[("__name__", "hits_total")], -1.0);
    add(&[("__name__", "resource cpu.usage"), ("job name", "β")], 1.0);
    let far = Sample { timestamp: i64::MAX, ..sample(1.0) };
    let late = Sample { timestamp: NOW_MS + 601_000, ..sample(1.0) };
    request.series(&[("__name__", "up")]).samples = vec![far, late];
    let found = shown(&mut messages(), Protocol::RemoteWrite2, &request.encode_to_vec());
    // The first refused element has no name.
    assert_eq!(
        found,
        [
            "! empty_name ",
            "! empty_name ",
            "! duplicate_tag ",
            "! duplicate_tag ",
            "! empty_name ",
            "up Gauge 1 @0",
            "! control_character ",
            "! infinite ",
            "up Gauge unknown @0",
            "! negative_counter ",
            "resource cpu.usage{job name=β} Gauge 1 @0",
            "! bad_time ",
            "! future ",
        ]
    );
}

#[test]
fn a_native_histogram_has_a_count_and_a_sum() {
    let whole = Histogram {
        count: Some(HistogramCount::Int(7)),
        sum: 2.5,
        zero_count_int: 1,
        // Buckets of 1, 3 and 2.
        positive_deltas: vec![1, 2, -1],
        timestamp: NOW_MS,
        start_timestamp: NOW_MS - 1_000,
        ..Histogram::default()
    };
    let float =
        Histogram { count: Some(HistogramCount::Float(1.5)), start_timestamp: 0, ..whole.clone() };
    let wrong = Histogram { count: Some(HistogramCount::Int(99)), ..whole.clone() };
    let gauge = Histogram { reset_hint: 3, ..whole.clone() };
    let stale = Histogram { sum: STALE, timestamp: NOW_MS, ..Histogram::default() };
    let nan = Histogram { sum: f64::NAN, count: Some(HistogramCount::Int(8)), ..whole.clone() };
    let mut request = Request::default();
    request.series(&[("__name__", "t"), ("job", "a")]).histograms =
        vec![whole, float, wrong, gauge, stale, nan];
    let bytes = request.encode_to_vec();
    let found = shown(&mut messages(), Protocol::RemoteWrite2, &bytes);
    assert_eq!(
        found,
        [
            "t:count{job=a} Total 7 @0 since -1",
            "t:sum{job=a} Total 2.5 @0 since -1",
            "t:count{job=a} Total 1.5 @0",
            "t:sum{job=a} Total 2.5 @0",
            "! bad_buckets t",
            "! gauge_histogram t",
            "t:count{job=a} Total unknown @0",
            "t:sum{job=a} Total unknown @0",
            "t:count{job=a} Total 8 @0 since -1",
            "t:sum{job=a} Total unknown @0 since -1",
        ]
    );
    let mut taken = MessageContent::default();
    let arrival = Arrival::live(NOW_US);
    messages().read(Protocol::RemoteWrite2, &bytes, arrival, &mut taken).unwrap();
    assert!(taken.elements.iter().all(|element| element.kind == ElementKind::Histogram));
}

fn number(value: NumberValue, since_s: u64) -> NumberDataPoint {
    let start = if since_s == 0 { 0 } else { NOW_NS - since_s * SECOND_NS };
    NumberDataPoint { start, time: NOW_NS, value: Some(value), ..NumberDataPoint::default() }
}

#[test]
fn deltas_are_intervals_and_cumulative_sums_totals() {
    let int = |value, since_s| number(NumberValue::Int(value), since_s);
    let double = |value, since_s| number(NumberValue::Double(value), since_s);
    let sum = |temporality, is_monotonic, points: Vec<NumberDataPoint>| {
        Data::Sum(Sum { points, temporality, is_monotonic })
    };
    let no_value = NumberDataPoint { flags: 1, ..number(NumberValue::Int(0), 10) };
    let missing = NumberDataPoint { value: None, ..int(0, 10) };
    let metrics = vec![
        Metric::of("d", sum(1, true, vec![int(42, 10), double(4.0, 10), double(2.5, 10)])),
        Metric::of("d", sum(1, false, vec![int(-5, 10), no_value.clone()])),
        Metric::of("d", sum(1, true, vec![int(1, 0), missing])),
        Metric::of("c", sum(2, true, vec![int(42, 10), double(0.5, 0), no_value])),
        Metric::of("u", sum(2, false, vec![int(-5, 10)])),
        Metric::of("x", sum(0, true, vec![int(1, 10)])),
        Metric::of("g", Data::Gauge(Gauge { points: vec![double(-1.5, 10), int(i64::MAX, 10)] })),
        Metric::of("", Data::Gauge(Gauge { points: vec![double(1.0, 0)] })),
    ];
    let export = Export::of(&[("service.name", "shop")], "lib", metrics);
    let found = shown(&mut messages(), Protocol::Otlp, &export.encode_to_vec());
    let tags = "{otel_scope_name=lib,service.name=shop}";
    let wanted = [
        "d* Count 42 -10..0",
        "d* Count 4 -10..0",
        "d* Count 0.25/s -10..0",
        "d* Count -0.5/s -10..0",
        "! too_long d",
        "! no_value d",
        "c* Total 42 @0 since -10",
        "c* Total 0.5 @0",
        "c* Total unknown @0 since -10",
        "u* Gauge -5 @0",
        "! no_temporality d",
        "g* Gauge -1.5 @0",
        "! too_large d",
        "! empty_name d",
    ];
    assert_eq!(found, wanted.map(|text| text.replace('*', tags)));
}

#[test]
fn histograms_and_summaries_have_several_fields() {
    let point = HistogramDataPoint {
        start: NOW_NS - 10 * SECOND_NS,
        time: NOW_NS,
        count: 4,
        sum: Some(2.5),
        min: Some(0.25),
        max: Some(1.0),
        bucket_counts: vec![1, 3],
        explicit_bounds: vec![0.5],
        ..HistogramDataPoint::default()
    };
    let bare = HistogramDataPoint { sum: None, min: None, max: None, ..point.clone() };
    let exponential = ExponentialDataPoint {
        start: point.start,
        time: NOW_NS,
        count: 3,
        sum: Some(1.5),
        min: Some(0.5),
        max: None,
        ..ExponentialDataPoint::default()
    };
    let summary = SummaryDataPoint {
        time: NOW_NS,
        count: 9,
        sum: 0.5,
        quantiles: vec![Quantile { quantile: 0.99, value: 0.1 }],
        ..SummaryDataPoint::default()
    };
    let delta = Distribution { points: vec![point.clone(), bare], temporality: 1 };
    let cumulative = Distribution { points: vec![point], temporality: 2 };
    let exponential = Exponential { points: vec![exponential], temporality: 1 };
    let metrics = vec![
        Metric::of("d", Data::Histogram(delta)),
        Metric::of("c", Data::Histogram(cumulative)),
        Metric::of("e", Data::Exponential(exponential)),
        Metric::of("s", Data::Summary(Summary { points: vec![summary] })),
    ];
    let export = Export::of(&[], "", metrics);
    assert_eq!(
        shown(&mut messages(), Protocol::Otlp, &export.encode_to_vec()),
        [
            "d:count Count 4 -10..0",
            "d:sum Count 0.25/s -10..0",
            "d:min Level 0.25/s -10..0",
            "d:max Level 1/s -10..0",
            "d:count Count 4 -10..0",
            "c:count Total 4 @0 since -10",
            "c:sum Total 2.5 @0 since -10",
            "c:min Gauge 0.25 @0 since -10",
            "c:max Gauge 1 @0 since -10",
            "e:count Count 3 -10..0",
            "e:sum Count 0.15/s -10..0",
            "e:min Level 0.5/s -10..0",
            "s:count Total 9 @0",
            "s:sum Total 0.5 @0",
            "s{quantile=0.99} Gauge 0.1 @0",
        ]
    );
}

#[test]
fn attributes_are_tags_and_those_of_a_data_point_come_first() {
    let deep = (0..20).fold(Any::Int(1), |value, _| {
        Any::Array(ArrayValue { values: vec![AnyValue { value: Some(value) }] })
    });
    let list = ArrayValue {
        values: vec![
            AnyValue { value: Some(Any::Int(1)) },
            AnyValue { value: Some(Any::Bool(true)) },
        ],
    };
    let map = MapValue { values: vec![KeyValue::text("k", "v")] };
    let with = |attributes: Vec<KeyValue>| NumberDataPoint {
        attributes,
        ..number(NumberValue::Int(1), 0)
    };
    let points = vec![
        with(vec![
            KeyValue::text("host", "own"),
            KeyValue::text("empty", ""),
            KeyValue::of("list", Any::Array(list)),
            KeyValue::of("map", Any::Map(map)),
            KeyValue::of("bytes", Any::Bytes(vec![0xab, 1])),
            KeyValue::of("ratio", Any::Double(0.5)),
        ]),
        with(vec![KeyValue::of("deep", deep)]),
        with((0..65).map(|i| KeyValue::text(&i.to_string(), "x")).collect()),
        with(vec![KeyValue::text("", "x")]),
    ];
    let metrics = vec![Metric::of("g", Data::Gauge(Gauge { points }))];
    let export = Export::of(&[("host", "resource"), ("zone", "z")], "", metrics);
    assert_eq!(
        shown(&mut messages(), Protocol::Otlp, &export.encode_to_vec()),
        [
            "g{bytes=ab01,host=own,list=[1,true],map={k=v},ratio=0.5,zone=z} Gauge 1 @0",
            "! bad_tag g",
            "! too_many_tags g",
            "! empty_name g",
        ]
    );
}

#[test]
fn messages_that_cannot_be_read_are_refused_as_a_whole() {
    let mut good = Request::default();
    good.series(&[("__name__", "up"), ("job", "a")]).samples = vec![sample(1.0)];
    let bytes = good.encode_to_vec();
    for cut in 1..bytes.len() {
        let cut = &bytes[..cut];
        // A cut between two fields is a message of its own.
        if let Err(error) = check_message(Protocol::RemoteWrite2, cut) {
            assert_eq!(error, MessageError::Wire);
        }
    }
    let mut missing = good.clone();
    missing.timeseries[0].labels_refs[1] = 1_000;
    let mut odd = good.clone();
    odd.timeseries[0].labels_refs.pop();
    for wrong in [missing, odd] {
        let found = check_message(Protocol::RemoteWrite2, &wrong.encode_to_vec());
        assert_eq!(found, Err(MessageError::NoSymbol));
    }
    // A symbol that is not UTF-8.
    assert_eq!(check_message(Protocol::RemoteWrite2, &[0x22, 1, 0xff]), Err(MessageError::NotUtf8));
    // The messages of the other version are empty, as its reserved fields provide for.
    assert_eq!(shown(&mut messages(), Protocol::RemoteWrite1, &bytes), [""; 0]);
    assert_eq!(check_message(Protocol::Otlp, &[0x0a]), Err(MessageError::Wire));
}

#[test]
fn many_small_elements_are_refused_before_they_take_memory() {
    // Two bytes for each empty sample.
    let samples = [0x12, 0].repeat(ELEMENTS_MAX + 1);
    let mut message = vec![0x0a];
    prost::encoding::encode_varint(samples.len() as u64, &mut message);
    message.extend(samples);
    assert_eq!(check_message(Protocol::RemoteWrite1, &message), Err(MessageError::TooMany));
    let symbols = [0x22, 0].repeat(ELEMENTS_MAX + 1);
    assert_eq!(check_message(Protocol::RemoteWrite2, &symbols), Err(MessageError::TooMany));
    // Summaries with a hundred quantiles each.
    let point = SummaryDataPoint {
        time: NOW_NS,
        quantiles: vec![Quantile::default(); 100],
        ..SummaryDataPoint::default()
    };
    let summary = |points| Export::of(&[], "", vec![Metric::of("s", Data::Summary(points))]);
    let points = vec![point; 2 * ELEMENTS_MAX / 102 + 1];
    let message = summary(Summary { points: points.clone() }).encode_to_vec();
    assert_eq!(check_message(Protocol::Otlp, &message), Err(MessageError::TooMany));
    let message = summary(Summary { points: points[1..].to_vec() }).encode_to_vec();
    assert_eq!(check_message(Protocol::Otlp, &message), Ok(()));
}
