//! The time that a stream of deltas has counted, so that a delta that is sent again counts once.
//!
//! A delta of OTLP names its start and end, and a stream of them has one writer. So the time itself
//! tells a repetition: a delta whose time was counted is one, whatever its amount is. While a stream
//! is contiguous, all of its time is one span, so a year of it takes some bytes, and nothing has to be
//! forgotten after a while. A list of recent deltas, by contrast, would grow with their number, and a
//! list of requests would not recognise a delta that comes in another request.
//!
//! ```text
//!  counted       ├────────────────────┤         ├────────────┤
//!  a delta          ├───┤ repeated    ├───┤ new           ├───┤ overlaps: refused
//! ```
//!
//! A stream with gaps has several spans. Only the latest 128 are kept. What begins before the end of
//! the last span that was dropped is refused ([`Refusal::Forgotten`]), because it may be a repetition:
//! it must neither count twice nor be lost silently.

use serde::{Deserialize, Serialize};

use crate::log::{put, take};
use crate::{Refusal, Span};

/// Limit on the spans of a stream.
const SPANS_MAX: usize = 128;

/// The time that a stream has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedTime {
    /// In order; some time that was not counted is between two of them.
    spans: Vec<Span>,
    /// The end of the latest span that was dropped, in microseconds since the epoch.
    forgotten_us: Option<i64>,
}

impl CountedTime {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The spans that are kept, in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether all of `span` was counted.
    ///
    /// # Errors
    /// [`Refusal::Overlaps`] if only a part of it was; [`Refusal::Forgotten`] if that is not known any
    /// more.
    pub fn has(&self, span: Span) -> Result<bool, Refusal> {
        let (start_us, end_us) = (span.start_us(), span.end_us());
        match self.spans.get(self.next(start_us)) {
            Some(next) if next.start_us() <= start_us && end_us <= next.end_us() => Ok(true),
            Some(next) if next.start_us() < end_us => Err(Refusal::Overlaps),
            _ if self.forgotten_us.is_some_and(|us| start_us < us) => Err(Refusal::Forgotten),
            _ => Ok(false),
        }
    }

    /// Counts `span`; false if it was counted before.
    ///
    /// # Errors
    /// Those of [`CountedTime::has`]; then nothing has changed.
    pub fn add(&mut self, span: Span) -> Result<bool, Refusal> {
        if self.has(span)? {
            return Ok(false);
        }
        let at = self.next(span.start_us());
        let before = at.checked_sub(1).and_then(|at| self.spans.get(at)).copied();
        let before = before.filter(|before| before.end_us() == span.start_us());
        let after = self.spans.get(at).copied().filter(|after| span.end_us() == after.start_us());
        let start_us = before.unwrap_or(span).start_us();
        let joined = Span::new(start_us, after.unwrap_or(span).end_us())?;
        let replaced = at - usize::from(before.is_some())..at + usize::from(after.is_some());
        drop(self.spans.splice(replaced, [joined]));
        if self.spans.len() > SPANS_MAX {
            self.forgotten_us = Some(self.spans.remove(0).end_us());
        }
        Ok(true)
    }

    /// The position of the first span that ends after a time.
    fn next(&self, at_us: i64) -> usize {
        self.spans.partition_point(|span| span.end_us() <= at_us)
    }

    /// Appends it in compact form: whether time was forgotten, and until when; then the distance of
    /// each span from the end of the one before, and its length.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.forgotten_us.is_some()));
        let mut end_us = 0;
        if let Some(forgotten_us) = self.forgotten_us {
            put(bytes, forgotten_us);
            end_us = forgotten_us;
        }
        for span in &self.spans {
            put(bytes, span.start_us().wrapping_sub(end_us));
            put(bytes, span.us());
            end_us = span.end_us();
        }
    }

    /// The inverse of [`CountedTime::put`]; `None` for invalid bytes.
    pub(crate) fn take(bytes: &[u8]) -> Option<CountedTime> {
        let [has_forgotten @ (0 | 1), rest @ ..] = bytes else { return None };
        let mut rest = rest;
        let forgotten_us = if *has_forgotten == 1 { Some(take(&mut rest)?) } else { None };
        let mut counted = CountedTime { spans: Vec::new(), forgotten_us };
        let mut end_us = forgotten_us.unwrap_or(0);
        let mut is_first = forgotten_us.is_none();
        while !rest.is_empty() {
            let start_us = end_us.wrapping_add(take(&mut rest)?);
            if !is_first && start_us < end_us {
                return None;
            }
            end_us = start_us.checked_add(take(&mut rest)?)?;
            counted.spans.push(Span::new(start_us, end_us).ok()?);
            is_first = false;
        }
        Some(counted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start: i64, end: i64) -> Span {
        Span::new(start, end).unwrap()
    }

    fn bytes(counted: &CountedTime) -> Vec<u8> {
        let mut bytes = Vec::new();
        counted.put(&mut bytes);
        bytes
    }

    #[test]
    fn a_contiguous_year_is_one_span_of_a_few_bytes() {
        let minute_us = 60_000_000;
        let (mut counted, begun_us) = (CountedTime::default(), 1_700_000_000_000_000);
        for minute in 0..365 * 24 * 60 {
            let start_us = begun_us + minute * minute_us;
            assert_eq!(counted.add(span(start_us, start_us + minute_us)), Ok(true));
        }
        assert_eq!(counted.spans().len(), 1);
        assert!(bytes(&counted).len() <= 20, "{:?}", bytes(&counted));
        assert_eq!(counted.has(span(begun_us, begun_us + minute_us)), Ok(true));
    }

    #[test]
    fn what_is_older_than_all_spans_that_are_kept_is_refused() {
        let mut counted = CountedTime::default();
        for at in 0..SPANS_MAX as i64 + 2 {
            assert_eq!(counted.add(span(at * 10, at * 10 + 5)), Ok(true));
        }
        assert_eq!(counted.spans().len(), SPANS_MAX);
        // The spans from 0 and from 10 are dropped.
        assert_eq!(counted.has(span(0, 5)), Err(Refusal::Forgotten));
        assert_eq!(counted.add(span(5, 10)), Err(Refusal::Forgotten));
        assert_eq!(counted.add(span(14, 16)), Err(Refusal::Forgotten));
        assert_eq!(counted.has(span(15, 20)), Ok(false));
        assert_eq!(counted.has(span(20, 25)), Ok(true));
        assert_eq!(CountedTime::take(&bytes(&counted)), Some(counted));
    }

    #[test]
    fn bytes_that_are_not_those_of_spans_are_refused() {
        let mut counted = CountedTime::default();
        counted.add(span(10, 20)).unwrap();
        counted.add(span(30, 40)).unwrap();
        let good = bytes(&counted);
        assert_eq!(CountedTime::take(&good).as_ref(), Some(&counted));
        assert_eq!(CountedTime::take(&good[..good.len() - 1]), None);
        assert_eq!(CountedTime::take(&[]), None);
        assert_eq!(CountedTime::take(&[2]), None);
        let mut backwards = good.clone();
        put(&mut backwards, -5);
        put(&mut backwards, 1);
        assert_eq!(CountedTime::take(&backwards), None);
        let mut empty = good;
        put(&mut empty, 5);
        put(&mut empty, 0);
        assert_eq!(CountedTime::take(&empty), None);
    }

    proptest! {
        /// Against a model that knows each instant.
        #[test]
        fn each_instant_is_counted_once(
            deltas in prop::collection::vec((0_usize..100, 1_usize..8), 1..200),
        ) {
            let (mut counted, mut model) = (CountedTime::default(), [false; 110]);
            for (start, length) in deltas {
                let instants = &mut model[start..start + length];
                let known = instants.iter().filter(|is_counted| **is_counted).count();
                let wanted = match known {
                    0 => Ok(true),
                    all if all == length => Ok(false),
                    _ => Err(Refusal::Overlaps),
                };
                if wanted == Ok(true) {
                    instants.fill(true);
                }
                // Also on both sides of the epoch.
                let start_us = start as i64 - 50;
                prop_assert_eq!(counted.add(span(start_us, start_us + length as i64)), wanted);
                prop_assert_eq!(CountedTime::take(&bytes(&counted)), Some(counted.clone()));
            }
            let begins = (0..model.len()).filter(|at| model[*at] && (*at == 0 || !model[at - 1]));
            prop_assert_eq!(counted.spans().len(), begins.count(), "spans that touch are joined");
        }
    }
}
