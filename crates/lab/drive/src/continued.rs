//! The continued closed loop: how [`LoopStart`](crate::LoopStart) says that slices follow one
//! another in the loop's own time.

use std::cmp::Reverse;

use base::Nanos;
use netio::Wire;
use rand::RngExt as _;

use crate::conn::Carry;
use crate::slice::LoopStart;
use crate::slice_counts::{LongRequest, SliceTimes};
use crate::slice_run::{RequestSource, SliceRun};

impl SliceRun<'_> {
    pub(crate) fn is_continued(&self) -> bool {
        self.setup.start != LoopStart::Fresh
    }

    /// Lets every connection wait for as long as its last request exceeded the slice before. A slice
    /// in which all of them would only wait is over at once.
    pub(crate) fn carry_on(&mut self, wire: &mut dyn Wire) {
        let SliceTimes { start, window_end: end, .. } = self.times;
        let mut is_idle = true;
        for slot in 0..self.setup.active {
            let conn = &mut self.conns[slot];
            let Carry { mut wait, request } = std::mem::take(&mut conn.carry);
            if let LoopStart::Spread(longest) = self.setup.start {
                wait = Nanos(self.setup.rng.random_range(0..=longest.0));
            }
            let resume = start + wait;
            let waited = self.times.overlap(start, resume);
            self.slice_counts.continued(waited, waited);
            if resume >= end {
                conn.carry = Carry { wait: resume.saturating_sub(end), request };
                continue;
            }
            if let Some(request) = request.filter(|_| self.times.in_window(resume)) {
                self.slice_counts.carried(&request);
            }
            is_idle = false;
            match wait {
                Nanos::ZERO => self.proceed(wire, slot),
                _ => self.paused.push(Reverse((resume, slot))),
            }
        }
        self.stopping |= is_idle;
    }

    /// Adds up the time that counts in this slice of a continued loop.
    pub(crate) fn settle(&mut self) {
        for conn in &mut self.conns[..self.setup.active] {
            if let Some(from) = conn.counted_from.take() {
                let counted = self.times.overlap(from, self.times.window_end);
                self.slice_counts.continued(counted, Nanos::ZERO);
            }
        }
        self.wait_together();
    }

    /// Lets the loop's time pass for as long as all connections only wait, but for a lead-in, with
    /// which the next slice begins.
    ///
    /// After a stop of the server, all of them wait. Otherwise their next slices would be over at
    /// once, while other variants are loaded: the time after a stop would be seen too seldom, and
    /// stops at equal intervals be met too often.
    fn wait_together(&mut self) {
        let lead_in = self.times.lead_end.saturating_sub(self.times.start);
        let conns = &mut self.conns[..self.setup.active];
        let shortest = conns.iter().map(|conn| conn.carry.wait).min().unwrap_or(Nanos::ZERO);
        let together = shortest.saturating_sub(lead_in);
        if together > Nanos::ZERO {
            for conn in conns {
                conn.carry.wait = conn.carry.wait.saturating_sub(together);
                self.slice_counts.continued(together, together);
            }
        }
    }

    /// From when on the slot's request counts, which ends at `at`; `None` if it does not. In a
    /// continued loop, all that end after the lead-in count, but the first one of a slice never
    /// does. What it took beyond the slice is carried into the next one.
    pub(crate) fn counts_from(&mut self, slot: usize, completed: bool, at: Nanos) -> Option<Nanos> {
        if !self.is_continued() || !matches!(self.setup.source, RequestSource::Closed(_)) {
            return Some(Nanos::ZERO);
        }
        let conn = &mut self.conns[slot];
        let Some(from) = conn.counted_from else {
            // Usually the end of the lead-in, which does not depend on the server's state: if the time
            // left out were longer where the server is slow, it would seem too fast.
            conn.counted_from = Some(at.max(self.times.lead_end));
            return None;
        };
        if at < from {
            return None;
        }
        let (service_time, payload_bytes) = (at.saturating_sub(conn.since.sent), conn.seen.bytes);
        let request = completed.then_some(LongRequest { service_time, payload_bytes });
        conn.carry = match at.saturating_sub(self.times.window_end) {
            Nanos::ZERO => Carry::default(),
            wait => Carry { wait, request },
        };
        Some(from)
    }
}
