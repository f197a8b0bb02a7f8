//! StatsD: values are collected in windows, which are added to the head.

use std::collections::HashSet;

use formats::text::{HeldValue, Reader, WindowResult};
use formats::{Reason, Series};

use crate::answer::{Message, TakenLines};
use crate::gather::{Gatherer, Question};
use crate::record::{Format, read_windows, write_windows};
use crate::text::read_lines;

/// The open windows, and what is known of gauges.
#[derive(Debug)]
pub(crate) struct Statsd {
    reader: Reader,
    /// The gauges whose last value the reader has.
    gauges: HashSet<Series>,
    /// Whether lines have changed windows since these were last added to the head.
    pub(crate) has_new: bool,
    /// Results that were outside the bounds of their series, since they were last counted.
    pub(crate) refused: u64,
    /// What windows owe to later ones, until the messages of the last batch are read again.
    owed: Option<Vec<(Series, f64)>>,
}

impl Statsd {
    pub(crate) fn new(reader: Reader) -> Statsd {
        Statsd { reader, gauges: HashSet::new(), has_new: false, refused: 0, owed: None }
    }

    /// The position of the first message of which an open window has a part.
    pub(crate) fn first(&mut self) -> Option<u64> {
        self.reader.windows().and_then(|(windows, _)| windows.first())
    }

    /// Goes back to the windows of a record, or to the time before there were any; returns the
    /// position from which on their messages are to be read again, and `None` for another record.
    pub(crate) fn go_back(&mut self, record: Option<&[u8]>) -> Option<u64> {
        self.gauges.clear();
        self.has_new = false;
        let (windows, book) = self.reader.windows()?;
        let carried = record.map(|record| read_windows(record, book).ok_or(())).transpose().ok()?;
        let from = carried.as_ref().map_or(u64::MAX, |carried| carried.from);
        let carried = carried.unwrap_or_default();
        windows.go_back(&carried);
        self.owed = Some(carried.owed);
        Some(from)
    }

    /// Continues the windows of the last batch, after their lines were read again.
    pub(crate) fn resume(&mut self, gatherer: &mut Gatherer) {
        let Some(owed) = self.owed.take() else { return };
        if let Some((windows, _)) = self.reader.windows() {
            windows.owe(owed);
        }
        self.reader.flush();
        self.give_open(gatherer, true);
    }

    /// What must be known to continue the open windows after a batch up to a position, if there ever
    /// was one.
    pub(crate) fn record(&mut self, upto: u64) -> Option<Vec<u8>> {
        let (windows, book) = self.reader.windows().filter(|(windows, _)| windows.is_used())?;
        Some(write_windows(windows, book, upto + 1))
    }

    /// Closes the windows that are over when a message of any format arrives. If it `is_known` to
    /// the store, only the reader learns what it has given.
    pub(crate) fn pass(&mut self, gatherer: &mut Gatherer, message: Message<'_>, is_known: bool) {
        if let Some((windows, _)) = self.reader.windows() {
            windows.mark(message.position);
        }
        self.reader.pass(message.arrived.at_us);
        self.give(gatherer, is_known);
    }

    /// Adds the open windows to the head, and forgets them if they are to be cut.
    pub(crate) fn flush(&mut self, gatherer: &mut Gatherer, is_cut: bool) {
        if is_cut {
            self.reader.cut();
        } else {
            self.reader.flush();
        }
        self.give_open(gatherer, false);
    }

    fn give_open(&mut self, gatherer: &mut Gatherer, are_known: bool) {
        self.give(gatherer, are_known);
        self.has_new = false;
    }

    /// Adds the results of windows that the reader has to the head.
    fn give(&mut self, gatherer: &mut Gatherer, are_known: bool) {
        let windows = self.reader.take_windows();
        if !windows.is_empty() {
            gatherer.select(Format::Statsd.code());
        }
        for windowed in &windows {
            if gatherer.window(windowed, are_known).is_ok() {
                continue;
            }
            // It is outside the bounds of its series, and so is unknown.
            if !are_known {
                self.refused += 1;
                let nothing = WindowResult { update: None, ..*windowed };
                // What was recorded can be taken back.
                let _ = gatherer.window(&nothing, false);
            }
            if let Some((windows, _)) = self.reader.windows() {
                windows.not_given(windowed);
            }
        }
    }

    /// Adds the values of lines to their windows, and gauges to the head. Of a message that the store
    /// has, only windows are changed.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then nothing is added.
    pub(crate) fn lines(
        &mut self,
        gatherer: &mut Gatherer,
        message: Message<'_>,
        is_known: bool,
        taken: &mut TakenLines,
    ) -> Result<(), Question> {
        // The values, and the number and the count of values of each line.
        let (mut values, mut accepted) = (Vec::new(), Vec::new());
        read_lines(message, &mut self.reader, taken, |number, parsed| {
            if !parsed.held.is_empty() {
                values.extend_from_slice(&parsed.held);
                accepted.push((number, parsed.held.len()));
            }
        });
        let touched = values.iter().flat_map(HeldValue::series);
        let code = Format::Statsd.code();
        if let Some(missing) = gatherer.missing(code, self.reader.book(), touched) {
            return Err(missing);
        }
        let mut rest = values.as_mut_slice();
        for (number, count) in accepted {
            let (held, others) = rest.split_at_mut(count);
            rest = others;
            if is_known && held.iter().all(HeldValue::is_gauge) {
                continue;
            }
            match self.line(gatherer, held, is_known) {
                Ok(()) => taken.updates += held.len() as u64,
                Err(reason) => taken.refuse(number, reason),
            }
        }
        taken.is_in_head = taken.updates > 0;
        self.has_new |= taken.is_in_head && !is_known;
        Ok(())
    }

    /// Adds the values of one line, all or none.
    fn line(
        &mut self,
        gatherer: &mut Gatherer,
        held: &mut [HeldValue],
        is_known: bool,
    ) -> Result<(), Reason> {
        for (series, kind) in held.iter().flat_map(HeldValue::series) {
            gatherer.takes(series, kind)?;
        }
        for held in &mut *held {
            let Some(series) = held.relative_to() else { continue };
            if self.gauges.insert(series) {
                self.reader.level(series, gatherer.newest(series));
            }
            // Messages of several senders may overtake each other by a moment; a change is one of
            // the newest value nevertheless.
            held.not_before(gatherer.newest_us(series).unwrap_or(i64::MIN));
        }
        let parsed = self.reader.take(held);
        if let Some(reason) = parsed.reasons.first() {
            return Err(*reason);
        }
        let gauges = parsed.updates.clone();
        self.give(gatherer, is_known);
        let done = gatherer.line(&gauges);
        for (series, update) in gauges {
            // The last value is that of the newest point in the record, before and after a restart.
            let is_newest = gatherer.newest_us(series) == Some(update.times_us().1);
            if done.is_ok() && is_newest {
                self.gauges.insert(series);
            } else {
                self.gauges.remove(&series);
            }
        }
        done
    }
}
