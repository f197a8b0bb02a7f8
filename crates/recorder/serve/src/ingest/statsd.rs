//! StatsD: values are collected in windows, which are added to the head.

use formats::text::{Held, Reader, Windowed};
use formats::{Arrival, Reason};
use store::StoreError;

use super::apply::{Apply, At, each_line};
use engine::Format;

impl Apply<'_, '_, '_> {
    pub(super) fn statsd(&mut self) -> &mut Reader {
        &mut self.readers[Format::Statsd.code()]
    }

    /// Continues the windows of the last batch, after their lines were read again.
    pub(super) fn continue_windows(&mut self, owed: Vec<(formats::Series, f64)>) {
        if let Some((windows, _)) = self.statsd().windows() {
            windows.owe(owed);
        }
        self.flush_windows(true);
    }

    /// Adds the open windows to the head as they are. For windows that `are_known` to the store,
    /// only the reader learns what it has given.
    pub(super) fn flush_windows(&mut self, are_known: bool) {
        let windows = self.statsd().flush().windows.clone();
        self.give(&windows, are_known);
        self.has_new_windows = false;
    }

    /// Adds the open windows to the head, and forgets them.
    pub(super) fn cut_windows(&mut self) {
        let windows = self.statsd().cut().windows.clone();
        self.give(&windows, false);
        self.has_new_windows = false;
    }

    /// Adds the results of windows to the head.
    pub(super) fn give(&mut self, windows: &[Windowed], are_known: bool) {
        if !windows.is_empty() {
            self.live.select(Format::Statsd.code());
        }
        for windowed in windows {
            let admitted = self.live.admits_window(windowed);
            let done = match are_known {
                true => admitted,
                false => admitted.and_then(|()| self.live.window(windowed)),
            };
            if done.is_ok() {
                continue;
            }
            // It is outside the bounds of its series, and so is unknown.
            if !are_known {
                self.metrics.windows_refused.inc();
                let nothing = Windowed { update: None, ..*windowed };
                // What was recorded can be taken back.
                let _ = self.live.window(&nothing);
            }
            if let Some((windows, _)) = self.statsd().windows() {
                windows.not_given(windowed);
            }
        }
    }

    /// Adds the values of StatsD lines to their windows, and gauges to the head. Of a message that
    /// the store has, only windows are changed. `None` if a series has no number yet.
    pub(super) fn statsd_lines(
        &mut self,
        at: At,
        lines: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<Option<u64>, StoreError> {
        let code = Format::Statsd.code();
        let arrival = Arrival::live(at.arrival_us);
        let mut count = 0;
        let mut accepted: Vec<(u64, Vec<Held>)> = Vec::new();
        each_line(lines, &mut self.readers[code], |reader, line| {
            // An error would be one of a whole file.
            let Ok(parsed) = reader.read(line, arrival) else { return };
            count += u64::from(line.first);
            if let Some(reason) = parsed.reasons.first() {
                refuse((line.number, *reason));
            } else if !parsed.held.is_empty() {
                accepted.push((line.number, parsed.held.clone()));
            }
        });
        let touched = || accepted.iter().flat_map(|(_, held)| held).flat_map(Held::series);
        if !self.find(code, touched)? {
            return Ok(None);
        }
        let mut values = 0;
        for (number, mut held) in accepted {
            if at.is_known && held.iter().all(Held::is_gauge) {
                continue;
            }
            match self.statsd_line(&mut held, at) {
                Ok(()) => values += held.len() as u64,
                Err(reason) => refuse((number, reason)),
            }
        }
        if at.is_known {
            return Ok(Some(0));
        }
        self.metrics.updates.inc_by(values);
        if values > 0 {
            self.has_new_windows = true;
            self.oldest_us.get_or_insert(at.arrival_us);
        }
        Ok(Some(count))
    }

    /// Adds the values of one line, all or none.
    fn statsd_line(&mut self, held: &mut [Held], at: At) -> Result<(), Reason> {
        let touched: Vec<_> = held.iter().flat_map(Held::series).collect();
        touched.into_iter().try_for_each(|(series, kind)| self.live.takes(series, kind))?;
        for held in &mut *held {
            let Some(series) = held.relative_to() else { continue };
            if self.gauges.insert(series) {
                let newest = self.live.newest(series);
                self.statsd().level(series, newest);
            }
            // Messages of several senders may overtake each other by a moment; a change is one of
            // the newest value nevertheless.
            held.not_before(self.live.newest_us(series).unwrap_or(i64::MIN));
        }
        let parsed = self.statsd().take(held);
        if let Some(reason) = parsed.reasons.first() {
            return Err(*reason);
        }
        let (gauges, windows) = (parsed.updates.clone(), parsed.windows.clone());
        self.give(&windows, at.is_known);
        let done = self.live.line(&gauges);
        for (series, update) in gauges {
            // The last value is that of the newest point in the record, before and after a restart.
            let is_newest = self.live.newest_us(series) == Some(update.times_us().1);
            if done.is_ok() && is_newest {
                self.gauges.insert(series);
            } else {
                self.gauges.remove(&series);
            }
        }
        done
    }
}
