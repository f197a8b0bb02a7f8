//! Prometheus remote write 1.0 (`prometheus.WriteRequest`) and 2.0
//! (`io.prometheus.write.v2.Request`), as in "Prometheus Remote-Write" 1.0 and 2.0 of Prometheus's
//! documentation, and the `.proto` files that they refer to.
//!
//! The label `__name__` is the measurement, and the others are the tags; a label with an empty
//! value is the same as none. The type of a metric is the one in its metadata, otherwise the names
//! `…_total`, `…_count`, `…_sum` and `…_bucket` are those of counters.

use series::Kind;

use super::wire::{Fields, Value, fields, zigzag};
use super::{
    DeclaredType, ELEMENTS_MAX, Element, ElementKind, FAMILIES_MAX, MessageContent, MessageError,
    Messages, point, whole_point,
};
use crate::name::FIELD;
use crate::{Arrival, Malformed, NAME_MAX, Precision, Reason, TAGS_MAX, Update};

/// The label that names the metric.
const NAME: &str = "__name__";

/// Suffixes of the series of a family.
const SUFFIXES: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];

/// The `reset_hint` of a histogram that is a gauge.
const GAUGE_HISTOGRAM: u64 = 3;

/// Name and value of a label.
type Label<'a> = (&'a str, &'a str);

/// A series of a message: its labels, and where its samples are.
struct SeriesHead<'a> {
    labels: Vec<Label<'a>>,
    /// More labels than a series can have.
    too_many: bool,
    declared: Option<DeclaredType>,
    /// 2.0 before its last draft had the start of a series' samples here; 0 if there is none.
    start_ms: i64,
}

impl<'a> SeriesHead<'a> {
    fn new() -> SeriesHead<'a> {
        SeriesHead { labels: Vec::new(), too_many: false, declared: None, start_ms: 0 }
    }

    fn label(&mut self, name: &'a str, value: &'a str) {
        if value.is_empty() {
            return;
        }
        // The name is not a tag.
        if self.labels.len() > TAGS_MAX {
            self.too_many = true;
        } else {
            self.labels.push((name, value));
        }
    }

    fn name(&self) -> Result<&'a str, Malformed> {
        let mut names = self.labels.iter().filter(|(name, _)| *name == NAME);
        match (names.next(), names.next()) {
            _ if self.too_many => Err(Malformed::TooManyTags),
            (Some((_, name)), None) => Ok(name),
            (None, _) => Err(Malformed::EmptyName),
            (Some(_), Some(_)) => Err(Malformed::DuplicateTag),
        }
    }
}

impl Messages {
    pub(super) fn remote_write_1(
        &mut self,
        message: &[u8],
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        for field in fields(message) {
            if let (3, metadata) = field? {
                self.family(metadata.fields()?)?;
            }
        }
        for field in fields(message) {
            let (1, series) = field? else { continue };
            let mut head = SeriesHead::new();
            for field in series.fields()? {
                if let (1, label) = field? {
                    let (mut name, mut value) = ("", "");
                    for field in label.fields()? {
                        match field? {
                            (1, text) => name = text.text()?,
                            (2, text) => value = text.text()?,
                            _ => {}
                        }
                    }
                    head.label(name, value);
                }
            }
            self.elements(&head, series.fields()?, 4, arrival, to)?;
        }
        Ok(())
    }

    pub(super) fn remote_write_2(
        &mut self,
        message: &[u8],
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        let mut symbols = Vec::new();
        for field in fields(message) {
            if let (4, symbol) = field? {
                if symbols.len() >= ELEMENTS_MAX {
                    return Err(MessageError::TooMany);
                }
                symbols.push(symbol.text()?);
            }
        }
        let symbol = |reference: u64| {
            let at = usize::try_from(reference).ok();
            at.and_then(|at| symbols.get(at).copied()).ok_or(MessageError::NoSymbol)
        };
        for field in fields(message) {
            let (5, series) = field? else { continue };
            let mut head = SeriesHead::new();
            let mut name = None;
            for field in series.fields()? {
                match field? {
                    (1, references) => {
                        for reference in references.varints()? {
                            let text = symbol(reference?)?;
                            match name.take() {
                                None => name = Some(text),
                                Some(name) => head.label(name, text),
                            }
                        }
                    }
                    (5, metadata) => head.declared = declared(metadata.fields()?)?,
                    (6, start) => head.start_ms = start.varint()? as i64,
                    _ => {}
                }
            }
            // Names and values come in pairs.
            if name.is_some() {
                return Err(MessageError::NoSymbol);
            }
            self.elements(&head, series.fields()?, 3, arrival, to)?;
        }
        Ok(())
    }

    /// Remembers the type of a metric family of 1.0, where metadata come in requests of their own.
    fn family(&mut self, metadata: Fields<'_>) -> Result<(), MessageError> {
        let mut family = "";
        for field in metadata.clone() {
            if let (2, name) = field? {
                family = name.text()?;
            }
        }
        let declared = declared(metadata)?;
        if self.dry || family.is_empty() || family.len() > NAME_MAX {
            return Ok(());
        }
        match declared {
            None => drop(self.families.remove(family)),
            Some(declared) if self.families.len() < FAMILIES_MAX => {
                self.families.insert(family.to_owned(), declared);
            }
            Some(declared) => {
                self.families.entry(family.to_owned()).and_modify(|known| *known = declared);
            }
        }
        Ok(())
    }

    fn kind(&self, name: &str, declared: Option<DeclaredType>) -> Kind {
        let family = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
        let known = || {
            let of_family = || family.and_then(|family| self.families.get(family));
            self.families.get(name).or_else(of_family).copied()
        };
        match declared.or_else(known) {
            Some(DeclaredType::Counter) => Kind::Total,
            Some(DeclaredType::Gauge) => Kind::Gauge,
            Some(DeclaredType::Parts) | None if family.is_some() => Kind::Total,
            Some(DeclaredType::Parts) | None => Kind::Gauge,
        }
    }

    /// Reads the samples of a series, which are its fields 2, and its histograms.
    fn elements(
        &mut self,
        head: &SeriesHead<'_>,
        series: Fields<'_>,
        histograms: u32,
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        for field in series {
            let (number, value) = field?;
            let first = to.updates.len();
            if number == 2 {
                let sample = Sample::read(value)?;
                let read = self.sample(head, &sample, to);
                self.put(to, head.name().unwrap_or_default(), first, arrival, read)?;
            } else if number == histograms {
                let histogram = Histogram::read(value)?;
                let read = self.histogram(head, &histogram, to);
                self.put(to, head.name().unwrap_or_default(), first, arrival, read)?;
                if let Some(element) = to.elements.last_mut() {
                    element.kind = ElementKind::Histogram;
                }
            }
        }
        Ok(())
    }

    fn sample(
        &mut self,
        head: &SeriesHead<'_>,
        sample: &Sample,
        to: &mut MessageContent,
    ) -> Result<Element, Reason> {
        let kind = self.kind(head.name()?, head.declared);
        let series = self.series_of(head, FIELD)?;
        let at_us = micros(sample.at_ms)?;
        to.updates.push((series, point(kind, at_us, sample.value)?));
        let start = if sample.start_ms == 0 { head.start_ms } else { sample.start_ms };
        let start_us = start_us(start, at_us).filter(|_| kind == Kind::Total);
        Ok(Element { start_us, ..Element::of(ElementKind::Sample) })
    }

    /// Records the count and the sum of a histogram; its buckets are not recorded.
    fn histogram(
        &mut self,
        head: &SeriesHead<'_>,
        histogram: &Histogram,
        to: &mut MessageContent,
    ) -> Result<Element, Reason> {
        if histogram.is_gauge {
            return Err(Malformed::GaugeHistogram.into());
        }
        let at_us = micros(histogram.at_ms)?;
        let is_stale = histogram.sum.to_bits() == STALE;
        if !is_stale && !histogram.is_consistent() {
            return Err(Malformed::BadBuckets.into());
        }
        let count: Update = match histogram.count {
            _ if is_stale => point(Kind::Total, at_us, f64::NAN)?,
            Count::Whole(count) => whole_point(Kind::Total, at_us, i128::from(count))?,
            Count::Float(count) => point(Kind::Total, at_us, count)?,
        };
        to.updates.push((self.series_of(head, "count")?, count));
        let sum = point(Kind::Total, at_us, histogram.sum)?;
        to.updates.push((self.series_of(head, "sum")?, sum));
        let start = if histogram.start_ms == 0 { head.start_ms } else { histogram.start_ms };
        let start_us = start_us(start, at_us);
        Ok(Element { start_us, ..Element::of(ElementKind::Histogram) })
    }

    fn series_of(
        &mut self,
        head: &SeriesHead<'_>,
        field: &str,
    ) -> Result<crate::Series, Malformed> {
        let name = head.name()?;
        let tags = head.labels.iter().copied().filter(|(name, _)| *name != NAME);
        self.series(name, tags, field)
    }
}

/// The bits of the NaN that says that a series has ended.
pub(super) const STALE: u64 = 0x7ff0_0000_0000_0002;

fn micros(at_ms: i64) -> Result<i64, Malformed> {
    Precision::Milliseconds.to_us(at_ms).ok_or(Malformed::BadTime)
}

/// The start of a counter that has a value at an instant; 0 means that it is not known.
fn start_us(start_ms: i64, at_us: i64) -> Option<i64> {
    let start_us = (start_ms != 0).then(|| micros(start_ms).ok()).flatten();
    start_us.filter(|start_us| *start_us < at_us)
}

/// The type in metadata; its numbers are the same in both versions.
fn declared(metadata: Fields<'_>) -> Result<Option<DeclaredType>, MessageError> {
    let mut declared = None;
    for field in metadata {
        if let (1, number) = field? {
            declared = match number.varint()? {
                1 => Some(DeclaredType::Counter),
                2 | 4 | 6 | 7 => Some(DeclaredType::Gauge),
                3 | 5 => Some(DeclaredType::Parts),
                _ => None,
            };
        }
    }
    Ok(declared)
}

#[derive(Default)]
struct Sample {
    value: f64,
    at_ms: i64,
    start_ms: i64,
}

impl Sample {
    fn read(value: Value<'_>) -> Result<Sample, MessageError> {
        let mut sample = Sample::default();
        for field in value.fields()? {
            match field? {
                (1, value) => sample.value = value.double()?,
                (2, at) => sample.at_ms = at.varint()? as i64,
                (3, start) => sample.start_ms = start.varint()? as i64,
                _ => {}
            }
        }
        Ok(sample)
    }
}

/// A count of observations.
#[derive(Clone, Copy)]
enum Count {
    Whole(u64),
    Float(f64),
}

/// A native histogram; the field numbers are the same in both versions.
struct Histogram {
    count: Count,
    sum: f64,
    zeros: u64,
    /// The sum over the buckets of an integer histogram, without that for zero.
    observed: i128,
    is_gauge: bool,
    at_ms: i64,
    start_ms: i64,
}

impl Histogram {
    fn read(value: Value<'_>) -> Result<Histogram, MessageError> {
        let mut histogram = Histogram {
            count: Count::Whole(0),
            sum: 0.0,
            zeros: 0,
            observed: 0,
            is_gauge: false,
            at_ms: 0,
            start_ms: 0,
        };
        let (mut negative, mut positive) = (0, 0);
        for field in value.fields()? {
            match field? {
                (1, count) => histogram.count = Count::Whole(count.varint()?),
                (2, count) => histogram.count = Count::Float(count.double()?),
                (3, sum) => histogram.sum = sum.double()?,
                (6, zeros) => histogram.zeros = zeros.varint()?,
                (9, deltas) => histogram.observe(&mut negative, deltas)?,
                (12, deltas) => histogram.observe(&mut positive, deltas)?,
                (14, hint) => histogram.is_gauge = hint.varint()? == GAUGE_HISTOGRAM,
                (15, at) => histogram.at_ms = at.varint()? as i64,
                (17, start) => histogram.start_ms = start.varint()? as i64,
                _ => {}
            }
        }
        Ok(histogram)
    }

    /// Adds buckets, each of which is given by its difference from the one before.
    fn observe(&mut self, bucket: &mut i128, deltas: Value<'_>) -> Result<(), MessageError> {
        for delta in deltas.varints()? {
            *bucket += i128::from(zigzag(delta?));
            self.observed += *bucket;
        }
        Ok(())
    }

    /// Whether the buckets add up to the count, as Prometheus requires of integer histograms. NaN
    /// is observed in no bucket, and makes the sum NaN.
    fn is_consistent(&self) -> bool {
        match self.count {
            Count::Whole(count) if self.sum.is_nan() => {
                self.observed + i128::from(self.zeros) <= i128::from(count)
            }
            Count::Whole(count) => self.observed + i128::from(self.zeros) == i128::from(count),
            Count::Float(_) => true,
        }
    }
}
