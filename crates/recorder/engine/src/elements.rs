//! Binary messages: from their elements to the head.

use formats::{
    Arrival, Element, ElementKind, Messages, Protocol, Reason, Series, Taken, Update, What,
};
use series::{Kind, Limits, Point, Reading, SECOND_US};

use crate::answer::{Accepted, Refused};
use crate::gather::{Gatherer, Question};
use crate::record::Format;

/// The least heartbeat of series from binary messages. Their senders say when a series ends, and
/// Prometheus shows a value for as long.
const HEARTBEAT_US: i64 = 300 * SECOND_US;

/// Elements and updates for which memory is kept from one message to the next.
const KEPT: usize = 1 << 15;

/// All binary messages have one book, under the number of this format.
const BOOK: Format = Format::Message(Protocol::RemoteWrite1);

/// Reads binary messages.
#[derive(Debug)]
pub(crate) struct Elements {
    messages: Messages,
    /// The content of the latest message.
    taken: Taken,
}

impl Elements {
    pub(crate) fn new(limits: Limits, series_max: usize) -> Elements {
        Elements { messages: Messages::new(limits, series_max), taken: Taken::default() }
    }

    /// Reads a message; false if it cannot be read, although it was checked before it was written to
    /// the journal.
    fn read(&mut self, protocol: Protocol, arrival: Arrival, message: &[u8]) -> bool {
        self.messages.read(protocol, message, arrival, &mut self.taken).is_ok()
    }

    /// Adds the updates of a message to the head; `refuse` is called with the number of each
    /// refused element, from 1, and the reason.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then nothing is added.
    pub(crate) fn add(
        &mut self,
        gatherer: &mut Gatherer,
        protocol: Protocol,
        arrival: Arrival,
        message: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<Accepted, Question> {
        let mut accepted = Accepted::default();
        if !self.read(protocol, arrival, message) {
            return Ok(accepted);
        }
        accepted.lines = self.taken.elements.len() as u64;
        let touched = self.taken.updates.iter().map(|(series, update)| (*series, update.kind));
        if let Some(missing) = gatherer.missing(BOOK.code(), self.messages.book(), touched) {
            return Err(missing.with_heartbeat(HEARTBEAT_US));
        }
        let mut taken = std::mem::take(&mut self.taken);
        let mut rest = taken.updates.as_mut_slice();
        for (number, element) in (1..).zip(&taken.elements) {
            let (updates, others) = rest.split_at_mut(element.updates);
            rest = others;
            match self.element(gatherer, element, updates) {
                Err(reason) => refuse((number, reason)),
                Ok(new) => {
                    accepted.updates += new;
                    accepted.repeated += element.updates as u64 - new;
                    match element.kind {
                        ElementKind::Sample => accepted.samples += 1,
                        ElementKind::Histogram => accepted.histograms += 1,
                    }
                }
            }
        }
        self.taken = taken;
        self.shrink();
        accepted.is_in_head = accepted.updates > 0;
        Ok(accepted)
    }

    /// What of a message cannot be read.
    pub(crate) fn judge(
        &mut self,
        protocol: Protocol,
        arrival: Arrival,
        message: &[u8],
    ) -> Refused {
        let mut refused = Refused::default();
        if !self.read(protocol, arrival, message) {
            return refused;
        }
        let mut first = None;
        for (number, element) in (1..).zip(&self.taken.elements) {
            match (element.refused, element.kind) {
                (Some(reason), _) => {
                    refused.lines += 1;
                    first.get_or_insert((number, reason));
                }
                (None, ElementKind::Sample) => refused.samples += 1,
                (None, ElementKind::Histogram) => refused.histograms += 1,
            }
        }
        refused.first = first.map(|(number, reason)| (number, self.shown(number), reason));
        self.shrink();
        refused
    }

    /// A large message must not take memory for ever.
    fn shrink(&mut self) {
        self.taken.updates.shrink_to(KEPT);
        self.taken.elements.shrink_to(KEPT);
    }

    /// Adds the updates of an element, or none; returns the number of those that are no repetitions.
    fn element(
        &mut self,
        gatherer: &mut Gatherer,
        element: &Element,
        updates: &mut [(Series, Update)],
    ) -> Result<u64, Reason> {
        if let Some(reason) = element.refused {
            return Err(reason);
        }
        if element.is_delta {
            return gatherer.delta(updates);
        }
        for (series, update) in updates.iter_mut() {
            // A series keeps its kind, also if a sender declares its type only later, or not any
            // more.
            if let (Some(known @ (Kind::Gauge | Kind::Total)), Kind::Gauge | Kind::Total) =
                (gatherer.kind(*series), update.kind)
            {
                update.kind = known;
            }
            if let (Some(start_us), Kind::Total) = (element.start_us, update.kind)
                && gatherer.newest_us(*series).is_none_or(|newest_us| newest_us < start_us)
            {
                let start = Point { at_us: start_us, reading: Reading::Level(0.0) };
                // Without it the time since the start is unknown, and the element still counts.
                let start = Update { kind: Kind::Total, what: What::Point(start) };
                let _ = gatherer.line(&[(*series, start)]);
            }
        }
        gatherer.line(updates).map(|()| updates.len() as u64)
    }

    /// An element of the latest message, for an answer.
    pub(crate) fn shown(&self, number: u64) -> String {
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
