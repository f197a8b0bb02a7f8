//! StatsD lines: `key:value|type[|@rate][|#tags]`.
//!
//! As documented in StatsD's "Metric types" and in DogStatsD's datagram format: several values
//! (`key:1:2:3|ms`, `key:1|c:2|c`), sample rates, tags (`#zone:b,new`; a tag without a value is
//! `true`), and since DogStatsD 1.3 a time (`|T1656581400`). Container ids and further sections
//! (`|c:…`, `|e:…`) are ignored. A key may have tags in Graphite's form.
//!
//! | type | becomes |
//! | --- | --- |
//! | `c` | field `count`: a count over each window; a sample rate multiplies it |
//! | `g` | field `value`: a point; `+` and `-` change the last value, 0 before the first |
//! | `ms`, `h`, `d` | per window: `n` (count), `mean`, `min`, `max`, `p50`, `p90`, `p99` (levels) |
//! | `s` | field `distinct`: how many different values in a window (level) |
//!
//! # Arrival times
//!
//! StatsD has no times: a line counts when it arrives. From a socket that is now. In a file a line
//! can give its time, by `|T…` or by seconds since 1970 before it, as `ts %.s` writes them
//! (`1656581400.25 key:1|c`); otherwise all lines arrived at [`Arrival::at_us`]. A line without any
//! of these is refused.
//!
//! In a daemon ([`Statsd::live`]) nothing precedes a line, and `|T…` must be in a window that is
//! still open; gauges may be as late as other points.
//!
//! A line is accepted or refused as a whole, so one invalid value is enough to refuse it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use series::{COUNT_MAX, Kind, Refusal, Step};

use super::graphite::tagged;
use super::window::{Addend, Item, TIMER_COUNT, TIMER_LEVELS, Timer, Windows};
use super::{HeldValue, ParsedLine, Parser, ParserOutput};
use crate::name::FIELD;
use crate::time::decimal_seconds;
use crate::{Arrival, FileError, Malformed, Number, Reason, Series, Update};

/// Limit on a count in a line that a daemon acknowledges: a slot must not overflow afterwards.
const LIVE_COUNT_MAX: f64 = (1_i64 << 40) as f64;

/// Parses StatsD lines.
#[derive(Debug)]
pub struct Statsd {
    is_live: bool,
    windows: Windows,
    gauges: HashMap<Series, f64>,
    /// By the series of a timer's count, that of its first level.
    timers: HashMap<Series, Series>,
    timer_levels: [Arc<str>; TIMER_LEVELS.len()],
    /// Buffer for the text that names a series: key, tags, field.
    key: String,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Counter,
    Gauge,
    Timer,
    Set,
}

/// A metric of a line.
#[derive(Clone, Copy, Debug)]
struct Metric<'a> {
    key: &'a str,
    values: &'a str,
    kind: Type,
    rate: f64,
    tags: &'a str,
    time: Option<i64>,
}

impl Statsd {
    /// Counts over windows of this length, aligned to the epoch.
    pub fn new(window: Step) -> Statsd {
        Statsd::of(Windows::new(window, false), false)
    }

    /// The same for lines that arrive at a daemon, in the order of their arrival.
    pub fn live(window: Step) -> Statsd {
        Statsd::of(Windows::new(window, true), true)
    }

    fn of(windows: Windows, is_live: bool) -> Statsd {
        let (gauges, timers) = (HashMap::new(), HashMap::new());
        let timer_levels = TIMER_LEVELS.map(Arc::from);
        Statsd { is_live, windows, gauges, timers, timer_levels, key: String::new() }
    }

    /// The time of a metric.
    fn at_us(
        &self,
        metric: &Metric<'_>,
        before: Option<i64>,
        arrival: Arrival,
    ) -> Result<i64, Reason> {
        match (metric.time.or(before), arrival.at_us) {
            (Some(at_us), Some(now_us)) if self.is_live && metric.kind != Type::Gauge => {
                // A window of the future would close those in which lines arrive.
                match at_us < self.windows.end_us(self.windows.arrives_us(now_us)) {
                    true => Ok(at_us),
                    false => Err(Refusal::Future.into()),
                }
            }
            (Some(at_us), _) => Ok(at_us),
            (None, Some(now_us)) if self.is_live => Ok(self.windows.arrives_us(now_us)),
            (None, at_us) => at_us.ok_or_else(|| Malformed::NoTime.into()),
        }
    }

    /// A count in a line must be smaller than this.
    fn count_max(&self) -> f64 {
        if self.is_live { LIVE_COUNT_MAX } else { f64::INFINITY }
    }

    /// Records the values of a metric as held.
    fn metric(
        &mut self,
        metric: &Metric<'_>,
        at_us: i64,
        out: &mut ParserOutput<'_>,
    ) -> Result<(), Reason> {
        for value in metric.values.split(':') {
            if value.is_empty() {
                return Err(Malformed::NoValue.into());
            }
            let item = match metric.kind {
                Type::Counter => self.count(metric, value, out)?,
                Type::Gauge => self.gauge(metric, value, out)?,
                Type::Timer => self.time(metric, value, out)?,
                Type::Set => {
                    let series = self.series(metric, "distinct", out)?;
                    Item::Distinct { series, value: value.into() }
                }
            };
            out.parsed.held.push(HeldValue { at_us, item });
        }
        Ok(())
    }

    fn count(
        &mut self,
        metric: &Metric<'_>,
        value: &str,
        out: &mut ParserOutput<'_>,
    ) -> Result<Item, Reason> {
        let number = finite(value)?;
        let addend = match number {
            Number::Signed(count) if metric.rate == 1.0 => Addend::Whole(count),
            number => Addend::Part(number.as_f64() / metric.rate),
        };
        if number.as_f64() < 0.0 {
            return Err(Refusal::NegativeCounter.into());
        }
        if addend.as_f64() > COUNT_MAX as f64 || addend.as_f64() >= self.count_max() {
            return Err(Refusal::TooLarge.into());
        }
        Ok(Item::Count { series: self.series(metric, "count", out)?, addend })
    }

    fn gauge(
        &mut self,
        metric: &Metric<'_>,
        value: &str,
        out: &mut ParserOutput<'_>,
    ) -> Result<Item, Reason> {
        let relative = value.starts_with(['+', '-']);
        let value = finite(value)?.as_f64();
        Ok(Item::Gauge { series: self.series(metric, FIELD, out)?, value, relative })
    }

    fn time(
        &mut self,
        metric: &Metric<'_>,
        value: &str,
        out: &mut ParserOutput<'_>,
    ) -> Result<Item, Reason> {
        let value = finite(value)?.as_f64();
        if value.abs() > series::LEVEL_MAX || 1.0 / metric.rate >= self.count_max() {
            return Err(Refusal::TooLarge.into());
        }
        let count = self.series(metric, TIMER_COUNT, out)?;
        let first = match self.timers.entry(count) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(out.book.add_fields(count, &self.timer_levels)?),
        };
        Ok(Item::Time { timer: Timer { count, first }, value, rate: metric.rate })
    }

    /// The successive levels of a line's gauges, with the updates that they give.
    fn levels(&self, held: &[HeldValue]) -> Result<Vec<(Series, f64, Update)>, Reason> {
        let mut levels: Vec<(Series, f64, Update)> = Vec::new();
        for held in held {
            let Item::Gauge { series, value, relative } = held.item else { continue };
            // The gauges of a line mostly belong to one series.
            let before = levels.iter().rfind(|(known, ..)| *known == series);
            let before = before.map(|(_, level, _)| level).or_else(|| self.gauges.get(&series));
            let level = match relative {
                true => before.copied().unwrap_or(0.0) + value,
                false => value,
            };
            let update = Number::Float(level).point(Kind::Gauge, held.at_us)?;
            levels.push((series, level, update));
        }
        Ok(levels)
    }

    fn series(
        &mut self,
        metric: &Metric<'_>,
        field: &str,
        out: &mut ParserOutput<'_>,
    ) -> Result<Series, Malformed> {
        self.key.clear();
        self.key.extend([metric.key, "\n", metric.tags, "\n", field]);
        out.book.number_of_text(&self.key, || {
            let name = tagged(metric.key, field)?;
            let known = name.tags().iter().cloned();
            let tags = metric.tags.split(',').filter(|tag| !tag.is_empty()).map(|tag| {
                let (key, value) = tag.split_once(':').unwrap_or((tag, "true"));
                (key.to_owned(), value.to_owned())
            });
            crate::SeriesName::new(name.measurement(), known.chain(tags), field)
        })
    }
}

impl Parser for Statsd {
    fn line(
        &mut self,
        line: &str,
        arrival: Arrival,
        to: &mut ParserOutput<'_>,
    ) -> Result<(), FileError> {
        let line = line.trim_ascii();
        let (before, line) = if self.is_live { (None, line) } else { captured(line) };
        let metrics = match metrics(line) {
            Ok(metrics) => metrics,
            Err(malformed) => {
                to.refuse(malformed);
                return Ok(());
            }
        };
        for metric in &metrics {
            // The line, not the end of its window, must be within the horizons: a line from the far
            // future would close all open windows.
            let within = self.at_us(metric, before, arrival).and_then(|at_us| {
                let own_us = metric.time.or(before).unwrap_or(arrival.now_us);
                to.limits.admit(arrival.now_us, own_us, own_us)?;
                Ok(at_us)
            });
            if let Err(reason) = within.and_then(|at_us| self.metric(metric, at_us, to)) {
                to.refuse(reason);
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, held: &[HeldValue], to: &mut ParsedLine) {
        match self.levels(held).and_then(|levels| Ok((levels, self.windows.admit(held)?))) {
            Err(reason) => to.reasons.push(reason),
            Ok((levels, ())) => {
                for (series, level, update) in levels {
                    self.gauges.insert(series, level);
                    to.updates.push((series, update));
                }
                super::last_of_each(&mut to.updates);
                for held in held.iter().filter(|held| !matches!(held.item, Item::Gauge { .. })) {
                    self.windows.take(held, to);
                }
            }
        }
    }

    fn remembers(&self) -> bool {
        true
    }

    fn flush(&mut self, to: &mut ParsedLine) {
        self.windows.flush(to);
    }

    fn windows(&mut self) -> Option<&mut Windows> {
        Some(&mut self.windows)
    }

    fn level(&mut self, series: Series, value: Option<f64>) {
        match value {
            Some(value) => self.gauges.insert(series, value),
            None => self.gauges.remove(&series),
        };
    }
}

/// A line without the time that a capture put before it, and that time.
fn captured(line: &str) -> (Option<i64>, &str) {
    let timed = line.split_once(' ').and_then(|(time, rest)| Some((decimal_seconds(time)?, rest)));
    match timed {
        Some((at_us, rest)) if !rest.is_empty() => (Some(at_us), rest.trim_ascii_start()),
        _ => (None, line),
    }
}

fn finite(value: &str) -> Result<Number, Reason> {
    let number = Number::parse(value).ok_or(Malformed::NotANumber)?;
    match number.as_f64() {
        value if value.is_nan() => Err(Refusal::NotANumber.into()),
        value if value.is_infinite() => Err(Refusal::Infinite.into()),
        _ => Ok(number),
    }
}

/// The metrics of a line: one, or several of the same key.
///
/// Nothing of a line is applied unless all of it can be parsed.
fn metrics(line: &str) -> Result<Vec<Metric<'_>>, Malformed> {
    if line.starts_with("_e{") || line.starts_with("_sc|") {
        return Err(Malformed::NotAMetric);
    }
    let (key, mut rest) = line.split_once(':').ok_or(Malformed::NotStatsd)?;
    if key.is_empty() {
        return Err(Malformed::EmptyName);
    }
    let mut metrics = Vec::with_capacity(1);
    while !rest.is_empty() {
        let (metric, next) = metric(key, rest)?;
        metrics.push(metric);
        rest = next;
    }
    let gauges = metrics.iter().filter(|metric| metric.kind == Type::Gauge).count();
    if metrics.is_empty() {
        Err(Malformed::NotStatsd)
    } else if gauges > 0 && gauges < metrics.len() {
        // A gauge may be too late for its series while a count is not.
        Err(Malformed::MixedTypes)
    } else {
        Ok(metrics)
    }
}

/// The first metric after a key, and the rest.
fn metric<'a>(key: &'a str, text: &'a str) -> Result<(Metric<'a>, &'a str), Malformed> {
    let (values, text) = text.split_once('|').ok_or(Malformed::NotStatsd)?;
    let (section, mut rest) = section(text);
    let (name, mut next) = section.split_once(':').unwrap_or((section, ""));
    let kind = match name {
        "c" => Type::Counter,
        "g" => Type::Gauge,
        "ms" | "h" | "d" => Type::Timer,
        "s" => Type::Set,
        _ => return Err(Malformed::UnknownType),
    };
    let mut metric = Metric { key, values, kind, rate: 1.0, tags: "", time: None };
    while let Some(text) = rest.filter(|_| next.is_empty()) {
        let (section, following) = self::section(text);
        rest = following;
        if let Some(rate) = section.strip_prefix('@') {
            let (rate, value) = rate.split_once(':').unwrap_or((rate, ""));
            metric.rate = rate.parse().map_err(|_| Malformed::BadRate)?;
            next = value;
        } else if let Some(tags) = section.strip_prefix('#') {
            metric.tags = tags;
        } else if let Some(time) = section.strip_prefix('T') {
            metric.time = Some(decimal_seconds(time).ok_or(Malformed::BadTime)?);
        } else if !section.is_empty() && !section.contains(':') {
            return Err(Malformed::NotStatsd);
        }
    }
    if !(metric.rate > 0.0 && metric.rate <= 1.0) {
        return Err(Malformed::BadRate);
    }
    let left = if next.is_empty() { "" } else { &text[offset(text, next)..] };
    Ok((metric, left))
}

/// Up to the next bar, and the rest.
fn section(text: &str) -> (&str, Option<&str>) {
    text.split_once('|').map_or((text, None), |(section, rest)| (section, Some(rest)))
}

/// The offset of a part within its text.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

#[cfg(test)]
#[path = "statsd_tests.rs"]
mod tests;
