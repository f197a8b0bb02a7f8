//! From messages to the head.

use formats::text::{Graphite, Influx, Parser, Reader};
use formats::{Series, Update};
use series::Kind;
use store::Request;

use crate::answer::{Message, RefusedLines, TakenLines};
use crate::elements::Elements;
use crate::gather::{Gatherer, Question};
use crate::options::Options;
use crate::record::{FORMATS, Format};
use crate::statsd::Statsd;
use crate::text::{read_lines, shown_line};

/// The readers of all formats, and the head to which they add.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) gatherer: Gatherer,
    /// The readers of lines without windows, which come first in [`FORMATS`].
    readers: Vec<Reader>,
    pub(crate) statsd: Statsd,
    elements: Elements,
    /// The updates of a message, and the number and the count of updates of each line.
    updates: Vec<(Series, Update)>,
    lines: Vec<(u64, usize)>,
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
        self.gatherer.head.is_empty() && !self.statsd.has_new
    }

    /// Adds the open windows to the head, and forgets them if they are to be cut; returns what must
    /// be known to continue after a batch up to a position.
    pub(crate) fn give_windows(&mut self, is_cut: bool, upto: u64) -> Option<Vec<u8>> {
        self.statsd.flush(&mut self.gatherer, is_cut);
        self.statsd.record(upto)
    }

    /// Forgets the head, and goes back to the windows of a record, if there were any; returns the
    /// position from which on their messages are to be read [again](Intake::again), and `None` for
    /// another record.
    pub(crate) fn go_back(&mut self, record: Option<&[u8]>) -> Option<u64> {
        self.gatherer.forget();
        self.statsd.go_back(record)
    }

    /// Reads a message that the store has, because open windows depend on it.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then the call is to be repeated.
    pub(crate) fn again(&mut self, message: Message<'_>) -> Result<(), Question> {
        self.statsd.pass(&mut self.gatherer, message, true);
        match message.format {
            Format::Statsd => {
                self.statsd.lines(&mut self.gatherer, message, true, &mut TakenLines::default())
            }
            _ => Ok(()),
        }
    }

    /// Adds the updates of a message to the head.
    ///
    /// # Errors
    /// If a series is new, what to ask the store for. Then nothing is added, and the call is to be
    /// repeated.
    pub(crate) fn take(&mut self, message: Message<'_>) -> Result<TakenLines, Question> {
        let mut taken = TakenLines::default();
        self.gatherer.arrives(message.arrived);
        self.statsd.pass(&mut self.gatherer, message, false);
        match message.format {
            Format::Statsd => self.statsd.lines(&mut self.gatherer, message, false, &mut taken)?,
            Format::Message(protocol) => {
                let gatherer = Some(&mut self.gatherer);
                self.elements.take(gatherer, protocol, message, &mut taken)?;
            }
            Format::Graphite | Format::Influx(_) => self.lines(message, false, &mut taken)?,
        }
        if let Some(key) = message.key {
            self.gatherer.head.request(Request { key, at_us: message.arrived.at_us });
            taken.is_in_head = true;
        }
        self.show(message, &mut taken);
        Ok(taken)
    }

    /// The same of lines without windows; they may only be judged.
    fn lines(
        &mut self,
        message: Message<'_>,
        is_judged: bool,
        taken: &mut TakenLines,
    ) -> Result<(), Question> {
        let Intake { gatherer, readers, updates, lines, .. } = self;
        let code = message.format.code();
        let Some(reader) = readers.get_mut(code) else { return Ok(()) };
        updates.clear();
        lines.clear();
        read_lines(message, reader, taken, |number, parsed| {
            if !parsed.updates.is_empty() && !is_judged {
                updates.extend_from_slice(&parsed.updates);
                lines.push((number, parsed.updates.len()));
            }
        });
        taken.is_in_head = !updates.is_empty();
        taken.hear(message, updates.iter().map(|(_, update)| update));
        let touched = updates.iter().map(|(series, update)| (*series, update.kind));
        if let Some(missing) = gatherer.missing(code, reader.book(), touched) {
            return Err(missing);
        }
        let mut rest = updates.as_slice();
        for (number, count) in lines {
            let (line, others) = rest.split_at(*count);
            rest = others;
            match gatherer.line(line) {
                Ok(()) => taken.updates += *count as u64,
                Err(reason) => taken.refuse(*number, reason),
            }
        }
        Ok(())
    }

    /// Shows the first of the latest message that was refused, for an answer.
    fn show(&self, message: Message<'_>, taken: &mut TakenLines) {
        let shown = |number| match message.format {
            Format::Message(_) => self.elements.shown(number),
            _ => shown_line(message.lines, number),
        };
        let first = taken.first.map(|(number, reason)| (number, shown(number), reason));
        taken.refused.first = first;
    }

    /// What of a message that repeats an earlier one cannot be read. It closes windows like any other,
    /// because it does so when it is read from the journal again.
    pub(crate) fn repeated(&mut self, message: Message<'_>) -> RefusedLines {
        self.statsd.pass(&mut self.gatherer, message, false);
        self.judge(message)
    }

    /// What of a message cannot be read; what the store would refuse is not known.
    pub(crate) fn judge(&mut self, message: Message<'_>) -> RefusedLines {
        let mut taken = TakenLines::default();
        let judged = match message.format {
            Format::Influx(_) => self.lines(message, true, &mut taken),
            Format::Message(protocol) => self.elements.take(None, protocol, message, &mut taken),
            // Stream senders get no answer, so refused lines are only counted.
            Format::Graphite | Format::Statsd => Ok(()),
        };
        debug_assert!(judged.is_ok(), "only new series of a head are asked for");
        self.show(message, &mut taken);
        taken.refused
    }
}
