//! The messages of Prometheus remote write and OTLP, written by prost, which shares no code with
//! the reader under test. Field numbers are those of the protocols' `.proto` files; fields that no
//! test needs are missing.

#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "each test uses a part of the messages"
)]

use prost::{Message, Oneof};

/// Structs with what prost must know of each field.
macro_rules! messages {
    ($($(#[$on:meta])* $name:ident {
        $($(#[$about:meta])* [$($known:tt)*] $field:ident: $kind:ty,)*
    })*) => {$(
        $(#[$on])*
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            $($(#[$about])* #[prost($($known)*)] pub $field: $kind,)*
        }
    )*};
}

messages! {
    Label {
        [string, tag = "1"] name: String,
        [string, tag = "2"] value: String,
    }

    #[derive(Copy)]
    Sample {
        [double, tag = "1"] value: f64,
        [int64, tag = "2"] timestamp: i64,
        /// 2.0 only.
        [int64, tag = "3"] start_timestamp: i64,
    }

    Exemplar {
        [uint32, repeated, tag = "1"] labels_refs: Vec<u32>,
        [double, tag = "2"] value: f64,
        [int64, tag = "3"] timestamp: i64,
    }

    BucketSpan {
        [sint32, tag = "1"] offset: i32,
        [uint32, tag = "2"] length: u32,
    }

    Histogram {
        [oneof = "HistogramCount", tags = "1, 2"] count: Option<HistogramCount>,
        [double, tag = "3"] sum: f64,
        [sint32, tag = "4"] schema: i32,
        [uint64, tag = "6"] zero_count_int: u64,
        [message, repeated, tag = "8"] negative_spans: Vec<BucketSpan>,
        [sint64, repeated, tag = "9"] negative_deltas: Vec<i64>,
        [message, repeated, tag = "11"] positive_spans: Vec<BucketSpan>,
        [sint64, repeated, tag = "12"] positive_deltas: Vec<i64>,
        [int32, tag = "14"] reset_hint: i32,
        [int64, tag = "15"] timestamp: i64,
        [double, repeated, tag = "16"] custom_values: Vec<f64>,
        [int64, tag = "17"] start_timestamp: i64,
    }

    TimeSeries1 {
        [message, repeated, tag = "1"] labels: Vec<Label>,
        [message, repeated, tag = "2"] samples: Vec<Sample>,
        [message, repeated, tag = "4"] histograms: Vec<Histogram>,
    }

    Metadata1 {
        [int32, tag = "1"] kind: i32,
        [string, tag = "2"] family: String,
    }

    /// `prometheus.WriteRequest`.
    WriteRequest {
        [message, repeated, tag = "1"] timeseries: Vec<TimeSeries1>,
        [message, repeated, tag = "3"] metadata: Vec<Metadata1>,
    }

    Metadata2 {
        [int32, tag = "1"] kind: i32,
        [uint32, tag = "3"] help_ref: u32,
        [uint32, tag = "4"] unit_ref: u32,
    }

    TimeSeries2 {
        [uint32, repeated, tag = "1"] labels_refs: Vec<u32>,
        [message, repeated, tag = "2"] samples: Vec<Sample>,
        [message, repeated, tag = "3"] histograms: Vec<Histogram>,
        [message, repeated, tag = "4"] exemplars: Vec<Exemplar>,
        [message, optional, tag = "5"] metadata: Option<Metadata2>,
        /// Before the last draft of 2.0.
        [int64, tag = "6"] created_timestamp: i64,
    }

    /// `io.prometheus.write.v2.Request`.
    Request {
        [string, repeated, tag = "4"] symbols: Vec<String>,
        [message, repeated, tag = "5"] timeseries: Vec<TimeSeries2>,
    }

    KeyValue {
        [string, tag = "1"] key: String,
        [message, optional, tag = "2"] value: Option<AnyValue>,
    }

    AnyValue {
        [oneof = "Any", tags = "1, 2, 3, 4, 5, 6, 7"] value: Option<Any>,
    }

    ArrayValue {
        [message, repeated, tag = "1"] values: Vec<AnyValue>,
    }

    MapValue {
        [message, repeated, tag = "1"] values: Vec<KeyValue>,
    }

    NumberDataPoint {
        [message, repeated, tag = "7"] attributes: Vec<KeyValue>,
        [fixed64, tag = "2"] start: u64,
        [fixed64, tag = "3"] time: u64,
        [oneof = "NumberValue", tags = "4, 6"] value: Option<NumberValue>,
        [uint32, tag = "8"] flags: u32,
    }

    HistogramDataPoint {
        [message, repeated, tag = "9"] attributes: Vec<KeyValue>,
        [fixed64, tag = "2"] start: u64,
        [fixed64, tag = "3"] time: u64,
        [fixed64, tag = "4"] count: u64,
        [double, optional, tag = "5"] sum: Option<f64>,
        [fixed64, repeated, tag = "6"] bucket_counts: Vec<u64>,
        [double, repeated, tag = "7"] explicit_bounds: Vec<f64>,
        [double, optional, tag = "11"] min: Option<f64>,
        [double, optional, tag = "12"] max: Option<f64>,
    }

    ExponentialDataPoint {
        [message, repeated, tag = "1"] attributes: Vec<KeyValue>,
        [fixed64, tag = "2"] start: u64,
        [fixed64, tag = "3"] time: u64,
        [fixed64, tag = "4"] count: u64,
        [double, optional, tag = "5"] sum: Option<f64>,
        [sint32, tag = "6"] scale: i32,
        [fixed64, tag = "7"] zero_count: u64,
        [double, optional, tag = "12"] min: Option<f64>,
        [double, optional, tag = "13"] max: Option<f64>,
    }

    #[derive(Copy)]
    Quantile {
        [double, tag = "1"] quantile: f64,
        [double, tag = "2"] value: f64,
    }

    SummaryDataPoint {
        [message, repeated, tag = "7"] attributes: Vec<KeyValue>,
        [fixed64, tag = "2"] start: u64,
        [fixed64, tag = "3"] time: u64,
        [fixed64, tag = "4"] count: u64,
        [double, tag = "5"] sum: f64,
        [message, repeated, tag = "6"] quantiles: Vec<Quantile>,
    }

    Gauge {
        [message, repeated, tag = "1"] points: Vec<NumberDataPoint>,
    }

    Sum {
        [message, repeated, tag = "1"] points: Vec<NumberDataPoint>,
        [int32, tag = "2"] temporality: i32,
        [bool, tag = "3"] is_monotonic: bool,
    }

    Distribution {
        [message, repeated, tag = "1"] points: Vec<HistogramDataPoint>,
        [int32, tag = "2"] temporality: i32,
    }

    Exponential {
        [message, repeated, tag = "1"] points: Vec<ExponentialDataPoint>,
        [int32, tag = "2"] temporality: i32,
    }

    Summary {
        [message, repeated, tag = "1"] points: Vec<SummaryDataPoint>,
    }

    Metric {
        [string, tag = "1"] name: String,
        [oneof = "Data", tags = "5, 7, 9, 10, 11"] data: Option<Data>,
    }

    Scope {
        [string, tag = "1"] name: String,
    }

    ScopeMetrics {
        [message, optional, tag = "1"] scope: Option<Scope>,
        [message, repeated, tag = "2"] metrics: Vec<Metric>,
    }

    Resource {
        [message, repeated, tag = "1"] attributes: Vec<KeyValue>,
    }

    ResourceMetrics {
        [message, optional, tag = "1"] resource: Option<Resource>,
        [message, repeated, tag = "2"] scopes: Vec<ScopeMetrics>,
    }

    /// `opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest`.
    Export {
        [message, repeated, tag = "1"] resources: Vec<ResourceMetrics>,
    }

    PartialSuccess {
        [int64, tag = "1"] rejected: i64,
        [string, tag = "2"] message: String,
    }

    /// `ExportMetricsServiceResponse`.
    ExportResponse {
        [message, optional, tag = "1"] partial_success: Option<PartialSuccess>,
    }

    /// `google.rpc.Status`.
    Status {
        [string, tag = "2"] message: String,
    }
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum HistogramCount {
    #[prost(uint64, tag = "1")]
    Int(u64),
    #[prost(double, tag = "2")]
    Float(f64),
}

impl Request {
    /// Adds a series with these labels; the first symbol is the empty text.
    pub fn series(&mut self, labels: &[(&str, &str)]) -> &mut TimeSeries2 {
        if self.symbols.is_empty() {
            self.symbols.push(String::new());
        }
        let mut labels_refs = Vec::new();
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            let known = self.symbols.iter().position(|symbol| symbol == text);
            let at = known.unwrap_or_else(|| {
                self.symbols.push((*text).to_owned());
                self.symbols.len() - 1
            });
            labels_refs.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        self.timeseries.push(TimeSeries2 { labels_refs, ..TimeSeries2::default() });
        let last = self.timeseries.len() - 1;
        &mut self.timeseries[last]
    }
}

impl KeyValue {
    pub fn of(key: &str, value: Any) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }

    pub fn text(key: &str, value: &str) -> KeyValue {
        KeyValue::of(key, Any::Text(value.to_owned()))
    }
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Map(MapValue),
    #[prost(bytes, tag = "7")]
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum NumberValue {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Distribution),
    #[prost(message, tag = "10")]
    Exponential(Exponential),
    #[prost(message, tag = "11")]
    Summary(Summary),
}

impl Export {
    /// Metrics of one resource and scope.
    pub fn of(attributes: &[(&str, &str)], scope: &str, metrics: Vec<Metric>) -> Export {
        let attributes = attributes.iter().map(|(key, value)| KeyValue::text(key, value)).collect();
        let scope = ScopeMetrics { scope: Some(Scope { name: scope.to_owned() }), metrics };
        let resource = Some(Resource { attributes });
        Export { resources: vec![ResourceMetrics { resource, scopes: vec![scope] }] }
    }
}

impl Metric {
    pub fn of(name: &str, data: Data) -> Metric {
        Metric { name: name.to_owned(), data: Some(data) }
    }
}
