//! The thread that applies committed messages, and writes batches to the store.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use formats::text::{Graphite, Influx, Parser, Reader, Statsd};
use formats::{Arrival, Line, Lines, Messages, Protocol, Reason, Taken, Update};
use head::{Journal, JournalError};
use import::{BackfillError, Live};
use series::Kind;
use store::{Retention, Store, StoreError, Writer};

use super::elements::{self, Repeats};
use super::journal::Group;
use super::record::{FORMATS, Format, Record, read_windows, write_windows};
use super::session::{Session, begin};
use super::upkeep::{self, Upkeep};
use super::{Answer, IngestOptions, Message, Refused, Shared, State, now_us};
use crate::ServeError;
use crate::metrics::{ByWay, Metrics};

/// How often to look whether a batch is due.
const TICK: Duration = Duration::from_millis(50);

/// Time between two attempts to write to a store that failed.
const RETRY: Duration = Duration::from_millis(500);

/// How long a last batch may take when the daemon ends.
const LAST_BATCH: Duration = Duration::from_secs(60);

/// Length of a line in an answer.
const SHOWN_MAX: usize = 200;

/// Runs until the sender of groups is gone and everything is written.
pub(super) fn run(
    options: &IngestOptions,
    state: &State,
    metrics: &Metrics,
    groups: Receiver<Group>,
    opened: &Sender<Shared>,
) -> Result<(), ServeError> {
    let mut store = store::open(&options.place)?;
    retain(&mut *store, options)?;
    let Session { writer, upto, windows } = begin(&mut *store, &options.journal)?;
    let result = import::live(&mut *store, options.import.clone(), now_us(), |live| {
        let mut apply = Apply::new(options, state, metrics, live);
        let journal = match apply.replay(&options.journal, upto, windows) {
            Ok(journal) => Arc::new(Mutex::new(journal)),
            Err(error) => return Ok(Err(error)),
        };
        // If the receiver is gone, the daemon is already ending.
        let _ = opened.send(journal.clone());
        Ok(apply.work(&groups, &journal, writer))
    });
    result?
}

/// Ensures that the step has a retention; a new store gets the usual ones.
fn retain(store: &mut dyn Store, options: &IngestOptions) -> Result<(), StoreError> {
    let step = options.import.step;
    let known = store.retentions()?;
    let mut wanted = Vec::new();
    if known.is_empty() {
        let usual = Retention::usual();
        wanted.extend(usual.into_iter().filter(|usual| step.divides(usual.step)));
    }
    if !known.iter().chain(&wanted).any(|retention| retention.step == step) {
        wanted.push(Retention { step, age_us: None });
    }
    if wanted.is_empty() { Ok(()) } else { store.retain(&wanted) }
}

/// What the last batch must contain: the position of the last lines, and of the last record.
#[derive(Clone, Copy)]
struct Last {
    lines: u64,
    upto: u64,
}

pub(super) struct Apply<'a, 'r, 's> {
    options: &'a IngestOptions,
    state: &'a State,
    pub(super) metrics: &'a Metrics,
    pub(super) live: &'a mut Live<'r, 's>,
    /// In the order of [`FORMATS`].
    pub(super) readers: Vec<Reader>,
    /// Reads binary messages.
    pub(super) messages: Messages,
    /// The content of the latest binary message, and how many of its samples and histograms were
    /// accepted.
    pub(super) taken: Taken,
    pub(super) accepted: (u64, u64),
    pub(super) repeats: Repeats,
    /// The position of the last message that was applied.
    applied: u64,
    /// When the oldest line arrived that is in the head, and in the batch that is being written.
    pub(super) oldest_us: Option<i64>,
    oldest_writing_us: Option<i64>,
    /// The position up to which the batch that is being written contains the journal.
    writing: u64,
    written: Instant,
    retried: Instant,
    begun: Instant,
    upkeep: Upkeep,
    /// Set when a successor is to take over.
    last: Option<Last>,
    /// Whether the journal has been read.
    is_open: bool,
    /// Whether lines have changed windows since these were last added to the head.
    pub(super) has_new_windows: bool,
    /// The last windows record, and the first message that is needed with it; if there are none,
    /// every message before the next batch can be released.
    windows: Option<(Vec<u8>, u64)>,
    /// The gauges whose last value the parser has.
    pub(super) gauges: HashSet<formats::Series>,
    /// The updates of a message, and the number and the count of updates of each line.
    updates: Vec<(formats::Series, Update)>,
    lines: Vec<(u64, usize)>,
}

impl<'a, 'r, 's> Apply<'a, 'r, 's> {
    fn new(
        options: &'a IngestOptions,
        state: &'a State,
        metrics: &'a Metrics,
        live: &'a mut Live<'r, 's>,
    ) -> Apply<'a, 'r, 's> {
        let import = &options.import;
        let series_max = usize::try_from(import.series.series).unwrap_or(usize::MAX);
        let reader = |format: &Format| {
            let parser: Box<dyn Parser> = match format {
                Format::Graphite => Box::new(Graphite::new(Kind::Gauge)),
                Format::Influx(precision) => Box::new(Influx::new(Kind::Gauge, *precision)),
                Format::Statsd => Box::new(Statsd::live(import.step)),
                // Binary messages have no lines.
                Format::Message(_) => Box::new(Graphite::new(Kind::Gauge)),
            };
            Reader::new(parser, import.limits, series_max)
        };
        Apply {
            options,
            state,
            metrics,
            live,
            readers: FORMATS.iter().map(reader).collect(),
            messages: Messages::new(import.limits, series_max),
            taken: Taken::default(),
            accepted: (0, 0),
            repeats: Repeats::default(),
            applied: 0,
            oldest_us: None,
            oldest_writing_us: None,
            writing: 0,
            written: Instant::now(),
            retried: Instant::now(),
            begun: Instant::now(),
            upkeep: Upkeep::default(),
            last: None,
            is_open: false,
            has_new_windows: false,
            windows: None,
            gauges: HashSet::new(),
            updates: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Applies the records after a position, and opens the journal for writing. StatsD lines before
    /// it are read again if their windows are open.
    fn replay(
        &mut self,
        folder: &Path,
        upto: u64,
        windows: Option<Vec<u8>>,
    ) -> Result<Journal, ServeError> {
        if upto > 0 {
            // What the store has may be sent again by those who did not get their answer.
            Journal::open(folder, 0, |position, bytes| {
                if let Some(Record::Lines { format, arrival_us, lines }) = Record::read(bytes)
                    && format == Format::Message(Protocol::Otlp)
                    && position <= upto
                {
                    self.remember(arrival_us, lines);
                }
                Ok::<(), JournalError>(())
            })?;
        }
        let mut carried = None;
        if let Some((bytes, (windows, book))) = windows.zip(self.statsd().windows()) {
            let unknown = || ServeError::Record(folder.to_owned());
            let read = read_windows(&bytes, book).ok_or_else(unknown)?;
            windows.go_back(&read);
            self.windows = Some((bytes, read.from));
            carried = Some(read);
        }
        let after =
            carried.as_ref().map_or(upto, |carried| upto.min(carried.from.saturating_sub(1)));
        let mut journal = Journal::open(folder, after, |position, bytes| {
            if position > upto
                && let Some(carried) = carried.take()
            {
                self.continue_windows(carried.owed);
            }
            match Record::read(bytes) {
                Some(Record::Lines { format, arrival_us, lines }) => {
                    let is_known = position <= upto;
                    self.metrics.journal_replayed.inc_by(u64::from(!is_known));
                    let at = At { position, arrival_us, is_known };
                    self.lines(format, at, lines, &mut |_| ())?;
                    Ok(())
                }
                Some(Record::Windows { .. } | Record::Batch { .. }) => Ok(()),
                None => Err(ServeError::Record(folder.to_owned())),
            }
        })?;
        if let Some(carried) = carried.take() {
            self.continue_windows(carried.owed);
        }
        if journal.last() < upto {
            // Positions that the store knows are not used again.
            drop(journal);
            journal = Journal::open(folder, upto, |_, _| Ok::<(), JournalError>(()))?;
        }
        self.applied = journal.last();
        self.is_open = true;
        self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
        Ok(journal)
    }

    /// The position up to which the journal can be released after a batch with everything up to
    /// `upto`.
    fn releasable(&self, upto: u64) -> u64 {
        self.windows.as_ref().map_or(upto, |(_, from)| upto.min(from.saturating_sub(1)))
    }

    fn work(
        &mut self,
        groups: &Receiver<Group>,
        journal: &Shared,
        writer: Writer,
    ) -> Result<(), ServeError> {
        // The session's first batch was empty.
        let mut number = 1;
        loop {
            self.poll(journal, Duration::ZERO)?;
            let is_last = self.state.last_batch.load(Ordering::Relaxed);
            let is_due = if is_last { self.is_last_due(journal) } else { self.is_due() };
            if is_due && self.write(journal, writer, number + 1)? {
                number += 1;
            }
            self.show();
            let is_full =
                self.live.bytes() >= self.options.import.head_bytes && self.live.is_writing();
            self.state.full.store(is_full, Ordering::Relaxed);
            if is_full {
                self.poll(journal, TICK)?;
                continue;
            }
            match groups.recv_timeout(TICK) {
                Ok(group) => {
                    let first = group.last + 1 - group.messages.len() as u64;
                    for (position, message) in (first..).zip(group.messages) {
                        self.message(message, position)?;
                    }
                    self.applied = group.last;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.maintain();
        }
        self.finish(journal, writer, number + 1)
    }

    /// Writes what remains.
    fn finish(&mut self, journal: &Shared, writer: Writer, number: u64) -> Result<(), ServeError> {
        if self.state.last_batch.load(Ordering::Relaxed) {
            // The successor reads the rest from the journal. A batch that is being written ends
            // with the store's thread.
            return Ok(());
        }
        let deadline = Instant::now() + LAST_BATCH;
        while self.live.is_writing() {
            self.poll(journal, TICK)?;
            if let Some(error) = self.state.store_error()
                && Instant::now() > deadline
            {
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        if self.live.is_empty() && !self.has_new_windows {
            return self.shorten(journal, writer, number - 1);
        }
        while !self.write(journal, writer, number)? {
            std::thread::sleep(TICK);
            if Instant::now() > deadline {
                let error = self.state.store_error().unwrap_or_default();
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        while self.live.is_writing() {
            self.poll(journal, TICK)?;
            // A store that fails now may be gone for long, and the journal has everything.
            if let Some(error) = self.state.store_error() {
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        self.shorten(journal, writer, number)
    }

    /// Deletes all that the record has from the journal, so that the next start reads little. The
    /// journal still tells the last batch.
    fn shorten(&self, journal: &Shared, writer: Writer, number: u64) -> Result<(), ServeError> {
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing but records of batches follows the last message.
        let upto = journal.last();
        journal.start_file()?;
        if let Some((windows, _)) = &self.windows {
            journal.append(windows)?;
        }
        let mut bytes = Vec::new();
        Record::Batch { writer, number, upto }.write(&mut bytes);
        journal.append(&bytes)?;
        journal.commit()?;
        journal.release(self.releasable(upto))?;
        Ok(())
    }

    /// Whether the last batch before a successor takes over is to be written now.
    ///
    /// It contains everything up to a new file of the journal, so that the successor has little to
    /// read.
    fn is_last_due(&mut self, journal: &Shared) -> bool {
        if self.state.is_flushed.load(Ordering::Relaxed) || self.live.is_writing() {
            return false;
        }
        let last = *self.last.get_or_insert_with(|| {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            // Without a new file the successor has more to read.
            let _ = journal.start_file();
            Last { lines: self.state.journaled.load(Ordering::Relaxed), upto: journal.last() }
        });
        if self.writing >= last.upto {
            self.state.is_flushed.store(true, Ordering::Relaxed);
            return false;
        }
        self.applied >= last.lines
    }

    /// The position up to which everything is applied.
    fn upto(&self) -> u64 {
        match self.last {
            // Only records of batches follow the lines.
            Some(Last { lines, upto }) if self.applied >= lines => self.applied.max(upto),
            _ => self.applied,
        }
    }

    fn is_due(&self) -> bool {
        let is_half_full = self.live.bytes() >= self.options.import.head_bytes / 2;
        let since = self.written.elapsed();
        let is_late = since >= self.options.write_each;
        let is_time = is_late || is_half_full && since >= TICK;
        let has_any = !self.live.is_empty() || self.has_new_windows;
        !self.live.is_writing() && has_any && is_time
    }

    /// Begins to write a batch, after its record is on disk; false if that must wait, because the
    /// journal's disk is full.
    fn write(&mut self, journal: &Shared, writer: Writer, number: u64) -> Result<bool, ServeError> {
        let upto = self.upto();
        self.flush_windows(false);
        if let Some((windows, book)) = self.statsd().windows()
            && windows.is_used()
        {
            let mut bytes = Vec::new();
            let from = write_windows(windows, book, upto + 1, &mut bytes);
            self.windows = Some((bytes, from));
        }
        let mut bytes = Vec::new();
        Record::Batch { writer, number, upto }.write(&mut bytes);
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        let windows = self.windows.iter().map(|(bytes, _)| bytes);
        let appended =
            windows.chain([&bytes]).try_for_each(|bytes| journal.append(bytes).map(|_| ()));
        let done = appended.and_then(|()| journal.commit());
        self.written = Instant::now();
        if let Err(error) = done {
            journal.undo()?;
            self.metrics.journal_errors.inc();
            self.state.set_store_error(Some(error.to_string()));
            return Ok(false);
        }
        drop(journal);
        self.live.write(&[(writer, number)]);
        self.writing = upto;
        self.oldest_writing_us = self.oldest_us.take();
        Ok(true)
    }

    /// Looks at the batch that is being written, and tries again one that failed.
    fn poll(&mut self, journal: &Shared, limit: Duration) -> Result<(), ServeError> {
        match self.live.ended(limit) {
            None if self.state.store_error().is_some() && self.retried.elapsed() >= RETRY => {
                self.retried = Instant::now();
                self.live.again();
            }
            None => {}
            Some(Ok(omitted)) => {
                self.state.set_store_error(None);
                self.oldest_writing_us = None;
                self.metrics.batches.inc();
                self.metrics.series_omitted.inc_by(omitted as u64);
                let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                // A file that cannot be deleted now is deleted with the next batch.
                if journal.release(self.releasable(self.writing)).is_err() {
                    self.metrics.journal_errors.inc();
                }
                self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
            }
            Some(Err(error)) => {
                self.metrics.store_errors.inc();
                self.retried = Instant::now();
                self.state.set_store_error(Some(error.to_string()));
            }
        }
        Ok(())
    }

    /// Begins a part of the upkeep, if it is due and no batch is being written.
    fn maintain(&mut self) {
        if self.live.is_writing() {
            return;
        }
        let Some(now_us) = self.upkeep.due(self.begun.elapsed(), now_us()) else { return };
        let (metrics, ended) = (self.metrics.clone(), self.upkeep.begin());
        self.live.maintain(now_us, upkeep::PART, move |done| {
            metrics.upkeep(&done);
            ended.set(done.is_ok_and(|done| done.is_partial));
        });
    }

    /// Publishes the figures that change all the time.
    fn show(&self) {
        let oldest_us = self.oldest_writing_us.or(self.oldest_us).unwrap_or(0);
        self.state.oldest_us.store(oldest_us, Ordering::Relaxed);
        self.state.head_bytes.store(self.live.bytes() as u64, Ordering::Relaxed);
    }

    fn message(&mut self, message: Message, position: u64) -> Result<(), ServeError> {
        let Message { format, lines, arrival_us, sender, answer, room } = message;
        let mut refused = Refused::default();
        let (metrics, mut first) = (self.metrics, None);
        let at = At { position, arrival_us, is_known: false };
        let count = self.lines(format, at, &lines, &mut |(number, reason)| {
            metrics.refuse(&sender, reason.name(), 1);
            refused.lines += 1;
            first.get_or_insert((number, reason));
        })?;
        metrics.lines.get_or_create(&ByWay { way: sender.way }).inc_by(count);
        refused.first = first.map(|(number, reason)| match format {
            Format::Message(_) => (number, self.shown_element(number), reason),
            _ => (number, shown_line(&lines, number), reason),
        });
        if let Format::Message(_) = format {
            (refused.samples, refused.histograms) = self.accepted;
        }
        // A sender that is gone does not wait for its answer.
        let _ = answer.map(|to| to.send(Answer::Written(refused)));
        drop(room);
        Ok(())
    }

    /// Parses lines and adds their updates to the head; `refuse` is called with the number of each
    /// refused line, and the reason. Returns the number of lines.
    fn lines(
        &mut self,
        format: Format,
        at: At,
        lines: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<u64, StoreError> {
        let code = format.code();
        let At { position, arrival_us, is_known } = at;
        let statsd = self.statsd();
        if let Some((windows, _)) = statsd.windows() {
            windows.mark(position);
        }
        let closed = statsd.pass(arrival_us).windows.clone();
        self.give(&closed, is_known);
        if format == Format::Statsd {
            return self.statsd_lines(at, lines, refuse);
        }
        if is_known {
            return Ok(0);
        }
        if let Format::Message(protocol) = format {
            return self.elements(protocol, arrival_us, lines, refuse);
        }
        let arrival = Arrival::live(arrival_us);
        let (updates, parsed_lines) = (&mut self.updates, &mut self.lines);
        updates.clear();
        parsed_lines.clear();
        let mut count = 0;
        each_line(lines, &mut self.readers[code], |reader, line| {
            // An error would be one of a whole file.
            let Ok(parsed) = reader.line(line, arrival) else { return };
            count += u64::from(line.first);
            if let Some(reason) = parsed.reasons.first() {
                refuse((line.number, *reason));
            } else if !parsed.updates.is_empty() {
                updates.extend_from_slice(&parsed.updates);
                parsed_lines.push((line.number, parsed.updates.len()));
            }
        });
        if updates.is_empty() {
            return Ok(count);
        }
        self.oldest_us.get_or_insert(arrival_us);
        let updates = std::mem::take(&mut self.updates);
        self.find(code, || updates.iter().map(|(series, update)| (*series, update.kind)))?;
        let mut rest = updates.as_slice();
        let mut accepted = 0;
        for (number, count) in &self.lines {
            let (line, others) = rest.split_at(*count);
            rest = others;
            match self.live.line(line) {
                Ok(()) => accepted += count,
                Err(reason) => refuse((*number, reason)),
            }
        }
        self.metrics.updates.inc_by(accepted as u64);
        self.updates = updates;
        Ok(count)
    }

    /// Finds or creates series of a format; waits for the store.
    pub(super) fn find<I: Iterator<Item = (formats::Series, Kind)>>(
        &mut self,
        code: usize,
        touched: impl Fn() -> I,
    ) -> Result<(), StoreError> {
        let heartbeat_us = self.options.import.heartbeat_us;
        let book = if code == elements::BOOK.code() {
            self.live.set_heartbeat(heartbeat_us.max(elements::HEARTBEAT_US));
            self.messages.book()
        } else {
            self.live.set_heartbeat(heartbeat_us);
            self.readers[code].book()
        };
        while let Err(error) = self.live.find((code, book), touched()) {
            self.metrics.store_errors.inc();
            self.state.set_store_error(Some(error.to_string()));
            match error {
                BackfillError::Store(error) if !self.is_open => return Err(error),
                // Without the store a new series has no number. Senders wait until it is back.
                _ => std::thread::sleep(RETRY),
            }
        }
        Ok(())
    }
}

/// A message: its position in the journal, when it arrived, and whether the store has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) position: u64,
    pub(super) arrival_us: i64,
    pub(super) is_known: bool,
}

/// Calls `work` with every line.
pub(super) fn each_line(
    bytes: &[u8],
    reader: &mut Reader,
    mut work: impl FnMut(&mut Reader, Line<'_>),
) {
    if reader.quotes() != formats::Quotes::None {
        let mut lines = Lines::quoted(bytes, reader.quotes(), true);
        // Reading from memory does not fail.
        while let Ok(Some(line)) = lines.next() {
            work(reader, line);
        }
        return;
    }
    let mut number = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        let too_long = bytes.len() > formats::LINE_MAX;
        work(reader, Line { number, bytes, too_long, first: true, last: true, torn: false });
    }
}

/// A line of a message, for an answer.
fn shown_line(lines: &[u8], number: u64) -> String {
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let line = lines.split(|byte| *byte == b'\n').nth(at).unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).trim_end().to_owned()
}
