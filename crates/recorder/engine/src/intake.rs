//! From messages to the head.

use formats::text::{Graphite, Influx, Parser, Reader};
use formats::{Reason, RefusalCounts, Series, Update};
use series::Kind;
use store::Request;

use crate::answer::{Accepted, Message, Refused};
use crate::elements::Elements;
use crate::gather::{Gatherer, Question};
use crate::options::Options;
use crate::record::{FORMATS, Format};
use crate::statsd::Statsd;
use crate::text::{each_line, shown_line};

/// The readers of all formats, and the head to which they add.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) gatherer: Gatherer,
    /// The readers of lines without windows, which come first in [`FORMATS`].
    readers: Vec<Reader>,
    statsd: Statsd,
    elements: Elements,
    /// The updates of a message, and the number and the count of updates of each line.
    updates: Vec<(Series, Update)>,
    lines: Vec<(u64, usize)>,
}

/// A message whose updates are in the head.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) accepted: Accepted,
    pub(crate) counts: RefusalCounts,
    pub(crate) refused: Refused,
}

impl Intake {
    pub(crate) fn new(options: Options, lane: i32) -> Intake {
        let series_max = usize::try_from(options.series.series).unwrap_or(usize::MAX);
        let limits = options.limits;
        let reader = |parser| Reader::new(parser, limits, series_max);
        let parser = |format: &Format| -> Option<Box<dyn Parser>> {
            match format {
                Format::Graphite => Some(Box::new(Graphite::new(Kind::Gauge))),
                Format::Influx(precision) => Some(Box::new(Influx::new(Kind::Gauge, *precision))),
                Format::Statsd | Format::Message(_) => None,
            }
        };
        Intake {
            readers: FORMATS.iter().map_while(parser).map(reader).collect(),
            statsd: Statsd::new(reader(Box::new(formats::text::Statsd::live(options.step)))),
            elements: Elements::new(limits, series_max),
            gatherer: Gatherer::new(options, lane),
            updates: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.gatherer.head.is_empty() && !self.statsd.has_new()
    }

    /// Results of windows that were outside the bounds of their series, since the last call.
    pub(crate) fn take_refused_windows(&mut self) -> u64 {
        self.statsd.take_refused()
    }

    /// The position of the first message of which an open window has a part.
    pub(crate) fn first_of_windows(&mut self) -> Option<u64> {
        self.statsd.first()
    }

    /// Adds the open windows to the head, and forgets them if they are to be cut; returns what must
    /// be known to continue after a batch up to a position.
    pub(crate) fn give_windows(&mut self, is_cut: bool, upto: u64) -> Option<Vec<u8>> {
        match is_cut {
            true => self.statsd.cut(&mut self.gatherer),
            false => self.statsd.flush(&mut self.gatherer, false),
        }
        self.statsd.record(upto)
    }

    /// Forgets the head, and goes back to the windows of a record, if there were any; returns the
    /// position from which on their messages are to be read [again](Intake::again), and `None` for
    /// another record.
    pub(crate) fn go_back(&mut self, record: Option<&[u8]>) -> Option<Option<u64>> {
        self.gatherer.forget();
        self.statsd.go_back(record)
    }

    /// Continues the windows of the last batch, after their lines were read again.
    pub(crate) fn resume_windows(&mut self) {
        self.statsd.resume(&mut self.gatherer);
    }

    /// Reads a message that the store has, because open windows depend on it.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then the call is to be repeated.
    pub(crate) fn again(&mut self, message: Message<'_>) -> Result<(), Question> {
        self.statsd.pass(&mut self.gatherer, message, true);
        match message.format {
            Format::Statsd => {
                self.statsd.lines(&mut self.gatherer, message, true, &mut |_| ()).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Adds the updates of a message to the head.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then nothing is added, and the call is to be
    /// repeated.
    pub(crate) fn take(&mut self, message: Message<'_>) -> Result<Taken, Question> {
        let (mut counts, mut first) = (RefusalCounts::default(), None);
        let mut refuse = |(number, reason)| {
            counts.add(reason);
            first.get_or_insert((number, reason));
        };
        self.gatherer.arrives(message.arrived);
        self.statsd.pass(&mut self.gatherer, message, false);
        let mut accepted = match message.format {
            Format::Statsd => self.statsd.lines(&mut self.gatherer, message, false, &mut refuse)?,
            Format::Message(protocol) => {
                let (arrival, lines) = (message.arrival(), message.lines);
                self.elements.add(&mut self.gatherer, protocol, arrival, lines, &mut refuse)?
            }
            Format::Graphite | Format::Influx(_) => self.lines(message, &mut refuse)?,
        };
        if let Some(key) = message.key {
            self.gatherer.head.request(Request { key, at_us: message.arrived.at_us });
            accepted.is_in_head = true;
        }
        let first = first.map(|(number, reason)| match message.format {
            Format::Message(_) => (number, self.elements.shown(number), reason),
            _ => (number, shown_line(message.lines, number), reason),
        });
        let (lines, Accepted { samples, histograms, .. }) = (counts.total(), accepted);
        let refused = Refused { lines, first, samples, histograms, is_repeated: false };
        Ok(Taken { accepted, counts, refused })
    }

    /// The same of lines without windows.
    fn lines(
        &mut self,
        message: Message<'_>,
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<Accepted, Question> {
        let Intake { gatherer, readers, updates, lines, .. } = self;
        let (code, mut accepted) = (message.format.code(), Accepted::default());
        let Some(reader) = readers.get_mut(code) else { return Ok(accepted) };
        let arrival = message.arrival();
        updates.clear();
        lines.clear();
        each_line(message.lines, reader, |reader, line| {
            // An error would be one of a whole file.
            let Ok(parsed) = reader.line(line, arrival) else { return };
            accepted.lines += u64::from(line.first);
            if let Some(reason) = parsed.reasons.first() {
                refuse((line.number, *reason));
            } else if !parsed.updates.is_empty() {
                updates.extend_from_slice(&parsed.updates);
                lines.push((line.number, parsed.updates.len()));
            }
        });
        accepted.is_in_head = !updates.is_empty();
        let touched = updates.iter().map(|(series, update)| (*series, update.kind));
        if let Some(missing) = gatherer.missing(code, reader.book(), touched) {
            return Err(missing);
        }
        let mut rest = updates.as_slice();
        for (number, count) in lines {
            let (line, others) = rest.split_at(*count);
            rest = others;
            match gatherer.line(line) {
                Ok(()) => accepted.updates += *count as u64,
                Err(reason) => refuse((*number, reason)),
            }
        }
        Ok(accepted)
    }

    /// What of a message that repeats an earlier one cannot be read. It closes windows like any other,
    /// because it does so when it is read from the journal again.
    pub(crate) fn repeated(&mut self, message: Message<'_>) -> Refused {
        self.statsd.pass(&mut self.gatherer, message, false);
        self.judge(message)
    }

    /// What of a message cannot be read; what the store would refuse is not known.
    pub(crate) fn judge(&mut self, message: Message<'_>) -> Refused {
        match message.format {
            Format::Influx(_) => self.judge_lines(message),
            Format::Message(protocol) => {
                self.elements.judge(protocol, message.arrival(), message.lines)
            }
            // Stream senders get no answer, so refused lines are only counted.
            Format::Graphite | Format::Statsd => Refused::default(),
        }
    }

    fn judge_lines(&mut self, message: Message<'_>) -> Refused {
        let (mut refused, mut first) = (Refused::default(), None);
        let Some(reader) = self.readers.get_mut(message.format.code()) else { return refused };
        each_line(message.lines, reader, |reader, line| {
            let Ok(parsed) = reader.line(line, message.arrival()) else { return };
            if let Some(reason) = parsed.reasons.first() {
                refused.lines += 1;
                first.get_or_insert((line.number, *reason));
            }
        });
        refused.first =
            first.map(|(number, reason)| (number, shown_line(message.lines, number), reason));
        refused
    }
}
