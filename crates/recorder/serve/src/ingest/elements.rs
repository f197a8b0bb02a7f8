//! Binary messages: from their elements to the head.

use std::collections::HashSet;

use formats::{Arrival, Element, ElementKind, Protocol, Reason, Series, Update, What};
use series::{Kind, Point, Reading, SECOND_US};
use store::StoreError;

use super::apply::Apply;
use engine::Format;

/// The least heartbeat of series from binary messages. Their senders say when a series ends, and
/// Prometheus shows a value for as long.
pub(super) const HEARTBEAT_US: i64 = 300 * SECOND_US;

/// Elements with intervals that are remembered at least.
const REPEATS: usize = 1 << 18;

/// Elements and updates for which memory is kept from one message to the next.
const KEPT: usize = 1 << 15;

/// All binary messages have one book, under the number of this format.
pub(super) const BOOK: Format = Format::Message(Protocol::RemoteWrite1);

/// Elements with intervals that were accepted, so that one that is sent again does not count twice.
///
/// The latest 262,144 to 524,288 are remembered.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    latest: HashSet<(Series, u64, u64)>,
    earlier: HashSet<(Series, u64, u64)>,
}

impl Repeats {
    fn has(&self, element: &(Series, u64, u64)) -> bool {
        self.latest.contains(element) || self.earlier.contains(element)
    }

    fn add(&mut self, element: (Series, u64, u64)) {
        if self.latest.len() >= REPEATS {
            self.earlier = std::mem::take(&mut self.latest);
        }
        self.latest.insert(element);
    }
}

/// What identifies an element with intervals.
fn key(element: &Element, updates: &[(Series, Update)]) -> Option<(Series, u64, u64)> {
    let (start_ns, end_ns) = element.over_ns?;
    updates.first().map(|(series, _)| (*series, start_ns, end_ns))
}

impl Apply<'_, '_, '_> {
    /// Adds the updates of a message to the head; `refuse` is called with the number of each
    /// refused element, from 1, and the reason. Returns the number of elements; `None` if a series
    /// has no number yet.
    pub(super) fn elements(
        &mut self,
        protocol: Protocol,
        arrival_us: i64,
        message: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<Option<u64>, StoreError> {
        let arrival = Arrival::live(arrival_us);
        self.accepted = (0, 0);
        // It was checked before it was written to the journal.
        if self.messages.read(protocol, message, arrival, &mut self.taken).is_err() {
            return Ok(Some(0));
        }
        let count = self.taken.elements.len() as u64;
        if !self.taken.updates.is_empty() {
            let touched = self.taken.updates.iter().map(|(series, update)| (*series, update.kind));
            let touched: Vec<_> = touched.collect();
            if !self.find(BOOK.code(), || touched.iter().copied())? {
                return Ok(None);
            }
            self.oldest_us.get_or_insert(arrival_us);
        }
        let (mut samples, mut histograms, mut accepted) = (0, 0, 0);
        let mut taken = std::mem::take(&mut self.taken);
        let mut rest = taken.updates.as_mut_slice();
        for (number, element) in (1..).zip(&taken.elements) {
            let (updates, others) = rest.split_at_mut(element.updates);
            rest = others;
            match self.element(element, updates) {
                Err(reason) => refuse((number, reason)),
                Ok(added) => {
                    accepted += added;
                    match element.kind {
                        ElementKind::Sample => samples += 1,
                        ElementKind::Histogram => histograms += 1,
                    }
                }
            }
        }
        self.taken = taken;
        self.shrink_taken();
        self.metrics.updates.inc_by(accepted as u64);
        self.accepted = (samples, histograms);
        Ok(Some(count))
    }

    /// A large message must not take memory for ever.
    pub(super) fn shrink_taken(&mut self) {
        self.taken.updates.shrink_to(KEPT);
        self.taken.elements.shrink_to(KEPT);
    }

    /// Remembers the elements of a message of OTLP whose updates a store has.
    pub(super) fn remember(&mut self, arrival_us: i64, message: &[u8]) {
        let arrival = Arrival::live(arrival_us);
        if self.messages.read(Protocol::Otlp, message, arrival, &mut self.taken).is_err() {
            return;
        }
        let mut rest = self.taken.updates.as_slice();
        for element in &self.taken.elements {
            let (updates, others) = rest.split_at(element.updates);
            rest = others;
            if let Some(key) = key(element, updates) {
                self.repeats.add(key);
            }
        }
    }

    /// Adds all updates of an element, or none; returns their number.
    fn element(
        &mut self,
        element: &Element,
        updates: &mut [(Series, Update)],
    ) -> Result<usize, Reason> {
        if let Some(reason) = element.refused {
            return Err(reason);
        }
        let key = key(element, updates);
        if key.is_some_and(|key| self.repeats.has(&key)) {
            return Ok(0);
        }
        for (series, update) in updates.iter_mut() {
            self.adapt(*series, update);
            if let (Some(start_us), Kind::Total) = (element.start_us, update.kind)
                && self.live.newest_us(*series).is_none_or(|newest_us| newest_us < start_us)
            {
                let start = Point { at_us: start_us, reading: Reading::Level(0.0) };
                // Without it the time since the start is unknown, and the element still counts.
                let start = Update { kind: Kind::Total, what: What::Point(start) };
                let _ = self.live.line(&[(*series, start)]);
            }
        }
        self.live.line(updates)?;
        if let Some(key) = key {
            self.repeats.add(key);
        }
        Ok(updates.len())
    }

    /// A series keeps its kind, also if a sender declares its type only later, or not any more.
    fn adapt(&self, series: Series, update: &mut Update) {
        let known = self.live.kind(series);
        if let (Some(known @ (Kind::Gauge | Kind::Total)), Kind::Gauge | Kind::Total) =
            (known, update.kind)
        {
            update.kind = known;
        }
    }

    /// An element of the latest message, for an answer.
    pub(super) fn shown_element(&self, number: u64) -> String {
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let before: usize = self.taken.elements.iter().take(at).map(|before| before.updates).sum();
        match self.taken.elements.get(at) {
            Some(Element { refused: Some(_), .. }) => self.taken.first_refused.clone(),
            Some(_) => self.taken.updates.get(before).map_or_else(String::new, |(series, _)| {
                self.messages.book().name(*series).measurement().to_owned()
            }),
            None => String::new(),
        }
    }
}
