//! Binary messages: from their elements to the head.

use formats::{Element, ElementKind, Messages, Protocol, Reason, Series, Update, UpdateContent};
use series::{Kind, Limits, Point, Reading, SECOND_US};

use crate::answer::{Message, TakenLines};
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
    content: formats::MessageContent,
}

impl Elements {
    pub(crate) fn new(limits: Limits, series_max: usize) -> Elements {
        Elements {
            messages: Messages::new(limits, series_max),
            content: formats::MessageContent::default(),
        }
    }

    /// Adds the updates of a message to the head; without one, the message is only judged.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then nothing is added.
    pub(crate) fn take(
        &mut self,
        mut gatherer: Option<&mut Gatherer>,
        protocol: Protocol,
        message: Message<'_>,
        taken: &mut TakenLines,
    ) -> Result<(), Question> {
        let content = &mut self.content;
        if self.messages.read(protocol, message.lines, message.arrival(), content).is_err() {
            // It was checked before it was written to the journal.
            return Ok(());
        }
        taken.counted.lines = content.elements.len() as u64;
        taken.hear(message, content.updates.iter().map(|(_, update)| update));
        if let Some(gatherer) = &mut gatherer {
            let touched = content.updates.iter().map(|(series, update)| (*series, update.kind));
            if let Some(missing) = gatherer.missing(BOOK.code(), self.messages.book(), touched) {
                return Err(missing.with_heartbeat(HEARTBEAT_US));
            }
        }
        let mut rest = content.updates.as_mut_slice();
        for (number, element) in (1..).zip(&content.elements) {
            let (updates, others) = rest.split_at_mut(element.updates);
            rest = others;
            let done = match (element.refused, &mut gatherer) {
                (Some(reason), _) => Err(reason),
                (None, Some(gatherer)) => add(gatherer, element, updates),
                (None, None) => Ok(0),
            };
            match done {
                Err(reason) => taken.refuse(number, reason),
                Ok(new) => {
                    taken.updates += new;
                    taken.repeated += element.updates as u64 - new;
                    match element.kind {
                        ElementKind::Sample => taken.refused.samples += 1,
                        ElementKind::Histogram => taken.refused.histograms += 1,
                    }
                }
            }
        }
        taken.is_in_head = taken.updates > 0;
        // A large message must not take memory for ever.
        content.updates.shrink_to(KEPT);
        content.elements.shrink_to(KEPT);
        Ok(())
    }

    /// An element of the latest message, for an answer.
    pub(crate) fn shown(&self, number: u64) -> String {
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let before: usize =
            self.content.elements.iter().take(at).map(|before| before.updates).sum();
        match self.content.elements.get(at) {
            Some(Element { refused: Some(_), .. }) => self.content.first_refused.clone(),
            Some(_) => self.content.updates.get(before).map_or_else(String::new, |(series, _)| {
                self.messages.book().name(*series).measurement().to_owned()
            }),
            None => String::new(),
        }
    }
}

/// Adds the updates of an element, or none; returns the number of those that are no repetitions.
fn add(
    gatherer: &mut Gatherer,
    element: &Element,
    updates: &mut [(Series, Update)],
) -> Result<u64, Reason> {
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
            let start = Update { kind: Kind::Total, what: UpdateContent::Point(start) };
            let _ = gatherer.line(&[(*series, start)]);
        }
    }
    gatherer.line(updates).map(|()| updates.len() as u64)
}
