//! Server-sent events, and when the parts of a response arrive.

use base::Nanos;

/// Counts the events in the pieces of a body: a blank line ends an event, and one without a line of
/// data is none (HTML Living Standard, 9.2.6).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventReader {
    /// Events so far.
    pub(crate) count: u64,
    /// Bytes of the line so far; no more than six are counted.
    length: usize,
    /// Whether the line does not begin like one of data.
    is_other: bool,
    /// Whether the event has a line of data.
    has_data: bool,
    after_cr: bool,
}

impl EventReader {
    /// Reads the next piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let is_second = *byte == b'\n' && self.after_cr;
            self.after_cr = *byte == b'\r';
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => self.end_line(),
                _ => {
                    self.is_other |= b"data:".get(self.length).is_some_and(|wanted| wanted != byte);
                    self.length = (self.length + 1).min(6);
                }
            }
        }
    }

    fn end_line(&mut self) {
        if self.length == 0 {
            self.count += u64::from(self.has_data);
            self.has_data = false;
        } else {
            // A line that is only the name is data, too.
            self.has_data |= !self.is_other && self.length >= b"data".len();
        }
        self.length = 0;
        self.is_other = false;
    }
}

/// When the parts of a response arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// The first byte.
    pub(crate) first_byte: Option<Nanos>,
    /// The first event.
    pub(crate) first_event: Option<Nanos>,
    /// The last event so far.
    last_event: Nanos,
    /// Events that are noted.
    noted: u64,
    pub(crate) reader: EventReader,
}

impl Arrival {
    /// Something has arrived. Returns the number of new events and the time since the event before
    /// the first of them, if there was one.
    pub(crate) fn note(&mut self, at: Nanos) -> (u64, Option<Nanos>) {
        self.first_byte.get_or_insert(at);
        let new = self.reader.count - self.noted;
        if new == 0 {
            return (0, None);
        }
        let gap = (self.noted > 0).then(|| at.saturating_sub(self.last_event));
        self.first_event.get_or_insert(at);
        self.noted += new;
        self.last_event = at;
        (new, gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(body: &str, piece: usize) -> u64 {
        let mut reader = EventReader::default();
        body.as_bytes().chunks(piece).for_each(|piece| reader.push(piece));
        reader.count
    }

    #[test]
    fn events_end_with_a_blank_line_and_have_data() {
        for (body, events) in [
            ("", 0),
            ("data: a\n\n", 1),
            ("data: a\n", 0),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 2),
            ("data: a\r\rdata: b\r\r", 2),
            ("data\n\n", 1),
            ("data:\n\n", 1),
            ("dat\n\n", 0),
            ("database: 1\n\n", 0),
            (": a comment\n\n", 0),
            ("event: x\nid: 7\ndata: a\ndata: b\n\n\n\n", 1),
            ("retry: 1\n\ndata: {\"data:\": 1}\n\n", 1),
            ("\n\ndata: late\n\n", 1),
        ] {
            for piece in 1..=body.len().max(1) {
                assert_eq!(count(body, piece), events, "{body:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn gaps_are_between_events_of_different_arrivals() {
        let mut arrival = Arrival::default();
        assert_eq!(arrival.note(Nanos(10)), (0, None), "the head");
        arrival.reader.push(b"data: 1\n\ndata: 2\n\n");
        assert_eq!(arrival.note(Nanos(30)), (2, None));
        arrival.reader.push(b"data: ");
        assert_eq!(arrival.note(Nanos(35)), (0, None));
        arrival.reader.push(b"3\n\n");
        assert_eq!(arrival.note(Nanos(70)), (1, Some(Nanos(40))));
        assert_eq!((arrival.first_byte, arrival.first_event), (Some(Nanos(10)), Some(Nanos(30))));
    }
}
