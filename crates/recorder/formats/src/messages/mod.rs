//! Binary messages over HTTP: Prometheus remote write 1.0 and 2.0, and OTLP metrics.
//!
//! A message has elements: samples, histograms or data points. Like a line of text, an element is
//! accepted or refused as a whole; a message that cannot be read is refused as a whole.
//!
//! # Kinds
//!
//! | sent | kind |
//! | --- | --- |
//! | a cumulative counter | points of [`Kind::Total`]: it may have fractions, never wraps, and restarts at 0 |
//! | a delta | intervals of [`Kind::Count`]; a fraction is a rate over its interval, so the area is the delta |
//! | anything else | points of [`Kind::Gauge`] |
//!
//! A counter with a start time was 0 then ([`Element::start_us`]). NaN, and so a stale marker, is a
//! point without a value: coverage ends there.

mod otlp;
mod prometheus;
mod wire;

use std::collections::HashMap;

use series::{COUNT_MAX, Interval, Kind, Limits, Point, Reading, Refusal, SECOND_US};

use crate::{Arrival, Book, Malformed, Reason, Series, SeriesName, Update, UpdateContent};

/// Limit on the elements of a message.
pub const ELEMENTS_MAX: usize = 1 << 18;

/// Limit on their updates: histograms and summaries have several.
const UPDATES_MAX: usize = 2 * ELEMENTS_MAX;

/// Limit on the metric families whose types are remembered.
const FAMILIES_MAX: usize = 100_000;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `prometheus.WriteRequest`.
    RemoteWrite1,
    /// `io.prometheus.write.v2.Request`.
    RemoteWrite2,
    /// `opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest`.
    Otlp,
}

/// Why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not in protobuf's wire format, or a field of another type than the protocol's.
    #[error("the body is not a protobuf message of this type")]
    Wire,
    /// A text that is not UTF-8.
    #[error("the message has a text that is not UTF-8")]
    NotUtf8,
    /// A reference to a symbol that the message does not have.
    #[error("the message refers to a symbol that it does not have")]
    NoSymbol,
    /// Too many elements, symbols or labels.
    #[error("the message has more than {ELEMENTS_MAX} elements or symbols: send fewer at a time")]
    TooMany,
}

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// A sample of remote write, or a data point of OTLP.
    Sample,
    /// A native histogram of remote write.
    Histogram,
}

/// An element of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    /// What it is.
    pub kind: ElementKind,
    /// Number of its updates.
    pub updates: usize,
    /// Since when its totals count, in microseconds since the epoch: they were 0 then.
    pub start_us: Option<i64>,
    /// Whether its updates are deltas: the intervals of streams that count each time once.
    pub is_delta: bool,
    /// Why it is refused, if it is.
    pub refused: Option<Reason>,
}

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageContent {
    /// The updates of all elements, in their order.
    pub updates: Vec<(Series, Update)>,
    /// The elements.
    pub elements: Vec<Element>,
    /// The metric of the first element that is refused; empty if it has no name.
    pub first_refused: String,
}

/// The type of a metric, as Prometheus's metadata declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeclaredType {
    Counter,
    Gauge,
    /// A classic histogram or summary, whose series are named by suffixes.
    Parts,
}

/// Reads messages, and numbers their series.
#[derive(Debug)]
pub struct Messages {
    book: Book,
    limits: Limits,
    families: HashMap<String, DeclaredType>,
    /// Buffer for the text that names a series.
    key: String,
    /// Elements and updates of the message.
    elements: usize,
    updates: usize,
    /// Whether one of them is refused.
    has_refused: bool,
    /// Whether messages are only checked.
    dry: bool,
}

impl Messages {
    /// A reader for at most `series_max` series.
    pub fn new(limits: Limits, series_max: usize) -> Messages {
        Messages {
            book: Book::new(series_max),
            limits,
            families: HashMap::new(),
            key: String::new(),
            elements: 0,
            updates: 0,
            has_refused: false,
            dry: false,
        }
    }

    /// The series seen so far.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError`]: then `to` has a part of it, which is of no use.
    pub fn read(
        &mut self,
        protocol: Protocol,
        message: &[u8],
        arrival: Arrival,
        to: &mut MessageContent,
    ) -> Result<(), MessageError> {
        to.updates.clear();
        to.elements.clear();
        to.first_refused.clear();
        (self.elements, self.updates, self.has_refused) = (0, 0, false);
        match protocol {
            Protocol::RemoteWrite1 => self.remote_write_1(message, arrival, to),
            Protocol::RemoteWrite2 => self.remote_write_2(message, arrival, to),
            Protocol::Otlp => self.otlp(message, arrival, to),
        }
    }

    /// The number of a series; `tags` have no duplicates of the same value.
    fn series<'a>(
        &mut self,
        measurement: &str,
        tags: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        field: &str,
    ) -> Result<Series, Malformed> {
        if self.dry {
            return Ok(Series(0));
        }
        self.key.clear();
        for part in tags.clone().flat_map(|(key, value)| [key, value]).chain([measurement, field]) {
            if part.contains('\n') {
                return Err(Malformed::ControlCharacter);
            }
            self.key.push_str(part);
            self.key.push('\n');
        }
        self.book.number_of_text(&self.key, || {
            let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
            SeriesName::new(measurement, tags, field)
        })
    }

    /// Adds an element of a metric with the updates since `first`, or with the reason for refusing
    /// it.
    fn put(
        &mut self,
        to: &mut MessageContent,
        name: &str,
        first: usize,
        arrival: Arrival,
        read: Result<Element, Reason>,
    ) -> Result<(), MessageError> {
        self.elements += 1;
        self.updates += to.updates.len() - first;
        if self.elements > ELEMENTS_MAX || self.updates > UPDATES_MAX {
            return Err(MessageError::TooMany);
        }
        if self.dry {
            to.updates.truncate(first);
            return Ok(());
        }
        let within = |element: Element| {
            for (_, update) in &to.updates[first..] {
                update.within(&self.limits, arrival.now_us)?;
            }
            Ok(Element { updates: to.updates.len() - first, ..element })
        };
        let element = read.and_then(within);
        if element.is_err() {
            to.updates.truncate(first);
            if !std::mem::replace(&mut self.has_refused, true) {
                name.clone_into(&mut to.first_refused);
            }
        }
        to.elements.push(element.unwrap_or_else(|reason| Element {
            refused: Some(reason),
            ..Element::of(ElementKind::Sample)
        }));
        Ok(())
    }
}

impl Element {
    fn of(kind: ElementKind) -> Element {
        Element { kind, updates: 0, start_us: None, is_delta: false, refused: None }
    }
}

/// Checks that a message can be read.
///
/// # Errors
/// [`MessageError`].
pub fn check_message(protocol: Protocol, message: &[u8]) -> Result<(), MessageError> {
    let mut messages = Messages { dry: true, ..Messages::new(Limits::DEFAULT, 0) };
    messages.read(protocol, message, Arrival::live(0), &mut MessageContent::default())
}

/// A point of a gauge or total. NaN is a point without a value.
fn point(kind: Kind, at_us: i64, value: f64) -> Result<Update, Refusal> {
    let reading = if value.is_nan() { Reading::Unknown } else { kind.reading(value)? };
    Ok(Update { kind, what: UpdateContent::Point(Point { at_us, reading }) })
}

/// The same for a number that is sent as an integer.
fn whole_point(kind: Kind, at_us: i64, value: i128) -> Result<Update, Refusal> {
    if value.unsigned_abs() > COUNT_MAX as u128 {
        return Err(Refusal::TooLarge);
    }
    point(kind, at_us, value as f64)
}

/// An amount over an interval: a count if it is a whole number from 0 and so small that a slot can
/// hold thousands of them, otherwise a rate whose area it is.
fn delta(start_us: i64, end_us: i64, amount: f64) -> Result<Update, Refusal> {
    if amount >= 0.0 && amount.fract() == 0.0 && amount < (1_u64 << 40) as f64 {
        return Update::count(start_us, end_us, amount as i64);
    }
    // Checks the times and the amount before they are divided.
    Update::level(start_us, end_us, amount)?;
    let rate = amount * SECOND_US as f64 / (end_us - start_us) as f64;
    let what = UpdateContent::Interval(Interval::level(start_us, end_us, rate)?);
    Ok(Update { kind: Kind::Count, what })
}
