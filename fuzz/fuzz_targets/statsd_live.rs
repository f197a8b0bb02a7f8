//! StatsD at a daemon: datagrams at any times, a restart at any moment, and the windows are those of
//! a daemon that was not restarted.
#![no_main]

use std::collections::BTreeMap;

use formats::text::{CarriedWindows, HeldValue, ParsedLine, Reader, Statsd};
use formats::{Arrival, Line, SeriesName, UpdateContent};
use libfuzzer_sys::fuzz_target;
use series::{Limits, Step};

/// A daemon: a reader, and the counts that its record has.
struct Daemon {
    reader: Reader,
    record: BTreeMap<(String, i64), f64>,
}

impl Daemon {
    fn new() -> Daemon {
        let parser = Box::new(Statsd::live(Step::from_secs(10).expect("a step")));
        let reader = Reader::new(parser, Limits::DEFAULT, 100_000);
        Daemon { reader, record: BTreeMap::new() }
    }

    /// Adds results of windows to the record; `None` if the record has them.
    fn give(&mut self, parsed: &ParsedLine, is_known: bool) {
        for windowed in parsed.windows.iter().filter(|_| !is_known) {
            let name = self.reader.book().name(windowed.series).to_string();
            let mut add = |update: formats::Update, sign: f64| {
                let UpdateContent::Interval(interval) = update.what else { return };
                let cover = interval.cover();
                if let series::Amount::Count(count) = cover.amount {
                    let at = (name.clone(), cover.span.start_us());
                    *self.record.entry(at).or_default() += sign * count as f64;
                }
            };
            windowed.instead.into_iter().for_each(|update| add(update, -1.0));
            windowed.update.into_iter().for_each(|update| add(update, 1.0));
        }
    }

    fn message(&mut self, position: u64, at_us: i64, bytes: &[u8], is_known: bool) {
        if let Some((windows, _)) = self.reader.windows() {
            windows.mark(position);
        }
        let closed = self.reader.pass(at_us).clone();
        self.give(&closed, is_known);
        let mut accepted: Vec<Vec<HeldValue>> = Vec::new();
        for (number, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line =
                Line { number, bytes, too_long: false, first: true, last: true, torn: false };
            let Ok(parsed) = self.reader.read(line, Arrival::live(at_us)) else { return };
            accepted.push(parsed.held.clone());
        }
        for held in accepted.iter().filter(|held| !held.is_empty()) {
            let parsed = self.reader.take(held).clone();
            self.give(&parsed, is_known);
        }
    }

    fn flush(&mut self, is_known: bool) {
        let parsed = self.reader.flush().clone();
        self.give(&parsed, is_known);
    }
}

/// What is in the journal and in the record after a batch.
struct Saved {
    upto: u64,
    carried: CarriedWindows,
    /// The series to which fractions are owed.
    names: Vec<SeriesName>,
    record: BTreeMap<(String, i64), f64>,
}

impl Saved {
    /// A batch: open windows are added as they are.
    fn batch(daemon: &mut Daemon, upto: u64) -> Option<Saved> {
        daemon.flush(false);
        let (windows, book) = daemon.reader.windows()?;
        let carried = windows.carried(upto + 1, usize::MAX, |_| 0);
        let names = carried.owed.iter().map(|(series, _)| book.name(*series).clone()).collect();
        Some(Saved { upto, carried, names, record: daemon.record.clone() })
    }

    /// The daemon that continues after a kill.
    fn restart(self, messages: &[(i64, &[u8])]) -> Option<Daemon> {
        let mut daemon = Daemon::new();
        daemon.record = self.record;
        let (windows, book) = daemon.reader.windows()?;
        windows.go_back(&self.carried);
        let numbers = self.names.into_iter().map(|name| book.number(name).expect("a number"));
        let owed = numbers.zip(self.carried.owed.iter().map(|(_, part)| *part)).collect();
        for (position, (at_us, lines)) in (1..=self.upto).zip(messages) {
            if position >= self.carried.from {
                daemon.message(position, *at_us, lines, true);
            }
        }
        daemon.reader.windows()?.0.owe(owed);
        daemon.flush(true);
        for (position, (at_us, lines)) in (1..).zip(messages) {
            if position > self.upto {
                daemon.message(position, *at_us, lines, false);
            }
        }
        Some(daemon)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([batch, kill], rest)) = bytes.split_first_chunk::<2>() else { return };
    let (batch, kill) = (usize::from(*batch) % 16, usize::from(*kill) % 16);
    let mut at_us = 1_767_225_600_000_000;
    let mut messages = Vec::new();
    for message in rest.split(|byte| *byte == 0).take(32) {
        let Some((pause, lines)) = message.split_first() else { continue };
        // Half seconds, also backwards.
        at_us += i64::from(*pause as i8) * 500_000;
        messages.push((at_us, lines));
    }
    let (mut whole, mut torn, mut saved) = (Daemon::new(), Daemon::new(), None);
    for (index, (at_us, lines)) in messages.iter().enumerate() {
        let position = index as u64 + 1;
        whole.message(position, *at_us, lines, false);
        torn.message(position, *at_us, lines, false);
        if index == batch {
            whole.flush(false);
            saved = Saved::batch(&mut torn, position);
        }
        if index == batch + kill
            && let Some(next) = saved.take().and_then(|saved| saved.restart(&messages[..=index]))
        {
            torn = next;
        }
    }
    whole.flush(false);
    torn.flush(false);
    let counts = |daemon: &Daemon| {
        let counts = daemon.record.iter().filter(|(_, count)| **count != 0.0);
        counts.map(|(at, count)| (at.clone(), *count)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&whole), counts(&torn));
});
