//! OTLP metrics: `ExportMetricsServiceRequest`.
//!
//! As in "OpenTelemetry Protocol Specification" and "Metrics Data Model", and `metrics.proto` of
//! opentelemetry-proto 1.x.
//!
//! The tags of a series are the attributes of its resource, its scope's name as `otel_scope_name`,
//! and the attributes of its data points, which replace those of the resource with the same key.
//! Attributes without a text are omitted.
//!
//! | metric | fields |
//! | --- | --- |
//! | gauge, sum | `value` |
//! | histogram, exponential histogram | `count`, `sum`, `min`, `max`; buckets are not recorded |
//! | summary | `count`, `sum`; `value` with the tag `quantile` |

use std::borrow::Cow;

use series::Kind;

use super::wire::{Fields, Value, fields};
use super::{
    Element, ElementKind, MessageContent, MessageError, Messages, delta, point, whole_point,
};
use crate::name::FIELD;
use crate::{Arrival, Malformed, NAME_MAX, Precision, Reason, TAGS_MAX, Update};

/// The tag with the scope's name.
const SCOPE: &str = "otel_scope_name";

/// The tag of a summary's quantiles.
const QUANTILE: &str = "quantile";

/// Limit on the depth of arrays and maps in an attribute.
const DEPTH_MAX: usize = 8;

/// The bit of a data point's flags that says that it has no value.
const NO_VALUE: u64 = 1;

/// Limit on the quantiles of a summary.
const QUANTILES_MAX: usize = 100;

/// Key and value of an attribute.
type Attribute<'a> = (&'a str, Cow<'a, str>);

/// Attributes, or why there are none.
type Attributes<'a> = Result<Vec<Attribute<'a>>, Malformed>;

/// How the data points of a metric follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Temporality {
    Unspecified,
    Delta,
    Cumulative,
}

/// What is known of the data points of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MetricData {
    Gauge,
    Sum { temporality: Temporality, is_monotonic: bool },
    Histogram { temporality: Temporality },
    Summary,
}

/// Where the fields of a type of data points are.
struct Numbers {
    attributes: u32,
    flags: u32,
    min: u32,
    max: u32,
}

const NUMBER: Numbers = Numbers { attributes: 7, flags: 8, min: 0, max: 0 };
const HISTOGRAM: Numbers = Numbers { attributes: 9, flags: 10, min: 11, max: 12 };
const EXPONENTIAL: Numbers = Numbers { attributes: 1, flags: 10, min: 12, max: 13 };
const SUMMARY: Numbers = Numbers { attributes: 7, flags: 8, min: 0, max: 0 };

/// A number as it was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i64),
    Float(f64),
}

/// A data point of any type.
struct DataPoint<'a> {
    attributes: Attributes<'a>,
    start_ns: u64,
    end_ns: u64,
    value: Option<Number>,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    quantiles: Vec<(f64, f64)>,
    has_value: bool,
}

/// The name and the tags of a metric's series.
struct MetricSeries<'a, 'b> {
    name: &'a str,
    resource: &'b Attributes<'a>,
    scope: &'a str,
}

impl Messages {
    pub(super) fn otlp(
        &mut self,
        message: &[u8],
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        for field in fields(message) {
            let (1, of_resource) = field? else { continue };
            let mut resource: Attributes<'_> = Ok(Vec::new());
            for field in of_resource.fields()? {
                if let (1, found) = field? {
                    for field in found.fields()? {
                        if let (1, found) = field? {
                            attribute(&mut resource, found)?;
                        }
                    }
                }
            }
            for field in of_resource.fields()? {
                if let (2, of_scope) = field? {
                    self.scope(&resource, of_scope.fields()?, arrival, to)?;
                }
            }
        }
        Ok(())
    }

    fn scope(
        &mut self,
        resource: &Attributes<'_>,
        of_scope: Fields<'_>,
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        let mut scope = "";
        for field in of_scope.clone() {
            if let (1, found) = field? {
                for field in found.fields()? {
                    if let (1, name) = field? {
                        scope = name.text()?;
                    }
                }
            }
        }
        for field in of_scope {
            let (2, metric) = field? else { continue };
            let mut name = "";
            for field in metric.fields()? {
                if let (1, text) = field? {
                    name = text.text()?;
                }
            }
            let named = MetricSeries { name, resource, scope };
            for field in metric.fields()? {
                let (number, data) = field?;
                let numbers = match number {
                    5 | 7 => NUMBER,
                    9 => HISTOGRAM,
                    10 => EXPONENTIAL,
                    11 => SUMMARY,
                    _ => continue,
                };
                let metric = metric_of(number, data.fields()?)?;
                for field in data.fields()? {
                    let (1, found) = field? else { continue };
                    let found = DataPoint::read(found, &numbers)?;
                    let first = to.updates.len();
                    let read = self.data_point(&named, metric, &found, to);
                    self.put(to, name, first, arrival, read)?;
                }
            }
        }
        Ok(())
    }

    fn data_point(
        &mut self,
        named: &MetricSeries<'_, '_>,
        metric: MetricData,
        found: &DataPoint<'_>,
        to: &mut MessageContent,
    ) -> Result<Element, Reason> {
        let tags = named.tags(found)?;
        let at_us = micros(found.end_ns)?;
        let start_us = micros(found.start_ns)?;
        let element = Element::of(ElementKind::Sample);
        let temporality = match metric {
            MetricData::Gauge => Temporality::Unspecified,
            MetricData::Summary => Temporality::Cumulative,
            MetricData::Sum { temporality, .. } | MetricData::Histogram { temporality } => {
                if temporality == Temporality::Unspecified {
                    return Err(Malformed::NoTemporality.into());
                }
                temporality
            }
        };
        if found.end_ns == 0 {
            return Err(Malformed::BadTime.into());
        }
        if temporality == Temporality::Delta && !found.has_value {
            // Nothing is known of that time, and a delta says nothing of any other.
            return Ok(element);
        }
        let mut put = |field: &str, update: Result<Update, series::Refusal>| {
            let series = self.series(named.name, tags.iter().copied(), field)?;
            to.updates.push((series, update?));
            Ok::<_, Reason>(())
        };
        let is_delta = temporality == Temporality::Delta;
        let is_total = match metric {
            MetricData::Gauge => false,
            MetricData::Sum { is_monotonic, .. } => is_monotonic,
            MetricData::Histogram { .. } | MetricData::Summary => true,
        };
        let kind = if is_total { Kind::Total } else { Kind::Gauge };
        // An amount, as a delta over its interval or as a point.
        let amount = |number: Number| match number {
            _ if !found.has_value => point(kind, at_us, f64::NAN),
            Number::Whole(value) if is_delta => delta(start_us, at_us, value as f64),
            Number::Float(value) if is_delta => delta(start_us, at_us, value),
            Number::Whole(value) => whole_point(kind, at_us, i128::from(value)),
            Number::Float(value) => point(kind, at_us, value),
        };
        match metric {
            MetricData::Gauge | MetricData::Sum { .. } => {
                let value = match found.value {
                    Some(value) => value,
                    None if found.has_value => return Err(Malformed::NoValue.into()),
                    None => Number::Whole(0),
                };
                put(FIELD, amount(value))?;
            }
            MetricData::Histogram { .. } | MetricData::Summary => {
                let count = i64::try_from(found.count).map_err(|_| series::Refusal::TooLarge)?;
                put("count", amount(Number::Whole(count)))?;
                // A summary's sum is always sent; protobuf omits a zero.
                let is_summary = metric == MetricData::Summary;
                if let Some(sum) = found.sum.or(is_summary.then_some(0.0)) {
                    put("sum", amount(Number::Float(sum)))?;
                }
                for (field, value) in [("min", found.min), ("max", found.max)] {
                    let Some(value) = value.filter(|_| found.count > 0 && found.has_value) else {
                        continue;
                    };
                    let update = match is_delta {
                        true => Update::level(start_us, at_us, value),
                        false => point(Kind::Gauge, at_us, value),
                    };
                    put(field, update)?;
                }
            }
        }
        for (quantile, value) in &found.quantiles {
            let update = point(Kind::Gauge, at_us, *value)?;
            let quantile = quantile.to_string();
            let others = tags.iter().copied().filter(|(key, _)| *key != QUANTILE);
            let tags = others.chain([(QUANTILE, &*quantile)]);
            to.updates.push((self.series(named.name, tags, FIELD)?, update));
        }
        let is_since = !is_delta && is_total && found.start_ns != 0 && start_us < at_us;
        Ok(Element { start_us: is_since.then_some(start_us), is_delta, ..element })
    }
}

impl<'a> MetricSeries<'a, '_> {
    /// The tags of a data point's series, sorted by key.
    fn tags<'p>(&'p self, found: &'p DataPoint<'a>) -> Result<Vec<(&'p str, &'p str)>, Reason> {
        let own = found.attributes.as_ref().map_err(|reason| *reason)?;
        let resource = self.resource.as_ref().map_err(|reason| *reason)?;
        let text = |(key, value): &'p Attribute<'a>| (*key, &**value);
        let scope = Some((SCOPE, self.scope)).filter(|(_, name)| !name.is_empty());
        let own = own.iter().map(text);
        let mut tags: Vec<_> = own.chain(scope).chain(resource.iter().map(text)).collect();
        // A stable sort, so the data point's own attribute is the first of its key.
        tags.sort_by_key(|(key, _)| *key);
        tags.dedup_by_key(|(key, _)| *key);
        Ok(tags)
    }
}

/// Reads what a metric's data points have in common.
fn metric_of(number: u32, data: Fields<'_>) -> Result<MetricData, MessageError> {
    let (mut temporality, mut is_monotonic) = (Temporality::Unspecified, false);
    if matches!(number, 7 | 9 | 10) {
        for field in data {
            match field? {
                (2, value) => {
                    temporality = match value.varint()? {
                        1 => Temporality::Delta,
                        2 => Temporality::Cumulative,
                        _ => Temporality::Unspecified,
                    };
                }
                (3, value) if number == 7 => is_monotonic = value.varint()? != 0,
                _ => {}
            }
        }
    }
    Ok(match number {
        7 => MetricData::Sum { temporality, is_monotonic },
        9 | 10 => MetricData::Histogram { temporality },
        11 => MetricData::Summary,
        _ => MetricData::Gauge,
    })
}

impl<'a> DataPoint<'a> {
    fn read(value: Value<'a>, numbers: &Numbers) -> Result<DataPoint<'a>, MessageError> {
        let mut found = DataPoint {
            attributes: Ok(Vec::new()),
            start_ns: 0,
            end_ns: 0,
            value: None,
            count: 0,
            sum: None,
            min: None,
            max: None,
            quantiles: Vec::new(),
            has_value: true,
        };
        let is_number = numbers.attributes == NUMBER.attributes;
        for field in value.fields()? {
            match field? {
                (number, value) if number == numbers.attributes => {
                    attribute(&mut found.attributes, value)?;
                }
                (number, value) if number == numbers.flags => {
                    found.has_value = value.varint()? & NO_VALUE == 0;
                }
                (number, value) if number == numbers.min => found.min = Some(value.double()?),
                (number, value) if number == numbers.max => found.max = Some(value.double()?),
                (2, start) => found.start_ns = start.fixed64()?,
                (3, end) => found.end_ns = end.fixed64()?,
                // The value of a number, and the count of the other types.
                (4, value) => {
                    found.count = value.fixed64()?;
                    found.value = Some(Number::Float(f64::from_bits(found.count)));
                }
                (5, Value::Fixed64(sum)) => found.sum = Some(f64::from_bits(sum)),
                (6, Value::Fixed64(value)) if is_number => {
                    found.value = Some(Number::Whole(value as i64));
                }
                (6, Value::Bytes(quantile)) if is_number => {
                    let (mut at, mut value) = (0.0, 0.0);
                    for field in fields(quantile) {
                        match field? {
                            (1, number) => at = number.double()?,
                            (2, number) => value = number.double()?,
                            _ => {}
                        }
                    }
                    if found.quantiles.len() >= QUANTILES_MAX {
                        return Err(MessageError::TooMany);
                    }
                    found.quantiles.push((at, value));
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Adds an attribute; more than a series can have as tags give [`Malformed::TooManyTags`].
fn attribute<'a>(to: &mut Attributes<'a>, value: Value<'a>) -> Result<(), MessageError> {
    let (mut key, mut text) = ("", Ok(Cow::Borrowed("")));
    for field in value.fields()? {
        match field? {
            (1, name) => key = name.text()?,
            (2, value) => text = any(value.fields()?, DEPTH_MAX)?,
            _ => {}
        }
    }
    if let Ok(known) = to {
        match text {
            Err(reason) => *to = Err(reason),
            Ok(text) if text.is_empty() => {}
            Ok(_) if known.len() >= TAGS_MAX => *to = Err(Malformed::TooManyTags),
            Ok(text) => known.push((key, text)),
        }
    }
    Ok(())
}

/// The text of a value. Arrays are `[a,b]`, maps `{k=a,l=b}`, bytes hexadecimal.
fn any(value: Fields<'_>, depth: usize) -> Result<Result<Cow<'_, str>, Malformed>, MessageError> {
    let mut text = Ok(Cow::Borrowed(""));
    if depth == 0 {
        return Ok(Err(Malformed::BadTag));
    }
    for field in value {
        text = match field? {
            (1, value) => Ok(Cow::Borrowed(value.text()?)),
            (2, value) => Ok(Cow::Borrowed(if value.varint()? == 0 { "false" } else { "true" })),
            (3, value) => Ok(Cow::Owned((value.varint()? as i64).to_string())),
            (4, value) => Ok(Cow::Owned(value.double()?.to_string())),
            (5, list) => joined(list.fields()?, depth, ['[', ']'])?,
            (6, list) => joined(list.fields()?, depth, ['{', '}'])?,
            (7, bytes) => {
                let bytes = bytes.bytes()?;
                match bytes.len() > NAME_MAX / 2 {
                    true => Err(Malformed::NameTooLong),
                    false => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
                }
            }
            _ => continue,
        };
    }
    Ok(text)
}

/// The text of an array or a map.
fn joined(
    list: Fields<'_>,
    depth: usize,
    [open, close]: [char; 2],
) -> Result<Result<Cow<'_, str>, Malformed>, MessageError> {
    let mut joined = String::from(open);
    for field in list {
        let (1, value) = field? else { continue };
        let text = if open == '[' {
            any(value.fields()?, depth - 1)?
        } else {
            let (mut key, mut text) = ("", Ok(Cow::Borrowed("")));
            for field in value.fields()? {
                match field? {
                    (1, name) => key = name.text()?,
                    (2, value) => text = any(value.fields()?, depth - 1)?,
                    _ => {}
                }
            }
            text.map(|text| Cow::Owned(format!("{key}={text}")))
        };
        let text = match text {
            Ok(text) => text,
            Err(reason) => return Ok(Err(reason)),
        };
        if joined.len() > 1 {
            joined.push(',');
        }
        joined.push_str(&text);
        if joined.len() > NAME_MAX {
            return Ok(Err(Malformed::NameTooLong));
        }
    }
    joined.push(close);
    Ok(Ok(Cow::Owned(joined)))
}

fn micros(at_ns: u64) -> Result<i64, Malformed> {
    let at_ns = i64::try_from(at_ns).map_err(|_| Malformed::BadTime)?;
    Precision::Nanoseconds.to_us(at_ns).ok_or(Malformed::BadTime)
}
